//! `rejoin secrets`: secrets of a project, encrypted before they reach the database; directly in it.
//!
//! Invariants: a value comes from stdin, never from the command line, which every user of the machine can see; no
//! output ever holds one.
use std::io::{self, IsTerminal, Read};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use rejoin_identity::audit::Actor;
use rejoin_integrations::key_rotation;
use rejoin_secrets::{MasterKeys, Plaintext, SecretError, SecretKeyArgs, VALUE_MAX_BYTES, keys};
use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

use crate::{database, dev::secret_keys, dev_instance, exit::Exit, global::Global, out::Out};

/// Manage secrets of agents, encrypted with master keys that are not in the database. Talks to the database.
///
/// The master keys are in a file (REJOIN_SECRET_KEYS_FILE), one `id:base64` per line, or in REJOIN_SECRET_KEYS; `rejoin
/// dev` creates its own. The first key encrypts, all keys decrypt. To rotate, add a new key in front, run `rotate`, and
/// remove the old key. If the keys are lost, the secrets are lost.
///
/// Examples:
///   rejoin secrets new-key >> secret-keys
///   rejoin secrets set MCP_TOKEN --project acme < token.txt
///   rejoin secrets list
///   rejoin secrets remove MCP_TOKEN
///   rejoin secrets rotate
///   rejoin secrets rotate --check && echo "the old key may go"
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Print a new master key, as a line for the file. Needs no database.
    NewKey,
    /// Set a secret to the content of stdin, without the trailing newline.
    Set {
        /// Name: a letter, then letters, digits, `_`, `.` and `-`.
        name: String,
        /// Project, by name or id [default: that of `rejoin dev`, or the only one]
        #[arg(long, env = "REJOIN_PROJECT_ID", value_name = "NAME|ID")]
        project: Option<String>,
        #[command(flatten)]
        keys: SecretKeyArgs,
    },
    /// List a project's secrets: names, versions and master keys. Values are never shown.
    List {
        /// Project, by name or id [default: that of `rejoin dev`, or the only one]
        #[arg(long, env = "REJOIN_PROJECT_ID", value_name = "NAME|ID")]
        project: Option<String>,
    },
    /// Remove a secret.
    Remove {
        name: String,
        /// Project, by name or id [default: that of `rejoin dev`, or the only one]
        #[arg(long, env = "REJOIN_PROJECT_ID", value_name = "NAME|ID")]
        project: Option<String>,
    },
    /// Re-encrypt the data keys of all projects' secrets with the first master key. If interrupted, run it again to
    /// continue.
    Rotate {
        /// Change nothing; print how many secrets use another key, and fail if there are any.
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        keys: SecretKeyArgs,
    },
}

/// # Errors
/// The database can't be reached, no master key is configured, or the secret does not exist.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    match args.action {
        Action::NewKey => {
            let key = keys::generate();
            out.line(&key)?;
            out.note(
                "Do not store it together with the database's backups. If it is lost, all secrets encrypted with \
                it are lost.",
            );
        }
        Action::Set { name, project, keys } => {
            let keys = load(global, &keys)?;
            let value = read_value(&name)?;
            let pool = database::connect(global).await?;
            let project = database::project(&pool, project.as_deref()).await?;
            set(&pool, &keys, project, &name, &value, out).await?;
        }
        Action::List { project } => {
            let pool = database::connect(global).await?;
            let project = database::project(&pool, project.as_deref()).await?;
            list(&pool, project, out).await?;
        }
        Action::Remove { name, project } => {
            let pool = database::connect(global).await?;
            let project = database::project(&pool, project.as_deref()).await?;
            remove(&pool, project, &name, out).await?;
        }
        Action::Rotate { check, keys } => {
            let keys = load(global, &keys)?;
            let pool = database::connect(global).await?;
            if check {
                return say_what_is_old(&pool, &keys, out).await;
            }
            return rotate(&pool, &keys, out).await;
        }
    }
    Ok(Exit::Done)
}

/// Loads the master keys of the settings; for the database of `rejoin dev` only, those of `rejoin dev`.
fn load(global: &Global, args: &SecretKeyArgs) -> Result<MasterKeys> {
    let configured = args.file().is_some() || keys::are_configured();
    if !configured && global.database_url().is_none() {
        let file = dev_instance::default_data_dir().map(|dir| secret_keys::path(&dir));
        if let Some(file) = file.ok().filter(|file| file.exists()) {
            return Ok(MasterKeys::configured(Some(&file), None)?);
        }
    }
    Ok(args.load()?)
}

/// Reads stdin.
fn read_value(name: &str) -> Result<Plaintext> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        bail!("the value is read from stdin, so that it is not shown on a terminal: rejoin secrets set {name} < FILE");
    }
    // With capacity for all of it: a growing buffer leaves copies behind. One byte more than allowed, and a line end.
    let room = VALUE_MAX_BYTES + 3;
    let mut value = Vec::with_capacity(room);
    let read = stdin.lock().take(room as u64).read_to_end(&mut value);
    if value.ends_with(b"\n") {
        value.pop();
        if value.ends_with(b"\r") {
            value.pop();
        }
    }
    let value = Plaintext::new(value);
    read.context("reading the value from stdin failed")?;
    Ok(value)
}

async fn set(pool: &PgPool, keys: &MasterKeys, project: Uuid, name: &str, value: &Plaintext, out: Out) -> Result<()> {
    let setting = async {
        let mut tx = rejoin_db::begin(pool).await?;
        let version = rejoin_secrets::set(&mut tx, keys, &Actor::operator(), project, name, value).await?;
        tx.commit().await?;
        Ok::<i32, SecretError>(version)
    };
    let version = setting
        .await
        .with_context(|| format!("setting the secret {name} failed"))?;
    if out.is_json() {
        return out.json(&json!({ "name": name, "projectId": project, "version": version, "keyId": keys.first_id() }));
    }
    out.line(&format!(
        "{name} is set (version {version}, under the master key {})",
        keys.first_id()
    ))
}

async fn list(pool: &PgPool, project: Uuid, out: Out) -> Result<()> {
    let listed = rejoin_secrets::list(pool, project)
        .await
        .context("reading the secrets failed")?;
    if out.is_json() {
        return out.json(&listed);
    }
    out.note(&format!("Secrets of the project {project}:"));
    let rows: Vec<[String; 4]> = listed
        .into_iter()
        .map(|secret| {
            let at = secret.updated_at.format("%Y-%m-%d %H:%M:%S").to_string();
            [secret.name, secret.version.to_string(), secret.key_id, at]
        })
        .collect();
    out.table(["NAME", "VERSION", "MASTER KEY", "SET (UTC)"], &rows)
}

async fn remove(pool: &PgPool, project: Uuid, name: &str, out: Out) -> Result<()> {
    let removing = async {
        let mut tx = rejoin_db::begin(pool).await?;
        let removed = rejoin_secrets::remove(&mut tx, &Actor::operator(), project, name).await?;
        tx.commit().await?;
        Ok::<bool, SecretError>(removed)
    };
    if !removing
        .await
        .with_context(|| format!("removing the secret {name} failed"))?
    {
        let message = format!("the project has no secret {name:?} (`rejoin secrets list`)");
        return Err(Exit::NotFound.because(message).into());
    }
    if out.is_json() {
        return out.json(&json!({ "name": name, "removed": true }));
    }
    out.line(&format!("{name} was removed"))
}

async fn rotate(pool: &PgPool, keys: &MasterKeys, out: Out) -> Result<Exit> {
    let rotated = key_rotation::rotate(pool, keys, &Actor::operator()).await;
    let rotated = rotated.context("rotating the secrets failed (finished batches are done; run it again)")?;
    let first = keys.first_id();
    if out.is_json() {
        out.json(&json!({ "keyId": first, "rewrapped": rotated.rewrapped, "failed": rotated.failed }))?;
    } else {
        out.line(&format!(
            "{} secrets are now encrypted with the master key {first}",
            rotated.rewrapped
        ))?;
    }
    match rotated.first_failure {
        None => Ok(Exit::Done),
        Some(error) => {
            let message = format!("{} secrets were not rotated; the first of them", rotated.failed);
            Err(anyhow::Error::new(error).context(message))
        }
    }
}

async fn say_what_is_old(pool: &PgPool, keys: &MasterKeys, out: Out) -> Result<Exit> {
    let old = rejoin_secrets::under_old_keys(pool, keys).await;
    let old = old.context("counting the secrets failed")?;
    let count: i64 = old.iter().map(|key| key.secrets).sum();
    if out.is_json() {
        out.json(&json!({ "keyId": keys.first_id(), "old": count, "byKey": old }))?;
    } else {
        out.line(&format!(
            "{count} secrets use another master key than {}",
            keys.first_id()
        ))?;
        for key in &old {
            out.line(&format!("  {}  {}", key.key_id, key.secrets))?;
        }
    }
    if count > 0 {
        return Err(Exit::Failed
            .because("the old keys are still needed; run `rejoin secrets rotate`")
            .into());
    }
    Ok(Exit::Done)
}
