//! All data of a run, in memory.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::Result;
use serde_json::Value;
use sqlx::PgPool;
use sqlx::types::chrono::{DateTime, Utc};
use uuid::Uuid;

use rejoin_runs::remote_calls::MAX_ATTEMPTS;

use crate::evidence::{self, Expected, Injected, Notes, Post, RecordedStep, SentResult, Session, Target};
use crate::plan::Plan;
use crate::tools::Effect;
use crate::witness::{self, Seen};

pub struct Case {
    pub posts: Vec<Post>,
    pub sessions: Vec<Session>,
    pub effects: Vec<Effect>,
    /// Effects of the MCP server, which knows no runs: a call is identified by its arguments.
    pub outside: Vec<Effect>,
    /// Results that users' programs have sent.
    pub results: Vec<SentResult>,
    /// Results of durable functions' steps that it has confirmed.
    pub steps: Vec<RecordedStep>,
    /// Runs with a call that was tried as often as it may be, and whose last program was lost or gave it back, by the record of the call.
    pub given_up: HashSet<Uuid>,
    /// Those on record: run, the model's id of the call, number of the step, its output.
    pub steps_on_record: Vec<(Uuid, String, i32, Option<Value>)>,
    pub faults: Vec<Injected>,
    pub notes: Notes,
    pub runs: HashMap<Uuid, Run>,
    /// By log, in order of their numbers.
    pub logs: HashMap<Uuid, Vec<Event>>,
    /// First event numbers left by retention, where it removed some.
    pub oldest: HashMap<Uuid, i64>,
    pub messages: Vec<Message>,
    pub calls: Vec<Call>,
    pub tasks: Vec<Task>,
    /// Predecessors of tasks.
    pub blocks: Vec<(Uuid, Uuid)>,
    /// The history of each job, in order; none without a witness.
    pub jobs: Vec<Vec<Seen>>,
    /// Runs and logs that two databases have.
    pub twice: Vec<String>,
}

/// A task of a DAG.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Task {
    pub id: Uuid,
    pub state: String,
    pub started_at: Option<DateTime<Utc>>,
    pub finished_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Run {
    pub id: Uuid,
    #[sqlx(rename = "project_id")]
    pub workspace_id: Uuid,
    pub conversation_id: Option<Uuid>,
    pub user_id: Option<Uuid>,
    pub parent_run_id: Option<Uuid>,
    /// The call that started it.
    pub spawn_call_id: Option<Uuid>,
    /// The task that it executes.
    pub task_id: Option<Uuid>,
    pub log_id: Uuid,
    pub state: String,
    pub attempt: i32,
    pub first_seq: i64,
    pub done_seq: Option<i64>,
    pub error: Option<String>,
    pub input: String,
    pub cancel_requested_at: Option<DateTime<Utc>>,
    pub final_message_id: Option<Uuid>,
    /// The project of the run's conversation.
    pub conversation_workspace: Option<Uuid>,
    pub conversation_owner: Option<Uuid>,
}

#[derive(Debug, Clone)]
pub struct Event {
    pub seq: i64,
    pub run_id: Option<Uuid>,
    pub kind: String,
    pub data: String,
    pub json: Value,
    /// When its transaction began.
    pub created_us: i64,
    /// When its transaction was committed: nothing is visible before. The same without `track_commit_timestamp`.
    pub committed_us: i64,
}

#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Message {
    pub id: Uuid,
    pub conversation_id: Uuid,
    pub role: String,
    pub content: String,
}

#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Call {
    pub id: Uuid,
    pub run_id: Uuid,
    pub call_id: String,
    pub tool_name: String,
    pub status: String,
    pub started_at: Option<DateTime<Utc>>,
    pub output: Option<Value>,
}

impl Case {
    /// Returns the events of the log followed by a reader; for a run, its visible ones.
    pub fn log_of(&self, target: Target) -> Vec<&Event> {
        match target {
            Target::Conversation(id) => self.logs.get(&id).into_iter().flatten().collect(),
            Target::Run(id) => {
                let Some(run) = self.runs.get(&id) else {
                    return Vec::new();
                };
                // Including its sub-agents'.
                let log = self.logs.get(&run.log_id).into_iter().flatten();
                log.filter(|event| event.run_id == Some(run.id)).collect()
            }
        }
    }

    /// The events of a run alone.
    pub fn events_of(&self, run: &Run) -> Vec<&Event> {
        let log = self.logs.get(&run.log_id).into_iter().flatten();
        let id = run.id.to_string();
        log.filter(|event| event.json["runId"] == id.as_str()).collect()
    }

    /// Returns what is expected of the run of a post. A function whose programs were lost as often as a call may be tried fails, as it should: with
    /// many calls at once, each loss of a program loses all of them.
    pub fn expected(&self, post: &Post, run: &Run) -> Expected {
        if run.state == "failed" && self.given_up.contains(&run.id) {
            Expected::Stopped
        } else {
            post.expected
        }
    }

    /// Returns the runs of accepted posts.
    pub fn accepted_posts(&self) -> impl Iterator<Item = (&Post, Plan, Uuid)> {
        self.posts.iter().filter_map(|post| {
            let told = post.told.as_ref()?;
            Some((post, Plan::of(&post.plan)?, told.run_id?))
        })
    }

    /// Returns whether a fault was injected in this period, or shortly before, that concerns this project.
    pub fn is_disturbed(&self, workspace_id: Option<Uuid>, from_us: i64, until_us: i64) -> bool {
        let after_us = i64::try_from(self.notes.lease_ms).unwrap_or_default() * 1_000 + 2_000_000;
        self.faults
            .iter()
            .filter(|fault| fault.workspace_id.is_none() || fault.workspace_id == workspace_id)
            .any(|fault| fault.from_us <= until_us && fault.until_us + after_us >= from_us)
    }
}

/// Returns a run's text as displayed by a client that applies resets.
pub fn text_of(run: Uuid, events: &[&Event]) -> String {
    let mut kept: Vec<(i64, &str)> = Vec::new();
    let run = run.to_string();
    for event in events.iter().filter(|event| event.json["runId"] == run.as_str()) {
        match event.kind.as_str() {
            "token" => kept.push((event.seq, event.json["token"].as_str().unwrap_or_default())),
            "reset" => {
                let after = event.json["discardAfter"].as_i64().unwrap_or_default();
                kept.retain(|(seq, _)| *seq <= after);
            }
            _ => {}
        }
    }
    kept.into_iter().map(|(_, text)| text).collect()
}

/// Log, number, run, type, data, time.
type EventRow = (Uuid, i64, Option<Uuid>, String, String, DateTime<Utc>);

/// Returns the time of each row's commit, where PostgreSQL knows it: log, first and last number, time.
async fn commits(db: &PgPool) -> Result<Vec<(Uuid, i64, i64, DateTime<Utc>)>> {
    let are_tracked: bool = sqlx::query_scalar("select current_setting('track_commit_timestamp')::bool")
        .fetch_one(db)
        .await?;
    if !are_tracked {
        return Ok(Vec::new());
    }
    let rows = sqlx::query_as(
        "select log_id, coalesce(first_seq, seq), seq, pg_xact_commit_timestamp(xmin) from stream.events
         where pg_xact_commit_timestamp(xmin) is not null",
    );
    Ok(rows.fetch_all(db).await?)
}

/// What a database has: the same fields as a [`Case`].
struct Stored {
    runs: Vec<Run>,
    logs: HashMap<Uuid, Vec<Event>>,
    oldest: Vec<(Uuid, i64)>,
    messages: Vec<Message>,
    calls: Vec<Call>,
    tasks: Vec<Task>,
    blocks: Vec<(Uuid, Uuid)>,
    steps_on_record: Vec<(Uuid, String, i32, Option<Value>)>,
    given_up: Vec<Uuid>,
    jobs: Vec<Vec<Seen>>,
}

async fn stored(db: &PgPool) -> Result<Stored> {
    let runs = sqlx::query_as(
        "select r.id, r.project_id, r.conversation_id, r.user_id, r.parent_run_id, r.spawn_call_id, r.task_id, r.log_id, r.state, r.attempt, r.first_seq, r.done_seq, r.error,
                r.input, r.cancel_requested_at, r.final_message_id, c.project_id as conversation_workspace,
                c.owner_user_id as conversation_owner
         from kb.agent_runs r left join kb.chat_conversations c on c.id = r.conversation_id",
    );
    let calls = sqlx::query_as(
        "select id, run_id, call_id, tool_name, status, started_at, output from kb.agent_run_tool_calls",
    );
    let steps = sqlx::query_as(
        "select c.run_id, c.call_id, s.number, s.output from kb.remote_steps s join kb.remote_calls c on c.id = s.call_id
         where s.kind = 'function' and s.status = 'completed' and c.run_id is not null",
    );
    let given_up = sqlx::query_scalar(
        "select run_id from kb.remote_calls
         where status in ('outcome_unknown', 'error') and attempt - suspensions >= $1 and run_id is not null",
    )
    .bind(MAX_ATTEMPTS);
    let blocks = sqlx::query_as(
        "select r.source_id, r.target_id from kb.graph_relationships r join kb.tasks t on t.id = r.source_id where r.type = 'blocks'",
    );
    let tasks = sqlx::query_as("select id, state, started_at, finished_at from kb.tasks");
    let messages = sqlx::query_as("select id, conversation_id, role, content from kb.chat_messages");
    let oldest = sqlx::query_as("select log_id, oldest_seq from stream.logs");
    let seen = witness::seen(db).await?.unwrap_or_default();
    Ok(Stored {
        runs: runs.fetch_all(db).await?,
        logs: logs(db).await?,
        oldest: oldest.fetch_all(db).await?,
        messages: messages.fetch_all(db).await?,
        calls: calls.fetch_all(db).await?,
        tasks: tasks.fetch_all(db).await?,
        blocks: blocks.fetch_all(db).await?,
        steps_on_record: steps.fetch_all(db).await?,
        given_up: given_up.fetch_all(db).await?,
        jobs: seen
            .chunk_by(|one, next| one.job_id == next.job_id)
            .map(<[Seen]>::to_vec)
            .collect(),
    })
}

/// Returns the events of all logs.
async fn logs(db: &PgPool) -> Result<HashMap<Uuid, Vec<Event>>> {
    let mut logs: HashMap<Uuid, Vec<Event>> = HashMap::new();
    let rows: Vec<EventRow> = sqlx::query_as(
        "select log_id, seq, run_id, type, data, created_at from stream.each_event order by log_id, seq",
    )
    .fetch_all(db)
    .await?;
    for (log_id, seq, run_id, kind, data, created_at) in rows {
        logs.entry(log_id).or_default().push(Event {
            seq,
            run_id,
            kind,
            json: serde_json::from_str(&data)?,
            data,
            created_us: created_at.timestamp_micros(),
            committed_us: created_at.timestamp_micros(),
        });
    }
    for (log_id, first_seq, last_seq, committed_at) in commits(db).await? {
        let events = logs.entry(log_id).or_default();
        let from = events.partition_point(|event| event.seq < first_seq);
        for event in events[from..].iter_mut().take_while(|event| event.seq <= last_seq) {
            event.committed_us = committed_at.timestamp_micros();
        }
    }
    Ok(logs)
}

/// Reads the evidence, and what the databases have. With several, each project is in one of them.
pub(super) async fn load(databases: &[PgPool], directory: &Path) -> Result<Case> {
    let mut case = Case {
        posts: evidence::read(directory, "posts")?,
        sessions: evidence::read(directory, "readers")?,
        effects: evidence::read(directory, "ledger")?,
        outside: evidence::read(directory, "outside")?,
        results: evidence::read(directory, "results")?,
        steps: evidence::read(directory, "steps")?,
        faults: evidence::read(directory, "faults")?,
        notes: evidence::read(directory, "notes")?.pop().unwrap_or_default(),
        steps_on_record: Vec::new(),
        given_up: HashSet::new(),
        runs: HashMap::new(),
        logs: HashMap::new(),
        oldest: HashMap::new(),
        messages: Vec::new(),
        calls: Vec::new(),
        tasks: Vec::new(),
        blocks: Vec::new(),
        jobs: Vec::new(),
        twice: Vec::new(),
    };
    for db in databases {
        case.add(stored(db).await?);
    }
    // The packages show programs the id of the record, not the model's.
    let model_ids: HashMap<String, &str> = case
        .calls
        .iter()
        .map(|call| (call.id.to_string(), call.call_id.as_str()))
        .collect();
    for effect in &mut case.effects {
        if let Some(call_id) = model_ids.get(&effect.call_id) {
            effect.call_id = (*call_id).to_owned();
        }
    }
    Ok(case)
}

impl Case {
    fn add(&mut self, stored: Stored) {
        for run in stored.runs {
            if let Some(other) = self.runs.insert(run.id, run) {
                self.twice.push(format!("the run {}", other.id));
            }
        }
        for (log, events) in stored.logs {
            if self.logs.insert(log, events).is_some() {
                self.twice.push(format!("the log {log}"));
            }
        }
        self.oldest.extend(stored.oldest);
        self.messages.extend(stored.messages);
        self.calls.extend(stored.calls);
        self.tasks.extend(stored.tasks);
        self.blocks.extend(stored.blocks);
        self.steps_on_record.extend(stored.steps_on_record);
        self.given_up.extend(stored.given_up);
        self.jobs.extend(stored.jobs);
    }
}
