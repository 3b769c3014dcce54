//! The job that sends one delivery. The queue keeps the order of an endpoint's deliveries about one conversation: the next one is claimable
//! once this job has ended, because the delivery was accepted or is dead. Until then each failure postpones the job.
//!
//! Invariants: an attempt is counted before its request is sent, and its result is recorded before the job ends, so that a worker that dies
//! in between causes another attempt, with the same `webhook-id`; the request passes the egress guard.

use std::time::Duration;

use async_trait::async_trait;
use rejoin_egress::fetch::Answer;
use rejoin_egress::fetch::FetchError;
use rejoin_extension::{Host, JobHandler, Signals};
use rejoin_integrations::webhook_secrets;
use rejoin_queue::{ClaimedJob, Outcome};
use rejoin_secrets::{Plaintext, SecretError};
use reqwest::header::{CONTENT_TYPE, USER_AGENT};
use sqlx::PgPool;
use tracing::info;
use url::Url;
use uuid::Uuid;

use crate::Webhooks;
use crate::attempt::{Attempted, Verdict};
use crate::deliveries::{self, Attempt, Next};
use crate::endpoints;
use crate::signature;

/// The kind of the job; `kb.enqueue_webhook_delivery` enqueues it.
const KIND: &str = "webhook.deliver";
/// The User-Agent header.
const AGENT: &str = concat!("Rejoin-Webhooks/", env!("CARGO_PKG_VERSION"));
/// Maximum size of the part of a response that is read, in bytes.
const RESPONSE_MAX_BYTES: usize = 4 * 1024;
/// Delay of a delivery while all slots of the process, or of its endpoint, are in use.
const BUSY_DELAY: Duration = Duration::from_secs(1);
/// Delay of a delivery whose secret can't be decrypted: the operator has to set a master key.
const NO_SECRET_DELAY: Duration = Duration::from_secs(60);

/// Sends deliveries.
pub(crate) struct SendDeliveries(pub(crate) Webhooks);

#[async_trait]
impl JobHandler for SendDeliveries {
    fn kind(&self) -> &'static str {
        KIND
    }

    /// A drain waits for the attempt, whose timeout is shorter than that of a drain.
    async fn run(&self, host: &Host, job: &ClaimedJob, signals: &Signals) -> Outcome {
        let Some(id) = job.payload["deliveryId"].as_str().and_then(|id| id.parse().ok()) else {
            return Outcome::Fail {
                error: "the job has no delivery id".to_owned(),
            };
        };
        let done = tokio::select! {
            biased;
            () = signals.lost.cancelled() => return Outcome::Release,
            done = self.deliver(&host.db, id) => done,
        };
        done.unwrap_or_else(|error| Outcome::Retry {
            error: error.to_string(),
            after: None,
        })
    }
}

impl SendDeliveries {
    async fn deliver(&self, db: &PgPool, id: Uuid) -> Result<Outcome, sqlx::Error> {
        let Some(due) = deliveries::due(db, id).await? else {
            return Ok(Outcome::Complete);
        };
        if due.is_disabled {
            deliveries::note(db, id, "the webhook is disabled", true).await?;
            return Ok(Outcome::Complete);
        }
        let Some(_slot) = self.0.slots.take(due.endpoint_id) else {
            return Ok(Outcome::Snooze { after: BUSY_DELAY });
        };
        let secrets = match self.secrets(db, due.endpoint_id).await {
            Ok(secrets) => secrets,
            Err(SecretProblem::Database(error)) => return Err(error),
            Err(SecretProblem::Unreadable(error)) => {
                deliveries::note(db, id, &error, false).await?;
                return Ok(Outcome::Snooze { after: NO_SECRET_DELAY });
            }
        };
        let Some(attempt) = deliveries::begin(db, id).await? else {
            // Disabled or replaced meanwhile: the next attempt finds out.
            return Ok(Outcome::Snooze { after: BUSY_DELAY });
        };
        let attempted = match self.send(id, &attempt, &secrets).await {
            Ok(answered) => Attempted::of(&answered),
            Err(refused) => Attempted::failed(refused),
        };
        self.conclude(db, id, due.endpoint_id, &attempt, &attempted).await
    }

    async fn secrets(&self, db: &PgPool, endpoint_id: Uuid) -> Result<Vec<Plaintext>, SecretProblem> {
        let keys = self
            .0
            .keys()
            .map_err(|error| SecretProblem::Unreadable(error.to_owned()))?;
        match webhook_secrets::open(db, keys, endpoint_id).await {
            Ok(secrets) => Ok(secrets),
            Err(SecretError::Database(error)) => Err(SecretProblem::Database(error)),
            Err(error) => Err(SecretProblem::Unreadable(error.to_string())),
        }
    }

    /// Sends the signed request. Err: it was not sent, and why.
    async fn send(
        &self,
        id: Uuid,
        attempt: &Attempt,
        secrets: &[Plaintext],
    ) -> Result<Result<Answer, FetchError>, String> {
        let url = Url::parse(&attempt.url).map_err(|error| format!("the URL is invalid: {error}"))?;
        // Again: the operator's list may have changed.
        self.0.check(&url)?;
        let id = id.to_string();
        let signed = signature::signatures(secrets, &id, attempt.timestamp, &attempt.payload)
            .filter(|signed| !signed.is_empty())
            .ok_or("the webhook has no valid secret; rotate its secret")?;
        let request = |client: reqwest::Client| {
            client
                .post(url.clone())
                .header(CONTENT_TYPE, "application/json")
                .header(USER_AGENT, AGENT)
                .header("webhook-id", id)
                .header("webhook-timestamp", attempt.timestamp.to_string())
                .header("webhook-signature", signed)
                .body(attempt.payload.clone())
        };
        Ok(self.0.fetcher.deliver(&url, request, RESPONSE_MAX_BYTES).await)
    }

    async fn conclude(
        &self,
        db: &PgPool,
        id: Uuid,
        endpoint_id: Uuid,
        attempt: &Attempt,
        attempted: &Attempted,
    ) -> Result<Outcome, sqlx::Error> {
        let next = match attempted.verdict {
            Verdict::Delivered => Next::Delivered,
            Verdict::Gone => {
                endpoints::disable_gone(db, endpoint_id).await?;
                info!(webhook = %endpoint_id, "the receiver responded 410; the webhook is disabled");
                Next::Dead
            }
            Verdict::Failed { retry_after } => match self.0.delay_after(attempt.attempt) {
                Some(delay) => Next::Retry(delay.max(retry_after.unwrap_or_default())),
                None => Next::Dead,
            },
        };
        deliveries::record(db, id, attempt.attempt, attempted, next).await?;
        let outcome = match next {
            Next::Delivered => "delivered",
            Next::Dead => "dead",
            Next::Retry(_) => "failed",
        };
        metrics::counter!("rejoin_webhook_attempts_total", "outcome" => outcome).increment(1);
        Ok(match next {
            Next::Delivered | Next::Dead => Outcome::Complete,
            Next::Retry(after) => Outcome::Snooze { after },
        })
    }
}

/// Why there are no secrets.
enum SecretProblem {
    Database(sqlx::Error),
    /// In words for an admin.
    Unreadable(String),
}
