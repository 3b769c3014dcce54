//! One pass of the scheduler over a DAG, in one transaction: what it has read, and what it writes. The tasks that it
//! completes, and the runs that it starts, are written together; the tasks' objects in the graph follow at its end.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::execute_plan::{self, StepPlacement};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_graph::{Actor, ActorKind};
use rejoin_identity::initiators::{self, Membership};
use rejoin_queue::NewJob;
use rejoin_runs::runs::{self, NewRun, RunState, Spawned};
use rejoin_scheduling::tasks::sessions::{self, NewSession};
use rejoin_scheduling::tasks::{self, Assignment, Dag, DagTask, TaskRole, mirror};

/// The actor that writes the objects of tasks and sessions.
const SYSTEM: Actor = Actor {
    kind: ActorKind::System,
    id: None,
};

/// A run that begins for a task.
pub(super) struct Start {
    pub run_id: Uuid,
    pub task: DagTask,
    pub role: TaskRole,
    /// The agent's name; without a definition, the model's.
    pub agent: String,
    pub because: String,
    /// None: a model is asked, without an agent.
    pub definition_id: Option<Uuid>,
    pub input: String,
    pub output_schema: Option<Value>,
    pub timeout_s: Option<i32>,
    /// For a plan's step.
    pub placement: Option<StepPlacement>,
}

/// A pass. The caller holds the DAG's lock, and calls [`Pass::publish`] before it commits.
pub(crate) struct Pass<'a> {
    pub(crate) dag: &'a Dag,
    /// Completed tasks and their summaries, until [`Pass::write_completed`].
    completed: (Vec<Uuid>, Vec<String>),
    /// Until [`Pass::write_started`].
    starts: Vec<Start>,
    has_started: bool,
    /// Tasks whose rows have changed since the last [`Pass::publish`].
    changed: BTreeSet<Uuid>,
    /// Sessions that begin, and runs whose sessions end.
    begun: Vec<NewSession>,
    ended: Vec<(Uuid, RunState)>,
    /// Number of tasks that have ended in this pass.
    pub(super) ends: usize,
    membership: Option<Membership>,
}

impl<'a> Pass<'a> {
    pub(crate) fn of(dag: &'a Dag) -> Self {
        Self {
            dag,
            completed: Default::default(),
            starts: Vec::new(),
            has_started: false,
            changed: BTreeSet::new(),
            begun: Vec::new(),
            ended: Vec::new(),
            ends: 0,
            membership: None,
        }
    }

    /// Records that a task's row was changed. A step of a plan is published at once.
    pub(crate) async fn changed(&mut self, db: &mut PgConnection, task: Uuid) -> Result<(), sqlx::Error> {
        if self.dag.plan_id.is_some()
            && let Some(task) = tasks::get(&mut *db, task).await?
        {
            execute_plan::publish_step(db, self.dag, &task).await?;
        }
        self.changed.insert(task);
        Ok(())
    }

    pub(super) fn complete(&mut self, task: Uuid, summary: String) {
        self.completed.0.push(task);
        self.completed.1.push(summary);
    }

    /// Writes the completed tasks, and unblocks their successors.
    pub(super) async fn write_completed(&mut self, db: &mut PgConnection) -> Result<(), sqlx::Error> {
        let (completed, summaries) = std::mem::take(&mut self.completed);
        if completed.is_empty() {
            return Ok(());
        }
        tasks::complete(db, &completed, &summaries).await?;
        for id in &completed {
            self.changed(db, *id).await?;
        }
        tasks::unblock_dependents(db, self.dag.workspace_id, self.dag.id, &completed).await
    }

    pub(super) fn start(&mut self, start: Start) {
        self.starts.push(start);
    }

    /// Writes the runs that start, with their logs and jobs.
    pub(super) async fn write_started(&mut self, db: &mut PgConnection) -> Result<(), sqlx::Error> {
        let starts = std::mem::take(&mut self.starts);
        if starts.is_empty() {
            return Ok(());
        }
        self.has_started = true;
        // What is known of a task is written to its object before it changes again: each state is a version.
        if starts.iter().any(|start| self.changed.contains(&start.task.id)) {
            self.publish(db).await?;
        }
        let with_own_log = starts.iter().filter(|start| start.placement.is_none());
        let logs: Vec<Uuid> = with_own_log.map(|start| start.run_id).collect();
        log::create_many(db, &logs).await?;
        let runs: Vec<NewRun<'_>> = starts.iter().map(|start| self.run_of(start)).collect();
        runs::insert_many(db, &runs).await?;
        for start in &starts {
            if let Some(placement) = &start.placement {
                execute_plan::set_part(db, start.run_id, &placement.part).await?;
            }
            if start.definition_id.is_none() {
                runs::set_model(&mut *db, start.run_id, &start.agent).await?;
            }
        }
        let jobs: Vec<NewJob> = starts.iter().map(|start| self.job_of(start)).collect();
        rejoin_queue::enqueue_many(db, &jobs).await?;
        let mut assignments = Vec::with_capacity(starts.len());
        let mut begun = Vec::with_capacity(starts.len());
        for start in starts {
            if start.role == TaskRole::Work {
                begun.push(NewSession {
                    task_id: start.task.id,
                    title: start.task.title,
                    run_id: start.run_id,
                    agent: start.agent.clone(),
                });
            }
            assignments.push(Assignment {
                task_id: start.task.id,
                run_id: start.run_id,
                role: start.role,
                agent: start.agent,
                because: start.because,
            });
        }
        tasks::assign(db, &assignments).await?;
        for session in &begun {
            self.changed(db, session.task_id).await?;
        }
        self.begun.extend(begun);
        Ok(())
    }

    fn run_of<'s>(&self, start: &'s Start) -> NewRun<'s> {
        let planner = start.placement.as_ref().map(|placement| &placement.planner);
        NewRun {
            id: start.run_id,
            spawned: planner.map(|planner| Spawned {
                parent_run_id: planner.id,
                root_run_id: planner.root_run_id,
                depth: planner.depth + 1,
                call_id: self.dag.waiting_call_id.unwrap_or_default(),
                position: start.task.r#ref.parse().unwrap_or_default(),
            }),
            workspace_id: self.dag.workspace_id,
            conversation_id: planner.and_then(|planner| planner.conversation_id),
            user_id: self.dag.user_id,
            agent_definition_id: start.definition_id,
            agent_name: start.definition_id.map(|_| start.agent.as_str()),
            log_id: planner.map_or(start.run_id, |planner| planner.log_id),
            message_id: None,
            input: &start.input,
            first_seq: planner.map_or(0, |planner| planner.first_seq),
            timeout_s: start.timeout_s,
            task_id: Some(start.task.id),
            output_schema: start.output_schema.as_ref(),
            traceparent: None,
        }
    }

    fn job_of(&self, start: &Start) -> NewJob {
        NewJob {
            workspace_id: self.dag.workspace_id,
            run_id: Some(start.run_id),
            priority: start.task.priority,
            max_attempts: rejoin_queue::RUN_MAX_ATTEMPTS,
            ..NewJob::new(rejoin_queue::KIND_RUN, json!({}))
        }
    }

    /// What this pass wakes.
    pub(super) fn wake(&self) -> Wake {
        if self.has_started {
            Wake::queue(rejoin_queue::DEFAULT_QUEUE)
        } else {
            Wake::default()
        }
    }

    pub(super) fn end_session(&mut self, run_id: Uuid, state: RunState) {
        self.ended.push((run_id, state));
    }

    /// The membership of the DAG's user, read once.
    pub(super) async fn membership(&mut self, db: &mut PgConnection) -> Result<&Membership, sqlx::Error> {
        if self.membership.is_none() {
            self.membership = Some(initiators::membership(db, self.dag.workspace_id, self.dag.user_id).await?);
        }
        Ok(self.membership.as_ref().expect("it was just read"))
    }

    /// Brings the objects of changed tasks and their sessions up to date.
    pub(crate) async fn publish(&mut self, db: &mut PgConnection) -> Result<(), sqlx::Error> {
        let workspace_id = self.dag.workspace_id;
        let changed: Vec<Uuid> = std::mem::take(&mut self.changed).into_iter().collect();
        let rows = if changed.is_empty() {
            Vec::new()
        } else {
            tasks::get_many(&mut *db, &changed).await?
        };
        let ended = std::mem::take(&mut self.ended);
        let ends = ended.iter().map(|(run_id, state)| (*run_id, sessions::end(*state)));
        let written = mirror::follow(db, workspace_id, &rows, ends.collect(), SYSTEM).await?;
        sessions::add_messages(db, workspace_id, &written, SYSTEM).await?;
        let begun = std::mem::take(&mut self.begun);
        sessions::begin(db, workspace_id, &begun, SYSTEM).await
    }
}
