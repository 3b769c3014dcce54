//! One sync job of a calendar with Google. Called by the workers.
//!
//! Invariant: interrupted at any point, by a crash or an error, the next job continues with the same outcome.

use std::time::Duration;

use chrono::Days;
use rejoin_integrations::google_tokens;
use sqlx::PgPool;
use uuid::Uuid;

use super::client::GoogleError;
use super::error::SyncError;
use super::links::{FenceError, SyncJob};
use super::oauth_exchange;
use super::settings::Google;
use super::{pull, push};

/// Delay after a first failure, which grows with further ones.
const FIRST_PAUSE: Duration = Duration::from_secs(15);
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// The result of a job.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Whether users waiting for their code's exchange should poll.
    pub has_exchanged: bool,
}

/// Runs the sync job of a calendar.
pub async fn run(google: &Google, db: &PgPool, calendar_id: Uuid) -> Result<Done, sqlx::Error> {
    let has_exchanged = oauth_exchange::exchange_codes(google, db, calendar_id).await?;
    let done = Done { has_exchanged };
    let Some(mut work) = SyncJob::start(db, calendar_id, google.every().as_secs_f64()).await? else {
        return Ok(done);
    };
    let error = match synchronise(google, db, &mut work).await {
        Ok(()) | Err(SyncError::Over) => return Ok(done),
        Err(SyncError::Database(error)) => return Err(error),
        Err(error) => error,
    };
    tracing::warn!(%calendar_id, %error, "syncing a calendar with Google failed");
    let mut tx = match work.begin(db).await {
        Ok(tx) => tx,
        Err(FenceError::Over) => return Ok(done),
        Err(FenceError::Database(error)) => return Err(error),
    };
    match &error {
        SyncError::Google(GoogleError::Revoked(_)) => work.revoked(&mut tx, &error.to_string()).await?,
        error => {
            let pause = pause(error, work.failures, google.every());
            work.fail(&mut tx, &error.to_string(), pause.as_secs_f64()).await?;
        }
    }
    tx.commit().await?;
    Ok(done)
}

async fn synchronise(google: &Google, db: &PgPool, work: &mut SyncJob) -> Result<(), SyncError> {
    let keys = google.keys.as_ref().ok_or(SyncError::NoKeys)?;
    let token = google_tokens::open(db, keys, work.calendar_id)
        .await?
        .ok_or(SyncError::Over)?;
    let client = google.client(token.expose_text().unwrap_or_default()).await?;
    let since = work.today - Days::new(u64::from(google.args.google_days_back));
    // By day, so that an interrupted list continues with the same query.
    let since = since.format("%Y-%m-%dT00:00:00Z").to_string();
    pull::pull(&client, db, work, &since).await?;
    let mut left = 0;
    if !work.is_read_only {
        left = push::push(&client, db, work).await?;
    }
    if left > 0 {
        let detail = format!("{left} changes could not be sent because the events keep changing at Google");
        return Err(GoogleError::Failed(detail).into());
    }
    let mut tx = work.begin(db).await?;
    work.finish(&mut tx).await?;
    tx.commit().await?;
    Ok(())
}

/// Returns the delay after a failure.
fn pause(error: &SyncError, failures: i32, every: Duration) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.clamp(0, 20).unsigned_abs());
    let own = FIRST_PAUSE.min(every).saturating_mul(doubled);
    let asked = match error {
        SyncError::Google(GoogleError::Busy(after)) => after.unwrap_or_default(),
        _ => Duration::ZERO,
    };
    own.max(asked).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_an_hour_and_are_no_shorter_than_google_asks() {
        let every = Duration::from_secs(300);
        let failed = SyncError::Google(GoogleError::Failed(String::new()));
        let seconds = |error: &SyncError, failures| pause(error, failures, every).as_secs();
        assert_eq!(
            (seconds(&failed, 0), seconds(&failed, 1), seconds(&failed, 40)),
            (15, 30, 3_600)
        );
        let busy = SyncError::Google(GoogleError::Busy(Some(Duration::from_secs(120))));
        assert_eq!((seconds(&busy, 0), seconds(&busy, 5)), (120, 480));
    }
}
