//! `run_console`: an agent runs the text of a console on the console's own data source. The text is read at that
//! moment: what the user has typed is run, and nothing that only the model has seen.

use std::sync::Arc;

use async_trait::async_trait;
use rejoin_db::rls;
use rejoin_integrations::data_sources;
use rejoin_runs::consoles;
use rejoin_runs::consoles::tools::meant;
use rejoin_tools::arguments::Kind::{OptionalInteger, OptionalText};
use rejoin_tools::arguments::{Arguments, Parameter, schema};
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::{Value, json};

use crate::model_answers::{ANSWER_MAX_BYTES, ROWS, internal, to_model};
use crate::record_pattern::record_pattern;
use crate::sources::{Ask, Sources};

struct RunConsole {
    spec: ToolSpec,
    sources: Sources,
}

/// The tool, for a workspace with data sources.
pub fn tool(sources: &Sources) -> SharedTool {
    Arc::new(RunConsole {
        spec: ToolSpec {
            name: "run_console".to_owned(),
            description: "Runs the query in a console on the console's data source and returns columns and rows. \
                Read-only."
                .to_owned(),
            parameters: schema(&[
                Parameter::new(
                    "consoleId",
                    OptionalText,
                    "the console's id; null: the console that this conversation works on",
                ),
                Parameter::new(
                    "maxRows",
                    OptionalInteger,
                    "Maximum number of rows to return; default 100.",
                ),
            ]),
            read_only: true,
            idempotent: true,
            destructive: false,
        },
        sources: sources.clone(),
    })
}

#[async_trait]
impl Tool for RunConsole {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        let arguments = Arguments::of(arguments);
        let console = meant(context, &arguments).await?;
        let source = match console.data_source_id {
            Some(id) => data_sources::get(&context.db, context.workspace_id, id)
                .await
                .map_err(internal)?,
            None => None,
        };
        let source = source.ok_or_else(|| {
            ToolError::RespondToModel(format!(
                "the console {} has no data source; set one with set_console_connection",
                console.title
            ))
        })?;
        let most = i64::from(u32::MAX);
        let rows = u32::try_from(arguments.integer("maxRows", i64::from(ROWS), (1, most))).unwrap_or(ROWS);
        let ask = Ask {
            max_rows: Some(rows),
            max_bytes: Some(ANSWER_MAX_BYTES),
            ..Ask::reading(console.database.as_deref(), &console.content)
        };
        let answer = self
            .sources
            .query(&context.db, rls::Scope::System, &source, ask)
            .await
            .map_err(to_model)?;
        consoles::ran(&context.db, console.id, &console.content)
            .await
            .map_err(internal)?;
        let (database, query) = (console.database.as_deref(), &console.content);
        record_pattern(&self.sources, context, &source, database, query).await;
        let mut output = json!(answer);
        output["consoleId"] = json!(console.id);
        output["version"] = console.version.into();
        Ok(output)
    }
}
