//! Users' load during a chaos run. A kind of load is a file with a [`Load`]; many of each run concurrently, and each
//! restarts when it ends, until the run's time ends.
//!
//! - `chat`      plain turns, one after the other in a conversation
//! - `stories`   long answers
//! - `answers`   an agent that users' programs execute
//! - `calls`     an agent that pays and reads; `program`, `python`, `node`: the same with tools of users' programs
//! - `busy`      a second message while a turn runs: queued, refused, or interrupting
//! - `cancels`   turns that are cancelled, early or late
//! - `triggered` runs without a conversation
//! - `insistent` the same post many times at once, and a different one with its key
//! - `outside`   an agent that pays by a hostile MCP server
//! - `together`  trees of sub-agents, DAGs of tasks, questions to users
//! - `stranger`  a user who tries to access others' data

mod answers;
mod busy;
mod calls;
mod cancels;
mod chat;
mod insistent;
mod outside;
mod stories;
mod stranger;
mod together;
mod triggered;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use async_trait::async_trait;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::client::{Client, Message};
use crate::evidence::{Post, Target};
use crate::plan::Plan;
use crate::programs::processes::{self, Language};
use crate::readers::{self, Manner};
use crate::world::World;

/// The loads whose turns wait for nothing but the product, a model that answers at once, and short tools.
pub const STEADY: [&str; 8] = [
    "chat",
    "stories",
    "calls",
    "busy",
    "cancels",
    "triggered",
    "insistent",
    "stranger",
];

/// A user's activity, from beginning to end.
#[async_trait]
pub trait Load: Send + Sync {
    fn name(&self) -> &'static str;

    /// Its share of the users: a weight.
    fn weight(&self) -> usize {
        1
    }

    async fn play(&self, actor: &mut Actor) -> Result<()>;
}

/// All loads. Those with tools of a package need its language on this machine.
pub fn all() -> Vec<Arc<dyn Load>> {
    let mut all = without_packages();
    for language in processes::languages() {
        all.push(Arc::new(of_package(language)));
    }
    all
}

/// The load with tools of programs that use the package for this language.
pub fn of_package(language: Language) -> impl Load {
    match language {
        Language::Python => calls::Calls::OF_PYTHON,
        Language::Node => calls::Calls::OF_NODE,
    }
}

/// All loads but those whose tools are of programs that use the packages.
pub fn without_packages() -> Vec<Arc<dyn Load>> {
    vec![
        Arc::new(chat::Chat),
        Arc::new(stories::Stories),
        Arc::new(calls::Calls::OF_WORKERS),
        Arc::new(busy::Busy),
        Arc::new(cancels::Cancels),
        Arc::new(triggered::Triggered),
        Arc::new(insistent::Insistent),
        Arc::new(outside::Outside),
        Arc::new(calls::Calls::OF_PROGRAMS),
        Arc::new(answers::Answers),
        Arc::new(together::Together),
        Arc::new(stranger::Stranger),
    ]
}

/// Returns those with these names.
pub fn named(names: &[String]) -> Result<Vec<Arc<dyn Load>>> {
    let all = all();
    let mut found = Vec::new();
    for name in names {
        match all.iter().find(|load| load.name() == name) {
            Some(load) => found.push(load.clone()),
            None => bail!(
                "there is no load {name}; there are: {}",
                all.iter().map(|load| load.name()).collect::<Vec<_>>().join(", ")
            ),
        }
    }
    Ok(found)
}

/// An active user: posts, with readers.
pub struct Actor {
    pub client: Client,
    pub dice: StdRng,
    name: String,
    turns: u64,
    readers: TaskTracker,
    nth_reader: Arc<AtomicU64>,
}

impl Actor {
    /// Returns a plan with a unique id.
    pub fn plan(&mut self) -> Plan {
        self.turns += 1;
        let id = format!("{}t{}", self.name, self.turns);
        Plan::words(id, self.dice.random_range(5..60), self.dice.random_range(2..25))
    }

    /// Records a response, and starts readers.
    pub fn keep(&self, post: &Post) {
        self.client.world.evidence.post(post);
    }

    /// Starts a reader.
    pub fn read(&mut self, target: Target) {
        let nth = self.nth_reader.fetch_add(1, Ordering::Relaxed);
        let name = format!("reader-{nth}");
        let (client, seed) = (self.client.clone(), self.dice.random());
        self.readers
            .spawn(readers::follow(client, target, name, Manner::of(nth), seed));
    }

    /// Starts several readers.
    pub fn read_by(&mut self, readers: usize, target: Target) {
        for _ in 0..readers {
            self.read(target);
        }
    }

    /// Posts a message, lets its conversation and its run be read, and waits for its end.
    pub async fn turn(&mut self, message: Message<'_>) {
        let post = self.client.post(message).await;
        self.keep(&post);
        if let (Some(conversation), Some(run)) = (conversation(&post), run(&post)) {
            self.read(Target::Conversation(conversation));
            self.read(Target::Run(run));
            self.client.wait_until_done(run).await;
        }
    }

    pub async fn pause(&mut self, up_to_ms: u64) {
        let ms = self.dice.random_range(0..=up_to_ms);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    pub fn is_over(&self) -> bool {
        self.client.world.load_ends.is_cancelled()
    }
}

/// Returns the conversation of an accepted post.
pub fn conversation(post: &Post) -> Option<Uuid> {
    post.told.as_ref()?.conversation_id
}

/// Returns the run of an accepted post.
pub fn run(post: &Post) -> Option<Uuid> {
    post.told.as_ref()?.run_id
}

/// All users of a run.
pub struct Crowd {
    actors: JoinSet<()>,
    pub readers: TaskTracker,
}

impl Crowd {
    /// Starts this many users with these loads.
    pub fn start(world: &Arc<World>, loads: &[Arc<dyn Load>], users: usize, seed: u64) -> Self {
        let mut actors = JoinSet::new();
        let readers = TaskTracker::new();
        let nth_reader = Arc::new(AtomicU64::new(0));
        let weighted: Vec<&Arc<dyn Load>> = loads
            .iter()
            .flat_map(|load| std::iter::repeat_n(load, load.weight()))
            .collect();
        for number in 0..users {
            let load = weighted[number % weighted.len()].clone();
            let mut actor = Actor {
                client: Client {
                    world: world.clone(),
                    user: number % world.users.len(),
                },
                dice: StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number as u64)),
                name: format!("{}{number}", load.name()),
                turns: 0,
                readers: readers.clone(),
                nth_reader: nth_reader.clone(),
            };
            actors.spawn(async move {
                while !actor.is_over() {
                    if let Err(error) = load.play(&mut actor).await {
                        tracing::warn!(load = load.name(), error = format!("{error:#}"), "a user gave up");
                    }
                }
            });
        }
        Self { actors, readers }
    }

    /// Waits until all users have finished their current activity.
    pub async fn finish(&mut self) {
        while let Some(ended) = self.actors.join_next().await {
            ended.expect("no user panics");
        }
    }
}
