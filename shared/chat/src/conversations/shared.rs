//! A shared conversation, for readers without a key: the token in the path is their right. Their transactions have the scope `Reader`, under
//! which row-level security shows what the link shows, whatever a handler asks for.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::{Extension, Json};
use chrono::{DateTime, Utc};
use rejoin_db::{Db, rls};
use rejoin_http::authorization::{Public, routes};
use rejoin_http::extract::{PageParams, Params, Segments, page};
use rejoin_http::problem::{Problem, ProblemBody};
use rejoin_http::rate_limit::ReportedLimit;
use rejoin_identity::auth::hash_secret;
use rejoin_runs::messages::ChatMessage;
use rejoin_runs::shares::{self, Shared};
use rejoin_types::file_ref::FileRef;
use serde::Serialize;
use serde_json::Value;
use sqlx::{Postgres, Transaction};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::files::downloads;
use crate::state::{ChatState, Routes};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(get_shared))
        .routes(routes!(list_shared_messages))
        .routes(routes!(download_shared_file))
}

/// A shared conversation
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedConversation {
    pub title: String,
    /// Whether messages that come later are shown, too
    pub live: bool,
    /// Whether files of the messages can be downloaded
    pub files: bool,
    /// When it was shared
    pub shared_at: DateTime<Utc>,
    /// When the link stops working
    pub expires_at: DateTime<Utc>,
}

/// A file of a shared message
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedFile {
    pub id: Uuid,
    pub name: String,
    pub media_type: String,
    pub size_bytes: i64,
}

impl From<FileRef> for SharedFile {
    fn from(file: FileRef) -> Self {
        Self {
            id: file.file_id,
            name: file.name,
            media_type: file.media_type,
            size_bytes: file.size_bytes,
        }
    }
}

/// A message of a shared conversation
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedMessage {
    pub id: Uuid,
    /// `user` or `assistant`
    pub role: String,
    pub content: String,
    pub citations: Option<Value>,
    /// Its files, if the link includes files
    pub files: Vec<SharedFile>,
    pub seq: i64,
    pub created_at: DateTime<Utc>,
}

impl SharedMessage {
    fn of(message: ChatMessage, includes_files: bool) -> Self {
        let files = rejoin_files::of_metadata(&message.metadata).into_iter();
        Self {
            files: files.filter(|_| includes_files).map(SharedFile::from).collect(),
            id: message.id,
            role: message.role,
            content: message.content,
            citations: message.citations,
            seq: message.seq,
            created_at: message.created_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedMessages {
    pub items: Vec<SharedMessage>,
    pub next_cursor: Option<String>,
}

/// A link that a reader has opened.
struct Opened {
    scope: rls::Scope,
    /// In the reader's scope.
    db: Transaction<'static, Postgres>,
    shared: Shared,
}

/// Returns the workspace of a link's token. None: this database does not know it.
pub async fn workspace_of_link(db: &Db, token: &str) -> Result<Option<Uuid>, sqlx::Error> {
    let Ok(hash) = hash_secret(token).try_into() else {
        return Ok(None);
    };
    let mut tx = rls::begin(&db.pool_sqlx, rls::Scope::Reader(hash)).await?;
    shares::workspace(&mut tx).await
}

/// Opens the link of a token, and counts the request.
async fn open(state: &ChatState, reported: &ReportedLimit, token: &str) -> Result<Opened, Problem> {
    let hash: [u8; 32] = hash_secret(token).try_into().map_err(|_| Problem::internal())?;
    let scope = rls::Scope::Reader(hash);
    let mut db = rls::begin(&state.db.pool_sqlx, scope).await?;
    let found = shares::open(&mut db).await?;
    let counted_for = found.as_ref().map_or(Uuid::nil(), |shared| shared.share_id);
    let (rate, counted) = state.rates.count_share(counted_for);
    reported.report(rate);
    counted?;
    let shared = found.ok_or_else(|| Problem::not_found("share_not_found", "The shared conversation"))?;
    Ok(Opened { scope, db, shared })
}

/// Get a shared conversation
///
/// The token is the secret: no key is needed.
#[utoipa::path(get, path = "/api/shared/{token}", tag = "sharing",
    params(("token" = String, Path, description = "The link's token")),
    responses((status = 200, description = "The conversation", body = SharedConversation),
        (status = 404, description = "There is no such link, or it is expired or revoked", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "Requested too often", body = ProblemBody, content_type = "application/problem+json")))]
async fn get_shared(
    State(state): State<ChatState>,
    _: Public,
    Extension(reported): Extension<ReportedLimit>,
    Segments(token): Segments<String>,
) -> Result<Json<SharedConversation>, Problem> {
    let Opened { db, shared, .. } = open(&state, &reported, &token).await?;
    // It records that the link was opened.
    db.commit().await?;
    Ok(Json(SharedConversation {
        title: shared.title,
        live: shared.through_seq.is_none(),
        files: shared.includes_files,
        shared_at: shared.created_at,
        expires_at: shared.expires_at,
    }))
}

/// List the messages of a shared conversation, in order
#[utoipa::path(get, path = "/api/shared/{token}/messages", tag = "sharing",
    params(PageParams, ("token" = String, Path, description = "The link's token")),
    responses((status = 200, description = "A page", body = SharedMessages),
        (status = 404, description = "There is no such link, or it is expired or revoked", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "Requested too often", body = ProblemBody, content_type = "application/problem+json")))]
async fn list_shared_messages(
    State(state): State<ChatState>,
    _: Public,
    Extension(reported): Extension<ReportedLimit>,
    Segments(token): Segments<String>,
    Params(params): Params<PageParams>,
) -> Result<Json<SharedMessages>, Problem> {
    let limit = params.limit(&state)?;
    let after = params.after()?.unwrap_or(0);
    let Opened { mut db, shared, .. } = open(&state, &reported, &token).await?;
    let rows = shares::messages(&mut *db, shared.conversation_id, after, limit + 1).await?;
    db.commit().await?;
    let of = |row| SharedMessage::of(row, shared.includes_files);
    let (items, next_cursor) = page(rows, limit, |row| row.seq, of);
    Ok(Json(SharedMessages { items, next_cursor }))
}

/// Download a file of a shared conversation, byte for byte
#[utoipa::path(get, path = "/api/shared/{token}/files/{id}", tag = "sharing",
    params(("token" = String, Path, description = "The link's token"), ("id" = Uuid, Path, description = "The file")),
    responses((status = 200, description = "The content, as a download", body = String, content_type = "application/octet-stream"),
        (status = 206, description = "The requested range", body = String, content_type = "application/octet-stream"),
        (status = 404, description = "There is no such link or file, or the link does not include files", body = ProblemBody, content_type = "application/problem+json"),
        (status = 416, description = "The range is not satisfiable", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "Requested too often", body = ProblemBody, content_type = "application/problem+json")))]
async fn download_shared_file(
    State(state): State<ChatState>,
    _: Public,
    Extension(reported): Extension<ReportedLimit>,
    Segments((token, id)): Segments<(String, Uuid)>,
    asked: HeaderMap,
) -> Result<Response, Problem> {
    let Opened { scope, mut db, shared } = open(&state, &reported, &token).await?;
    let file = rejoin_files::get(&mut *db, shared.workspace_id, id).await?;
    db.commit().await?;
    let file = file.ok_or_else(|| Problem::not_found("file_not_found", "The file"))?;
    downloads::sent(state, scope, file, &asked).await
}
