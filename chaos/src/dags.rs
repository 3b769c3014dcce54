//! DAGs of tasks while workers are killed at random: every task completes once, every join happens once, nothing waits
//! forever. One world, a DAG and an agent tree for each seed, and the checker at the end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::checker;
use crate::client::{Client, Message};
use crate::evidence::Notes;
use crate::load::run as run_of;
use crate::plan::{AGENT, Plan};
use crate::world::{Shape, World};

/// Tasks per layer; each waits for two of the previous layer, and the last one for all without successors.
const WIDTH: usize = 10;
/// Maximum number of concurrent tasks of a DAG.
const CONCURRENCY: usize = 20;
/// Interval between kills, in milliseconds.
const KILL_EVERY_MS: std::ops::Range<u64> = 300..800;
/// Timeout of a DAG.
const LIMIT: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Options {
    pub seeds: u64,
    pub tasks: usize,
    pub shape: Shape,
    /// The report's path, besides the terminal.
    pub report: Option<PathBuf>,
}

/// The result of a seed.
#[derive(Debug)]
struct Played {
    kills: usize,
    took: Duration,
    state: String,
}

#[expect(clippy::print_stdout, reason = "the table goes to whoever asked")]
/// Runs all seeds; false if the checker found a violation, or a DAG did not end.
pub async fn run(options: &Options) -> Result<bool> {
    let world = World::start(&options.shape).await?;
    let mut is_well = true;
    let mut table = String::new();
    let mut tell = |line: String| {
        println!("{line}");
        table.push_str(&line);
        table.push('\n');
    };
    tell("| seed | tasks | kills | took | DAG |".to_owned());
    tell("| ---: | ---: | ---: | ---: | --- |".to_owned());
    for seed in 1..=options.seeds {
        let played = play(&world, options, seed).await?;
        let (kills, took_s) = (played.kills, played.took.as_secs_f64());
        tell(format!(
            "| {seed} | {} | {kills} | {took_s:.1} s | {} |",
            options.tasks, played.state
        ));
        is_well &= played.state == "completed";
    }
    let rest = async {
        while !matches!(world.open_work().await, Ok(0)) {
            sleep(LOOK_EVERY).await;
        }
    };
    let rested = timeout(LIMIT, rest).await.is_ok();
    world.evidence.notes(&Notes {
        lease_ms: u64::try_from(world.lease.as_millis()).unwrap_or(u64::MAX),
        may_lose_commits: false,
        rest_after_ms: rested.then_some(0),
        left_open: world.open_work().await.unwrap_or(-1),
        memory_bytes: Vec::new(),
        memory_bound_bytes: u64::MAX,
        model_refusals: world.model.violations(),
        ended: Vec::new(),
    });
    world.evidence.flush()?;
    let case = checker::load(&world.databases(), &options.shape.directory).await?;
    let violations = checker::check(&case);
    for violation in violations.iter().take(20) {
        println!("{violation}");
    }
    let resumed = case.runs.values().filter(|run| run.attempt > 1).count();
    let verdict = format!(
        "{} tasks, {} runs ({resumed} of them of more than one attempt): {} violations",
        case.tasks.len(),
        case.runs.len(),
        violations.len()
    );
    println!("{verdict}");
    if let Some(report) = &options.report {
        let shape = &options.shape;
        let page = format!(
            "# DAGs of tasks while workers are killed\n\n    make chaos-dags ARGS=\"--seeds {} --tasks {}\"\n\n\
             Layers of {WIDTH} tasks, each after two of the previous layer, and one task after all; with each DAG a tree of agents. {} \
             workers, of which one is killed by SIGKILL every {} to {} ms and restarted; a lease of {} ms. At the end, the checker (I1 to \
             I14) verifies that each task was executed by one run, after its dependencies, that each parent joined once, and that no run still waits.\n\n\
             **{verdict}.**\n\n{table}",
            options.seeds,
            options.tasks,
            shape.workers,
            KILL_EVERY_MS.start,
            KILL_EVERY_MS.end,
            shape.lease.as_millis(),
        );
        std::fs::write(report, page).with_context(|| format!("can't write {}", report.display()))?;
    }
    crate::run::stop(&world).await;
    Ok(is_well && violations.is_empty())
}

async fn play(world: &Arc<World>, options: &Options, seed: u64) -> Result<Played> {
    let mut dice = StdRng::seed_from_u64(seed);
    let client = Client {
        world: world.clone(),
        user: usize::try_from(seed)? % world.users.len(),
    };
    let began = Instant::now();
    let dag = make(&client, options.tasks, seed, &mut dice).await?;
    let leaves = (0..8)
        .map(|nth| Plan::words(format!("s{seed}l{nth}"), 20, 20))
        .collect();
    let plan = Plan::words(format!("s{seed}"), 5, 5).after_spawning(3, leaves);
    let message = Message {
        with_agent: true,
        ..Message::new("dags", &plan)
    };
    let post = client.post(message).await;
    world.evidence.post(&post);
    let mut kills = 0;
    let mut next_kill = Instant::now() + Duration::from_millis(dice.random_range(KILL_EVERY_MS));
    let state = loop {
        sleep(LOOK_EVERY).await;
        let state: String = sqlx::query_scalar("select state from kb.task_dags where id = $1")
            .bind(dag)
            .fetch_one(&world.db)
            .await?;
        if state != "active" || began.elapsed() > LIMIT {
            break state;
        }
        if Instant::now() >= next_kill {
            let workers = world.workers();
            let member = workers[dice.random_range(0..workers.len())];
            let mut process = member.process.lock().await;
            member.kill(&mut process).await?;
            member.start(&mut process)?;
            kills += 1;
            next_kill = Instant::now() + Duration::from_millis(dice.random_range(KILL_EVERY_MS));
        }
    };
    if let Some(run) = run_of(&post) {
        let _ = timeout(LIMIT, client.wait_until_done(run)).await;
    }
    Ok(Played {
        kills,
        took: began.elapsed(),
        state,
    })
}

/// Posts a layered DAG; returns its id.
async fn make(client: &Client, count: usize, seed: u64, dice: &mut StdRng) -> Result<Uuid> {
    let last = count - 1;
    let tasks: Vec<Value> = (0..count)
        .map(|nth| {
            let (layer, place) = (nth / WIDTH, nth % WIDTH);
            let after: Vec<String> = match layer {
                _ if nth == last => (last.saturating_sub(WIDTH)..last).map(|before| format!("t{before}")).collect(),
                0 => Vec::new(),
                _ => [place, (place + 1) % WIDTH]
                    .map(|before| format!("t{}", (layer - 1) * WIDTH + before))
                    .to_vec(),
            };
            let plan = Plan::words(format!("s{seed}t{nth}"), dice.random_range(1..15), dice.random_range(1..20));
            json!({"id": format!("t{nth}"), "description": plan.message(), "agent": AGENT, "after": after, "maxRetries": 0})
        })
        .collect();
    let user = &client.world.users[client.user];
    let path = format!("/api/projects/{}/task-dags", user.workspace_id);
    let body = json!({"name": format!("seed {seed}"), "maxConcurrency": CONCURRENCY, "tasks": tasks});
    let response = client.request(Method::POST, &path).json(&body).send().await?;
    let status = response.status();
    let answer: Value = response.json().await?;
    ensure!(status.is_success(), "the DAG was refused: {answer}");
    answer["id"]
        .as_str()
        .and_then(|id| id.parse().ok())
        .context("a DAG has an id")
}
