//! A log that a program appends to in its own transactions, and a reader who follows it.
//!
//! `DATABASE_URL=postgres://… cargo run -p rejoin-event-log --example append_and_read`, on a database that has the migration
//! `0002_event_log`.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use rejoin_db::config::{DatabaseArgs, POLL_INTERVAL};
use rejoin_db::{Db, PgError, Role};
use rejoin_event_log::rows::StoredEvent;
use rejoin_event_log::wakeup::{self, Wake};
use rejoin_event_log::{log, retention};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use uuid::Uuid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::var("DATABASE_URL")?, &mut std::io::stdout()).await
}

/// Runs the example and writes what happens to `out`.
pub async fn run(database_url: &str, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let db = Db::connect_lazy(&DatabaseArgs::new(database_url), "event-log-example", Role::Login)?;
    let bus = wakeup::over_postgres(&db);
    let order = Uuid::now_v7();

    // Events exist exactly if what they tell of does: both are committed together.
    let mut tx = rejoin_db::begin(&db.pool_sqlx).await?;
    log::create(&mut tx, order).await?;
    let events = [("created", json!({ "items": 2 })), ("paid", json!({ "euros": 30 }))];
    let last = log::append_json(&mut tx, order, None, &events).await?;
    tx.commit().await?;
    writeln!(out, "appended up to {last}")?;

    // A transaction that is rolled back leaves no gap: the next event gets the same number.
    let mut tx = rejoin_db::begin(&db.pool_sqlx).await?;
    log::append_json(&mut tx, order, None, &[("lost", Value::Null)]).await?;
    tx.rollback().await?;

    for event in log::read(&db.pool_pg, order, 0).await? {
        writeln!(out, "read {}", line(&event)?)?;
    }

    // The reader subscribes before it looks, so that nothing is committed between the two unnoticed.
    let mut hints = bus.subscribe();
    let append = async {
        let mut tx = rejoin_db::begin(&db.pool_sqlx).await?;
        let last = log::append_json(&mut tx, order, None, &[("sent", json!({ "parcel": "A7" }))]).await?;
        tx.commit().await?;
        // After the commit: a wake-up is a hint, and the table is the truth.
        bus.publish(Wake::log(order));
        Ok::<_, sqlx::Error>(last)
    };
    let (followed, appended) = tokio::join!(follow(&db, order, last, &mut hints), append);
    appended?;
    for event in followed? {
        writeln!(out, "followed {}", line(&event)?)?;
    }

    // Old events may go. Numbers stay: a reader sees from the oldest number that it has missed something.
    let removed = retention::trim_log(&db.pool_sqlx, order, 2).await?;
    let left = log::read(&db.pool_pg, order, 0).await?;
    let oldest = left.first().ok_or("the log is empty")?.seq;
    writeln!(out, "removed {removed}, the oldest is {oldest}")?;
    Ok(())
}

/// Waits for the first events after `after`. A wake-up ends the wait; if it was lost, the next look after the poll interval does.
async fn follow(
    db: &Db,
    log_id: Uuid,
    after: i64,
    hints: &mut broadcast::Receiver<Arc<Wake>>,
) -> Result<Vec<StoredEvent>, PgError> {
    loop {
        let events = log::read(&db.pool_pg, log_id, after).await?;
        if !events.is_empty() {
            return Ok(events);
        }
        let ours = async {
            loop {
                let wake = wakeup::next(hints).await;
                if wake.all || wake.all_logs().any(|log| log == log_id) {
                    break;
                }
            }
        };
        // Over time: no hint came, and the reader looks anyway.
        let _ = tokio::time::timeout(POLL_INTERVAL, ours).await;
    }
}

/// An event as a person reads it.
fn line(event: &StoredEvent) -> Result<String, std::str::Utf8Error> {
    let data = std::str::from_utf8(&event.data)?;
    Ok(format!("{} {} {data}", event.seq, event.kind))
}
