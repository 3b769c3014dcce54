//! Versions of an agent definition: the contents that it has had, which the database keeps with each change (`kb.keep_agent_version`).
//! Read by the routes of definitions, and by workers for conversations that stay with a version.
//!
//! Invariant: a version never changes.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::PgExecutor;
use uuid::Uuid;

use super::{AgentDefinition, DefinitionContent};

/// A version of a definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// From 1 on.
    pub version: i32,
    pub content: DefinitionContent,
    /// The user who wrote it. None: an operator, or a product.
    pub created_by: Option<Uuid>,
    pub created_at: DateTime<Utc>,
}

/// A row as sqlx reads it.
struct Row {
    version: i32,
    content: Value,
    created_by: Option<Uuid>,
    created_at: DateTime<Utc>,
}

impl TryFrom<Row> for Version {
    type Error = sqlx::Error;

    fn try_from(row: Row) -> Result<Self, sqlx::Error> {
        Ok(Self {
            version: row.version,
            content: content_of(row.content)?,
            created_by: row.created_by,
            created_at: row.created_at,
        })
    }
}

/// The columns of a definition, as the database keeps them.
#[derive(Deserialize)]
struct Stored {
    name: String,
    description: String,
    system_prompt: String,
    model: Option<Value>,
    tools: Vec<String>,
    flow_type: String,
    is_default: bool,
    max_steps: Option<i32>,
    default_timeout: Option<i32>,
    visibility: String,
    max_depth: Option<i32>,
    config: Value,
}

fn content_of(stored: Value) -> Result<DefinitionContent, sqlx::Error> {
    let stored: Stored = serde_json::from_value(stored).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    Ok(DefinitionContent {
        name: stored.name,
        description: stored.description,
        system_prompt: stored.system_prompt,
        // As in the definition's own row.
        model: stored.model.and_then(|model| serde_json::from_value(model).ok()),
        tools: stored.tools,
        flow_type: stored.flow_type,
        is_default: stored.is_default,
        max_steps: stored.max_steps,
        default_timeout: stored.default_timeout,
        visibility: stored.visibility,
        max_depth: stored.max_depth,
        config: stored.config,
    })
}

impl AgentDefinition {
    /// Returns the definition as it was with this version's content.
    #[must_use]
    pub fn at(self, version: i32, content: DefinitionContent) -> Self {
        Self {
            name: content.name,
            description: content.description,
            system_prompt: content.system_prompt,
            model: content.model,
            tools: content.tools,
            flow_type: content.flow_type,
            is_default: content.is_default,
            max_steps: content.max_steps,
            default_timeout: content.default_timeout,
            visibility: content.visibility,
            max_depth: content.max_depth,
            config: content.config,
            version,
            ..self
        }
    }
}

/// Returns a page of a definition's versions before `before`, newest first.
pub async fn list(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    definition_id: Uuid,
    before: Option<i32>,
    limit: i64,
) -> Result<Vec<Version>, sqlx::Error> {
    let rows = sqlx::query_as!(
        Row,
        "select version, content, created_by, created_at from kb.agent_versions
         where definition_id = $1 and project_id = $2 and ($3::int is null or version < $3)
         order by version desc
         limit $4",
        definition_id,
        workspace_id,
        before,
        limit
    )
    .fetch_all(db)
    .await?;
    rows.into_iter().map(Version::try_from).collect()
}

/// Returns a version of a definition. None: it does not exist.
pub async fn get(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    definition_id: Uuid,
    version: i32,
) -> Result<Option<Version>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "select version, content, created_by, created_at from kb.agent_versions
         where definition_id = $1 and project_id = $2 and version = $3",
        definition_id,
        workspace_id,
        version
    )
    .fetch_optional(db)
    .await?;
    row.map(Version::try_from).transpose()
}

/// Returns the version that a run's conversation stays with. None: it follows the newest one, or the run has no conversation.
pub async fn pinned(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<Option<Version>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        "select v.version, v.content, v.created_by, v.created_at
         from kb.agent_runs r
         join kb.chat_conversations c on c.id = r.conversation_id and c.agent_version = r.agent_version
         join kb.agent_versions v on v.definition_id = r.agent_definition_id and v.version = r.agent_version
         where r.id = $1 and c.agent_definition_id = r.agent_definition_id",
        run_id
    )
    .fetch_optional(db)
    .await?;
    row.map(Version::try_from).transpose()
}

/// A field in which two versions differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Its wire name.
    pub field: &'static str,
    pub before: Value,
    pub after: Value,
    /// The changed lines of a text, as a unified diff.
    pub diff: Option<String>,
}

/// Returns the fields in which `after` differs from `before`.
pub fn changes(before: &DefinitionContent, after: &DefinitionContent) -> Vec<Change> {
    let fields = before.changed_fields(after);
    let of = |field: &'static str| {
        let (old, new) = (value_of(before, field), value_of(after, field));
        let diff = match (old.as_str(), new.as_str()) {
            (Some(old), Some(new)) if field == "systemPrompt" => Some(diffy::create_patch(old, new).to_string()),
            (_, _) => None,
        };
        Change {
            field,
            before: old,
            after: new,
            diff,
        }
    };
    fields.into_iter().map(of).collect()
}

/// Returns a field by its wire name.
fn value_of(content: &DefinitionContent, field: &str) -> Value {
    match field {
        "name" => json!(content.name),
        "description" => json!(content.description),
        "systemPrompt" => json!(content.system_prompt),
        "model" => json!(content.model),
        "tools" => json!(content.tools),
        "flowType" => json!(content.flow_type),
        "isDefault" => json!(content.is_default),
        "maxSteps" => json!(content.max_steps),
        "defaultTimeout" => json!(content.default_timeout),
        "visibility" => json!(content.visibility),
        "maxDepth" => json!(content.max_depth),
        _ => content.config.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_both_values_and_lines_of_the_prompt() {
        let before = DefinitionContent {
            system_prompt: "Be kind.\nBe short.\n".to_owned(),
            ..DefinitionContent::blank()
        };
        let after = DefinitionContent {
            system_prompt: "Be kind.\nBe long.\n".to_owned(),
            max_steps: Some(3),
            ..DefinitionContent::blank()
        };
        let changes = changes(&before, &after);
        let fields: Vec<_> = changes.iter().map(|change| change.field).collect();
        assert_eq!(fields, ["systemPrompt", "maxSteps"]);
        let diff = changes[0].diff.as_deref().unwrap();
        assert!(diff.contains("-Be short.") && diff.contains("+Be long."), "{diff}");
        assert_eq!((&changes[1].before, &changes[1].after), (&Value::Null, &json!(3)));
        assert!(super::changes(&after, &after).is_empty());
    }
}
