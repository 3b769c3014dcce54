//! Stores what a client returned for a call of one of its tools, found by the call's id. The run resumes when all of the
//! step's calls are answered.

use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{AnswerError, CloseQuestion, Closing, Command, execute_for};
use rejoin_db::rls;
use rejoin_event_log::log;
use rejoin_event_log::wakeup::Wake;
use rejoin_runs::client_calls::{self, CallsOf};
use rejoin_runs::client_tools::ClientOutput;
use rejoin_types::owner::Owner;

#[derive(Debug)]
pub struct AnswerClientTool<'a> {
    pub owner: Owner,
    pub of: CallsOf,
    /// The model's id of the call.
    pub call_id: &'a str,
    pub output: ClientOutput<'a>,
}

/// A stored output.
#[derive(Debug, Clone, PartialEq)]
pub struct AnsweredTool {
    pub question_id: Uuid,
    pub run_id: Uuid,
    /// The log's number just before the answer: a reader that starts here sees how the run goes on.
    pub cursor: i64,
    /// Wake-ups to send after the commit.
    pub wake: Wake,
}

/// Stores the output in its own transaction, on behalf of the caller; only runs that the caller may see are looked at.
/// The wake-ups of the result are to be sent afterwards.
pub async fn answer_client_tool(
    db: &PgPool,
    caller: Owner,
    of: CallsOf,
    call_id: &str,
    output: ClientOutput<'_>,
) -> Result<AnsweredTool, AnswerError> {
    let command = AnswerClientTool {
        owner: caller,
        of,
        call_id,
        output,
    };
    execute_for(db, rls::Scope::User(caller), &command).await
}

impl Command for AnswerClientTool<'_> {
    type Output = AnsweredTool;
    type Error = AnswerError;

    async fn apply(&self, db: &mut PgConnection) -> Result<AnsweredTool, AnswerError> {
        let Some(call) = client_calls::find(&mut *db, self.owner, self.of, self.call_id).await? else {
            let waiting = client_calls::pending(&mut *db, self.owner, self.of).await?;
            return Err(AnswerError::NoSuchCall {
                call_id: self.call_id.to_owned(),
                waiting: waiting.into_iter().map(|call| call.call_id).collect(),
            });
        };
        log::lock(db, call.log_id).await?;
        let cursor = sqlx::query_scalar!("select last_seq from stream.log_ends where log_id = $1", call.log_id)
            .fetch_optional(&mut *db)
            .await?
            .flatten()
            .unwrap_or_default();
        let answer = self.output.to_answer().map_err(AnswerError::Unfit)?;
        let close = CloseQuestion {
            id: call.question_id,
            closing: Closing::Returned {
                answer: &answer,
                user_id: self.owner.user_id,
            },
        };
        let wake = close.apply(db).await?;
        Ok(AnsweredTool {
            question_id: call.question_id,
            run_id: call.run_id,
            cursor,
            wake,
        })
    }

    async fn happened(&self, db: &mut PgConnection, answered: &AnsweredTool) -> Result<bool, sqlx::Error> {
        let closed = sqlx::query_scalar!(
            r#"select exists (select from kb.questions where id = $1 and status <> 'pending') as "closed!""#,
            answered.question_id
        );
        closed.fetch_one(db).await
    }
}
