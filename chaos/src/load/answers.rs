//! An agent of users' programs, which writes its answer while it works.

use anyhow::Result;
use async_trait::async_trait;

use super::{Actor, Load};
use crate::client::Message;

pub struct Answers;

#[async_trait]
impl Load for Answers {
    fn name(&self) -> &'static str {
        "answers"
    }

    fn weight(&self) -> usize {
        1
    }

    async fn play(&self, actor: &mut Actor) -> Result<()> {
        let plan = actor.plan();
        let message = Message {
            to_program: true,
            ..Message::new(self.name(), &plan)
        };
        actor.turn(message).await;
        Ok(())
    }
}
