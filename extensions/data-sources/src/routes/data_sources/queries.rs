//! Reads of a data source: its databases, tables and schemas, its answers to queries, and their plans.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rejoin_http::audit::record_counted;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{Body, Params, Segments};
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_identity::audit::Action;
use rejoin_types::access::Scope;
use uuid::Uuid;

use super::bodies::{
    Databases, Plan, QueryAnswer, QueryRequest, SchemaBody, SchemaParams, Tables, TablesParams, problem,
};
use super::{ASK_LIMIT, audit_detail, find};
use crate::Ask;
use crate::routes::{DataSourcesState, Routes};
use crate::source::Access;
use crate::sources::Opened;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(databases))
        .routes(routes!(tables))
        .routes(routes!(schema))
        .routes(routes!(query))
        .routes(routes!(explain))
}

/// Connects to a data source of the caller's project.
async fn open(state: &DataSourcesState, caller: &Caller, workspace_id: Uuid, id: Uuid) -> Result<Arc<Opened>, Problem> {
    let source = find(state, caller, workspace_id, id).await?;
    let opened = state.sources.open(&state.db.pool_sqlx, caller.rls_scope(), &source);
    opened.await.map_err(problem)
}

/// List the databases of a data source; for BigQuery, its datasets
#[utoipa::path(get, path = "/api/projects/{p}/data-sources/{id}/databases", tag = "data sources",
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The data source")),
    responses((status = 200, description = "The names of the databases", body = Databases),
        (status = 502, description = "The source cannot be reached", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn databases(
    State(state): State<DataSourcesState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
) -> Result<Json<Databases>, Problem> {
    let opened = open(&state, &caller, workspace_id, id).await?;
    let items = opened.databases().await.map_err(problem)?;
    Ok(Json(Databases { items }))
}

/// List the tables, views or collections of a database
#[utoipa::path(get, path = "/api/projects/{p}/data-sources/{id}/tables", tag = "data sources",
    params(TablesParams, ("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The data source")),
    responses((status = 200, description = "All tables", body = Tables),
        (status = 502, description = "The source cannot be reached", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn tables(
    State(state): State<DataSourcesState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Params(params): Params<TablesParams>,
) -> Result<Json<Tables>, Problem> {
    let opened = open(&state, &caller, workspace_id, id).await?;
    let items = opened.tables(params.database.as_deref()).await.map_err(problem)?;
    let items = items.into_iter().map(Into::into).collect();
    Ok(Json(Tables { items }))
}

/// Get the schema of a table or a collection
///
/// Returns the schema as it was last read, with that time. A collection's fields are inferred from a sample of its
/// documents.
#[utoipa::path(get, path = "/api/projects/{p}/data-sources/{id}/schema", tag = "data sources",
    params(SchemaParams, ("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The data source")),
    responses((status = 200, description = "Its columns or fields", body = SchemaBody),
        (status = 422, description = "There is no table of this name", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 502, description = "The source cannot be reached", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused))]
async fn schema(
    State(state): State<DataSourcesState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Params(params): Params<SchemaParams>,
) -> Result<Json<SchemaBody>, Problem> {
    let source = find(&state, &caller, workspace_id, id).await?;
    let database = params.database.as_deref().filter(|database| !database.is_empty());
    let looking = state.sources.schema(
        &state.db.pool_sqlx,
        caller.rls_scope(),
        &source,
        database,
        &params.table,
        params.refresh,
    );
    Ok(Json(looking.await.map_err(problem)?.into()))
}

/// Query a data source
///
/// Closing the connection cancels the query, on its server as well. Writing requires `write: true`, the scope `write`,
/// and a source that is not read-only.
#[utoipa::path(post, path = "/api/projects/{p}/data-sources/{id}/query", tag = "data sources", request_body = QueryRequest,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The data source")),
    responses((status = 200, description = "Columns and rows", body = QueryAnswer),
        (status = 422, description = "The query is not allowed, or the source rejects it", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 502, description = "The source cannot be reached", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 504, description = "The query timed out and was cancelled", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn query(
    State(state): State<DataSourcesState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<QueryRequest>,
) -> Result<Json<QueryAnswer>, Problem> {
    let source = find(&state, &caller, workspace_id, id).await?;
    if request.write && !caller.may(Scope::Write) {
        let detail = "the caller lacks the scope `write`";
        return Err(Problem::new(StatusCode::FORBIDDEN, "scope_missing", detail));
    }
    let ask = Ask {
        access: if request.write { Access::Writes } else { Access::Reads },
        max_rows: request.max_rows,
        timeout: Some(ASK_LIMIT),
        ..Ask::reading(request.database.as_deref(), &request.query)
    };
    if request.write {
        caller.counts_audited()?;
    }
    let answer = state
        .sources
        .query(&state.db.pool_sqlx, caller.rls_scope(), &source, ask)
        .await
        .map_err(problem)?;
    if request.write {
        let mut db = caller.begin(&state).await?;
        let target = format!("data_source:{id}");
        record_counted(
            &mut db,
            &caller,
            Action::DataSourceWritten,
            target,
            audit_detail(&source.content),
        )
        .await?;
        db.commit().await?;
    }
    Ok(Json(answer.into()))
}

/// Get a query's execution plan; for BigQuery, the bytes it would be billed for
///
/// The query is not run.
#[utoipa::path(post, path = "/api/projects/{p}/data-sources/{id}/explain", tag = "data sources", request_body = QueryRequest,
    params(("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The data source")),
    responses((status = 200, description = "The plan", body = Plan),
        (status = 422, description = "The query is not allowed, or the source rejects it", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        (status = 502, description = "The source cannot be reached", body = rejoin_http::problem::ProblemBody, content_type = "application/problem+json"),
        Refused, BodyRefused))]
async fn explain(
    State(state): State<DataSourcesState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Body(request): Body<QueryRequest>,
) -> Result<Json<Plan>, Problem> {
    let opened = open(&state, &caller, workspace_id, id).await?;
    let ask = Ask {
        timeout: Some(ASK_LIMIT),
        ..Ask::reading(request.database.as_deref(), &request.query)
    };
    let plan = opened.explain(ask).await.map_err(problem)?;
    Ok(Json(Plan { plan }))
}
