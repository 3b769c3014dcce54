//! Rejoin's queue behind the benchmark's driver protocol: one operation per call, over `DATABASE_URL`.
//!
//! | operation | does |
//! |---|---|
//! | `setup` | migrates |
//! | `bulk N` | N jobs by `rejoin_queue::enqueue_many` |
//! | `single SECONDS PRODUCERS` | a message and its job in one transaction, repeatedly |
//! | `produce RATE SECONDS` | the same at a fixed rate, each with its wake-up |
//! | `work` | a complete worker with a no-op handler, until stdin closes |
//!
//! The worker is the product's own, with all features: lease, attempt fence, round-robin between projects, concurrency
//! keys, kept completed jobs, sweeps, heartbeats.
#![expect(clippy::print_stdout, reason = "the protocol is lines on stdout")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use clap::{Args, Command, FromArgMatches as _};
use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, Role};
use rejoin_event_log::wakeup::{self, SharedBus, Wake};
use rejoin_extension::Signals;
use rejoin_model_client::name::ModelSettings;
use rejoin_queue::{ClaimedJob, NewJob, Outcome};
use rejoin_tools::registry::Registry;
use rejoin_worker::jobs::{Handler, Handlers};
use rejoin_worker::{Services, WorkerConfig};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use rejoin_bench_tables::load::now_us;

const KIND: &str = "noop";
/// Number of jobs per bulk call.
const CHUNK: usize = 5_000;
/// Interval of progress lines.
const TELL_EVERY: Duration = Duration::from_millis(20);

/// The number of handled jobs, and their latencies.
#[derive(Default)]
struct Seen {
    jobs: AtomicU64,
    /// Filled if `LAT=1`, in µs.
    latencies: Mutex<Vec<u64>>,
    measures: bool,
}

struct Noop(Arc<Seen>);

#[async_trait]
impl Handler for Noop {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn handle(&self, _: &Services, job: &ClaimedJob, _: &Signals) -> Outcome {
        if self.0.measures {
            let sent = job.payload["t"].as_u64().unwrap_or_default();
            let mut latencies = self.0.latencies.lock().expect("no holder of this lock panics");
            latencies.push(now_us().saturating_sub(sent));
        }
        self.0.jobs.fetch_add(1, Ordering::Relaxed);
        Outcome::Complete
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| -> Result<f64> {
        let word = words.get(index).context("the operation wants another number")?;
        word.parse().with_context(|| format!("{word} is no number"))
    };
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    match words.first().map(String::as_str) {
        Some("setup") => rejoin_cli::migrate::up(&url).await.map(|_| ()),
        Some("bulk") => bulk(&url, number(1)? as usize).await,
        Some("single") => single(&url, number(1)?, number(2)? as usize).await,
        Some("produce") => produce(&url, number(1)?, number(2)?).await,
        Some("work") => work(url).await,
        _ => bail!("operations: setup | bulk N | single SECONDS PRODUCERS | produce RATE SECONDS | work"),
    }
}

fn noop() -> NewJob {
    NewJob::new(KIND, json!({ "t": now_us() }))
}

fn report(jobs: u64, took: Duration) {
    println!("{}", json!({ "n": jobs, "s": took.as_secs_f64() }));
}

async fn bulk(url: &str, jobs: usize) -> Result<()> {
    let db = Db::connect_lazy(&DatabaseArgs::new(url), "queue-driver", Role::Login)?;
    let mut connection = db.pool_sqlx.acquire().await?;
    let began = Instant::now();
    let mut left = jobs;
    while left > 0 {
        let chunk: Vec<NewJob> = (0..left.min(CHUNK)).map(|_| noop()).collect();
        rejoin_queue::enqueue_many(&mut connection, &chunk).await?;
        left -= chunk.len();
    }
    report(jobs as u64, began.elapsed());
    Ok(())
}

/// State shared by producers.
#[derive(Clone)]
struct Producer {
    db: Db,
    /// The conversation of the messages.
    conversation: Uuid,
}

impl Producer {
    async fn new(url: &str, connections: usize) -> Result<Self> {
        let arguments = DatabaseArgs {
            db_hot_connections: connections + 2,
            ..DatabaseArgs::new(url)
        };
        let db = Db::connect_lazy(&arguments, "queue-driver", Role::Login)?;
        let conversation = Uuid::now_v7();
        let client = db.pool_pg.get().await?;
        client
            .batch_execute("create table if not exists bench_messages (id uuid primary key, conversation_id uuid not null, content text not null)")
            .await?;
        drop(client);
        // Connected before the clock starts.
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(db.pool_pg.get().await?);
        }
        Ok(Self { db, conversation })
    }

    /// Inserts a message and its job, in one transaction and one round trip.
    async fn one(&self) -> Result<()> {
        let client = self.db.pool_pg.get().await?;
        let statement = client
            .prepare_cached(
                "with message as (
                     insert into bench_messages (id, conversation_id, content) values ($1, $2, 'hello'))
                 select queue.enqueue($3, $4)",
            )
            .await?;
        let payload = json!({ "t": now_us() });
        client
            .query_one(&statement, &[&Uuid::now_v7(), &self.conversation, &KIND, &payload])
            .await?;
        Ok(())
    }
}

async fn single(url: &str, seconds: f64, producers: usize) -> Result<()> {
    let producer = Producer::new(url, producers).await?;
    let began = Instant::now();
    let span = Duration::from_secs_f64(seconds);
    let mut tasks = Vec::new();
    for _ in 0..producers {
        let producer = producer.clone();
        tasks.push(tokio::spawn(async move {
            let mut jobs = 0_u64;
            while began.elapsed() < span {
                producer.one().await?;
                jobs += 1;
            }
            Ok::<_, anyhow::Error>(jobs)
        }));
    }
    let mut jobs = 0;
    for task in tasks {
        jobs += task.await??;
    }
    report(jobs, began.elapsed());
    Ok(())
}

async fn produce(url: &str, rate: f64, seconds: f64) -> Result<()> {
    let producer = Producer::new(url, 4).await?;
    let bus: SharedBus = wakeup::over_postgres(&producer.db);
    // Its connection is warm, too.
    bus.publish(Wake::queue("warm-up"));
    let jobs = (rate * seconds) as u32;
    let began = Instant::now();
    let from = tokio::time::Instant::now() + Duration::from_millis(50);
    for job in 0..jobs {
        tokio::time::sleep_until(from + Duration::from_secs_f64(f64::from(job) / rate)).await;
        let (producer, bus) = (producer.clone(), bus.clone());
        tokio::spawn(async move {
            if producer.one().await.is_ok() {
                bus.publish(Wake::queue(rejoin_queue::DEFAULT_QUEUE));
            }
        });
    }
    // The last wake-ups are sent.
    tokio::time::sleep(Duration::from_millis(300)).await;
    report(u64::from(jobs), began.elapsed());
    Ok(())
}

async fn work(url: String) -> Result<()> {
    // The worker's own settings and defaults, from the environment.
    let command = WorkerConfig::augment_args(Command::new("queue-driver"));
    let config = WorkerConfig::from_arg_matches(&command.get_matches_from(["queue-driver", "--database-url", &url]))?;
    let db = Db::connect_lazy(&config.database, "rejoin-worker", Role::Login)?;
    let bus = wakeup::start(&config.database, &db).await?;
    let seen = Arc::new(Seen {
        measures: std::env::var("LAT").is_ok_and(|value| value == "1"),
        ..Seen::default()
    });
    let handlers = Handlers::new([Arc::new(Noop(seen.clone())) as Arc<dyn Handler>]);
    let services = Services::with(config, db, bus, ModelSettings::from_env(), Registry::default())?;
    let drain = CancellationToken::new();
    println!("{}", json!({ "start": now_us() }));
    let working = tokio::spawn(rejoin_worker::work_on(services, handlers, drain.clone()));
    let closed = tokio::spawn(async {
        let mut rest = Vec::new();
        // However stdin ends, the work ends.
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    });
    let mut told = 0;
    while !closed.is_finished() {
        tokio::time::sleep(TELL_EVERY).await;
        let jobs = seen.jobs.load(Ordering::Relaxed);
        if jobs != told {
            println!("{}", json!({ "c": jobs, "t": now_us() }));
            told = jobs;
        }
    }
    drain.cancel();
    working.await?;
    let latencies = seen.latencies.lock().expect("no holder of this lock panics").clone();
    println!(
        "{}",
        json!({ "final": seen.jobs.load(Ordering::Relaxed), "lat": latencies })
    );
    Ok(())
}
