//! Begins an attempt. The first one opens the turn with `meta` and stores the model's initial messages; a later one
//! sends `reset`, which names what readers discard, and continues from the stored messages. A run resumed after a
//! wait has left nothing half-written: it only announces that it is thinking again.

use serde_json::{Value, json};
use sqlx::PgConnection;

use super::{Command, FencedError};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_runs::contexts::TurnContext;
use rejoin_runs::run_query;
use rejoin_runs::runs::part::Part;
use rejoin_runs::runs::{Run, RunState};
use rejoin_types::events::{Event, Kind};
use rejoin_types::ids;

/// Maximum number of times that the run is read to begin one attempt: once, and again if it has changed since.
const READS_MAX: u32 = 3;

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

    fn is_one_statement(&self) -> bool {
        true
    }
}

impl StartRun<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<Begun>, sqlx::Error> {
        let mut before = self.run.clone();
        for _ in 0..READS_MAX {
            let (started, events, focus_at) = self.opening(&before);
            let Some(run) = self.start(db, &before, started, &events, focus_at).await? else {
                return Ok(None);
            };
            if run.attempt == self.attempt {
                let wake = Wake::log(run.log_id);
                return Ok(Some(Begun { started, run, wake }));
            }
            // The caller's copy was outdated.
            before = run;
        }
        Err(sqlx::Error::Protocol("the run changes each time it is read".to_owned()))
    }

    /// Returns how an attempt at `run` begins, its events, and which of them is published only if the focus changes
    /// (counted from 1).
    fn opening(&self, run: &Run) -> (Started, Vec<Event>, Option<i32>) {
        let (started, event) = match run.safe_seq {
            None => (Started::Fresh, self.meta.clone()),
            Some(_) if run.state() == RunState::Queued => (Started::Woken, thinking(None)),
            Some(safe_seq) => {
                let reset = Kind::Reset {
                    discard_after: safe_seq,
                    attempt: self.attempt,
                    reason: self.reason.to_owned(),
                };
                (Started::Resumed, reset)
            }
        };
        let mut kinds = vec![event];
        let mut focus_at = None;
        if started == Started::Fresh {
            kinds.extend(self.notices.iter().cloned());
            let routing = run.routing.clone().filter(|_| self.tells_routing);
            kinds.extend(routing.map(|data| Kind::Telemetry {
                name: "routing".to_owned(),
                data,
            }));
            if let Some(turn) = self.turn(run, started).filter(|_| run.conversation_id.is_some()) {
                kinds.push(Kind::ContextUsage {
                    usage: turn.usage.clone(),
                });
                let focus = turn.context.focus.as_ref().map(|focus| json!(focus));
                kinds.push(Kind::FocusChanged { focus: focus.clone() });
                focus_at = i32::try_from(kinds.len()).ok();
                kinds.extend(focus.map(|focus| Kind::FocusActive { focus }));
                kinds.extend(turn.last_turn.clone().map(|context| Kind::LastTurnContext { context }));
                kinds.push(thinking(Some(turn.context.context_type.as_str())));
            }
        }
        let events = kinds.into_iter().map(|kind| run.event(kind)).collect();
        (started, events, focus_at)
    }

    /// The context that the run and its conversation get.
    fn turn(&self, run: &Run, started: Started) -> Option<&TurnContext> {
        self.context
            .filter(|_| started == Started::Fresh && !run.is_sub_agent())
    }

    /// Returns the run: begun by this attempt, or not begun because it is not as `before`. None: the lease was lost.
    async fn start(
        &self,
        db: &mut PgConnection,
        before: &Run,
        started: Started,
        events: &[Event],
        focus_at: Option<i32>,
    ) -> Result<Option<Run>, sqlx::Error> {
        let initial = self.initial_messages.iter().filter(|_| started == Started::Fresh);
        let (ids, roles, contents): (Vec<_>, Vec<_>, Vec<_>) = initial
            .map(|(role, content)| (ids::new(), (*role).to_owned(), content.clone()))
            .collect();
        let (types, data) = log::columns(events);
        let turn = self.turn(before, started);
        let context = turn.map(|turn| turn.context.to_json());
        let context_before = turn.map(|turn| turn.before.clone());
        let of_conversation = context.as_ref().and(before.conversation_id);
        run_query!(
            "select",
            "from kb.start_run($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
            before.id,
            self.attempt,
            before.log_id,
            before.root_run_id,
            before.safe_seq,
            before.state,
            &ids,
            &roles,
            &contents,
            &types,
            &data,
            focus_at,
            of_conversation,
            context as _,
            self.model,
            self.agent_name,
            self.part.as_ref().map(|part| json!(part)) as _,
            context_before as _
        )
        .fetch_optional(db)
        .await
    }
}

fn thinking(context_type: Option<&str>) -> Kind {
    Kind::AgentState {
        state: "thinking".to_owned(),
        context_type: context_type.map(str::to_owned),
        details: None,
    }
}
