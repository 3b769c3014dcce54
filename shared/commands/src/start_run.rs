//! Begins an attempt. The first one opens the turn with `meta` and stores the model's initial messages; a later one
//! sends `reset`, which tells readers what to discard, and continues from the stored messages. A run resumed after a
//! wait has left nothing half-written: it only announces that it is thinking again.

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Command, FencedError};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::fencing;
use rejoin_runs::contexts::{self, TurnContext};
use rejoin_runs::run_messages;
use rejoin_runs::run_query;
use rejoin_runs::runs::part::Part;
use rejoin_runs::runs::{Run, RunState};
use rejoin_types::events::Kind;

/// An initial message of the run, in order: (role, content).
pub type InitialMessage = (&'static str, Value);

#[derive(Debug)]
pub struct StartRun<'a> {
    pub run: &'a Run,
    pub attempt: i32,
    /// The model to call, as named by the definition or the deployment.
    pub model: &'a str,
    pub agent_name: Option<&'a str>,
    /// The `meta` event, if no earlier attempt has sent it.
    pub meta: Kind,
    /// System prompt, history, and the message to answer.
    pub initial_messages: Vec<InitialMessage>,
    /// The context of the turn, if its conversation has one.
    pub context: Option<&'a TurnContext>,
    /// The run's part in a plan, if not set before.
    pub part: Option<Part>,
    /// Events to publish after `meta`.
    pub notices: Vec<Kind>,
    /// Whether the choice of the agent is published.
    pub tells_routing: bool,
    /// Why an earlier attempt did not finish, for `reset`.
    pub reason: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// The turn was opened by this attempt.
    Fresh,
    /// An earlier attempt had opened it, and was lost.
    Resumed,
    /// The run had been suspended.
    Woken,
}

/// The result of beginning an attempt.
#[derive(Debug)]
pub struct Begun {
    pub started: Started,
    /// The run as the previous attempt left it.
    pub run: Run,
    pub wake: Wake,
}

impl Command for StartRun<'_> {
    type Output = Begun;
    type Error = FencedError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Begun, FencedError> {
        let failed = FencedError::database("starting the run");
        self.try_apply(db).await.map_err(failed)?.ok_or(FencedError::LeaseLost)
    }

    async fn happened(&self, db: &mut PgConnection, _: &Begun) -> Result<bool, sqlx::Error> {
        let begun = sqlx::query_scalar!(
            r#"select exists (select from kb.agent_runs where id = $1 and attempt = $2 and started_at is not null) as "begun!""#,
            self.run.id,
            self.attempt
        );
        begun.fetch_one(db).await
    }
}

impl StartRun<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<Begun>, sqlx::Error> {
        let run = self.run;
        if fencing::fence(db, run.id, self.attempt).await?.is_none() {
            return Ok(None);
        }
        log::lock(db, run.log_id).await?;
        // Read again under the lock: the caller's copy may be outdated.
        let before = sqlx::query!(
            "select safe_seq, state from kb.agent_runs where id = $1 for update",
            run.id
        )
        .fetch_one(&mut *db)
        .await?;
        let (started, event) = match before.safe_seq {
            None => {
                run_messages::append_all(db, run.id, &self.initial_messages, 0).await?;
                (Started::Fresh, self.meta.clone())
            }
            Some(_) if before.state == RunState::Queued.as_str() => (Started::Woken, thinking(None)),
            Some(safe_seq) => {
                let reset = Kind::Reset {
                    discard_after: safe_seq,
                    attempt: self.attempt,
                    reason: self.reason.to_owned(),
                };
                (Started::Resumed, reset)
            }
        };
        let mut events = vec![run.event(event)];
        if started == Started::Fresh {
            events.extend(self.notices.iter().map(|notice| run.event(notice.clone())));
        }
        if let (Started::Fresh, Some(routing), true) = (started, &run.routing, self.tells_routing) {
            events.push(run.event(Kind::Telemetry {
                name: "routing".to_owned(),
                data: routing.clone(),
            }));
        }
        let turn = self
            .context
            .filter(|_| started == Started::Fresh && !run.is_sub_agent());
        if let (Some(turn), Some(conversation_id)) = (turn, run.conversation_id) {
            let kinds = about(db, conversation_id, turn).await?;
            events.extend(kinds.into_iter().map(|kind| run.event(kind)));
        }
        let about = turn.map(|turn| turn.context.to_json());
        let idle_s = idle_s(db, run, started).await?;
        let seq = log::append(db, run.log_id, Some(run.root_run_id), &events).await?;
        let run = run_query!(
            "update kb.agent_runs
             set state = 'running', attempt = $2, safe_seq = $3, started_at = coalesce(started_at, now()),
                 model = $4, agent_name = coalesce(agent_name, $5), context = coalesce($6, context),
                 part = coalesce(part, $7), waited_s = waited_s + $8,
                 person_s = person_s + case when parent_run_id is null then $8 else 0 end
             where id = $1
             returning",
            "",
            run.id,
            self.attempt,
            seq,
            self.model,
            self.agent_name,
            about as _,
            self.part.as_ref().map(|part| json!(part)) as _,
            idle_s
        )
        .fetch_one(db)
        .await?;
        let wake = Wake::log(run.log_id);
        Ok(Some(Begun { started, run, wake }))
    }
}

/// Returns for how long no worker has worked on the run, in seconds: since its log's last event, if its worker was
/// lost; since its job was due, if it was suspended. Its time limits exclude this time.
async fn idle_s(db: &mut PgConnection, run: &Run, started: Started) -> Result<f64, sqlx::Error> {
    let idle_s = match started {
        Started::Fresh => return Ok(0.0),
        Started::Resumed => {
            sqlx::query_scalar!(
                "select extract(epoch from now() - created_at)::float8 from stream.events where log_id = $1 order by seq desc limit 1",
                run.log_id
            )
            .fetch_optional(db)
            .await?
        }
        Started::Woken => {
            sqlx::query_scalar!(
                "select extract(epoch from now() - run_at)::float8 from queue.jobs where run_id = $1 and isfinite(run_at)",
                run.id
            )
            .fetch_optional(db)
            .await?
        }
    };
    Ok(idle_s.flatten().unwrap_or_default().max(0.0))
}

/// Stores the turn's context with the conversation, and returns the events to publish.
async fn about(db: &mut PgConnection, conversation_id: Uuid, turn: &TurnContext) -> Result<Vec<Kind>, sqlx::Error> {
    let context = &turn.context;
    let before = contexts::set_context(db, conversation_id, context).await?;
    let mut told = vec![Kind::ContextUsage {
        usage: turn.usage.clone(),
    }];
    if before.as_ref().and_then(|before| before.focus.as_ref()) != context.focus.as_ref() {
        told.push(Kind::FocusChanged {
            focus: context.focus.as_ref().map(|focus| json!(focus)),
        });
    }
    if let Some(focus) = &context.focus {
        told.push(Kind::FocusActive { focus: json!(focus) });
    }
    if let Some(last_turn) = &turn.last_turn {
        told.push(Kind::LastTurnContext {
            context: last_turn.clone(),
        });
    }
    told.push(thinking(Some(context.context_type.as_str())));
    Ok(told)
}

fn thinking(context_type: Option<&str>) -> Kind {
    Kind::AgentState {
        state: "thinking".to_owned(),
        context_type: context_type.map(str::to_owned),
        details: None,
    }
}
