//! Who takes a new conversation that names no agent: how a project wants it, the clues that the database has, and the choice that `routing`
//! makes of them. Called within the transaction of the first message.
//!
//! Invariant: a project that has said nothing is not routed: its conversations stay without an agent.

use std::time::Instant;

use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::agents::settings::Settings;
use crate::consoles::attached::Attached;
use crate::conversations::Owner;
use crate::routing::{self, Choice, Clues, Console, Database, Databases};

/// Definitions that a choice is made among.
const SPECIALISTS: i64 = 100;
/// Conversations of the user's that tell of habits.
const PAST: i64 = 100;
/// The agent that finds out what nothing tells.
pub const TRIAGE: &str = "triage";

/// How a project's new conversations find their agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Routing {
    /// Of new conversations, in percent.
    pub percent: i16,
    /// Taken where nothing speaks for another one; by name.
    pub preferred_agent: Option<String>,
    /// Taken where nothing is known; by name.
    pub triage_agent: String,
}

/// None: the project has said nothing.
pub async fn get(db: impl PgExecutor<'_>, project_id: Uuid) -> Result<Option<Routing>, sqlx::Error> {
    sqlx::query_as!(
        Routing,
        "select percent, preferred_agent, triage_agent from kb.routing where project_id = $1",
        project_id
    )
    .fetch_optional(db)
    .await
}

pub async fn set(db: impl PgExecutor<'_>, project_id: Uuid, routing: &Routing) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.routing (project_id, percent, preferred_agent, triage_agent) values ($1, $2, $3, $4)
         on conflict (project_id) do update
         set percent = excluded.percent, preferred_agent = excluded.preferred_agent, triage_agent = excluded.triage_agent, updated_at = now()",
        project_id,
        routing.percent,
        routing.preferred_agent as _,
        routing.triage_agent
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Who takes a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// None: nobody; the project has no triage agent.
    pub agent: Option<(Uuid, String)>,
    pub choice: Choice,
    /// Of the choice itself, without the database [µs].
    pub took_us: u64,
}

impl Received {
    /// As it is stored with the run, and told as `telemetry`.
    pub fn to_json(&self) -> Value {
        json!({
            "agent": self.agent.as_ref().map(|(_, name)| name),
            "confidence": self.choice.confidence(),
            "score": (f64::from(self.choice.score) * 1000.0).round() / 1000.0,
            "reason": self.choice.reason,
            "because": self.choice.because,
            "tookUs": self.took_us,
        })
    }
}

/// The choice for a new conversation. None: it is not routed.
pub async fn receive(
    db: &mut PgConnection,
    owner: Owner,
    conversation_id: Uuid,
    message: &str,
    consoles: &[Attached],
) -> Result<Option<Received>, sqlx::Error> {
    let Some(wanted) = get(&mut *db, owner.project_id).await? else {
        return Ok(None);
    };
    match routing::rolled_in(conversation_id, u8::try_from(wanted.percent).unwrap_or(0)) {
        true => choose(db, owner, &wanted, message, consoles).await.map(Some),
        false => Ok(None),
    }
}

/// The choice, whatever the percentage.
pub async fn choose(
    db: &mut PgConnection,
    owner: Owner,
    wanted: &Routing,
    message: &str,
    consoles: &[Attached],
) -> Result<Received, sqlx::Error> {
    let known = candidates(db, owner.project_id, wanted).await?;
    let specialties: Vec<_> = known
        .iter()
        .map(|one| (one, Settings::of(&one.config).unwrap_or_default().specialty))
        .collect();
    let specialists: Vec<_> = specialties
        .iter()
        .filter_map(|(one, specialty)| specialty.specialist(one.id, &one.name))
        .collect();
    let sources = sources(db, owner.project_id).await?;
    let history = history(db, owner).await?;
    let named = |name: &str| known.iter().find(|one| one.name == name);
    let consoles: Vec<Console<'_>> = consoles
        .iter()
        .map(|attached| {
            let of_source = attached
                .new
                .data_source_id
                .and_then(|id| sources.iter().find(|source| source.id == id));
            let kind = attached
                .new
                .kind
                .as_deref()
                .or(of_source.map(|source| source.kind.as_str()));
            Console {
                database: kind.and_then(Database::named),
                content: &attached.new.content,
            }
        })
        .collect();
    let clues = Clues {
        message,
        pinned: None,
        consoles: &consoles,
        databases: sources
            .iter()
            .filter_map(|source| Database::named(&source.kind))
            .collect::<Databases>(),
        preferred: wanted.preferred_agent.as_deref().and_then(named).map(|one| one.id),
        history: &history,
    };
    let began = Instant::now();
    let choice = routing::choose(&specialists, &clues);
    let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let agent = match choice.agent {
        Some(id) => known.iter().find(|one| one.id == id),
        None => named(&wanted.triage_agent),
    };
    Ok(Received {
        agent: agent.map(|one| (one.id, one.name.clone())),
        choice,
        took_us,
    })
}

/// A definition that may take a conversation.
struct Candidate {
    id: Uuid,
    name: String,
    config: Value,
}

/// Those that say what they are for, and those that the project names.
async fn candidates(db: &mut PgConnection, project_id: Uuid, wanted: &Routing) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as!(
        Candidate,
        "select id, name, config from kb.agent_definitions
         where project_id = $1 and visibility <> 'internal' and (config ? 'specialty' or name = $2 or name = $3)
         order by name limit $4",
        project_id,
        wanted.triage_agent,
        wanted.preferred_agent as _,
        SPECIALISTS
    )
    .fetch_all(db)
    .await
}

struct SourceKind {
    id: Uuid,
    kind: String,
}

async fn sources(db: &mut PgConnection, project_id: Uuid) -> Result<Vec<SourceKind>, sqlx::Error> {
    sqlx::query_as!(
        SourceKind,
        "select id, kind from kb.data_sources where project_id = $1",
        project_id
    )
    .fetch_all(db)
    .await
}

/// In how many of the user's newest conversations which agent was at work.
async fn history(db: &mut PgConnection, owner: Owner) -> Result<Vec<(Uuid, u32)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select agent_definition_id as "agent!", count(*) as "times!"
           from (select agent_definition_id from kb.chat_conversations
                 where project_id = $1 and owner_user_id = $2 and agent_definition_id is not null
                 order by updated_at desc limit $3) newest
           group by agent_definition_id"#,
        owner.project_id,
        owner.user_id,
        PAST
    )
    .fetch_all(db)
    .await?;
    let times = |times: i64| u32::try_from(times).unwrap_or(u32::MAX);
    Ok(rows.into_iter().map(|row| (row.agent, times(row.times))).collect())
}

/// How choices went, of one agent chosen for one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Went {
    pub agent: Option<String>,
    pub reason: Option<String>,
    pub confidence: Option<String>,
    pub conversations: i64,
    /// In how many the agent handed over within the first turn.
    pub handed_over: i64,
    pub took_us_p50: Option<f64>,
    /// From the message to the run's start, half of them.
    pub start_ms_p50: Option<f64>,
    pub helped: i64,
    pub did_not_help: i64,
}

/// Over so many days. The caller's transaction says for whom.
pub async fn stats(db: impl PgExecutor<'_>, project_id: Uuid, days: i32) -> Result<Vec<Went>, sqlx::Error> {
    sqlx::query_as!(
        Went,
        r#"select agent, reason, confidence, conversations as "conversations!", handed_over as "handed_over!", took_us_p50,
                  start_ms_p50, helped as "helped!", did_not_help as "did_not_help!"
           from kb.routing_stats($1, $2) order by 4 desc, 1, 2"#,
        project_id,
        days
    )
    .fetch_all(db)
    .await
}
