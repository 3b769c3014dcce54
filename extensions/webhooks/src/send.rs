//! The job that sends one delivery, of a webhook or of a push notification config. The queue keeps the order of an endpoint's deliveries about one
//! conversation or task: the next one is claimable once this job has ended, because the delivery was accepted or is dead. Until then each
//! failure postpones the job.
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
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use sqlx::PgPool;
use tracing::info;
use url::Url;
use uuid::Uuid;

use crate::Webhooks;
use crate::attempt::{Attempted, Verdict};
use crate::deliveries::{self, Attempt, Due, Next};
use crate::endpoints;
use crate::notification;
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
            done = self.deliver(host, id) => done,
        };
        done.unwrap_or_else(|error| Outcome::Retry {
            error: error.to_string(),
            after: None,
        })
    }
}

impl SendDeliveries {
    async fn deliver(&self, host: &Host, id: Uuid) -> Result<Outcome, sqlx::Error> {
        let db = &host.db;
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
        let message = match self.message(host, &due).await {
            Ok(message) => message,
            Err(NotReady::Database(error)) => return Err(error),
            Err(NotReady::Unreadable(error)) => {
                deliveries::note(db, id, &error, false).await?;
                return Ok(Outcome::Snooze { after: NO_SECRET_DELAY });
            }
        };
        let Some(attempt) = deliveries::begin(db, id).await? else {
            // Disabled or replaced meanwhile: the next attempt finds out.
            return Ok(Outcome::Snooze { after: BUSY_DELAY });
        };
        let attempted = match self.send(id, &attempt, message).await {
            Ok(answered) => Attempted::of(&answered),
            Err(refused) => Attempted::failed(refused),
        };
        self.conclude(db, id, due.endpoint_id, &attempt, &attempted).await
    }

    /// Prepares what is sent, before the attempt is counted.
    async fn message(&self, host: &Host, due: &Due) -> Result<Message, NotReady> {
        let db = &host.db;
        let Some(log_seq) = due.log_seq else {
            return Ok(Message::Event(self.secrets(db, due.endpoint_id).await?));
        };
        let secrets = if due.has_secret {
            self.secrets(db, due.endpoint_id).await?
        } else {
            Vec::new()
        };
        let body = notification::body(db, &*host.archive, &self.0.origin, &due.payload, log_seq).await;
        Ok(Message::Task {
            headers: notification::headers(due.auth_scheme.as_deref(), &secrets),
            body: body.map_err(NotReady::Database)?,
        })
    }

    async fn secrets(&self, db: &PgPool, endpoint_id: Uuid) -> Result<Vec<Plaintext>, NotReady> {
        let keys = self.0.keys().map_err(|error| NotReady::Unreadable(error.to_owned()))?;
        match webhook_secrets::open(db, keys, endpoint_id).await {
            Ok(secrets) => Ok(secrets),
            Err(SecretError::Database(error)) => Err(NotReady::Database(error)),
            Err(error) => Err(NotReady::Unreadable(error.to_string())),
        }
    }

    /// Sends the request. Err: it was not sent, and why.
    async fn send(&self, id: Uuid, attempt: &Attempt, message: Message) -> Result<Result<Answer, FetchError>, String> {
        let url = Url::parse(&attempt.url).map_err(|error| format!("the URL is invalid: {error}"))?;
        // Again: the operator's list may have changed.
        self.0.check(&url)?;
        let id = id.to_string();
        let (headers, body) = match message {
            Message::Event(secrets) => (signed(&secrets, &id, attempt)?, attempt.payload.clone()),
            Message::Task { headers, body } => (headers?, body),
        };
        let request = |client: reqwest::Client| {
            client
                .post(url.clone())
                .headers(headers)
                .header(USER_AGENT, AGENT)
                .header("webhook-id", id)
                .body(body)
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

/// Returns the headers of a webhook's event: its media type, the time of the attempt, and the signatures.
fn signed(secrets: &[Plaintext], id: &str, attempt: &Attempt) -> Result<HeaderMap, String> {
    let signatures = signature::signatures(secrets, id, attempt.timestamp, &attempt.payload)
        .filter(|signatures| !signatures.is_empty())
        .and_then(|signatures| HeaderValue::try_from(signatures).ok())
        .ok_or("the webhook has no valid secret; rotate its secret")?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("webhook-timestamp", HeaderValue::from(attempt.timestamp));
    headers.insert("webhook-signature", signatures);
    Ok(headers)
}

/// What is sent.
enum Message {
    /// A webhook's event, which these secrets sign.
    Event(Vec<Plaintext>),
    /// A task, to its client. No headers: why it can't be sent.
    Task {
        headers: Result<HeaderMap, String>,
        body: String,
    },
}

/// Why there is nothing to send yet.
enum NotReady {
    Database(sqlx::Error),
    /// The secrets can't be read: in words for an admin.
    Unreadable(String),
}
