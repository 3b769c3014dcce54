//! `turn`: what a turn costs, by its kind: SQL statements, writing transactions, WAL, and CPU of each process; and how many turns a
//! second the machine serves.
//!
//! Statements are counted by pg_stat_statements, on a separate server. The folder `statements` beside the results lists them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use sqlx::{PgPool, Row as _};
use uuid::Uuid;

use crate::load::{Latencies, now_us};
use crate::model::Script;
use crate::product::Fleet;
use crate::results::{Better, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder, Scenario};
use crate::server::Server;

pub struct Turn;

const COST: &str = "cost";
const RATE: &str = "rate";
/// Tokens of an answer.
const TOKENS: usize = 5;
/// How long the statements of idle processes are counted, to be subtracted.
const IDLE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    has_agent: bool,
    calls: usize,
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "plain conversation",
        has_agent: false,
        calls: 0,
    },
    Kind {
        name: "agent, no tool step",
        has_agent: true,
        calls: 0,
    },
    Kind {
        name: "agent, one tool step",
        has_agent: true,
        calls: 1,
    },
    Kind {
        name: "agent, ten tool steps",
        has_agent: true,
        calls: 10,
    },
];

impl Kind {
    fn script(&self) -> Script {
        Script {
            calls: self.calls,
            tokens: TOKENS,
            pause_ms: 0,
            think_ms: 0,
            more: 0,
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
        let rates = ["1", "20", "200"].map(|together| {
            Column::new(
                together,
                &format!("{together} at once"),
                "1/s",
                Better::Higher,
                Of::Rejoin,
            )
        });
        vec![
            Table::new(COST, "Costs of a turn, one at a time", "turn", costs),
            Table::new(RATE, "Turns a second", "turn", rates.to_vec()).plot(PlotKind::Bars, &["1", "20", "200"], false),
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
}

/// On a separate thread, because the future of migrations is not `Send`.
async fn counting_server() -> Result<Server> {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(Server::counting_statements())).await?
}

async fn measure_kinds(context: &Context, out: &mut Recorder) -> Result<()> {
    let fleet = Fleet::start(context, &[("REJOIN_SLOTS", "200")]).await?;
    sqlx::query("create extension pg_stat_statements")
        .execute(&fleet.database.db.pool_sqlx)
        .await?;
    let agent = fleet.agent().await?;
    let before = Counters::read(&fleet, context).await?;
    tokio::time::sleep(context.sized(IDLE, Duration::from_secs(1))).await;
    let idle = Counters::read(&fleet, context).await?.since(&before);
    for kind in KINDS {
        let agent = kind.has_agent.then_some(agent);
        // Connections, prepared statements, caches.
        turns(&fleet, agent, kind.script(), 1, context.sized(20, 2)).await?;
        measure_cost(context, &fleet, kind, agent, &idle, out).await?;
        for (column, together, count) in context.sized(
            vec![("1", 1, 100), ("20", 20, 1_000), ("200", 200, 2_000)],
            vec![("1", 1, 2), ("20", 2, 4), ("200", 4, 4)],
        ) {
            turns(&fleet, agent, kind.script(), together, 1).await?;
            let took_s = turns(&fleet, agent, kind.script(), together, count / together).await?.0;
            out.record(RATE, kind.name, column, count as f64 / took_s);
        }
    }
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
    let count = context.sized(200, 4);
    sqlx::query("select pg_stat_statements_reset()")
        .execute(&fleet.database.db.pool_sqlx)
        .await?;
    let before = Counters::read(fleet, context).await?;
    let latencies = turns(fleet, agent, kind.script(), 1, count).await?.1;
    let cost = Counters::read(fleet, context).await?.since(&before).without(idle);
    write_statements(&context.folder, &fleet.database.db.pool_sqlx, kind.name, count).await?;
    let each = count as f64;
    for (column, value) in [
        ("statements", cost.statements / each),
        ("transactions", cost.transactions / each),
        ("wal", cost.wal_bytes / each / 1_000.0),
        ("api", cost.cpu_us[0] / each / 1_000.0),
        ("worker", cost.cpu_us[1] / each / 1_000.0),
        ("postgres", cost.cpu_us[2] / each / 1_000.0),
        ("p50", latencies.quantile_ms(0.5)),
        ("p99", latencies.quantile_ms(0.99)),
    ] {
        out.record(COST, kind.name, column, value);
    }
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

/// What has been used so far.
#[derive(Debug, Clone)]
struct Counters {
    at_us: f64,
    statements: f64,
    transactions: f64,
    wal_bytes: f64,
    /// Of API, worker and PostgreSQL.
    cpu_us: [f64; 3],
}

impl Counters {
    async fn read(fleet: &Fleet, context: &Context) -> Result<Self> {
        let row = sqlx::query(
            "select (select coalesce(sum(calls), 0) from pg_stat_statements)::float8,
                    pg_snapshot_xmax(pg_current_snapshot())::text::float8,
                    pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8",
        )
        .fetch_one(&fleet.database.db.pool_sqlx)
        .await?;
        Ok(Self {
            at_us: now_us() as f64,
            statements: row.get(0),
            transactions: row.get(1),
            wal_bytes: row.get(2),
            cpu_us: fleet.cpu_us(context)?.map(|us| us as f64),
        })
    }

    fn since(&self, before: &Self) -> Self {
        self.combined(before, -1.0)
    }

    /// Without what idle processes use in the same time.
    fn without(&self, idle: &Self) -> Self {
        self.combined(idle, -self.at_us / idle.at_us)
    }

    fn combined(&self, other: &Self, factor: f64) -> Self {
        Self {
            at_us: self.at_us + factor * other.at_us,
            statements: self.statements + factor * other.statements,
            transactions: self.transactions + factor * other.transactions,
            wal_bytes: self.wal_bytes + factor * other.wal_bytes,
            cpu_us: std::array::from_fn(|i| self.cpu_us[i] + factor * other.cpu_us[i]),
        }
    }
}

/// Lists the executed statements, with the number of calls per turn.
async fn write_statements(folder: &Path, db: &PgPool, kind: &str, turns: usize) -> Result<()> {
    let rows = sqlx::query(
        "select calls, rows, total_exec_time, query from pg_stat_statements
         where calls >= $1 / 2 order by calls desc, total_exec_time desc",
    )
    .bind(i64::try_from(turns)?)
    .fetch_all(db)
    .await?;
    let mut text = String::from("calls a turn | rows a turn | ms a turn | statement\n");
    for row in rows {
        let (calls, rows, ms, query): (i64, i64, f64, String) = (row.get(0), row.get(1), row.get(2), row.get(3));
        let each = turns as f64;
        let query = query.split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(
            text,
            "{:6.2} | {:6.2} | {:7.3} | {query}",
            calls as f64 / each,
            rows as f64 / each,
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
