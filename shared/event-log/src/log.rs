//! Appends events within a command's transaction, and reads the table. The worker's deltas go through `group_commit` instead; readers read
//! through `reader`, which also has what is archived.

use bytes::Bytes;
use deadpool_postgres::Pool;
use serde_json::Value;
use sqlx::{PgConnection, PgExecutor};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::rows::{StoredEvent, StoredRow};
use rejoin_db::PgError;
use rejoin_db::rls::{self, ConnGuard};
use rejoin_types::events::Event;
use rejoin_types::owner::Owner;

/// Maximum number of rows in one read of the past.
pub const PAGE: i64 = 500;
/// Maximum size of one read of the past, in bytes, unless its first event alone is longer: bounds the memory of a
/// reader that does not read (invariant I10).
pub const PAGE_BYTES: i64 = 128 * 1024;
/// Maximum number of rows per log in one poll of the tail: fewer events than this mean that there is nothing more. As
/// packed rows they are half a mebibyte, which is what the API keeps per log.
pub const TAIL_PAGE: i64 = 64;

/// The first and last numbers of a log, and the last one that is archived (0: none).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnds {
    pub last_seq: i64,
    pub oldest_seq: i64,
    pub archived_seq: i64,
}

/// Appends `events` within the caller's transaction, for readers of `run_id` (the root of the tree), and returns the last
/// number. Takes the log's row lock until that transaction ends.
pub async fn append(
    db: &mut PgConnection,
    log_id: Uuid,
    run_id: Option<Uuid>,
    events: &[Event],
) -> Result<i64, sqlx::Error> {
    let (types, data) = columns(events);
    append_texts(db, log_id, run_id, &types, &data).await
}

/// Returns the types of events, and their JSON: the arguments of `stream.append`, for functions of the database that
/// append the events of a command.
pub fn columns(events: &[Event]) -> (Vec<String>, Vec<String>) {
    events
        .iter()
        .map(|event| (event.kind.name().to_owned(), event.to_json()))
        .unzip()
}

/// [`append`] for events of another program, each with its own type and data. `run_id` is whose readers see them; None: only
/// readers of the whole log.
pub async fn append_json(
    db: &mut PgConnection,
    log_id: Uuid,
    run_id: Option<Uuid>,
    events: &[(&str, Value)],
) -> Result<i64, sqlx::Error> {
    let (types, data): (Vec<String>, Vec<String>) = events
        .iter()
        .map(|(kind, data)| ((*kind).to_owned(), data.to_string()))
        .unzip();
    append_texts(db, log_id, run_id, &types, &data).await
}

async fn append_texts(
    db: &mut PgConnection,
    log_id: Uuid,
    run_id: Option<Uuid>,
    types: &[String],
    data: &[String],
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select stream.append($1, $2, $3, $4) as "last!""#,
        log_id,
        run_id as _,
        types,
        data
    )
    .fetch_one(db)
    .await
}

/// Creates the log of a run without a conversation.
pub async fn create(db: &mut PgConnection, log_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!("insert into stream.logs (log_id) values ($1)", log_id)
        .execute(db)
        .await?;
    Ok(())
}

/// Creates these logs.
pub async fn create_many(db: &mut PgConnection, log_ids: &[Uuid]) -> Result<(), sqlx::Error> {
    sqlx::query!("insert into stream.logs (log_id) select unnest($1::uuid[])", log_ids)
        .execute(db)
        .await?;
    Ok(())
}

/// Locks the log until the caller's transaction ends. None: the log does not exist.
pub async fn lock(db: &mut PgConnection, log_id: Uuid) -> Result<Option<()>, sqlx::Error> {
    let found = sqlx::query_scalar!("select log_id from stream.logs where log_id = $1 for update", log_id)
        .fetch_optional(db)
        .await?;
    Ok(found.map(|_| ()))
}

/// Fetches one row of a reader's initial query, on the owner's behalf: the given columns, then `last_seq`,
/// `oldest_seq` and `archived_seq` of `stream.log_ends`.
pub async fn query_one_with_ends(
    pool: &Pool,
    owner: Owner,
    sql: &str,
    arguments: &[&(dyn ToSql + Sync)],
) -> Result<Option<(LogEnds, Row)>, PgError> {
    let row = rls::query_one_scoped(pool, rls::Scope::User(owner), sql, arguments).await?;
    Ok(row.map(|row| {
        let ends = LogEnds {
            last_seq: row.get("last_seq"),
            oldest_seq: row.get("oldest_seq"),
            archived_seq: row.get("archived_seq"),
        };
        (ends, row)
    }))
}

/// Reads a page of one log's rows after `after`.
pub async fn read(pool: &Pool, log_id: Uuid, after: i64) -> Result<Vec<StoredEvent>, PgError> {
    let guard = ConnGuard::from(pool).await?;
    let client = guard.client();
    let statement = client
        .prepare_cached(
            "select first_seq, seq, run_id, type, data from (
                 -- with what each row and those before it take
                 select *, row_number() over (order by seq) as nth, sum(octet_length(data)) over (order by seq) as bytes from (
                     select first_seq, seq, run_id, type, data from stream.events
                     where log_id = $1 and seq > $2 order by seq limit $3
                 ) e
             ) e
             where bytes <= $4 or nth = 1
             order by seq",
        )
        .await?;
    let answer = client.query(&statement, &[&log_id, &after, &PAGE, &PAGE_BYTES]).await;
    let rows = guard.settle(answer)?;
    let mut events = Vec::with_capacity(rows.len());
    for row in &rows {
        stored(row, 0).expand(after, &mut events);
    }
    Ok(events)
}

/// Returns the number of the log's oldest event that is stored, or will be. None: the log does not exist.
pub async fn oldest_seq(db: impl PgExecutor<'_>, log_id: Uuid) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar!("select oldest_seq from stream.logs where log_id = $1", log_id)
        .fetch_optional(db)
        .await
}

/// Reads a page of rows that readers of `run_id` (the root of a tree) see, after `after` and up to `through`. Empty: there are no more.
pub(super) async fn read_of_run(
    db: impl PgExecutor<'_>,
    log_id: Uuid,
    run_id: Uuid,
    after: i64,
    through: i64,
) -> Result<Vec<StoredEvent>, sqlx::Error> {
    let rows = sqlx::query!(
        r#"select first_seq, seq, type as "kind!", data from stream.events
           where log_id = $1 and run_id = $2 and seq > $3 and coalesce(first_seq, seq) <= $4
           order by seq limit $5"#,
        log_id,
        run_id,
        after,
        through,
        PAGE
    )
    .fetch_all(db)
    .await?;
    let mut events = Vec::with_capacity(rows.len());
    for row in rows {
        let stored = StoredRow {
            first_seq: row.first_seq,
            seq: row.seq,
            run_id: Some(run_id),
            kind: row.kind,
            data: row.data.into(),
        };
        stored.expand(after, &mut events);
    }
    // A packed row may go on behind it.
    events.retain(|event| event.seq <= through);
    Ok(events)
}

/// Reads new events of many logs at once: for each (log, after) the events of up to [`TAIL_PAGE`] rows, with the log's
/// index in `logs`.
pub async fn tail(pool: &Pool, logs: &[(Uuid, i64)]) -> Result<Vec<(usize, StoredEvent)>, PgError> {
    let guard = ConnGuard::from(pool).await?;
    let client = guard.client();
    let statement = client
        .prepare_cached(
            "select c.i, e.first_seq, e.seq, e.run_id, e.type, e.data
             from unnest($1::int[], $2::uuid[], $3::bigint[]) c(i, log, after)
             cross join lateral (
                 select first_seq, seq, run_id, type, data from stream.events
                 where log_id = c.log and seq > c.after order by seq limit $4
             ) e
             order by c.i, e.seq",
        )
        .await?;
    let index: Vec<i32> = (0..i32::try_from(logs.len()).unwrap_or(i32::MAX)).collect();
    let (ids, after): (Vec<Uuid>, Vec<i64>) = logs.iter().copied().unzip();
    let answer = client.query(&statement, &[&index, &ids, &after, &TAIL_PAGE]).await;
    let rows = guard.settle(answer)?;
    let mut events = Vec::with_capacity(rows.len());
    let mut of_row = Vec::new();
    for row in &rows {
        let index = usize::try_from(row.get::<_, i32>(0)).unwrap_or_default();
        let after = logs.get(index).map_or(0, |(_, after)| *after);
        stored(row, 1).expand(after, &mut of_row);
        events.extend(of_row.drain(..).map(|event| (index, event)));
    }
    Ok(events)
}

fn stored(row: &Row, first: usize) -> StoredRow {
    StoredRow {
        first_seq: row.get(first),
        seq: row.get(first + 1),
        run_id: row.get(first + 2),
        kind: row.get(first + 3),
        data: Bytes::copy_from_slice(row.get::<_, &str>(first + 4).as_bytes()),
    }
}
