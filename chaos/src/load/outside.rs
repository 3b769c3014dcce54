//! An agent that pays by a hostile MCP server (`mcp_server`): in any case the turn ends successfully, and no call pays
//! twice.

use anyhow::Result;
use async_trait::async_trait;
use rand::RngExt as _;

use super::{Actor, Load, conversation, run};
use crate::client::Message;
use crate::evidence::Target;
use crate::mcp_server::PAY;

pub struct Outside;

/// Maximum number of calls of a turn.
const CALLS: usize = 3;
/// Maximum duration of a call.
const HOLD_MS: u64 = 200;

#[async_trait]
impl Load for Outside {
    fn name(&self) -> &'static str {
        "outside"
    }

    async fn play(&self, actor: &mut Actor) -> Result<()> {
        let mut plan = actor.plan();
        for _ in 0..actor.dice.random_range(1..=CALLS) {
            let (words, hold_ms) = (actor.dice.random_range(0..10), actor.dice.random_range(0..HOLD_MS));
            plan = plan.after_call(words, PAY, hold_ms);
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
