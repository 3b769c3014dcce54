//! The graph as NDJSON: import by `POST …/import`, export by `GET …/export`. Neither is held in memory.
//!
//! Both hold a database transaction for as long as their peer takes, so they have their own connections (`transfers`):
//! a slow upload does not block other handlers. Invariant: an import is applied completely or not at all.

use std::io;

use async_trait::async_trait;
use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures::{StreamExt, stream};
use rejoin_graph::export::{self, ExportError, Sink};
use rejoin_graph::import::{self, Counts, OnError, Report};
use rejoin_graph::{Actor, ActorKind};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read, Write};
use rejoin_http::extract::{Params, Segments};
use rejoin_http::problem::{Problem, ProblemBody, Refused};
use rejoin_http::upload::{UploadError, upload};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::io::StreamReader;
use tracing::{debug, error};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::state::{AppState, Routes};

/// The only path without the usual timeout: an upload may take long.
pub const IMPORT_PATH: &str = "/api/projects/{p}/graph/import";
/// Maximum number of an export's pages waiting for its reader.
const PAGES_WAITING: usize = 1;

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(import_lines))
        .routes(routes!(export_lines))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ImportParams {
    /// What to do about invalid lines: `refuse` the whole import (default) or `skip` them
    #[serde(default)]
    #[param(value_type = Option<String>, pattern = "^(refuse|skip)$")]
    pub on_error: OnError,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GraphBadLine)]
pub struct BadLineBody {
    /// From 1
    pub line: u64,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = GraphImportCounts)]
pub struct CountsBody {
    pub created: u64,
    /// Got a new version
    pub updated: u64,
    /// Already up to date
    pub unchanged: u64,
}

impl From<Counts> for CountsBody {
    fn from(counts: Counts) -> Self {
        Self {
            created: counts.created,
            updated: counts.updated,
            unchanged: counts.unchanged,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphImportDetails)]
pub struct DetailsBody {
    pub objects: CountsBody,
    pub relationships: CountsBody,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GraphImport)]
pub struct ImportBody {
    /// Number of lines read, including empty ones
    pub lines: u64,
    pub bytes: u64,
    /// Number of objects in valid lines
    pub objects: u64,
    /// Number of relationships in valid lines
    pub relationships: u64,
    /// Objects and relationships together
    pub created: u64,
    pub updated: u64,
    pub unchanged: u64,
    /// The same, separately
    pub details: DetailsBody,
    /// Number of invalid lines
    pub bad_line_count: u64,
    /// The first 100 invalid lines
    pub bad_lines: Vec<BadLineBody>,
}

impl From<Report> for ImportBody {
    fn from(report: Report) -> Self {
        let (of_objects, of_relationships) = (report.objects, report.relationships);
        let all = |counts: &Counts| counts.created + counts.updated + counts.unchanged;
        Self {
            lines: report.lines,
            bytes: report.bytes,
            objects: all(&of_objects),
            relationships: all(&of_relationships),
            created: of_objects.created + of_relationships.created,
            updated: of_objects.updated + of_relationships.updated,
            unchanged: of_objects.unchanged + of_relationships.unchanged,
            details: DetailsBody {
                objects: of_objects.into(),
                relationships: of_relationships.into(),
            },
            bad_line_count: report.bad_lines,
            bad_lines: bad_lines(report.bad),
        }
    }
}

fn bad_lines(bad: Vec<import::BadLine>) -> Vec<BadLineBody> {
    let bodies = bad.into_iter().map(|bad| BadLineBody {
        line: bad.line,
        reason: bad.reason,
    });
    bodies.collect()
}

fn check_upload(headers: &HeaderMap, max_bytes: u64) -> Result<(), Problem> {
    if headers.get(CONTENT_ENCODING).is_some_and(|value| value != "identity") {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "the lines must be sent without Content-Encoding",
        ));
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    match length.and_then(|text| text.parse::<u64>().ok()) {
        Some(length) if length > max_bytes => Err(UploadError::TooLarge { max_bytes }.into()),
        Some(_) | None => Ok(()),
    }
}

/// Import objects and relationships as NDJSON, one per line. Importing the same lines again changes nothing
#[utoipa::path(post, path = IMPORT_PATH, tag = "graph",
    request_body(content = String, content_type = "application/x-ndjson",
        description = r#"{"kind":"object","type":…,"key":…,"properties":{…}} or
{"kind":"relationship","type":…,"source":{"type":…,"key":…},"target":{"type":…,"key":…}}"#),
    params(ImportParams, ("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "Imported", body = ImportBody),
        (status = 408, description = "No data arrived for too long", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "The body has a Content-Encoding", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "Nothing was imported: see `badLines`", body = ProblemBody, content_type = "application/problem+json"), Refused))]
async fn import_lines(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Segments(workspace_id): Segments<Uuid>,
    Params(params): Params<ImportParams>,
    request: Request,
) -> Result<Json<ImportBody>, Problem> {
    caller.in_workspace(workspace_id)?;
    let max_bytes = state.config.max_import_bytes;
    check_upload(request.headers(), max_bytes)?;
    let _slot = state.transfers.admit()?;
    let actor = Actor {
        kind: ActorKind::Import,
        id: Some(caller.user_id),
    };
    let lines = StreamReader::new(Box::pin(upload(
        request.into_body().into_data_stream(),
        max_bytes,
        state.args.body_min_bytes_per_s,
    )));
    let tx = state.transfers.begin(workspace_id).await?;
    let report = import::import_in(tx, workspace_id, lines, params.on_error, actor, |_| ()).await?;
    if report.imported {
        return Ok(Json(report.into()));
    }
    let detail = format!(
        "nothing was imported: {} of {} lines are invalid (?onError=skip imports the others)",
        report.bad_lines, report.lines
    );
    Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "import_refused", detail)
        .with("lines", json!(report.lines))
        .with("badLineCount", json!(report.bad_lines))
        .with("badLines", json!(bad_lines(report.bad))))
}

/// Writes an export to the response.
struct ToReader(mpsc::Sender<Result<Bytes, Problem>>);

#[async_trait]
impl Sink for ToReader {
    async fn write(&mut self, lines: Vec<u8>) -> io::Result<()> {
        let sent = self.0.send(Ok(lines.into())).await;
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Export the live graph as NDJSON: all objects, then all relationships, one per line
#[utoipa::path(get, path = "/api/projects/{p}/graph/export", tag = "graph",
    params(("p" = Uuid, Path, description = "The project")),
    responses((status = 200, description = "Lines in the import format", body = String,
        content_type = "application/x-ndjson"), Refused))]
async fn export_lines(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Segments(workspace_id): Segments<Uuid>,
) -> Result<Response, Problem> {
    caller.in_workspace(workspace_id)?;
    let slot = state.transfers.admit()?;
    let (pages, mut written) = mpsc::channel(PAGES_WAITING);
    let pool = state.transfers.pool().clone();
    tokio::spawn(async move {
        let mut sink = ToReader(pages);
        match export::export(&pool, workspace_id, &mut sink).await {
            Ok(exported) => debug!(exported.objects, exported.relationships, "exported"),
            Err(ExportError::Write(_)) => debug!("the client of an export disconnected"),
            // The reader may have disconnected.
            Err(ExportError::Graph(error)) => drop(sink.0.send(Err(error.into())).await),
        }
        drop(slot);
    });
    // An immediate failure is an error response; a later one can only abort the response, so that it is not taken for
    // complete.
    let first = written.recv().await.transpose()?;
    let rest = stream::unfold(written, |mut written| async {
        let page = written.recv().await?.map_err(|problem| {
            error!(problem.code, "an export ended early");
            io::Error::other(problem.detail)
        });
        Some((page, written))
    });
    let mut response = Response::new(Body::from_stream(stream::iter(first.map(Ok)).chain(rest)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        CONTENT_DISPOSITION,
        HeaderValue::from_static(r#"attachment; filename="graph.ndjson""#),
    );
    Ok(response)
}
