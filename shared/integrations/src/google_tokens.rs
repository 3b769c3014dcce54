//! Encrypted Google refresh tokens: columns of `kb.google_links`. Their names cannot be names of secrets, so no setting
//! can refer to them.

use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use rejoin_secrets::envelope::{self, Sealed};
use rejoin_secrets::{MasterKeys, Plaintext, SecretError};

fn sealed_for(calendar_id: Uuid) -> String {
    format!("google_calendar:{calendar_id}")
}

/// Encrypts the token of a calendar's link.
pub fn seal(keys: &MasterKeys, workspace_id: Uuid, calendar_id: Uuid, token: &str) -> Result<Sealed, SecretError> {
    let value = Plaintext::new(token.as_bytes().to_vec());
    envelope::seal(keys, workspace_id, &sealed_for(calendar_id), &value)
}

/// Decrypts the token of a calendar's link; None: it has none.
pub async fn open(
    db: impl PgExecutor<'_>,
    keys: &MasterKeys,
    calendar_id: Uuid,
) -> Result<Option<Plaintext>, SecretError> {
    let row = sqlx::query!(
        "select project_id, key_id, wrapped_key, ciphertext from kb.google_links where calendar_id = $1",
        calendar_id
    )
    .fetch_optional(db)
    .await?;
    row.map(|row| {
        let sealed = Sealed {
            key_id: row.key_id,
            wrapped_key: row.wrapped_key,
            ciphertext: row.ciphertext,
        };
        envelope::open(keys, row.project_id, &sealed_for(calendar_id), &sealed)
    })
    .transpose()
}

/// Re-encrypts the data keys of all tokens with the first master key, like `secrets::rotate`. Returns the number of
/// re-encrypted ones, and of failures, which stay unchanged.
pub async fn rotate(db: &PgPool, keys: &MasterKeys) -> Result<(u64, Vec<SecretError>), SecretError> {
    let first = keys.first_id();
    // One row per linked calendar, and there are few.
    let rows = sqlx::query!(
        "select calendar_id, project_id, key_id, wrapped_key from kb.google_links where key_id <> $1 order by calendar_id",
        first
    )
    .fetch_all(db)
    .await?;
    let (mut done, mut failures) = (0, Vec::new());
    for row in rows {
        let name = sealed_for(row.calendar_id);
        match envelope::rewrap(keys, row.project_id, &name, &row.key_id, &row.wrapped_key) {
            Ok(wrapped) => {
                // Unless it was linked again meanwhile.
                let updated = sqlx::query!(
                    "update kb.google_links set key_id = $3, wrapped_key = $4 where calendar_id = $1 and wrapped_key = $2",
                    row.calendar_id,
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
