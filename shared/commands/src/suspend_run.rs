//! Suspends a run that waits for sub-agents or a user. The children are started, the questions asked, the calls
//! recorded and the run suspended in ONE transaction: a child never runs beside its running parent, and a parent never
//! waits for children that were not started (invariant I12).
//!
//! - `planning` calls that make plans, and their questions
//!
//! A call whose children already exist (an earlier attempt began it) only waits for them.

mod planning;

pub use planning::{PlanAhead, Reviewer};

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Command, CreateDag, DagError, FencedError, Review, execute_plan};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::{NewJob, fencing};
use rejoin_runs::questions::{self, NewQuestion};
use rejoin_runs::runs::resuming::may_be_resumed;
use rejoin_runs::runs::{self, NewRun, Run, Spawned};
use rejoin_runs::{run_dependencies, tool_calls};
use rejoin_scheduling::tasks::spec::{DagSpec, Ordered};
use rejoin_types::events::{Event, Kind, ToolStatus};
use rejoin_types::ids;

/// Prefix of the ids of calls that ask clarifying questions before a project is created.
pub const CLARIFYING: &str = "clarify_";

/// A sub-agent requested by a call.
#[derive(Debug, Clone)]
pub struct SpawnItem {
    /// The name given by the model.
    pub agent_name: String,
    pub task: String,
    pub what: SpawnWhat,
}

/// A new run of an agent.
#[derive(Debug, Clone)]
pub struct NewSpawn {
    pub definition_id: Uuid,
    pub timeout_s: Option<i32>,
    /// The schema of its answer, unless the agent defines it.
    pub output_schema: Option<Value>,
}

#[derive(Debug, Clone)]
pub enum SpawnWhat {
    New(NewSpawn),
    /// Resumes a paused run.
    Resume {
        run_id: Uuid,
        timeout_s: Option<i32>,
    },
    /// It can't be started; the reason, for the model.
    Refused(String),
}

/// A call of the step that is answered later by others.
#[derive(Debug)]
pub struct Deferred<'a> {
    /// The row of the call.
    pub id: Uuid,
    pub call_id: &'a str,
    pub tool: &'a str,
    pub input: &'a Value,
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
    /// Confirmation of the call: it has not begun.
    Confirm(NewQuestion),
}

impl DeferredWhat {
    /// Returns whether the call begins with the wait, rather than before or after it.
    pub fn begins(&self) -> bool {
        match self {
            DeferredWhat::Spawn(_) | DeferredWhat::Tasks(_) | DeferredWhat::Plan(_) | DeferredWhat::Ask(_) => true,
            DeferredWhat::Begun | DeferredWhat::Review(_) | DeferredWhat::Confirm(_) => false,
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

/// Limits on sub-agents. Each applies item by item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpawnLimits {
    /// Maximum number in a tree over its lifetime.
    pub tree: i32,
    /// Maximum number of concurrently active ones in a project.
    pub project: i64,
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
                        project_id: run.project_id,
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
                    self.ask(db, call, question, &mut events).await?;
                }
                DeferredWhat::Confirm(question) => self.ask(db, call, question, &mut events).await?,
            }
        }
        let questions: Vec<Value> = self.calls.iter().filter_map(planning::asked).collect();
        if !questions.is_empty() {
            events.push(run.event(Kind::ClarifyingQuestions { questions }));
        }
        let dependencies = run_dependencies::of_run(db, run.id).await?;
        if !dependencies.are_met() {
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

    async fn ask(
        &self,
        db: &mut PgConnection,
        call: &Deferred<'_>,
        question: &NewQuestion,
        events: &mut Vec<Event>,
    ) -> Result<(), sqlx::Error> {
        questions::insert(db, self.run.project_id, self.run.id, Some(call.id), question).await?;
        questions::opened(db, self.run.root_run_id).await?;
        events.push(self.run.event(Kind::Question {
            question_id: question.id,
            question: question.question.clone(),
            options: question.options.iter().map(|option| json!(option)).collect(),
            interaction_type: question.interaction_type.clone(),
            clarifying: question.kind == "ask",
        }));
        Ok(())
    }

    /// Starts the sub-agents of a call. Items that can't be started are recorded in the call, from which its answer is
    /// built.
    async fn spawn(
        &self,
        db: &mut PgConnection,
        call: &Deferred<'_>,
        items: &[SpawnItem],
        events: &mut Vec<Event>,
    ) -> Result<Wake, sqlx::Error> {
        let run = self.run;
        tool_calls::mark_running(db, call.id).await?;
        events.push(run.event(started(call)));
        let mut in_tree = sqlx::query_scalar!("select tree_runs from kb.agent_runs where id = $1", run.root_run_id)
            .fetch_one(&mut *db)
            .await?;
        let mut in_project = sqlx::query_scalar!(
            r#"select count(*) as "n!" from kb.agent_runs
               where project_id = $1 and parent_run_id is not null and state in ('queued', 'running', 'waiting')"#,
            run.project_id
        )
        .fetch_one(&mut *db)
        .await?;
        let mut refused = Vec::new();
        let mut begun = 0;
        for (position, item) in (0..).zip(items) {
            let over = if in_tree >= self.limits.tree {
                Some((
                    "tree_runs",
                    format!("this tree of agents has started {in_tree} sub-agents, the maximum"),
                ))
            } else if in_project >= self.limits.project {
                let message = format!("{in_project} sub-agents of the project are active, the maximum; retry later");
                Some(("parallel_sub_agents", message))
            } else {
                None
            };
            let child = match (&item.what, over) {
                (SpawnWhat::Refused(why), _) => Err(why.clone()),
                (_, Some((limit, message))) => {
                    events.push(run.event(Kind::Limit {
                        limit: limit.to_owned(),
                        message: message.clone(),
                    }));
                    metrics::counter!("rejoin_limits_total", "limit" => limit).increment(1);
                    Err(message)
                }
                (SpawnWhat::New(new), None) => Ok(self.start(db, call, item, position, new).await?),
                (SpawnWhat::Resume { run_id, timeout_s }, None) => {
                    self.resume(db, call, item, position, *run_id, *timeout_s).await?
                }
            };
            match child {
                Ok(child) => {
                    in_tree += 1;
                    in_project += 1;
                    begun += 1;
                    events.push(Event {
                        agent: Some(item.agent_name.clone()),
                        parent_run_id: Some(run.id),
                        source: Some(runs::SOURCE_SUB_AGENT.to_owned()),
                        ..Event::of(
                            child,
                            Kind::SubAgent {
                                status: "started".to_owned(),
                                task: Some(item.task.clone()),
                                summary: None,
                                error: None,
                                code: None,
                                usage: None,
                            },
                        )
                    });
                }
                Err(error) => refused.push(json!({
                    "position": position, "agent_name": item.agent_name, "run_id": null, "status": "failed",
                    "summary": null, "steps": 0, "error": error,
                })),
            }
        }
        tool_calls::note(db, call.id, &json!({ "refused": refused })).await?;
        if begun == 0 {
            return Ok(Wake::default());
        }
        sqlx::query!(
            "update kb.agent_runs set tree_runs = $2 where id = $1",
            run.root_run_id,
            in_tree
        )
        .execute(db)
        .await?;
        Ok(Wake::queue(rejoin_queue::DEFAULT_QUEUE))
    }

    async fn start(
        &self,
        db: &mut PgConnection,
        call: &Deferred<'_>,
        item: &SpawnItem,
        position: i32,
        new: &NewSpawn,
    ) -> Result<Uuid, sqlx::Error> {
        let run = self.run;
        let id = ids::new();
        let child = NewRun {
            id,
            spawned: Some(Spawned {
                parent_run_id: run.id,
                root_run_id: run.root_run_id,
                depth: run.depth + 1,
                call_id: call.id,
                position,
            }),
            project_id: run.project_id,
            conversation_id: run.conversation_id,
            user_id: run.user_id,
            agent_definition_id: Some(new.definition_id),
            agent_name: Some(&item.agent_name),
            log_id: run.log_id,
            message_id: None,
            input: &item.task,
            first_seq: run.first_seq,
            timeout_s: new.timeout_s,
            task_id: None,
            output_schema: new.output_schema.as_ref(),
        };
        runs::insert(db, child).await?;
        enqueue(db, run, id, 0).await?;
        Ok(id)
    }

    /// Resumes a paused sub-agent of this log as a child of this call. The inner Err: the reason of a refusal, for the
    /// model.
    async fn resume(
        &self,
        db: &mut PgConnection,
        call: &Deferred<'_>,
        item: &SpawnItem,
        position: i32,
        run_id: Uuid,
        timeout_s: Option<i32>,
    ) -> Result<Result<Uuid, String>, sqlx::Error> {
        let run = self.run;
        let known = sqlx::query_as!(
            Run,
            "select * from kb.agent_runs where id = $1 and project_id = $2 and log_id = $3 and parent_run_id is not null for update",
            run_id,
            run.project_id,
            run.log_id
        )
        .fetch_optional(&mut *db)
        .await?;
        let Some(known) = known else {
            return Ok(Err(format!("there is no sub-agent run {run_id} in this conversation")));
        };
        if known.agent_name.as_deref() != Some(&item.agent_name) {
            let name = known.agent_name.unwrap_or_default();
            return Ok(Err(format!("the run {run_id} belongs to the agent {name}")));
        }
        if let Err(why) = may_be_resumed(&known) {
            return Ok(Err(why));
        }
        super::resume_run::reopen(db, &known, Some(&item.task)).await?;
        sqlx::query!(
            "update kb.agent_runs
             set parent_run_id = $2, root_run_id = $3, depth = $4, spawn_call_id = $5, spawn_position = $6,
                 timeout_s = coalesce($7, timeout_s), first_seq = $8
             where id = $1",
            run_id,
            run.id,
            run.root_run_id,
            run.depth + 1,
            call.id,
            position,
            timeout_s,
            run.first_seq
        )
        .execute(&mut *db)
        .await?;
        enqueue(db, run, run_id, known.attempt).await?;
        Ok(Ok(run_id))
    }
}

async fn enqueue(db: &mut PgConnection, parent: &Run, id: Uuid, attempt: i32) -> Result<(), sqlx::Error> {
    let job = NewJob {
        project_id: parent.project_id,
        run_id: Some(id),
        max_attempts: rejoin_queue::RUN_MAX_ATTEMPTS,
        attempt,
        ..NewJob::new(rejoin_queue::KIND_RUN, json!({}))
    };
    rejoin_queue::enqueue(db, &job).await?;
    Ok(())
}

fn started(call: &Deferred<'_>) -> Kind {
    Kind::McpTool {
        call_id: call.call_id.to_owned(),
        tool: call.tool.to_owned(),
        status: ToolStatus::Started,
        input: Some(call.input.clone()),
        result: None,
        error: None,
        duration_ms: None,
    }
}
