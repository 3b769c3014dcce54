//! Agent definitions of a project (admin), and installation of the default ones. Every field may also be spelled in
//! snake_case.
//!
//! - `bodies` bodies of requests and responses
//! - `versions` the contents that a definition has had

mod bodies;
mod versions;

pub use bodies::{DefinitionBody, DefinitionPage, DefinitionRequest, Installed};

use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use rejoin_event_log::wakeup::Wake;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller};
use rejoin_http::extract::{Body, Limit, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_runs::agents::{self, DefinitionContent};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(get, update, delete))
        .routes(routes!(install_defaults))
        .merge(versions::routes())
}

fn check(content: &DefinitionContent) -> Result<(), Problem> {
    content
        .check()
        .map_err(|fault| Problem::bad_request("invalid_agent_definition", fault))
}

fn not_found() -> Problem {
    Problem::not_found("agent_definition_not_found", "The agent definition")
}

fn name_taken(name: &str) -> Problem {
    Problem::conflict(
        "name_taken",
        format!("the project already has an agent definition named {name}"),
    )
}

/// Returns a definition's name in the audit log.
fn audited(id: Uuid) -> String {
    format!("agent_definition:{id}")
}

/// Filter and page of agent definitions
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Maximum number of items in the page
    #[param(value_type = Option<i32>, minimum = 1)]
    pub limit: Option<Limit>,
    /// `nextCursor` of the previous page
    pub cursor: Option<String>,
    /// `external`, `project`, `internal` or `all`; absent: all except internal ones
    #[param(pattern = "^(external|project|internal|all)$")]
    pub visibility: Option<String>,
}

impl ListParams {
    fn visibilities(&self) -> Result<&'static [&'static str], Problem> {
        Ok(match self.visibility.as_deref() {
            None => &["external", "project"],
            Some("all") => &agents::VISIBILITIES,
            Some("external") => &["external"],
            Some("project") => &["project"],
            Some("internal") => &["internal"],
            Some(other) => {
                let detail = format!("visibility={other} is not supported; use external, project, internal or all");
                return Err(Problem::bad_request("invalid_query", detail));
            }
        })
    }
}

/// List the project's agent definitions, by name. Internal ones, which only other agents can call, are included if
/// `visibility` asks for them
#[utoipa::path(get, path = "/api/admin/projects/{p}/agent-definitions", tag = "agent definitions",
    params(ListParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = DefinitionPage), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<ListParams>,
) -> Result<Json<DefinitionPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let visibilities = params.visibilities()?;
    let paging = PageParams {
        limit: params.limit,
        cursor: params.cursor,
    };
    let limit = paging.limit(&state)?;
    let after: Option<String> = paging.after()?;
    let rows = agents::list_visible(
        &mut *caller.begin(&state).await?,
        workspace_id,
        visibilities,
        after.as_deref(),
        limit + 1,
    )
    .await?;
    let (items, next_cursor) = page(rows, limit, |row| row.name.clone(), DefinitionBody::from);
    Ok(Json(DefinitionPage { items, next_cursor }))
}

/// Create an agent definition
#[utoipa::path(post, path = "/api/admin/projects/{p}/agent-definitions", tag = "agent definitions",
    request_body = DefinitionRequest, params(("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "Added", body = DefinitionBody),
        (status = 409, description = "The name is taken", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused, BodyRefused))]
async fn create(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<DefinitionRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<DefinitionBody>), Problem> {
    caller.in_workspace(workspace_id)?;
    let mut content = DefinitionContent::blank();
    request.apply(&mut content);
    check(&content)?;
    let mut db = caller.begin(&state).await?;
    let made = agents::insert(&mut db, workspace_id, &content)
        .await?
        .ok_or_else(|| name_taken(&content.name))?;
    let named = json!({ "name": made.name });
    record(&mut db, &caller, Action::DefinitionCreated, audited(made.id), named).await?;
    db.commit().await?;
    let location = format!("/api/admin/projects/{workspace_id}/agent-definitions/{}", made.id);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(made.into())))
}

/// Get an agent definition
#[utoipa::path(get, path = "/api/admin/projects/{p}/agent-definitions/{id}", tag = "agent definitions",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The definition")),
    responses((status = 200, description = "It", body = DefinitionBody), Refused))]
async fn get(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<DefinitionBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let found = agents::get(&mut db, workspace_id, id).await?.ok_or_else(not_found)?;
    Ok(Json(found.into()))
}

/// Update an agent definition
#[utoipa::path(patch, path = "/api/admin/projects/{p}/agent-definitions/{id}", tag = "agent definitions",
    request_body = DefinitionRequest,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The definition")),
    responses((status = 200, description = "The updated definition", body = DefinitionBody),
        (status = 409, description = "The name is taken", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused, BodyRefused))]
async fn update(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<DefinitionRequest>,
) -> Result<Json<DefinitionBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut tx = caller.begin(&state).await?;
    let before = DefinitionContent::from(agents::get(&mut tx, workspace_id, id).await?.ok_or_else(not_found)?);
    let mut content = before.clone();
    request.apply(&mut content);
    check(&content)?;
    let updated = match agents::update(&mut tx, workspace_id, id, &content).await {
        Ok(updated) => updated.ok_or_else(not_found)?,
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => return Err(name_taken(&content.name)),
        Err(error) => return Err(error.into()),
    };
    let fields = before.changed_fields(&content);
    if !fields.is_empty() {
        let named = json!({ "name": updated.name, "fields": fields });
        record(&mut tx, &caller, Action::DefinitionChanged, audited(id), named).await?;
    }
    tx.commit().await?;
    Ok(Json(updated.into()))
}

/// Delete an agent definition that no conversation uses
#[utoipa::path(delete, path = "/api/admin/projects/{p}/agent-definitions/{id}", tag = "agent definitions",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The definition")),
    responses((status = 204, description = "Gone"),
        (status = 409, description = "Conversations use it", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused))]
async fn delete(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let found = agents::get(&mut db, workspace_id, id).await?.ok_or_else(not_found)?;
    match agents::delete(&mut *db, workspace_id, id).await {
        Ok(true) => {
            let named = json!({ "name": found.name });
            record(&mut db, &caller, Action::DefinitionDeleted, audited(id), named).await?;
            db.commit().await?;
            Ok(StatusCode::NO_CONTENT)
        }
        Ok(false) => Err(not_found()),
        Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => Err(Problem::conflict(
            "definition_in_use",
            "conversations use this agent definition",
        )),
        Err(error) => Err(error.into()),
    }
}

/// Install the default agent definitions. Idempotent: existing ones are unchanged
#[utoipa::path(post, path = "/api/admin/projects/{p}/install-default-agents", tag = "agent definitions",
    params(InstallParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The default definitions are installed", body = Installed), Refused))]
async fn install_defaults(
    State(state): State<AppState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<InstallParams>,
) -> Result<Json<Installed>, Problem> {
    caller.in_workspace(workspace_id)?;
    let definitions = match params.set.as_deref() {
        None | Some("graph") => agents::defaults(),
        Some("databases") => agents::specialists(),
        Some("planner") => agents::planners(),
        Some(other) => {
            let detail = format!("set={other} is not known; it may be graph, databases or planner");
            return Err(Problem::bad_request("invalid_query", detail));
        }
    };
    let mut answer = Installed {
        installed: vec![],
        existing: vec![],
        items: vec![],
    };
    let mut db = caller.begin(&state).await?;
    for content in definitions {
        let item = match agents::insert(&mut db, workspace_id, &content).await? {
            Some(made) => {
                answer.installed.push(content.name);
                Some(made)
            }
            None => {
                let found = agents::find_by_name(&mut *db, workspace_id, &content.name).await?;
                answer.existing.push(content.name);
                found
            }
        };
        answer.items.extend(item.map(DefinitionBody::from));
    }
    if params.set.as_deref() == Some("planner") {
        // The types of their objects: without them they would have no tools.
        rejoin_work_graph::pack::install(&mut db, workspace_id).await?;
    }
    if !answer.installed.is_empty() {
        let (target, named) = (format!("project:{workspace_id}"), json!({ "names": answer.installed }));
        record(&mut db, &caller, Action::DefaultsInstalled, target, named).await?;
    }
    db.commit().await?;
    state.bus.publish(Wake::tools(workspace_id));
    Ok(Json(answer))
}

/// Which definitions to install.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct InstallParams {
    /// `graph` (default): the agent for the knowledge graph; `databases`: the database specialists and triage;
    /// `planner`: the planning agent and the agent that executes steps
    #[param(pattern = "^(graph|databases|planner)$")]
    set: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_say_the_same() {
        let camel = r#"{"name": "a", "systemPrompt": "p", "model": {"name": "m", "maxTokens": 5}, "flowType": "loop",
                        "isDefault": true, "maxSteps": 3, "defaultTimeout": 60, "maxDepth": 1}"#;
        let snake = r#"{"name": "a", "system_prompt": "p", "model": {"name": "m", "max_tokens": 5}, "flow_type": "loop",
                        "is_default": true, "max_steps": 3, "default_timeout": 60, "max_depth": 1}"#;
        let [camel, snake] = [camel, snake].map(|json| {
            let mut content = DefinitionContent::blank();
            serde_json::from_str::<DefinitionRequest>(json)
                .unwrap()
                .apply(&mut content);
            content
        });
        assert_eq!(camel, snake);
        assert_eq!((camel.max_steps, camel.default_timeout), (Some(3), Some(60)));
    }

    #[test]
    fn a_patch_with_null_clears_and_without_leaves() {
        let mut content = DefinitionContent {
            max_steps: Some(3),
            max_depth: Some(1),
            ..DefinitionContent::blank()
        };
        serde_json::from_str::<DefinitionRequest>(r#"{"maxSteps": null}"#)
            .unwrap()
            .apply(&mut content);
        assert_eq!((content.max_steps, content.max_depth), (None, Some(1)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        let named = DefinitionContent {
            name: "a".into(),
            ..DefinitionContent::blank()
        };
        assert!(check(&named).is_ok());
        for wrong in [
            DefinitionContent::blank(),
            DefinitionContent {
                flow_type: "zigzag".into(),
                ..named.clone()
            },
            DefinitionContent {
                visibility: "secret".into(),
                ..named.clone()
            },
            DefinitionContent {
                max_steps: Some(0),
                ..named.clone()
            },
        ] {
            assert_eq!(check(&wrong).unwrap_err().code, "invalid_agent_definition");
        }
    }
}
