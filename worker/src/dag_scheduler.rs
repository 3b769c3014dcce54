//! Continues DAGs after the ends of their tasks' runs. One pass at a time over a DAG: the runs that end meanwhile share the
//! next one. Nothing is lost with the process: the sweep finds DAGs that could proceed.

use std::collections::{HashMap, HashSet};

use rejoin_commands::{ChangeDag, DagChange, DagError};
use rejoin_db::failure_log::{ErrorChain, FailureLog};
use rejoin_event_log::wakeup::SharedBus;
use rejoin_scheduling::tasks;
use sqlx::PgPool;
use tokio::sync::mpsc;
use tokio::task::{self, JoinSet};
use uuid::Uuid;

/// Maximum number of DAGs that a worker passes over at the same time: each takes a connection, also while it waits for the DAG's lock.
const PASSES_MAX: usize = 4;

/// Maximum number of ends that wait for a look at their DAGs. The sweep finds the DAGs of more.
const ENDS_MAX: usize = 10_000;

#[derive(Clone)]
pub struct DagScheduler {
    ended: mpsc::Sender<Uuid>,
}

impl DagScheduler {
    /// Runs until the last clone is dropped.
    pub fn start(db: PgPool, bus: SharedBus) -> Self {
        let (ended, receiver) = mpsc::channel(ENDS_MAX);
        tokio::spawn(run(db, bus, receiver));
        Self { ended }
    }

    /// The end of a run of this task is committed.
    pub fn run_ended(&self, task: Uuid) {
        if self.ended.try_send(task).is_err() {
            tracing::warn!(%task, "too many tasks end at the same time; the sweep continues their DAGs");
        }
    }
}

async fn run(db: PgPool, bus: SharedBus, mut ended: mpsc::Receiver<Uuid>) {
    let mut outage = FailureLog::of("continuing DAGs");
    let mut due: HashSet<Uuid> = HashSet::new();
    // Each is a task of the runtime: a pass goes on while this one waits for a connection.
    let mut passes = JoinSet::new();
    let mut under_way: HashMap<task::Id, Uuid> = HashMap::new();
    let mut tasks_of_ends = Vec::new();
    let mut is_open = true;
    while is_open || !passes.is_empty() {
        tokio::select! {
            // All that wait share one look for their DAGs.
            count = ended.recv_many(&mut tasks_of_ends, ENDS_MAX), if is_open => {
                is_open = count > 0;
                match tasks::dags_of(&db, &tasks_of_ends).await {
                    Ok(dags) => due.extend(dags),
                    // The sweep finds them.
                    Err(error) => outage.failed(ErrorChain(&error)),
                }
                tasks_of_ends.clear();
            }
            Some(joined) = passes.join_next_with_id() => {
                let id = joined.as_ref().map_or_else(|error| error.id(), |(id, _)| *id);
                under_way.remove(&id);
                match joined {
                    Ok((_, Ok(()))) => outage.over(),
                    Ok((_, Err(error))) => outage.failed(error),
                    Err(error) => outage.failed(ErrorChain(&error)),
                }
            }
        }
        while under_way.len() < PASSES_MAX {
            let is_free = |dag: &&Uuid| !under_way.values().any(|other| other == *dag);
            let Some(dag) = due.iter().find(is_free).copied() else {
                break;
            };
            due.remove(&dag);
            let (db, bus) = (db.clone(), bus.clone());
            let pass = passes.spawn(async move { pass(&db, &bus, dag).await });
            under_way.insert(pass.id(), dag);
        }
    }
}

async fn pass(db: &PgPool, bus: &SharedBus, id: Uuid) -> Result<(), String> {
    let change = DagChange::Proceed;
    match rejoin_commands::execute_patiently(db, &ChangeDag { id, change }).await {
        Ok(wake) if wake.is_empty() => Ok(()),
        Ok(wake) => {
            bus.publish(wake);
            Ok(())
        }
        // It was deleted.
        Err(DagError::NotFound) => Ok(()),
        Err(error) => Err(ErrorChain(&error).to_string()),
    }
}
