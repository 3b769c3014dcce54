//! Events that are appended in a transaction and read from a cursor: the example of the README.

use std::error::Error;

use rejoin_db::config::DatabaseArgs;
use rejoin_db::{Db, Role};
use rejoin_event_log::log;
use rejoin_event_log::rows::StoredEvent;
use serde_json::json;
use uuid::Uuid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    run(&std::env::var("DATABASE_URL")?).await?;
    Ok(())
}

/// Makes a log of three events and returns those after the first.
pub async fn run(database_url: &str) -> Result<Vec<StoredEvent>, Box<dyn Error>> {
    let db = Db::connect_lazy(&DatabaseArgs::new(database_url), "first-events", Role::Login)?;
    let order = Uuid::now_v7();

    let mut tx = rejoin_db::begin(&db.pool_sqlx).await?;
    log::create(&mut tx, order).await?;
    let events = [("created", json!({ "items": 2 })), ("paid", json!({ "euros": 30 }))];
    let last = log::append_json(&mut tx, order, None, &events).await?;
    tx.commit().await?;
    assert_eq!(last, 2);

    let mut tx = rejoin_db::begin(&db.pool_sqlx).await?;
    let sent = [("sent", json!({ "parcel": "A7" }))];
    log::append_json(&mut tx, order, None, &sent).await?;
    tx.commit().await?;

    // From the first event on: the cursor of a reader is the number of the last event that it has seen.
    Ok(log::read(&db.pool_pg, order, 1).await?)
}
