//! Secrets of a workspace: values that agents need, such as a data source's password, encrypted in the database.
//!
//! - `keys`      master keys: from the settings, never in the database
//! - `envelope`  envelope encryption: a data key per value, encrypted by a master key
//!
//! ```ignore
//! let keys = args.load()?;
//! secrets::set(&mut tx, &keys, &by, workspace, "MCP_TOKEN", &value).await?;
//! let value = secrets::open(&db, &keys, workspace, "MCP_TOKEN").await?;
//! ```
//!
//! Invariants: no statement, log, entry or error holds a value; an encrypted value decrypts under its own workspace and
//! name only; setting, removal and rotation are audited in the same transaction.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;
use zeroize::Zeroizing;

use rejoin_identity::audit::{self, Action, Actor, NewEntry};

pub mod envelope;
pub mod keys;

pub use keys::{KeyError, MasterKeys, SecretKeyArgs};

/// Maximum size of a value, in bytes.
pub const VALUE_MAX_BYTES: usize = 64 * 1024;
/// Maximum length of a name, in characters.
pub const NAME_MAX_CHARS: usize = 128;

/// A decrypted value, to be held as briefly as possible: it is wiped when dropped, and its `Debug` shows nothing.
pub struct Plaintext(Zeroizing<Vec<u8>>);

impl Plaintext {
    pub fn new(value: Vec<u8>) -> Self {
        Self(Zeroizing::new(value))
    }

    /// Returns the value. Copies of it are not wiped.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Returns the value, if it is text.
    pub fn expose_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl fmt::Debug for Plaintext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plaintext(…)")
    }
}

/// A secret as listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretInfo {
    pub name: String,
    /// How many times it was set.
    pub version: i32,
    /// The master key with which it is encrypted.
    pub key_id: String,
    pub created_at: DateTime<Utc>,
    /// When it was last set.
    pub updated_at: DateTime<Utc>,
}

/// The error of a secret, whose text never contains its value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error(
        "a secret's name must be a letter followed by letters, digits, `_`, `.` and `-`, at most {NAME_MAX_CHARS} \
        characters: {0:?}"
    )]
    Name(String),
    #[error("a secret's value must have 1 to {VALUE_MAX_BYTES} bytes")]
    Size,
    #[error("the secret {name} is encrypted with the master key {key_id}, which is not configured")]
    UnknownKey { name: String, key_id: String },
    #[error(
        "the secret {0} cannot be decrypted: it was changed in the database, or belongs to another project or secret"
    )]
    Tampered(String),
    #[error("encryption failed: the system provides no random numbers")]
    Sealing,
    #[error("accessing secrets in the database failed")]
    Database(#[from] sqlx::Error),
}

fn check_name(name: &str) -> Result<(), SecretError> {
    let mut characters = name.chars();
    let begins = characters.next().is_some_and(|first| first.is_ascii_alphabetic());
    let goes_on = characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    if begins && goes_on && name.len() <= NAME_MAX_CHARS {
        Ok(())
    } else {
        Err(SecretError::Name(name.chars().take(NAME_MAX_CHARS).collect()))
    }
}

pub fn entry(by: &Actor, workspace_id: Option<Uuid>, action: Action, target: String, detail: Value) -> NewEntry<'_> {
    NewEntry {
        by,
        workspace_id,
        action,
        target,
        detail,
    }
}

/// Sets a secret in the caller's transaction, and returns its new version. Commit next: the audit log waits.
pub async fn set(
    db: &mut PgConnection,
    keys: &MasterKeys,
    by: &Actor,
    workspace_id: Uuid,
    name: &str,
    value: &Plaintext,
) -> Result<i32, SecretError> {
    check_name(name)?;
    if value.expose().is_empty() || value.expose().len() > VALUE_MAX_BYTES {
        return Err(SecretError::Size);
    }
    let sealed = envelope::seal(keys, workspace_id, name, value)?;
    // Not `excluded.…`: reading that requires the right to read the column, which the API lacks.
    let version = sqlx::query_scalar!(
        "insert into kb.secrets (project_id, name, key_id, wrapped_key, ciphertext)
         values ($1, $2, $3, $4, $5)
         on conflict (project_id, name) do update
         set key_id = $3, wrapped_key = $4, ciphertext = $5,
             version = secrets.version + 1, updated_at = now()
         returning version",
        workspace_id,
        name,
        sealed.key_id,
        sealed.wrapped_key,
        sealed.ciphertext
    )
    .fetch_one(&mut *db)
    .await?;
    let detail = json!({ "version": version, "keyId": sealed.key_id });
    let record = entry(
        by,
        Some(workspace_id),
        Action::SecretSet,
        format!("secret:{name}"),
        detail,
    );
    audit::append(db, &record).await?;
    Ok(version)
}

/// Decrypts a secret; None: it does not exist. Not for the API, whose role cannot read encrypted values.
pub async fn open(
    db: impl PgExecutor<'_>,
    keys: &MasterKeys,
    workspace_id: Uuid,
    name: &str,
) -> Result<Option<Plaintext>, SecretError> {
    let row = sqlx::query!(
        "select key_id, wrapped_key, ciphertext from kb.secrets where project_id = $1 and name = $2",
        workspace_id,
        name
    )
    .fetch_optional(db)
    .await?;
    row.map(|row| {
        let sealed = envelope::Sealed {
            key_id: row.key_id,
            wrapped_key: row.wrapped_key,
            ciphertext: row.ciphertext,
        };
        envelope::open(keys, workspace_id, name, &sealed)
    })
    .transpose()
}

/// Returns the secrets of a workspace, by name; never their values.
pub async fn list(db: impl PgExecutor<'_>, workspace_id: Uuid) -> Result<Vec<SecretInfo>, SecretError> {
    let listed = sqlx::query_as!(
        SecretInfo,
        "select name, version, key_id, created_at, updated_at from kb.secrets where project_id = $1 order by name",
        workspace_id
    )
    .fetch_all(db)
    .await?;
    Ok(listed)
}

/// Removes a secret in the caller's transaction; false if it does not exist. Commit next: the audit log waits.
pub async fn remove(db: &mut PgConnection, by: &Actor, workspace_id: Uuid, name: &str) -> Result<bool, SecretError> {
    let removed = sqlx::query!(
        "delete from kb.secrets where project_id = $1 and name = $2",
        workspace_id,
        name
    )
    .execute(&mut *db)
    .await?;
    if removed.rows_affected() == 0 {
        return Ok(false);
    }
    let record = entry(
        by,
        Some(workspace_id),
        Action::SecretRemoved,
        format!("secret:{name}"),
        json!({}),
    );
    audit::append(db, &record).await?;
    Ok(true)
}

/// Number of secrets under one master key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnderKey {
    pub key_id: String,
    pub secrets: i64,
}

/// Counts secrets of all workspaces that are encrypted with another key than the first, by key.
pub async fn under_old_keys(db: impl PgExecutor<'_>, keys: &MasterKeys) -> Result<Vec<UnderKey>, SecretError> {
    let old = sqlx::query_as!(
        UnderKey,
        r#"select key_id as "key_id!", count(*) as "secrets!"
           from (select key_id from kb.secrets union all select key_id from kb.data_sources
                 union all select key_id from kb.google_links union all select key_id from kb.webhook_secrets) sealed
           where key_id <> $1
           group by key_id order by key_id"#,
        keys.first_id()
    )
    .fetch_all(db)
    .await?;
    Ok(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_words() {
        for good in ["a", "MCP_TOKEN", "db.password-2", &"x".repeat(NAME_MAX_CHARS)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for wrong in [
            "",
            "_a",
            "1a",
            "a b",
            "a\n",
            "ä",
            "a/b",
            &"x".repeat(NAME_MAX_CHARS + 1),
        ] {
            assert!(check_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_value_does_not_show_itself() {
        let value = Plaintext::new(b"hunter2".to_vec());
        assert!(!format!("{value:?}").contains("hunter2"));
        assert_eq!(value.expose_text(), Some("hunter2"));
    }
}
