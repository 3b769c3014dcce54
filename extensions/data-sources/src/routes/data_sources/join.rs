//! `POST …/data-sources/join`: joins several sources. Takes the right to query each of them.

use axum::Json;
use axum::extract::State;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{Body, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_integrations::data_sources;
use uuid::Uuid;

use super::ASK_LIMIT;
use super::bodies::join::{JoinAnswer, JoinRequest};
use super::bodies::problem_of;
use crate::routes::DataSourcesState;
use crate::sources::join::{JoinBounds, JoinError, Part, QUERIES_MAX};

/// Query several data sources and join the results
///
/// Each query runs on its own source; the results, within the sources' limits, become tables of an in-memory database
/// that `sql` reads. Closing the connection cancels all queries, on their servers as well.
#[utoipa::path(post, path = "/api/projects/{p}/data-sources/join", tag = "data sources", request_body = JoinRequest,
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "Columns and rows of the join, and the result of each query", body = JoinAnswer),
        (status = 422, description = "A statement is not allowed, or a source does not exist or rejects its query", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 502, description = "A source cannot be reached", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 504, description = "The join timed out and was cancelled", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
pub(super) async fn join(
    State(state): State<DataSourcesState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
    Body(request): Body<JoinRequest>,
) -> Result<Json<JoinAnswer>, Problem> {
    caller.in_workspace(workspace_id)?;
    let problem = |error: JoinError| problem_of(&error.error, error.to_string());
    let mut sources = Vec::new();
    let mut db = caller.begin(&state).await?;
    // One more than allowed, so that the join reports the limit.
    for query in request.queries.iter().take(QUERIES_MAX + 1) {
        let found = data_sources::find(&mut *db, workspace_id, &query.source).await?;
        sources.push(found.ok_or_else(|| problem(JoinError::no_source(&query.name, &query.source)))?);
    }
    // No transaction of Rejoin's own database is open during queries to sources.
    drop(db);
    let parts: Vec<Part<'_>> = request
        .queries
        .iter()
        .zip(&sources)
        .map(|(query, source)| Part {
            name: &query.name,
            source,
            database: query.database.as_deref(),
            query: &query.query,
        })
        .collect();
    let bounds = JoinBounds {
        max_rows: request.max_rows,
        max_bytes: None,
        timeout: Some(ASK_LIMIT),
    };
    let asked = state
        .sources
        .join(&state.db.pool_sqlx, caller.rls_scope(), &parts, &request.sql, bounds);
    Ok(Json(asked.await.map_err(problem)?.into()))
}
