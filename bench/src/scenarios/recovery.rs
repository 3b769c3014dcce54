//! `recovery`: how long a reader waits for the next word when processes die in mid-answer.
//!
//! The reader is a program that connects again with its cursor. Its wait is the longest time between two tokens around the fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::load::now_us;
use crate::model::{self, Script};
use crate::process::{self, Process};
use crate::results::{Better, Claim, Column, Of, Table};
use crate::scenario::{Context, Recorder, Scenario};
use crate::server::Database;

pub struct Recovery;

const TABLE: &str = "recovery";
const WORKER: &str = "kill -9 of the worker, another one is there";
const ALL: &str = "kill -9 of API and worker, both started again at once";
const HUNG: &str = "SIGSTOP of the worker, another one is there";
/// Tokens before the fault.
const BEFORE: u64 = 20;
const PAUSE_MS: u64 = 10;
/// Tokens of an answer: it must not end before the fault.
const TOKENS: usize = 300;
/// Timeout of an answer, with its fault.
const LIMIT: Duration = Duration::from_secs(90);
/// For a heartbeat interval (5 s) after a start of PostgreSQL, workers do not take each other for dead, since all of them lost their sessions.
const SETTLED_S: f64 = 6.0;
/// Delay before the reader connects again.
const RECONNECT: Duration = Duration::from_millis(20);

#[async_trait]
impl Scenario for Recovery {
    fn name(&self) -> &'static str {
        "recovery"
    }

    fn about(&self) -> &'static str {
        "processes die in the middle of an answer: how long its reader waits for the next word"
    }

    fn tables(&self) -> Vec<Table> {
        let column = |key: &str, title: &str| Column::new(key, title, "ms", Better::Lower, Of::Rejoin);
        let columns = vec![
            column("median", "the reader's wait: median"),
            column("greatest", "greatest"),
        ];
        vec![Table::new(TABLE, "Milliseconds without a word", "fault", columns)]
    }

    async fn measure(&self, context: &Context, out: &mut Recorder) -> Result<()> {
        let database = context.server.database().await?;
        let (model, base_url) = model::start().await?;
        let mut site = Site {
            database: &database,
            base_url,
            address: rejoin_free_ports::address()?.to_string(),
        };
        site.wait_until_settled().await?;
        for (row, fault, times) in [
            (WORKER, Fault::Worker, context.sized(10, 1)),
            (ALL, Fault::All, context.sized(5, 1)),
            (HUNG, Fault::Hung, context.sized(2, 1)),
        ] {
            let mut waits = site.waits_ms(fault, times).await.with_context(|| row.to_owned())?;
            waits.sort_by(f64::total_cmp);
            out.record(TABLE, row, "median", waits[waits.len() / 2]);
            out.record(TABLE, row, "greatest", waits[waits.len() - 1]);
        }
        out.note(format!(
            "An answer of {TOKENS} tokens, one each {PAUSE_MS} ms; the fault comes after {BEFORE}. The wait is the longest time between two \
             tokens at the reader, which connects again with `Last-Event-ID` after {} ms. It includes the start of the processes, and the first \
             token of the model, which is asked again. PostgreSQL has run for {SETTLED_S} s before.",
            RECONNECT.as_millis()
        ));
        drop(model);
        context.server.drop(database).await
    }

    fn claims(&self, found: &Recorder) -> Vec<Claim> {
        let table = found.table(TABLE);
        let claim = |what: &str, row: &str, bound: f64| Claim {
            what: what.to_owned(),
            unit: "ms".to_owned(),
            bound,
            better: Better::Lower,
            values: table.values(row, "greatest").to_vec(),
            why_not: None,
        };
        vec![
            claim("kill -9 of a worker: the longest wait of a reader", WORKER, 1_500.0),
            claim(
                "kill -9 of all processes, started again: the longest wait",
                ALL,
                2_000.0,
            ),
        ]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Worker,
    All,
    Hung,
}

/// Where processes are started.
struct Site<'a> {
    database: &'a Database,
    base_url: String,
    /// Of the API, which keeps it when it is started again.
    address: String,
}

impl Site<'_> {
    fn worker(&self) -> Result<Process> {
        let settings = [
            ("OPENAI_BASE_URL", self.base_url.as_str()),
            ("OPENAI_API_KEY", "scripted"),
            ("REJOIN_CHAT_MODEL", "openai:scripted"),
            ("RUST_LOG", "warn"),
        ];
        Process::worker(&self.database.url, &settings)
    }

    fn api(&self) -> Result<Process> {
        Process::api_at(&self.database.url, &self.address, &[("RUST_LOG", "warn")])
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn wait_until_settled(&self) -> Result<()> {
        sqlx::query("select pg_sleep($1 - extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8)")
            .bind(SETTLED_S)
            .execute(&self.database.db.pool_sqlx)
            .await?;
        Ok(())
    }

    /// The reader's wait, fault by fault.
    async fn waits_ms(&mut self, fault: Fault, times: usize) -> Result<Vec<f64>> {
        let mut api = self.api()?;
        process::wait_until_ready(&self.url("/readyz")).await?;
        let mut worker = self.worker()?;
        self.wait_for_workers(&[&worker]).await?;
        let mut waits = Vec::new();
        for _ in 0..times {
            let reader = Reader::start(self).await?;
            reader.wait_for(BEFORE).await?;
            match fault {
                Fault::Worker | Fault::Hung => {
                    let next = self.worker()?;
                    self.wait_for_workers(&[&worker, &next]).await?;
                    if fault == Fault::Hung {
                        worker.suspend()?;
                    }
                    // Without the fault `Hung`, this kills it.
                    let before = std::mem::replace(&mut worker, next);
                    let hung = (fault == Fault::Hung).then_some(before);
                    waits.push(reader.longest_wait_ms().await?);
                    drop(hung);
                }
                Fault::All => {
                    drop(api);
                    drop(worker);
                    api = self.api()?;
                    worker = self.worker()?;
                    waits.push(reader.longest_wait_ms().await?);
                }
            }
        }
        worker.stop().await?;
        api.stop().await?;
        Ok(waits)
    }

    /// Waits until these are registered, with the lock of their session.
    async fn wait_for_workers(&self, workers: &[&Process]) -> Result<()> {
        let pids: Vec<i32> = workers.iter().map(|worker| worker.pid().cast_signed()).collect();
        let began = std::time::Instant::now();
        loop {
            let registered: i64 =
                sqlx::query_scalar("select count(*) from queue.workers where pid = any($1) and session_lock")
                    .bind(&pids)
                    .fetch_one(&self.database.db.pool_sqlx)
                    .await?;
            if usize::try_from(registered)? == pids.len() {
                return Ok(());
            }
            ensure!(began.elapsed() < LIMIT, "a worker does not register");
            tokio::time::sleep(RECONNECT).await;
        }
    }
}

/// A reader of one run, which connects again until the run's end.
struct Reader {
    seen: Arc<Seen>,
    task: tokio::task::JoinHandle<Result<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    tokens: AtomicU64,
    longest_us: AtomicU64,
    ended: AtomicBool,
}

impl Reader {
    async fn start(site: &Site<'_>) -> Result<Self> {
        let script = Script {
            tokens: TOKENS,
            pause_ms: PAUSE_MS,
            ..Script::default()
        };
        let client = reqwest::Client::new();
        let accepted: Value = client
            .post(site.url("/api/chat/stream"))
            .bearer_auth(&site.database.api_key)
            .header("Accept", "application/json")
            .json(&json!({"message": script.message()}))
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?;
        let run = accepted["runId"].as_str().context("a run")?;
        let url = site.url(&format!("/api/runs/{run}/events"));
        let seen = Arc::new(Seen::default());
        let task = tokio::spawn(follow(client, url, site.database.api_key.clone(), Arc::clone(&seen)));
        Ok(Self { seen, task })
    }

    async fn wait_for(&self, tokens: u64) -> Result<()> {
        let began = std::time::Instant::now();
        while self.seen.tokens.load(Ordering::Relaxed) < tokens {
            ensure!(!self.task.is_finished(), "the reader ended");
            ensure!(began.elapsed() < LIMIT, "the answer does not begin");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Waits for the end of the answer.
    async fn longest_wait_ms(self) -> Result<f64> {
        tokio::time::timeout(LIMIT, self.task)
            .await
            .context("the answer does not end")???;
        Ok(self.seen.longest_us.load(Ordering::Relaxed) as f64 / 1_000.0)
    }
}

async fn follow(client: reqwest::Client, url: String, key: String, seen: Arc<Seen>) -> Result<()> {
    let mut cursor = None;
    let mut last_us = None;
    while !seen.ended.load(Ordering::Relaxed) {
        let mut request = client.get(&url).bearer_auth(&key);
        if let Some(cursor) = &cursor {
            request = request.header("Last-Event-ID", cursor);
        }
        // An API that is not there yet refuses the connection.
        if let Ok(response) = request.send().await
            && response.status().is_success()
        {
            read(response, &mut cursor, &mut last_us, &seen).await;
        }
        if !seen.ended.load(Ordering::Relaxed) {
            tokio::time::sleep(RECONNECT).await;
        }
    }
    Ok(())
}

/// Reads until the connection ends.
async fn read(response: reqwest::Response, cursor: &mut Option<String>, last_us: &mut Option<u64>, seen: &Seen) {
    let mut body = response.bytes_stream();
    let mut buffer = Vec::new();
    while let Some(Ok(bytes)) = body.next().await {
        buffer.extend_from_slice(&bytes);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if let Some(id) = line.strip_prefix("id:") {
                *cursor = Some(id.trim().to_owned());
            } else if line.contains(r#"{"type":"token""#) {
                let now = now_us();
                let wait_us = now - last_us.replace(now).unwrap_or(now);
                seen.longest_us.fetch_max(wait_us, Ordering::Relaxed);
                seen.tokens.fetch_add(1, Ordering::Relaxed);
            } else if line.contains(r#"{"type":"done""#) {
                seen.ended.store(true, Ordering::Relaxed);
                return;
            }
        }
    }
}
