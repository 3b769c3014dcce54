//! Moves events from rows to objects: the logs of conversations, and of runs outside them, whose last run ended long enough ago. Called
//! periodically by every worker; one of the fleet is at work at a time, and takes the runs in the order of their end.
//!
//! A part is moved in two steps, without a transaction while the store works: [`upload`] writes the object and reads it back;
//! [`Uploaded::commit`] deletes the rows in the transaction that records the object, if they are still what the object has. A process that
//! dies between them leaves an object for `leftovers`.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use metrics::counter;
use rejoin_event_log::archive::{ArchiveError, Part};
use rejoin_types::ids;
use sqlx::PgPool;
use tokio::task::spawn_blocking;
use tracing::warn;
use uuid::Uuid;

use crate::LogArchive;
use crate::format::{self, FormatError, Row, Text};
use crate::store::StoreError;

/// Maximum number of rows of one object, which are deleted in one transaction: appends to the log wait that long.
const ROWS: i64 = 2_000;
/// Maximum number of runs that are examined in one call of [`archive_next`].
const RUNS: i64 = 50;
/// Maximum number of attempts at a log whose rows change meanwhile; later ones follow in the next round.
const ATTEMPTS: usize = 3;
/// How long a process may be silent before another one archives, in seconds.
const TURN_S: f64 = 300.0;
/// Time after which an upload that was not completed is removed, in seconds: longer than any takes.
const UNFINISHED_S: f64 = 3_600.0;

/// Why events can't be moved. What was not moved stays in the table.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("reading back an object that was just written failed")]
    ReadBack(#[source] ArchiveError),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("compressing an object was aborted")]
    Aborted(#[from] tokio::task::JoinError),
}

/// The result of one call of [`archive_next`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Archived {
    /// The number of objects written.
    pub objects: u64,
    /// The number of events moved.
    pub events: u64,
    /// Whether there may be more to do.
    pub more: bool,
}

/// An ended run whose log may be due.
#[derive(Debug)]
struct EndedRun {
    id: Uuid,
    log_id: Uuid,
    workspace_id: Uuid,
    finished_at: DateTime<Utc>,
    /// Whether its log has no run that is active or ended later than the age allows: that one will bring it again.
    is_due: bool,
}

/// Archives the logs of the next runs that ended more than `after_s` seconds ago. `process` is the id of the caller's process.
pub async fn archive_next(
    db: &PgPool,
    archive: &LogArchive,
    after_s: f64,
    process: Uuid,
) -> Result<Archived, MoveError> {
    let mut archived = Archived::default();
    let runs = match take_turn(db, process).await? {
        Some(mark) => next_runs(db, mark, after_s).await?,
        // Another process is at work.
        None => return Ok(archived),
    };
    archived.more = !runs.is_empty();
    if runs.is_empty() {
        end_turn(db, process).await?;
    }
    for run in &runs {
        if run.is_due {
            let moved = archive_log(db, archive, run.log_id, Some(run.workspace_id)).await?;
            archived.objects += moved.objects;
            archived.events += moved.events;
            if moved.more {
                // Its rows changed each time: it is tried again in the next round.
                archived.more = false;
                return Ok(archived);
            }
        }
        if !done_with(db, process, run).await? {
            // It took longer than the turn, and another process goes on.
            archived.more = false;
            return Ok(archived);
        }
    }
    Ok(archived)
}

/// The newest run whose log was archived.
type Mark = (DateTime<Utc>, Uuid);

/// Makes this process the one that archives. None: another one is.
async fn take_turn(db: &PgPool, process: Uuid) -> Result<Option<Mark>, sqlx::Error> {
    let mark = sqlx::query!(
        "update stream.upkeep set archiver = $1, archiver_until = now() + make_interval(secs => $2)
         where archiver = $1 or archiver_until < now()
         returning archived_at, archived_run",
        process,
        TURN_S
    )
    .fetch_optional(db)
    .await?;
    Ok(mark.map(|mark| (mark.archived_at, mark.archived_run)))
}

/// Lets any process take the next turn.
async fn end_turn(db: &PgPool, process: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update stream.upkeep set archiver_until = 'epoch' where archiver = $1",
        process
    )
    .execute(db)
    .await?;
    Ok(())
}

async fn next_runs(db: &PgPool, (at, run): Mark, after_s: f64) -> Result<Vec<EndedRun>, sqlx::Error> {
    sqlx::query_as!(
        EndedRun,
        r#"select r.id, r.log_id, r.project_id as workspace_id, r.finished_at as "finished_at!",
                  (not exists (select from kb.agent_runs l
                               where l.log_id = r.log_id and l.state in ('queued', 'running', 'waiting'))
                   and not exists (select from kb.agent_runs l
                                   where l.conversation_id = r.conversation_id and l.parent_run_id is null
                                     and l.finished_at >= now() - make_interval(secs => $3))) as "is_due!"
           from kb.agent_runs r
           where r.parent_run_id is null and (r.finished_at, r.id) > ($1, $2)
             and r.finished_at < now() - make_interval(secs => $3)
           order by r.finished_at, r.id limit $4"#,
        at,
        run,
        after_s,
        RUNS
    )
    .fetch_all(db)
    .await
}

/// Records that this run, and all that ended before it, were examined. False: it is another process's turn.
async fn done_with(db: &PgPool, process: Uuid, run: &EndedRun) -> Result<bool, sqlx::Error> {
    let moved = sqlx::query!(
        "update stream.upkeep set archived_at = $2, archived_run = $3, archiver_until = now() + make_interval(secs => $4)
         where archiver = $1",
        process,
        run.finished_at,
        run.id,
        TURN_S
    )
    .execute(db)
    .await?;
    Ok(moved.rows_affected() == 1)
}

/// Archives all rows of a log without an active run. `more`: its rows changed meanwhile, and some are left.
async fn archive_log(
    db: &PgPool,
    archive: &LogArchive,
    log_id: Uuid,
    workspace_id: Option<Uuid>,
) -> Result<Archived, MoveError> {
    let mut archived = Archived::default();
    let mut attempts = 0;
    loop {
        let uploaded = match upload(db, archive, log_id, workspace_id).await {
            Ok(Some(uploaded)) => uploaded,
            Ok(None) => return Ok(archived),
            Err(MoveError::Format(error @ FormatError::Gap(_))) => {
                warn!(%error, log = %log_id, "a log has a gap and is not archived");
                return Ok(archived);
            }
            Err(error) => {
                counter!("rejoin_archive_failures_total", "operation" => "write").increment(1);
                return Err(error);
            }
        };
        match uploaded.commit(db).await? {
            Committed::Moved => {
                archived.objects += 1;
                archived.events += uploaded.events().unsigned_abs();
                attempts = 0;
            }
            Committed::Active => return Ok(archived),
            Committed::Changed => {
                attempts += 1;
                if attempts == ATTEMPTS {
                    archived.more = true;
                    return Ok(archived);
                }
            }
        }
    }
}

/// An object that was written, with the events of rows that are still there.
#[derive(Debug)]
pub struct Uploaded {
    log_id: Uuid,
    workspace_id: Option<Uuid>,
    part: Part,
    /// The size of the object.
    bytes: i64,
}

/// The result of [`Uploaded::commit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// The rows are gone, and the object is part of the log.
    Moved,
    /// The log has an active run, or was deleted. Nothing has changed.
    Active,
    /// The rows are not those of the object: compaction or retention changed them. Nothing has changed.
    Changed,
}

/// Writes the next rows of a log, as many as an object may have, and reads the object back. None: the log has no rows.
pub async fn upload(
    db: &PgPool,
    archive: &LogArchive,
    log_id: Uuid,
    workspace_id: Option<Uuid>,
) -> Result<Option<Uploaded>, MoveError> {
    let found = sqlx::query!(
        r#"select greatest(oldest_seq - 1, archived_seq) as "after!" from stream.logs where log_id = $1"#,
        log_id
    )
    .fetch_optional(db)
    .await?;
    let Some(found) = found else { return Ok(None) };
    let rows = rows(db, log_id, found.after, archive.object_bytes).await?;
    if rows.is_empty() {
        return Ok(None);
    }
    let (text, object) = spawn_blocking(move || -> Result<(Text, Vec<u8>), FormatError> {
        let text = format::text_of(&rows, found.after)?;
        let object = format::compress(&text)?;
        Ok((text, object))
    })
    .await??;
    let folder = workspace_id.map_or_else(|| "logs".to_owned(), |id| id.to_string());
    let (first_seq, last_seq) = (text.first_seq, text.last_seq);
    // Unique: an upload that was given up may still arrive, and must not replace another one's object.
    let name = format!("{folder}/{log_id}/{first_seq}-{last_seq}-{}.ndjson.zst", ids::new());
    let uploaded = Uploaded {
        log_id,
        workspace_id,
        bytes: i64::try_from(object.len()).unwrap_or(i64::MAX),
        part: Part {
            name,
            first_seq,
            last_seq,
            text_bytes: i64::try_from(text.bytes.len()).unwrap_or(i64::MAX),
            sha256: text.sha256,
        },
    };
    // Before the object exists: whatever happens, it will be removed, unless it becomes a part of the log.
    sqlx::query!(
        "insert into stream.archive_leftovers (name, due_at) values ($1, now() + make_interval(secs => $2))",
        uploaded.part.name,
        UNFINISHED_S
    )
    .execute(db)
    .await?;
    archive.store.put(&uploaded.part.name, Bytes::from(object)).await?;
    // Checks the number of events and the hash of their text.
    archive.read(&uploaded.part).await.map_err(MoveError::ReadBack)?;
    Ok(Some(uploaded))
}

/// Returns the rows after a number, in order: at least one, if there is any.
async fn rows(db: &PgPool, log_id: Uuid, after: i64, max_bytes: u64) -> Result<Vec<Row>, sqlx::Error> {
    sqlx::query_as!(
        Row,
        r#"select first_seq, seq as "seq!", run_id, type as "kind!", data as "data!", created_at as "created_at!" from (
               -- with what each row and those before it take
               select *, row_number() over (order by seq) as nth, sum(octet_length(data)) over (order by seq) as bytes from (
                   select first_seq, seq, run_id, type, data, created_at from stream.events
                   where log_id = $1 and seq > $2 order by seq limit $3) e) e
           where bytes <= $4 or nth = 1
           order by seq"#,
        log_id,
        after,
        ROWS,
        i64::try_from(max_bytes).unwrap_or(i64::MAX)
    )
    .fetch_all(db)
    .await
}

impl Uploaded {
    /// The number of its events.
    fn events(&self) -> i64 {
        self.part.last_seq - self.part.first_seq + 1
    }

    /// Deletes the rows and records the object, in one transaction.
    pub async fn commit(&self, db: &PgPool) -> Result<Committed, MoveError> {
        let mut tx = rejoin_db::begin(db).await?;
        // As appending does: the log does not change until the commit.
        let log = sqlx::query!(
            r#"select greatest(oldest_seq - 1, archived_seq) as "after!" from stream.logs where log_id = $1 for update"#,
            self.log_id
        )
        .fetch_optional(&mut *tx)
        .await?;
        // A statement after the lock: it sees the runs of the lock's last holder.
        let is_active = sqlx::query_scalar!(
            r#"select exists (select from kb.agent_runs
                              where log_id = $1 and state in ('queued', 'running', 'waiting')) as "is_active!""#,
            self.log_id
        )
        .fetch_one(&mut *tx)
        .await?;
        let Some(log) = log.filter(|_| !is_active) else {
            return Ok(Committed::Active);
        };
        if log.after + 1 != self.part.first_seq {
            return Ok(Committed::Changed);
        }
        let noted = sqlx::query!(
            "delete from stream.archive_leftovers where name = $1 and not is_taken",
            self.part.name
        )
        .execute(&mut *tx)
        .await?;
        if noted.rows_affected() == 0 {
            // It took too long, and the object is being removed.
            return Ok(Committed::Changed);
        }
        let mut rows = sqlx::query_as!(
            Row,
            r#"delete from stream.events where log_id = $1 and seq > $2 and seq <= $3
               returning first_seq, seq, run_id, type as "kind", data, created_at"#,
            self.log_id,
            log.after,
            self.part.last_seq
        )
        .fetch_all(&mut *tx)
        .await?;
        rows.sort_by_key(|row| row.seq);
        let is_same = format::text_of(&rows, log.after).is_ok_and(|text| text.sha256 == self.part.sha256);
        if !is_same {
            return Ok(Committed::Changed);
        }
        sqlx::query!(
            "insert into stream.archives (log_id, project_id, first_seq, last_seq, events, name, sha256, text_bytes, bytes)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            self.log_id,
            self.workspace_id as _,
            self.part.first_seq,
            self.part.last_seq,
            self.events(),
            self.part.name,
            self.part.sha256,
            self.part.text_bytes,
            self.bytes
        )
        .execute(&mut *tx)
        .await?;
        sqlx::query!(
            "update stream.logs set archived_seq = $2 where log_id = $1",
            self.log_id,
            self.part.last_seq
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        counter!("rejoin_archived_events_total").increment(self.events().unsigned_abs());
        counter!("rejoin_archived_bytes_total").increment(self.bytes.unsigned_abs());
        Ok(Committed::Moved)
    }
}
