//! Consoles: texts that the caller and agents edit together. A save names the version that it is based on: concurrent
//! changes of an agent are merged, or the save is refused with the current text.
//!
//! - `versions` earlier versions

mod versions;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, PageParams, Params, Segments, page, present};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::visible;
use rejoin_integrations::data_sources;
use rejoin_runs::consoles::{self, Change, Console, Filter, NewConsole, Writer, Written, attached, connection};
use rejoin_types::ids;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{DataSourcesState, Routes};

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, create))
        .routes(routes!(get, update, delete))
        .merge(versions::routes())
        .routes(routes!(pin))
}

/// A console as it is now.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleBody {
    pub id: Uuid,
    /// The conversation in which it was created, or first attached
    pub conversation_id: Option<Uuid>,
    pub title: String,
    pub content: String,
    /// Version number, incremented by each change of `content`
    pub version: i32,
    /// Kind of its database: `postgresql`, `mongodb`, …
    pub kind: Option<String>,
    /// The data source that it runs on
    pub data_source_id: Option<Uuid>,
    pub database: Option<String>,
    /// Metadata of clients, and `lastQuery`. For a single console, not in lists, also its connection: `databaseId`,
    /// `databaseType`, `databaseName`, `connectionDetails` {projectId, datasetId, database}, and `cachedSchema`
    /// {timestamp, schema} of the tables that its text mentions
    #[schema(value_type = Object)]
    pub metadata: Value,
    /// Not saved by the user: deleted after a time without changes
    pub is_temporary: bool,
    /// `user` or `agent`: who last changed `content`
    pub last_modified_by: String,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

impl From<Console> for ConsoleBody {
    fn from(console: Console) -> Self {
        Self {
            id: console.id,
            conversation_id: console.conversation_id,
            title: console.title,
            content: console.content,
            version: console.version,
            kind: console.kind,
            data_source_id: console.data_source_id,
            database: console.database,
            metadata: console.metadata,
            is_temporary: console.is_temporary,
            last_modified_by: console.modified_by,
            created_at: console.created_at,
            updated_at: console.updated_at,
        }
    }
}

/// The console that a conversation works on.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttachedConsole {
    pub id: Uuid,
    pub title: String,
    pub content: String,
    pub version: i32,
    /// The data source that it runs on
    pub database_id: Option<Uuid>,
    pub is_temporary: bool,
}

impl From<Console> for AttachedConsole {
    fn from(console: Console) -> Self {
        Self {
            id: console.id,
            title: console.title,
            content: console.content,
            version: console.version,
            database_id: console.data_source_id,
            is_temporary: console.is_temporary,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsolePage {
    pub items: Vec<ConsoleBody>,
    pub next_cursor: Option<String>,
}

/// The result of saving a console, with merged changes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedConsole {
    #[serde(flatten)]
    pub console: ConsoleBody,
    /// `content` includes changes that others made meanwhile
    pub merged: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ConsoleParams {
    /// Only consoles of this conversation
    pub conversation_id: Option<Uuid>,
    /// Only consoles that contain this text in title or content
    pub q: Option<String>,
}

/// A new console
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewConsoleBody {
    /// An id chosen by the client, a UUID; creating it twice returns 409
    pub id: Option<Uuid>,
    #[schema(pattern = r"\S", max_length = 200)]
    pub title: String,
    #[serde(default)]
    pub content: String,
    pub kind: Option<String>,
    pub data_source_id: Option<Uuid>,
    pub database: Option<String>,
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    #[serde(default)]
    pub is_temporary: bool,
    /// The conversation that it belongs to
    pub conversation_id: Option<Uuid>,
}

/// Fields to change
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConsolePatch {
    /// Requires `version`
    pub content: Option<String>,
    /// The version that `content` is based on
    pub version: Option<i32>,
    #[schema(pattern = r"\S", max_length = 200)]
    pub title: Option<String>,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub kind: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Uuid>)]
    pub data_source_id: Option<Option<Uuid>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub database: Option<Option<String>>,
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Value>,
    /// False: keep it until it is deleted
    pub is_temporary: Option<bool>,
}

/// The console that a conversation shall work on
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PinRequest {
    /// Null: none
    #[serde(deserialize_with = "Option::deserialize")]
    pub console_id: Option<Uuid>,
}

fn not_found() -> Problem {
    Problem::not_found("console_not_found", "The console")
}

fn invalid(fault: impl Into<String>) -> Problem {
    Problem::bad_request("invalid_console", fault)
}

fn check_metadata(metadata: Option<&Value>) -> Result<(), Problem> {
    if metadata.is_some_and(|metadata| !metadata.is_object()) {
        Err(invalid("metadata must be an object"))
    } else {
        Ok(())
    }
}

/// Err: the project has no such data source.
async fn check_source(state: &DataSourcesState, caller: &Caller, id: Option<Uuid>) -> Result<(), Problem> {
    let Some(id) = id else { return Ok(()) };
    let mut db = caller.begin(state).await?;
    match data_sources::get(&mut *db, caller.workspace_id, id).await? {
        Some(_) => Ok(()),
        None => Err(invalid(format!("the project has no data source {id}"))),
    }
}

/// List the caller's consoles, most recently changed first
#[utoipa::path(get, path = "/api/consoles", tag = "consoles", params(PageParams, ConsoleParams),
    responses((status = 200, description = "A page", body = ConsolePage), Refused))]
async fn list(
    State(state): State<DataSourcesState>,
    caller: Caller<Read>,
    Params(params): Params<PageParams>,
    Params(filter): Params<ConsoleParams>,
) -> Result<Json<ConsolePage>, Problem> {
    let limit = params.limit(&state)?;
    let filter = Filter {
        conversation_id: filter.conversation_id,
        words: filter.q.as_deref(),
    };
    let mut db = caller.begin(&state).await?;
    let rows = consoles::list(&mut *db, caller.owner(), filter, params.after()?, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| (row.updated_at, row.id), ConsoleBody::from);
    Ok(Json(ConsolePage { items, next_cursor }))
}

/// Create a console
#[utoipa::path(post, path = "/api/consoles", tag = "consoles", request_body = NewConsoleBody,
    responses((status = 201, description = "Made", body = ConsoleBody),
        (status = 409, description = "A console with this id exists or existed", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn create(
    State(state): State<DataSourcesState>,
    caller: Caller<Write>,
    Body(request): Body<NewConsoleBody>,
) -> Result<(StatusCode, [(axum::http::HeaderName, String); 1], Json<ConsoleBody>), Problem> {
    check_metadata(request.metadata.as_ref())?;
    if let Some(conversation) = request.conversation_id {
        visible::conversation(&state, &caller, conversation).await?;
    }
    let new = NewConsole {
        title: request.title,
        content: request.content,
        kind: request.kind,
        data_source_id: request.data_source_id,
        database: request.database,
        metadata: request.metadata,
        is_temporary: request.is_temporary,
        conversation_id: request.conversation_id,
    };
    new.check().map_err(invalid)?;
    check_source(&state, &caller, new.data_source_id).await?;
    let id = request.id.unwrap_or_else(ids::new);
    let mut tx = caller.begin(&state).await?;
    if !consoles::insert(&mut tx, caller.owner(), id, &new, Writer::User).await? {
        return Err(Problem::conflict(
            "console_id_taken",
            "a console with this id already exists, or existed",
        ));
    }
    let made = consoles::get(&mut *tx, caller.owner(), id)
        .await?
        .ok_or_else(Problem::internal)?;
    tx.commit().await?;
    let location = [(LOCATION, format!("/api/consoles/{id}"))];
    Ok((StatusCode::CREATED, location, Json(made.into())))
}

/// Get a console
#[utoipa::path(get, path = "/api/consoles/{id}", tag = "consoles",
    params(("id" = Uuid, Path, description = "The console")),
    responses((status = 200, description = "It", body = ConsoleBody), Refused))]
async fn get(
    State(state): State<DataSourcesState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Json<ConsoleBody>, Problem> {
    let mut db = caller.begin(&state).await?;
    let mut found = consoles::get(&mut *db, caller.owner(), id)
        .await?
        .ok_or_else(not_found)?;
    found.metadata = connection::metadata(&mut db, caller.workspace_id, &found).await?;
    Ok(Json(found.into()))
}

/// Save or update a console
///
/// `content` is saved as a new version. If others have changed the console since `version`, both changes are merged; if
/// they changed the same lines, nothing is saved, and 409 `console_conflict` returns the current console as `current`.
#[utoipa::path(patch, path = "/api/consoles/{id}", tag = "consoles", request_body = ConsolePatch,
    params(("id" = Uuid, Path, description = "The console")),
    responses((status = 200, description = "The updated console", body = SavedConsole),
        (status = 409, description = "Others have changed the same lines", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn update(
    State(state): State<DataSourcesState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Body(patch): Body<ConsolePatch>,
) -> Result<Json<SavedConsole>, Problem> {
    check_metadata(patch.metadata.as_ref())?;
    if let Some(title) = &patch.title {
        consoles::check_title(title).map_err(invalid)?;
    }
    check_source(&state, &caller, patch.data_source_id.flatten()).await?;
    let text = match (patch.content, patch.version) {
        (Some(content), Some(version)) => Some((content, version)),
        (Some(_), None) => return Err(invalid("content requires version, the version that it is based on")),
        (None, _) => None,
    };
    let change = Change {
        title: patch.title,
        kind: patch.kind,
        data_source_id: patch.data_source_id,
        database: patch.database,
        metadata: patch.metadata,
        is_temporary: patch.is_temporary,
    };
    let mut tx = caller.begin(&state).await?;
    let mut merged = false;
    if let Some((content, version)) = text {
        let written = consoles::write(&mut tx, caller.owner(), id, Some(version), Writer::User, |_| {
            Ok(content)
        })
        .await?;
        match written {
            Written::Done {
                merged: with_others, ..
            } => merged = with_others,
            Written::Conflict(now) => {
                let detail = "others have changed the same lines since that version; merge both changes and save again";
                let problem = Problem::conflict("console_conflict", detail);
                return Err(problem.with("current", json!(ConsoleBody::from(now))));
            }
            Written::Refused(fault) => return Err(invalid(fault)),
            Written::NotFound => return Err(not_found()),
        }
    }
    let changed = consoles::change(&mut tx, caller.owner(), id, &change).await?;
    let console = changed.ok_or_else(not_found)?.into();
    tx.commit().await?;
    Ok(Json(SavedConsole { console, merged }))
}

/// Delete a console. Later saves do not restore it
#[utoipa::path(delete, path = "/api/consoles/{id}", tag = "consoles",
    params(("id" = Uuid, Path, description = "The console")),
    responses((status = 204, description = "Gone"), Refused))]
async fn delete(
    State(state): State<DataSourcesState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    let mut tx = caller.begin(&state).await?;
    if !consoles::delete(&mut tx, caller.owner(), id).await? {
        return Err(not_found());
    }
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Set the console that a conversation works on
#[utoipa::path(put, path = "/api/conversations/{id}/console", tag = "consoles", request_body = PinRequest,
    params(("id" = Uuid, Path, description = "The conversation")),
    responses((status = 204, description = "The conversation works on the console"), Refused, BodyRefused))]
async fn pin(
    State(state): State<DataSourcesState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Body(request): Body<PinRequest>,
) -> Result<StatusCode, Problem> {
    visible::conversation(&state, &caller, id).await?;
    let mut tx = caller.begin(&state).await?;
    if !attached::pin(&mut tx, caller.owner(), id, request.console_id).await? {
        return Err(not_found());
    }
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
