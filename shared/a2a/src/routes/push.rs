//! Push notification configs: stored, listed and removed. What they cause is sent by the extension that stores them.

use rejoin_event_log::wakeup::Wake;
use rejoin_http::caller::Caller;
use rejoin_http::extract::{PageParams, page};
use rejoin_http::problem::Problem;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use uuid::Uuid;

use super::state::A2aState;
use super::tasks;
use crate::errors::codes;
use crate::push::PushConfig;

/// Default and maximum number of configs in a page.
const PAGE: i64 = 20;
const PAGE_MAX: i64 = 100;

/// Which config of which task
#[derive(Debug, Deserialize)]
pub(super) struct OneConfig {
    #[serde(rename = "taskId", alias = "task_id")]
    pub task: String,
    pub id: String,
}

/// Which configs of which task
#[derive(Debug, Deserialize)]
pub(super) struct ConfigsOfTask {
    #[serde(rename = "taskId", alias = "task_id")]
    pub task: String,
    #[serde(flatten)]
    pub page: PageOfConfigs,
}

/// Which configs of a task
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct PageOfConfigs {
    /// Maximum number of configs in the page: 1 to 100, by default 20
    #[serde(alias = "page_size")]
    #[param(minimum = 1, maximum = 100)]
    pub page_size: Option<i64>,
    /// `nextPageToken` of the previous page
    #[serde(alias = "page_token")]
    pub page_token: Option<String>,
}

fn as_json(config: &PushConfig) -> Result<Value, Problem> {
    serde_json::to_value(config).map_err(|_| Problem::internal())
}

/// Checks a config before anything is stored.
pub(super) fn checked(state: &A2aState, config: PushConfig) -> Result<PushConfig, Problem> {
    let config = config.checked()?;
    state.push.judge(&config)?;
    Ok(config)
}

/// Stores a checked config of a run that is a task.
pub(super) async fn put(state: &A2aState, caller: &Caller, run: Uuid, config: &PushConfig) -> Result<(), Problem> {
    let mut db = caller.begin(state).await?;
    state.push.put(&mut db, caller.workspace_id, run, config).await?;
    db.commit().await?;
    // A task that rests is sent at once.
    state.bus.publish(Wake::queue(rejoin_queue::DEFAULT_QUEUE));
    Ok(())
}

/// Stores a config, and returns it. `task`: the task that the path names; otherwise the config names it.
pub(super) async fn create(
    state: &A2aState,
    caller: &Caller,
    task: Option<&str>,
    config: PushConfig,
) -> Result<Value, Problem> {
    if task.is_some_and(|task| !config.task_id.is_empty() && config.task_id != task) {
        let detail = "taskId is not the task that the path names";
        return Err(Problem::bad_request("invalid_push_config", detail));
    }
    let run = tasks::find(state, caller, task.unwrap_or(&config.task_id)).await?.id;
    let mut config = checked(state, config)?;
    config.task_id = run.to_string();
    put(state, caller, run, &config).await?;
    as_json(&config)
}

/// Returns a page of a task's configs.
pub(super) async fn list(
    state: &A2aState,
    caller: &Caller,
    task: &str,
    request: PageOfConfigs,
) -> Result<Value, Problem> {
    // Protobuf has 0 where there is none.
    let size = request.page_size.filter(|size| *size != 0).unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&size) {
        let detail = format!("pageSize must be between 1 and {PAGE_MAX}");
        return Err(Problem::bad_request("invalid_query", detail));
    }
    let cursor = PageParams {
        limit: None,
        cursor: request.page_token.filter(|token| !token.is_empty()),
    };
    let after = cursor.after::<String>()?;
    let run = tasks::find(state, caller, task).await?.id;
    let mut db = caller.begin(state).await?;
    let workspace_id = caller.workspace_id;
    let rows = state
        .push
        .page(&mut db, workspace_id, run, after.as_deref(), size + 1)
        .await?;
    let (configs, next) = page(rows, size, |config| config.id.clone(), |config| config);
    let configs: Result<Vec<Value>, Problem> = configs.iter().map(as_json).collect();
    Ok(json!({"configs": configs?, "nextPageToken": next.unwrap_or_default()}))
}

/// Returns a config of a task.
pub(super) async fn get(state: &A2aState, caller: &Caller, task: &str, id: &str) -> Result<Value, Problem> {
    let run = tasks::find(state, caller, task).await?.id;
    let mut db = caller.begin(state).await?;
    let found = state.push.get(&mut db, caller.workspace_id, run, id).await?;
    // The protocol has no other error for it.
    let not_found = || Problem::not_found(codes::TASK_NOT_FOUND, "The push notification config of the task");
    as_json(&found.ok_or_else(not_found)?)
}

/// Removes a config of a task, if it is there.
pub(super) async fn delete(state: &A2aState, caller: &Caller, task: &str, id: &str) -> Result<Value, Problem> {
    let run = tasks::find(state, caller, task).await?.id;
    let mut db = caller.begin(state).await?;
    state.push.delete(&mut db, caller.workspace_id, run, id).await?;
    db.commit().await?;
    Ok(json!({}))
}
