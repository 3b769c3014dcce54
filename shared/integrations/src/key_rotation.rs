//! Rotation of master keys: re-encrypts every data key with the first master key, for all encrypted values.

use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

use crate::{data_sources, google_tokens, mcp, webhook_secrets};
use rejoin_identity::audit::{self, Action, Actor};
use rejoin_secrets::{MasterKeys, SecretError, entry, envelope};

/// Number of secrets re-encrypted per transaction.
const BATCH: i64 = 100;

/// The result of a rotation.
#[derive(Debug, Default)]
pub struct Rotated {
    /// Secrets newly encrypted with the first key.
    pub rewrapped: u64,
    /// Secrets that could not be decrypted; they stay unchanged.
    pub failed: u64,
    pub first_failure: Option<SecretError>,
}

/// Re-encrypts the data key of each secret of all projects, of their data sources, Google calendars, webhooks and
/// accounts at MCP servers, with
/// the first master key, batch by batch; the values' own encryption is kept. An interrupted rotation continues when it is
/// called again.
pub async fn rotate(db: &PgPool, keys: &MasterKeys, by: &Actor) -> Result<Rotated, SecretError> {
    let first = keys.first_id();
    let mut rotated = Rotated::default();
    let mut after: Option<(Uuid, String)> = None;
    loop {
        let mut tx = rejoin_db::begin(db).await?;
        let (after_workspace, after_name) = after.clone().unzip();
        let rows = sqlx::query!(
            "select project_id, name, key_id, wrapped_key
             from kb.secrets
             where key_id <> $1 and ($2::uuid is null or (project_id, name) > ($2::uuid, $3::text))
             order by project_id, name
             limit $4
             for update",
            first,
            after_workspace,
            after_name,
            BATCH
        )
        .fetch_all(&mut *tx)
        .await?;
        let Some(last) = rows.last() else { break };
        after = Some((last.project_id, last.name.clone()));
        let (mut projects, mut names, mut wrapped) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            match envelope::rewrap(keys, row.project_id, &row.name, &row.key_id, &row.wrapped_key) {
                Ok(key) => {
                    projects.push(row.project_id);
                    names.push(row.name);
                    wrapped.push(key);
                }
                Err(error) => {
                    rotated.failed += 1;
                    rotated.first_failure.get_or_insert(error);
                }
            }
        }
        if names.is_empty() {
            continue;
        }
        sqlx::query!(
            "update kb.secrets s
             set key_id = $1, wrapped_key = n.wrapped_key
             from unnest($2::uuid[], $3::text[], $4::bytea[]) n (project_id, name, wrapped_key)
             where s.project_id = n.project_id and s.name = n.name",
            first,
            &projects,
            &names,
            &wrapped
        )
        .execute(&mut *tx)
        .await?;
        let detail = json!({ "secrets": names.len() });
        let record = entry(by, None, Action::SecretsRotated, format!("master_key:{first}"), detail);
        audit::append(&mut tx, &record).await?;
        tx.commit().await?;
        rotated.rewrapped += names.len() as u64;
    }
    let sources = data_sources::rotate(db, keys).await?;
    let tokens = google_tokens::rotate(db, keys).await?;
    let webhooks = webhook_secrets::rotate(db, keys).await?;
    let accounts = mcp::accounts::rotate(db, keys).await?;
    for ((done, failures), what) in [
        (sources, "dataSources"),
        (tokens, "googleCalendars"),
        (webhooks, "webhooks"),
        (accounts, "mcpAccounts"),
    ] {
        rotated.failed += failures.len() as u64;
        if rotated.first_failure.is_none() {
            rotated.first_failure = failures.into_iter().next();
        }
        if done > 0 {
            let mut tx = rejoin_db::begin(db).await?;
            let record = entry(
                by,
                None,
                Action::SecretsRotated,
                format!("master_key:{first}"),
                json!({ what: done }),
            );
            audit::append(&mut tx, &record).await?;
            tx.commit().await?;
            rotated.rewrapped += done;
        }
    }
    Ok(rotated)
}
