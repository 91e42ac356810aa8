//! What commands print: data on standard output, everything else on standard error.
//!
//! Whatever comes from the data file may have been written by a stranger, so it is made visible here, at the one place
//! that everything passes.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::cli::visible::{visible, visible_json};
use crate::cli::{Exit, Failure};
use crate::config::Output;

/// Standard output and standard error, in the form that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Console {
    output: Output,
}

impl Console {
    pub(super) fn new(output: Output) -> Console {
        Console { output }
    }

    /// Prints data: the document, or the table that shows it.
    pub(super) fn show(self, document: &impl Serialize, table: impl FnOnce() -> Table) -> Result<(), Failure> {
        match self.output {
            Output::Json => print_document(document),
            Output::Table => unless_unread(print(table().text().as_bytes())),
        }
    }

    /// Says that something was done. Programs that asked for JSON also get what it was done to.
    pub(super) fn done(self, document: &impl Serialize, sentence: &str) -> Result<(), Failure> {
        note(sentence);
        match self.output {
            Output::Json => print_document(document),
            Output::Table => Ok(()),
        }
    }

    /// Hands a secret over: alone on standard output, or in the document. When nobody took it that is an error.
    pub(super) fn hand_over(self, document: &impl Serialize, secret: &str) -> io::Result<()> {
        match self.output {
            Output::Json => print(json(document)?.as_bytes()),
            Output::Table => print(format!("{secret}\n").as_bytes()),
        }
    }
}

/// Prints one JSON document.
pub(super) fn print_document(document: &impl Serialize) -> Result<(), Failure> {
    unless_unread(json(document).and_then(|text| print(text.as_bytes())))
}

/// Prints what is neither a table nor a document.
pub(super) fn print_raw(bytes: &[u8]) -> Result<(), Failure> {
    unless_unread(print(bytes))
}

/// Says something to the person at the terminal. If standard error is closed there is nobody to tell.
pub(super) fn note(sentence: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible(sentence));
}

/// What a command line that could not be read asked for.
pub(super) fn asked_for(args: &[OsString]) -> Output {
    let mut asked = std::env::var("AGENTRELAY_OUTPUT").ok();
    let mut texts = args.iter().map(|arg| arg.to_string_lossy()).take_while(|arg| arg != "--");
    while let Some(text) = texts.next() {
        if text == "--output" {
            asked = texts.next().map(Into::into);
        } else if let Some(value) = text.strip_prefix("--output=") {
            asked = Some(value.to_owned());
        }
    }
    asked.and_then(|name| Output::from_str(&name, false).ok()).unwrap_or(Output::Table)
}

/// Aligned columns.
pub(super) struct Table(comfy_table::Table);

impl Table {
    /// A list with these headings.
    pub(super) fn with_headings<const COLUMNS: usize>(headings: [&str; COLUMNS]) -> Table {
        let mut table = Table::without_headings();
        table.0.set_header(headings);
        table
    }

    /// A record: a name and a value on each line.
    pub(super) fn without_headings() -> Table {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
        Table(table)
    }

    /// Adds a line.
    pub(super) fn add<const COLUMNS: usize>(&mut self, cells: [&str; COLUMNS]) {
        self.0.add_row(cells.map(visible));
    }

    fn text(mut self) -> String {
        for column in self.0.column_iter_mut() {
            column.set_padding((0, 2));
        }
        if self.0.is_empty() { String::new() } else { self.0.trim_fmt() + "\n" }
    }
}

/// What a table shows for an absent value.
pub(super) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn json(document: &impl Serialize) -> io::Result<String> {
    let text = serde_json::to_string_pretty(document)?;
    Ok(format!("{}\n", visible_json(&text)))
}

fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// A reader that closed the pipe has read enough: that is no failure.
fn unless_unread(printed: io::Result<()>) -> Result<(), Failure> {
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failure, "cannot write to standard output").because(&error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_aligned_columns_and_no_trailing_spaces() {
        let mut table = Table::with_headings(["HANDLE", "NAME"]);
        table.add(["frank@acme", "李雷"]);
        table.add(["bob@acme", "B\x1b[2J\nob"]);
        assert_eq!(table.text(), "HANDLE      NAME\nfrank@acme  李雷\nbob@acme    B\\u{1b}[2J\\nob\n");
        assert_eq!(Table::with_headings(["HANDLE"]).text(), "");
    }

    #[test]
    fn the_form_that_was_asked_for_is_found_in_a_command_line_that_cannot_be_read() {
        let asked = |args: &[&str]| asked_for(&args.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(asked(&["agentrelay", "agent", "--output", "json", "--wrong"]), Output::Json);
        assert_eq!(asked(&["agentrelay", "--output=json"]), Output::Json);
        assert_eq!(asked(&["agentrelay", "--output=yaml"]), Output::Table);
        assert_eq!(asked(&["agentrelay", "--output"]), Output::Table);
    }
}
