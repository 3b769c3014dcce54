//! Hands a run over to another agent: the requesting call ends, and the run, its conversation and its records belong to
//! the new agent. One transaction, so that any later attempt continues as that agent (requirements D17-D19).

use serde_json::{Value, json};
use sqlx::PgConnection;

use super::record_tool::append_and_move_safe_point;
use super::{Command, FencedError, ToolsEnded};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::fencing;
use rejoin_runs::agents::AgentDefinition;
use rejoin_runs::run_messages;
use rejoin_types::events::Kind;
use rejoin_types::ids;

#[derive(Debug)]
pub struct TransferRun<'a> {
    /// The end of the requesting call.
    pub call: ToolsEnded<'a>,
    /// The previous agent.
    pub from: &'a str,
    /// The new agent.
    pub to: &'a AgentDefinition,
    /// The new agent's model.
    pub model: &'a str,
    /// The new agent's system prompt.
    pub prompt: &'a str,
    pub reason: Option<&'a str>,
}

impl Command for TransferRun<'_> {
    type Output = (bool, Wake);
    type Error = FencedError;

    fn committed(&self) {
        self.call.committed();
    }

    /// False: the run was cancelled, and keeps its agent.
    async fn apply(&self, db: &mut PgConnection) -> Result<(bool, Wake), FencedError> {
        let failed = FencedError::database("handing the run over");
        let may = self.begin(db).await.map_err(failed)?.ok_or(FencedError::LeaseLost)?;
        if !may {
            return Ok((false, Wake::default()));
        }
        let wake = self.call.apply(db).await?.wake;
        let failed = FencedError::database("handing the run over");
        self.transfer(db).await.map_err(failed)?;
        Ok((true, wake))
    }

    async fn happened(&self, db: &mut PgConnection, (may, _): &(bool, Wake)) -> Result<bool, sqlx::Error> {
        let ended = sqlx::query_scalar!(
            r#"select exists (select from kb.agent_run_tool_calls where id = $1 and completed_at is not null) as "ended!""#,
            self.call.calls.first().map(|call| call.id)
        );
        Ok(*may && ended.fetch_one(db).await?)
    }
}

impl TransferRun<'_> {
    /// Returns whether the run may still be handed over. None: the lease is lost.
    async fn begin(&self, db: &mut PgConnection) -> Result<Option<bool>, sqlx::Error> {
        let run = self.call.run;
        if fencing::fence(db, run.id, self.call.attempt).await?.is_none() {
            return Ok(None);
        }
        log::lock(db, run.log_id).await?;
        let cancelled = sqlx::query_scalar!(
            r#"select cancel_requested_at is not null as "cancelled!" from kb.agent_runs where id = $1 for update"#,
            run.id
        );
        Ok(Some(!cancelled.fetch_one(db).await?))
    }

    async fn transfer(&self, db: &mut PgConnection) -> Result<(), sqlx::Error> {
        let (run, to) = (self.call.run, self.to);
        let prompt = run_messages::system_prompt(self.prompt, Some(to.id));
        run_messages::append(db, run.id, ids::new(), "system", &prompt, self.call.step_number).await?;
        sqlx::query!(
            "update kb.agent_runs set agent_definition_id = $2, agent_name = $3, model = $4, requested_model = null where id = $1",
            run.id,
            to.id,
            to.name,
            self.model
        )
        .execute(&mut *db)
        .await?;
        if let (Some(conversation), false) = (run.conversation_id, run.is_sub_agent()) {
            // The conversation keeps its new agent.
            sqlx::query!(
                "update kb.chat_conversations set agent_definition_id = $2, agent_version = null where id = $1",
                conversation,
                to.id
            )
            .execute(&mut *db)
            .await?;
        }
        if !self.call.publish {
            return Ok(());
        }
        let handoff = Kind::Handoff {
            from: self.from.to_owned(),
            to: to.name.clone(),
            agent_definition_id: Some(to.id),
            reason: self.reason.map(str::to_owned),
        };
        append_and_move_safe_point(db, run, handoff).await.map(|_| ())
    }
}

/// The call's result, also read by later attempts: the previous and the new agent.
pub fn output(from: &str, to: &str) -> Value {
    json!({ "from": from, "transferred_to": to })
}
