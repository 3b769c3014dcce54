//! The tools that find entities by words or by likeness.
//!
//! Vectors are not computed, so `vectorScore` is null everywhere, and the tools that are named for meaning say in a note that
//! they matched words.

use rejoin_shared::graph::search::{self, Hit, Scope};
use serde_json::{Value, json};

use super::{entity, full, told, unknown_types};
use crate::tools::arguments::Arguments;
use crate::tools::{ToolContext, ToolError};

const MATCHED_WORDS: &str = "matched by words and names, not by meaning: try other words if nothing fits";
const MATCHED_LIKENESS: &str = "alike by words, shared neighbours and labels, not by meaning";

pub(super) async fn hybrid_search(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let scope = Scope {
        types: arguments.texts("types"),
        labels: arguments.texts("labels"),
    };
    scored(
        context,
        arguments,
        scope,
        arguments.integer("limit", 20, (1, 100)),
        None,
    )
    .await
}

pub(super) async fn semantic_search(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let scope = Scope {
        types: arguments.texts("types"),
        labels: Vec::new(),
    };
    scored(
        context,
        arguments,
        scope,
        arguments.integer("limit", 20, (1, 50)),
        Some(MATCHED_WORDS),
    )
    .await
}

async fn scored(
    context: &ToolContext,
    arguments: &Arguments,
    scope: Scope,
    limit: i64,
    note: Option<&str>,
) -> Result<Value, ToolError> {
    let query = arguments.required_text("query")?;
    let found = search::search(&context.db, context.project_id, query, &scope, limit)
        .await
        .map_err(told)?;
    let mut result = json!({
        "data": data(&found.hits),
        "total": found.total,
        "hasMore": found.total > found.hits.len() as i64,
    });
    if let Some(note) = note {
        result["note"] = json!(note);
    }
    if found.hits.is_empty()
        && let Some(unknown) = unknown_types(context, &scope.types).await?
    {
        result["note"] = json!(unknown);
    }
    Ok(result)
}

pub(super) async fn search_entities(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let query = arguments.required_text("query")?;
    let types: Vec<String> = arguments.text("type_name").map(str::to_owned).into_iter().collect();
    let scope = Scope {
        types,
        labels: Vec::new(),
    };
    let limit = arguments.integer("limit", 10, (1, 50));
    let found = search::search(&context.db, context.project_id, query, &scope, limit)
        .await
        .map_err(told)?;
    let entities: Vec<Value> = found.hits.iter().map(|hit| full(&hit.object)).collect();
    let mut result = json!({"entities": entities, "count": entities.len()});
    if found.hits.is_empty()
        && let Some(unknown) = unknown_types(context, &scope.types).await?
    {
        result["note"] = json!(unknown);
    }
    Ok(result)
}

pub(super) async fn find_similar(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let object = entity(context, "entity_id", arguments.required_text("entity_id")?).await?;
    let types = arguments.texts("types");
    let limit = arguments.integer("limit", 10, (1, 50));
    let hits = search::similar(&context.db, context.project_id, object.id, &types, limit)
        .await
        .map_err(told)?;
    let mut result = json!({
        "entity": super::brief(&object),
        "data": data(&hits),
        "total": hits.len(),
        "hasMore": false,
        "note": MATCHED_LIKENESS,
    });
    if hits.is_empty()
        && let Some(unknown) = unknown_types(context, &types).await?
    {
        result["note"] = json!(unknown);
    }
    Ok(result)
}

fn data(hits: &[Hit]) -> Vec<Value> {
    hits.iter()
        .map(|hit| {
            // Three digits say all that the score knows.
            let score = (hit.score * 1000.0).round() / 1000.0;
            json!({"object": full(&hit.object), "score": score, "lexicalScore": score, "vectorScore": null})
        })
        .collect()
}
