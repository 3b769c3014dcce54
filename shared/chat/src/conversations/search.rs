//! Full-text search over the messages of the caller's conversations, and the language of a project's messages.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Utc};
use rejoin_http::audit::record;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Admin, Caller, Read};
use rejoin_http::extract::{Body, Limit, PageParams, Params, Segments, page};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_runs::message_search::{self, FoundMessage, PAGE_MAX, Place, QUERY_MAX_CHARS, Search, Snippet};
use rejoin_runs::messages::Role;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::state::{ChatState, Routes};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(search_messages))
        .routes(routes!(get_search_language, set_search_language))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MessageSearchParams {
    /// Words that a message contains, in any form; `"a phrase"`, `or`, and `-excluded` are understood
    #[param(min_length = 1, max_length = 500)]
    pub q: String,
    /// Search one conversation
    pub conversation_id: Option<Uuid>,
    /// Search the conversations of a folder
    pub folder_id: Option<Uuid>,
    /// `true`: search archived conversations; `false`: search those that are not. Absent: search all
    pub archived: Option<bool>,
    /// Search messages of the `user` or of the `assistant`
    #[param(pattern = "^(user|assistant)$")]
    pub role: Option<String>,
    /// Maximum number of messages in the page, at most 50
    #[param(value_type = Option<i32>, minimum = 1)]
    pub limit: Option<Limit>,
    /// `nextCursor` of the previous page
    pub cursor: Option<String>,
}

/// A found word in a snippet
#[derive(Debug, Serialize, ToSchema)]
pub struct SnippetMark {
    /// Position of its first character in `text`, in UTF-16 code units
    pub start: u32,
    /// Position after its last character, in UTF-16 code units
    pub end: u32,
}

/// Pieces of a message around the words that were found, as plain text
#[derive(Debug, Serialize, ToSchema)]
pub struct SnippetBody {
    pub text: String,
    pub marks: Vec<SnippetMark>,
}

impl From<Snippet> for SnippetBody {
    fn from(snippet: Snippet) -> Self {
        let marks = snippet.marks.into_iter().map(|mark| SnippetMark {
            start: mark.start,
            end: mark.end,
        });
        Self {
            text: snippet.text,
            marks: marks.collect(),
        }
    }
}

/// A message that was found
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageHit {
    pub message_id: Uuid,
    pub conversation_id: Uuid,
    /// The conversation's title
    pub title: String,
    /// `user` or `assistant`
    pub role: String,
    pub seq: i64,
    pub created_at: DateTime<Utc>,
    /// Higher is better; comparable within one search only
    pub rank: f64,
    pub snippet: SnippetBody,
}

impl From<FoundMessage> for MessageHit {
    fn from(found: FoundMessage) -> Self {
        Self {
            message_id: found.message_id,
            conversation_id: found.conversation_id,
            title: found.title,
            role: found.role,
            seq: found.seq,
            created_at: found.created_at,
            rank: found.rank,
            snippet: Snippet::of(&found.snippet).into(),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageHits {
    /// Best first, and of equal ones the newest first
    pub items: Vec<MessageHit>,
    pub next_cursor: Option<String>,
}

fn role(role: Option<&str>) -> Result<Option<Role>, Problem> {
    match role {
        None => Ok(None),
        Some("user") => Ok(Some(Role::User)),
        Some("assistant") => Ok(Some(Role::Assistant)),
        Some(other) => {
            let detail = format!("role={other} is not supported; use user or assistant");
            Err(Problem::bad_request("invalid_query", detail))
        }
    }
}

/// Search the messages of the caller's conversations
///
/// Words are found as they are and in other forms, by the project's language. Of very many matching messages, the newest 2,000 are ranked.
#[utoipa::path(get, path = "/api/messages/search", tag = "conversations", params(MessageSearchParams),
    responses((status = 200, description = "A page", body = MessageHits), Refused))]
async fn search_messages(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Params(params): Params<MessageSearchParams>,
) -> Result<Json<MessageHits>, Problem> {
    let text = params.q.trim();
    if text.is_empty() || text.chars().count() > QUERY_MAX_CHARS || text.contains('\0') {
        let detail = format!("q must have 1 to {QUERY_MAX_CHARS} characters and no NUL");
        return Err(Problem::bad_request("invalid_query", detail));
    }
    let search = Search {
        text,
        conversation_id: params.conversation_id,
        folder_id: params.folder_id,
        archived: params.archived,
        role: role(params.role.as_deref())?,
    };
    let paging = PageParams {
        limit: params.limit,
        cursor: params.cursor.clone(),
    };
    let limit = paging.limit(&state)?.min(PAGE_MAX);
    let after: Option<Place> = paging.after()?;
    let ranked = i32::try_from(state.settings.search_ranked).unwrap_or(i32::MAX);
    let mut db = caller.begin(&state).await?;
    let found = message_search::search(&mut db, &search, ranked, after, limit + 1).await?;
    let (items, next_cursor) = page(found, limit, |found| (found.rank, found.message_id), MessageHit::from);
    Ok(Json(MessageHits { items, next_cursor }))
}

/// The language of a project's messages
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchLanguage {
    /// Name of the language, such as `english` or `german`; `simple`: no language, words are found only as they are
    pub language: String,
    /// Languages that the database server supports
    pub available: Vec<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSearchLanguage {
    /// One of `available`
    #[schema(max_length = 63)]
    pub language: String,
}

/// Get the language of a project's messages
#[utoipa::path(get, path = "/api/admin/projects/{p}/search-language", tag = "conversations",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The language, and those that can be set", body = SearchLanguage), Refused))]
async fn get_search_language(
    State(state): State<ChatState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Json<SearchLanguage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    Ok(Json(SearchLanguage {
        language: message_search::language(&mut *db, workspace_id).await?,
        available: message_search::languages(&mut *db).await?,
    }))
}

/// Set the language of a project's messages. Workers index existing messages again, the search works meanwhile
#[utoipa::path(put, path = "/api/admin/projects/{p}/search-language", tag = "conversations", request_body = NewSearchLanguage,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "The language, and those that can be set", body = SearchLanguage), Refused, BodyRefused))]
async fn set_search_language(
    State(state): State<ChatState>,
    caller: Caller<Admin>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<NewSearchLanguage>,
) -> Result<Json<SearchLanguage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    let available = message_search::languages(&mut *db).await?;
    if !available.contains(&request.language) {
        let detail = format!("language must be one of {}", available.join(", "));
        return Err(Problem::bad_request("unknown_language", detail));
    }
    message_search::set_language(&mut db, workspace_id, &request.language).await?;
    let (target, named) = (
        format!("project:{workspace_id}"),
        json!({ "language": request.language }),
    );
    record(&mut db, &caller, Action::SearchLanguageSet, target, named).await?;
    db.commit().await?;
    Ok(Json(SearchLanguage {
        language: request.language,
        available,
    }))
}
