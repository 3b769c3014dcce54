//! A soak test: thousands of conversations for an hour, each with turns now and then, each deleted after a few and
//! recreated, with retention and compaction on. No faults are injected; it checks whether memory and tables stay
//! bounded.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rejoin_cli::stream::Parser;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, timeout};
use tracing::{info, warn};
use uuid::Uuid;

use crate::client::Client;
use crate::plan::Plan;
use crate::plot::{self, Line};
use crate::world::{Shape, World};

/// Number of turns before a conversation is deleted.
const TURNS: u64 = 4;
const WORDS: u32 = 20;
const PACE_MS: u64 = 10;
const TURN_LIMIT: Duration = Duration::from_secs(60);
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// Number of tables shown individually; the others are summed up.
const SHOWN_TABLES: usize = 7;
const MIB: f64 = 1024.0 * 1024.0;

pub struct Options {
    pub conversations: usize,
    pub span: Duration,
    /// Average pause between two turns of a conversation.
    pub pause: Duration,
    pub seed: u64,
    pub shape: Shape,
    /// The folder of report and plots.
    pub out: PathBuf,
}

/// Counters of a soak.
#[derive(Default)]
struct Counts {
    turns: AtomicU64,
    deleted: AtomicU64,
    wrong: AtomicU64,
}

/// A sample of all measurements.
struct Sample {
    minutes: f64,
    /// By member, in bytes.
    memory: Vec<u64>,
    /// Tables with their size in bytes, including indexes.
    tables: Vec<(String, i64)>,
}

/// Runs a soak, and writes `soak.md` with its plots.
pub async fn run(options: &Options) -> Result<()> {
    let mut shape = options.shape.clone();
    for (name, value) in [
        // A minute after its end, a run's tokens are packed, and deleted four minutes later; completed jobs are not
        // kept.
        ("REJOIN_COMPACT_EVENTS_AFTER_S", "60"),
        ("REJOIN_KEEP_EVENTS_H", "0.0833"),
        ("REJOIN_KEEP_JOBS_H", "0"),
    ] {
        shape.environment.push((name.to_owned(), value.to_owned()));
    }
    let world = World::start(&shape).await?;
    let counts = Arc::new(Counts::default());
    let mut users = JoinSet::new();
    for number in 0..options.conversations {
        let user = User {
            client: Client {
                world: world.clone(),
                user: number % world.users.len(),
            },
            dice: StdRng::seed_from_u64(options.seed.wrapping_add(number as u64)),
            number,
            pause: options.pause,
            counts: counts.clone(),
        };
        users.spawn(user.live());
    }
    let began = Instant::now();
    let mut samples = Vec::new();
    let mut ticks = interval(SAMPLE_EVERY);
    while began.elapsed() < options.span {
        ticks.tick().await;
        samples.push(sample(&world, began).await?);
        if samples.len().is_multiple_of(30) {
            info!(
                turns = counts.turns.load(Ordering::Relaxed),
                minutes = began.elapsed().as_secs() / 60,
                "soaking"
            );
        }
    }
    world.load_ends.cancel();
    while users.join_next().await.is_some() {}
    report(options, &world, &samples, &counts)
}

struct User {
    client: Client,
    dice: StdRng,
    number: usize,
    pause: Duration,
    counts: Arc<Counts>,
}

impl User {
    async fn live(mut self) {
        let world = self.client.world.clone();
        let mut nth = 0;
        // Staggered.
        self.rest().await;
        while !world.load_ends.is_cancelled() {
            let mut conversation = None;
            for _ in 0..TURNS {
                nth += 1;
                let plan = Plan::words(format!("s{}t{nth}", self.number), WORDS, PACE_MS);
                match timeout(TURN_LIMIT, self.turn(&plan, conversation)).await {
                    Ok(Ok((id, text))) => {
                        conversation = Some(id);
                        self.counts.turns.fetch_add(1, Ordering::Relaxed);
                        if text != plan.reply() {
                            self.wrong(&format!("{text:?} instead of {:?}", plan.reply()));
                        }
                    }
                    Ok(Err(error)) => self.wrong(&format!("{error:#}")),
                    Err(_) => self.wrong("no end of a turn"),
                }
                self.rest().await;
                if world.load_ends.is_cancelled() {
                    return;
                }
            }
            if let Some(id) = conversation {
                let path = format!("/api/conversations/{id}");
                match self.client.request(Method::DELETE, &path).send().await {
                    Ok(answer) if answer.status().is_success() => {
                        self.counts.deleted.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(answer) => self.wrong(&format!("deleting: {}", answer.status())),
                    Err(error) => self.wrong(&format!("deleting: {error}")),
                }
            }
        }
    }

    async fn rest(&mut self) {
        let pause = self.pause.mul_f64(self.dice.random_range(0.0..2.0));
        tokio::select! {
            () = sleep(pause) => {}
            () = self.client.world.load_ends.cancelled() => {}
        }
    }

    fn wrong(&self, what: &str) {
        warn!(user = self.number, what, "a turn went wrong");
        self.counts.wrong.fetch_add(1, Ordering::Relaxed);
    }

    /// Posts, and reads the turn to its end.
    async fn turn(&self, plan: &Plan, conversation: Option<Uuid>) -> Result<(Uuid, String)> {
        let mut body = json!({ "message": plan.message() });
        if let Some(id) = conversation {
            body["conversationId"] = json!(id);
        }
        let request = self
            .client
            .request(Method::POST, "/api/chat/stream")
            .header("accept", "text/event-stream")
            .json(&body);
        let response = request.send().await?.error_for_status()?;
        let id = response
            .headers()
            .get("x-conversation-id")
            .context("the answer names the conversation")?;
        let id = id.to_str()?.parse()?;
        let mut body = response.bytes_stream();
        let (mut parser, mut text) = (Parser::default(), String::new());
        while let Some(piece) = body.next().await {
            for frame in parser.push(&piece?)? {
                let event: Value = serde_json::from_str(&frame.data)?;
                if event["type"] == "token" {
                    text.push_str(event["token"].as_str().unwrap_or_default());
                }
            }
        }
        Ok((id, text))
    }
}

async fn sample(world: &World, began: Instant) -> Result<Sample> {
    let mut memory = Vec::new();
    for member in &world.members {
        memory.push(member.memory_bytes().await.unwrap_or_default());
    }
    Ok(Sample {
        minutes: began.elapsed().as_secs_f64() / 60.0,
        memory,
        tables: tables(&world.db).await?,
    })
}

/// Returns all our tables, with their indexes and TOAST.
async fn tables(db: &PgPool) -> Result<Vec<(String, i64)>> {
    let sizes = sqlx::query_as(
        "select schemaname || '.' || relname, pg_total_relation_size(relid) from pg_stat_user_tables
         where schemaname in ('kb', 'queue', 'stream') order by 1",
    );
    Ok(sizes.fetch_all(db).await?)
}

fn report(options: &Options, world: &World, samples: &[Sample], counts: &Counts) -> Result<()> {
    let minutes: Vec<f64> = samples.iter().map(|sample| sample.minutes).collect();
    let memory: Vec<Line> = world
        .members
        .iter()
        .enumerate()
        .map(|(nth, member)| Line {
            name: member.name.clone(),
            values: samples.iter().map(|sample| sample.memory[nth] as f64 / MIB).collect(),
        })
        .collect();
    let last = samples.last().context("at least one sample")?;
    let mut largest: Vec<&(String, i64)> = last.tables.iter().collect();
    largest.sort_by_key(|(_, bytes)| -bytes);
    let size = |sample: &Sample, table: &str| {
        let found = sample.tables.iter().find(|(name, _)| name == table);
        found.map_or(0.0, |(_, bytes)| *bytes as f64 / MIB)
    };
    let mut tables: Vec<Line> = largest
        .iter()
        .take(SHOWN_TABLES)
        .map(|(name, _)| Line {
            name: name.clone(),
            values: samples.iter().map(|sample| size(sample, name)).collect(),
        })
        .collect();
    let others: Vec<&str> = largest
        .iter()
        .skip(SHOWN_TABLES)
        .map(|(name, _)| name.as_str())
        .collect();
    tables.push(Line {
        name: "all others".to_owned(),
        values: samples
            .iter()
            .map(|sample| others.iter().map(|name| size(sample, name)).sum())
            .collect(),
    });
    std::fs::create_dir_all(&options.out)?;
    let write = |name: &str, text: &str| {
        let path = options.out.join(name);
        std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))
    };
    write(
        "soak-memory.svg",
        &plot::svg("Resident memory [MiB]", &minutes, &memory),
    )?;
    write(
        "soak-tables.svg",
        &plot::svg("Tables with their indexes [MiB]", &minutes, &tables),
    )?;
    let turns = counts.turns.load(Ordering::Relaxed);
    let mut page = format!(
        "# Soak: {} conversations for {:.0} minutes\n\n{} API and {} worker processes, retention and compaction on (a run's tokens are compacted a \
         minute after its end, and removed after five), each conversation deleted after {TURNS} turns and started again. {turns} turns ({:.0} per second), {} conversations \
         deleted, {} failed turns. No faults are injected; each reply was compared with the model's output.\n\n\
         ![memory](soak-memory.svg)\n\n![tables](soak-tables.svg)\n\n| | after a third of the time [MiB] | after two thirds | at the end |\n| --- | ---: | ---: | ---: |\n",
        options.conversations,
        options.span.as_secs_f64() / 60.0,
        options.shape.apis,
        options.shape.workers,
        turns as f64 / options.span.as_secs_f64(),
        counts.deleted.load(Ordering::Relaxed),
        counts.wrong.load(Ordering::Relaxed),
    );
    for line in memory.iter().chain(&tables) {
        let at = |share: usize| line.values[(line.values.len() * share / 3).min(line.values.len() - 1)];
        page.push_str(&format!(
            "| {} | {:.1} | {:.1} | {:.1} |\n",
            line.name,
            at(1),
            at(2),
            at(3)
        ));
    }
    write("soak.md", &page)
}
