//! The same post many times at once, to both APIs; then another body with the same key, which must be refused.

use anyhow::Result;
use async_trait::async_trait;
use futures::future::join_all;
use serde_json::json;

use super::{Actor, Load, conversation, run};
use crate::client::Message;
use crate::evidence::{Response, Target};

pub struct Insistent;

/// Number of concurrent posts.
const TIMES: usize = 6;
const PATH: &str = "/api/chat/stream";

#[async_trait]
impl Load for Insistent {
    fn name(&self) -> &'static str {
        "insistent"
    }

    async fn play(&self, actor: &mut Actor) -> Result<()> {
        let plan = actor.plan();
        let (client, body) = (actor.client.clone(), json!({ "message": plan.message() }));
        let key = format!("key-{}", plan.id);
        let (mut post, others) = tokio::join!(
            client.post(Message::new(self.name(), &plan)),
            join_all((1..TIMES).map(|_| client.try_post(PATH, &body, &key)))
        );
        let told: Vec<Response> = others.into_iter().flatten().collect();
        post.contradictions = told
            .into_iter()
            .filter(|told| Some(told) != post.told.as_ref())
            .collect();
        if post.told.is_some() {
            let other = json!({ "message": format!("{} or something else", plan.message()) });
            // Without a response, nothing is claimed.
            if let Some(told) = client.try_post(PATH, &other, &key).await
                && told.status != 422
            {
                post.contradictions.push(told);
            }
        }
        actor.keep(&post);
        if let (Some(conversation), Some(run)) = (conversation(&post), run(&post)) {
            actor.read(Target::Conversation(conversation));
            actor.client.wait_until_done(run).await;
        }
        Ok(())
    }
}
