//! An agent of users' programs, which writes its answer while it works.

use anyhow::Result;
use async_trait::async_trait;

use super::{Actor, Load, conversation, run};
use crate::client::Message;
use crate::evidence::Target;

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
        let post = actor.client.post(message).await;
        actor.keep(&post);
        if let (Some(conversation), Some(run)) = (conversation(&post), run(&post)) {
            actor.read(Target::Conversation(conversation));
            actor.read(Target::Run(run));
            actor.client.wait_until_done(run).await;
        }
        Ok(())
    }
}
