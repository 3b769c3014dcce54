//! `rejoin calendars`: import and export of the caller's calendars as iCalendar files; through the API.
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Subcommand;
use serde_json::{Value, json};

use crate::{
    client::Client,
    dev_instance,
    exit::Exit,
    fields::{field, items},
    global::Global,
    out::Out,
};

/// Import and export your calendars as iCalendar files.
///
/// Importing the same file again changes nothing. Events that cannot be imported are reported; the others are imported.
///
/// Examples:
///   rejoin calendars list
///   rejoin calendars export Work work.ics
///   rejoin calendars import Work holidays.ics
///   curl -s https://example.org/holidays.ics | rejoin calendars import Work -
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// List your calendars.
    List,
    /// Export a calendar to a file.
    Export {
        /// The calendar's name or id.
        calendar: String,
        /// File to write [default: stdout]
        file: Option<PathBuf>,
    },
    /// Import a file's events into a calendar.
    Import {
        /// The calendar's name or id.
        calendar: String,
        /// iCalendar file; `-` reads stdin.
        file: PathBuf,
    },
}

/// # Errors
/// The file is invalid, or the API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    let listed = client.get("/api/calendars").await?;
    match args.action {
        Action::List if out.is_json() => out.json(&listed)?,
        Action::List => {
            let row = |calendar: &Value| {
                let feed = if calendar["hasFeed"] == json!(true) { "yes" } else { "" };
                [
                    field(calendar, "name"),
                    field(calendar, "timeZone"),
                    feed.to_owned(),
                    field(calendar, "id"),
                ]
            };
            let rows: Vec<[String; 4]> = items(&listed).iter().map(row).collect();
            out.table(["NAME", "TIME ZONE", "FEED", "ID"], &rows)?;
        }
        Action::Export { calendar, file } => {
            let id = find(&listed, &calendar)?;
            let text = client.text(&format!("/api/calendars/{id}/export.ics")).await?;
            match file {
                None => out.piece(&text)?,
                Some(file) => {
                    std::fs::write(&file, text).with_context(|| format!("writing {} failed", file.display()))?;
                    out.note(&format!("{calendar} was written to {}", file.display()));
                }
            }
        }
        Action::Import { calendar, file } => {
            let id = find(&listed, &calendar)?;
            let text = read(&file).with_context(|| format!("reading {} failed", file.display()))?;
            let path = format!("/api/calendars/{id}/import");
            let done = client.upload(&path, "text/calendar", text).await?;
            out.either(&done, || report(&done))?;
        }
    }
    Ok(Exit::Done)
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if file.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    }
}

/// Formats the result of an import, with rejected components, one per line.
fn report(done: &Value) -> String {
    let mut lines = vec![format!(
        "{} added, {} changed, {} unchanged",
        done["added"], done["changed"], done["unchanged"]
    )];
    for (list, word) in [("refused", "refused"), ("notes", "note")] {
        for remark in done[list].as_array().into_iter().flatten() {
            let uid = remark["uid"]
                .as_str()
                .map(|uid| format!(" ({uid})"))
                .unwrap_or_default();
            lines.push(format!(
                "{word}: line {}{uid}: {}",
                remark["line"],
                field(remark, "why")
            ));
        }
    }
    lines.join("\n")
}

/// By id or by name.
fn find(listed: &Value, wanted: &str) -> Result<String> {
    let mut found = items(listed)
        .iter()
        .filter(|item| item["id"] == wanted || item["name"] == wanted);
    match (found.next(), found.next()) {
        (Some(calendar), None) => Ok(field(calendar, "id")),
        (Some(_), Some(_)) => Err(anyhow!(
            "several calendars match {wanted}; use the id from `rejoin calendars list`"
        )),
        (None, _) => Err(anyhow!(
            "there is no calendar {wanted}; `rejoin calendars list` shows all"
        )),
    }
}
