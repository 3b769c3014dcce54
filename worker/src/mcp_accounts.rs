//! Users' accounts at MCP servers: the jobs that the API enqueues, since only workers call servers and read secrets; the
//! revocation of disconnected accounts; and the questions that wait for an account.
//!
//! Called by the poller (jobs) and by `maintenance` (sweeps).

use async_trait::async_trait;
use rejoin_commands::{AnswerError, CloseQuestion, Closing};
use rejoin_event_log::wakeup::Wake;
use rejoin_extension::Signals;
use rejoin_integrations::mcp::accounts::{self, KIND_DISCONNECT};
use rejoin_integrations::mcp::consents::{self, KIND_EXCHANGE, KIND_PLAN};
use rejoin_queue::{ClaimedJob, NewJob, Outcome};
use rejoin_runs::forms::ACCEPT;
use rejoin_runs::questions::connecting;
use serde_json::json;
use uuid::Uuid;

use crate::jobs::Handler;
use crate::services::Services;

/// Maximum number of questions answered per sweep.
const QUESTIONS: i64 = 100;

/// A job about a user's account.
#[derive(Debug, Clone, Copy)]
pub enum AccountJob {
    /// Finds out where a user is sent.
    Plan,
    /// Exchanges the code that a user has brought back.
    Exchange,
    /// Revokes the tokens of a disconnected account.
    Disconnect,
}

#[async_trait]
impl Handler for AccountJob {
    fn kind(&self) -> &'static str {
        match self {
            Self::Plan => KIND_PLAN,
            Self::Exchange => KIND_EXCHANGE,
            Self::Disconnect => KIND_DISCONNECT,
        }
    }

    async fn handle(&self, services: &Services, job: &ClaimedJob, signals: &Signals) -> Outcome {
        let Some(id) = job.payload["id"].as_str().and_then(|id| Uuid::parse_str(id).ok()) else {
            return Outcome::Fail {
                error: "the job names no account or consent".to_owned(),
            };
        };
        let connections = services.pools.connections();
        let done = async {
            match self {
                Self::Plan => connections.plan_consent(id).await,
                Self::Exchange => {
                    connections.exchange_code(id).await?;
                    answer_connected(services).await
                }
                Self::Disconnect => connections.revoke_account(id).await,
            }
        };
        tokio::select! {
            done = done => match done {
                Ok(()) => Outcome::Complete,
                Err(error) => Outcome::Retry {
                    error: error.to_string(),
                    after: None,
                },
            },
            () = signals.drain.cancelled() => Outcome::Release,
        }
    }
}

/// Answers the questions that wait for accounts which are connected by now: their runs go on.
pub(crate) async fn answer_connected(services: &Services) -> Result<(), sqlx::Error> {
    let answer = json!(ACCEPT);
    for question in connecting::settled(&services.db.pool_sqlx, QUESTIONS).await? {
        let close = CloseQuestion {
            id: question.id,
            closing: Closing::Answer {
                answer: &answer,
                input: None,
                user_id: question.user_id,
            },
        };
        match services.execute(&close).await {
            // Its user, or another worker, was faster.
            Ok(_)
            | Err(
                AnswerError::Closed { .. }
                | AnswerError::NotFound
                | AnswerError::NoSuchCall { .. }
                | AnswerError::Unfit(_),
            ) => {}
            Err(AnswerError::Database(error)) => return Err(error),
        }
    }
    Ok(())
}

/// Enqueues the jobs that revoke disconnected accounts.
pub(crate) async fn revoke_disconnected(services: &Services) -> Result<(), sqlx::Error> {
    let db = &services.db.pool_sqlx;
    let left = accounts::to_revoke(db).await?;
    if left.is_empty() {
        return Ok(());
    }
    let mut connection = db.acquire().await?;
    for (workspace_id, id) in left {
        let job = NewJob {
            workspace_id,
            unique_key: Some(format!("{KIND_DISCONNECT}:{id}")),
            ..NewJob::new(KIND_DISCONNECT, json!({ "id": id }))
        };
        rejoin_queue::enqueue(&mut connection, &job).await?;
    }
    services.bus.publish(Wake::queue(rejoin_queue::DEFAULT_QUEUE));
    Ok(())
}

/// Disconnects accounts of users who have left their project, and removes abandoned consents.
pub(crate) async fn tidy(services: &Services) -> Result<(), sqlx::Error> {
    let db = &services.db.pool_sqlx;
    accounts::disconnect_strangers(db).await?;
    consents::sweep(db).await
}
