//! Data sources: external databases that a workspace's users and agents may query. Rows of `kb.data_sources` and their
//! SQL; connections are made by `rejoin-data-sources`.
//!
//! - `settings`  the settings of a source and their validation
//! - `schemas`   cached schemas of their tables
//!
//! Invariants: a password is stored encrypted, never in the settings, and never returned; a change of how a source is
//! reached raises its revision, and connections and schemas of older revisions are no longer used.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::json;
use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use rejoin_secrets::envelope::{self, Sealed};
use rejoin_secrets::{MasterKeys, Plaintext, SecretError};
use rejoin_types::ids;

pub mod schemas;
pub mod settings;

pub use settings::{Kind, Limits, Settings, check_name, from_url};

/// Maximum number of sources in a workspace.
pub const MAX_SOURCES: i64 = 200;
/// Maximum length of a stored failure, in characters.
const FAILURE_MAX_CHARS: usize = 500;

/// The content of a source, without its secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    pub name: String,
    pub kind: Kind,
    pub settings: Settings,
    pub limits: Limits,
    /// Whether only reads are allowed.
    pub read_only: bool,
}

impl Content {
    /// Validates it. The error is a message for the author.
    pub fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        self.settings.check(self.kind)?;
        if self.kind == Kind::Duckdb && !self.read_only {
            return Err("a duckdb source is read-only; leave `readOnly` true".to_owned());
        }
        self.limits.check()
    }
}

/// A source as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSource {
    pub id: Uuid,
    pub workspace_id: Uuid,
    pub content: Content,
    pub owner_user_id: Option<Uuid>,
    /// Whether a password or a key is stored.
    pub has_secret: bool,
    /// The revision: counts changes of the connection settings.
    pub revision: i32,
    pub tested_at: Option<DateTime<Utc>>,
    /// The failure of the last test.
    pub failure: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

struct Row {
    id: Uuid,
    workspace_id: Uuid,
    name: String,
    kind: String,
    settings: serde_json::Value,
    limits: serde_json::Value,
    read_only: bool,
    owner_user_id: Option<Uuid>,
    has_secret: bool,
    revision: i32,
    tested_at: Option<DateTime<Utc>>,
    failure: Option<String>,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl TryFrom<Row> for DataSource {
    type Error = sqlx::Error;

    fn try_from(row: Row) -> Result<Self, sqlx::Error> {
        let broken =
            |what: &str| sqlx::Error::Decode(format!("the {what} of the data source {} is invalid", row.id).into());
        Ok(Self {
            id: row.id,
            workspace_id: row.workspace_id,
            content: Content {
                kind: row.kind.parse().map_err(|_| broken("kind"))?,
                settings: serde_json::from_value(row.settings.clone()).map_err(|_| broken("settings"))?,
                limits: serde_json::from_value(row.limits.clone()).map_err(|_| broken("limits"))?,
                read_only: row.read_only,
                name: row.name.clone(),
            },
            owner_user_id: row.owner_user_id,
            has_secret: row.has_secret,
            revision: row.revision,
            tested_at: row.tested_at,
            failure: row.failure.clone(),
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }
}

/// Returns all sources of a workspace, by name.
pub async fn list(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<DataSource>, sqlx::Error> {
    let rows = sqlx::query_as!(
        Row,
        r#"select id, project_id as workspace_id, name, kind, settings, limits, read_only, owner_user_id, key_id is not null as "has_secret!", revision,
                  tested_at, failure, created_at, updated_at
           from kb.data_sources where project_id = $1 order by name"#,
        workspace_id
    )
    .fetch_all(db)
    .await?;
    rows.into_iter().map(DataSource::try_from).collect()
}

pub async fn get(db: impl PgExecutor<'_>, workspace_id: Uuid, id: Uuid) -> Result<Option<DataSource>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        r#"select id, project_id as workspace_id, name, kind, settings, limits, read_only, owner_user_id, key_id is not null as "has_secret!", revision,
                  tested_at, failure, created_at, updated_at
           from kb.data_sources where project_id = $1 and id = $2"#,
        workspace_id,
        id
    )
    .fetch_optional(db)
    .await?;
    row.map(DataSource::try_from).transpose()
}

/// Finds a source by id or by name, as models refer to it.
pub async fn find(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    wanted: &str,
) -> Result<Option<DataSource>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        r#"select id, project_id as workspace_id, name, kind, settings, limits, read_only, owner_user_id, key_id is not null as "has_secret!", revision,
                  tested_at, failure, created_at, updated_at
           from kb.data_sources where project_id = $1 and (id::text = lower($2) or name = $2)
           order by name = $2
           limit 1"#,
        workspace_id,
        wanted
    )
    .fetch_optional(db)
    .await?;
    row.map(DataSource::try_from).transpose()
}

pub async fn count(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from kb.data_sources where project_id = $1"#,
        workspace_id
    )
    .fetch_one(db)
    .await
}

/// The change of a source's secret.
pub enum Secret {
    /// Unchanged.
    Kept,
    Removed,
    /// Encrypted for the source's id by [`seal`].
    Set(Sealed),
}

/// Returns a new id, for which a secret can be encrypted.
pub fn new_id() -> Uuid {
    ids::new()
}

/// Inserts a validated source. None: the name is taken.
pub async fn create(
    db: &mut PgConnection,
    id: Uuid,
    workspace_id: Uuid,
    owner: Option<Uuid>,
    content: &Content,
    sealed: Option<&Sealed>,
) -> Result<Option<DataSource>, sqlx::Error> {
    let row = sqlx::query_as!(
        Row,
        r#"insert into kb.data_sources
               (id, project_id, name, kind, settings, limits, read_only, owner_user_id, key_id, wrapped_key, ciphertext)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
           on conflict (project_id, name) do nothing
           returning id, project_id as workspace_id, name, kind, settings, limits, read_only, owner_user_id, key_id is not null as "has_secret!",
                     revision, tested_at, failure, created_at, updated_at"#,
        id,
        workspace_id,
        content.name,
        content.kind.as_str(),
        json!(content.settings),
        json!(content.limits),
        content.read_only,
        owner,
        sealed.map(|sealed| sealed.key_id.as_str()),
        sealed.map(|sealed| sealed.wrapped_key.as_slice()),
        sealed.map(|sealed| sealed.ciphertext.as_slice()),
    )
    .fetch_optional(db)
    .await?;
    row.map(DataSource::try_from).transpose()
}

/// Replaces a source's content by a validated one; its kind is immutable. None: it does not exist, or the name is
/// taken.
pub async fn update(
    db: &mut PgConnection,
    workspace_id: Uuid,
    id: Uuid,
    content: &Content,
    secret: &Secret,
) -> Result<Option<DataSource>, sqlx::Error> {
    let sealed = match secret {
        Secret::Set(sealed) => Some(sealed),
        Secret::Kept | Secret::Removed => None,
    };
    let row = sqlx::query_as!(
        Row,
        r#"update kb.data_sources
           set name = $3, settings = $4, limits = $5, read_only = $6, updated_at = now(), revision = revision + 1,
               key_id = case when $7 then key_id else $8 end,
               wrapped_key = case when $7 then wrapped_key else $9 end,
               ciphertext = case when $7 then ciphertext else $10 end
           where project_id = $1 and id = $2
             and not exists (select from kb.data_sources other where other.project_id = $1 and other.name = $3 and other.id <> $2)
           returning id, project_id as workspace_id, name, kind, settings, limits, read_only, owner_user_id, key_id is not null as "has_secret!",
                     revision, tested_at, failure, created_at, updated_at"#,
        workspace_id,
        id,
        content.name,
        json!(content.settings),
        json!(content.limits),
        content.read_only,
        matches!(secret, Secret::Kept),
        sealed.map(|sealed| sealed.key_id.as_str()),
        sealed.map(|sealed| sealed.wrapped_key.as_slice()),
        sealed.map(|sealed| sealed.ciphertext.as_slice()),
    )
    .fetch_optional(db)
    .await?;
    row.map(DataSource::try_from).transpose()
}

/// Records the result of a test; a failure's text holds no secret.
pub async fn tested(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    id: Uuid,
    failure: Option<&str>,
) -> Result<(), sqlx::Error> {
    let failure = failure.map(|failure| failure.chars().take(FAILURE_MAX_CHARS).collect::<String>());
    sqlx::query!(
        "update kb.data_sources set tested_at = now(), failure = $3 where project_id = $1 and id = $2",
        workspace_id,
        id,
        failure
    )
    .execute(db)
    .await?;
    Ok(())
}

/// False: it does not exist.
pub async fn delete(db: &mut PgConnection, workspace_id: Uuid, id: Uuid) -> Result<bool, sqlx::Error> {
    let deleted = sqlx::query!(
        "delete from kb.data_sources where project_id = $1 and id = $2",
        workspace_id,
        id
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected() > 0)
}

/// The name to which a source's secret is bound, besides its workspace: it decrypts for no other source, and is not a
/// secret of the workspace.
fn sealed_for(id: Uuid) -> String {
    format!("data_source:{id}")
}

/// Encrypts a source's password or key.
///
/// # Errors
/// It is empty or too large; the system provides no random numbers.
pub fn seal(keys: &MasterKeys, workspace_id: Uuid, id: Uuid, value: &Plaintext) -> Result<Sealed, SecretError> {
    if value.expose().is_empty() || value.expose().len() > rejoin_secrets::VALUE_MAX_BYTES {
        return Err(SecretError::Size);
    }
    envelope::seal(keys, workspace_id, &sealed_for(id), value)
}

/// Decrypts a source's password or key. None: it has none.
///
/// # Errors
/// Its master key is missing, or the ciphertext is invalid.
pub async fn open_secret(
    db: impl PgExecutor<'_>,
    keys: &MasterKeys,
    workspace_id: Uuid,
    id: Uuid,
) -> Result<Option<Plaintext>, SecretError> {
    let row = sqlx::query!(
        r#"select key_id as "key_id!", wrapped_key as "wrapped_key!", ciphertext as "ciphertext!"
           from kb.data_sources where project_id = $1 and id = $2 and key_id is not null"#,
        workspace_id,
        id
    )
    .fetch_optional(db)
    .await?;
    row.map(|row| {
        let sealed = Sealed {
            key_id: row.key_id,
            wrapped_key: row.wrapped_key,
            ciphertext: row.ciphertext,
        };
        envelope::open(keys, workspace_id, &sealed_for(id), &sealed)
    })
    .transpose()
}

/// Re-encrypts the data keys of all sources' secrets with the first master key, like `secrets::rotate`. Returns the
/// number of re-encrypted ones, and of failures, which stay unchanged.
pub async fn rotate(db: &PgPool, keys: &MasterKeys) -> Result<(u64, Vec<SecretError>), SecretError> {
    let first = keys.first_id();
    // One row per source, and there are few.
    let rows = sqlx::query!(
        r#"select id, project_id, key_id as "key_id!", wrapped_key as "wrapped_key!" from kb.data_sources where key_id <> $1 order by id"#,
        first
    )
    .fetch_all(db)
    .await?;
    let (mut done, mut failures) = (0, Vec::new());
    for row in rows {
        match envelope::rewrap(keys, row.project_id, &sealed_for(row.id), &row.key_id, &row.wrapped_key) {
            Ok(wrapped) => {
                // Unless another password was set meanwhile.
                let updated = sqlx::query!(
                    "update kb.data_sources set key_id = $3, wrapped_key = $4 where id = $1 and wrapped_key = $2",
                    row.id,
                    row.wrapped_key,
                    first,
                    wrapped
                )
                .execute(db)
                .await?;
                done += updated.rows_affected();
            }
            Err(error) => failures.push(error),
        }
    }
    Ok((done, failures))
}

/// A source as listed, for models and programs.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed<'a> {
    pub id: Uuid,
    pub name: &'a str,
    pub kind: Kind,
    pub database: Option<&'a str>,
    pub read_only: bool,
}

impl DataSource {
    pub fn listed(&self) -> Listed<'_> {
        Listed {
            id: self.id,
            name: &self.content.name,
            kind: self.content.kind,
            database: self.content.settings.database.as_deref(),
            read_only: self.content.read_only,
        }
    }
}
