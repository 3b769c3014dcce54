//! `rejoin runs`: show, steer, resume, fork and cancel runs; through the API.
use anyhow::Result;
use clap::Subcommand;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{client::Client, dev_instance, exit::Exit, fields::items, global::Global, out::Out};

/// Maximum length of a message's line in `show`, in characters.
const LINE_MAX_CHARS: usize = 160;
/// Maximum number of items of each list in `show`.
const SHOWN: u16 = 100;

/// List, inspect, steer, resume, fork and cancel runs.
///
/// Examples:
///   rejoin runs list --limit 20
///   rejoin runs list --state running --json | jq -r '.items[].id'
///   rejoin runs show 0192f0c1-…
///   rejoin runs list --agent tidier --since 2026-01-01T00:00:00Z
///   rejoin runs export 0192f0c1-… > run.json
///   rejoin runs fork 0192f0c1-… --step 2 "Look at libssl1 instead."
///   rejoin runs cancel 0192f0c1-…
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
    /// Project; required unless `rejoin dev` runs on this machine.
    #[arg(long, global = true, env = "REJOIN_PROJECT_ID", value_name = "ID")]
    pub project: Option<Uuid>,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the project's newest runs.
    List {
        /// Maximum number of runs.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=100))]
        limit: u16,
        /// Only runs in this state.
        #[arg(long, value_parser = ["queued", "running", "waiting", "paused", "completed", "failed", "cancelled"])]
        state: Option<String>,
        /// Only runs of this conversation.
        #[arg(long, value_name = "ID")]
        conversation: Option<Uuid>,
        /// Only runs of this agent, by name.
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Only runs created at or after this time (RFC 3339).
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Only runs created before this time (RFC 3339).
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Only top-level runs, not those of sub-agents.
        #[arg(long)]
        top_level: bool,
        /// Continue after the previous page (`nextCursor`).
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show a run: its state, messages and tool calls.
    Show { run: Uuid },
    /// Show a run and all runs that it started.
    Tree { run: Uuid },
    /// Export everything stored about a run and the runs that it started, as one JSON document.
    Export { run: Uuid },
    /// Send a message to an active run, which reads it before its next step.
    Tell { run: Uuid, message: String },
    /// Resume a paused run.
    Resume { run: Uuid, message: Option<String> },
    /// Start a new run from the state of another run after a step.
    Fork {
        run: Uuid,
        /// Last step of the original run to keep; 0: none.
        #[arg(long)]
        step: u16,
        /// Message to add after that step; with step 0, it replaces the run's original message.
        message: Option<String>,
    },
    /// Cancel a run at its next await point. Safe to repeat.
    Cancel { run: Uuid },
}

/// # Errors
/// The API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    match args.action {
        Action::List {
            limit,
            state,
            conversation,
            agent,
            since,
            until,
            top_level,
            cursor,
        } => {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("limit", &limit.to_string());
            for (name, value) in [
                ("state", state),
                ("conversationId", conversation.map(|id| id.to_string())),
                ("agent", agent),
                ("since", since),
                ("until", until),
                ("topLevel", top_level.then(|| "true".to_owned())),
                ("cursor", cursor),
            ] {
                if let Some(value) = value {
                    query.append_pair(name, &value);
                }
            }
            let project = client.project(args.project).await?;
            let page = client
                .get(&format!("/api/projects/{project}/agent-runs?{}", query.finish()))
                .await?;
            list(&page, out)?;
        }
        Action::Show { run } => {
            let project = client.project(args.project).await?;
            let path = format!("/api/projects/{project}/agent-runs/{run}");
            let about = client.get(&path).await?;
            let messages = client.get(&format!("{path}/messages?limit={SHOWN}")).await?;
            let calls = client.get(&format!("{path}/tool-calls?limit={SHOWN}")).await?;
            show(&about, &messages, &calls, out)?;
        }
        Action::Tree { run } => {
            let project = client.project(args.project).await?;
            let tree = client
                .get(&format!("/api/projects/{project}/agent-runs/{run}/tree"))
                .await?;
            list(&tree, out)?;
        }
        Action::Export { run } => {
            let project = client.project(args.project).await?;
            let whole = client
                .get(&format!("/api/projects/{project}/agent-runs/{run}/export"))
                .await?;
            out.json(&whole)?;
        }
        Action::Tell { run, message } => {
            let body = json!({ "message": message });
            let answer = client.post(&format!("/api/runs/{run}/messages"), &body).await?;
            out.either(&answer, || {
                format!("the run {run} reads the message before its next step")
            })?;
        }
        Action::Resume { run, message } => {
            let body = json!({ "message": message });
            let answer = client.post(&format!("/api/runs/{run}/resume"), &body).await?;
            out.either(&answer, || {
                format!(
                    "the run continues: rejoin tail {run} --after {}",
                    text(&answer["cursor"])
                )
            })?;
        }
        Action::Fork { run, step, message } => {
            let body = json!({ "step": step, "message": message });
            let answer = client.post(&format!("/api/runs/{run}/fork"), &body).await?;
            out.either(&answer, || format!("forked: rejoin tail {}", text(&answer["runId"])))?;
        }
        Action::Cancel { run } => {
            let answer = client.post(&format!("/api/runs/{run}/cancel"), &json!({})).await?;
            if out.is_json() {
                out.json(&answer)?;
            } else {
                out.line(&format!(
                    "cancellation of the run {run} was requested; its state is {}",
                    text(&answer["state"])
                ))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn list(page: &Value, out: Out) -> Result<()> {
    if out.is_json() {
        return out.json(page);
    }
    let rows: Vec<[String; 7]> = items(page)
        .iter()
        .map(|run| {
            [
                text(&run["id"]),
                text(&run["state"]),
                text(&run["agent"]),
                text(&run["model"]),
                if run["restricted"] == true {
                    // Another member's run: details are visible to its maker only.
                    String::new()
                } else {
                    text(&run["stepCount"])
                },
                run["durationMs"]
                    .as_i64()
                    .map(|ms| format!("{:.1} s", ms as f64 / 1000.0))
                    .unwrap_or_default(),
                time(&run["createdAt"]),
            ]
        })
        .collect();
    out.table(["RUN", "STATE", "AGENT", "MODEL", "STEPS", "TOOK", "CREATED"], &rows)?;
    if let Some(cursor) = page["nextCursor"].as_str() {
        out.note(&format!("there are more: --cursor {cursor}"));
    }
    Ok(())
}

fn show(about: &Value, messages: &Value, calls: &Value, out: Out) -> Result<()> {
    if out.is_json() {
        return out.json(&json!({ "run": about, "messages": messages["items"], "toolCalls": calls["items"] }));
    }
    for (name, field) in [
        ("run", "id"),
        ("state", "state"),
        ("agent", "agent"),
        ("model", "model"),
        ("conversation", "conversationId"),
        ("input", "input"),
        ("steps", "stepCount"),
        ("attempt", "attempt"),
        ("created", "createdAt"),
        ("finished", "finishedAt"),
        ("error", "error"),
    ] {
        let value = text(&about[field]);
        if !value.is_empty() {
            out.line(&format!("{name:13} {}", one_line(&value)))?;
        }
    }
    let usage = &about["usage"];
    if let (Some(input), Some(output)) = (usage["inputTokens"].as_u64(), usage["outputTokens"].as_u64()) {
        out.line(&format!("{:13} {input} in, {output} out", "tokens"))?;
    }
    if !items(calls).is_empty() {
        out.line("")?;
        let rows: Vec<[String; 5]> = items(calls)
            .iter()
            .map(|call| {
                [
                    text(&call["stepNumber"]),
                    text(&call["tool"]),
                    text(&call["status"]),
                    call["durationMs"]
                        .as_i64()
                        .map(|ms| format!("{ms} ms"))
                        .unwrap_or_default(),
                    text(&call["id"]),
                ]
            })
            .collect();
        out.table(["STEP", "TOOL", "STATUS", "TOOK", "CALL"], &rows)?;
    }
    if !items(messages).is_empty() {
        out.line("")?;
        for message in items(messages) {
            out.line(&format!(
                "{:11} {}",
                text(&message["role"]),
                one_line(&text(&message["content"]))
            ))?;
        }
    }
    Ok(())
}

/// Formats a field for users; empty for null.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn time(value: &Value) -> String {
    let text = text(value);
    // To the second.
    text.get(..19)
        .map_or_else(|| text.clone(), |second| second.replace('T', " "))
}

fn one_line(text: &str) -> String {
    let line = text.replace('\n', " ");
    match line.char_indices().nth(LINE_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
