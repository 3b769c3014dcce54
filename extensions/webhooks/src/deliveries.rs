//! Deliveries of webhooks and of push notification configs: rows of `kb.webhook_deliveries`, each of one event for one endpoint. The database's
//! triggers add them; workers send them, fenced by the number of the attempt; admins list and replay those of webhooks.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::attempt::Attempted;
use crate::endpoints::TEST_EVENT;

/// Maximum number of dead deliveries that one request replays.
pub const MAX_REPLAYED: i64 = 1_000;

rejoin_types::text_enum! {
    /// The state of a delivery.
    pub enum State {
        Pending = "pending",
        Delivered = "delivered",
        /// Given up.
        Dead = "dead",
    }
}

/// A delivery as listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: Uuid,
    /// The order in which deliveries were added.
    pub number: i64,
    pub event: String,
    pub payload: String,
    pub state: String,
    pub attempts: i32,
    pub last_attempt_at: Option<DateTime<Utc>>,
    pub next_attempt_at: Option<DateTime<Utc>>,
    pub last_status: Option<i32>,
    pub last_error: Option<String>,
    pub created_at: DateTime<Utc>,
    pub ended_at: Option<DateTime<Utc>>,
}

/// Returns a page of an endpoint's deliveries, the newest first, before the number `before`.
pub async fn page(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    endpoint_id: Uuid,
    state: Option<State>,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<Delivery>, sqlx::Error> {
    sqlx::query_as!(
        Delivery,
        "select id, number, event, payload, state, attempts, last_attempt_at, next_attempt_at, last_status, last_error, created_at, ended_at
         from kb.webhook_deliveries
         where project_id = $1 and endpoint_id = $2 and ($3::text is null or state = $3)
           and number < coalesce($4, 9223372036854775807)
         order by number desc
         limit $5",
        workspace_id,
        endpoint_id,
        state.map(State::as_str),
        before,
        limit
    )
    .fetch_all(db)
    .await
}

pub async fn get(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    endpoint_id: Uuid,
    id: Uuid,
) -> Result<Option<Delivery>, sqlx::Error> {
    sqlx::query_as!(
        Delivery,
        "select id, number, event, payload, state, attempts, last_attempt_at, next_attempt_at, last_status, last_error, created_at, ended_at
         from kb.webhook_deliveries
         where project_id = $1 and endpoint_id = $2 and id = $3",
        workspace_id,
        endpoint_id,
        id
    )
    .fetch_optional(db)
    .await
}

/// Adds a test delivery with its job, and returns its id. Wake the queue after the commit.
pub async fn add_test(db: &mut PgConnection, workspace_id: Uuid, endpoint_id: Uuid) -> Result<Uuid, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select kb.add_webhook_delivery($1, $2, $3, $2, json_build_object('webhookId', $2::uuid)) as "id!""#,
        workspace_id,
        endpoint_id,
        TEST_EVENT
    )
    .fetch_one(db)
    .await
}

/// Makes an ended delivery pending again, with a new job; false: it is pending, or does not exist. Wake the queue after the commit.
pub async fn replay(
    db: &mut PgConnection,
    workspace_id: Uuid,
    endpoint_id: Uuid,
    id: Uuid,
) -> Result<bool, sqlx::Error> {
    let replayed = sqlx::query_scalar!(
        r#"with again as (
               update kb.webhook_deliveries
               set state = 'pending', attempts = 0, next_attempt_at = null, ended_at = null
               where project_id = $1 and endpoint_id = $2 and id = $3 and state <> 'pending'
               returning id, subject_id
           )
           select kb.enqueue_webhook_delivery(id, $1, $2, subject_id) as "job!" from again"#,
        workspace_id,
        endpoint_id,
        id
    )
    .fetch_optional(db)
    .await?;
    Ok(replayed.is_some())
}

/// Makes the dead deliveries of an endpoint pending again, in their order, at most [`MAX_REPLAYED`]. Returns their number. Wake the queue
/// after the commit.
pub async fn replay_dead(db: &mut PgConnection, workspace_id: Uuid, endpoint_id: Uuid) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"with dead as (
               select id from kb.webhook_deliveries
               where project_id = $1 and endpoint_id = $2 and state = 'dead'
               order by number
               limit $3
               for update
           ), again as (
               update kb.webhook_deliveries d
               set state = 'pending', attempts = 0, next_attempt_at = null, ended_at = null
               from dead
               where d.id = dead.id
               returning d.id, d.subject_id, d.number
           )
           -- In their order: jobs of one subject are claimed in the order in which they were enqueued.
           select count(kb.enqueue_webhook_delivery(ordered.id, $1, $2, ordered.subject_id)) as "count!"
           from (select id, subject_id from again order by number) ordered"#,
        workspace_id,
        endpoint_id,
        MAX_REPLAYED
    )
    .fetch_one(db)
    .await
}

/// What a worker has to know before it begins an attempt.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) endpoint_id: Uuid,
    pub(crate) is_disabled: bool,
    pub(crate) payload: String,
    /// Of a config's delivery: the number in the log up to which the task is sent. None: a webhook's.
    pub(crate) log_seq: Option<i64>,
    /// The scheme of the config's credentials.
    pub(crate) auth_scheme: Option<String>,
    /// Whether the endpoint has a secret.
    pub(crate) has_secret: bool,
}

/// Finds a pending delivery. None: it has ended, or was removed with its endpoint.
pub(crate) async fn due(db: impl PgExecutor<'_>, id: Uuid) -> Result<Option<Due>, sqlx::Error> {
    sqlx::query_as!(
        Due,
        r#"select d.endpoint_id, e.disabled_at is not null as "is_disabled!", d.payload, d.log_seq, e.auth_scheme,
                  exists (select from kb.webhook_secrets s where s.endpoint_id = e.id) as "has_secret!"
           from kb.webhook_deliveries d join kb.webhook_endpoints e on e.id = d.endpoint_id
           where d.id = $1 and d.state = 'pending'"#,
        id
    )
    .fetch_optional(db)
    .await
}

/// An attempt that has begun.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The fence: 1, 2 …
    pub(crate) attempt: i32,
    pub(crate) url: String,
    pub(crate) payload: String,
    /// In seconds since 1970, by the database's clock.
    pub(crate) timestamp: i64,
}

/// Begins and counts an attempt, before anything is sent: a receiver that makes workers crash gets no more attempts than others.
pub(crate) async fn begin(db: impl PgExecutor<'_>, id: Uuid) -> Result<Option<Attempt>, sqlx::Error> {
    sqlx::query_as!(
        Attempt,
        r#"update kb.webhook_deliveries d
           set attempts = d.attempts + 1, last_attempt_at = now(), next_attempt_at = null
           from kb.webhook_endpoints e
           where d.id = $1 and d.state = 'pending' and e.id = d.endpoint_id and e.disabled_at is null
           returning d.attempts as "attempt!", e.url as "url!", d.payload as "payload!",
                     extract(epoch from now())::bigint as "timestamp!""#,
        id
    )
    .fetch_optional(db)
    .await
}

/// How a delivery goes on after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Delivered,
    Dead,
    Retry(Duration),
}

/// Records the result of an attempt, unless a newer one has begun.
pub(crate) async fn record(
    db: impl PgExecutor<'_>,
    id: Uuid,
    attempt: i32,
    attempted: &Attempted,
    next: Next,
) -> Result<(), sqlx::Error> {
    let (state, delay_s) = match next {
        Next::Delivered => (State::Delivered, None),
        Next::Dead => (State::Dead, None),
        Next::Retry(delay) => (State::Pending, Some(delay.as_secs_f64())),
    };
    sqlx::query!(
        "update kb.webhook_deliveries
         set state = $3, last_status = $4, last_error = $5, next_attempt_at = now() + make_interval(secs => $6),
             ended_at = case when $3 <> 'pending' then now() end
         where id = $1 and attempts = $2 and state = 'pending'",
        id,
        attempt,
        state.as_str(),
        attempted.status.map(i32::from),
        attempted.error,
        delay_s
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Notes why a delivery was not attempted; `is_dead`: and gives it up.
pub(crate) async fn note(db: impl PgExecutor<'_>, id: Uuid, error: &str, is_dead: bool) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.webhook_deliveries
         set last_error = $2, state = case when $3 then 'dead' else state end, ended_at = case when $3 then now() end
         where id = $1 and state = 'pending'",
        id,
        error,
        is_dead
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Removes deliveries that ended this long ago, at most `limit`. Returns how many.
pub(crate) async fn sweep(db: impl PgExecutor<'_>, age_s: f64, limit: i64) -> Result<u64, sqlx::Error> {
    let removed = sqlx::query!(
        "delete from kb.webhook_deliveries
         where id in (select id from kb.webhook_deliveries
                      where ended_at < now() - make_interval(secs => $1)
                      order by ended_at limit $2 for update skip locked)",
        age_s,
        limit
    )
    .execute(db)
    .await?;
    Ok(removed.rows_affected())
}
