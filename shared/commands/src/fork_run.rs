//! Forks a run: creates a run of the same agent that begins after a given step of the original, with an exact copy of
//! its records up to there and, optionally, a new user message; or a run of another agent that answers the same message. The original is not
//! changed.
//!
//! - `branch` the conversation of a fork

mod branch;

use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::steer_run::With;
use super::{Command, CommandError, steer_run};
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_identity::workspaces::Exhausted;
use rejoin_queue::NewJob;
use rejoin_runs::agents::{self, AgentDefinition};
use rejoin_runs::branches;
use rejoin_runs::client_tools;
use rejoin_runs::conversations;
use rejoin_runs::run_messages::{self, RunMessage};
use rejoin_runs::runs::resuming::MAX_TOTAL_STEPS;
use rejoin_runs::runs::{self, Run};
use rejoin_runs::tool_calls::{self, CallStatus, ToolCallRow};
use rejoin_types::file_ref::FileRef;
use rejoin_types::ids;
use rejoin_types::owner::Owner;

#[derive(Debug)]
pub struct ForkRun<'a> {
    pub run_id: Uuid,
    /// The last step of the source run to copy. 0: start from the beginning.
    pub step: i32,
    /// Appended after that step; for step 0, replaces the run's input.
    pub message: Option<&'a str>,
    /// The agent that answers instead of the source run's; for step 0 only.
    pub agent_definition_id: Option<Uuid>,
    /// The model that answers instead of the agent's, with its provider.
    pub model: Option<&'a str>,
    pub user_id: Option<Uuid>,
    /// Set if the workspace's quota is exhausted: nothing new starts then.
    pub exhausted: Option<Exhausted>,
}

#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error("there is no such run")]
    NotFound,
    /// The run can't be continued from that step.
    #[error("{0}")]
    Unfit(String),
    #[error("the project has used up its quota")]
    Exhausted(Exhausted),
    #[error("forking the run failed")]
    Database(#[from] sqlx::Error),
}

impl CommandError for ForkError {
    fn database(&self) -> Option<&sqlx::Error> {
        match self {
            ForkError::Database(error) => Some(error),
            ForkError::NotFound | ForkError::Unfit(_) | ForkError::Exhausted(_) => None,
        }
    }
}

impl Command for ForkRun<'_> {
    type Output = (Uuid, Wake);
    type Error = ForkError;

    /// Returns the new run's id and the wake-ups to send after the commit. Its cursor is 0: it has its own log.
    async fn apply(&self, db: &mut PgConnection) -> Result<(Uuid, Wake), ForkError> {
        if let Some(exhausted) = self.exhausted {
            return Err(ForkError::Exhausted(exhausted));
        }
        let source = runs::get(&mut *db, self.run_id).await?.ok_or(ForkError::NotFound)?;
        // Recording of further steps waits: the copy is consistent.
        log::lock(db, source.log_id).await?;
        let messages = run_messages::all(&mut *db, source.id).await?;
        let calls = tool_calls::all(&mut *db, source.id).await?;
        let messages: Vec<RunMessage> = messages
            .into_iter()
            .filter(|row| row.step_number <= self.step)
            .collect();
        let calls: Vec<ToolCallRow> = calls.into_iter().filter(|row| row.step_number <= self.step).collect();
        // A different agent may have been active at that step.
        let recorded = run_messages::agent_of(&messages).or(source.agent_definition_id);
        // It begins with its own prompt, not with the records of the other one.
        let is_other = self.agent_definition_id.is_some_and(|id| Some(id) != recorded);
        let agent = self.agent(db, &source, self.agent_definition_id.or(recorded)).await?;
        let definition_id = agent.as_ref().map(|definition| definition.id);
        self.check(&source, &messages, &calls, is_other)
            .map_err(ForkError::Unfit)?;

        let id = ids::new();
        let asked = branch::asked(db, &source).await?;
        let conversation_id = conversation_for(db, &source, definition_id).await?;
        let log_id = conversation_id.unwrap_or(id);
        if conversation_id.is_none() {
            log::create(db, id).await?;
        }
        let first_seq = match (source.conversation_id, conversation_id, asked) {
            (Some(from), Some(to), Some(asked)) => branch::copy_history(db, from, asked, to).await?,
            (_, _, _) => 0,
        };
        let instead = self.message.filter(|_| self.step == 0);
        // A changed input keeps the same files; a message after a later step has none.
        let files = match asked {
            Some(message_id) if self.step == 0 || self.message.is_none() => messages_files(db, message_id).await?,
            Some(_) | None => Vec::new(),
        };
        let run = runs::NewRun {
            id,
            spawned: None,
            workspace_id: source.workspace_id,
            conversation_id,
            user_id: self.user_id,
            agent_definition_id: definition_id,
            agent_name: agent.as_ref().map(|definition| definition.name.as_str()),
            log_id,
            message_id: None,
            input: instead.unwrap_or(&source.input),
            first_seq,
            timeout_s: source.timeout_s,
            task_id: None,
            // Another agent has its own.
            output_schema: source.output_schema.as_ref().filter(|_| !is_other),
            traceparent: None,
        };
        runs::insert(db, run).await?;
        runs::set_fork(db, id, source.id, self.step).await?;
        client_tools::copy(db, source.id, id).await?;
        if let Some(model) = self.model {
            runs::request_model(db, id, model).await?;
        }
        if let Some(fork) = runs::get(&mut *db, id)
            .await?
            .filter(|fork| fork.conversation_id.is_some())
        {
            let with = With {
                context: None,
                files: &files,
            };
            let (message_id, _) = steer_run::tell(db, &fork, self.message.unwrap_or(&source.input), with, &[]).await?;
            if let (Some(here), Some(of), Some(asked)) = (conversation_id, source.conversation_id, asked) {
                branches::record(db, here, message_id, of, asked).await?;
            }
            if is_other {
                // As a posted message: its first attempt reads the conversation.
                runs::set_message(db, id, message_id).await?;
            }
        }
        if !is_other {
            run_messages::copy(db, id, &messages).await?;
            tool_calls::copy(db, source.id, id, self.step).await?;
        }
        if let Some(message) = self.message.filter(|_| !is_other) {
            let mut content = json!({ "kind": "user", "text": message });
            match self.step {
                0 => {
                    if !files.is_empty() {
                        content["attachments"] = json!(files);
                    }
                    run_messages::replace_last(db, id, "user", &content).await?;
                }
                step => run_messages::append(db, id, ids::new(), "user", &content, step).await?,
            }
        }
        let job = NewJob {
            workspace_id: source.workspace_id,
            run_id: Some(id),
            concurrency_key: conversation_id.map(rejoin_queue::conversation_key),
            max_attempts: rejoin_queue::RUN_MAX_ATTEMPTS,
            ..NewJob::new(rejoin_queue::KIND_RUN, json!({}))
        };
        rejoin_queue::enqueue(db, &job).await?;
        Ok((id, Wake::queue(rejoin_queue::DEFAULT_QUEUE).and(Wake::log(log_id))))
    }

    async fn happened(&self, db: &mut PgConnection, (run_id, _): &(Uuid, Wake)) -> Result<bool, sqlx::Error> {
        Ok(runs::get(db, *run_id).await?.is_some())
    }
}

/// Returns the files of a chat message.
async fn messages_files(db: &mut PgConnection, message_id: Uuid) -> Result<Vec<FileRef>, sqlx::Error> {
    let metadata = rejoin_runs::messages::metadata(db, message_id).await?;
    Ok(rejoin_files::of_metadata(&metadata.unwrap_or_default()))
}

/// Content of a conversation stays its owner's: a fork of its run gets a new conversation of the same owner.
async fn conversation_for(
    db: &mut PgConnection,
    source: &Run,
    agent_definition_id: Option<Uuid>,
) -> Result<Option<Uuid>, sqlx::Error> {
    let Some(of) = source.conversation_id else {
        return Ok(None);
    };
    let known = sqlx::query!(
        "select owner_user_id, title from kb.chat_conversations where id = $1",
        of
    )
    .fetch_one(&mut *db)
    .await?;
    let owner = Owner {
        workspace_id: source.workspace_id,
        user_id: known.owner_user_id,
    };
    let id = ids::new();
    let metadata = json!({ "forkedFrom": source.id });
    conversations::create(db, id, owner, &known.title, agent_definition_id, &metadata).await?;
    Ok(Some(id))
}

impl ForkRun<'_> {
    /// The agent of the fork, if any.
    async fn agent(
        &self,
        db: &mut PgConnection,
        source: &Run,
        id: Option<Uuid>,
    ) -> Result<Option<AgentDefinition>, ForkError> {
        let definition = match id {
            Some(id) => agents::get(db, source.workspace_id, id).await?,
            None => None,
        };
        let why = match &definition {
            None if self.agent_definition_id.is_some() => {
                "there is no agent with this agentDefinitionId in the project; choose one that GET /api/projects/{p}/agents lists"
            }
            None if source.agent_name.is_some() => {
                "the agent definition of the run has been deleted, or the run answers a model call of a program, which has none"
            }
            Some(definition) if !definition.is_open() => {
                "the agent is internal and can be started only by other agents and tasks"
            }
            Some(_) | None => return Ok(definition),
        };
        Err(ForkError::Unfit(why.to_owned()))
    }

    /// Err: why the run can't be continued from there.
    fn check(
        &self,
        source: &Run,
        messages: &[RunMessage],
        calls: &[ToolCallRow],
        is_other: bool,
    ) -> Result<(), String> {
        let step = self.step;
        if is_other && (step > 0 || source.conversation_id.is_none()) {
            return Err("another agent answers a conversation's message from the beginning: use step 0 of a run of a conversation".to_owned());
        }
        if step > source.step_count {
            return Err(format!(
                "the run has {} steps; there is no step {step}",
                source.step_count
            ));
        }
        if step >= MAX_TOTAL_STEPS {
            return Err(format!(
                "a run can have at most {MAX_TOTAL_STEPS} steps; fork from an earlier one"
            ));
        }
        let is_open = |call: &ToolCallRow| match call.status() {
            CallStatus::Pending | CallStatus::Running => true,
            CallStatus::Completed | CallStatus::Error | CallStatus::OutcomeUnknown => false,
        };
        if calls.iter().any(is_open) {
            return Err(format!("the tool calls of step {step} have not ended yet"));
        }
        match messages.last() {
            None => Err("the run has not started yet".to_owned()),
            Some(last) if last.role == "assistant" && self.message.is_none() => Err(format!(
                "with step {step} it has answered: say with message what is to be answered, or fork from an earlier step"
            )),
            Some(_) => Ok(()),
        }
    }
}
