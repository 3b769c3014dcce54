//! Diagrams of DAGs, in Mermaid or as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::extract::{Params, Segments};
use rejoin_http::problem::{Problem, Refused};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use super::{TaskBody, detailed};
use rejoin_chat::{ChatState, Routes};

/// Maximum number of tasks in a drawing.
const DRAWN: usize = 500;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(diagram))
}

/// Format of a diagram.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DiagramParams {
    /// `mermaid` or `text`
    #[param(pattern = "^(mermaid|text)$")]
    pub format: Option<String>,
}

/// Get a diagram of a task DAG, as Mermaid or text
#[utoipa::path(get, path = "/api/projects/{p}/task-dags/{id}/diagram", tag = "task dags",
    params(DiagramParams, ("p" = Uuid, Path, description = "The project"), ("id" = Uuid, Path, description = "The DAG")),
    responses((status = 200, description = "It", body = String, content_type = "text/plain"), Refused))]
async fn diagram(
    State(state): State<ChatState>,
    caller: Caller<Read>,
    Segments((workspace_id, id)): Segments<(Uuid, Uuid)>,
    Params(params): Params<DiagramParams>,
) -> Result<Response, Problem> {
    let detail = detailed(&state, &caller, workspace_id, id).await?;
    let drawn = match params.format.as_deref() {
        None | Some("mermaid") => mermaid(&detail.tasks),
        Some("text") => text(&detail.tasks),
        Some(other) => {
            return Err(Problem::bad_request(
                "invalid_query",
                format!("format={other} is not supported; use mermaid or text"),
            ));
        }
    };
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], drawn).into_response())
}

/// Returns a flowchart; each task in the colour of its state.
fn mermaid(tasks: &[TaskBody]) -> String {
    let mut out = String::from("flowchart TD\n");
    let shown = &tasks[..tasks.len().min(DRAWN)];
    let number: BTreeMap<&str, usize> = shown
        .iter()
        .enumerate()
        .map(|(n, task)| (task.id.as_str(), n))
        .collect();
    for (n, task) in shown.iter().enumerate() {
        let title = task.title.replace('"', "'").replace('\n', " ");
        let _ = writeln!(out, "  t{n}[\"{title}\"]:::{}", task.state);
    }
    for (n, task) in shown.iter().enumerate() {
        for before in task.after.iter().filter_map(|before| number.get(before.as_str())) {
            let _ = writeln!(out, "  t{before} --> t{n}");
        }
    }
    if tasks.len() > shown.len() {
        let _ = writeln!(out, "  %% {} more tasks are not shown", tasks.len() - shown.len());
    }
    for (state, colour) in [
        ("pending", "#eee"),
        ("in_progress", "#bdf"),
        ("completed", "#bfb"),
        ("failed", "#fbb"),
        ("skipped", "#ddd"),
    ] {
        let _ = writeln!(out, "  classDef {state} fill:{colour}");
    }
    out
}

/// Returns one line per task, after its predecessors, indented by its longest path from a start.
fn text(tasks: &[TaskBody]) -> String {
    let mut depth: BTreeMap<&str, usize> = BTreeMap::new();
    let mut out = String::new();
    // In order of creation, which is a topological order.
    for task in tasks {
        let level = task.after.iter().filter_map(|before| depth.get(before.as_str())).max();
        let level = level.map_or(0, |level| level + 1);
        depth.insert(&task.id, level);
        let mark = match task.state.as_str() {
            "completed" => 'x',
            "in_progress" => '>',
            "failed" => '!',
            "skipped" => '-',
            _ => ' ',
        };
        let after = if task.after.is_empty() {
            String::new()
        } else {
            format!("  (after {})", task.after.join(", "))
        };
        let _ = writeln!(out, "{}[{mark}] {}: {}{after}", "  ".repeat(level), task.id, task.title);
    }
    out
}
