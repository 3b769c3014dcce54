//! The tools that search entities by words or similarity.
//!
//! Without an embedding model or vectors, all of them search lexically: `vectorScore` is null, and a note gives the
//! reason.

use rejoin_graph::embedder;
use rejoin_graph::hybrid_ranking::{self, Mode};
use rejoin_graph::objects::Object;
use rejoin_graph::scope::Scope;
use rejoin_graph::search;
use serde_json::{Value, json};

use super::definition::{Definition, ENTITY_ID, Effect};
use super::{entity, focus, full, tool_error, unknown_types};
use crate::arguments::Kind::{OptionalInteger, OptionalText, OptionalTexts, Text};
use crate::arguments::{Arguments, Parameter};
use crate::{ToolContext, ToolError};

const QUERY: Parameter = Parameter::new("query", Text, "Words to search for.");
const ONLY_TYPES: Parameter = Parameter::new(
    "types",
    OptionalTexts,
    "Only entities of these types (names as returned by list_entity_types); null for all.",
);

pub(super) const TOOLS: &[Definition] = &[
    Definition {
        name: "hybrid_search",
        effect: Effect::Reads,
        description: "Searches the knowledge graph by keywords (full text, tolerant of typos and partial names) and \
            by meaning, best matches first. Start here when you look for something by name or topic.",
        parameters: &[
            QUERY,
            ONLY_TYPES,
            Parameter::new(
                "labels",
                OptionalTexts,
                "Only entities with at least one of these labels; null for all.",
            ),
            Parameter::new(
                "limit",
                OptionalInteger,
                "Maximum number of results; default 20, at most 100.",
            ),
        ],
        call: |context, arguments| Box::pin(hybrid_search(context, arguments)),
    },
    Definition {
        name: "semantic_search",
        effect: Effect::Reads,
        description: "Searches the knowledge graph by meaning only, so that synonyms match as well.",
        parameters: &[
            QUERY,
            ONLY_TYPES,
            Parameter::new(
                "limit",
                OptionalInteger,
                "Maximum number of results; default 20, at most 50.",
            ),
        ],
        call: |context, arguments| Box::pin(semantic_search(context, arguments)),
    },
    Definition {
        name: "search_entities",
        effect: Effect::Reads,
        description: "Searches entities by name or text, optionally of one type.",
        parameters: &[
            QUERY,
            Parameter::new("type_name", OptionalText, "Only entities of this type; null for all."),
            Parameter::new(
                "limit",
                OptionalInteger,
                "Maximum number of results; default 10, at most 50.",
            ),
        ],
        call: |context, arguments| Box::pin(search_entities(context, arguments)),
    },
    Definition {
        name: "find_similar",
        effect: Effect::Reads,
        description: "Finds entities similar to a given one: similar in meaning, or connected to the same entities.",
        parameters: &[
            ENTITY_ID,
            ONLY_TYPES,
            Parameter::new(
                "limit",
                OptionalInteger,
                "Maximum number of results; default 10, at most 50.",
            ),
        ],
        call: |context, arguments| Box::pin(find_similar(context, arguments)),
    },
];

const MATCHED_LIKENESS: &str = "similarity by words, shared neighbours and labels, not by meaning";

async fn hybrid_search(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let scope = Scope {
        types: arguments.texts("types"),
        labels: arguments.texts("labels"),
        bounds: focus::bounds(context),
    };
    let limit = arguments.integer("limit", 20, (1, 100));
    scored(context, arguments, scope, limit, Mode::Hybrid).await
}

async fn semantic_search(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let scope = Scope {
        types: arguments.texts("types"),
        labels: Vec::new(),
        bounds: focus::bounds(context),
    };
    let limit = arguments.integer("limit", 20, (1, 50));
    scored(context, arguments, scope, limit, Mode::Semantic).await
}

async fn scored(
    context: &ToolContext,
    arguments: &Arguments,
    scope: Scope,
    limit: i64,
    mode: Mode,
) -> Result<Value, ToolError> {
    let query = arguments.required_text("query")?;
    let (db, workspace_id) = (&context.db, context.workspace_id);
    let (vector, note) = match embedder::query_vector(context.model.as_ref(), db, workspace_id, query)
        .await
        .map_err(tool_error)?
    {
        Ok(vector) => (Some(vector), None),
        Err(reason) => (None, Some(reason)),
    };
    let found = hybrid_ranking::find(db, workspace_id, query, vector.as_ref(), mode, &scope, limit)
        .await
        .map_err(tool_error)?;
    let hits: Vec<Value> = found
        .hits
        .iter()
        .map(|hit| data(&hit.object, hit.score, hit.lexical, hit.vector))
        .collect();
    let mut result = json!({
        "hasMore": found.total > hits.len() as i64,
        "data": hits,
        "total": found.total,
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

async fn search_entities(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let query = arguments.required_text("query")?;
    let types: Vec<String> = arguments.text("type_name").map(str::to_owned).into_iter().collect();
    let scope = Scope {
        types,
        labels: Vec::new(),
        bounds: focus::bounds(context),
    };
    let limit = arguments.integer("limit", 10, (1, 50));
    let found = search::search(&context.db, context.workspace_id, query, &scope, limit)
        .await
        .map_err(tool_error)?;
    let entities: Vec<Value> = found.hits.iter().map(|hit| full(&hit.object)).collect();
    let mut result = json!({"entities": entities, "count": entities.len()});
    if found.hits.is_empty()
        && let Some(unknown) = unknown_types(context, &scope.types).await?
    {
        result["note"] = json!(unknown);
    }
    Ok(result)
}

async fn find_similar(context: &ToolContext, arguments: &Arguments) -> Result<Value, ToolError> {
    let object = entity(context, "entity_id", arguments.required_text("entity_id")?).await?;
    let scope = Scope {
        types: arguments.texts("types"),
        labels: Vec::new(),
        bounds: focus::bounds(context),
    };
    let limit = arguments.integer("limit", 10, (1, 50));
    let model = context.model.name();
    let (hits, by_meaning) = search::similar(&context.db, context.workspace_id, object.id, model, &scope, limit)
        .await
        .map_err(tool_error)?;
    let shown: Vec<Value> = hits
        .iter()
        .map(|hit| {
            // Neither score is shown: neighbours and labels count, too.
            let (lexical, vector) = if by_meaning {
                (None, Some(hit.score))
            } else {
                (Some(hit.score), None)
            };
            data(&hit.object, hit.score, lexical, vector)
        })
        .collect();
    let mut result = json!({
        "entity": super::brief(&object),
        "data": shown,
        "total": hits.len(),
        "hasMore": false,
    });
    if !by_meaning {
        result["note"] = json!(MATCHED_LIKENESS);
    }
    if hits.is_empty()
        && let Some(unknown) = unknown_types(context, &scope.types).await?
    {
        result["note"] = json!(unknown);
    }
    Ok(result)
}

fn data(object: &Object, score: f64, lexical: Option<f64>, vector: Option<f64>) -> Value {
    // The scores have no more than three significant digits.
    let digits = |score: f64| (score * 1000.0).round() / 1000.0;
    json!({
        "object": full(object),
        "score": digits(score),
        "lexicalScore": lexical.map(digits),
        "vectorScore": vector.map(digits),
    })
}
