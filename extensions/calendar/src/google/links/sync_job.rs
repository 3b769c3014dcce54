//! A job that synchronises one calendar, under its fencing number.

use chrono::NaiveDate;
use rejoin_types::owner::Owner;
use serde_json::json;
use sqlx::{PgConnection, PgPool, Postgres, Transaction};
use uuid::Uuid;

use super::{Note, lock};

/// Maximum number of a link's notes, newest first.
const NOTES: usize = 30;
/// Maximum length of a note, in characters.
const NOTE_MAX_CHARS: usize = 500;

/// The link as seen by a worker's job in its turn, for all its access to the database.
#[derive(Debug, Clone)]
pub(crate) struct SyncJob {
    pub calendar_id: Uuid,
    pub owner: Owner,
    pub fence: i64,
    pub google_id: String,
    pub is_read_only: bool,
    pub sync_token: Option<String>,
    pub page_token: Option<String>,
    pub listing: i64,
    pub failures: i32,
    /// The date when the turn began, in UTC.
    pub today: NaiveDate,
}

/// The turn has ended: another job has begun, or the calendar is no longer linked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FenceError {
    #[error("another job has taken over")]
    Over,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

impl SyncJob {
    /// Begins a job's turn; the next one is due after this time. None: the calendar is not linked.
    pub async fn start(db: &PgPool, calendar_id: Uuid, next_s: f64) -> Result<Option<Self>, sqlx::Error> {
        let mut tx = rejoin_db::begin(db).await?;
        lock(&mut tx, calendar_id).await?;
        let row = sqlx::query!(
            r#"update kb.google_links
               set turn = turn + 1, began_at = now(), ended_at = null, due_at = now() + make_interval(secs => $2)
               where calendar_id = $1 and state = 'linked'
               returning project_id, owner_user_id, turn, google_id as "google_id!", read_only, sync_token, page_token, listing, failures,
                         (now() at time zone 'utc')::date as "today!""#,
            calendar_id,
            next_s
        )
        .fetch_optional(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(row.map(|row| Self {
            calendar_id,
            owner: Owner {
                workspace_id: row.project_id,
                user_id: row.owner_user_id,
            },
            fence: row.turn,
            google_id: row.google_id,
            is_read_only: row.read_only,
            sync_token: row.sync_token,
            page_token: row.page_token,
            listing: row.listing,
            failures: row.failures,
            today: row.today,
        }))
    }

    /// Begins a transaction in this turn. Its changes of events are not sent to Google.
    pub async fn begin(&self, db: &PgPool) -> Result<Transaction<'static, Postgres>, FenceError> {
        let mut tx = rejoin_db::begin(db).await?;
        sqlx::query!("set local rejoin.from_google = 'yes'")
            .execute(&mut *tx)
            .await?;
        lock(&mut tx, self.calendar_id).await?;
        let holds = sqlx::query_scalar!(
            r#"select turn = $2 and state = 'linked' as "holds!" from kb.google_links where calendar_id = $1 for key share"#,
            self.calendar_id,
            self.fence
        )
        .fetch_optional(&mut *tx)
        .await?;
        match holds {
            Some(true) => Ok(tx),
            Some(false) | None => Err(FenceError::Over),
        }
    }

    /// Stores the cursor of Google's list.
    pub async fn go_on(&self, db: &mut PgConnection) -> Result<(), sqlx::Error> {
        sqlx::query!(
            "update kb.google_links set sync_token = $2, page_token = $3, listing = $4 where calendar_id = $1",
            self.calendar_id,
            self.sync_token.as_deref(),
            self.page_token.as_deref(),
            self.listing
        )
        .execute(db)
        .await?;
        Ok(())
    }

    /// Records that both sides are equal.
    pub async fn finish(&self, db: &mut PgConnection) -> Result<(), sqlx::Error> {
        sqlx::query!(
            "update kb.google_links set ended_at = now(), synced_at = now(), failures = 0, problem = null where calendar_id = $1",
            self.calendar_id
        )
        .execute(db)
        .await?;
        Ok(())
    }

    /// Records a failure: the user's message, and the time of the next try.
    pub async fn fail(&self, db: &mut PgConnection, problem: &str, again_s: f64) -> Result<(), sqlx::Error> {
        sqlx::query!(
            "update kb.google_links set ended_at = now(), failures = failures + 1, problem = $2,
                    due_at = now() + make_interval(secs => $3)
             where calendar_id = $1",
            self.calendar_id,
            problem,
            again_s
        )
        .execute(db)
        .await?;
        Ok(())
    }

    /// Records that access was revoked.
    pub async fn revoked(&self, db: &mut PgConnection, problem: &str) -> Result<(), sqlx::Error> {
        sqlx::query!(
            "update kb.google_links set state = 'revoked', ended_at = now(), problem = $2 where calendar_id = $1",
            self.calendar_id,
            problem
        )
        .execute(db)
        .await?;
        Ok(())
    }

    /// Adds notes for the calendar's user.
    pub async fn note(&self, db: &mut PgConnection, texts: &[String]) -> Result<(), sqlx::Error> {
        if texts.is_empty() {
            return Ok(());
        }
        let known = sqlx::query!(
            r#"select notes, now() as "now!" from kb.google_links where calendar_id = $1"#,
            self.calendar_id
        )
        .fetch_one(&mut *db)
        .await?;
        let mut notes: Vec<Note> = serde_json::from_value(known.notes).unwrap_or_default();
        notes.extend(texts.iter().map(|text| Note {
            at: known.now,
            text: text.chars().take(NOTE_MAX_CHARS).collect(),
        }));
        let newest = notes.split_off(notes.len().saturating_sub(NOTES));
        sqlx::query!(
            "update kb.google_links set notes = $2 where calendar_id = $1",
            self.calendar_id,
            json!(newest)
        )
        .execute(db)
        .await?;
        Ok(())
    }
}
