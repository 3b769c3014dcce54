//! Synthetic vectors for all objects of a database, COPY as the limit of imports, and single writes.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::Result;
use futures::{SinkExt as _, StreamExt as _};
use rejoin_graph::objects::{self, NewObject};
use rejoin_graph::query_vector::QueryVector;
use rejoin_graph::vectors;
use rejoin_graph::{Actor, ActorKind};
use tokio_postgres::NoTls;
use uuid::Uuid;

use super::generate::Dice;
use crate::load::{Latencies, now_us};
use crate::server::Database;

pub const MODEL: &str = "bench:made-up";
const DIMENSIONS: usize = 384;
/// Number of clusters of vectors, and the individual share of a vector.
const GROUPS: usize = 1_000;
const OWN: f64 = 0.7;
/// Size of a write.
const CHUNK: usize = 256 * 1024;

/// Returns a vector of one of the clusters, of length 1.
pub fn vector(dice: &mut Dice) -> Vec<f32> {
    let mut group = Dice::new(dice.below(GROUPS) as u64);
    let mut vector: Vec<f32> = (0..DIMENSIONS)
        .map(|_| ((group.share() - 0.5) + OWN * (dice.share() - 0.5)) as f32)
        .collect();
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|x| *x /= length);
    vector
}

pub fn query(dice: &mut Dice) -> QueryVector {
    QueryVector::new(MODEL, vector(dice))
}

/// Fills in a vector for each live object, by COPY.
pub async fn fill(database: &Database) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(&database.url, NoTls).await?;
    let driving = tokio::spawn(connection);
    let brackets = if vectors::has_index(&database.db.pool_sqlx).await? {
        ('[', ']')
    } else {
        ('{', '}')
    };
    let rows: Vec<(Uuid, Vec<u8>)> = sqlx::query_as(
        "select canonical_id, content_hash from kb.graph_objects where superseded_at is null and deleted_at is null",
    )
    .fetch_all(&database.db.pool_sqlx)
    .await?;
    let sink = client
        .copy_in("copy kb.graph_embeddings (project_id, canonical_id, model, dimensions, content_hash, signs, vector) from stdin")
        .await?;
    futures::pin_mut!(sink);
    let mut dice = Dice::new(11);
    let mut text = String::with_capacity(CHUNK * 2);
    for (id, hash) in rows {
        let vector = vector(&mut dice);
        write!(text, "{}\t{id}\t{MODEL}\t{DIMENSIONS}\t\\\\x", database.workspace_id)?;
        for byte in hash {
            write!(text, "{byte:02x}")?;
        }
        text.push('\t');
        text.extend(vector.iter().map(|x| if *x > 0.0 { '1' } else { '0' }));
        text.push('\t');
        text.push(brackets.0);
        for (at, x) in vector.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            write!(text, "{x:.4}")?;
        }
        text.push(brackets.1);
        text.push('\n');
        if text.len() > CHUNK {
            sink.send(bytes::Bytes::from(std::mem::take(&mut text))).await?;
        }
    }
    sink.send(bytes::Bytes::from(text)).await?;
    sink.finish().await?;
    drop(client);
    driving.await??;
    Ok(())
}

/// Rows per second of COPY: the graph's tables, into equal empty ones.
pub async fn copy_rows_per_s(database: &Database) -> Result<f64> {
    const OBJECTS: &str = "id, project_id, canonical_id, version, type, key, status, labels, properties, change_summary, content_hash, \
                           schema_version, actor_type, actor_id, created_at, updated_at, deleted_at, superseded_at";
    const RELATIONSHIPS: &str = "id, project_id, canonical_id, version, type, source_id, target_id, properties, weight, valid_from, valid_to, \
                                 content_hash, change_summary, actor_type, actor_id, created_at, updated_at, deleted_at, superseded_at";
    let (from, from_driver) = tokio_postgres::connect(&database.url, NoTls).await?;
    let (to, to_driver) = tokio_postgres::connect(&database.url, NoTls).await?;
    tokio::spawn(from_driver);
    tokio::spawn(to_driver);
    let mut rows = 0;
    let began = Instant::now();
    for (table, columns) in [("graph_objects", OBJECTS), ("graph_relationships", RELATIONSHIPS)] {
        to.batch_execute(&format!("create table copy_{table} (like kb.{table} including all)"))
            .await?;
        let source = from.copy_out(&format!("copy kb.{table} ({columns}) to stdout")).await?;
        let sink = to.copy_in(&format!("copy copy_{table} ({columns}) from stdin")).await?;
        futures::pin_mut!(source, sink);
        while let Some(chunk) = source.next().await {
            sink.feed(chunk?).await?;
        }
        rows += sink.finish().await?;
    }
    let rate = rows as f64 / began.elapsed().as_secs_f64();
    to.batch_execute("drop table copy_graph_objects, copy_graph_relationships")
        .await?;
    Ok(rate)
}

/// Measures creating an object, with or without its embedding mark.
pub async fn single_writes(database: &Database, count: usize, marks: bool) -> Result<Latencies> {
    let actor = Actor {
        kind: ActorKind::User,
        id: None,
    };
    let mut connection = database.db.pool_sqlx.acquire().await?;
    let bulk = if marks { "off" } else { "on" };
    sqlx::query("select set_config('rejoin.bulk', $1, false)")
        .bind(bulk)
        .execute(&mut *connection)
        .await?;
    let mut latencies = Latencies::default();
    for _ in 0..count {
        let new = NewObject {
            object_type: "Note".to_owned(),
            ..NewObject::default()
        };
        let began = now_us();
        objects::create(&mut connection, database.workspace_id, &new, actor).await?;
        latencies.since(began);
    }
    sqlx::query("reset rejoin.bulk").execute(&mut *connection).await?;
    Ok(latencies)
}
