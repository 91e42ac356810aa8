//! `agentrelay config`: the settings as they take effect.

use clap::ArgMatches;
use serde::Serialize;
use serde_json::Value;

use crate::cli::Failure;
use crate::cli::console::{Console, Table};
use crate::config::{self, Common, Effective, Settings, Source};

/// Show each setting, its value and where that came from
///
/// Takes the options of `agentrelay serve` and shows what that would do with them. Secrets are not shown.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    settings: Settings,
}

impl Args {
    pub(super) fn run(self, common: &Common, matches: &ArgMatches, console: Console) -> Result<(), Failure> {
        let matches = matches.subcommand().map_or(matches, |(_, matches)| matches);
        let list = List { settings: config::effective(common, &self.settings, matches)? };
        console.show(&list, || {
            let mut table = Table::with_headings(["SETTING", "VALUE", "SOURCE"]);
            for setting in &list.settings {
                table.add([&setting.name, &shown(&setting.value), &origin(setting)]);
            }
            table
        })
    }
}

#[derive(Serialize)]
struct List {
    settings: Vec<Effective>,
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn origin(setting: &Effective) -> String {
    let place = match setting.source {
        Source::Flag => Some(&setting.flag),
        Source::Environment => setting.variable.as_ref(),
        Source::Default => None,
    };
    place.map_or_else(|| setting.source.name().to_owned(), |place| format!("{} {place}", setting.source.name()))
}
