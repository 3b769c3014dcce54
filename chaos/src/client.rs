//! Clients of a chaos run, and what they record: they post with an idempotency key until acknowledged, to any API; they
//! cancel, and read.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::evidence::{Expected, Post, Response, now_us};
use crate::plan::Plan;
use crate::world::World;

/// Timeout of a request.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Retry interval.
const RETRY: Duration = Duration::from_millis(200);

/// A user, of any API.
#[derive(Clone)]
pub struct Client {
    pub world: Arc<World>,
    pub user: usize,
}

/// The content of a post.
pub struct Message<'a> {
    pub load: &'a str,
    pub plan: &'a Plan,
    pub expected: Expected,
    pub conversation: Option<Uuid>,
    pub on_busy: Option<&'a str>,
    /// With the run's tools.
    pub with_agent: bool,
    /// With the agent that users' programs execute.
    pub to_program: bool,
    /// To this agent directly, without a conversation.
    pub triggers: bool,
}

impl<'a> Message<'a> {
    pub fn new(load: &'a str, plan: &'a Plan) -> Self {
        Self {
            load,
            plan,
            expected: Expected::Whole,
            conversation: None,
            on_busy: None,
            with_agent: false,
            to_program: false,
            triggers: false,
        }
    }
}

impl Client {
    /// Posts until acknowledged, by any API. Unacknowledged only if the run is over.
    pub async fn post(&self, message: Message<'_>) -> Post {
        let user = &self.world.users[self.user];
        let (path, body) = if message.triggers {
            let path = format!("/api/projects/{}/agents/{}/trigger", user.workspace_id, user.agent_id);
            (path, json!({ "input": message.plan.message() }))
        } else {
            let mut body = json!({ "message": message.plan.message() });
            if let Some(id) = message.conversation {
                body["conversationId"] = json!(id);
            } else if message.with_agent {
                body["agentDefinitionId"] = json!(user.agent_id);
            } else if message.to_program {
                body["agentDefinitionId"] = json!(user.program_agent_id);
            }
            let query = message
                .on_busy
                .map_or(String::new(), |on_busy| format!("?onBusy={on_busy}"));
            (format!("/api/chat/stream{query}"), body)
        };
        let mut post = Post {
            load: message.load.to_owned(),
            user: self.user,
            key: format!("key-{}", message.plan.id),
            plan: message.plan.message(),
            expected: message.expected,
            told: None,
            contradictions: Vec::new(),
            tries: 0,
            cancelled_at_us: None,
        };
        while post.told.is_none() && !self.world.readers_end.is_cancelled() {
            post.tries += 1;
            post.told = self.try_post(&path, &body, &post.key).await;
            if post.told.is_none() {
                tokio::time::sleep(RETRY).await;
            }
        }
        post
    }

    /// Returns an API's response to a post; None if it must be retried.
    pub async fn try_post(&self, path: &str, body: &Value, key: &str) -> Option<Response> {
        let request = self
            .request(Method::POST, path)
            .header("idempotency-key", key)
            .json(body);
        let (status, answer) = answer_of(request).await?;
        let passes = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        // A refusal may name a run, too: another one.
        let of = |field: &str| id(&answer[field]).filter(|_| status.is_success());
        (!passes).then(|| Response {
            status: status.as_u16(),
            code: answer["code"].as_str().map(str::to_owned),
            run_id: of("runId"),
            conversation_id: of("conversationId"),
        })
    }

    /// Cancels until confirmed. Returns the time. None: the run was lost, or everything has ended.
    pub async fn cancel(&self, run_id: Uuid) -> Option<i64> {
        let path = format!("/api/runs/{run_id}/cancel");
        while !self.world.readers_end.is_cancelled() {
            let request = self.request(Method::POST, &path).json(&json!({}));
            match answer_of(request).await {
                Some((StatusCode::ACCEPTED, _)) => return Some(now_us()),
                Some((StatusCode::NOT_FOUND, _)) if self.world.may_lose_commits => return None,
                _ => tokio::time::sleep(RETRY).await,
            }
        }
        None
    }

    /// Returns the response to a GET; None if it must be retried.
    pub async fn get(&self, path: &str) -> Option<(StatusCode, Value)> {
        answer_of(self.request(Method::GET, path)).await
    }

    /// To any API.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let api = rand::rng().random_range(0..self.world.apis.len());
        self.request_at(api, method, path)
    }

    pub fn request_at(&self, api: usize, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.world
            .http
            .request(method, format!("http://{}{path}", self.world.apis[api]))
            .bearer_auth(&self.world.users[self.user].key)
            .header("accept", "application/json")
    }

    /// Waits until a run has ended, or was lost, or everything has ended.
    pub async fn wait_until_done(&self, run_id: Uuid) {
        while !self.world.readers_end.is_cancelled() {
            // A project that has moved may have left its rows on the other database, as they were.
            for db in self.world.databases() {
                let done =
                    sqlx::query_scalar::<_, bool>("select done_seq is not null from kb.agent_runs where id = $1")
                        .bind(run_id)
                        .fetch_optional(&db)
                        .await;
                match done {
                    Ok(Some(true)) => return,
                    Ok(None) if self.world.may_lose_commits => return,
                    Ok(_) | Err(_) => {}
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Status and body; None without a complete response.
pub async fn answer_of(request: reqwest::RequestBuilder) -> Option<(StatusCode, Value)> {
    let asked = async {
        let response = request.send().await.ok()?;
        let status = response.status();
        let body = response.bytes().await.ok()?;
        Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    };
    tokio::time::timeout(REQUEST_LIMIT, asked).await.ok()?
}

fn id(value: &Value) -> Option<Uuid> {
    value.as_str()?.parse().ok()
}
