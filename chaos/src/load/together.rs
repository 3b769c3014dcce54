//! Cooperating agents: trees of sub-agents, DAGs of tasks, plans, questions to users, and combinations. Despite
//! crashes, each parent resumes once, each task runs once, and each answer arrives.

use anyhow::Result;
use async_trait::async_trait;
use rand::RngExt as _;
use reqwest::Method;
use serde_json::json;
use tokio::time::{Duration, sleep};
use uuid::Uuid;

use super::{Actor, Load, conversation, run};
use crate::client::{Client, Message};
use crate::evidence::Target;
use crate::plan::Plan;
use crate::tools;

pub struct Together;

/// Maximum number of sub-agents of a call, or tasks of a DAG.
const CHILDREN: usize = 4;
/// Polling interval for questions.
const LOOK: Duration = Duration::from_millis(300);

#[async_trait]
impl Load for Together {
    fn name(&self) -> &'static str {
        "together"
    }

    fn weight(&self) -> usize {
        2
    }

    async fn play(&self, actor: &mut Actor) -> Result<()> {
        let mut plan = actor.plan();
        for _ in 0..actor.dice.random_range(1..=2) {
            plan = with_others(actor, plan, 0);
        }
        let message = Message {
            with_agent: true,
            ..Message::new(self.name(), &plan)
        };
        let post = actor.client.post(message).await;
        actor.keep(&post);
        if let (Some(conversation), Some(run)) = (conversation(&post), run(&post)) {
            actor.read(Target::Conversation(conversation));
            actor.read(Target::Run(run));
            answer_until_done(&actor.client, run).await;
        }
        Ok(())
    }
}

/// Adds a first step that asks others: sub-agents, tasks, or a user.
fn with_others(actor: &mut Actor, plan: Plan, depth: usize) -> Plan {
    let words = actor.dice.random_range(0..10);
    match actor.dice.random_range(0..4) {
        0 => plan.after_asking(words),
        // Steps of plans can't start agents.
        1 if depth == 0 => {
            let steps = (0..actor.dice.random_range(1..=CHILDREN))
                .map(|_| paying(actor))
                .collect();
            plan.after_planning(words, steps)
        }
        which => {
            let children = actor.dice.random_range(1..=CHILDREN);
            let children = (0..children)
                .map(|_| {
                    let child = actor.plan();
                    if depth == 0 && actor.dice.random_bool(0.3) {
                        with_others(actor, child, 1)
                    } else {
                        child
                    }
                })
                .collect();
            match which {
                2 => plan.after_spawning(words, children),
                _ => plan.after_tasks(words, children),
            }
        }
    }
}

/// Text, optionally after a payment.
fn paying(actor: &mut Actor) -> Plan {
    let plan = actor.plan();
    if actor.dice.random_bool(0.5) {
        plan.after_call(2, tools::PAY, actor.dice.random_range(0..150))
    } else {
        plan
    }
}

/// Answers all questions to this user until a run has ended.
async fn answer_until_done(client: &Client, run_id: Uuid) {
    let done = client.wait_until_done(run_id);
    tokio::pin!(done);
    loop {
        tokio::select! {
            () = &mut done => return,
            () = sleep(LOOK) => {}
        }
        let Some((_, page)) = client.get("/api/questions?status=pending&limit=100").await else {
            continue;
        };
        for question in page["items"].as_array().into_iter().flatten() {
            let path = format!("/api/questions/{}/answer", question["id"].as_str().unwrap_or_default());
            let answer = if question["interactionType"] == "confirm" {
                "approve"
            } else {
                "go on"
            };
            // Another client may be faster, or a response may be lost: it is asked again.
            let _ = client
                .request(Method::POST, &path)
                .json(&json!({ "answer": answer }))
                .timeout(Duration::from_secs(5))
                .send()
                .await;
        }
    }
}
