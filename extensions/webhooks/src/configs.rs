//! Push notification configs of A2A's tasks: rows of `kb.webhook_endpoints` that belong to a run. The dialect's endpoints use them by its trait
//! [`PushConfigs`]; their deliveries are sent as those of webhooks are.
//!
//! Invariants: a token and credentials are sealed, and only workers can read them; a state that a run enters while its config is being stored is
//! not missed, because both lock the run.

use async_trait::async_trait;
use rejoin_a2a::push::{Authentication, PushConfig, PushConfigs, PushError};
use rejoin_integrations::webhook_secrets;
use rejoin_secrets::{Plaintext, SecretError};
use rejoin_types::ids;
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgExecutor};
use url::Url;
use uuid::Uuid;

use crate::Webhooks;
use crate::endpoints::{EventKind, URL_MAX_BYTES};

/// Maximum number of configs of a task.
pub const MAX_CONFIGS: i64 = 20;
/// The events of which a config gets deliveries.
const EVENTS: [EventKind; 2] = [EventKind::RunEnded, EventKind::QuestionAsked];

/// What is sealed of a config.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sealed {
    pub(crate) token: String,
    pub(crate) credentials: String,
}

struct Row {
    run_id: Option<Uuid>,
    config_id: Option<String>,
    url: String,
    auth_scheme: Option<String>,
}

impl From<Row> for PushConfig {
    fn from(row: Row) -> Self {
        Self {
            id: row.config_id.unwrap_or_default(),
            task_id: row.run_id.unwrap_or_default().to_string(),
            url: row.url,
            token: String::new(),
            authentication: row.auth_scheme.map(|scheme| Authentication {
                scheme,
                credentials: String::new(),
            }),
        }
    }
}

/// Seals the token and the credentials of a config, in the place of earlier ones.
async fn seal(
    webhooks: &Webhooks,
    db: &mut PgConnection,
    workspace_id: Uuid,
    endpoint_id: Uuid,
    config: &PushConfig,
) -> Result<(), PushError> {
    webhook_secrets::remove(db, workspace_id, endpoint_id).await?;
    if !config.has_secret() {
        return Ok(());
    }
    let keys = webhooks.keys().map_err(PushError::NoMasterKey)?;
    let sealed = Sealed {
        token: config.token.clone(),
        credentials: config.credentials().to_owned(),
    };
    let sealed = serde_json::to_vec(&sealed).map_err(|error| PushError::Sealing(error.to_string()))?;
    webhook_secrets::replace(db, keys, workspace_id, endpoint_id, &Plaintext::new(sealed), 0.0)
        .await
        .map_err(|error| match error {
            SecretError::Database(error) => PushError::Database(error),
            error => PushError::Sealing(error.to_string()),
        })
}

#[async_trait]
impl PushConfigs for Webhooks {
    fn judge(&self, config: &PushConfig) -> Result<(), PushError> {
        if config.url.len() > URL_MAX_BYTES {
            return Err(PushError::Invalid(format!(
                "url can have at most {URL_MAX_BYTES} bytes"
            )));
        }
        let url = Url::parse(&config.url).map_err(|error| PushError::Invalid(format!("url is not a URL: {error}")))?;
        self.check(&url)
            .map_err(|why| PushError::Invalid(format!("url: {why}")))?;
        if config.has_secret() {
            self.keys().map_err(PushError::NoMasterKey)?;
        }
        Ok(())
    }

    async fn put(
        &self,
        db: &mut PgConnection,
        workspace_id: Uuid,
        run_id: Uuid,
        config: &PushConfig,
    ) -> Result<(), PushError> {
        // A run that ends meanwhile waits for this transaction, and its trigger finds the config; or it is found ended below.
        sqlx::query_scalar!(
            "select id from kb.agent_runs where id = $1 and project_id = $2 and parent_run_id is null for no key update",
            run_id,
            workspace_id
        )
        .fetch_optional(&mut *db)
        .await?
        .ok_or(PushError::NoTask)?;
        let others = sqlx::query_scalar!(
            r#"select count(*) as "count!" from kb.webhook_endpoints where run_id = $1 and config_id <> $2"#,
            run_id,
            config.id
        )
        .fetch_one(&mut *db)
        .await?;
        if others >= MAX_CONFIGS {
            return Err(PushError::TooMany(MAX_CONFIGS));
        }
        let events: Vec<String> = EVENTS.iter().map(|event| event.as_str().to_owned()).collect();
        let scheme = config.authentication.as_ref().map(|auth| auth.scheme.as_str());
        let endpoint_id = sqlx::query_scalar!(
            "insert into kb.webhook_endpoints (id, project_id, url, events, run_id, config_id, auth_scheme)
             values ($1, $2, $3, $4, $5, $6, $7)
             on conflict (run_id, config_id) where run_id is not null do update
             set url = excluded.url, auth_scheme = excluded.auth_scheme, disabled_at = null, disabled_reason = null, updated_at = now()
             returning id",
            ids::new(),
            workspace_id,
            config.url,
            &events,
            run_id,
            config.id,
            scheme
        )
        .fetch_one(&mut *db)
        .await?;
        seal(self, db, workspace_id, endpoint_id, config).await?;
        // A statement after the lock: it sees how the run's last holder has left it.
        sqlx::query!(
            r#"select kb.add_config_delivery($1, $2) as "delivery""#,
            run_id,
            endpoint_id
        )
        .fetch_one(db)
        .await?;
        Ok(())
    }

    async fn page(
        &self,
        db: &mut PgConnection,
        workspace_id: Uuid,
        run_id: Uuid,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<PushConfig>, sqlx::Error> {
        let rows = sqlx::query_as!(
            Row,
            "select run_id, config_id, url, auth_scheme from kb.webhook_endpoints
             where project_id = $1 and run_id = $2 and ($3::text is null or config_id > $3)
             order by config_id limit $4",
            workspace_id,
            run_id,
            after,
            limit
        )
        .fetch_all(db)
        .await?;
        Ok(rows.into_iter().map(PushConfig::from).collect())
    }

    async fn get(
        &self,
        db: &mut PgConnection,
        workspace_id: Uuid,
        run_id: Uuid,
        id: &str,
    ) -> Result<Option<PushConfig>, sqlx::Error> {
        let row = sqlx::query_as!(
            Row,
            "select run_id, config_id, url, auth_scheme from kb.webhook_endpoints
             where project_id = $1 and run_id = $2 and config_id = $3",
            workspace_id,
            run_id,
            id
        )
        .fetch_optional(db)
        .await?;
        Ok(row.map(PushConfig::from))
    }

    async fn delete(
        &self,
        db: &mut PgConnection,
        workspace_id: Uuid,
        run_id: Uuid,
        id: &str,
    ) -> Result<(), sqlx::Error> {
        sqlx::query!(
            "delete from kb.webhook_endpoints where project_id = $1 and run_id = $2 and config_id = $3",
            workspace_id,
            run_id,
            id
        )
        .execute(db)
        .await?;
        Ok(())
    }
}

/// Removes configs of runs that ended this long ago, and that were not changed since, at most `limit`. Returns how many.
pub(crate) async fn sweep(db: impl PgExecutor<'_>, age_s: f64, limit: i64) -> Result<u64, sqlx::Error> {
    let removed = sqlx::query!(
        "delete from kb.webhook_endpoints
         where id in (select e.id
                      from kb.webhook_endpoints e join kb.agent_runs r on r.id = e.run_id
                      where e.run_id is not null and e.updated_at < now() - make_interval(secs => $1)
                        and r.state in ('completed', 'failed', 'cancelled')
                        and r.finished_at < now() - make_interval(secs => $1)
                      order by e.updated_at limit $2 for update of e skip locked)",
        age_s,
        limit
    )
    .execute(db)
    .await?;
    Ok(removed.rows_affected())
}
