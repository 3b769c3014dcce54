//! The agents' tools over a workspace's data sources: list, inspect, and query. A workspace without sources has none of
//! them, and one with sources those that match their kinds. Called by the worker's pools.
//!
//! - `definitions` the definitions of the tools
//!
//! Invariant: `execute_query` only reads, whatever the source: writing is a separate tool, which a whitelist must name,
//! for sources that allow it.

mod definitions;

use std::sync::Arc;

use async_trait::async_trait;
use rejoin_db::rls;
use rejoin_integrations::data_sources::{self, DataSource, Kind};
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec, arguments};
use serde_json::{Value, json};

use self::definitions::{Definition, TOOLS, Verb};
use crate::model_answers::{ANSWER_MAX_BYTES, ROWS, internal, to_model};
use crate::record_pattern::record_pattern;
use crate::run_console;
use crate::source::Access;
use crate::sources::join::{JoinBounds, JoinError, Part, QUERIES_MAX};
use crate::sources::{Ask, Sources};

/// Maximum number of sources queried by one call of `list_databases`.
const LISTED_SOURCES: usize = 20;

/// Returns the tools for a workspace with sources of these kinds. None without sources.
pub fn for_kinds(sources: &Sources, kinds: &[Kind], any_writable: bool) -> Vec<SharedTool> {
    let fits = |definition: &&Definition| match definition.kinds {
        _ if kinds.is_empty() => false,
        // Joins run in SQLite.
        _ if definition.verb == Verb::Join && !cfg!(feature = "sqlite") => false,
        _ if definition.verb == Verb::Modify => any_writable,
        [] => true,
        own => own.iter().any(|kind| kinds.contains(kind)),
    };
    let tool = |definition: &'static Definition| {
        let spec = ToolSpec {
            name: definition.name.to_owned(),
            description: definition.description.to_owned(),
            parameters: arguments::schema(definition.parameters),
            read_only: definition.verb != Verb::Modify,
            idempotent: definition.verb != Verb::Modify,
            destructive: definition.verb == Verb::Modify,
        };
        Arc::new(SourceTool {
            spec,
            verb: definition.verb,
            sources: sources.clone(),
        }) as SharedTool
    };
    let own = TOOLS.iter().filter(fits).map(tool);
    own.chain((!kinds.is_empty()).then(|| run_console::tool(sources)))
        .collect()
}

struct SourceTool {
    spec: ToolSpec,
    verb: Verb,
    sources: Sources,
}

#[async_trait]
impl Tool for SourceTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        match self.verb {
            Verb::ListSources => self.list_sources(context).await,
            Verb::ListDatabases => self.list_databases(context, &arguments).await,
            Verb::ListTables => {
                let (source, database) = self.find(context, &arguments).await?;
                let opened = self
                    .sources
                    .open(&context.db, rls::Scope::System, &source)
                    .await
                    .map_err(to_model)?;
                let tables = opened.tables(database.as_deref()).await.map_err(to_model)?;
                Ok(json!({ "tables": tables, "total": tables.len() }))
            }
            Verb::Inspect => {
                let (source, database) = self.find(context, &arguments).await?;
                let table = ["tableName", "collectionName", "tableId"]
                    .into_iter()
                    .find_map(|name| arguments[name].as_str())
                    .unwrap_or_default();
                let scope = rls::Scope::System;
                let schema = self
                    .sources
                    .schema(&context.db, scope, &source, database.as_deref(), table, false);
                Ok(json!(schema.await.map_err(to_model)?))
            }
            Verb::Execute | Verb::Modify => self.execute(context, &arguments).await,
            Verb::Join => self.join(context, &arguments).await,
            Verb::Explain => {
                let (source, database) = self.find(context, &arguments).await?;
                let query = arguments["query"].as_str().unwrap_or_default();
                let opened = self
                    .sources
                    .open(&context.db, rls::Scope::System, &source)
                    .await
                    .map_err(to_model)?;
                opened
                    .explain(Ask::reading(database.as_deref(), query))
                    .await
                    .map_err(to_model)
            }
        }
    }
}

impl SourceTool {
    async fn list_sources(&self, context: &ToolContext) -> Result<Value, ToolError> {
        let sources = data_sources::list(&context.db, context.workspace_id)
            .await
            .map_err(internal)?;
        let listed: Vec<_> = sources.iter().map(DataSource::listed).collect();
        Ok(json!({ "dataSources": listed, "total": listed.len() }))
    }

    async fn list_databases(&self, context: &ToolContext, arguments: &Value) -> Result<Value, ToolError> {
        let asked = match arguments["databaseId"].as_str() {
            Some(_) => vec![self.find(context, arguments).await?.0],
            None => data_sources::list(&context.db, context.workspace_id)
                .await
                .map_err(internal)?,
        };
        let looks = asked.iter().take(LISTED_SOURCES).map(|source| async move {
            let looked = async {
                let opened = self.sources.open(&context.db, rls::Scope::System, source).await?;
                opened.databases().await
            };
            (source, looked.await)
        });
        let (mut databases, mut failures) = (Vec::new(), Vec::new());
        for (source, looked) in futures::future::join_all(looks).await {
            let name = &source.content.name;
            match looked {
                Ok(names) => databases.extend(names.into_iter().map(|database| {
                    json!({ "databaseId": format!("{name}/{database}"), "name": database, "source": name, "kind": source.content.kind })
                })),
                Err(error) => failures.push(json!({ "source": name, "error": error.to_string() })),
            }
        }
        Ok(json!({ "databases": databases, "failures": failures, "total": databases.len() }))
    }

    async fn execute(&self, context: &ToolContext, arguments: &Value) -> Result<Value, ToolError> {
        let (source, database) = self.find(context, arguments).await?;
        let text = |name: &str| arguments[name].as_str().unwrap_or_default();
        let (query, access) = match self.verb {
            Verb::Modify => (text("statement"), Access::Writes),
            _ => (text("query"), Access::Reads),
        };
        let ask = Ask {
            access,
            max_rows: Some(rows_shown(arguments)),
            max_bytes: Some(ANSWER_MAX_BYTES),
            ..Ask::reading(database.as_deref(), query)
        };
        let answer = self.sources.query(&context.db, rls::Scope::System, &source, ask).await;
        let answer = json!(answer.map_err(to_model)?);
        if access == Access::Reads {
            record_pattern(&self.sources, context, &source, database.as_deref(), query).await;
        }
        Ok(answer)
    }

    async fn join(&self, context: &ToolContext, arguments: &Value) -> Result<Value, ToolError> {
        let queries = arguments["queries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut found = Vec::with_capacity(queries.len());
        for query in queries.iter().take(QUERIES_MAX + 1) {
            found.push(self.find(context, query).await?);
        }
        let parts: Vec<Part<'_>> = found
            .iter()
            .zip(queries)
            .map(|((source, database), query)| Part {
                name: query["name"].as_str().unwrap_or_default(),
                source,
                database: database.as_deref(),
                query: query["query"].as_str().unwrap_or_default(),
            })
            .collect();
        let shown = JoinBounds {
            max_rows: Some(rows_shown(arguments)),
            max_bytes: Some(ANSWER_MAX_BYTES),
            timeout: None,
        };
        let sql = arguments["sql"].as_str().unwrap_or_default();
        let asked = self.sources.join(&context.db, rls::Scope::System, &parts, sql, shown);
        let failed = |error: JoinError| ToolError::RespondToModel(error.to_string());
        Ok(json!(asked.await.map_err(failed)?))
    }

    /// Returns the source named by an argument, and its database.
    async fn find(&self, context: &ToolContext, arguments: &Value) -> Result<(DataSource, Option<String>), ToolError> {
        let wanted = arguments["databaseId"].as_str().unwrap_or_default();
        let (name, database) = match wanted.split_once('/') {
            Some((name, database)) => (name, Some(database.to_owned())),
            None => (wanted, None),
        };
        let dataset = arguments["datasetId"].as_str().map(str::to_owned);
        let found = data_sources::find(&context.db, context.workspace_id, name)
            .await
            .map_err(internal)?;
        let source = found.ok_or_else(|| {
            ToolError::RespondToModel(format!(
                "there is no data source {name}; list_data_sources returns the available ones"
            ))
        })?;
        Ok((source, dataset.or(database)))
    }
}

/// Returns the number of rows requested by a call. Larger numbers are reduced to the source's limit.
fn rows_shown(arguments: &Value) -> u32 {
    let rows = arguments["maxRows"].as_f64().filter(|rows| *rows >= 1.0);
    rows.map_or(ROWS, |rows| rows.min(f64::from(u32::MAX)) as u32)
}
