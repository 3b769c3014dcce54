//! `rejoin tail`: follows a run or a conversation.
//!
//! The API knows which of the two an id is. Invariant: following changes nothing.
use anyhow::Result;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    chat::exit_of,
    client::Client,
    dev_instance,
    exit::Exit,
    global::Global,
    out::Out,
    stream::{Follow, Received, Start},
    transcript::Transcript,
};

/// Follow the events of a run (until it ends) or of a conversation (until Ctrl-C), from the beginning or from any
/// point.
///
/// Following changes nothing. Any number of readers see the same events with the same numbers. Survives restarts of the
/// API, the workers and the database. Exit code for a run: 0 completed, 5 failed, 6 cancelled, 8 paused.
///
/// Examples:
///   rejoin tail 0192f0c1-…
///   rejoin tail 0192f0c1-… --after 120
///   rejoin tail 0192f0c1-… --from-snapshot       a late joiner: the state so far, then what is new
///   rejoin tail 0192f0c1-… --json | jq .type
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Id of a run or of a conversation.
    #[arg(value_name = "RUN|CONVERSATION")]
    pub target: String,
    /// Only events with a higher number; `now`: only new events.
    #[arg(long, value_name = "N")]
    pub after: Option<String>,
    /// Start with a snapshot of the current state, then follow new events.
    #[arg(long, conflicts_with = "after")]
    pub from_snapshot: bool,
}

/// # Errors
/// The run or conversation does not exist, or the API was silent for too long.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    let Ok(id) = args.target.parse::<Uuid>() else {
        anyhow::bail!(
            "{:?} is not the id of a run or a conversation (`rejoin runs list` shows runs)",
            args.target
        );
    };
    let start = match args.after {
        Some(after) => Start::After(after),
        None if args.from_snapshot => Start::Snapshot,
        None => Start::Beginning,
    };
    let id = id.to_string();
    let mut follow = Follow::new(client.clone(), format!("/api/runs/{id}/events"), start.clone(), out);
    let first = match follow.next().await {
        Err(error) if Exit::of(&error) == Exit::NotFound => {
            follow = Follow::new(client, format!("/api/conversations/{id}/events"), start, out);
            let first = follow.next().await.map_err(|error| match Exit::of(&error) {
                Exit::NotFound => Exit::NotFound
                    .because(format!("there is no run or conversation {id}"))
                    .into(),
                _ => error,
            })?;
            return show(follow, first, None, out).await;
        }
        other => other?,
    };
    show(follow, first, Some(id), out).await
}

/// Shows events until the end of `run`, or of the log.
async fn show(mut follow: Follow, first: Option<Received>, run: Option<String>, out: Out) -> Result<Exit> {
    let mut transcript = Transcript::new(out, run.clone());
    let mut next = first;
    while let Some(event) = next {
        if out.is_json() {
            if event.is_data() {
                out.line(&event.data)?;
            }
        } else {
            match event.kind() {
                "message" => message(&event.json["message"], transcript.text(), out)?,
                "snapshot" => {
                    for entry in event.json["messages"].as_array().map(Vec::as_slice).unwrap_or_default() {
                        message(entry, "", out)?;
                    }
                    transcript.resume(&event.json["turn"])?;
                }
                _ => {}
            }
        }
        let ended = if out.is_json() {
            (event.kind() == "done").then(|| exit_of(event.text("status")))
        } else {
            transcript.show(&event)?
        };
        if let Some(exit) = ended
            && run.as_deref().is_some_and(|run| run == event.text("runId"))
        {
            return Ok(exit);
        }
        next = follow.next().await?;
    }
    Ok(Exit::Done)
}

/// Shows a message that was not displayed yet.
fn message(message: &Value, shown: &str, out: Out) -> Result<()> {
    let content = message["content"].as_str().unwrap_or_default();
    match message["role"].as_str() {
        Some("user") => out.line(&format!("> {}", content.replace('\n', "\n> "))),
        // The reply's parts were shown as they arrived.
        _ if !shown.is_empty() => Ok(()),
        _ => out.line(content),
    }
}
