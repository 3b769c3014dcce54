//! Context types of conversations, as configured by a project.

use axum::Json;
use axum::extract::State;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller, Read};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_runs::contexts::{self, ContextType, PROMPT_MAX_CHARS, TOOLS_MAX};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list)).routes(routes!(put))
}

/// A context type with the project's settings
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextSettings {
    pub context_type: String,
    /// Additional prompt for agents
    pub prompt: String,
    /// Tools shown first to agents whose definitions have `"toolSelection": "context"`: names and globs
    pub tools: Vec<String>,
    /// Whether the project has changed the defaults
    pub is_changed: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ContextList {
    pub items: Vec<ContextSettings>,
}

/// The project's settings of a context type. Null: the default
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextRequest {
    #[schema(max_length = 20000)]
    pub prompt: Option<String>,
    #[schema(max_items = 200)]
    pub tools: Option<Vec<String>>,
}

async fn read(db: &mut sqlx::PgConnection, workspace_id: Uuid, one: ContextType) -> Result<ContextSettings, Problem> {
    let (prompt, tools) = contexts::of_workspace(db, workspace_id, one).await?;
    let is_changed = prompt.is_some() || tools.is_some();
    let shipped = contexts::shipped(one);
    Ok(ContextSettings {
        context_type: one.as_str().to_owned(),
        prompt: prompt.unwrap_or_else(|| shipped.prompt.clone()),
        tools: tools.unwrap_or_else(|| shipped.tools.clone()),
        is_changed,
    })
}

/// List the context types with the project's settings
#[utoipa::path(get, path = "/api/projects/{p}/contexts", tag = "contexts",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "All context types", body = ContextList), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<ContextList>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let mut items = Vec::new();
    for one in ContextType::ALL {
        items.push(read(&mut db, workspace_id, one).await?);
    }
    Ok(Json(ContextList { items }))
}

/// Change the project's settings of a context type
#[utoipa::path(put, path = "/api/admin/projects/{p}/contexts/{type}", tag = "contexts", request_body = ContextRequest,
    params(("p" = Uuid, Path, description = "The project"), ("type" = String, Path, description = "The type, such as `project_audit`")),
    responses((status = 200, description = "The updated context type", body = ContextSettings), Refused, BodyRefused))]
async fn put(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, named)): Segments<(Uuid, String)>,
    Body(request): Body<ContextRequest>,
) -> Result<Json<ContextSettings>, Problem> {
    caller.in_workspace(workspace_id)?;
    let one = ContextType::named(&named).map_err(|fault| Problem::bad_request("invalid_context", fault))?;
    let is_bad = |text: &String| text.chars().count() > PROMPT_MAX_CHARS || text.contains('\0');
    let names = request.tools.as_deref().unwrap_or_default();
    if request.prompt.as_ref().is_some_and(is_bad) || names.len() > TOOLS_MAX || names.iter().any(is_bad) {
        let detail = format!(
            "a prompt can have at most {PROMPT_MAX_CHARS} characters, and tools at most {TOOLS_MAX} names or globs; \
            NUL characters are not allowed"
        );
        return Err(Problem::bad_request("invalid_context", detail));
    }
    let mut db = caller.begin(&state).await?;
    contexts::set_of_workspace(
        &mut *db,
        workspace_id,
        one,
        request.prompt.as_deref(),
        request.tools.as_deref(),
    )
    .await?;
    let now = read(&mut db, workspace_id, one).await?;
    let detail = json!({"type": one, "prompt": request.prompt.is_some(), "tools": request.tools});
    record(
        &mut db,
        &caller,
        Action::ContextSet,
        format!("project:{workspace_id}"),
        detail,
    )
    .await?;
    db.commit().await?;
    Ok(Json(now))
}
