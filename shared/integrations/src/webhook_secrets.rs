//! Encrypted secrets of webhooks (`kb.webhook_secrets`). Their names cannot be names of secrets, so no setting can refer to them.

use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use rejoin_secrets::envelope::{self, Sealed};
use rejoin_secrets::{MasterKeys, Plaintext, SecretError};
use rejoin_types::ids;

/// Maximum number of secrets of one endpoint: the current one, and those that are being replaced.
pub const MAX_SECRETS: i64 = 3;

fn sealed_for(id: Uuid) -> String {
    format!("webhook:{id}")
}

/// Encrypts and stores a new current secret of an endpoint. Its predecessor stays valid for `overlap_s` seconds; older ones beyond
/// [`MAX_SECRETS`] are removed.
pub async fn replace(
    db: &mut PgConnection,
    keys: &MasterKeys,
    workspace_id: Uuid,
    endpoint_id: Uuid,
    secret: &Plaintext,
    overlap_s: f64,
) -> Result<(), SecretError> {
    let id = ids::new();
    let sealed = envelope::seal(keys, workspace_id, &sealed_for(id), secret)?;
    sqlx::query!(
        "delete from kb.webhook_secrets
         where endpoint_id = $1 and project_id = $2
           and (expires_at < now()
                or id not in (select id from kb.webhook_secrets where endpoint_id = $1 order by created_at desc, id desc limit $3))",
        endpoint_id,
        workspace_id,
        MAX_SECRETS - 1
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "update kb.webhook_secrets set expires_at = now() + make_interval(secs => $3)
         where endpoint_id = $1 and project_id = $2 and expires_at is null",
        endpoint_id,
        workspace_id,
        overlap_s
    )
    .execute(&mut *db)
    .await?;
    sqlx::query!(
        "insert into kb.webhook_secrets (id, endpoint_id, project_id, key_id, wrapped_key, ciphertext)
         values ($1, $2, $3, $4, $5, $6)",
        id,
        endpoint_id,
        workspace_id,
        sealed.key_id,
        sealed.wrapped_key,
        sealed.ciphertext
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Removes all secrets of an endpoint.
pub async fn remove(db: &mut PgConnection, workspace_id: Uuid, endpoint_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "delete from kb.webhook_secrets where endpoint_id = $1 and project_id = $2",
        endpoint_id,
        workspace_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Decrypts the valid secrets of an endpoint, the newest first. Not for the API, whose role cannot read encrypted values.
pub async fn open(
    db: impl PgExecutor<'_>,
    keys: &MasterKeys,
    endpoint_id: Uuid,
) -> Result<Vec<Plaintext>, SecretError> {
    let rows = sqlx::query!(
        "select id, project_id, key_id, wrapped_key, ciphertext from kb.webhook_secrets
         where endpoint_id = $1 and (expires_at is null or expires_at > now())
         order by created_at desc, id desc",
        endpoint_id
    )
    .fetch_all(db)
    .await?;
    rows.into_iter()
        .map(|row| {
            let sealed = Sealed {
                key_id: row.key_id,
                wrapped_key: row.wrapped_key,
                ciphertext: row.ciphertext,
            };
            envelope::open(keys, row.project_id, &sealed_for(row.id), &sealed)
        })
        .collect()
}

/// Removes secrets that are no longer valid.
pub async fn sweep(db: impl PgExecutor<'_>) -> Result<(), sqlx::Error> {
    sqlx::query!("delete from kb.webhook_secrets where expires_at < now()")
        .execute(db)
        .await?;
    Ok(())
}

/// Re-encrypts the data keys of all secrets with the first master key, like `secrets::rotate`. Returns the number of
/// re-encrypted ones, and of failures, which stay unchanged.
pub async fn rotate(db: &PgPool, keys: &MasterKeys) -> Result<(u64, Vec<SecretError>), SecretError> {
    let first = keys.first_id();
    // A few rows per endpoint, and there are few.
    let rows = sqlx::query!(
        "select id, project_id, key_id, wrapped_key from kb.webhook_secrets where key_id <> $1 order by id",
        first
    )
    .fetch_all(db)
    .await?;
    let (mut done, mut failures) = (0, Vec::new());
    for row in rows {
        match envelope::rewrap(keys, row.project_id, &sealed_for(row.id), &row.key_id, &row.wrapped_key) {
            Ok(wrapped) => {
                let updated = sqlx::query!(
                    "update kb.webhook_secrets set key_id = $2, wrapped_key = $3 where id = $1",
                    row.id,
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
