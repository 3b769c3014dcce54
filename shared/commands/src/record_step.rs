//! Stores a model's answer before it is acted upon: the assistant's message, its tool calls as `pending`, the counters,
//! and the `usage` event. After this, a new attempt does not ask the model again.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Command, FencedError};
use rejoin_event_log::log;
use rejoin_event_log::stream::Seen;
use rejoin_event_log::wakeup::Wake;
use rejoin_queue::fencing;
use rejoin_runs::runs::{self, Run, TreeUse};
use rejoin_runs::{run_messages, steering, tool_calls};
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
    pub wake: Wake,
}

impl Command for RecordStep<'_> {
    type Output = Recorded;
    type Error = FencedError;

    async fn apply(&self, db: &mut PgConnection) -> Result<Recorded, FencedError> {
        let failed = FencedError::database("storing the step");
        self.try_apply(db).await.map_err(failed)?.ok_or(FencedError::LeaseLost)
    }

    async fn happened(&self, db: &mut PgConnection, _: &Recorded) -> Result<bool, sqlx::Error> {
        let known = sqlx::query_scalar!(
            r#"select exists (select from kb.agent_run_messages where id = $1) as "there!""#,
            self.message_id
        );
        known.fetch_one(db).await
    }

    fn committed(&self) {
        self.seen.committed();
    }
}

impl RecordStep<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<Recorded>, sqlx::Error> {
        let run = self.run;
        if fencing::fence_progress(db, run.id, self.attempt).await?.is_none() {
            return Ok(None);
        }
        for (role, content) in self.injected {
            run_messages::append(db, run.id, ids::new(), role, content, self.step_number).await?;
        }
        run_messages::append(
            db,
            run.id,
            self.message_id,
            "assistant",
            self.assistant,
            self.step_number,
        )
        .await?;
        for (position, call) in (0..).zip(self.calls) {
            tool_calls::insert(
                db,
                call.id,
                run.id,
                self.message_id,
                call.call_id,
                self.step_number,
                position,
                call.tool_name,
                call.input,
            )
            .await?;
        }
        let usage = [run.event(self.usage.clone())];
        let seq = if self.publish {
            let seq = log::append(db, run.log_id, Some(run.root_run_id), &usage).await?;
            if !self.seen.follows(seq, 1) {
                return Ok(None);
            }
            seq
        } else {
            run.safe_seq.unwrap_or(run.first_seq)
        };
        steering::remove(db, self.steering_messages).await?;
        let tree = runs::record_step(
            db,
            run,
            self.step_number,
            self.usage_json,
            seq,
            (self.tokens, self.cost_usd),
        )
        .await?;
        Ok(Some(Recorded {
            tree,
            wake: Wake::log(run.log_id),
        }))
    }
}
