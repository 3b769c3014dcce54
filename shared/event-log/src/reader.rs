//! Reads logs as their readers see them: rows of the table, and archived events from their objects. Everything that follows or replays a
//! log in the product reads through [`LogReader`]; `log` alone is for programs without an archive.

use deadpool_postgres::Pool;
use rejoin_db::PgError;
use rejoin_db::rls::ConnGuard;
use sqlx::PgPool;
use uuid::Uuid;

use super::archive::{self, Archive, ArchiveError, SharedArchive};
use super::log;
use super::rows::StoredEvent;

/// Maximum number of lookups of an object that is missing because retention, or the deletion of its log, has just removed it.
const LOOKUPS: usize = 3;

/// Why a log can't be read now. The same read may be tried again.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Database(#[from] PgError),
    #[error("reading events failed")]
    Statement(#[from] sqlx::Error),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl ReadError {
    /// Returns it for callers to which any failure is an outage of the database: they try again.
    pub fn into_outage(self) -> sqlx::Error {
        match self {
            Self::Statement(error) => error,
            Self::Database(_) | Self::Archive(_) => sqlx::Error::Io(std::io::Error::other(self)),
        }
    }
}

/// The end of a log, and of its part that is archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    pub log_id: Uuid,
    pub last_seq: i64,
    /// The number of the newest archived event; 0: there is none.
    pub archived_seq: i64,
}

/// Reads logs. Cheap to clone.
#[derive(Clone)]
pub struct LogReader {
    pool: Pool,
    archive: SharedArchive,
}

impl LogReader {
    pub fn new(pool: Pool, archive: SharedArchive) -> Self {
        Self { pool, archive }
    }

    /// Returns the pool that it reads with.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Returns the archive.
    pub fn archive(&self) -> &SharedArchive {
        &self.archive
    }

    /// Reads a page of one log after `after`. If it does not begin with the next number, the events in between were removed.
    pub async fn read(&self, log_id: Uuid, after: i64) -> Result<Vec<StoredEvent>, ReadError> {
        let mut lookups = 1;
        loop {
            let events = log::read(&self.pool, log_id, after).await?;
            if events.first().is_some_and(|first| first.seq == after + 1) {
                return Ok(events);
            }
            // The next event is archived, was removed, or is not there yet. Asked after the table: what was archived in between is found.
            let Some(part) = archive::part_after(&self.pool, log_id, after).await? else {
                return Ok(events);
            };
            match self.archive.events(&part).await {
                Ok(events) => return Ok(page(&events, after)),
                Err(ArchiveError::Missing(_)) if lookups < LOOKUPS => {
                    lookups += 1;
                    let now = archive::part_after(&self.pool, log_id, after).await?;
                    if now.as_ref() == Some(&part) {
                        return Err(ArchiveError::Missing(part.name).into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads new events of many logs at once, from the table: see [`log::tail`].
    pub async fn tail(&self, logs: &[(Uuid, i64)]) -> Result<Vec<(usize, StoredEvent)>, PgError> {
        log::tail(&self.pool, logs).await
    }

    /// Returns the ends of each existing log of `logs`.
    pub async fn ends(&self, logs: &[Uuid]) -> Result<Vec<LogEnd>, PgError> {
        let guard = ConnGuard::from(&self.pool).await?;
        let client = guard.client();
        let statement = client
            .prepare_cached(
                "select e.log_id, e.last_seq, e.archived_seq
                 from unnest($1::uuid[]) w(log_id) join stream.log_ends e on e.log_id = w.log_id",
            )
            .await?;
        let answer = client.query(&statement, &[&logs]).await;
        let rows = guard.settle(answer)?;
        let end = |row: &tokio_postgres::Row| LogEnd {
            log_id: row.get(0),
            last_seq: row.get(1),
            archived_seq: row.get(2),
        };
        Ok(rows.iter().map(end).collect())
    }
}

/// Reads a page of what readers of `run_id` (the root of a tree) see, after `after` and up to `through`: for jobs, which have no reader. Empty:
/// there is no more.
pub async fn read_of_run(
    db: &PgPool,
    archive: &dyn Archive,
    log_id: Uuid,
    run_id: Uuid,
    after: i64,
    through: i64,
) -> Result<Vec<StoredEvent>, ReadError> {
    let events = log::read_of_run(db, log_id, run_id, after, through).await?;
    // Asked after the table: what was archived in between is found.
    for part in archive::parts_after(db, log_id, after).await? {
        let archived = archive.events(&part).await?;
        let is_shown = |event: &&StoredEvent| event.run_id == Some(run_id) && event.seq > after && event.seq <= through;
        let shown: Vec<StoredEvent> = archived.iter().filter(is_shown).cloned().collect();
        if !shown.is_empty() {
            return Ok(shown);
        }
    }
    Ok(events)
}

/// The events after `after`, as many as a page of the table has.
fn page(events: &[StoredEvent], after: i64) -> Vec<StoredEvent> {
    let max_bytes = usize::try_from(log::PAGE_BYTES).unwrap_or(usize::MAX);
    let mut bytes = 0;
    let from = events.partition_point(|event| event.seq <= after);
    let rest = &events[from..];
    let count = rest
        .iter()
        .take_while(|event| {
            bytes += event.data.len();
            bytes <= max_bytes
        })
        .count();
    // The first one, even if it alone is longer.
    rest[..count.max(1).min(rest.len())].to_vec()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn event(seq: i64, bytes: usize) -> StoredEvent {
        StoredEvent {
            seq,
            run_id: None,
            kind: "token".to_owned(),
            data: Bytes::from(vec![b'x'; bytes]),
        }
    }

    fn seqs(events: &[StoredEvent]) -> Vec<i64> {
        events.iter().map(|event| event.seq).collect()
    }

    #[test]
    fn a_page_of_a_part_begins_after_the_cursor_and_is_bounded() {
        let events: Vec<StoredEvent> = [(4, 10), (5, 200_000), (6, 100_000), (7, 20_000), (8, 20_000)]
            .map(|(seq, bytes)| event(seq, bytes))
            .to_vec();
        assert_eq!(seqs(&page(&events, 3)), [4]);
        assert_eq!(seqs(&page(&events, 4)), [5], "at least one");
        assert_eq!(seqs(&page(&events, 5)), [6, 7]);
        assert_eq!(seqs(&page(&events, 7)), [8]);
        assert_eq!(seqs(&page(&events, 8)), Vec::<i64>::new());
    }
}
