//! `queue-peers QUEUE OPERATION …`: queues implemented as Rust crates, each driven as ../README.md describes.
//!
//! # Layout
//! - `protocol` the operations, for any [`protocol::Queue`]
//! - one file per queue

mod apalis;
mod graphile;
mod pgmq;
mod protocol;

use anyhow::{Result, bail};

#[tokio::main]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let queue = words.next().unwrap_or_default();
    let words: Vec<String> = words.collect();
    let pool = protocol::connect().await?;
    match queue.as_str() {
        "pgmq" => protocol::drive(pgmq::Pgmq::new(pool), &words).await,
        "graphile_worker" => protocol::drive(graphile::Graphile::new(pool), &words).await,
        "apalis" => protocol::drive(apalis::Apalis::new(pool), &words).await,
        _ => bail!("no queue is called {queue:?} here"),
    }
}
