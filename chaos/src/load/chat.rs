//! Plain turns, one after the other in a conversation, each with several readers.

use anyhow::Result;
use async_trait::async_trait;
use rand::RngExt as _;

use super::{Actor, Load, conversation, run};
use crate::client::Message;
use crate::evidence::Target;

pub struct Chat;

/// Maximum number of turns of a conversation.
const TURNS: usize = 4;

#[async_trait]
impl Load for Chat {
    fn name(&self) -> &'static str {
        "chat"
    }

    fn weight(&self) -> usize {
        3
    }

    async fn play(&self, actor: &mut Actor) -> Result<()> {
        let mut id = None;
        for turn in 0..actor.dice.random_range(1..=TURNS) {
            let plan = actor.plan();
            let message = Message {
                conversation: id,
                ..Message::new(self.name(), &plan)
            };
            let post = actor.client.post(message).await;
            actor.keep(&post);
            let (Some(conversation), Some(run)) = (conversation(&post), run(&post)) else {
                return Ok(());
            };
            if turn == 0 {
                actor.read_by(2, Target::Conversation(conversation));
            }
            if actor.dice.random_bool(0.3) {
                actor.read(Target::Run(run));
            }
            id = Some(conversation);
            actor.client.wait_until_done(run).await;
            if actor.is_over() {
                break;
            }
            actor.pause(300).await;
        }
        Ok(())
    }
}
