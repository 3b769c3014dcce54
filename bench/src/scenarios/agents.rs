//! `agents`: a thousand concurrent agents, each of several steps, with a slow model: the platform's overhead per step
//! while all slots of two workers are full.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _};
use rejoin_commands::TriggerRun;
use rejoin_runs::agents;

use crate::load::{Latencies, now_us};
use crate::model::{Moments, Script};
use crate::product::Fleet;
use crate::results::{Better, Claim, Column, Of, Table};
use crate::scenario::{Context, Recorder, Scenario};

pub struct Agents;

const TABLE: &str = "agents";
/// Steps of each agent: tool calls, and the answer.
const STEPS: usize = 5;
const WORKERS: usize = 2;
const SLOTS: usize = 50;
/// The model's time per step.
const THINK_MS: u64 = 800;
/// Number of concurrent posts.
const POSTING: usize = 8;
/// Timeout: unfinished runs are stuck.
const LIMIT: Duration = Duration::from_secs(300);

#[async_trait]
impl Scenario for Agents {
    fn name(&self) -> &'static str {
        "agents"
    }

    fn about(&self) -> &'static str {
        "1,000 agents of 5 steps, enqueued at once, on 2 workers of 50 slots, with a model that takes 0.8 s for a step"
    }

    fn tables(&self) -> Vec<Table> {
        let columns = vec![
            Column::new("p50", "added to a step: p50", "ms", Better::Lower, Of::Rejoin),
            Column::new("p99", "p99", "ms", Better::Lower, Of::Rejoin),
            Column::new("rate", "steps a second", "1/s", Better::Higher, Of::Rejoin).ratio_to("ideal"),
            Column::new("ideal", "that the slots allow", "1/s", Better::Higher, Of::Limit),
            Column::new("took", "from the first to the last", "s", Better::Lower, Of::Rejoin),
        ];
        vec![Table::new(TABLE, "Many agents at once", "agents", columns)]
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        vec![Claim {
            what: "1,000 agents on 2 workers x 50 slots: added to a step, p50".to_owned(),
            unit: "ms".to_owned(),
            bound: 10.0,
            better: Better::Lower,
            values: found.table(TABLE).values("1,000", "p50").to_vec(),
            why_not: None,
        }]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let count = context.sized(1_000, 20);
        let slots = SLOTS.to_string();
        let fleet = Fleet::of(context, WORKERS, 1, &[("REJOIN_SLOTS", slots.as_str())]).await?;
        let agent = fleet.agent().await?;
        let database = &fleet.database;
        let definition = agents::get(
            &mut *database.db.pool_sqlx.acquire().await?,
            database.workspace_id,
            agent,
        )
        .await?
        .context("the agent is there")?;
        let script = Script {
            calls: STEPS - 1,
            tokens: 1,
            think_ms: context.sized(THINK_MS, 10),
            ..Script::default()
        };
        let began = now_us();
        let started = futures::stream::iter(0..count).map(|_| async {
            let command = TriggerRun {
                definition: &definition,
                user_id: Some(database.user_id),
                input: script.message(),
                idempotency: None,
                output_schema: None,
                exhausted: None,
                part: None,
                traceparent: None,
            };
            rejoin_commands::execute(&database.db.pool_sqlx, &command)
                .await
                .context("triggering")
        });
        started.buffer_unordered(POSTING).try_collect::<Vec<_>>().await?;
        let waited = std::time::Instant::now();
        loop {
            let left: i64 = sqlx::query_scalar("select count(*) from kb.agent_runs where done_seq is null")
                .fetch_one(&database.db.pool_sqlx)
                .await?;
            if left == 0 {
                break;
            }
            ensure!(waited.elapsed() < LIMIT, "{left} runs are stuck");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let took_s = (now_us() - began) as f64 / 1e6;
        let summaries: Vec<String> =
            sqlx::query_scalar("select coalesce(summary, '') from kb.agent_runs where state = 'completed'")
                .fetch_all(&database.db.pool_sqlx)
                .await?;
        ensure!(
            summaries.len() == count,
            "{} of {count} runs completed",
            summaries.len()
        );
        let mut between = Latencies::default();
        for summary in &summaries {
            let moments = Moments::of(summary).context("the answer tells its moments")?;
            for pair in moments.0.windows(2) {
                between.record(pair[1].0.saturating_sub(pair[0].1));
            }
        }
        let row = if count == 1_000 { "1,000" } else { "few" };
        out.record(TABLE, row, "p50", between.quantile_ms(0.5));
        out.record(TABLE, row, "p99", between.quantile_ms(0.99));
        out.record(TABLE, row, "rate", (count * STEPS) as f64 / took_s);
        let per_slot = 1_000.0 / script.think_ms as f64;
        out.record(TABLE, row, "ideal", per_slot * (WORKERS * SLOTS) as f64);
        out.record(TABLE, row, "took", took_s);
        out.note(
            "\"Added to a step\": the time from the model's answer to its next call, in which the step, the tool call \
             and its result are stored. \"That the slots allow\": all slots wait only for the model.",
        );
        fleet.stop(context).await
    }
}
