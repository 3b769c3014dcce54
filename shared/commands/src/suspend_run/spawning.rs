//! Starts the sub-agents of a call, or resumes paused ones, within the limits. Called in the transaction that suspends
//! their parent.

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Deferred, SuspendRun, started};
use crate::resume_run;
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::NewJob;
use rejoin_runs::run_query;
use rejoin_runs::runs::resuming::may_be_resumed;
use rejoin_runs::runs::{self, NewRun, Run, Spawned};
use rejoin_runs::tool_calls;
use rejoin_types::events::{Event, Kind};
use rejoin_types::ids;

/// A sub-agent requested by a call.
#[derive(Debug, Clone)]
pub struct SpawnItem {
    /// The name given by the model; of a model call, that of its step.
    pub agent_name: String,
    pub task: String,
    pub what: SpawnWhat,
}

/// A new run of an agent.
#[derive(Debug, Clone)]
pub struct NewSpawn {
    /// None: it answers a model call, which is on record in the step that asks.
    pub definition_id: Option<Uuid>,
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

/// Limits on sub-agents. Each applies item by item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpawnLimits {
    /// Maximum number in a tree over its lifetime.
    pub tree: i32,
    /// Maximum number of concurrently active ones in a workspace.
    pub workspace: i64,
}

impl SuspendRun<'_> {
    /// Starts the sub-agents of a call. Items that can't be started are recorded in the call, from which its answer is
    /// built.
    pub(super) async fn spawn(
        &self,
        db: &mut PgConnection,
        call: &Deferred<'_>,
        items: &[SpawnItem],
        events: &mut Vec<Event>,
    ) -> Result<Wake, sqlx::Error> {
        tool_calls::mark_running(db, call.id).await?;
        events.push(self.run.event(started(call)));
        let items: Vec<(i32, &SpawnItem)> = (0..).zip(items).collect();
        let begun = self.spawn_each(db, call, &items, events).await?;
        let refused: Vec<Value> = items
            .iter()
            .zip(&begun)
            .filter_map(|((position, item), child)| {
                let error = child.as_ref().err()?;
                Some(json!({
                    "position": position, "agent_name": item.agent_name, "run_id": null, "status": "failed",
                    "summary": null, "steps": 0, "error": error,
                }))
            })
            .collect();
        tool_calls::note(db, call.id, &json!({ "refused": refused })).await?;
        Ok(wake_for(&begun))
    }

    /// Starts sub-agents of a call, each with its position there. Returns for each its run, or why it can't be started, for the model.
    pub(super) async fn spawn_each(
        &self,
        db: &mut PgConnection,
        call: &Deferred<'_>,
        items: &[(i32, &SpawnItem)],
        events: &mut Vec<Event>,
    ) -> Result<Vec<Result<Uuid, String>>, sqlx::Error> {
        let run = self.run;
        let mut in_tree = sqlx::query_scalar!("select tree_runs from kb.agent_runs where id = $1", run.root_run_id)
            .fetch_one(&mut *db)
            .await?;
        let mut in_workspace = sqlx::query_scalar!(
            r#"select count(*) as "n!" from kb.agent_runs
               where project_id = $1 and parent_run_id is not null and state in ('queued', 'running', 'waiting')"#,
            run.workspace_id
        )
        .fetch_one(&mut *db)
        .await?;
        let mut begun = Vec::with_capacity(items.len());
        for (position, item) in items.iter().copied() {
            let over = if in_tree >= self.limits.tree {
                Some((
                    "tree_runs",
                    format!("this tree of agents has started {in_tree} sub-agents, the maximum"),
                ))
            } else if in_workspace >= self.limits.workspace {
                let message = format!("{in_workspace} sub-agents of the project are active, the maximum; retry later");
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
            if let Ok(child) = &child {
                in_tree += 1;
                in_workspace += 1;
                events.push(Event {
                    agent: Some(item.agent_name.clone()),
                    parent_run_id: Some(run.id),
                    source: Some(runs::SOURCE_SUB_AGENT.to_owned()),
                    ..Event::of(
                        *child,
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
            begun.push(child);
        }
        if begun.iter().any(Result::is_ok) {
            sqlx::query!(
                "update kb.agent_runs set tree_runs = $2 where id = $1",
                run.root_run_id,
                in_tree
            )
            .execute(db)
            .await?;
        }
        Ok(begun)
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
            workspace_id: run.workspace_id,
            conversation_id: run.conversation_id,
            user_id: run.user_id,
            agent_definition_id: new.definition_id,
            agent_name: Some(&item.agent_name),
            log_id: run.log_id,
            message_id: None,
            input: &item.task,
            first_seq: run.first_seq,
            timeout_s: new.timeout_s,
            task_id: None,
            output_schema: new.output_schema.as_ref(),
            traceparent: call.traceparent.as_deref(),
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
        let known = run_query!(
            "select",
            "from kb.agent_runs where id = $1 and project_id = $2 and log_id = $3 and parent_run_id is not null for update",
            run_id,
            run.workspace_id,
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
        resume_run::reopen(db, &known, Some(&item.task)).await?;
        sqlx::query!(
            "update kb.agent_runs
             set parent_run_id = $2, root_run_id = $3, depth = $4, spawn_call_id = $5, spawn_position = $6,
                 timeout_s = coalesce($7, timeout_s), first_seq = $8, traceparent = coalesce($9, traceparent)
             where id = $1",
            run_id,
            run.id,
            run.root_run_id,
            run.depth + 1,
            call.id,
            position,
            timeout_s,
            run.first_seq,
            call.traceparent.as_deref() as _
        )
        .execute(&mut *db)
        .await?;
        enqueue(db, run, run_id, known.attempt).await?;
        Ok(Ok(run_id))
    }
}

/// The wake-up for the workers that take these sub-agents.
pub(super) fn wake_for(begun: &[Result<Uuid, String>]) -> Wake {
    if begun.iter().any(Result::is_ok) {
        Wake::queue(rejoin_queue::DEFAULT_QUEUE)
    } else {
        Wake::default()
    }
}

async fn enqueue(db: &mut PgConnection, parent: &Run, id: Uuid, attempt: i32) -> Result<(), sqlx::Error> {
    let job = NewJob {
        workspace_id: parent.workspace_id,
        run_id: Some(id),
        max_attempts: rejoin_queue::RUN_MAX_ATTEMPTS,
        attempt,
        ..NewJob::new(rejoin_queue::KIND_RUN, json!({}))
    };
    rejoin_queue::enqueue(db, &job).await?;
    Ok(())
}
