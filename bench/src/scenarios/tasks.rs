//! `tasks`: DAGs of tasks of three sizes: the dispatching cost per task, and whether it grows with the DAG.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use rejoin_commands::CreateDag;
use rejoin_event_log::wakeup;
use rejoin_scheduling::tasks::spec::DagSpec;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::model::Script;
use crate::product::Fleet;
use crate::results::{Better, Claim, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder, Scenario};

pub struct Tasks;

const TABLE: &str = "tasks";
const CLAIMED: &str = "1,000";
/// Tasks per layer; each waits for two of the previous layer.
const WIDTH: usize = 50;
/// Maximum number of concurrent tasks.
pub(super) const CONCURRENCY: i32 = 50;
/// Runs without a DAG that are triggered at the same time.
const TRIGGERS: usize = 8;
const LIMIT: Duration = Duration::from_secs(900);

#[async_trait]
impl Scenario for Tasks {
    fn name(&self) -> &'static str {
        "tasks"
    }

    fn about(&self) -> &'static str {
        "DAGs of 100, 1,000 and 10,000 tasks with a model that answers at once: the total cost per task"
    }

    fn tables(&self) -> Vec<Table> {
        let column = |key: &str, title: &str| Column::new(key, title, "ms", Better::Lower, Of::Rejoin);
        let columns = vec![
            column("make", "making it, a task"),
            column("run", "from the first to the last, a task").ratio_to("plain"),
            column("plain", "the same runs without a DAG, a run"),
        ];
        let table = Table::new(TABLE, "Milliseconds per task of a DAG", "tasks", columns);
        vec![table.plot(PlotKind::Bars, &["run", "plain"], false)]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let fleet = Fleet::of(context, 2, 1, &[("REJOIN_SLOTS", "50")]).await?;
        let agent = fleet.agent().await?;
        let database = &fleet.database;
        sqlx::query("update kb.projects set parallel_tasks = $1")
            .bind(CONCURRENCY)
            .execute(&database.db.pool_sqlx)
            .await?;
        let name: String = sqlx::query_scalar("select name from kb.agent_definitions where id = $1")
            .bind(agent)
            .fetch_one(&database.db.pool_sqlx)
            .await?;
        let script = Script {
            tokens: 1,
            ..Script::default()
        };
        for (row, count) in context.sized(
            vec![("100", 100), ("1,000", 1_000), ("10,000", 10_000)],
            vec![("few", 20)],
        ) {
            let took = run_dag(&fleet, count, &name, script).await?;
            out.record(TABLE, row, "make", ms_each(took.made, count));
            out.record(TABLE, row, "run", ms_each(took.ended, count));
            let plain = context.sized(1_000, 20);
            if count >= plain || context.is_last() {
                out.record(TABLE, row, "plain", plain_runs(&fleet, agent, script, plain).await?);
            }
        }
        out.note(format!(
            "Layers of {WIDTH}, each task after two of the previous layer; {CONCURRENCY} at a time on 2 workers. A \
             task's cost includes its run, its object's versions in the graph, and scheduling its dependents. \
             \"Without a DAG\": the same number of triggered runs."
        ));
        fleet.stop(context).await
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let table = found.table(TABLE);
        let (run, plain) = (table.values(CLAIMED, "run"), table.values(CLAIMED, "plain"));
        vec![Claim {
            what: format!("a DAG of {CLAIMED} tasks: a task, relative to the same run without a DAG"),
            unit: "times".to_owned(),
            bound: 1.3,
            better: Better::Lower,
            values: run.iter().zip(plain).map(|(run, plain)| run / plain).collect(),
            why_not: Some(
                "Beside its run, a task has an object in the graph with a version for each of its states, and one for its session with its \
                 messages: eight rows with their indexes, written by passes over the DAG."
                    .to_owned(),
            ),
        }]
    }
}

/// Durations since the beginning.
pub(super) struct Took {
    made: Duration,
    ended: Duration,
}

/// Makes a DAG of `count` tasks for the agent with this name, and waits until they are completed.
pub(super) async fn run_dag(fleet: &Fleet, count: usize, agent: &str, script: Script) -> Result<Took> {
    let database = &fleet.database;
    let spec = layered(count, agent, script)?;
    let ordered = spec.check().map_err(anyhow::Error::msg)?;
    let bus = wakeup::over_postgres(&database.db);
    let began = Instant::now();
    let dag = CreateDag {
        id: Uuid::now_v7(),
        workspace_id: database.workspace_id,
        user_id: Some(database.user_id),
        spec: &spec,
        ordered: &ordered,
        made_by: None,
        plan: None,
    };
    let wake = rejoin_commands::execute(&database.db.pool_sqlx, &dag)
        .await
        .context("making the DAG")?;
    bus.publish(wake);
    let made = began.elapsed();
    let state = wait_for_dag(fleet, dag.id).await?;
    ensure!(state == "completed", "the DAG is {state}");
    Ok(Took {
        made,
        ended: began.elapsed(),
    })
}

fn layered(count: usize, agent: &str, script: Script) -> Result<DagSpec> {
    let tasks: Vec<Value> = (0..count)
        .map(|nth| {
            let (layer, place) = (nth / WIDTH, nth % WIDTH);
            let after: Vec<String> = match layer {
                0 => Vec::new(),
                _ => [place, (place + 1) % WIDTH]
                    .map(|before| format!("t{}", (layer - 1) * WIDTH + before))
                    .to_vec(),
            };
            json!({"id": format!("t{nth}"), "title": script.message(), "agent": agent, "after": after})
        })
        .collect();
    Ok(serde_json::from_value(
        json!({"name": "bench", "maxConcurrency": CONCURRENCY, "tasks": tasks}),
    )?)
}

async fn wait_for_dag(fleet: &Fleet, id: Uuid) -> Result<String> {
    let began = Instant::now();
    loop {
        let state: Option<String> =
            sqlx::query_scalar("select state from kb.task_dags where id = $1 and finished_at is not null")
                .bind(id)
                .fetch_optional(&fleet.database.db.pool_sqlx)
                .await?;
        if let Some(state) = state {
            return Ok(state);
        }
        ensure!(began.elapsed() < LIMIT, "the DAG does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The same number of runs, without a DAG; milliseconds each.
async fn plain_runs(fleet: &Fleet, agent: Uuid, script: Script, count: usize) -> Result<f64> {
    let database = &fleet.database;
    let definition = rejoin_runs::agents::get(
        &mut *database.db.pool_sqlx.acquire().await?,
        database.workspace_id,
        agent,
    )
    .await?
    .context("the agent is there")?;
    let bus = wakeup::over_postgres(&database.db);
    let began = Instant::now();
    // Several at the same time: one after the other, their round trips would be measured, not their runs.
    let trigger = async || {
        let command = rejoin_commands::TriggerRun {
            definition: &definition,
            user_id: Some(database.user_id),
            input: script.message(),
            idempotency: None,
            output_schema: None,
            exhausted: None,
            part: None,
            traceparent: None,
        };
        let (_, wake) = rejoin_commands::execute(&database.db.pool_sqlx, &command).await?;
        bus.publish(wake);
        anyhow::Ok(())
    };
    let triggers = stream::iter(0..count).map(|_| trigger());
    triggers.buffer_unordered(TRIGGERS).try_collect::<()>().await?;
    loop {
        let left: i64 = sqlx::query_scalar("select count(*) from queue.jobs where run_id is not null")
            .fetch_one(&database.db.pool_sqlx)
            .await?;
        if left == 0 {
            return Ok(ms_each(began.elapsed(), count));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn ms_each(took: Duration, count: usize) -> f64 {
    took.as_secs_f64() * 1_000.0 / count as f64
}
