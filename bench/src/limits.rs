//! Raw limits of the machine and of PostgreSQL, measured in the same repetition as the figures compared with them.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::SinkExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::load::{Latencies, now_us};
use crate::server::Database;

/// Rows per second of a plain (not binary) COPY into a table like `stream.events` (same columns, same primary key,
/// `data_bytes` of data per row), one connection, durable. The limit of any append.
pub async fn copy_rows_per_s(database: &Database, rows: usize, data_bytes: usize) -> Result<f64> {
    let client = database.db.pool_pg.get().await?;
    client
        .batch_execute("drop table if exists copy_limit; create table copy_limit (like stream.events including all)")
        .await?;
    let log = uuid::Uuid::now_v7();
    let data = "x".repeat(data_bytes);
    let began = Instant::now();
    let sink = client
        .copy_in("copy copy_limit (log_id, seq, run_id, type, data) from stdin")
        .await?;
    futures::pin_mut!(sink);
    let mut buffer = bytes::BytesMut::with_capacity(80 * 1024);
    for seq in 1..=rows {
        std::fmt::Write::write_fmt(&mut buffer, format_args!("{log}\t{seq}\t{log}\ttoken\t{data}\n"))?;
        if buffer.len() > 64 * 1024 {
            sink.send(buffer.split().freeze()).await?;
        }
    }
    sink.send(buffer.freeze()).await?;
    sink.finish().await?;
    let rate = rows as f64 / began.elapsed().as_secs_f64();
    client.batch_execute("drop table copy_limit").await?;
    Ok(rate)
}

/// One-row inserts with a commit each, one connection, prepared.
pub async fn commits_per_s(database: &Database, span: Duration) -> Result<f64> {
    let client = database.db.pool_pg.get().await?;
    client
        .batch_execute("create table if not exists commit_limit (n bigint)")
        .await?;
    let insert = client.prepare("insert into commit_limit values ($1)").await?;
    let began = Instant::now();
    let mut n = 0_i64;
    while began.elapsed() < span {
        client.execute(&insert, &[&n]).await?;
        n += 1;
    }
    let rate = n as f64 / began.elapsed().as_secs_f64();
    client.batch_execute("drop table commit_limit").await?;
    Ok(rate)
}

/// Latencies of one-row commits, one after the other on one connection, prepared.
pub async fn commits(database: &Database, n: usize) -> Result<Latencies> {
    chains(database, n, 1).await
}

/// Number of measured chains below.
const CHAINS: usize = 100;

/// Median duration of this many consecutive one-row commits on one connection, prepared, in milliseconds.
pub async fn commit_chain_ms(database: &Database, commits: usize) -> Result<f64> {
    Ok(chains(database, CHAINS, commits).await?.quantile_ms(0.5))
}

/// Latencies of `n` chains of commits.
async fn chains(database: &Database, n: usize, commits: usize) -> Result<Latencies> {
    let client = database.db.pool_pg.get().await?;
    client
        .batch_execute("create table if not exists commit_limit (n bigint)")
        .await?;
    let insert = client.prepare("insert into commit_limit values ($1)").await?;
    let mut latencies = Latencies::default();
    for _ in 0..n {
        let began = now_us();
        for _ in 0..commits {
            client.execute(&insert, &[&1_i64]).await?;
        }
        latencies.since(began);
    }
    client.batch_execute("drop table commit_limit").await?;
    Ok(latencies)
}

/// Rate of 8 kB writes, each followed by fdatasync.
pub async fn fsyncs_per_s(span: Duration) -> Result<f64> {
    tokio::task::spawn_blocking(move || {
        let path = std::env::temp_dir().join(format!("rejoin-bench-fsync-{}", std::process::id()));
        let mut file = std::fs::File::create(&path)?;
        let page = [0_u8; 8192];
        let began = Instant::now();
        let mut n = 0_u64;
        while began.elapsed() < span {
            file.write_all(&page)?;
            file.sync_data()?;
            n += 1;
        }
        let rate = n as f64 / began.elapsed().as_secs_f64();
        std::fs::remove_file(&path)?;
        Ok(rate)
    })
    .await?
}

/// Round trips per second of 200 bytes over a loopback TCP connection.
pub async fn loopback_round_trips_per_s(span: Duration) -> Result<f64> {
    const BYTES: usize = 200;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let echo = tokio::spawn(async move {
        let (mut peer, _) = listener.accept().await?;
        peer.set_nodelay(true)?;
        let mut buffer = [0_u8; BYTES];
        while peer.read_exact(&mut buffer).await.is_ok() {
            peer.write_all(&buffer).await?;
        }
        Ok::<_, std::io::Error>(())
    });
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut buffer = [0_u8; BYTES];
    let began = Instant::now();
    let mut n = 0_u64;
    while began.elapsed() < span {
        stream.write_all(&buffer).await?;
        stream.read_exact(&mut buffer).await?;
        n += 1;
    }
    drop(stream);
    echo.await??;
    Ok(n as f64 / began.elapsed().as_secs_f64())
}
