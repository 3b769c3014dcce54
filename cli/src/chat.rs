//! `rejoin chat`: chat in the terminal.
//!
//! Posts over HTTP, then follows the run. Invariant: a message is posted once, despite any restarts, and each word of
//! its reply is shown once.
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use rejoin_runs::agents::GRAPH_QUERY_AGENT;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    client::Client,
    dev_instance,
    exit::Exit,
    files,
    global::Global,
    out::Out,
    stream::{Follow, Start},
    transcript::Transcript,
};

/// `--agent none`: no agent, a plain conversation.
const NO_AGENT: &str = "none";

/// Chat with an agent. Without a message: an interactive conversation until Ctrl-D.
///
/// Survives restarts of the API, the workers and the database: it reconnects with its cursor and continues. Ctrl-C
/// leaves; the run goes on, and `rejoin tail` rejoins it. On a machine with `rejoin dev` it needs no settings;
/// elsewhere set REJOIN_URL and REJOIN_API_KEY.
///
/// The reply goes to stdout; tool calls and everything else go to stderr. Exit code: 0 if the run completed, 5 if it
/// failed, 6 if it was cancelled, 8 if it is paused.
///
/// Examples:
///   rejoin chat
///   rejoin chat "Which packages need libssl3, and why?"
///   rejoin chat "And who maintains them?" --conversation 0192f0c1-…
///   rejoin chat --agent none "Just talk to me"
///   rejoin chat "What is on this picture?" --attach photo.png
///   rejoin chat --json "hello" | jq -r .type      the events, one a line
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Message to send. `-` reads it from stdin.
    pub message: Option<String>,
    /// Agent for a new conversation, by name or id; `none`: no agent [default: graph-query-agent]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Continue this conversation.
    #[arg(long, value_name = "ID")]
    pub conversation: Option<Uuid>,
    /// File to attach: an image, a PDF, audio or text. Can be given several times.
    #[arg(long, value_name = "FILE")]
    pub attach: Vec<PathBuf>,
}

/// # Errors
/// The API refuses, or was silent for too long.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    let mut talk = Talk {
        conversation: args.conversation.map(|id| id.to_string()),
        agent: None,
        attachments: Vec::new(),
        client,
        out,
    };
    let message = match args.message.as_deref() {
        Some("-") => Some(io::read_to_string(io::stdin()).context("reading the message from stdin failed")?),
        None if !io::stdin().is_terminal() => {
            Some(io::read_to_string(io::stdin()).context("reading the message from stdin failed")?)
        }
        other => other.map(str::to_owned),
    };
    if let Some(message) = &message
        && message.trim().is_empty()
    {
        anyhow::bail!("the message is empty");
    }
    if talk.conversation.is_none() || args.agent.is_some() {
        talk.agent = talk.find_agent(args.agent.as_deref()).await?;
    }
    for file in &args.attach {
        let stored = files::put(&talk.client, file).await?;
        talk.attachments.push(json!({ "fileId": word(&stored, "id")? }));
    }
    let exit = match message {
        Some(message) => talk.say(message.trim_end()).await?,
        None => talk.until_end_of_input().await?,
    };
    if io::stderr().is_terminal()
        && let Some(id) = &talk.conversation
    {
        out.note(&format!("to continue: rejoin chat --conversation {id} \"…\""));
    }
    Ok(exit)
}

struct Talk {
    client: Client,
    conversation: Option<String>,
    /// For the next message; a conversation keeps its agent.
    agent: Option<String>,
    /// For the next message.
    attachments: Vec<Value>,
    out: Out,
}

impl Talk {
    async fn until_end_of_input(&mut self) -> Result<Exit> {
        self.out
            .note("Type a message; an empty line or Ctrl-D ends the chat. Try: Which packages need libssl3, and why?");
        let mut last = Exit::Done;
        loop {
            let line = tokio::task::spawn_blocking(|| {
                // On stderr, so that stdout contains replies only.
                eprint!("> ");
                io::stderr().flush()?;
                let mut line = String::new();
                io::stdin().lock().read_line(&mut line).map(|_| line)
            });
            let line = line
                .await
                .context("reading from the terminal ended early")?
                .context("reading from the terminal failed")?;
            if line.trim().is_empty() {
                return Ok(last);
            }
            last = self.say(line.trim_end()).await?;
            if last == Exit::Interrupted {
                return Ok(last);
            }
        }
    }

    /// Sends one message and shows its reply.
    async fn say(&mut self, message: &str) -> Result<Exit> {
        let mut body = json!({ "message": message });
        if let Some(id) = &self.conversation {
            body["conversationId"] = json!(id);
        }
        if let Some(agent) = self.agent.take() {
            body["agentDefinitionId"] = json!(agent);
        }
        if !self.attachments.is_empty() {
            body["attachments"] = json!(std::mem::take(&mut self.attachments));
        }
        let out = self.out;
        let posted = self
            .client
            .post_surely("/api/chat/stream", &body, |note| out.note(note))
            .await?;
        let run = word(&posted, "runId")?;
        self.conversation = Some(word(&posted, "conversationId")?);
        let mut follow = Follow::new(
            self.client.clone(),
            format!("/api/runs/{run}/events"),
            Start::Beginning,
            out,
        );
        let mut transcript = Transcript::new(out, Some(run.clone()));
        loop {
            let next = tokio::select! {
                next = follow.next() => next?,
                _ = tokio::signal::ctrl_c() => {
                    // The reader ends, the run continues.
                    out.note(&format!("\nthe run goes on; rejoin it: rejoin tail {run}\nor stop it: rejoin runs \
                        cancel {run}"));
                    return Ok(Exit::Interrupted);
                }
            };
            let Some(event) = next else { break };
            if out.is_json() {
                if event.is_data() {
                    out.line(&event.data)?;
                }
                if event.kind() == "done" && event.text("runId") == run {
                    return Ok(exit_of(event.text("status")));
                }
            } else if event.kind() == "snapshot" {
                transcript.resume(&event.json["turn"])?;
            } else if let Some(exit) = transcript.show(&event)? {
                return Ok(exit);
            }
        }
        // The run had already ended: its `done` was before our cursor.
        let state = self.client.get(&format!("/api/runs/{run}")).await;
        Ok(state.map_or(Exit::Done, |run| exit_of(run["state"].as_str().unwrap_or_default())))
    }

    /// Returns the id of the agent with this name.
    async fn find_agent(&self, asked: Option<&str>) -> Result<Option<String>> {
        let name = match asked {
            Some(NO_AGENT) => return Ok(None),
            Some(id) if id.parse::<Uuid>().is_ok() => return Ok(Some(id.to_owned())),
            Some(name) => name,
            None => GRAPH_QUERY_AGENT,
        };
        let found = match self.client.project(None).await {
            Ok(project) => self.look_for_agent(&project.to_string(), name).await,
            Err(error) => Err(error),
        };
        match (found, asked) {
            (Ok(Some(id)), _) => Ok(Some(id)),
            (Ok(None), Some(_)) => {
                let todo = "use `rejoin chat --agent none` to chat without an agent";
                Err(Exit::NotFound
                    .because(format!("this project has no agent named {name}; {todo}"))
                    .into())
            }
            (Err(error), Some(_)) => Err(error.context(format!("looking up the agent {name} failed"))),
            (Ok(None), None) => {
                self.out.note(&format!(
                    "(this project has no agent {name}; starting a plain conversation)"
                ));
                Ok(None)
            }
            // Sending the message will report the problem with the key or the API.
            (Err(error), None) => match Exit::of(&error) {
                Exit::Unreachable | Exit::NotAuthenticated => Err(error),
                _ => {
                    self.out.note(&format!(
                        "(looking up {name} failed: {error:#}; starting a plain conversation)"
                    ));
                    Ok(None)
                }
            },
        }
    }

    /// Looks among the agents that everyone may choose, then among those of admins.
    async fn look_for_agent(&self, project: &str, name: &str) -> Result<Option<String>> {
        let choosable = format!("/api/projects/{project}/agents?limit=100");
        if let Some(id) = self.look_in(&choosable, name).await? {
            return Ok(Some(id));
        }
        let all = format!("/api/admin/projects/{project}/agent-definitions?visibility=all&limit=100");
        match self.look_in(&all, name).await {
            // A key without the scope `admin`.
            Err(error) if Exit::of(&error) != Exit::Unreachable => Ok(None),
            found => found,
        }
    }

    /// Returns the id of the agent with this name in a list.
    async fn look_in(&self, list: &str, name: &str) -> Result<Option<String>> {
        let mut cursor = String::new();
        // Loads all pages: each has a new cursor.
        loop {
            let page = self.client.get(&format!("{list}{cursor}")).await?;
            let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(agent) = items.iter().find(|agent| agent["name"] == name) {
                return word(agent, "id").map(Some);
            }
            match page["nextCursor"].as_str() {
                Some(next) if !items.is_empty() => {
                    let next: String = url::form_urlencoded::byte_serialize(next.as_bytes()).collect();
                    cursor = format!("&cursor={next}");
                }
                _ => return Ok(None),
            }
        }
    }
}

/// Returns the exit code for a run's final status.
pub(crate) fn exit_of(status: &str) -> Exit {
    match status {
        "failed" => Exit::RunFailed,
        "cancelled" => Exit::RunCancelled,
        "paused" => Exit::RunPaused,
        _ => Exit::Done,
    }
}

fn word(value: &Value, field: &str) -> Result<String> {
    let word = value[field]
        .as_str()
        .with_context(|| format!("the API's response has no {field}: {value}"))?;
    Ok(word.to_owned())
}
