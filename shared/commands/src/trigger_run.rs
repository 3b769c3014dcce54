//! Starts a run outside a conversation, with its own log.

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Command, Idempotency, PostError, execute_plan};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_identity::workspaces::Exhausted;
use rejoin_queue::NewJob;
use rejoin_runs::agents::AgentDefinition;
use rejoin_runs::runs;
use rejoin_runs::runs::part::Part;
use rejoin_types::ids;
use rejoin_types::owner::Owner;

#[derive(Debug)]
pub struct TriggerRun<'a> {
    pub definition: &'a AgentDefinition,
    pub user_id: Option<Uuid>,
    pub input: String,
    pub idempotency: Option<Idempotency>,
    /// The JSON Schema that the answer must match.
    pub output_schema: Option<Value>,
    /// Set if the workspace's quota is exhausted: nothing new starts then.
    pub exhausted: Option<Exhausted>,
    /// The run's part in a plan or DAG, if any.
    pub part: Option<Part>,
    /// The span that starts it, as `traceparent`.
    pub traceparent: Option<String>,
}

impl Command for TriggerRun<'_> {
    type Output = (Uuid, Wake);
    type Error = PostError;

    /// Returns the run's id (also its log's) and the wake-ups to send after the commit. Its cursor is 0.
    async fn apply(&self, db: &mut PgConnection) -> Result<(Uuid, Wake), PostError> {
        let id = ids::new();
        if let (Some(idempotency), Some(user_id)) = (&self.idempotency, self.user_id) {
            let owner = Owner {
                workspace_id: self.definition.workspace_id,
                user_id,
            };
            if let Some(earlier) = idempotency.claim(db, owner, id).await? {
                return Ok((earlier.run_id, Wake::default()));
            }
        }
        if let Some(exhausted) = self.exhausted {
            return Err(PostError::Exhausted(exhausted));
        }
        log::create(db, id).await?;
        let run = runs::NewRun {
            id,
            spawned: None,
            workspace_id: self.definition.workspace_id,
            conversation_id: None,
            user_id: self.user_id,
            agent_definition_id: Some(self.definition.id),
            agent_name: Some(&self.definition.name),
            log_id: id,
            message_id: None,
            input: &self.input,
            first_seq: 0,
            timeout_s: None,
            task_id: None,
            output_schema: self.output_schema.as_ref(),
            traceparent: self.traceparent.as_deref(),
        };
        runs::insert(db, run).await?;
        if let Some(part) = &self.part {
            execute_plan::set_part(db, id, part).await?;
        }
        let job = NewJob {
            workspace_id: self.definition.workspace_id,
            run_id: Some(id),
            max_attempts: rejoin_queue::RUN_MAX_ATTEMPTS,
            ..NewJob::new(rejoin_queue::KIND_RUN, json!({}))
        };
        rejoin_queue::enqueue(db, &job).await?;
        Ok((id, Wake::queue(rejoin_queue::DEFAULT_QUEUE)))
    }

    async fn happened(&self, db: &mut PgConnection, (run_id, _): &(Uuid, Wake)) -> Result<bool, sqlx::Error> {
        let known = sqlx::query_scalar!(
            r#"select exists (select from kb.agent_runs where id = $1) as "there!""#,
            run_id
        );
        known.fetch_one(db).await
    }
}
