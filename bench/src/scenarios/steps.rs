//! `steps`: the executor's overhead per step of an agent: a step is stored before it is acted upon, a call before it
//! acts, its result before the model gets it. Compared with the same number of bare commits.

use anyhow::Result;
use async_trait::async_trait;
use uuid::Uuid;

use crate::limits;
use crate::load::{Latencies, now_us};
use crate::model::Script;
use crate::product::Fleet;
use crate::results::{Better, Claim, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder, Scenario};

pub struct Steps;

const TABLE: &str = "steps";
const ALONE: &str = "1 at a time";
/// Commits of a step with one tool call: the step, the call, its result.
const COMMITS: usize = 3;

#[async_trait]
impl Scenario for Steps {
    fn name(&self) -> &'static str {
        "steps"
    }

    fn about(&self) -> &'static str {
        "the executor's overhead per agent step, with a model that answers at once and a tool that runs one small \
         query"
    }

    fn tables(&self) -> Vec<Table> {
        let column = |key: &str, title: &str| Column::new(key, title, "ms", Better::Lower, Of::Rejoin);
        let columns = vec![
            column("step", "whole run / steps").ratio_to("commits"),
            column("p50", "between two model calls: p50"),
            column("p99", "p99"),
            Column::new("commits", "three commits", "ms", Better::Lower, Of::Limit),
            Column::new("rate", "steps a second, all runs", "1/s", Better::Higher, Of::Rejoin),
        ];
        let table = Table::new(TABLE, "Milliseconds per step with one tool call", "runs", columns);
        vec![table.plot(PlotKind::Bars, &["step", "p50", "commits"], false)]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let fleet = Fleet::start(context, &[]).await?;
        let agent = fleet.agent().await?;
        let script = Script {
            calls: context.sized(50, 4),
            tokens: 1,
            ..Script::default()
        };
        // Connections, prepared statements.
        runs(&fleet, agent, script, 1, 1).await?;
        for (row, together, each) in [(ALONE, 1, context.sized(6, 1)), ("10 at once", 10, context.sized(2, 1))] {
            let found = runs(&fleet, agent, script, together, each).await?;
            let steps = (script.calls * together * each) as f64;
            out.record(TABLE, row, "step", found.platform_us as f64 / 1_000.0 / steps);
            out.record(TABLE, row, "p50", found.between.quantile_ms(0.5));
            out.record(TABLE, row, "p99", found.between.quantile_ms(0.99));
            out.record(TABLE, row, "rate", steps / (found.took_us as f64 / 1_000_000.0));
            if together == 1 {
                out.record(
                    TABLE,
                    row,
                    "commits",
                    limits::commit_chain_ms(&fleet.database, COMMITS).await?,
                );
            }
        }
        out.note(format!(
            "Runs of {} steps with a tool call each. \"Whole run / steps\": from the post to `done`, including the \
             start and end of the run, without the model's time.",
            script.calls
        ));
        out.note(
            "\"Three commits\": one-row inserts, one after the other on one connection, for the data that must be \
             durable in a step: the model's answer, the call before it acts, and its result.",
        );
        fleet.stop(context).await
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let table = found.table(TABLE);
        vec![Claim {
            what: "added per step of an agent, 1 at a time: p50".to_owned(),
            unit: "ms".to_owned(),
            bound: 4.0,
            better: Better::Lower,
            values: table.values(ALONE, "p50").to_vec(),
            why_not: Some(format!(
                "A step waits for {COMMITS} sequential commits, which take {} ms on an otherwise idle server, and for the wake-ups of \
                 the processes between them.",
                table.cell_text(ALONE, "commits")
            )),
        }]
    }
}

pub(super) struct Measured {
    /// Sum over all runs, without the model.
    platform_us: u64,
    pub took_us: u64,
    /// Between two calls of the model.
    pub between: Latencies,
}

/// `together` chats post `each` runs, one after the other.
pub(super) async fn runs(fleet: &Fleet, agent: Uuid, script: Script, together: usize, each: usize) -> Result<Measured> {
    let began = now_us();
    let mut chats = Vec::new();
    for _ in 0..together {
        let mut chat = fleet.chat().await?;
        chats.push(tokio::spawn(async move {
            let mut turns = Vec::new();
            for _ in 0..each {
                let posted = now_us();
                turns.push((posted, chat.turn(Some(agent), script).await?));
            }
            Ok::<_, anyhow::Error>(turns)
        }));
    }
    let mut found = Measured {
        platform_us: 0,
        took_us: 0,
        between: Latencies::default(),
    };
    for chat in chats {
        for (posted, turn) in chat.await?? {
            found.platform_us += (turn.done_us - posted).saturating_sub(turn.model_us());
            for pair in turn.model.0.windows(2) {
                found.between.record(pair[1].0.saturating_sub(pair[0].1));
            }
        }
    }
    found.took_us = now_us() - began;
    Ok(found)
}
