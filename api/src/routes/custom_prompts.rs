//! `/api/workspaces/{id}/custom-prompt`: prompts of a project, and of the caller in it, added to every agent's own
//! prompt. (Earlier chat pages call a project a workspace.)

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_runs::prompts::{self, MAX_CHARS, Prompts};
use rejoin_types::access::Scope;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(get, put))
}

/// Custom prompts. Empty: none
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomPrompt {
    /// The project's prompt
    pub custom_prompt: String,
    /// The caller's prompt
    pub user_prompt: String,
}

impl From<Prompts> for CustomPrompt {
    fn from(prompts: Prompts) -> Self {
        Self {
            custom_prompt: prompts.of_project.unwrap_or_default(),
            user_prompt: prompts.of_user.unwrap_or_default(),
        }
    }
}

/// New prompts. Absent: unchanged
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CustomPromptRequest {
    /// The project's prompt; owners and operators can set it
    #[schema(max_length = 10000)]
    pub custom_prompt: Option<String>,
    /// The caller's prompt
    #[schema(max_length = 10000)]
    pub user_prompt: Option<String>,
}

/// Get the custom prompts of the project and of the caller, which all agents get
#[utoipa::path(get, path = "/api/workspaces/{id}/custom-prompt", tag = "custom prompts",
    params(("id" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "Both", body = CustomPrompt), Refused))]
async fn get(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<CustomPrompt>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    Ok(Json(
        prompts::get(&mut *db, workspace_id, Some(caller.user_id)).await?.into(),
    ))
}

/// Set the custom prompts that all agents get
#[utoipa::path(put, path = "/api/workspaces/{id}/custom-prompt", tag = "custom prompts", request_body = CustomPromptRequest,
    params(("id" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The updated prompts", body = CustomPrompt), Refused, BodyRefused))]
async fn put(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<CustomPromptRequest>,
) -> Result<Json<CustomPrompt>, Problem> {
    caller.in_workspace(workspace_id)?;
    for prompt in [&request.custom_prompt, &request.user_prompt].into_iter().flatten() {
        if prompt.chars().count() > MAX_CHARS || prompt.contains('\0') {
            let detail = format!("a prompt can have at most {MAX_CHARS} characters and no NUL");
            return Err(Problem::bad_request("invalid_prompt", detail));
        }
    }
    let mut db = caller.begin(&state).await?;
    if let Some(prompt) = &request.custom_prompt {
        if !caller.may(Scope::Admin) {
            let detail = "the project's prompt can be set only with the scope admin; you can set userPrompt";
            return Err(Problem::new(StatusCode::FORBIDDEN, "scope_missing", detail));
        }
        prompts::set_of_workspace(&mut *db, workspace_id, prompt).await?;
        let detail = json!({ "characters": prompt.chars().count() });
        record(
            &mut db,
            &caller,
            Action::PromptSet,
            format!("project:{workspace_id}"),
            detail,
        )
        .await?;
    }
    if let Some(prompt) = &request.user_prompt {
        prompts::set_of_user(&mut *db, caller.owner(), prompt).await?;
    }
    let now = prompts::get(&mut *db, workspace_id, Some(caller.user_id)).await?;
    db.commit().await?;
    Ok(Json(now.into()))
}
