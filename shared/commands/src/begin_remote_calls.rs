//! Begins the calls of a step that users' programs execute. Their run keeps its slot, and is suspended afterwards if it waits longer; or it is
//! suspended at once.

use serde_json::Value;
use sqlx::PgConnection;

use super::{Command, FencedError};
use rejoin_event_log::log;
use rejoin_event_log::stream::Seen;
use rejoin_event_log::wakeup::Wake;
use rejoin_runs::remote_calls::NewRemoteCall;
use rejoin_runs::runs::Run;

use super::record_tool::started;

/// Begins calls: each is recorded as begun, and gets its job.
#[derive(Debug)]
pub struct BeginRemoteCalls<'a> {
    pub run: &'a Run,
    pub attempt: i32,
    /// What the attempt has seen of the log: appended events must follow it.
    pub seen: &'a Seen,
    pub calls: &'a [NewRemoteCall<'a>],
    /// Whether their start is published.
    pub publish: bool,
    /// Whether the run is suspended until they have ended: they are all that it waits for.
    pub suspends: bool,
}

impl Command for BeginRemoteCalls<'_> {
    type Output = (bool, Wake);
    type Error = FencedError;

    /// False: the run was cancelled, and nothing was begun (invariant I13).
    async fn apply(&self, db: &mut PgConnection) -> Result<(bool, Wake), FencedError> {
        let failed = FencedError::database("beginning the calls of users' programs");
        self.try_apply(db).await.map_err(failed)?.ok_or(FencedError::LeaseLost)
    }

    fn is_one_statement(&self) -> bool {
        true
    }

    fn committed(&self) {
        self.seen.committed();
    }
}

impl BeginRemoteCalls<'_> {
    async fn try_apply(&self, db: &mut PgConnection) -> Result<Option<(bool, Wake)>, sqlx::Error> {
        let run = self.run;
        let published = self.calls.iter().filter(|_| self.publish);
        let events: Vec<_> = published
            .map(|call| run.event(started(call.call_id, call.tool, call.input)))
            .collect();
        let (types, data) = log::columns(&events);
        let calls: Value = self.calls.iter().map(NewRemoteCall::to_json).collect();
        let begun = sqlx::query!(
            r#"select seq, may_act as "may_act!" from kb.begin_remote_calls($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"#,
            run.id,
            self.attempt,
            rejoin_queue::RUN_MAX_ATTEMPTS,
            run.log_id,
            run.root_run_id,
            self.seen.last(),
            run.workspace_id,
            run.conversation_id as _,
            calls,
            &types,
            &data,
            self.suspends
        )
        .fetch_optional(db)
        .await?;
        Ok(begun.map(|begun| {
            self.seen.appended(begun.seq.unwrap_or_default());
            let mut wake = Wake::default();
            if begun.may_act {
                self.calls.iter().for_each(|call| wake.merge(call.wake()));
                if self.publish {
                    wake.merge(Wake::log(run.log_id));
                }
            }
            (begun.may_act, wake)
        }))
    }
}
