//! A guestbook: an example of an extension. Agents sign it with a tool, a job counts the words, and programs read it at
//! `GET /api/extensions/guestbook/entries`. Registering it is one line in `extensions/registry`.

use std::sync::Arc;

use async_trait::async_trait;
use rejoin_extension::route::{Method, RouteHandler};
use rejoin_extension::{Extension, Host, JobHandler, Migration, Route, RouteError, RouteRequest, Signals};
use rejoin_queue::{ClaimedJob, NewJob, Outcome};
use rejoin_tools::arguments::{Arguments, Kind, Parameter, schema};
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use rejoin_types::access::Scope;
use serde_json::{Value, json};
use sqlx::{PgConnection, Row};

const COUNT_WORDS: &str = "guestbook.count_words";
/// Maximum length of an entry, in characters.
const TEXT_MAX_CHARS: usize = 1_000;
const LISTED: i64 = 100;

pub struct Guestbook;

#[async_trait]
impl Extension for Guestbook {
    fn name(&self) -> &'static str {
        "guestbook"
    }

    fn tools(&self) -> Vec<SharedTool> {
        vec![Arc::new(Sign(ToolSpec {
            name: "sign_guestbook".to_owned(),
            description: "Writes an entry into the project's guestbook.".to_owned(),
            parameters: schema(&[Parameter::new(
                "text",
                Kind::Text,
                "the entry, at most 1,000 characters",
            )]),
            read_only: false,
            idempotent: true,
            destructive: false,
        }))]
    }

    fn jobs(&self) -> Vec<Arc<dyn JobHandler>> {
        vec![Arc::new(CountWords)]
    }

    fn routes(&self) -> Vec<Route> {
        vec![Route {
            method: Method::Get,
            path: "/entries",
            scope: Scope::Read,
            handler: Arc::new(List),
        }]
    }

    fn migrations(&self) -> &'static [Migration] {
        &[Migration {
            version: 1,
            sql: include_str!("schema.sql"),
        }]
    }
}

struct Sign(ToolSpec);

#[async_trait]
impl Tool for Sign {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    /// The entry and its job are one transaction. A call that is repeated after a crash has the same record, and so adds nothing.
    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        let arguments = Arguments::of(arguments);
        let text = arguments.required_text("text")?;
        if text.chars().count() > TEXT_MAX_CHARS {
            return Err(ToolError::RespondToModel(format!(
                "the entry is longer than {TEXT_MAX_CHARS} characters; shorten it"
            )));
        }
        let failed = |source: sqlx::Error| ToolError::Internal {
            attempted: "signing the guestbook".to_owned(),
            source: Box::new(source),
        };
        let mut tx = rejoin_db::begin(&context.db).await.map_err(failed)?;
        sqlx::query(
            "insert into guestbook.entries (id, project_id, text) values ($1, $2, $3) on conflict (id) do nothing",
        )
        .bind(context.record_id)
        .bind(context.workspace_id)
        .bind(text)
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
        let job = NewJob {
            workspace_id: context.workspace_id,
            unique_key: Some(format!("{COUNT_WORDS}:{}", context.record_id)),
            ..NewJob::new(COUNT_WORDS, json!({ "entryId": context.record_id }))
        };
        rejoin_queue::enqueue(&mut tx, &job).await.map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        Ok(json!({ "entryId": context.record_id }))
    }
}

struct CountWords;

#[async_trait]
impl JobHandler for CountWords {
    fn kind(&self) -> &'static str {
        COUNT_WORDS
    }

    async fn run(&self, host: &Host, job: &ClaimedJob, _: &Signals) -> Outcome {
        let counted = sqlx::query(
            "update guestbook.entries set words = array_length(regexp_split_to_array(trim(text), '\\s+'), 1)
             where id = ($1->>'entryId')::uuid",
        )
        .bind(&job.payload)
        .execute(&host.db)
        .await;
        match counted {
            Ok(_) => Outcome::Complete,
            Err(error) => Outcome::Retry {
                error: error.to_string(),
                after: None,
            },
        }
    }
}

struct List;

#[async_trait]
impl RouteHandler for List {
    async fn handle(&self, db: &mut PgConnection, _: RouteRequest) -> Result<Value, RouteError> {
        // No condition on the project: row-level security shows the caller's alone.
        let rows = sqlx::query("select id, text, words from guestbook.entries order by created_at desc limit $1")
            .bind(LISTED)
            .fetch_all(db)
            .await?;
        let entries: Result<Vec<Value>, sqlx::Error> = rows
            .iter()
            .map(|row| {
                Ok(json!({
                    "id": row.try_get::<sqlx::types::Uuid, _>("id")?,
                    "text": row.try_get::<String, _>("text")?,
                    "words": row.try_get::<Option<i32>, _>("words")?,
                }))
            })
            .collect();
        Ok(json!({ "items": entries? }))
    }
}
