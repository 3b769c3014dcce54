//! `/api/projects/{p}/data-sources`: external databases that the project's users and agents may query. Callers with
//! read access may list and query; admins add, change and remove.
//!
//! - `bodies`  request and response bodies
//! - `queries` reads of a source
//! - `join`    joins several sources
//!
//! Invariant: no transaction of Rejoin's own database is open during a query to a source.

mod bodies;
mod join;
mod queries;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::{HeaderName, header::LOCATION};
use rejoin_event_log::wakeup::Wake;
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller, Read};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_integrations::data_sources::{self, Content, DataSource, Secret};
use rejoin_secrets::Plaintext;
use rejoin_secrets::envelope::Sealed;
use serde_json::json;
use uuid::Uuid;

use self::bodies::{DataSourceBody, DataSourceRequest, DataSources, ForceParams, TestedBody, problem};
use super::{DataSourcesState, Routes};
use crate::SourceError;
use crate::source::Tested;

/// Timeout of a query to a source: less than a request's.
const ASK_LIMIT: Duration = Duration::from_secs(20);

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(get, change, delete))
        .routes(routes!(test))
        .merge(queries::routes())
        .routes(routes!(join::join))
}

fn not_found() -> Problem {
    Problem::not_found("data_source_not_found", "The data source")
}

fn name_taken(name: &str) -> Problem {
    Problem::conflict(
        "data_source_name_taken",
        format!("a data source named {name} already exists"),
    )
}

async fn find(state: &DataSourcesState, caller: &Caller, workspace_id: Uuid, id: Uuid) -> Result<DataSource, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(state).await?;
    data_sources::get(&mut *db, workspace_id, id)
        .await?
        .ok_or_else(not_found)
}

/// Encrypts the secret in a request.
fn sealed(
    state: &DataSourcesState,
    workspace_id: Uuid,
    id: Uuid,
    secret: Option<&str>,
) -> Result<Option<Sealed>, Problem> {
    let Some(secret) = secret else { return Ok(None) };
    let keys = state.sources.keys().map_err(problem)?;
    data_sources::seal(keys, workspace_id, id, &Plaintext::new(secret.as_bytes().to_vec()))
        .map(Some)
        .map_err(|error| Problem::bad_request("invalid_data_source", error.to_string()))
}

/// Err: it does not respond, and is not to be saved anyway.
fn must_answer(tested: &Result<Tested, SourceError>, force: bool) -> Result<(), Problem> {
    match tested {
        Err(error) if !force => {
            let detail = format!("{error}. (`?force=true` saves it anyway)");
            Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "data_source_does_not_answer",
                detail,
            ))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn failure(tested: &Result<Tested, SourceError>) -> Option<String> {
    tested.as_ref().err().map(SourceError::to_string)
}

/// List the project's data sources
#[utoipa::path(get, path = "/api/projects/{p}/data-sources", tag = "data sources",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "All data sources, by name", body = DataSources), Refused))]
async fn list(
    State(state): State<DataSourcesState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<DataSources>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let sources = data_sources::list(&mut *db, workspace_id).await?;
    let items = sources.into_iter().map(DataSourceBody::from).collect();
    Ok(Json(DataSources { items }))
}

/// Create a data source (admin)
///
/// The connection is tested first. If the test fails, the source is not saved unless `force` is true.
#[utoipa::path(post, path = "/api/projects/{p}/data-sources", tag = "data sources", request_body = DataSourceRequest,
    params(ForceParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 201, description = "Added", body = DataSourceBody, headers(("Location" = String, description = "URL \
        of the data source"))),
        (status = 409, description = "The name is taken, or there are too many", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "It does not respond", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn create(
    State(state): State<DataSourcesState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<ForceParams>,
    Body(request): Body<DataSourceRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<DataSourceBody>), Problem> {
    caller.in_workspace(workspace_id)?;
    let content = request.apply_to(None)?;
    let secret = request.secret.flatten();
    let id = data_sources::new_id();
    let sealed = sealed(&state, workspace_id, id, secret.as_deref())?;
    let tested = tried(&state, workspace_id, &content, secret).await;
    must_answer(&tested, params.force)?;
    let mut db = caller.begin(&state).await?;
    if data_sources::count(&mut *db, workspace_id).await? >= data_sources::MAX_SOURCES {
        let detail = format!("a project can have at most {} data sources", data_sources::MAX_SOURCES);
        return Err(Problem::conflict("too_many_data_sources", detail));
    }
    let owner = Some(caller.user_id);
    let source = data_sources::create(&mut db, id, workspace_id, owner, &content, sealed.as_ref())
        .await?
        .ok_or_else(|| name_taken(&content.name))?;
    data_sources::tested(&mut *db, workspace_id, id, failure(&tested).as_deref()).await?;
    let source = data_sources::get(&mut *db, workspace_id, id).await?.unwrap_or(source);
    let (target, detail) = (format!("data_source:{id}"), audit_detail(&content));
    record(&mut db, &caller, Action::DataSourceCreated, target, detail).await?;
    db.commit().await?;
    state.bus.publish(Wake::tools(workspace_id));
    let location = format!("/api/projects/{workspace_id}/data-sources/{id}");
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(source.into())))
}

/// Returns the details of a source for the audit log.
fn audit_detail(content: &Content) -> serde_json::Value {
    json!({ "name": content.name, "kind": content.kind, "readOnly": content.read_only })
}

async fn tried(
    state: &DataSourcesState,
    workspace_id: Uuid,
    content: &Content,
    secret: Option<String>,
) -> Result<Tested, SourceError> {
    let secret = secret.map(|secret| Plaintext::new(secret.into_bytes()));
    state.sources.opened(workspace_id, content, secret)?.test().await
}

/// Get a data source
#[utoipa::path(get, path = "/api/projects/{p}/data-sources/{id}", tag = "data sources",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The data source")),
    responses((status = 200, description = "It", body = DataSourceBody), Refused))]
async fn get(
    State(state): State<DataSourcesState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<DataSourceBody>, Problem> {
    Ok(Json(find(&state, &caller, workspace_id, id).await?.into()))
}

/// Update a data source (admin)
///
/// The connection is tested first, as for a new one. If the connection settings change, the secret must be given again,
/// so that it cannot be sent to another server.
#[utoipa::path(patch, path = "/api/projects/{p}/data-sources/{id}", tag = "data sources", request_body = DataSourceRequest,
    params(ForceParams, ("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The data source")),
    responses((status = 200, description = "The updated data source", body = DataSourceBody),
        (status = 409, description = "The name is taken", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "It does not respond", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn change(
    State(state): State<DataSourcesState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Params(params): Params<ForceParams>,
    Body(request): Body<DataSourceRequest>,
) -> Result<Json<DataSourceBody>, Problem> {
    let before = find(&state, &caller, workspace_id, id).await?;
    let content = request.apply_to(Some(&before.content))?;
    let moves = content.settings != before.content.settings;
    if moves && before.has_secret && request.secret.is_none() {
        let detail = "the connection settings changed, so pass `secret` again, or null if there is none";
        return Err(Problem::bad_request("secret_needed", detail));
    }
    let secret = match &request.secret {
        None => Secret::Kept,
        Some(None) => Secret::Removed,
        Some(Some(secret)) => match sealed(&state, workspace_id, id, Some(secret))? {
            Some(sealed) => Secret::Set(sealed),
            None => Secret::Removed,
        },
    };
    let tested = match request.secret {
        // Its connection is unchanged.
        None if !moves => None,
        secret => Some(tried(&state, workspace_id, &content, secret.flatten()).await),
    };
    if let Some(tested) = &tested {
        must_answer(tested, params.force)?;
    }
    let mut db = caller.begin(&state).await?;
    let source = data_sources::update(&mut db, workspace_id, id, &content, &secret).await?;
    let Some(mut source) = source else {
        return match data_sources::get(&mut *db, workspace_id, id).await? {
            Some(_) => Err(name_taken(&content.name)),
            None => Err(not_found()),
        };
    };
    if let Some(tested) = &tested {
        data_sources::tested(&mut *db, workspace_id, id, failure(tested).as_deref()).await?;
        source = data_sources::get(&mut *db, workspace_id, id).await?.unwrap_or(source);
    }
    let (target, detail) = (format!("data_source:{id}"), audit_detail(&content));
    record(&mut db, &caller, Action::DataSourceChanged, target, detail).await?;
    db.commit().await?;
    state.bus.publish(Wake::tools(workspace_id));
    Ok(Json(source.into()))
}

/// Delete a data source (admin)
#[utoipa::path(delete, path = "/api/projects/{p}/data-sources/{id}", tag = "data sources",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The data source")),
    responses((status = 204, description = "Gone"), Refused))]
async fn delete(
    State(state): State<DataSourcesState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    if !data_sources::delete(&mut db, workspace_id, id).await? {
        return Err(not_found());
    }
    let target = format!("data_source:{id}");
    record(&mut db, &caller, Action::DataSourceDeleted, target, json!({})).await?;
    db.commit().await?;
    state.bus.publish(Wake::tools(workspace_id));
    Ok(StatusCode::NO_CONTENT)
}

/// Test the connection of a data source (admin)
#[utoipa::path(post, path = "/api/projects/{p}/data-sources/{id}/test", tag = "data sources",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The data source")),
    responses((status = 200, description = "The result of the test: `ok` tells whether it responds", body = TestedBody), Refused))]
async fn test(
    State(state): State<DataSourcesState>,
    caller: Caller<Admin>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<TestedBody>, Problem> {
    let source = find(&state, &caller, workspace_id, id).await?;
    let tested = match state
        .sources
        .open(&state.db.pool_sqlx, caller.rls_scope(), &source)
        .await
    {
        Ok(opened) => opened.test().await,
        Err(error) => Err(error),
    };
    let mut db = caller.begin(&state).await?;
    data_sources::tested(&mut *db, workspace_id, id, failure(&tested).as_deref()).await?;
    db.commit().await?;
    Ok(Json(TestedBody::of(&tested)))
}
