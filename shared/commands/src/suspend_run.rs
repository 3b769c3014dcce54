//! Suspends a run that waits for sub-agents or a user. The children are started, the questions asked, the calls
//! recorded and the run suspended in ONE transaction: a child never runs beside its running parent, and a parent never
//! waits for children that were not started (invariant I12).
//!
//! - `planning` calls that make plans, and their questions
//! - `spawning` calls that start sub-agents, and their limits
//! - `steps`    what calls of users' programs wait for
//!
//! A call whose children already exist (an earlier attempt began it) only waits for them.

mod planning;
mod spawning;
mod steps;

pub use planning::{PlanAhead, Reviewer};
pub use spawning::{NewSpawn, SpawnItem, SpawnLimits, SpawnWhat};

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Command, CreateDag, DagError, FencedError, Review, execute_plan, record_tool};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::fencing;
use rejoin_runs::questions::{self, NewQuestion, ShownCall};
use rejoin_runs::remote_calls::{self, NewRemoteCall};
use rejoin_runs::remote_steps::{self, StepEnd};
use rejoin_runs::runs::Run;
use rejoin_runs::{run_dependencies, tool_calls};
use rejoin_scheduling::tasks::spec::{DagSpec, Ordered};
use rejoin_tools::remote::Remote;
use rejoin_types::events::{Event, Kind};
use rejoin_types::ids;

/// Prefix of the ids of calls that ask clarifying questions before a workspace is created.
pub const CLARIFYING: &str = "clarify_";

/// A call of the step that is answered later by others.
#[derive(Debug)]
pub struct Deferred<'a> {
    /// The row of the call.
    pub id: Uuid,
    pub call_id: &'a str,
    pub tool: &'a str,
    pub input: &'a Value,
    /// The span of the call, as `traceparent`: the runs that it starts belong to it.
    pub traceparent: Option<String>,
    pub what: DeferredWhat,
}

#[derive(Debug, Clone)]
pub enum DeferredWhat {
    /// An earlier attempt began it.
    Begun,
    Spawn(Vec<SpawnItem>),
    /// A DAG of tasks, and whether the run waits for its end.
    Tasks(Box<NewTasks>),
    /// A new plan: executed at once, or after its review.
    Plan(Box<PlanAhead>),
    /// The verdict on a plan that waited for it.
    Review(Box<Review>),
    Ask(NewQuestion),
    /// The fields of the forms that the call's tool asks for: it has begun.
    Forms(Vec<NewQuestion>),
    /// Confirmation of the call: it has not begun.
    Confirm(NewQuestion),
    /// The client executes the call, with these arguments.
    Client {
        question: NewQuestion,
        input: Value,
    },
    /// A user's program executes the call, with these arguments.
    Remote {
        remote: Box<Remote>,
        input: Value,
        /// It may be repeated after a lost program.
        repeatable: bool,
        /// It executes the turn, and may publish text of the answer.
        is_turn: bool,
    },
    /// A suspended call of a user's program waits for these.
    Steps(Vec<NewStep>),
    /// What became of such steps: the call goes on when all have ended.
    StepEnds(Vec<StepEnd>),
}

/// What a suspended call of a user's program waits for.
#[derive(Debug, Clone)]
pub struct NewStep {
    pub number: i32,
    pub what: StepWhat,
}

#[derive(Debug, Clone)]
pub enum StepWhat {
    Ask(NewQuestion),
    Spawn(SpawnItem),
    /// It can't be begun; the reason, for the program.
    Refused(String),
}

impl DeferredWhat {
    /// Returns whether the call begins with the wait, rather than before or after it.
    pub fn begins(&self) -> bool {
        match self {
            DeferredWhat::Spawn(_)
            | DeferredWhat::Tasks(_)
            | DeferredWhat::Plan(_)
            | DeferredWhat::Ask(_)
            | DeferredWhat::Client { .. }
            | DeferredWhat::Remote { .. } => true,
            DeferredWhat::Begun
            | DeferredWhat::Review(_)
            | DeferredWhat::Forms(_)
            | DeferredWhat::Confirm(_)
            | DeferredWhat::Steps(_)
            | DeferredWhat::StepEnds(_) => false,
        }
    }
}

/// A DAG created by a call.
#[derive(Debug, Clone)]
pub struct NewTasks {
    pub spec: DagSpec,
    pub ordered: Ordered,
    pub waits: bool,
}

#[derive(Debug)]
pub struct SuspendRun<'a> {
    pub run: &'a Run,
    pub attempt: i32,
    pub calls: &'a [Deferred<'a>],
    pub limits: SpawnLimits,
    /// Whether events are published.
    pub publish: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suspended {
    /// The run waits, and no worker holds its job.
    Waiting(Wake),
    /// Nothing that takes time was begun: all calls can be answered now.
    Answered(Wake),
    /// The run was cancelled: nothing was begun.
    Cancelled,
}

impl Command for SuspendRun<'_> {
    type Output = Suspended;
    type Error = FencedError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Suspended, FencedError> {
        let failed = FencedError::database("suspending the run");
        self.try_apply(db).await.map_err(failed)?.ok_or(FencedError::LeaseLost)
    }

    async fn happened(&self, db: &mut PgConnection, output: &Suspended) -> Result<bool, sqlx::Error> {
        match output {
            Suspended::Cancelled => Ok(false),
            // The attempt has lost the job, or the call is already recorded as begun.
            Suspended::Waiting(_) => Ok(fencing::fence(db, self.run.id, self.attempt).await?.is_none()),
            Suspended::Answered(_) => {
                let ids: Vec<Uuid> = self.calls.iter().map(|call| call.id).collect();
                sqlx::query_scalar!(
                    r#"select exists (select from kb.agent_run_tool_calls where id = any($1) and status = 'running') as "begun!""#,
                    &ids
                )
                .fetch_one(db)
                .await
            }
        }
    }
}

impl SuspendRun<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<Suspended>, sqlx::Error> {
        let run = self.run;
        if fencing::fence_progress(db, run.id, self.attempt).await?.is_none() {
            return Ok(None);
        }
        log::lock(db, run.log_id).await?;
        let cancelled = sqlx::query_scalar!(
            r#"select cancel_requested_at is not null as "cancelled!" from kb.agent_runs where id = $1 for update"#,
            run.id
        )
        .fetch_one(&mut *db)
        .await?;
        if cancelled {
            return Ok(Some(Suspended::Cancelled));
        }
        let mut wake = Wake::default();
        let mut events = Vec::new();
        for call in self.calls {
            match &call.what {
                DeferredWhat::Begun => {}
                DeferredWhat::Spawn(items) => wake.merge(self.spawn(db, call, items, &mut events).await?),
                DeferredWhat::Tasks(new) => {
                    tool_calls::mark_running(db, call.id).await?;
                    events.push(run.event(started(call)));
                    let create = CreateDag {
                        id: ids::new(),
                        workspace_id: run.workspace_id,
                        user_id: run.user_id,
                        spec: &new.spec,
                        ordered: &new.ordered,
                        made_by: Some((run.id, call.id, new.waits)),
                        plan: None,
                    };
                    match create.apply(db).await {
                        Ok(begun) => wake.merge(begun),
                        Err(DagError::Database(error)) => return Err(error),
                        // The graph refused it before anything was written: the answer says so.
                        Err(error) => tool_calls::note(db, call.id, &json!({ "refused": error.to_string() })).await?,
                    }
                }
                DeferredWhat::Plan(ahead) => wake.merge(self.plan(db, call, ahead, &mut events).await?),
                DeferredWhat::Review(review) => {
                    self.tell_now(db, &mut events).await?;
                    wake.merge(execute_plan::reviewed(db, run, review).await?);
                }
                DeferredWhat::Ask(question) => {
                    tool_calls::mark_running(db, call.id).await?;
                    events.push(run.event(started(call)));
                    self.ask(db, call, question, None, &mut events).await?;
                }
                DeferredWhat::Forms(questions) => {
                    for question in questions {
                        self.ask(db, call, question, None, &mut events).await?;
                    }
                }
                DeferredWhat::Confirm(question) => self.ask(db, call, question, Some(call.input), &mut events).await?,
                DeferredWhat::Client { question, input } => {
                    tool_calls::mark_running(db, call.id).await?;
                    events.push(run.event(record_tool::started(call.call_id, call.tool, input)));
                    self.ask(db, call, question, Some(input), &mut events).await?;
                }
                DeferredWhat::Remote {
                    remote,
                    input,
                    repeatable,
                    is_turn,
                } => {
                    tool_calls::mark_running(db, call.id).await?;
                    // What a later attempt knows it by, whatever became of the tool.
                    let note = json!({"remote": {"queue": remote.queue, "version": remote.version}});
                    tool_calls::note(db, call.id, &note).await?;
                    events.push(run.event(record_tool::started(call.call_id, call.tool, input)));
                    let answers = is_turn.then(|| run.event_fields());
                    let new = NewRemoteCall {
                        id: call.id,
                        workspace_id: run.workspace_id,
                        run_id: Some(run.id),
                        call_id: call.call_id,
                        conversation_id: run.conversation_id,
                        tool: call.tool,
                        remote,
                        input,
                        repeatable: *repeatable,
                        answers: answers.as_deref(),
                    };
                    wake.merge(remote_calls::insert(db, &new).await?);
                }
                DeferredWhat::Steps(steps) => wake.merge(self.begin_steps(db, call, steps, &mut events).await?),
                DeferredWhat::StepEnds(ends) => wake.merge(remote_steps::answer(db, call.id, ends).await?),
            }
        }
        let questions: Vec<Value> = self.calls.iter().flat_map(asked).map(NewQuestion::shown).collect();
        if !questions.is_empty() {
            events.push(run.event(Kind::ClarifyingQuestions { questions }));
        }
        let dependencies = run_dependencies::of_run(db, run.id).await?;
        // A call of a program is a call like any other.
        if dependencies.agents + dependencies.questions + dependencies.dags > 0 {
            let state = match dependencies.agents + dependencies.dags {
                0 => "waiting_on_user",
                _ => "waiting_on_agents",
            };
            events.push(run.event(Kind::AgentState {
                state: state.to_owned(),
                context_type: None,
                details: Some(json!({
                    "agents": dependencies.agents, "questions": dependencies.questions, "dags": dependencies.dags,
                })),
            }));
        }
        if self.publish && !events.is_empty() {
            let seq = log::append(db, run.log_id, Some(run.root_run_id), &events).await?;
            sqlx::query!("update kb.agent_runs set safe_seq = $2 where id = $1", run.id, seq)
                .execute(&mut *db)
                .await?;
            wake.merge(Wake::log(run.log_id));
        }
        if dependencies.are_met() {
            return Ok(Some(Suspended::Answered(wake)));
        }
        run_dependencies::suspend(db, run.id, self.attempt).await?;
        Ok(Some(Suspended::Waiting(wake)))
    }

    /// `shown`: the arguments of a call that the client executes or its user decides about.
    async fn ask(
        &self,
        db: &mut PgConnection,
        call: &Deferred<'_>,
        question: &NewQuestion,
        shown: Option<&Value>,
        events: &mut Vec<Event>,
    ) -> Result<(), sqlx::Error> {
        questions::insert(db, self.run.workspace_id, self.run.id, Some(call.id), question).await?;
        questions::opened(db, self.run.root_run_id).await?;
        let shown = shown.map(|input| ShownCall {
            call_id: call.call_id,
            tool: call.tool,
            input,
        });
        events.push(self.run.event(question.event(shown)));
        Ok(())
    }
}

/// The questions that a call asks its user.
fn asked<'a>(call: &'a Deferred<'_>) -> Vec<&'a NewQuestion> {
    match &call.what {
        DeferredWhat::Ask(question) => vec![question],
        DeferredWhat::Forms(questions) => questions.iter().collect(),
        DeferredWhat::Steps(steps) => steps
            .iter()
            .filter_map(|step| match &step.what {
                StepWhat::Ask(question) => Some(question),
                StepWhat::Spawn(_) | StepWhat::Refused(_) => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn started(call: &Deferred<'_>) -> Kind {
    record_tool::started(call.call_id, call.tool, call.input)
}
