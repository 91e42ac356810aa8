//! A document of the project, read for what the tests hold it to: its code blocks, tables and links.
//!
//! An HTML comment on the line before a block or a table is its label: `<!-- call: bob -->`, `<!-- table: errors -->`.

use std::path::{Path, PathBuf};

pub struct Page {
    pub name: &'static str,
    pub text: String,
}

/// A fenced code block.
pub struct Block {
    /// The line that it begins on, from 1.
    pub line: usize,
    /// The heading that it stands under.
    pub heading: String,
    pub label: String,
    pub language: String,
    pub text: String,
}

impl Page {
    /// Reads a document by its path from the top of the project.
    pub fn read(name: &'static str) -> Page {
        let text = std::fs::read_to_string(in_project(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Page { name, text }
    }

    pub fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut label, mut heading) = (Vec::new(), "", "");
        let mut lines = self.text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            if let Some(language) = line.strip_prefix("```") {
                let text = lines.by_ref().map(|(line, _)| line).take_while(|line| !line.starts_with("```"));
                let text = text.flat_map(|line| [line, "\n"]).collect();
                let (heading, label, language) = (heading.to_owned(), label.to_owned(), language.to_owned());
                blocks.push(Block { line: number, heading, label, language, text });
            } else if line.starts_with('#') {
                heading = line.trim_start_matches('#').trim();
            }
            label = comment(line).unwrap_or_default();
        }
        blocks
    }

    /// The rows of the table with this label, without its heading.
    #[track_caller]
    pub fn table(&self, name: &str) -> Vec<Vec<String>> {
        let wanted = format!("table: {name}");
        let lines = self.text.lines().skip_while(|line| comment(line) != Some(&wanted)).skip(1);
        let rows: Vec<_> = lines.take_while(|line| line.starts_with('|')).skip(2).map(cells).collect();
        assert!(!rows.is_empty(), "{} has no table '{name}'", self.name);
        rows
    }

    /// Where its relative links lead, outside code.
    pub fn relative_links(&self) -> Vec<PathBuf> {
        let folder = in_project(self.name).parent().expect("a folder").to_owned();
        let mut in_code = false;
        let prose = self.text.lines().filter(|line| {
            in_code ^= line.starts_with("```");
            !in_code
        });
        let links = prose.flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
        let relative = links.filter(|link| !link.contains("://")).filter_map(|link| link.split('#').next());
        relative.filter(|path| !path.is_empty()).map(|path| folder.join(path)).collect()
    }

    /// The headings that its links to itself name and that are not there.
    pub fn broken_anchors(&self) -> Vec<String> {
        self.anchors_in("").into_iter().filter(|anchor| !self.has_anchor(anchor)).collect()
    }

    /// The headings of `document` that it links to; of itself with an empty name.
    pub fn anchors_in(&self, document: &str) -> Vec<String> {
        let beginning = format!("]({document}#");
        let links = self.text.split(&beginning).skip(1);
        links.filter_map(|rest| rest.split(')').next()).map(ToOwned::to_owned).collect()
    }

    pub fn has_anchor(&self, name: &str) -> bool {
        self.text.lines().filter(|line| line.starts_with('#')).any(|heading| anchor(heading) == name)
    }
}

pub fn in_project(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn comment(line: &str) -> Option<&str> {
    line.strip_prefix("<!-- ")?.strip_suffix(" -->")
}

/// The cells of a table's line, without the marks of code.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(|cell| cell.trim().replace('`', "")).collect()
}

/// The name by which a heading is linked to.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    kept.map(|character| if character == ' ' { '-' } else { character }).collect()
}
