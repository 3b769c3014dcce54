//! Webhooks: which events are sent, in which order, how often and to whom; and receivers that fail, hang or attack.

mod command_line;
mod endpoints;
mod events;
mod receivers;
mod retries;

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::mcp::secret_keys_file;
use rejoin_tests::support::wait_for;
use rejoin_tests::web::{Asked, PLACE, Site};
use rejoin_worker::WorkerConfig;
use reqwest::StatusCode;
use serde_json::{Value, json};

/// An app that may send webhooks to [`PLACE`], with three attempts at once.
pub(crate) fn options() -> AppOptions {
    AppOptions {
        api: |config| {
            config.secret_keys.secret_keys_file = Some(secret_keys_file().into());
            config.webhooks.webhook_hosts = vec![PLACE.to_owned()];
        },
        worker: |config| {
            allow(config);
            config.webhooks.webhook_retries_s = vec![0, 0];
        },
        ..AppOptions::default()
    }
}

fn allow(config: &mut WorkerConfig) {
    config.mcp.keys.secret_keys_file = Some(secret_keys_file().into());
    config.webhooks.webhook_hosts = vec![PLACE.to_owned()];
}

pub(crate) fn path(app: &TestApp) -> String {
    format!("/api/admin/projects/{}/webhooks", app.db.workspace_id)
}

/// A webhook of the test's project.
pub(crate) struct Hook {
    pub(crate) path: String,
    pub(crate) secret: String,
}

/// Creates a webhook for these events.
pub(crate) async fn add(app: &TestApp, url: &str, events: &[&str]) -> Hook {
    let body = json!({"url": url, "events": events});
    let (status, added) = app.client().post(&path(app), body).await;
    assert_eq!(status, StatusCode::CREATED, "{added}");
    Hook {
        path: format!("{}/{}", path(app), added["webhook"]["id"].as_str().expect("an id")),
        secret: added["secret"].as_str().expect("a secret").to_owned(),
    }
}

impl Hook {
    /// Its deliveries, the newest first.
    async fn deliveries(&self, app: &TestApp) -> Vec<Value> {
        let (status, listed) = app.client().get(&format!("{}/deliveries", self.path)).await;
        assert_eq!(status, StatusCode::OK, "{listed}");
        listed["items"].as_array().expect("a page").clone()
    }

    /// The same, once there are this many and all have ended.
    async fn ended(&self, app: &TestApp, count: usize) -> Vec<Value> {
        wait_for("deliveries to end", async || {
            let deliveries = self.deliveries(app).await;
            let all_ended = deliveries.iter().all(|delivery| delivery["state"] != "pending");
            (deliveries.len() == count && all_ended).then_some(deliveries)
        })
        .await
    }
}

/// What a site was sent, once there were this many requests.
pub(crate) async fn requests(site: &Site, count: usize) -> Vec<Asked> {
    wait_for("requests of webhooks", async || {
        let asked = site.asked();
        (asked.len() >= count).then_some(asked)
    })
    .await
}

pub(crate) fn header<'a>((_, headers, _): &'a Asked, name: &str) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

pub(crate) fn payload((_, _, body): &Asked) -> Value {
    serde_json::from_slice(body).expect("JSON")
}

/// Asks an agent `message`, to be answered with `reply`; returns the conversation's id.
async fn talk(app: &TestApp, agent: uuid::Uuid, conversation: Option<&str>, message: &str) -> String {
    app.model
        .script([rejoin_tests::model_server::Reply::text("A private answer.")]);
    let mut body = json!({"message": message, "agentDefinitionId": agent});
    if let Some(conversation) = conversation {
        body = json!({"message": message, "conversationId": conversation});
    }
    let posted = app.client().post_message(body).await;
    let run = format!("/api/runs/{}/events", posted["runId"].as_str().expect("an id"));
    app.client().stream(&run).await.rest().await;
    posted["conversationId"].as_str().expect("an id").to_owned()
}
