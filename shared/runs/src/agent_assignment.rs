//! Assigns an agent to a new conversation that names none, from the workspace's routing settings and the signals in the
//! database; `routing` decides. Called within the transaction of the first message.
//!
//! - `stats` statistics
//!
//! Invariant: without settings there is no routing: the workspace's conversations stay without an agent.

mod stats;

pub use stats::{Arm, AssignmentStats, Misrouted, arms, misrouted, stats};

use std::time::Instant;

use rejoin_routing::{Choice, Clues, Console, Database, Databases};
use rejoin_types::owner::Owner;
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::agents::settings::Settings;
use crate::attachments::{self, Attachment};
use crate::consoles::attached::Attached;
use crate::runs;

/// Maximum number of definitions to choose from.
const SPECIALISTS: i64 = 100;
/// Number of the user's recent conversations considered.
const PAST: i64 = 100;
/// The triage agent, for conversations without decisive signals.
pub const TRIAGE: &str = "triage";

/// The routing settings of a workspace.
#[derive(Debug, Clone, PartialEq)]
pub struct Routing {
    /// Share of new conversations, in percent.
    pub percent: i16,
    /// The default if no signal favours another agent; by name.
    pub preferred_agent: Option<String>,
    /// Used without any signals; by name.
    pub triage_agent: String,
    /// The model that breaks ties between agents of a task.
    pub selector_model: Option<String>,
    /// Takes conversations outside the percentage, by name; none: they stay without an agent.
    pub control_agent: Option<String>,
}

/// None: the workspace has no settings.
pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Option<Routing>, sqlx::Error> {
    sqlx::query_as!(
        Routing,
        "select percent, preferred_agent, triage_agent, selector_model, control_agent from kb.routing where project_id = $1",
        workspace_id
    )
    .fetch_optional(db)
    .await
}

pub async fn set(db: impl PgExecutor<'_>, workspace_id: Uuid, routing: &Routing) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.routing (project_id, percent, preferred_agent, triage_agent, selector_model, control_agent)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (project_id) do update
         set percent = excluded.percent, preferred_agent = excluded.preferred_agent, triage_agent = excluded.triage_agent,
             selector_model = excluded.selector_model, control_agent = excluded.control_agent, updated_at = now()",
        workspace_id,
        routing.percent,
        routing.preferred_agent as _,
        routing.triage_agent,
        routing.selector_model as _,
        routing.control_agent as _
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns the model that selects agents for a workspace's tasks.
pub async fn selector_model(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Option<String>, sqlx::Error> {
    let found = sqlx::query_scalar!(
        "select selector_model from kb.routing where project_id = $1",
        workspace_id
    )
    .fetch_optional(db)
    .await?;
    Ok(found.flatten())
}

/// The assignment of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// None: no agent; the workspace has no triage agent.
    pub agent: Option<(Uuid, String)>,
    pub choice: Choice,
    /// Duration of the choice itself, without the database, in microseconds.
    pub took_us: u64,
}

impl Assignment {
    /// The representation stored with the run and sent as `telemetry`.
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

/// The handling of a new conversation that names no agent.
#[derive(Debug, Clone, PartialEq)]
pub enum RoutingOutcome {
    /// The workspace has no routing settings.
    NotConfigured,
    /// Outside the percentage: in the control group, with this agent, if the workspace has one.
    Control(Option<Uuid>),
    Routed(Assignment),
}

impl RoutingOutcome {
    /// Returns the assigned agent.
    pub fn agent(&self) -> Option<Uuid> {
        match self {
            Self::NotConfigured => None,
            Self::Control(agent) => *agent,
            Self::Routed(assignment) => assignment.agent.as_ref().map(|(id, _)| *id),
        }
    }

    /// Returns the choice, if one was made.
    pub fn routed(self) -> Option<Assignment> {
        match self {
            Self::Routed(assignment) => Some(assignment),
            Self::NotConfigured | Self::Control(_) => None,
        }
    }
}

/// Assigns an agent to a new conversation.
pub async fn assign(
    db: &mut PgConnection,
    owner: Owner,
    conversation_id: Uuid,
    message: &str,
    consoles: &[Attached],
    attached_context: Option<&Value>,
) -> Result<RoutingOutcome, sqlx::Error> {
    let Some(settings) = get(&mut *db, owner.workspace_id).await? else {
        return Ok(RoutingOutcome::NotConfigured);
    };
    if rejoin_routing::rolled_in(conversation_id, u8::try_from(settings.percent).unwrap_or(0)) {
        let items = attached_context.map(attachments::items).unwrap_or_default();
        return choose(db, owner, &settings, message, consoles, &items)
            .await
            .map(RoutingOutcome::Routed);
    }
    let agent =
        match &settings.control_agent {
            Some(name) => sqlx::query_scalar!(
                "select id from kb.agent_definitions where project_id = $1 and name = $2 and visibility <> 'internal'",
                owner.workspace_id,
                name
            )
            .fetch_optional(db)
            .await?,
            None => None,
        };
    Ok(RoutingOutcome::Control(agent))
}

/// Records with the first run how its conversation was assigned.
pub async fn record(
    db: &mut PgConnection,
    workspace_id: Uuid,
    run_id: Uuid,
    outcome: &RoutingOutcome,
) -> Result<(), sqlx::Error> {
    match outcome {
        RoutingOutcome::NotConfigured => Ok(()),
        RoutingOutcome::Routed(assignment) => runs::set_routing(db, run_id, &assignment.to_json()).await,
        RoutingOutcome::Control(_) => {
            sqlx::query!(
                "insert into kb.routing_controls (run_id, project_id) values ($1, $2)",
                run_id,
                workspace_id
            )
            .execute(db)
            .await?;
            Ok(())
        }
    }
}

/// Chooses an agent, regardless of the percentage.
pub async fn choose(
    db: &mut PgConnection,
    owner: Owner,
    settings: &Routing,
    message: &str,
    consoles: &[Attached],
    items: &[Attachment],
) -> Result<Assignment, sqlx::Error> {
    let known = candidates(db, owner.workspace_id, settings).await?;
    let specialties: Vec<_> = known
        .iter()
        .map(|one| (one, Settings::of(&one.config).unwrap_or_default().specialty))
        .collect();
    let specialists: Vec<_> = specialties
        .iter()
        .filter_map(|(one, specialty)| specialty.specialist(one.id, &one.name))
        .collect();
    let sources = sources(db, owner.workspace_id).await?;
    let history = history(db, owner).await?;
    let named = |name: &str| known.iter().find(|one| one.name == name);
    // An attached database is as strong a signal as a console that runs on it.
    let databases = items.iter().filter(|item| item.kind == attachments::Kind::Database);
    let databases = databases.map(|item| {
        let of_source = sources.iter().find(|source| source.id.to_string() == item.id);
        let kind = item
            .metadata_text("databaseType")
            .or(of_source.map(|source| source.kind.as_str()));
        Console {
            database: kind.and_then(Database::named),
            content: "",
        }
    });
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
        .chain(databases)
        .collect();
    let clues = Clues {
        message,
        pinned: None,
        consoles: &consoles,
        databases: sources
            .iter()
            .filter_map(|source| Database::named(&source.kind))
            .collect::<Databases>(),
        preferred: settings.preferred_agent.as_deref().and_then(named).map(|one| one.id),
        history: &history,
    };
    let began = Instant::now();
    let choice = rejoin_routing::choose(&specialists, &clues);
    let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let agent = match choice.agent {
        Some(id) => known.iter().find(|one| one.id == id),
        None => named(&settings.triage_agent),
    };
    Ok(Assignment {
        agent: agent.map(|one| (one.id, one.name.clone())),
        choice,
        took_us,
    })
}

/// A definition that may be assigned.
struct Candidate {
    id: Uuid,
    name: String,
    config: Value,
}

/// Returns definitions with a specialty, and those named by the settings.
async fn candidates(
    db: &mut PgConnection,
    workspace_id: Uuid,
    settings: &Routing,
) -> Result<Vec<Candidate>, sqlx::Error> {
    sqlx::query_as!(
        Candidate,
        "select id, name, config from kb.agent_definitions
         where project_id = $1 and visibility <> 'internal' and (config ? 'specialty' or name = $2 or name = $3)
         order by name limit $4",
        workspace_id,
        settings.triage_agent,
        settings.preferred_agent as _,
        SPECIALISTS
    )
    .fetch_all(db)
    .await
}

struct SourceKind {
    id: Uuid,
    kind: String,
}

async fn sources(db: &mut PgConnection, workspace_id: Uuid) -> Result<Vec<SourceKind>, sqlx::Error> {
    sqlx::query_as!(
        SourceKind,
        "select id, kind from kb.data_sources where project_id = $1",
        workspace_id
    )
    .fetch_all(db)
    .await
}

/// Returns how often each agent was used in the user's newest conversations.
async fn history(db: &mut PgConnection, owner: Owner) -> Result<Vec<(Uuid, u32)>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select agent_definition_id as "agent!", count(*) as "times!"
           from (select agent_definition_id from kb.chat_conversations
                 where project_id = $1 and owner_user_id = $2 and agent_definition_id is not null
                 order by updated_at desc limit $3) newest
           group by agent_definition_id"#,
        owner.workspace_id,
        owner.user_id,
        PAST
    )
    .fetch_all(db)
    .await?;
    let times = |times: i64| u32::try_from(times).unwrap_or(u32::MAX);
    Ok(rows.into_iter().map(|row| (row.agent, times(row.times))).collect())
}
