//! A stranger: tries to access another user's conversation, run and events, by their ids, and lists that might contain
//! them. Any leak is recorded as a contradiction.

use anyhow::Result;
use async_trait::async_trait;
use serde_json::Value;
use uuid::Uuid;

use super::{Actor, Load, conversation, run};
use crate::client::{Client, Message};
use crate::evidence::Response;

pub struct Stranger;

/// How many others try, at most.
const STRANGERS: usize = 4;

#[async_trait]
impl Load for Stranger {
    fn name(&self) -> &'static str {
        "stranger"
    }

    async fn play(&self, actor: &mut Actor) -> Result<()> {
        let plan = actor.plan();
        let mut post = actor.client.post(Message::new(self.name(), &plan)).await;
        if let (Some(conversation), Some(run)) = (conversation(&post), run(&post)) {
            for away in (1..actor.client.world.users.len()).take(STRANGERS) {
                let stranger = Client {
                    world: actor.client.world.clone(),
                    user: (actor.client.user + away) % actor.client.world.users.len(),
                };
                post.contradictions.extend(pry(&stranger, conversation, run).await);
            }
            actor.client.wait_until_done(run).await;
        }
        actor.keep(&post);
        Ok(())
    }
}

/// Returns what a stranger learned and should not have.
async fn pry(stranger: &Client, conversation: Uuid, run: Uuid) -> Vec<Response> {
    let mut told = Vec::new();
    let mut tells = |status: u16, code: String| {
        told.push(Response {
            status,
            code: Some(code),
            run_id: Some(run),
            conversation_id: Some(conversation),
        });
    };
    for path in [
        format!("/api/conversations/{conversation}"),
        format!("/api/conversations/{conversation}/messages"),
        format!("/api/conversations/{conversation}/events"),
        format!("/api/runs/{run}"),
        format!("/api/runs/{run}/events"),
    ] {
        if let Some((status, _)) = stranger.get(&path).await
            && status.is_success()
        {
            tells(status.as_u16(), path);
        }
    }
    let me = &stranger.world.users[stranger.user];
    if let Some((status, answer)) = stranger.get("/api/me").await
        && status.is_success()
        && !answer.to_string().contains(&me.user_id.to_string())
    {
        tells(status.as_u16(), format!("/api/me says {answer}"));
    }
    if let Some((_, Value::Object(answer))) = stranger.get("/api/conversations?limit=50").await
        && Value::Object(answer).to_string().contains(&conversation.to_string())
    {
        tells(200, "/api/conversations".to_owned());
    }
    told
}
