//! Folders of the caller's conversations.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_runs::folders::{self, Folder, NAME_MAX_CHARS, Saved};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{ChatState, Routes};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list_folders, create_folder))
        .routes(routes!(rename_folder, delete_folder))
}

/// A folder of conversations
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ConversationFolder)]
pub struct FolderBody {
    pub id: Uuid,
    pub name: String,
    /// Number of its conversations that are not archived
    pub conversations: i64,
    pub created_at: DateTime<Utc>,
}

impl From<Folder> for FolderBody {
    fn from(folder: Folder) -> Self {
        Self {
            id: folder.id,
            name: folder.name,
            conversations: folder.conversations,
            created_at: folder.created_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ConversationFolders)]
pub struct FolderList {
    /// By name
    pub items: Vec<FolderBody>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ConversationFolderName)]
pub struct FolderRequest {
    #[schema(pattern = r"\S", max_length = 100)]
    pub name: String,
}

impl FolderRequest {
    fn name(&self) -> Result<&str, Problem> {
        let name = self.name.trim();
        if name.is_empty() || name.chars().count() > NAME_MAX_CHARS || name.contains('\0') {
            let detail = format!("name must have 1 to {NAME_MAX_CHARS} characters and no NUL");
            return Err(Problem::bad_request("invalid_name", detail));
        }
        Ok(name)
    }
}

pub(super) fn folder_not_found() -> Problem {
    Problem::not_found("folder_not_found", "The folder")
}

fn saved(saved: Saved, name: &str, max: u32) -> Result<FolderBody, Problem> {
    match saved {
        Saved::Done(folder) => Ok(folder.into()),
        Saved::NameTaken => Err(Problem::conflict(
            "name_taken",
            format!("you already have a folder named {name}"),
        )),
        Saved::Full => Err(Problem::conflict(
            "too_many_folders",
            format!("you have {max} folders, the maximum; delete one first"),
        )),
        Saved::NotFound => Err(folder_not_found()),
    }
}

/// List the caller's conversation folders, by name
#[utoipa::path(get, path = "/api/conversation-folders", tag = "conversations",
    responses((status = 200, description = "All of them", body = FolderList), Refused))]
async fn list_folders(State(state): State<ChatState>, caller: Caller<Read>) -> Result<Json<FolderList>, Problem> {
    let mut db = caller.begin(&state).await?;
    let found = folders::list(&mut *db, caller.owner()).await?;
    Ok(Json(FolderList {
        items: found.into_iter().map(FolderBody::from).collect(),
    }))
}

/// Create a conversation folder
#[utoipa::path(post, path = "/api/conversation-folders", tag = "conversations", request_body = FolderRequest,
    responses((status = 201, description = "Made", body = FolderBody),
        (status = 409, description = "The name is taken, or there are too many folders", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused, BodyRefused))]
async fn create_folder(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Body(request): Body<FolderRequest>,
) -> Result<(StatusCode, Json<FolderBody>), Problem> {
    let (name, max) = (request.name()?, state.settings.max_conversation_folders);
    let mut db = caller.begin(&state).await?;
    let made = folders::create(&mut db, caller.owner(), name, i64::from(max)).await?;
    let body = saved(made, name, max)?;
    db.commit().await?;
    Ok((StatusCode::CREATED, Json(body)))
}

/// Rename a conversation folder
#[utoipa::path(patch, path = "/api/conversation-folders/{id}", tag = "conversations", request_body = FolderRequest,
    params(("id" = Uuid, Path, description = "The folder")),
    responses((status = 200, description = "The renamed folder", body = FolderBody),
        (status = 409, description = "The name is taken", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"), Refused, BodyRefused))]
async fn rename_folder(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
    Body(request): Body<FolderRequest>,
) -> Result<Json<FolderBody>, Problem> {
    let (name, max) = (request.name()?, state.settings.max_conversation_folders);
    let mut db = caller.begin(&state).await?;
    let renamed = folders::rename(&mut db, caller.owner(), id, name).await?;
    let body = saved(renamed, name, max)?;
    db.commit().await?;
    Ok(Json(body))
}

/// Delete a conversation folder. Its conversations stay, in no folder
#[utoipa::path(delete, path = "/api/conversation-folders/{id}", tag = "conversations",
    params(("id" = Uuid, Path, description = "The folder")),
    responses((status = 204, description = "Gone"), Refused))]
async fn delete_folder(
    State(state): State<ChatState>,
    caller: Caller<Write>,
    Segments(id): Segments<Uuid>,
) -> Result<StatusCode, Problem> {
    let mut db = caller.begin(&state).await?;
    if !folders::delete(&mut db, caller.owner(), id).await? {
        return Err(folder_not_found());
    }
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
