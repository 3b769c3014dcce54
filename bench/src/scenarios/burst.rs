//! `burst`: many users ask at once, here and on other servers: when each reads the first word, and what a turn costs.

mod servers;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use futures::StreamExt as _;
use futures::future::try_join_all;

use crate::load::{Latencies, now_us};
use crate::model::{self, Script};
use crate::results::{Better, Claim, Column, Of, PlotKind, Table};
use crate::scenario::{Context, Recorder, Scenario};
use servers::{ALL, Running, Who};

pub struct Burst;

const TABLE: &str = "burst";
/// Users who ask at once.
const USERS: usize = 100;
const SCRIPT: Script = Script {
    calls: 0,
    tokens: 40,
    pause_ms: 20,
    think_ms: 0,
    more: 0,
    agents: 0,
};
/// Turns before the first burst, one after the other: connections, caches, compiled code.
const WARM_UP: usize = 5;
/// Timeout of a turn.
const LIMIT: Duration = Duration::from_secs(60);

#[async_trait]
impl Scenario for Burst {
    fn name(&self) -> &'static str {
        "burst"
    }

    fn about(&self) -> &'static str {
        "100 users ask at once, here and on other servers of agents"
    }

    fn tables(&self) -> Vec<Table> {
        let ms = |key: &str, title: &str| Column::new(key, title, "ms", Better::Lower, Of::Rejoin);
        let columns = vec![
            ms("first", "first word: p50"),
            ms("first99", "p99"),
            ms("whole", "whole answer: p50"),
            ms("cpu", "CPU of a turn"),
        ];
        let table = Table::new(TABLE, "100 turns of 40 words at once", "server", columns);
        vec![table.plot(PlotKind::Bars, &["first", "first99"], false)]
    }

    async fn prepare(&self, _size: crate::results::Size, out: &mut Recorder) -> Result<()> {
        for (kind, error) in servers::install().await {
            out.note(format!(
                "Not measured, since the packages for {kind} can't be installed here: {error:#}"
            ));
        }
        Ok(())
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let (model, base_url) = model::start().await?;
        for who in ALL {
            if who != Who::Rejoin && !context.peers {
                continue;
            }
            if let Err(error) = measure_one(context, who, &base_url, out).await {
                ensure!(who != Who::Rejoin, "{error:#}");
                out.note(format!("{}: not measured: {error:#}", who.title()));
            }
        }
        drop(model);
        out.note(format!(
            "{USERS} clients post at once; a turn is one call of a model that says 40 tokens, one each 20 ms (0.8 s). CPU: that of all processes of the \
             server and its database, without clients and model. All share this machine. Rejoin has 200 slots, LangGraph 100 jobs. \
             AI SDK's turn lives in the web server's process, and ends with it; LangGraph keeps everything in memory."
        ));
        Ok(())
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let table = found.table(TABLE);
        let claim = |what: &str, bound: f64, column: &str| Claim {
            what: format!("100 turns at once: {what}"),
            unit: "ms".to_owned(),
            bound,
            better: Better::Lower,
            values: table.values(Who::Rejoin.title(), column).to_vec(),
            why_not: None,
        };
        let peers = table.values(Who::AiSdk.title(), "first");
        let ratio = table.values(Who::Rejoin.title(), "first").iter().zip(peers);
        vec![
            claim("first word, p50", 150.0, "first"),
            claim("first word, p99", 200.0, "first99"),
            claim("CPU of a turn of 40 words", 6.0, "cpu"),
            Claim {
                what: "100 turns at once: first word, relative to AI SDK with resumable-stream".to_owned(),
                unit: "times".to_owned(),
                bound: 1.0,
                better: Better::Lower,
                values: ratio.map(|(ours, theirs)| ours / theirs).collect(),
                why_not: Some(format!(
                    "At p99, Rejoin is ahead: {} ms, AI SDK {}. Rejoin stores message, run and job before the first word; AI SDK's turn lives in the web \
                     server's process and ends with it.",
                    table.cell_text(Who::Rejoin.title(), "first99"),
                    table.cell_text(Who::AiSdk.title(), "first99"),
                )),
            },
        ]
    }
}

async fn measure_one(context: &Context, who: Who, model_url: &str, out: &mut Recorder) -> Result<()> {
    let server = Running::start(context, who, model_url).await?;
    let users = context.sized(USERS, 4);
    for _ in 0..WARM_UP {
        turn(&server).await?;
    }
    burst(&server, users).await?;
    let mut first = Latencies::default();
    let mut whole = Latencies::default();
    let before = server.cpu_us(context)?;
    let bursts = context.sized(3, 1);
    for _ in 0..bursts {
        for turn in burst(&server, users).await? {
            first.record(turn.first_us);
            whole.record(turn.whole_us);
        }
    }
    let cpu_us = server.cpu_us(context)? - before;
    let row = who.title();
    out.record(TABLE, row, "first", first.quantile_ms(0.5));
    out.record(TABLE, row, "first99", first.quantile_ms(0.99));
    out.record(TABLE, row, "whole", whole.quantile_ms(0.5));
    out.record(TABLE, row, "cpu", cpu_us as f64 / 1_000.0 / (bursts * users) as f64);
    server.stop(context).await
}

/// Durations of a turn since its post.
struct Turn {
    first_us: u64,
    whole_us: u64,
}

async fn burst(server: &Running, users: usize) -> Result<Vec<Turn>> {
    try_join_all((0..users).map(|_| turn(server))).await
}

async fn turn(server: &Running) -> Result<Turn> {
    tokio::time::timeout(LIMIT, read(server))
        .await
        .context("a turn takes too long")?
}

async fn read(server: &Running) -> Result<Turn> {
    let posted = now_us();
    let response = server.post(&SCRIPT.message()).send().await?;
    ensure!(response.status().is_success(), "refused: {}", response.status());
    let mut body = response.bytes_stream();
    let mut text = Vec::new();
    let mut first_us = None;
    while let Some(bytes) = body.next().await {
        let seen = text.len();
        text.extend_from_slice(&bytes?);
        if first_us.is_none() && has_moments(&text[seen.saturating_sub(1)..]) {
            first_us = Some(now_us() - posted);
        }
    }
    let words = String::from_utf8_lossy(&text).matches("word ").count();
    ensure!(words + 1 >= SCRIPT.tokens, "an answer has only {words} words");
    Ok(Turn {
        first_us: first_us.context("an answer without a first word")?,
        whole_us: now_us() - posted,
    })
}

/// Returns whether the model's first token is there, in any notation: `@`, then a number.
fn has_moments(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair[0] == b'@' && pair[1].is_ascii_digit())
}
