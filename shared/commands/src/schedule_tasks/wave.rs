//! One pass of the scheduler over a DAG, in one transaction: what it has read, and which tasks it has changed. Their objects in the graph follow
//! at its end, all together.

use std::collections::BTreeSet;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::execute_plan;
use rejoin_graph::{Actor, ActorKind};
use rejoin_identity::initiators::{self, Membership};
use rejoin_runs::runs::RunState;
use rejoin_scheduling::tasks::sessions::{self, NewSession};
use rejoin_scheduling::tasks::{self, Dag, mirror};

/// The actor that writes the objects of tasks and sessions.
const SYSTEM: Actor = Actor {
    kind: ActorKind::System,
    id: None,
};

/// A pass. The caller holds the DAG's lock, and calls [`Wave::publish`] before it commits.
pub(crate) struct Wave<'a> {
    pub(crate) dag: &'a Dag,
    /// Tasks whose rows have changed since the last [`Wave::publish`].
    changed: BTreeSet<Uuid>,
    /// Sessions that begin, and runs whose sessions end.
    begun: Vec<NewSession>,
    ended: Vec<(Uuid, RunState)>,
    /// Number of tasks that have ended in this pass.
    pub(super) ends: usize,
    membership: Option<Membership>,
}

impl<'a> Wave<'a> {
    pub(crate) fn of(dag: &'a Dag) -> Self {
        Self {
            dag,
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

    /// Writes what is known of a task to its object before it changes again: each state is a version.
    pub(super) async fn publish_before(&mut self, db: &mut PgConnection, task: Uuid) -> Result<(), sqlx::Error> {
        if self.changed.contains(&task) {
            self.publish(db).await?;
        }
        Ok(())
    }

    pub(super) fn begin_session(&mut self, session: NewSession) {
        self.begun.push(session);
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
        for run_id in mirror::follow(db, workspace_id, &rows, ends.collect(), SYSTEM).await? {
            sessions::add_messages(db, workspace_id, run_id, SYSTEM).await?;
        }
        let begun = std::mem::take(&mut self.begun);
        sessions::begin(db, workspace_id, &begun, SYSTEM).await
    }
}
