//! An agent whose tools are served by users' programs: one pays, which must not happen twice, one reads, which may.

use anyhow::Result;
use async_trait::async_trait;
use rand::RngExt as _;

use super::{Actor, Load, conversation, run};
use crate::client::Message;
use crate::evidence::Target;
use crate::tools::{PROGRAM_LOOK, PROGRAM_PAY};

pub struct Program;

/// Maximum number of calls of a turn.
const CALLS: usize = 3;
/// Maximum duration of a call.
const HOLD_MS: u64 = 400;

#[async_trait]
impl Load for Program {
    fn name(&self) -> &'static str {
        "program"
    }

    fn weight(&self) -> usize {
        2
    }

    async fn play(&self, actor: &mut Actor) -> Result<()> {
        let mut plan = actor.plan();
        for _ in 0..actor.dice.random_range(1..=CALLS) {
            let tool = if actor.dice.random_bool(0.5) {
                PROGRAM_PAY
            } else {
                PROGRAM_LOOK
            };
            let (words, hold_ms) = (actor.dice.random_range(0..15), actor.dice.random_range(0..HOLD_MS));
            plan = plan.after_call(words, tool, hold_ms);
        }
        let message = Message {
            with_agent: true,
            ..Message::new(self.name(), &plan)
        };
        let post = actor.client.post(message).await;
        actor.keep(&post);
        if let (Some(conversation), Some(run)) = (conversation(&post), run(&post)) {
            actor.read(Target::Conversation(conversation));
            actor.client.wait_until_done(run).await;
        }
        Ok(())
    }
}
