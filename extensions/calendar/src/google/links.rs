//! Links between local and Google calendars (`kb.google_links`). Called by the API for its users, and by workers' jobs.
//!
//! - `sync_job` a job that synchronises one calendar
//!
//! Invariant: a job works under its turn, a fencing number: writes of an older job of the same calendar are refused:
//! [`SyncJob::begin`].

mod sync_job;

pub(super) use sync_job::{FenceError, SyncJob};

use chrono::{DateTime, Utc};
use rejoin_queue::NewJob;
use rejoin_secrets::envelope::Sealed;
use rejoin_types::owner::Owner;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::oauth_states::{self, OauthState};

/// The `queue.jobs.kind` of sync jobs.
pub const KIND: &str = "google_calendar";
/// Below all interactive work.
const PRIORITY: i16 = 500;

/// Maximum number of marks, and of due links, per sweep.
const SWEPT: i64 = 1_000;
/// The class of advisory locks of jobs over one calendar.
const LOCK_CLASS: i32 = 0x676f_6f67;

/// A user's calendar at Google.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    pub id: String,
    pub name: String,
    /// An IANA time zone, from Google.
    pub time_zone: String,
    pub is_read_only: bool,
    pub is_primary: bool,
}

/// A note to the calendar's user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub at: DateTime<Utc>,
    pub text: String,
}

/// A link, as shown to its user.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    pub calendar_id: Uuid,
    pub state: String,
    pub choices: Vec<Choice>,
    pub google_id: Option<String>,
    pub google_name: Option<String>,
    pub is_read_only: bool,
    pub is_syncing: bool,
    pub synced_at: Option<DateTime<Utc>>,
    pub problem: Option<String>,
    pub notes: Vec<Note>,
    /// Number of local changes not yet sent to Google.
    pub waiting: i64,
}

/// Returns the states of an owner's links, by calendar.
pub async fn states(db: impl PgExecutor<'_>, owner: Owner) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    let rows = sqlx::query!(
        "select calendar_id, state from kb.google_links where project_id = $1 and owner_user_id = $2",
        owner.workspace_id,
        owner.user_id
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.calendar_id, row.state)).collect())
}

pub async fn get(db: impl PgExecutor<'_>, owner: Owner, calendar_id: Uuid) -> Result<Option<Link>, sqlx::Error> {
    let row = sqlx::query!(
        r#"select l.calendar_id, state, choices, google_id, google_name, read_only, synced_at, problem, notes,
                  state = 'linked' and (due_at <= now() or began_at is not null and ended_at is null or ended_at < began_at) as "is_syncing!",
                  (select count(*) from kb.calendar_events e
                   left join kb.google_events p on p.calendar_id = l.calendar_id and p.event_id = e.id
                   where state = 'linked' and not read_only and e.calendar_id = l.calendar_id
                     and (p.version <> e.version or p.event_id is null and e.deleted_at is null)) as "waiting!"
           from kb.google_links l
           where l.calendar_id = $1 and l.project_id = $2 and l.owner_user_id = $3"#,
        calendar_id,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Link {
        calendar_id: row.calendar_id,
        state: row.state,
        choices: serde_json::from_value(row.choices).unwrap_or_default(),
        google_id: row.google_id,
        google_name: row.google_name,
        is_read_only: row.read_only,
        is_syncing: row.is_syncing,
        synced_at: row.synced_at,
        problem: row.problem,
        notes: serde_json::from_value(row.notes).unwrap_or_default(),
        waiting: row.waiting,
    }))
}

/// Chooses the remote calendar of a link, among those that the user has at Google. False: another calendar of the user
/// is linked with it.
pub async fn choose(db: &mut PgConnection, calendar_id: Uuid, choice: &Choice) -> Result<bool, sqlx::Error> {
    let taken = sqlx::query_scalar!(
        r#"select exists (select from kb.google_links l join kb.google_links other
                  on other.project_id = l.project_id and other.owner_user_id = l.owner_user_id and other.calendar_id <> l.calendar_id
                  where l.calendar_id = $1 and other.google_id = $2) as "taken!""#,
        calendar_id,
        choice.id
    )
    .fetch_one(&mut *db)
    .await?;
    if taken {
        return Ok(false);
    }
    // Mappings with another calendar's events are removed.
    sqlx::query!(
        "delete from kb.google_events where calendar_id = $1
         and exists (select from kb.google_links l where l.calendar_id = $1 and l.google_id is distinct from $2)",
        calendar_id,
        choice.id
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "update kb.google_links
         set state = 'linked', google_id = $2, google_name = $3, read_only = $4, due_at = now(), turn = turn + 1,
             sync_token = null, page_token = null, failures = 0, problem = null
         where calendar_id = $1",
        calendar_id,
        choice.id,
        choice.name,
        choice.is_read_only
    )
    .execute(&mut *db)
    .await?;
    Ok(true)
}

/// Requests a sync now. False: it is not linked.
pub async fn ask(db: impl PgExecutor<'_>, owner: Owner, calendar_id: Uuid) -> Result<bool, sqlx::Error> {
    let asked = sqlx::query!(
        "update kb.google_links set due_at = now(), failures = 0
         where calendar_id = $1 and project_id = $2 and owner_user_id = $3 and state = 'linked'",
        calendar_id,
        owner.workspace_id,
        owner.user_id
    )
    .execute(db)
    .await?;
    Ok(asked.rows_affected() > 0)
}

/// Removes a link; events stay on both sides. False: it does not exist.
pub async fn remove(db: impl PgExecutor<'_>, owner: Owner, calendar_id: Uuid) -> Result<bool, sqlx::Error> {
    let removed = sqlx::query!(
        "delete from kb.google_links where calendar_id = $1 and project_id = $2 and owner_user_id = $3",
        calendar_id,
        owner.workspace_id,
        owner.user_id
    )
    .execute(db)
    .await?;
    Ok(removed.rows_affected() > 0)
}

/// Returns the job of a calendar: one at a time.
pub fn job(workspace_id: Uuid, calendar_id: Uuid) -> NewJob {
    NewJob {
        workspace_id,
        priority: PRIORITY,
        unique_key: Some(format!("{KIND}:{calendar_id}")),
        ..NewJob::new(KIND, json!({ "calendarId": calendar_id }))
    }
}

/// Enqueues syncs of calendars that are due or have local changes. True: there are some.
pub async fn sweep(db: &PgPool) -> Result<bool, sqlx::Error> {
    sqlx::query!(
        "with taken as (
             delete from kb.google_marks m
             using (select id from kb.google_marks order by id limit $1 for update skip locked) old
             where m.id = old.id returning m.calendar_id)
         update kb.google_links l set due_at = least(due_at, now())
         where failures = 0 and calendar_id in (select calendar_id from taken)",
        SWEPT
    )
    .execute(db)
    .await?;
    // Not for users who have left the project.
    let due = sqlx::query!(
        r#"select l.calendar_id as "calendar_id!", l.project_id as "project_id!" from kb.google_links l
         where state = 'linked' and due_at <= now()
           and exists (select from kb.project_members m where m.project_id = l.project_id and m.user_id = l.owner_user_id)
           and not cells.is_held(l.project_id)
         union
         -- Codes that nobody has taken to Google, since a job was under way when they came.
         select c.calendar_id, c.project_id from kb.google_consents c where code is not null and failure is null and expires_at > now()
           and not cells.is_held(c.project_id)
         limit $1"#,
        SWEPT
    )
    .fetch_all(db)
    .await?;
    if due.is_empty() {
        return Ok(false);
    }
    let mut connection = db.acquire().await?;
    for link in &due {
        rejoin_queue::enqueue(&mut connection, &job(link.project_id, link.calendar_id)).await?;
    }
    Ok(true)
}

/// Serializes jobs' transactions over one calendar, and other changes of its events.
async fn lock(db: &mut PgConnection, calendar_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "select pg_advisory_xact_lock($1, hashtext($2))",
        LOCK_CLASS,
        calendar_id.to_string()
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Creates the link of a calendar after authorization, or continues an old one with the new token.
pub(super) async fn authorize(
    db: &PgPool,
    calendar_id: Uuid,
    oauth_state: &OauthState,
    token: &Sealed,
    choices: &[Choice],
) -> Result<(), sqlx::Error> {
    let mut tx = rejoin_db::begin(db).await?;
    lock(&mut tx, calendar_id).await?;
    let choices: Value = json!(choices);
    // Its remote calendar is kept, if this account has it.
    sqlx::query!(
        "insert into kb.google_links (calendar_id, project_id, owner_user_id, state, choices, key_id, wrapped_key, ciphertext)
         values ($1, $2, $3, 'choosing', $4, $5, $6, $7)
         on conflict (calendar_id) do update
         set choices = $4, key_id = $5, wrapped_key = $6, ciphertext = $7, turn = google_links.turn + 1, problem = null, failures = 0,
             due_at = now(),
             state = case when exists (select from jsonb_array_elements($4) c where c ->> 'id' = google_links.google_id)
                          then 'linked' else 'choosing' end",
        calendar_id,
        oauth_state.owner.workspace_id,
        oauth_state.owner.user_id,
        choices,
        token.key_id,
        token.wrapped_key,
        token.ciphertext
    )
    .execute(&mut *tx)
    .await?;
    oauth_states::done(&mut tx, oauth_state).await?;
    tx.commit().await
}
