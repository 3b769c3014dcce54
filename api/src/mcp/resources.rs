//! Resources: the caller's conversations, their runs, and entities of the knowledge graph, as JSON. Called by the server in `mcp`.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use rejoin_db::rls;
use rejoin_graph::objects;
use rejoin_http::extract::{PageParams, page};
use rejoin_http::problem::Problem;
use rejoin_http::visible;
use rejoin_runs::{conversations, messages, run_messages};
use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Asked, refused};
use crate::routes::history::RunMessageDetail;
use crate::routes::runs;

const JSON: &str = "application/json";
/// Maximum number of messages that are read: the newest of a conversation, the first of a run.
const MESSAGES_MAX: i64 = 200;

/// What a URI names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Conversation(Uuid),
    Run(Uuid),
    Entity(Uuid),
}

impl fmt::Display for Named {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conversation(id) => write!(formatter, "rejoin://conversations/{id}"),
            Self::Run(id) => write!(formatter, "rejoin://runs/{id}"),
            Self::Entity(id) => write!(formatter, "rejoin://entities/{id}"),
        }
    }
}

impl FromStr for Named {
    type Err = ();

    fn from_str(uri: &str) -> Result<Self, ()> {
        let path = uri.strip_prefix("rejoin://").ok_or(())?;
        let (folder, id) = path.split_once('/').ok_or(())?;
        let id = id.parse().map_err(|_| ())?;
        match folder {
            "conversations" => Ok(Self::Conversation(id)),
            "runs" => Ok(Self::Run(id)),
            "entities" => Ok(Self::Entity(id)),
            _ => Err(()),
        }
    }
}

/// Lists the caller's conversations, most recently used first. Runs and entities are named by the templates.
pub async fn list(asked: &Asked, cursor: Option<String>) -> Result<ListResourcesResult, ErrorData> {
    let params = PageParams { limit: None, cursor };
    let listed = async {
        let limit = params.limit(&asked.state)?;
        let after: Option<(DateTime<Utc>, Uuid)> = params.after()?;
        let mut db = rls::begin(&asked.state.db.pool_sqlx, asked.caller.rls_scope()).await?;
        let rows = conversations::list(&mut *db, asked.caller.owner(), after, limit + 1).await?;
        Ok::<_, Problem>(page(
            rows,
            limit,
            |row| (row.updated_at, row.id),
            |row| {
                Resource::new(Named::Conversation(row.id).to_string(), row.id.to_string())
                    .with_title(row.title)
                    .with_mime_type(JSON)
            },
        ))
    };
    let (resources, next_cursor) = listed.await.map_err(refused)?;
    let mut result = ListResourcesResult::with_all_items(resources);
    result.next_cursor = next_cursor;
    Ok(result)
}

pub fn templates() -> ListResourceTemplatesResult {
    let template = |folder: &str, description: &str| {
        ResourceTemplate::new(format!("rejoin://{folder}/{{id}}"), folder)
            .with_description(description)
            .with_mime_type(JSON)
    };
    ListResourceTemplatesResult::with_all_items(vec![
        template(
            "conversations",
            "A conversation of yours with its newest messages, oldest first",
        ),
        template(
            "runs",
            "A run of an agent: its state, usage, error and first messages, as the model saw them",
        ),
        template("entities", "An entity of the project's knowledge graph"),
    ])
}

pub async fn read(asked: &Asked, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || {
        let message = format!("there is no resource {uri}; resources/templates/list names the forms of URIs");
        ErrorData::resource_not_found(message, Some(json!({"uri": uri})))
    };
    let named: Named = uri.parse().map_err(|()| unknown())?;
    let found = document(asked, named).await.map_err(refused)?;
    let text = found.ok_or_else(unknown)?.to_string();
    let contents = ResourceContents::text(text, uri).with_mime_type(JSON);
    Ok(ReadResourceResult::new(vec![contents]))
}

async fn document(asked: &Asked, named: Named) -> Result<Option<Value>, Problem> {
    let (state, caller) = (&asked.state, &asked.caller);
    match named {
        Named::Conversation(id) => {
            let Some(conversation) = found(visible::conversation(state, caller, id).await)? else {
                return Ok(None);
            };
            let mut db = caller.begin(state).await?;
            let stored = messages::newest(&mut *db, id, MESSAGES_MAX).await?;
            Ok(Some(json!({
                "id": id,
                "title": conversation.title,
                "agentDefinitionId": conversation.agent_definition_id,
                "createdAt": conversation.created_at,
                "updatedAt": conversation.updated_at,
                "messages": stored,
            })))
        }
        Named::Run(id) => {
            let Some(run) = found(visible::run(state, caller, id).await)? else {
                return Ok(None);
            };
            let run = runs::detail(state, caller, run).await?;
            let stored = run_messages::list(&mut *caller.begin(state).await?, id, 0, MESSAGES_MAX).await?;
            let stored: Vec<RunMessageDetail> = stored.into_iter().map(RunMessageDetail::from).collect();
            Ok(Some(json!({"run": run, "messages": stored})))
        }
        Named::Entity(id) => {
            let mut db = caller.begin(state).await?;
            match objects::get(&mut *db, caller.workspace_id, id).await {
                Ok(object) => Ok(Some(json!(object))),
                Err(error) => match found::<()>(Err(error.into()))? {
                    Some(()) | None => Ok(None),
                },
            }
        }
    }
}

/// Turns 404 into None.
fn found<T>(result: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(problem) if problem.status == axum::http::StatusCode::NOT_FOUND => Ok(None),
        Err(problem) => Err(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_what_it_was_made_of_and_nothing_else() {
        let id = Uuid::now_v7();
        for named in [Named::Conversation(id), Named::Run(id), Named::Entity(id)] {
            assert_eq!(named.to_string().parse(), Ok(named));
        }
        for uri in [
            "",
            "rejoin://",
            "rejoin://runs/",
            "rejoin://runs/1",
            "https://runs/x",
            &format!("rejoin://keys/{id}"),
            &format!("rejoin://runs/{id}/messages"),
        ] {
            assert_eq!(uri.parse::<Named>(), Err(()), "{uri}");
        }
    }
}
