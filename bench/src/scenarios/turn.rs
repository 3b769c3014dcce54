//! `turn`: what a turn costs, by its kind: SQL statements, writing transactions, WAL, and CPU of each process; and how many turns a
//! second the machine serves.
//!
//! Statements are counted by pg_stat_statements, on a separate server. The folder `statements` beside the results lists them.

mod counters;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use rejoin_runs::{builtin, conversations};
use rejoin_types::owner::Owner;
use serde_json::{Value, json};
use sqlx::{PgPool, Row as _};
use uuid::Uuid;

use super::tasks;
use crate::load::{Latencies, now_us};
use crate::model::{SUB_AGENT, Script};
use crate::product::Fleet;
use crate::results::{Better, Claim, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder, Scenario};
use crate::server::Server;
use counters::Counters;

pub struct Turn;

const COST: &str = "cost";
const RATE: &str = "rate";
const PLAIN: &str = "plain conversation";
const ONE_STEP: &str = "agent, one tool step";
const TEN_STEPS: &str = "agent, ten tool steps";
/// Tokens of an answer.
const TOKENS: usize = 5;
/// Turns of each chat before its rate is measured: PostgreSQL plans a statement for each of its first five executions on a connection, and the
/// rate is that of processes that have run for a while.
const WARM_TURNS: usize = 10;
/// How long the statements of idle processes are counted, to be subtracted.
const IDLE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    agent: Option<Who>,
    calls: usize,
    agents: usize,
    /// Turns of the same conversation before the measured one.
    before: usize,
}

#[derive(Debug, Clone, Copy)]
enum Who {
    /// Has the tools of the graph.
    Graph,
    /// Starts other agents.
    Parent,
}

const KINDS: [Kind; 6] = [
    Kind::plain(PLAIN),
    Kind {
        before: 9,
        ..Kind::plain("plain, tenth turn of a conversation")
    },
    Kind::agent("agent, no tool step", 0),
    Kind::agent(ONE_STEP, 1),
    Kind::agent(TEN_STEPS, 10),
    Kind {
        agent: Some(Who::Parent),
        agents: 1,
        ..Kind::agent("agent, one sub-agent", 1)
    },
];
/// Its costs are those of one of many tasks.
const DAG_TASK: &str = "task of a DAG";

impl Kind {
    const fn plain(name: &'static str) -> Self {
        Self {
            name,
            agent: None,
            calls: 0,
            agents: 0,
            before: 0,
        }
    }

    const fn agent(name: &'static str, calls: usize) -> Self {
        Self {
            agent: Some(Who::Graph),
            calls,
            ..Self::plain(name)
        }
    }

    fn script(&self) -> Script {
        Script {
            calls: self.calls,
            tokens: TOKENS,
            agents: self.agents,
            ..Script::default()
        }
    }
}

#[async_trait]
impl Scenario for Turn {
    fn name(&self) -> &'static str {
        "turn"
    }

    fn about(&self) -> &'static str {
        "what a turn of five tokens costs, with a model that answers at once"
    }

    fn tables(&self) -> Vec<Table> {
        let cost = |key: &str, title: &str, unit: &str| Column::new(key, title, unit, Better::Lower, Of::Rejoin);
        let costs = vec![
            cost("statements", "SQL statements", ""),
            cost("transactions", "writing transactions", ""),
            cost("wal", "WAL", "kB"),
            cost("api", "CPU of the API", "ms"),
            cost("worker", "CPU of the worker", "ms"),
            cost("postgres", "CPU of PostgreSQL", "ms"),
            cost("p50", "post to `done`: p50", "ms"),
            cost("p99", "p99", "ms"),
        ];
        let mut rates = ["1", "20", "200"]
            .map(|together| {
                let title = format!("{together} at once");
                Column::new(together, &title, "1/s", Better::Higher, Of::Rejoin)
            })
            .to_vec();
        rates.push(cost("cpu", "CPU of a turn, all processes, 20 at once", "ms"));
        vec![
            Table::new(COST, "Costs of a turn, one at a time", "turn", costs),
            Table::new(RATE, "Turns a second", "turn", rates).plot(PlotKind::Bars, &["1", "20", "200"], false),
        ]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let own = Context {
            server: counting_server().await?,
            size: context.size,
            rep: context.rep,
            reps: context.reps,
            peers: context.peers,
            folder: context.folder.clone(),
        };
        measure_kinds(&own, out).await?;
        own.server.stop().await
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let (cost, rate) = (found.table(COST), found.table(RATE));
        let claim = |what: &str, unit: &str, bound: f64, better: Better, values: Vec<f64>| Claim {
            what: what.to_owned(),
            unit: unit.to_owned(),
            bound,
            better,
            values,
            why_not: None,
        };
        let one = cost.values(ONE_STEP, "statements");
        let ten = cost.values(TEN_STEPS, "statements");
        let steps = one.iter().zip(ten).map(|(one, ten)| (ten - one) / 9.0).collect();
        let spent = format!(
            "One at a time, a turn takes {} ms of CPU in the API, {} in the worker and {} in PostgreSQL.",
            cost.cell_text(PLAIN, "api"),
            cost.cell_text(PLAIN, "worker"),
            cost.cell_text(PLAIN, "postgres"),
        );
        vec![
            claim(
                "SQL statements of a plain turn",
                "",
                20.0,
                Better::Lower,
                cost.values(PLAIN, "statements").to_vec(),
            )
            .unless("14 of them are the turn's own, which a test asserts. The others depend on time: claims, wake-ups, flushes of events, and the reader's tail."),
            claim(
                "SQL statements of a step with a tool call",
                "",
                6.0,
                Better::Lower,
                steps,
            )
            .unless("3 of them are the step's own, which a test asserts. The others are the tool's query, and what depends on time: wake-ups, flushes of events, and the reader's tail."),
            claim(
                "CPU of a plain turn, all processes, 20 at once",
                "ms",
                2.5,
                Better::Lower,
                rate.values(PLAIN, "cpu").to_vec(),
            )
            .unless(spent.clone()),
            claim(
                "plain turns a second, 20 at once",
                "1/s",
                600.0,
                Better::Higher,
                rate.values(PLAIN, "20").to_vec(),
            )
            .unless(format!("All processors are busy. {spent}")),
        ]
    }
}

/// On a separate thread, because the future of migrations is not `Send`.
pub(super) async fn counting_server() -> Result<Server> {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(Server::counting_statements())).await?
}

async fn measure_kinds(context: &Context, out: &mut Recorder) -> Result<()> {
    let fleet = Fleet::start(context, &[("REJOIN_SLOTS", "200")]).await?;
    sqlx::query("create extension pg_stat_statements")
        .execute(&fleet.database.db.pool_sqlx)
        .await?;
    sqlx::query("update kb.projects set parallel_tasks = $1")
        .bind(tasks::CONCURRENCY)
        .execute(&fleet.database.db.pool_sqlx)
        .await?;
    let graph = fleet.agent().await?;
    let parent = fleet
        .agent_with("bench-parent", vec![builtin::SPAWN_AGENTS.to_owned()])
        .await?;
    fleet.agent_with(SUB_AGENT, Vec::new()).await?;
    let before = Counters::read(&fleet, context).await?;
    tokio::time::sleep(context.sized(IDLE, Duration::from_secs(1))).await;
    let idle = Counters::read(&fleet, context).await?.since(&before);
    for kind in KINDS {
        let agent = kind.agent.map(|who| match who {
            Who::Graph => graph,
            Who::Parent => parent,
        });
        // Connections, prepared statements, caches.
        turns(&fleet, agent, kind.script(), 1, context.sized(20, 2)).await?;
        measure_cost(context, &fleet, kind, agent, &idle, out).await?;
        if kind.before > 0 {
            continue;
        }
        for (column, together, count) in context.sized(
            vec![("1", 1, 50), ("20", 20, 400), ("200", 200, 1_000)],
            vec![("1", 1, 2), ("20", 2, 4), ("200", 4, 4)],
        ) {
            turns(&fleet, agent, kind.script(), together, context.sized(WARM_TURNS, 1)).await?;
            let began = Counters::read(&fleet, context).await?;
            let took_s = turns(&fleet, agent, kind.script(), together, count / together).await?.0;
            out.record(RATE, kind.name, column, count as f64 / took_s);
            if column == "20" {
                let used = Counters::read(&fleet, context).await?.since(&began);
                out.record(
                    RATE,
                    kind.name,
                    "cpu",
                    used.cpu_us.iter().sum::<f64>() / count as f64 / 1_000.0,
                );
            }
        }
    }
    measure_dag(context, &fleet, &idle, out).await?;
    out.note(format!(
        "Turns of {TOKENS} tokens in new conversations; one API and one worker with 200 slots. BEGIN and COMMIT are statements, too. \
         What idle processes do in the same time is subtracted. The load's own client and the model share the machine and \
         are not counted."
    ));
    fleet.stop(context).await
}

async fn measure_cost(
    context: &Context,
    fleet: &Fleet,
    kind: Kind,
    agent: Option<Uuid>,
    idle: &Counters,
    out: &mut Recorder,
) -> Result<()> {
    let count = context.sized(100, 4);
    let conversations = prepared(fleet, kind, agent, count).await?;
    reset_statements(fleet).await?;
    let before = Counters::read(fleet, context).await?;
    let mut latencies = Latencies::default();
    let mut chat = fleet.chat().await?;
    for conversation in conversations {
        let posted = now_us();
        latencies.record(chat.ask(fields(agent, conversation), kind.script()).await?.done_us - posted);
    }
    let cost = Counters::read(fleet, context).await?.since(&before).without(idle);
    write_statements(&context.folder, &fleet.database.db.pool_sqlx, kind.name, count).await?;
    record_cost(kind.name, &cost, count, out);
    out.record(COST, kind.name, "p50", latencies.quantile_ms(0.5));
    out.record(COST, kind.name, "p99", latencies.quantile_ms(0.99));
    Ok(())
}

fn record_cost(row: &str, cost: &Counters, count: usize, out: &mut Recorder) {
    let each = count as f64;
    for (column, value) in [
        ("statements", cost.statements / each),
        ("transactions", cost.transactions / each),
        ("wal", cost.wal_bytes / each / 1_000.0),
        ("api", cost.cpu_us[0] / each / 1_000.0),
        ("worker", cost.cpu_us[1] / each / 1_000.0),
        ("postgres", cost.cpu_us[2] / each / 1_000.0),
    ] {
        out.record(COST, row, column, value);
    }
}

async fn reset_statements(fleet: &Fleet) -> Result<()> {
    sqlx::query("select pg_stat_statements_reset()")
        .execute(&fleet.database.db.pool_sqlx)
        .await?;
    Ok(())
}

/// Returns a conversation with [`Kind::before`] turns for each measured turn; none for new ones.
async fn prepared(fleet: &Fleet, kind: Kind, agent: Option<Uuid>, count: usize) -> Result<Vec<Option<Uuid>>> {
    if kind.before == 0 {
        return Ok(vec![None; count]);
    }
    let owner = Owner {
        workspace_id: fleet.database.workspace_id,
        user_id: fleet.database.user_id,
    };
    let mut chat = fleet.chat().await?;
    let mut made = Vec::new();
    for _ in 0..count {
        let mut connection = fleet.database.db.pool_sqlx.acquire().await?;
        let conversation = Uuid::now_v7();
        conversations::create(&mut connection, conversation, owner, "bench", agent, &json!({})).await?;
        drop(connection);
        for _ in 0..kind.before {
            chat.ask(fields(agent, Some(conversation)), kind.script()).await?;
        }
        made.push(Some(conversation));
    }
    Ok(made)
}

fn fields(agent: Option<Uuid>, conversation: Option<Uuid>) -> Value {
    let mut fields = json!({});
    if let Some(agent) = agent {
        fields["agentDefinitionId"] = agent.to_string().into();
    }
    if let Some(conversation) = conversation {
        fields["conversationId"] = conversation.to_string().into();
    }
    fields
}

/// The costs of a task: those of a DAG, by its number of tasks.
async fn measure_dag(context: &Context, fleet: &Fleet, idle: &Counters, out: &mut Recorder) -> Result<()> {
    let count = context.sized(1_000, 20);
    let script = Script {
        tokens: TOKENS,
        ..Script::default()
    };
    tasks::run_dag(fleet, context.sized(100, 4), SUB_AGENT, script).await?;
    reset_statements(fleet).await?;
    let before = Counters::read(fleet, context).await?;
    tasks::run_dag(fleet, count, SUB_AGENT, script).await?;
    let cost = Counters::read(fleet, context).await?.since(&before).without(idle);
    write_statements(&context.folder, &fleet.database.db.pool_sqlx, DAG_TASK, count).await?;
    record_cost(DAG_TASK, &cost, count, out);
    Ok(())
}

/// `together` chats take `each` turns, one after the other. Returns how long it took, in seconds, and how long each turn took.
async fn turns(
    fleet: &Fleet,
    agent: Option<Uuid>,
    script: Script,
    together: usize,
    each: usize,
) -> Result<(f64, Latencies)> {
    let mut chats = Vec::new();
    for _ in 0..together {
        chats.push(fleet.chat().await?);
    }
    let began = now_us();
    let mut running = Vec::new();
    for mut chat in chats {
        running.push(tokio::spawn(async move {
            let mut took_us = Vec::new();
            for _ in 0..each {
                let posted = now_us();
                took_us.push(chat.turn(agent, script).await?.done_us - posted);
            }
            Ok::<_, anyhow::Error>(took_us)
        }));
    }
    let mut latencies = Latencies::default();
    for chat in running {
        for took_us in chat.await?? {
            latencies.record(took_us);
        }
    }
    Ok(((now_us() - began) as f64 / 1_000_000.0, latencies))
}

/// Lists the executed statements, with the number of calls per turn.
async fn write_statements(folder: &Path, db: &PgPool, kind: &str, turns: usize) -> Result<()> {
    let rows = sqlx::query(
        "select calls, rows, plans, total_plan_time, total_exec_time, query from pg_stat_statements
         where calls >= $1 / 2 order by calls desc, total_exec_time desc",
    )
    .bind(i64::try_from(turns)?)
    .fetch_all(db)
    .await?;
    let mut text =
        String::from("calls a turn | rows a turn | plans a turn | ms of plans a turn | ms a turn | statement\n");
    for row in rows {
        let (calls, rows, plans): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        let (plan_ms, ms, query): (f64, f64, String) = (row.get(3), row.get(4), row.get(5));
        let each = turns as f64;
        let query = query.split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(
            text,
            "{:6.2} | {:6.2} | {:6.2} | {:7.3} | {:7.3} | {query}",
            calls as f64 / each,
            rows as f64 / each,
            plans as f64 / each,
            plan_ms / each,
            ms / each
        )?;
    }
    let folder = folder.join("statements");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(
        folder.join(format!("{}.txt", kind.replace(", ", "-").replace(' ', "-"))),
        text,
    )?;
    Ok(())
}
