//! `/api/files`: callers' uploads, and files made for them by tools.
//!
//! - `uploads`   receives a file
//! - `downloads` sends a file
//!
//! A file is streamed to and from its store, the database or an object store, piece by piece: none is held as a whole.

pub(crate) mod downloads;
pub mod uploads;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_files::File;
use rejoin_files::types::{self, Class};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{PageParams, Params, Segments, page};
use rejoin_http::problem::{Problem, Refused};
use rejoin_types::digest::hex;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{ChatState, Routes};

pub const PATH: &str = "/api/files";

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(uploads::create, list))
        .routes(routes!(get, delete))
        .routes(routes!(downloads::content))
}

/// A file
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = File)]
pub struct FileBody {
    pub id: Uuid,
    pub name: String,
    /// Detected from its content
    pub media_type: String,
    /// How models read it: `image`, `pdf`, `audio` or `text`. Null: they cannot
    pub kind: Option<&'static str>,
    pub size_bytes: i64,
    /// In hexadecimal digits
    pub sha256: String,
    /// URL of its content
    pub content_url: String,
    /// The run whose tool created it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Uuid>,
    pub created_at: DateTime<Utc>,
}

impl From<File> for FileBody {
    fn from(file: File) -> Self {
        Self {
            kind: types::class_of(&file.media_type).map(|class| match class {
                Class::Image => "image",
                Class::Pdf => "pdf",
                Class::Audio => "audio",
                Class::Text => "text",
            }),
            content_url: rejoin_types::file_ref::content_path(file.id),
            id: file.id,
            sha256: hex(&file.sha256),
            name: file.name,
            media_type: file.media_type,
            size_bytes: file.size_bytes,
            run_id: file.run_id,
            created_at: file.created_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilePage {
    pub items: Vec<FileBody>,
    pub next_cursor: Option<String>,
}

fn not_found() -> Problem {
    Problem::not_found("file_not_found", "The file")
}

/// List the caller's files, newest first
#[utoipa::path(get, path = PATH, tag = "files", params(PageParams),
    responses((status = 200, description = "A page", body = FilePage), Refused))]
async fn list(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Params(params): Params<PageParams>,
) -> Result<Json<FilePage>, Problem> {
    let limit = params.limit(&state)?;
    let mut db = caller.begin(&state).await?;
    let rows = rejoin_files::list(&mut *db, caller.owner(), params.after()?, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| (row.created_at, row.id), FileBody::from);
    Ok(Json(FilePage { items, next_cursor }))
}

/// Get a file's metadata
#[utoipa::path(get, path = "/api/files/{id}", tag = "files", params(("id" = Uuid, Path, description = "The file")),
    responses((status = 200, description = "The file", body = FileBody), Refused))]
async fn get(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments(id): Segments<Uuid>,
) -> Result<Json<FileBody>, Problem> {
    Ok(Json(visible(&state, &caller, id).await?.into()))
}

async fn visible(state: &ChatState, caller: &Caller, id: Uuid) -> Result<File, Problem> {
    let mut db = caller.begin(state).await?;
    rejoin_files::get(&mut *db, caller.workspace_id, id)
        .await?
        .ok_or_else(not_found)
}

/// Delete a file. Messages keep its name; models see a note that it was deleted
#[utoipa::path(delete, path = "/api/files/{id}", tag = "files", params(("id" = Uuid, Path, description = "The file")),
    responses((status = 204, description = "Deleted"), Refused))]
async fn delete(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    let mut db = caller.begin(&state).await?;
    let deleted = rejoin_files::delete(&mut db, caller.owner(), id).await?;
    db.commit().await?;
    if deleted {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(not_found())
    }
}
