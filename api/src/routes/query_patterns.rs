//! Queries learned from the caller's questions: list, and delete one.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{PageParams, Params, Segments, page};
use rejoin_http::problem::{Problem, Refused};
use rejoin_integrations::query_patterns::{self, Learned};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::state::{AppState, Routes};

pub fn routes() -> Routes {
    Routes::new().routes(routes!(list)).routes(routes!(forget))
}

/// A query that answered one of the caller's questions
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueryPatternBody {
    pub id: Uuid,
    pub data_source_id: Uuid,
    /// The database; null: the source's default
    pub database: Option<String>,
    /// The conversation; deleting it deletes the query as well
    pub conversation_id: Option<Uuid>,
    /// The question
    pub asked: String,
    pub query: String,
    /// The query without values and comments, which other members' agents may see
    pub pattern: String,
    /// Number of runs in which it was the last successful query
    pub times: i32,
    pub learned_at: DateTime<Utc>,
}

impl From<Learned> for QueryPatternBody {
    fn from(learned: Learned) -> Self {
        Self {
            id: learned.id,
            data_source_id: learned.data_source_id,
            database: Some(learned.database).filter(|database| !database.is_empty()),
            conversation_id: learned.conversation_id,
            asked: learned.asked,
            query: learned.query,
            pattern: learned.pattern,
            times: learned.times,
            learned_at: learned.learned_at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueryPatternPage {
    pub items: Vec<QueryPatternBody>,
    pub next_cursor: Option<String>,
}

/// List the queries learned from the caller's questions, newest first
#[utoipa::path(get, path = "/api/projects/{p}/query-patterns", tag = "query patterns",
    params(PageParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "A page", body = QueryPatternPage), Refused))]
async fn list(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<PageParams>,
) -> Result<Json<QueryPatternPage>, Problem> {
    caller.in_workspace(workspace_id)?;
    let limit = params.limit(&state)?;
    let mut db = caller.begin(&state).await?;
    let rows = query_patterns::list(&mut *db, caller.owner(), params.after()?, limit + 1).await?;
    let (items, next_cursor) = page(rows, limit, |row| (row.learned_at, row.id), QueryPatternBody::from);
    Ok(Json(QueryPatternPage { items, next_cursor }))
}

/// Delete a learned query, so that no agent sees it
#[utoipa::path(delete, path = "/api/projects/{p}/query-patterns/{id}", tag = "query patterns",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The query")),
    responses((status = 204, description = "Gone"), Refused))]
async fn forget(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<StatusCode, Problem> {
    caller.in_workspace(workspace_id)?;
    let mut db = caller.begin(&state).await?;
    if !query_patterns::forget(&mut *db, caller.owner(), id).await? {
        return Err(Problem::not_found("query_pattern_not_found", "The query"));
    }
    db.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
