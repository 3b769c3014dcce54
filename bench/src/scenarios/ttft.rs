//! `ttft`: time to first token, from the post of a message until the client has the first token of its answer, without
//! the model's own time. Real processes, an instant model.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use crate::limits;
use crate::load::{Latencies, now_us};
use crate::model::Script;
use crate::product::Fleet;
use crate::results::{Better, Claim, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder, Scenario};

pub struct Ttft;

const TABLE: &str = "ttft";
/// Number of posts in a burst.
const BURST: usize = 200;
/// More than run concurrently, for the worker.
const SLOTS: &str = "250";
/// Delay between a burst's preparation and its start.
const FUSE: Duration = Duration::from_millis(100);

const PLAIN: &str = "plain conversation";
const AGENT: &str = "agent, one tool step";
const NAMED: &str = "agent that the client names, 1 at a time";
const ROUTED: &str = "the same agent, found by routing, 1 at a time";

#[async_trait]
impl Scenario for Ttft {
    fn name(&self) -> &'static str {
        "ttft"
    }

    fn about(&self) -> &'static str {
        "the platform's part of the time to first token: from the post to the first token at the client, without the \
         model"
    }

    fn tables(&self) -> Vec<Table> {
        let column = |key: &str, title: &str| Column::new(key, title, "ms", Better::Lower, Of::Rejoin);
        let columns = vec![
            column("p50", "all: p50").ratio_to("commits"),
            column("p99", "all: p99"),
            column("before_p50", "post → model asked: p50"),
            column("before_p99", "p99"),
            column("between_p50", "between two steps: p50"),
            column("after_p50", "model's token → client: p50"),
            column("after_p99", "p99"),
            column("first", "first post after the start"),
            column("api_cpu", "CPU of a whole turn: API"),
            column("worker_cpu", "worker"),
            column("postgres_cpu", "PostgreSQL"),
            Column::new("commits", "its commits alone: p50", "ms", Better::Lower, Of::Limit),
        ];
        let table = Table::new(TABLE, "Time to first token, the platform's part", "turn", columns);
        vec![table.plot(PlotKind::Bars, &["p50", "p99", "commits"], true)]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let fleet = Fleet::start(context, &[("REJOIN_SLOTS", SLOTS)]).await?;
        let agent = fleet.agent().await?;
        let plain_commits = limits::commit_chain_ms(&fleet.database, 3).await?;
        let agent_commits = limits::commit_chain_ms(&fleet.database, 6).await?;

        let kinds = [(PLAIN, None, 0, plain_commits), (AGENT, Some(agent), 1, agent_commits)];
        for (kind, agent, calls, commits) in kinds {
            let alone = format!("{kind}, 1 at a time");
            let script = Script {
                calls,
                tokens: 3,
                pause_ms: 5,
                ..Script::default()
            };
            let samples = one_at_a_time(&fleet, agent, script, context.sized(150, 5)).await?;
            if agent.is_none() {
                out.record(TABLE, &alone, "first", samples.first_ms);
            }
            samples.record(out, &alone, calls > 0);
            out.record(TABLE, &alone, "commits", commits);

            let together = format!("{kind}, {BURST} at once");
            let script = Script {
                calls,
                tokens: 20,
                pause_ms: 20,
                ..Script::default()
            };
            let burst = context.sized(BURST, 10);
            let count = context.sized(3, 1);
            let before = fleet.cpu_us(context)?;
            let samples = bursts(&fleet, agent, script, burst, count).await?;
            let after = fleet.cpu_us(context)?;
            samples.record(out, &together, calls > 0);
            // One burst more than counted: the warm-up.
            let turns = (burst * (count + 1)) as f64;
            for (index, column) in ["api_cpu", "worker_cpu", "postgres_cpu"].into_iter().enumerate() {
                let used_ms = after[index].saturating_sub(before[index]) as f64 / 1_000.0;
                out.record(TABLE, &together, column, used_ms / turns);
            }
        }
        // The same agent, named by the client and found by routing: the cost of the choice, including its queries.
        fleet.route().await?;
        let script = Script {
            tokens: 3,
            pause_ms: 5,
            ..Script::default()
        };
        for (row, agent) in [(NAMED, Some(agent)), (ROUTED, None)] {
            let samples = one_at_a_time(&fleet, agent, script, context.sized(300, 5)).await?;
            samples.record(out, row, false);
        }
        out.note(
            "The model answers at once, and reports with its first token when it was called and when it sent that \
             token; the figures exclude the time in between. The client, the model, API, worker and PostgreSQL share \
             the machine.",
        );
        out.note(format!(
            "\"1 at a time\": the next message is posted when the previous turn has ended. \"{BURST} at once\": \
             {BURST} messages to {BURST} new conversations are due at the same time, from which each latency is \
             counted, on open connections; each answer continues with 50 tokens a second while others wait for their \
             first. Three bursts.",
        ));
        out.note(
            "\"Its commits alone\": the one-row commits that a turn waits for before its first token, one after the \
             other on one connection: message, start and token; with a tool step also the step, the call and its \
             result.",
        );
        out.note("A plain conversation searches the graph before it asks the model; the graph is empty here.");
        fleet.stop(context).await
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let table = found.table(TABLE);
        let mut claims = Vec::new();
        for kind in [PLAIN, AGENT] {
            let alone = format!("{kind}, 1 at a time");
            let together = format!("{kind}, {BURST} at once");
            let cpu = ["api_cpu", "worker_cpu", "postgres_cpu"].map(|column| table.cell_text(&together, column));
            let at_once = if kind == PLAIN { 150.0 } else { 300.0 };
            for (row, column, bound) in [
                (&alone, "p50", 15.0),
                (&alone, "p99", 50.0),
                (&together, "p99", at_once),
            ] {
                let why = if row == &together {
                    format!(
                        "{BURST} simultaneous turns are {BURST} times the work of a turn: {} ms of CPU in the API, {} \
                         in the worker and {} in PostgreSQL, about half of it before the first token, on {} cores \
                         shared with the clients and the model. The work consists of a turn's records (message, run, \
                         job, events, steps, each durable before it takes effect).",
                        cpu[0],
                        cpu[1],
                        cpu[2],
                        std::thread::available_parallelism().map_or(1, usize::from),
                    )
                } else {
                    format!(
                        "It waits for its sequential commits, which take {} ms on an otherwise idle server, and for \
                         the wake-ups of the processes between them.",
                        table.cell_text(row, "commits")
                    )
                };
                claims.push(Claim {
                    what: format!("time to first token, the platform's part: {row}: {column}"),
                    unit: "ms".to_owned(),
                    bound,
                    better: Better::Lower,
                    values: table.values(row, column).to_vec(),
                    why_not: Some(why),
                });
            }
        }
        claims
    }
}

/// The platform's parts of many turns.
#[derive(Default)]
struct Samples {
    all: Latencies,
    before: Latencies,
    between: Latencies,
    after: Latencies,
    first_ms: f64,
}

impl Samples {
    fn add(&mut self, [before, between, after]: [u64; 3]) {
        self.all.record(before + between + after);
        self.before.record(before);
        self.between.record(between);
        self.after.record(after);
    }

    fn record(&self, out: &mut Recorder, row: &str, has_steps: bool) {
        let mut value = |column: &str, value: f64| out.record(TABLE, row, column, value);
        value("p50", self.all.quantile_ms(0.5));
        value("p99", self.all.quantile_ms(0.99));
        value("before_p50", self.before.quantile_ms(0.5));
        value("before_p99", self.before.quantile_ms(0.99));
        if has_steps {
            value("between_p50", self.between.quantile_ms(0.5));
        }
        value("after_p50", self.after.quantile_ms(0.5));
        value("after_p99", self.after.quantile_ms(0.99));
    }
}

async fn one_at_a_time(fleet: &Fleet, agent: Option<Uuid>, script: Script, turns: usize) -> Result<Samples> {
    let mut chat = fleet.chat().await?;
    let mut samples = Samples::default();
    // The very first one is reported separately; after a few more, caches are warm.
    let warm_up = turns / 10 + 1;
    for number in 0..warm_up + turns {
        let posted_us = now_us();
        let turn = chat.turn(agent, script).await?;
        if number == 0 {
            samples.first_ms = turn.parts_us(posted_us).iter().sum::<u64>() as f64 / 1_000.0;
        }
        if number >= warm_up {
            samples.add(turn.parts_us(posted_us));
        }
    }
    Ok(samples)
}

async fn bursts(fleet: &Fleet, agent: Option<Uuid>, script: Script, posts: usize, bursts: usize) -> Result<Samples> {
    let mut samples = Samples::default();
    // One to warm up: connections to the database and the model.
    for number in 0..=bursts {
        let mut chats = Vec::with_capacity(posts);
        for _ in 0..posts {
            chats.push(fleet.chat().await?);
        }
        let due = Instant::now() + FUSE;
        let due_us = now_us() + u64::try_from(FUSE.as_micros()).unwrap_or_default();
        let turns = chats.into_iter().map(|mut chat| {
            tokio::spawn(async move {
                sleep_until(due).await;
                chat.turn(agent, script).await
            })
        });
        for turn in futures::future::join_all(turns).await {
            let parts = turn??.parts_us(due_us);
            if number > 0 {
                samples.add(parts);
            }
        }
    }
    Ok(samples)
}
