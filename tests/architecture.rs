//! The architecture, as `src/ARCHITECTURE.md` draws it, read out of the sources: which way the arrows point, what knows
//! what, and that every file says what it is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What the crate is made of, from the middle outwards. Each may use itself and what stands before it; those that share
/// a line may use each other.
const LAYERS: [&[&str]; 6] =
    [&["error"], &["domain"], &["store"], &["relay"], &["api"], &["cli", "config", "client", "main", "lib"]];

/// Crates of the field that belong to one part of ours.
const CONFINED: [(&str, &[&str]); 21] = [
    ("rusqlite", &["store"]),
    ("r2d2", &["store"]),
    ("r2d2_sqlite", &["store"]),
    ("axum", &["api"]),
    ("http", &["api"]),
    ("tower", &["api"]),
    ("tonic", &["api"]),
    ("tonic_types", &["api"]),
    ("prost_types", &["api"]),
    ("a2a_pb", &["api"]),
    ("httpdate", &["api"]),
    ("hyper", &["api"]),
    ("hyper_util", &["api"]),
    ("tokio_rustls", &["api"]),
    ("rustls_native_certs", &["api"]),
    ("clap", &["cli", "config"]),
    ("clap_complete", &["cli"]),
    ("comfy_table", &["cli"]),
    ("indicatif", &["cli"]),
    ("directories", &["config"]),
    ("tracing_subscriber", &["cli"]),
];

/// A source file.
struct Source {
    path: PathBuf,
    /// As it stands.
    text: String,
    /// Its code up to the tests inside it, with comments and the contents of strings blanked out.
    code: String,
    /// The same with strings.
    code_with_strings: String,
}

impl Source {
    fn read(path: &Path) -> Source {
        let text = std::fs::read_to_string(path).expect("a source file");
        let tested = text.find("\n#[cfg(test)]\nmod ").unwrap_or(text.len());
        let code = blanked(&text[..tested], true);
        let code_with_strings = without_comments(&text[..tested]);
        Source { path: path.strip_prefix(root()).expect("a path of ours").to_owned(), text, code, code_with_strings }
    }

    /// The module's path from the crate's root: `src/api/rest/mod.rs` is `api::rest`.
    fn module(&self) -> Vec<String> {
        let inside = self.path.strip_prefix("src").expect("a source file").with_extension("");
        let mut names: Vec<String> = inside.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        if names.last().is_some_and(|name| name == "mod") {
            names.pop();
        }
        names
    }

    /// The part of the crate that it belongs to.
    fn part(&self) -> String {
        self.module().swap_remove(0)
    }

    /// The paths into the crate that its code names, from the root, as far as they can be told.
    fn paths(&self) -> BTreeSet<Vec<String>> {
        let mut found = BTreeSet::new();
        for (start, _) in self.code.match_indices("crate::") {
            let before = self.code[..start].chars().next_back();
            if before.is_none_or(|before| !before.is_alphanumeric() && before != '_' && before != '$') {
                expand(&self.code[start + "crate::".len()..], &[], &mut found);
            }
        }
        // `super::super` reaches over the edge of a part that is a folder.
        for (start, _) in self.code.match_indices("super::") {
            if self.code[..start].ends_with("super::") {
                continue;
            }
            let mut base = self.module();
            let mut rest = &self.code[start..];
            while let Some(after) = rest.strip_prefix("super::") {
                (rest, _) = (after, base.pop());
            }
            expand(rest, &base, &mut found);
        }
        found.retain(|path| !path.is_empty());
        found
    }
}

/// Follows a path, also into `{…}`.
fn expand(text: &str, base: &[String], found: &mut BTreeSet<Vec<String>>) {
    let text = text.trim_start();
    if let Some(group) = text.strip_prefix('{') {
        let (mut depth, mut start) = (0, 0);
        for (at, character) in group.char_indices() {
            match character {
                '{' => depth += 1,
                ',' if depth == 0 => {
                    expand(&group[start..at], base, found);
                    start = at + 1;
                }
                '}' if depth == 0 => return expand(&group[start..at], base, found),
                '}' => depth -= 1,
                _ => {}
            }
        }
        return;
    }
    let end = text.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(text.len());
    let mut path = base.to_vec();
    if end > 0 && &text[..end] != "self" {
        path.push(text[..end].to_owned());
    }
    match text[end..].strip_prefix("::") {
        Some(rest) => expand(rest, &path, found),
        None => drop(found.insert(path)),
    }
}

/// The code with comments and character literals blanked out.
pub fn without_comments(source: &str) -> String {
    blanked(source, false)
}

/// The code with comments blanked out, and with the contents of strings when `strings_too`. Every other character stays
/// in its place.
fn blanked(source: &str, strings_too: bool) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    let blank = |out: &mut String, text: &str| out.extend(text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
    while let Some(first) = rest.chars().next() {
        let raw = rest.strip_prefix('r').map(|tail| (tail.len() - tail.trim_start_matches('#').len(), tail));
        let raw = raw.filter(|(hashes, tail)| tail[*hashes..].starts_with('"') && !ends_in_word(&out));
        let length = if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            blank(&mut out, &rest[..end]);
            end
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
            blank(&mut out, &rest[..end]);
            end
        } else if let Some((hashes, _)) = raw {
            let close = format!("\"{}", "#".repeat(hashes));
            let end = rest[hashes + 2..].find(&close).map_or(rest.len(), |end| hashes + 2 + end + close.len());
            string(&mut out, &rest[..end], strings_too);
            end
        } else if first == '"' {
            let mut escaped = false;
            let end = rest[1..].char_indices().find(|(_, character)| {
                let ends = *character == '"' && !escaped;
                escaped = *character == '\\' && !escaped;
                ends
            });
            let end = end.map_or(rest.len(), |(end, _)| end + 2);
            string(&mut out, &rest[..end], strings_too);
            end
        } else if let Some(length) = character_literal(rest) {
            blank(&mut out, &rest[..length]);
            length
        } else {
            out.push(first);
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    out
}

fn string(out: &mut String, literal: &str, blank: bool) {
    if blank {
        out.push('"');
        out.extend(literal.chars().filter(|character| *character == '\n'));
        out.push('"');
    } else {
        out.push_str(literal);
    }
}

fn ends_in_word(out: &str) -> bool {
    out.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '_')
}

/// The length of the character literal that `rest` begins with. A lifetime is none.
fn character_literal(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    if first == '\\' {
        return inside[1..].find('\'').map(|end| end + 3).filter(|length| *length < 14);
    }
    inside[first.len_utf8()..].starts_with('\'').then(|| first.len_utf8() + 2)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files in a folder and below, in order.
fn files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn sources() -> Vec<Source> {
    files("src").iter().map(|path| Source::read(path)).collect()
}

fn layer(part: &str) -> usize {
    let found = LAYERS.iter().position(|parts| parts.contains(&part));
    found.unwrap_or_else(|| panic!("src/{part} has no place in the architecture: give it one in tests/architecture.rs"))
}

#[track_caller]
fn assert_none(offences: &[String], rule: &str) {
    assert!(offences.is_empty(), "{rule}:\n{}", offences.join("\n"));
}

#[test]
fn arrows_point_one_way_from_the_wires_to_the_domain() {
    let mut offences = Vec::new();
    for source in sources() {
        for path in source.paths() {
            let known = LAYERS.iter().any(|parts| parts.contains(&path[0].as_str()));
            if known && layer(&path[0]) > layer(&source.part()) {
                offences.push(format!("{} uses {}", source.path.display(), path.join("::")));
            }
        }
    }
    assert_none(&offences, "error <- domain <- store <- relay <- api <- cli");
}

#[test]
fn the_reading_of_paths_sees_through_groups_and_relative_ones() {
    let mut found = BTreeSet::new();
    expand("{store::{self, events as log}, error::Error, api}; fn", &[], &mut found);
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["api", "error::Error", "store", "store::events"]);
    let code =
        blanked("let a = \"crate::cli\"; // crate::cli\nlet b = '\"'; x::<'a>(r#\"crate::\"cli\"#, crate::api)", true);
    assert_eq!(code.matches("crate::").count(), 1, "{code}");
    let used: BTreeSet<String> = sources().iter().flat_map(Source::paths).map(|path| path[0].clone()).collect();
    assert!(used.contains("domain") && used.contains("relay"), "{used:?}");
}

#[test]
fn dialects_do_not_know_each_other() {
    let sources = sources();
    let dialects: BTreeSet<String> = sources
        .iter()
        .filter(|source| source.path.starts_with("src/api") && source.module().len() > 2)
        .map(|source| source.module()[1].clone())
        .collect();
    assert_eq!(dialects.iter().map(String::as_str).collect::<Vec<_>>(), ["a2a", "rest", "rpc"]);
    let mut offences = Vec::new();
    for source in sources.iter().filter(|source| source.path.starts_with("src/api")) {
        let module = source.module();
        let Some(own) = module.get(1).filter(|own| dialects.contains(*own)) else {
            continue;
        };
        for path in source.paths() {
            if path[0] == "api" && path.get(1).is_some_and(|other| dialects.contains(other) && other != own) {
                offences.push(format!("{} uses {}", source.path.display(), path.join("::")));
            }
        }
    }
    assert_none(&offences, "a dialect of the API knows the relay, and no other dialect");
}

#[test]
fn crates_of_the_field_stay_in_the_part_that_they_serve() {
    let mut offences = Vec::new();
    for source in sources() {
        for (name, parts) in CONFINED {
            let path = format!("{name}::");
            let used = source.code.match_indices(&path).any(|(at, _)| {
                let before = &source.code[..at];
                !ends_in_word(before) && !before.ends_with("::")
            });
            if used && !parts.contains(&source.part().as_str()) {
                offences.push(format!("{} uses {name}", source.path.display()));
            }
        }
    }
    assert_none(&offences, "SQLite stays in store, HTTP in api, the terminal in cli");
}

#[test]
fn sql_stays_in_the_store() {
    let verbs =
        ["SELECT ", "INSERT INTO", "INSERT OR", "UPDATE ", "DELETE FROM", "CREATE TABLE", "PRAGMA ", "BEGIN IMMEDIATE"];
    let mut offences = Vec::new();
    for source in sources().iter().filter(|source| source.part() != "store") {
        for verb in verbs {
            if source.code_with_strings.contains(&format!("\"{verb}")) {
                offences.push(format!("{}: {verb}…", source.path.display()));
            }
        }
    }
    assert_none(&offences, "the only SQL of the crate is in src/store");
}

#[test]
fn entities_do_not_know_json() {
    // Ids, handles and moments are words; what was wrong with a request is a document.
    let words = ["$name", "Handle", "Timestamp"];
    let mut offences = Vec::new();
    for source in sources().iter().filter(|source| matches!(source.part().as_str(), "domain" | "store" | "relay")) {
        let derives = source.code.split("derive(").skip(1).filter(|derive| {
            let list = derive.split(')').next().unwrap_or_default();
            list.contains("Serialize") || list.contains("Deserialize")
        });
        if derives.count() > 0 && source.path != Path::new("src/domain/json.rs") {
            offences.push(format!("{} derives serde's traits", source.path.display()));
        }
        for (at, _) in source.code.match_indices("Serialize for ") {
            let entity = &source.code[at + "Serialize for ".len()..];
            if !words.iter().any(|word| entity.starts_with(word)) {
                offences.push(format!(
                    "{} serializes {}",
                    source.path.display(),
                    entity.lines().next().unwrap_or_default()
                ));
            }
        }
    }
    assert_none(&offences, "each dialect has its own wire structs; Thread, Agent, Message and their like have none");
}

#[test]
fn an_errors_number_is_written_in_its_error_table_and_nowhere_else() {
    // The numbers of the two overlap: A2A's stand in a table of their own, for A2A alone.
    let tables = ["src/error.rs", "src/api/a2a/error.rs"].map(Path::new);
    let mut offences = Vec::new();
    for source in sources().iter().filter(|source| !tables.contains(&&*source.path)) {
        for (at, _) in source.code_with_strings.match_indices("32") {
            let number = &source.code_with_strings[at..];
            let digits = number.bytes().take_while(u8::is_ascii_digit).count();
            let before = source.code_with_strings[..at].trim_end();
            if digits == 5 && matches!(&number[2..3], "0" | "6" | "7") && before.ends_with('-') {
                offences.push(format!("{}: -{}", source.path.display(), &number[..5]));
            }
        }
    }
    assert_none(&offences, "only src/error.rs and src/api/a2a/error.rs write JSON-RPC error codes");
}

#[test]
fn time_comes_in_through_the_door() {
    let mut offences = Vec::new();
    for source in sources().iter().filter(|source| matches!(source.part().as_str(), "domain" | "store" | "relay")) {
        let reads = ["SystemTime::now", "Instant::now", "Timestamp::now"].iter().any(|now| source.code.contains(now));
        if reads && source.path != Path::new("src/domain/time.rs") {
            offences.push(source.path.display().to_string());
        }
    }
    assert_none(&offences, "operations get their moment from the store's clock");
}

#[test]
fn nothing_unwraps_or_is_left_to_do() {
    let mut offences = Vec::new();
    for source in sources() {
        for word in [".unwrap()", "todo!(", "unimplemented!(", "dbg!(", "unsafe "] {
            if source.code.contains(word) {
                offences.push(format!("{} has {word}", source.path.display()));
            }
        }
        let talks = ["println!(", "print!("].iter().any(|word| source.code.contains(word));
        if talks && source.part() != "cli" {
            offences.push(format!("{} prints", source.path.display()));
        }
    }
    assert_none(&offences, "a relay does not panic, and only commands print");
}

#[test]
fn every_file_says_what_it_is() {
    let mut offences = Vec::new();
    for folder in ["src", "tests", "benches", "examples"] {
        for path in files(folder) {
            let source = Source::read(&path);
            let is_map = source.text.starts_with("#![doc = include_str!(\"ARCHITECTURE.md\")]");
            let opening = source.text.lines().next().unwrap_or_default();
            let says = opening.strip_prefix("//! ").is_some_and(|sentence| sentence.len() > 4);
            if !is_map && !says {
                offences.push(format!("{}: {opening}", source.path.display()));
            }
        }
    }
    assert_none(&offences, "a file opens with //! and one sentence on what it is");
}

#[test]
fn every_file_is_a_module_of_the_one_above_it() {
    let mut offences = Vec::new();
    for source in sources() {
        let module = source.module();
        let (name, above) = module.split_last().expect("a module");
        if above.is_empty() && matches!(name.as_str(), "lib" | "main") {
            continue;
        }
        let folder = root().join("src").join(above.iter().collect::<PathBuf>());
        let parents =
            [folder.join("mod.rs"), folder.with_extension("rs"), folder.join("lib.rs"), folder.join("main.rs")];
        let declared = parents.iter().filter(|parent| parent.is_file()).any(|parent| {
            let code = Source::read(parent).code;
            code.lines().any(|line| {
                let declaration = line.trim().strip_suffix(';').and_then(|line| line.rsplit_once("mod "));
                declaration.is_some_and(|(_, declared)| declared == name)
            })
        });
        if !declared {
            offences.push(source.path.display().to_string());
        }
    }
    assert_none(&offences, "these files belong to no module and are not compiled");
}

#[test]
fn no_file_is_named_after_nothing() {
    let empty = ["manager", "service", "helper", "helpers", "util", "utils", "data", "common", "misc", "types"];
    let named =
        sources().into_iter().filter(|source| empty.contains(&source.module().last().expect("a name").as_str()));
    let offences: Vec<String> = named.map(|source| source.path.display().to_string()).collect();
    assert_none(&offences, "a name that says nothing is a hint that the idea has not been found yet");
}
