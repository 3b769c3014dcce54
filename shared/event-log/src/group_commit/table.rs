//! The writer's [`Store`]: one statement per batch, over its own connection.

use std::collections::HashMap;
use std::sync::Arc;

use deadpool_postgres::Object;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::super::rows::NewRows;
use super::{Flush, RunStream, Store, Written};
use crate::wakeup::carried::CarriedRow;
use rejoin_db::Db;
use rejoin_db::PgError;
use rejoin_faults::Fault;

pub(super) struct Table {
    db: Db,
    /// None after any error.
    client: Option<Object>,
}

impl Table {
    pub fn new(db: Db) -> Self {
        Self { db, client: None }
    }
}

impl Store for Table {
    type Failed = PgError;

    async fn write(&mut self, flush: &Flush<'_>) -> Result<Written, PgError> {
        let client = match self.client.take() {
            Some(client) => client,
            None => self.db.pool_pg.get().await?,
        };
        // A connection with a statement that failed, or was not answered, is not used again.
        let client = Discarded(Some(client));
        let mut streams = Streams::of(flush);
        let rows = rows_of(flush, &streams);
        if rejoin_faults::enabled(Fault::NoFence) {
            streams.attempts = client.attempts_of(&streams.runs).await?;
        }
        let answer = client.write(flush.id, &streams, &rows).await?;
        self.client = client.kept();

        let held = Held::of(&answer, streams.all.len());
        Ok(written(&streams, &rows, &held))
    }
}

/// A connection that is closed unless it is kept.
struct Discarded(Option<Object>);

impl Discarded {
    fn client(&self) -> &Object {
        self.0.as_ref().expect("it is there until it is kept")
    }

    fn kept(mut self) -> Option<Object> {
        self.0.take()
    }

    async fn write(&self, flush_id: i64, streams: &Streams, rows: &NewRows<'_>) -> Result<Vec<Row>, PgError> {
        let statement = self.client().prepare_cached(WRITE).await?;
        let arguments: [&(dyn ToSql + Sync); 14] = [
            &flush_id,
            &streams.logs,
            &streams.runs,
            &streams.attempts,
            &streams.known,
            &streams.seen,
            &rows.streams,
            &rows.events,
            &rows.runs,
            &rows.types,
            &rows.data,
            &rows.logs,
            &rows.seqs,
            &rows.marks,
        ];
        Ok(self.client().query(&statement, &arguments).await?)
    }

    /// Returns the attempts that hold the leases of these runs.
    async fn attempts_of(&self, runs: &Vec<Uuid>) -> Result<Vec<i32>, PgError> {
        let sql = "select coalesce(j.attempt, 0) from unnest($1::uuid[]) with ordinality r(id, nth)
                   left join queue.jobs j on j.run_id = r.id order by r.nth";
        let rows = self.client().query(sql, &[runs]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

impl Drop for Discarded {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(Object::take(client));
        }
    }
}

/// The streams of a batch, in the order of its logs, as columns.
#[derive(Default)]
struct Streams {
    all: Vec<Arc<RunStream>>,
    logs: Vec<Uuid>,
    runs: Vec<Uuid>,
    attempts: Vec<i32>,
    known: Vec<i64>,
    seen: Vec<i64>,
}

impl Streams {
    fn of(flush: &Flush<'_>) -> Self {
        let mut columns = Self {
            known: flush.known.clone(),
            ..Self::default()
        };
        for of_log in &flush.batch.logs {
            for stream in &of_log.streams {
                columns.all.push(stream.clone());
                columns.logs.push(of_log.log_id);
                columns.runs.push(stream.run_id);
                columns.attempts.push(stream.attempt);
                columns.seen.push(stream.seen.last());
            }
        }
        columns
    }
}

/// The rows of a flush, numbered as if no other event is appended to their logs.
fn rows_of<'a>(flush: &Flush<'a>, streams: &Streams) -> NewRows<'a> {
    let mut rows = NewRows::default();
    let mut before = 0;
    for of_log in &flush.batch.logs {
        for (of, event) in &of_log.events {
            let number = i32::try_from(before + of + 1).unwrap_or(i32::MAX);
            rows.push(number, of_log.streams[*of].root_run_id, event.kind, &event.data);
        }
        before += of_log.streams.len();
    }
    if rejoin_faults::enabled(Fault::DroppedSeq)
        && let Some(events) = rows.events.first_mut()
    {
        *events += 1;
    }
    rows.number(flush.id, &streams.logs, &streams.seen);
    rows
}

/// What the database answers of a stream whose lease holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// The log's last number before the call.
    log_end: i64,
    /// The events were written by a call whose answer was lost.
    is_there: bool,
}

impl Held {
    /// By the streams' positions. None: nothing of it was written.
    fn of(answer: &[Row], streams: usize) -> Vec<Option<Self>> {
        let mut all = vec![None; streams];
        for row in answer {
            let nth = usize::try_from(row.get::<_, i32>(0) - 1).unwrap_or(usize::MAX);
            if let Some(held) = all.get_mut(nth) {
                *held = Some(Self {
                    log_end: row.get(1),
                    is_there: row.get(2),
                });
            }
        }
        all
    }
}

/// Numbers the rows as the database has, and records the committed ends of the streams' logs.
fn written(streams: &Streams, rows: &NewRows<'_>, held: &[Option<Held>]) -> Written {
    let mut ends: HashMap<Uuid, i64> = HashMap::new();
    for (log_id, held) in streams.logs.iter().zip(held) {
        ends.extend(held.map(|held| (*log_id, held.log_end)));
    }
    let is_carried = CarriedRow::fit(rows) && held.iter().flatten().all(|held| !held.is_there);
    let mut carried = Vec::new();
    for index in 0..rows.len() {
        let of = usize::try_from(rows.streams[index] - 1).unwrap_or(usize::MAX);
        let Some(Some(Held { is_there: false, .. })) = held.get(of) else {
            continue;
        };
        let log_id = streams.logs[of];
        let end = ends.entry(log_id).or_default();
        *end += i64::from(rows.events[index]);
        if is_carried {
            carried.push(CarriedRow {
                log_id,
                row: rows.stored(index, *end),
            });
        }
    }
    let mut lost = Vec::new();
    for (stream, held) in streams.all.iter().zip(held) {
        match (held, ends.get(&stream.log_id)) {
            (Some(_), Some(end)) => stream.seen.advance(*end),
            _ => lost.push(stream.clone()),
        }
    }
    Written { lost, rows: carried }
}

/// The statement is a transaction; the function's comment says what it writes.
const WRITE: &str =
    "select nth, log_end, is_there from stream.write($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
