//! Runs without a conversation, with their own log.

use anyhow::Result;
use async_trait::async_trait;
use rand::RngExt as _;

use super::{Actor, Load, run};
use crate::client::Message;
use crate::evidence::Target;
use crate::tools::PAY;

pub struct Triggered;

#[async_trait]
impl Load for Triggered {
    fn name(&self) -> &'static str {
        "triggered"
    }

    async fn play(&self, actor: &mut Actor) -> Result<()> {
        let mut plan = actor.plan();
        if actor.dice.random_bool(0.5) {
            plan = plan.after_call(4, PAY, actor.dice.random_range(0..200));
        }
        let message = Message {
            triggers: true,
            ..Message::new(self.name(), &plan)
        };
        let post = actor.client.post(message).await;
        actor.keep(&post);
        if let Some(run) = run(&post) {
            actor.read_by(2, Target::Run(run));
            actor.client.wait_until_done(run).await;
        }
        Ok(())
    }
}
