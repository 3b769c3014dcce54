//! Users' programs that serve tools over HTTP: good ones, and ones that are gone in the middle of a call, hang past their lease and return, send
//! a result twice, and give calls back. Each effect is in the ledger, each result in the evidence.
//!
//! A program is a task of this process that speaks the worker protocol; being gone means that it never sends anything again.
//!
//! - `answer` the function of an agent
//! - `flow`   a durable function
//! - `processes` programs that use the packages: processes of their own

mod answer;
mod flow;
pub mod processes;

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::processes::Language;
use crate::client::{Client, answer_of};
use crate::evidence::{SentResult, now_us};
use crate::tools::{Effect, PROGRAM_ANSWER, PROGRAM_FLOW, PROGRAM_LOOK, PROGRAM_PAY};
use crate::world::World;

/// Programs of each project.
const PROGRAMS: usize = 2;
const SLOTS: usize = 16;
const RETRY: Duration = Duration::from_millis(100);
/// How long a claim waits, in seconds.
const WAIT_S: u64 = 2;
const CLAIM_LIMIT: Duration = Duration::from_secs(10);
const REGISTRATION_LIMIT: Duration = Duration::from_secs(60);

/// How a program handles a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Honest,
    /// Gone before it acts, with all of its calls.
    Gone,
    /// Gone after it acted.
    ActsAndIsGone,
    /// Sends no heartbeat for longer than a lease, and then its result.
    Hangs,
    CompletesTwice,
    /// Gives the call back, once.
    Retries,
}

impl Mood {
    fn any(dice: &mut StdRng) -> Self {
        match dice.random_range(0..100) {
            0..70 => Self::Honest,
            70..75 => Self::Gone,
            75..80 => Self::ActsAndIsGone,
            80..88 => Self::Hangs,
            88..94 => Self::CompletesTwice,
            _ => Self::Retries,
        }
    }
}

/// Starts the programs of all projects, those of packages in these languages, and waits until each is registered once: an agent of a program that was never started fails, as it
/// should. They end with the readers.
pub async fn start(world: &Arc<World>, seed: u64, packages: &[Language]) -> Result<JoinSet<()>> {
    let opened = OpenOptions::new()
        .create(true)
        .append(true)
        .open(world.evidence.ledger());
    let ledger = Arc::new(opened.context("opening the ledger")?);
    let mut projects: Vec<(Uuid, usize)> = Vec::new();
    for (number, user) in world.users.iter().enumerate() {
        if projects.iter().all(|(project, _)| *project != user.workspace_id) {
            projects.push((user.workspace_id, number));
        }
    }
    let mut programs = JoinSet::new();
    let registered = Arc::new(Semaphore::new(0));
    let count = projects.len() * PROGRAMS;
    let mut of_packages = Vec::new();
    for (nth, (_, user)) in projects.into_iter().enumerate() {
        for language in packages.iter().copied() {
            let client = Client {
                world: world.clone(),
                user,
            };
            let program = Arc::new(processes::Program::new(client, language, nth).await?);
            let dice = StdRng::seed_from_u64(seed.wrapping_mul(104_729).wrapping_add(of_packages.len() as u64));
            programs.spawn(program.clone().live(dice));
            of_packages.push(program);
        }
        for number in 0..PROGRAMS {
            let client = Client {
                world: world.clone(),
                user,
            };
            let mut dice =
                StdRng::seed_from_u64(seed.wrapping_mul(7_919).wrapping_add((user * PROGRAMS + number) as u64));
            let (ledger, registered) = (ledger.clone(), registered.clone());
            programs.spawn(async move {
                while !client.world.readers_end.is_cancelled() {
                    let life = Program::born(client.clone(), ledger.clone());
                    life.serve(&mut dice, &registered).await;
                    sleep(RETRY).await;
                }
            });
        }
    }
    let all = registered.acquire_many(u32::try_from(count)?);
    let _permits = timeout(REGISTRATION_LIMIT, all)
        .await
        .context("the programs do not register")??;
    for program in of_packages {
        program.ready().await?;
    }
    Ok(programs)
}

/// One life of a program.
struct Program {
    client: Client,
    ledger: Arc<File>,
    /// Nothing is sent after it.
    gone: CancellationToken,
}

impl Program {
    fn born(client: Client, ledger: Arc<File>) -> Self {
        Self {
            gone: client.world.readers_end.child_token(),
            client,
            ledger,
        }
    }

    /// Serves until it is gone.
    async fn serve(self, dice: &mut StdRng, registered: &Semaphore) {
        let program = Arc::new(self);
        let gone = program.gone.clone();
        tokio::select! {
            () = gone.cancelled() => {}
            () = program.live(dice, registered) => {}
        }
        program.gone.cancel();
    }

    async fn live(self: &Arc<Self>, dice: &mut StdRng, registered: &Semaphore) {
        let Some(id) = self.register().await else { return };
        registered.add_permits(1);
        let mut calls = JoinSet::new();
        loop {
            let body = json!({"workerId": id, "max": SLOTS, "waitS": WAIT_S});
            let claimed = timeout(CLAIM_LIMIT, self.post("/api/workers/default/claims", &body)).await;
            match claimed {
                Ok(Some((StatusCode::OK, claimed))) => {
                    for call in claimed["calls"].as_array().into_iter().flatten() {
                        let (program, call, mood) = (self.clone(), call.clone(), Mood::any(dice));
                        let id = id.clone();
                        calls.spawn(async move {
                            match call["tool"].as_str() {
                                Some(PROGRAM_FLOW) => program.flow(&id, &call, mood).await,
                                Some(PROGRAM_ANSWER) => program.answer(&id, &call, mood).await,
                                _ => program.execute(&id, &call, mood).await,
                            }
                        });
                    }
                }
                // The database was restored, or it was away for too long.
                Ok(Some((StatusCode::NOT_FOUND, _))) => return,
                Ok(_) | Err(_) => sleep(RETRY).await,
            }
            while calls.try_join_next().is_some() {}
        }
    }

    async fn register(&self) -> Option<String> {
        let tool = |name: &str, idempotent: bool| {
            json!({
                "name": name, "description": "Leaves an effect.", "idempotent": idempotent, "timeoutS": 60,
                "inputSchema": {
                    "type": "object", "required": ["plan", "step", "hold_ms"], "additionalProperties": false,
                    "properties": {"plan": {"type": "string"}, "step": {"type": "integer"}, "hold_ms": {"type": "integer"}},
                },
            })
        };
        let mut answer = tool(PROGRAM_ANSWER, true);
        answer["inputSchema"] =
            json!({"type": "object", "required": ["message"], "properties": {"message": {"type": "string"}}});
        let tools = json!([
            tool(PROGRAM_PAY, false),
            tool(PROGRAM_LOOK, true),
            tool(PROGRAM_FLOW, true),
            answer
        ]);
        let body = json!({"name": "chaos", "slots": SLOTS, "tools": tools});
        loop {
            match self.post("/api/workers/default/registrations", &body).await {
                Some((status, registered)) if status.is_success() => {
                    return registered["workerId"].as_str().map(str::to_owned);
                }
                Some(_) | None => sleep(RETRY).await,
            }
        }
    }

    async fn execute(&self, id: &str, call: &Value, mood: Mood) {
        let hold_ms = call["input"]["hold_ms"].as_u64().unwrap_or_default();
        let attempt = call["attempt"].as_i64().unwrap_or_default();
        match mood {
            Mood::Gone => {
                self.gone.cancel();
                return;
            }
            Mood::Retries if attempt == 1 => {
                let body = json!({"workerId": id, "attempt": attempt, "error": "not now", "retry": true});
                self.settle(call, "failure", &body).await;
                return;
            }
            Mood::Retries | Mood::Honest | Mood::ActsAndIsGone | Mood::Hangs | Mood::CompletesTwice => {}
        }
        self.act(call, hold_ms);
        if mood == Mood::ActsAndIsGone {
            self.gone.cancel();
            return;
        }
        let hold = Duration::from_millis(hold_ms);
        if mood == Mood::Hangs {
            sleep(hold + self.client.world.lease + self.client.world.lease / 2).await;
        } else if !self.held(id, call, hold).await {
            return;
        }
        let body =
            json!({"workerId": id, "attempt": attempt, "output": {"done": call["input"]["step"], "attempt": attempt}});
        for _ in 0..if mood == Mood::CompletesTwice { 2 } else { 1 } {
            self.complete(call, attempt, &body).await;
        }
    }

    /// Sends heartbeats for this long. False: the call was cancelled or lost.
    async fn held(&self, id: &str, call: &Value, hold: Duration) -> bool {
        let body = json!({"workerId": id, "calls": [{"id": call["id"], "attempt": call["attempt"]}]});
        let until = tokio::time::Instant::now() + hold;
        loop {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() {
                return true;
            }
            sleep(left.min(self.client.world.lease / 3)).await;
            if let Some((StatusCode::OK, answer)) = self.post("/api/workers/default/heartbeats", &body).await
                && answer["held"].as_array().is_some_and(Vec::is_empty)
            {
                return false;
            }
        }
    }

    fn act(&self, call: &Value, hold_ms: u64) {
        let effect = Effect {
            tool: call["tool"].as_str().unwrap_or_default().to_owned(),
            run_id: id_of(&call["runId"]),
            call_id: call["callId"].as_str().unwrap_or_default().to_owned(),
            pid: std::process::id(),
            at_us: now_us(),
            hold_ms,
        };
        let line = format!("{}\n", json!(effect));
        (&*self.ledger)
            .write_all(line.as_bytes())
            .expect("the ledger can be written");
    }

    /// Sends the result of a call. The program can be gone between the API's commit and its answer: so the evidence has a result twice, as sent
    /// and as accepted.
    async fn complete(&self, call: &Value, attempt: i64, body: &Value) {
        let mut result = SentResult {
            run_id: id_of(&call["runId"]),
            call_id: call["callId"].as_str().unwrap_or_default().to_owned(),
            attempt,
            is_accepted: false,
        };
        self.client.world.evidence.result(&result);
        if self.settle(call, "completion", body).await {
            result.is_accepted = true;
            self.client.world.evidence.result(&result);
        }
    }

    /// Sends the end of a call until it is answered. Returns whether it was accepted.
    async fn settle(&self, call: &Value, what: &str, body: &Value) -> bool {
        let path = format!(
            "/api/workers/default/calls/{}/{what}",
            call["id"].as_str().unwrap_or_default()
        );
        loop {
            match self.post(&path, body).await {
                Some((status, _)) if status.is_success() => return true,
                Some((status, _)) if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => {
                    return false;
                }
                Some(_) | None => sleep(RETRY).await,
            }
        }
    }

    /// None: without a complete answer.
    async fn post(&self, path: &str, body: &Value) -> Option<(StatusCode, Value)> {
        answer_of(self.client.request(Method::POST, path).json(body)).await
    }
}

fn id_of(value: &Value) -> Uuid {
    value.as_str().and_then(|id| id.parse().ok()).unwrap_or_default()
}
