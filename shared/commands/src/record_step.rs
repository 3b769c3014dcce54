//! Stores a model's answer before it is acted upon: the assistant's message, its tool calls as `pending`, the counters,
//! and the `usage` event. After this, a new attempt does not ask the model again.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Command, FencedError};
use rejoin_event_log::group_commit::Unwritten;
use rejoin_event_log::log;
use rejoin_event_log::stream::Seen;
use rejoin_event_log::wakeup::Wake;
use rejoin_runs::runs::{Run, TreeUse};
use rejoin_types::events::Kind;
use rejoin_types::ids;

/// A tool call requested by the model.
#[derive(Debug)]
pub struct AskedCall<'a> {
    /// The row's id, made by the caller.
    pub id: Uuid,
    pub call_id: &'a str,
    pub tool_name: &'a str,
    pub input: &'a Value,
}

#[derive(Debug)]
pub struct RecordStep<'a> {
    pub run: &'a Run,
    pub attempt: i32,
    /// What the attempt has seen of the log: appended events must follow it.
    pub seen: &'a Seen,
    /// The row of the assistant's message, made by the caller.
    pub message_id: Uuid,
    /// 1 for the first model call of the run.
    pub step_number: i32,
    /// The step's last streamed events, which the writer has given back: they precede its `usage`.
    pub streamed: &'a [Unwritten],
    /// Messages (limits) inserted before the model was called in this step: (role, content).
    pub injected: &'a [(&'static str, Value)],
    pub assistant: &'a Value,
    pub calls: &'a [AskedCall<'a>],
    /// The `usage` event: sums over the run.
    pub usage: Kind,
    /// The same, as the run stores it.
    pub usage_json: &'a Value,
    /// Tokens of this step alone.
    pub tokens: u64,
    pub cost_usd: f64,
    /// Steering messages among the injected ones.
    pub steering_messages: &'a [i64],
    /// Whether usage is published: not without a stream callback.
    pub publish: bool,
}

/// A recorded step.
#[derive(Debug)]
pub struct Recorded {
    /// The usage of the whole tree.
    pub tree: TreeUse,
    /// Whether the run has pending steering messages.
    pub has_pending: bool,
    pub wake: Wake,
}

impl Command for RecordStep<'_> {
    type Output = Recorded;
    type Error = FencedError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Recorded, FencedError> {
        let failed = FencedError::database("storing the step");
        self.try_apply(db).await.map_err(failed)?.ok_or(FencedError::LeaseLost)
    }

    fn is_one_statement(&self) -> bool {
        true
    }

    fn committed(&self) {
        self.seen.committed();
    }
}

/// The step's messages, and its events.
pub(super) struct StepColumns {
    pub ids: Vec<Uuid>,
    pub roles: Vec<String>,
    pub contents: Vec<Value>,
    pub types: Vec<String>,
    pub data: Vec<String>,
}

impl RecordStep<'_> {
    /// The arguments of `kb.record_step` that are lists.
    pub(super) fn columns(&self) -> StepColumns {
        let injected = self.injected.iter();
        let (mut ids, mut roles, mut contents): (Vec<_>, Vec<_>, Vec<_>) = injected
            .map(|(role, content)| (ids::new(), (*role).to_owned(), content.clone()))
            .collect();
        ids.push(self.message_id);
        roles.push("assistant".to_owned());
        contents.push(self.assistant.clone());
        let streamed = self.streamed.iter();
        let (mut types, mut data): (Vec<_>, Vec<_>) = streamed
            .map(|event| (event.kind.to_owned(), event.data.clone()))
            .unzip();
        if self.publish {
            let (usage_type, usage) = log::columns(&[self.run.event(self.usage.clone())]);
            types.extend(usage_type);
            data.extend(usage);
        }
        StepColumns {
            ids,
            roles,
            contents,
            types,
            data,
        }
    }

    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<Recorded>, sqlx::Error> {
        let run = self.run;
        let StepColumns {
            ids,
            roles,
            contents,
            types,
            data,
        } = self.columns();
        let calls: Vec<Uuid> = self.calls.iter().map(|call| call.id).collect();
        let call_ids: Vec<String> = self.calls.iter().map(|call| call.call_id.to_owned()).collect();
        let tools: Vec<String> = self.calls.iter().map(|call| call.tool_name.to_owned()).collect();
        let inputs: Vec<Value> = self.calls.iter().map(|call| call.input.clone()).collect();
        let recorded = sqlx::query!(
            r#"select seq as "seq!", tree_tokens as "tokens!", tree_cost_usd as "cost_usd!", has_pending as "has_pending!"
               from kb.record_step($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)"#,
            run.id,
            self.attempt,
            rejoin_queue::RUN_MAX_ATTEMPTS,
            run.log_id,
            run.root_run_id,
            self.seen.last(),
            self.step_number,
            &ids,
            &roles,
            &contents,
            &calls,
            &call_ids,
            &tools,
            &inputs,
            &types,
            &data,
            self.usage_json,
            i64::try_from(self.tokens).unwrap_or(i64::MAX),
            self.cost_usd,
            self.steering_messages
        )
        .fetch_optional(db)
        .await?;
        Ok(recorded.map(|recorded| {
            self.seen.appended(recorded.seq);
            Recorded {
                tree: TreeUse {
                    tokens: recorded.tokens,
                    cost_usd: recorded.cost_usd,
                },
                has_pending: recorded.has_pending,
                wake: Wake::log(run.log_id),
            }
        }))
    }
}
