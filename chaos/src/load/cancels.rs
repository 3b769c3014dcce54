//! Cancelled turns: before they begin, midway, between calls, after their end.

use anyhow::Result;
use async_trait::async_trait;
use rand::RngExt as _;

use super::{Actor, Load, conversation, run};
use crate::client::Message;
use crate::evidence::{Expected, Target};
use crate::tools::{LOOK, PAY};

pub struct Cancels;

/// Number of short calls of a turn, so that one would start after the cancellation if it could.
const CALLS: usize = 8;
const HOLD_MS: u64 = 60;
/// Maximum delay of the cancellation.
const WITHIN_MS: u64 = 1_500;

#[async_trait]
impl Load for Cancels {
    fn name(&self) -> &'static str {
        "cancels"
    }

    async fn play(&self, actor: &mut Actor) -> Result<()> {
        let mut plan = actor.plan();
        for call in 0..CALLS {
            plan = plan.after_call(3, if call % 2 == 0 { PAY } else { LOOK }, HOLD_MS);
        }
        let message = Message {
            expected: Expected::Stopped,
            with_agent: true,
            ..Message::new(self.name(), &plan)
        };
        let mut post = actor.client.post(message).await;
        if let (Some(conversation), Some(run)) = (conversation(&post), run(&post)) {
            actor.read_by(2, Target::Conversation(conversation));
            if actor.dice.random_bool(0.8) {
                actor.pause(WITHIN_MS).await;
            }
            post.cancelled_at_us = actor.client.cancel(run).await;
            actor.client.wait_until_done(run).await;
        }
        actor.keep(&post);
        Ok(())
    }
}
