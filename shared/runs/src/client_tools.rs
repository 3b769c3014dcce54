//! Client tools: functions that the client executes. They come with a message, are stored with its run, and are offered
//! to the model beside the agent's own tools. A call of one suspends the run, like a question, until the client has
//! returned its output.
//!
//! Written by `rejoin_commands::PostMessage`, read by the worker. The calls that wait are in `client_calls`.

use std::collections::HashSet;

use rejoin_integrations::mcp::offers;
use rejoin_tools::Schema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// Maximum number of tools of one message.
pub const MAX: usize = 128;
/// Maximum length of a name, in characters: that of the model providers.
pub const NAME_MAX_CHARS: usize = 64;
/// Maximum size of all tools of one message, in bytes of JSON.
pub const MAX_BYTES: usize = 256 * 1024;
/// Maximum length of a turn's instructions, in characters.
pub const INSTRUCTIONS_MAX_CHARS: usize = 100_000;
/// Maximum size of a call's output, in bytes.
pub const OUTPUT_MAX_BYTES: usize = 1024 * 1024;

/// The kind of the questions that stand for calls of client tools, and their interaction type.
pub const QUESTION: &str = "client_tool";

/// A function that the client executes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientTool {
    /// Letters, digits, `_` and `-`.
    pub name: String,
    pub description: String,
    /// The JSON Schema of its arguments, an object.
    pub parameters: Value,
}

impl ClientTool {
    /// Err: what is wrong with it.
    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > NAME_MAX_CHARS || !name.chars().all(is_plain) {
            let shown: String = name.chars().take(NAME_MAX_CHARS).collect();
            return Err(format!(
                "the name {shown:?} is not allowed: a name has 1 to {NAME_MAX_CHARS} letters, digits, _ and -"
            ));
        }
        if self.description.contains('\0') {
            return Err(format!("the description of {name} contains a NUL character"));
        }
        if self.parameters["type"] != "object" {
            return Err(format!(
                "the parameters of {name} must be a JSON Schema of an object: {{\"type\": \"object\", \
                \"properties\": {{…}}}}"
            ));
        }
        Schema::from(self.parameters.clone())
            .check()
            .map_err(|why| format!("the parameters of {name} are not a valid JSON Schema: {why}"))
    }
}

/// Validates the tools of a message. Err: what is wrong with them, for the client.
pub fn check(tools: &[ClientTool]) -> Result<(), String> {
    if tools.len() > MAX {
        return Err(format!("{} tools are too many; the maximum is {MAX}", tools.len()));
    }
    let bytes = json!(tools).to_string().len();
    if bytes > MAX_BYTES {
        return Err(format!(
            "the tools have {bytes} bytes of JSON; the maximum is {MAX_BYTES}"
        ));
    }
    let mut names = HashSet::new();
    for tool in tools {
        tool.check()?;
        if !names.insert(tool.name.as_str()) {
            return Err(format!("two tools are named {}; names are unique", tool.name));
        }
    }
    Ok(())
}

/// What the client returned for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientOutput<'a> {
    /// The output, as JSON or as plain text.
    Text(&'a str),
    /// The tool failed, for this reason, which the model gets as the result.
    Error(&'a str),
}

impl ClientOutput<'_> {
    /// Returns the form in which a question keeps it. Err: what is wrong with it, for the client.
    pub fn to_answer(self) -> Result<Value, String> {
        let (name, text) = match self {
            Self::Text(text) => ("output", text),
            Self::Error(text) => ("error", text),
        };
        if text.len() > OUTPUT_MAX_BYTES {
            return Err(format!(
                "the output has {} bytes; the maximum is {OUTPUT_MAX_BYTES}",
                text.len()
            ));
        }
        if text.contains('\0') {
            return Err("the output contains a NUL character".to_owned());
        }
        Ok(json!({ name: text }))
    }

    /// Reads what [`ClientOutput::to_answer`] has stored.
    pub fn of_answer(answer: &Value) -> Option<ClientOutput<'_>> {
        let output = answer["output"].as_str().map(ClientOutput::Text);
        output.or_else(|| answer["error"].as_str().map(ClientOutput::Error))
    }
}

/// What a run's request brought along.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunOptions {
    pub client_tools: Vec<ClientTool>,
    /// System text of this run alone.
    pub instructions: Option<String>,
}

impl RunOptions {
    /// Reads the columns of their row. None: there is no row.
    pub(crate) fn stored(client_tools: Option<Value>, instructions: Option<String>) -> Self {
        Self {
            // Checked before they were stored.
            client_tools: client_tools
                .and_then(|tools| serde_json::from_value(tools).ok())
                .unwrap_or_default(),
            instructions,
        }
    }
}

/// Stores the options of a new run; none: no row.
pub async fn insert(
    db: &mut PgConnection,
    run_id: Uuid,
    client_tools: &[ClientTool],
    instructions: Option<&str>,
) -> Result<(), sqlx::Error> {
    if client_tools.is_empty() && instructions.is_none() {
        return Ok(());
    }
    sqlx::query!(
        "insert into kb.run_options (run_id, client_tools, instructions) values ($1, $2, $3)",
        run_id,
        json!(client_tools),
        instructions
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Gives a run the options of another one.
pub async fn copy(db: &mut PgConnection, of: Uuid, run_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.run_options (run_id, client_tools, instructions)
         select $2, client_tools, instructions from kb.run_options where run_id = $1",
        of,
        run_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Returns a run's options; most runs have none.
pub async fn of_run(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<RunOptions, sqlx::Error> {
    let found = sqlx::query!(
        "select client_tools, instructions from kb.run_options where run_id = $1",
        run_id
    )
    .fetch_optional(db)
    .await?;
    Ok(found.map_or_else(RunOptions::default, |row| {
        RunOptions::stored(Some(row.client_tools), row.instructions)
    }))
}

/// Returns those of these names under which agents may get tools of the project's MCP servers.
pub async fn of_servers(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    names: &[String],
) -> Result<Vec<String>, sqlx::Error> {
    offers::named(db, workspace_id, names).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, parameters: Value) -> ClientTool {
        ClientTool {
            name: name.to_owned(),
            description: String::new(),
            parameters,
        }
    }

    #[test]
    fn a_tool_has_a_unique_plain_name_and_an_object_schema() {
        let object = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        assert_eq!(check(&[tool("get-weather_2", object.clone())]), Ok(()));
        for (tools, expected) in [
            (vec![tool("", object.clone())], "not allowed"),
            (vec![tool("get weather", object.clone())], "not allowed"),
            (vec![tool(&"x".repeat(65), object.clone())], "not allowed"),
            (vec![tool("a", json!({"type": "string"}))], "of an object"),
            (vec![tool("a", json!("text"))], "of an object"),
            (
                vec![tool("a", json!({"type": "object", "properties": 1}))],
                "not a valid JSON Schema",
            ),
            (vec![tool("a", object.clone()), tool("a", object.clone())], "unique"),
            (vec![tool("a", object.clone()); MAX + 1], "too many"),
            (
                vec![tool(
                    "a",
                    json!({"type": "object", "description": "x".repeat(MAX_BYTES)}),
                )],
                "bytes of JSON",
            ),
        ] {
            let why = check(&tools).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn an_output_is_kept_as_it_came() {
        for output in [ClientOutput::Text("{\"a\": 1}"), ClientOutput::Error("no network")] {
            let answer = output.to_answer().unwrap();
            assert_eq!(ClientOutput::of_answer(&answer), Some(output));
        }
        assert!(
            ClientOutput::Text(&"x".repeat(OUTPUT_MAX_BYTES + 1))
                .to_answer()
                .is_err()
        );
        assert!(ClientOutput::Text("a\0b").to_answer().is_err());
    }
}
