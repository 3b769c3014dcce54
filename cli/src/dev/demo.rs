//! The demo project of `rejoin dev`: its user, key, agents and graph. Called once at each start, before the children.
//!
//! Invariants: existing data are kept; two `dev`s on one database create one demo; only its owner can read the key on
//! disk.
use std::{collections::BTreeMap, io::Cursor, path::Path};

use anyhow::{Context, Result, ensure};
use rejoin_graph::import::OnError;
use rejoin_identity::auth::{self, AuthError, Kind};
use rejoin_identity::workspaces::Role;
use rejoin_types::access::{Grant, Scope};
use rejoin_types::digest;
use sqlx::PgPool;
use uuid::Uuid;

use crate::{dev_instance, graph, keys, out::Out};

const PROJECT: &str = "demo";
const USER: &str = "demo";
const KEY_NAME: &str = "rejoin dev";
const KEYS_FILE: &str = "keys.json";
/// The key of an advisory lock: "rejoin", in bytes.
const LOCK: i64 = 0x7265_6a6f_696e;
/// Debian's packages, their maintainers and dependencies.
const GRAPH: &[u8] = include_bytes!("../../../data/debian-packages.ndjson.gz");
/// Number of lines between progress messages.
const TELL_EVERY_LINES: u64 = 20_000;

/// The demo project and its credentials.
#[derive(Debug, Clone)]
pub struct Demo {
    pub workspace_id: Uuid,
    pub user_id: Uuid,
    pub api_key: String,
}

/// Creates what is missing. The keys of earlier starts are in `data_dir`, by database.
///
/// # Errors
/// The database refuses, or the directory is not writable.
pub async fn ensure_there(pool: &PgPool, url: &str, data_dir: &Path, out: Out) -> Result<Demo> {
    let mut lock = pool.acquire().await.context("connecting to the database failed")?;
    sqlx::query("select pg_advisory_lock($1)")
        .bind(LOCK)
        .execute(&mut *lock)
        .await
        .context("taking the lock for the demo project failed")?;
    let made = make(pool, url, data_dir, out).await;
    // A lost connection releases it, too.
    let _freed = sqlx::query("select pg_advisory_unlock($1)")
        .bind(LOCK)
        .execute(&mut *lock)
        .await;
    made
}

async fn make(pool: &PgPool, url: &str, data_dir: &Path, out: Out) -> Result<Demo> {
    let mut tx = rejoin_db::begin(pool).await.context("beginning a transaction failed")?;
    let (workspace_id, user_id) = keys::ensure_workspace(&mut tx, PROJECT, USER, Role::Owner).await?;
    tx.commit().await.context("committing the demo project failed")?;
    let api_key = key(pool, url, data_dir, workspace_id, user_id).await?;
    fill_graph(pool, workspace_id, out).await?;
    Ok(Demo {
        workspace_id,
        user_id,
        api_key,
    })
}

/// Returns the key of an earlier start, if it is still valid for the demo project; else a new one.
async fn key(pool: &PgPool, url: &str, data_dir: &Path, workspace_id: Uuid, user_id: Uuid) -> Result<String> {
    let path = data_dir.join(KEYS_FILE);
    let mut kept: BTreeMap<String, String> = dev_instance::read_json(&path).unwrap_or_default();
    // The URL may contain a password: its hash identifies the database as well.
    let database = digest::hex(&auth::hash_secret(url)[..8]);
    if let Some(key) = kept.get(&database) {
        match auth::authenticate(pool, Kind::Key, key, Some(workspace_id)).await {
            Ok(_) => return Ok(key.clone()),
            Err(
                AuthError::UnknownKey
                | AuthError::UnknownUser
                | AuthError::UnknownWorkspace
                | AuthError::WorkspaceNeeded
                | AuthError::TokenExpired
                | AuthError::TokenNotYetValid,
            ) => {}
            Err(AuthError::Database(error)) => return Err(error).context("checking the demo key failed"),
        }
    }
    let mut connection = pool.acquire().await.context("connecting to the database failed")?;
    let (_id, key) = keys::make_key(
        &mut connection,
        user_id,
        Some(workspace_id),
        KEY_NAME,
        &Scope::ALL.map(Grant::from),
        None,
    )
    .await
    .context("creating the demo key failed")?;
    kept.insert(database, key.clone());
    dev_instance::write_private(&path, &kept)?;
    Ok(key)
}

async fn fill_graph(pool: &PgPool, workspace_id: Uuid, out: Out) -> Result<()> {
    let filled: bool = sqlx::query_scalar("select exists (select from kb.graph_objects where project_id = $1)")
        .bind(workspace_id)
        .fetch_one(pool)
        .await
        .context("reading the demo graph failed")?;
    if filled {
        return Ok(());
    }
    out.note("importing Debian's packages into the demo graph; this happens only once");
    let mut reported = 0;
    let report = graph::import_from(pool, workspace_id, Cursor::new(GRAPH), OnError::Refuse, |lines| {
        if lines >= reported + TELL_EVERY_LINES {
            reported = lines;
            out.note(&format!("  {lines} lines read"));
        }
    })
    .await
    .context("importing the demo graph failed")?;
    ensure!(
        report.imported,
        "the demo graph has {} invalid lines; the first: {:?}",
        report.bad_lines,
        report.bad.first()
    );
    out.note(&format!(
        "the demo graph has {} entities and {} relationships",
        report.objects.created, report.relationships.created
    ));
    Ok(())
}
