//! A second message while a turn runs: it is queued, refused, or interrupts the running turn.

use anyhow::Result;
use async_trait::async_trait;
use rand::RngExt as _;

use super::{Actor, Load, conversation, run};
use crate::client::Message;
use crate::evidence::{Expected, Target};

pub struct Busy;

#[async_trait]
impl Load for Busy {
    fn name(&self) -> &'static str {
        "busy"
    }

    async fn play(&self, actor: &mut Actor) -> Result<()> {
        let (mut first, second) = (actor.plan(), actor.plan());
        first.steps[0].words += 40;
        let on_busy = ["enqueue", "reject", "interrupt"][actor.dice.random_range(0..3)];
        let mut post = actor.client.post(Message::new(self.name(), &first)).await;
        let (Some(id), Some(first_run)) = (conversation(&post), run(&post)) else {
            actor.keep(&post);
            return Ok(());
        };
        actor.read_by(2, Target::Conversation(id));
        actor.pause(200).await;
        let message = Message {
            conversation: Some(id),
            on_busy: Some(on_busy),
            ..Message::new(self.name(), &second)
        };
        let mut next = actor.client.post(message).await;
        if on_busy == "interrupt" {
            post.expected = Expected::Stopped;
        }
        if next.told.as_ref().is_some_and(|told| told.status == 409) {
            next.expected = Expected::Refused;
        }
        actor.keep(&post);
        actor.keep(&next);
        actor.client.wait_until_done(first_run).await;
        if let Some(run) = run(&next) {
            actor.client.wait_until_done(run).await;
        }
        Ok(())
    }
}
