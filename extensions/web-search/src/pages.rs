//! The page cache: rows of `kb.web_pages`. Called by `visit`, and by the workers' maintenance.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

/// How long a cached page is fresh, in minutes.
pub const FRESH_MINUTES: i32 = 15;
/// Maximum number of cached pages per workspace; the oldest are removed.
const OF_PROJECT: i64 = 500;
/// Age at which an unused page is removed, in days.
const KEPT_DAYS: i32 = 7;
/// Number of rows removed per maintenance statement.
const SWEPT: i64 = 1_000;

/// A page as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    pub final_url: String,
    pub title: Option<String>,
    /// The maximum that any call may be shown.
    pub content: String,
    pub content_type: String,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
}

/// A cached page.
#[derive(Debug)]
pub struct Kept {
    pub page: Page,
    pub fetched_at: DateTime<Utc>,
    pub is_fresh: bool,
}

pub async fn get(db: &PgPool, workspace_id: Uuid, url_hash: &[u8]) -> Result<Option<Kept>, sqlx::Error> {
    let row = sqlx::query!(
        r#"select final_url, title, content, content_type, etag, last_modified, fetched_at,
                  fetched_at > now() - make_interval(mins => $3) as "is_fresh!"
           from kb.web_pages where project_id = $1 and url_hash = $2"#,
        workspace_id,
        url_hash,
        FRESH_MINUTES
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Kept {
        page: Page {
            final_url: row.final_url,
            title: row.title,
            content: row.content,
            content_type: row.content_type,
            etag: row.etag,
            last_modified: row.last_modified,
        },
        fetched_at: row.fetched_at,
        is_fresh: row.is_fresh,
    }))
}

/// Caches a page, replacing its previous version; removes the workspace's oldest ones beyond the limit. Returns when it
/// was read.
pub async fn keep(db: &PgPool, workspace_id: Uuid, url_hash: &[u8], page: &Page) -> Result<DateTime<Utc>, sqlx::Error> {
    let fetched_at = sqlx::query_scalar!(
        "insert into kb.web_pages (project_id, url_hash, final_url, title, content, content_type, etag, last_modified)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (project_id, url_hash) do update
         set final_url = excluded.final_url, title = excluded.title, content = excluded.content, content_type = excluded.content_type,
             etag = excluded.etag, last_modified = excluded.last_modified, fetched_at = now()
         returning fetched_at",
        workspace_id,
        url_hash,
        page.final_url,
        page.title.as_deref(),
        page.content,
        page.content_type,
        page.etag.as_deref(),
        page.last_modified.as_deref(),
    )
    .fetch_one(db)
    .await?;
    sqlx::query!(
        "delete from kb.web_pages
         where project_id = $1 and fetched_at < (
             select fetched_at from kb.web_pages where project_id = $1 order by fetched_at desc offset $2 limit 1)",
        workspace_id,
        OF_PROJECT - 1
    )
    .execute(db)
    .await?;
    Ok(fetched_at)
}

/// Records that the page is unmodified. Returns the time.
pub async fn touch(db: &PgPool, workspace_id: Uuid, url_hash: &[u8]) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    sqlx::query_scalar!(
        "update kb.web_pages set fetched_at = now() where project_id = $1 and url_hash = $2 returning fetched_at",
        workspace_id,
        url_hash
    )
    .fetch_optional(db)
    .await
}

/// Removes some pages that were not read for long. True: there may be more.
pub async fn sweep(db: &PgPool) -> Result<bool, sqlx::Error> {
    let swept = sqlx::query!(
        "delete from kb.web_pages where (project_id, url_hash) in (
             select project_id, url_hash from kb.web_pages
             where fetched_at < now() - make_interval(days => $1)
             limit $2)",
        KEPT_DAYS,
        SWEPT
    )
    .execute(db)
    .await?;
    Ok(swept.rows_affected() == SWEPT.unsigned_abs())
}
