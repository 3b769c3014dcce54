//! Push notification configs: where the states of a task are sent. The wire type with its checks, and the store that the endpoints need: the
//! extension of webhooks implements it, and `api` puts it into the endpoints' state.
//!
//! Invariant: a token and credentials go in and never out: only the response of the request that sets them has them.

use std::fmt;

use async_trait::async_trait;
use axum::http::{HeaderValue, StatusCode};
use rejoin_http::problem::Problem;
use rejoin_types::ids;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use super::errors::codes;

/// Maximum length of a config's id, in bytes.
const ID_MAX_BYTES: usize = 255;
/// Maximum length of a token, in bytes.
const TOKEN_MAX_BYTES: usize = 4_096;
/// Maximum length of an authentication scheme, in bytes.
const SCHEME_MAX_BYTES: usize = 64;
/// Maximum length of credentials, in bytes.
const CREDENTIALS_MAX_BYTES: usize = 8_192;

/// Where the states of a task are sent
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(default, rename_all = "camelCase")]
#[schema(as = A2aTaskPushNotificationConfig)]
pub struct PushConfig {
    /// The config's id, unique for the task; none: a new one
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 255)]
    pub id: String,
    /// The task
    #[serde(skip_serializing_if = "String::is_empty", alias = "task_id")]
    pub task_id: String,
    /// URL of the receiver, `https://…`
    #[schema(max_length = 2000)]
    pub url: String,
    /// Sent as `X-A2A-Notification-Token`; not returned later
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 4096)]
    pub token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
}

/// What is sent as `Authorization`: the scheme, a space, and the credentials
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(default, rename_all = "camelCase")]
#[schema(as = A2aAuthenticationInfo)]
pub struct Authentication {
    /// Such as `Bearer`
    #[schema(max_length = 64)]
    pub scheme: String,
    /// Not returned later
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 8192)]
    pub credentials: String,
}

/// Without the token.
impl fmt::Debug for PushConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushConfig")
            .field("id", &self.id)
            .field("task_id", &self.task_id)
            .field("url", &self.url)
            .field("authentication", &self.authentication)
            .finish_non_exhaustive()
    }
}

/// Without the credentials.
impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authentication")
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}

/// Why a config is not stored.
#[derive(Debug)]
pub enum PushError {
    /// In words for its client.
    Invalid(String),
    /// The run does not exist, is a sub-agent's, or was removed meanwhile.
    NoTask,
    /// The task has this number of configs, which is the maximum.
    TooMany(i64),
    /// The process has no master keys to seal a token or credentials with; what to do.
    NoMasterKey(&'static str),
    /// A token or credentials could not be sealed; why, for the log.
    Sealing(String),
    Database(sqlx::Error),
}

impl From<sqlx::Error> for PushError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<PushError> for Problem {
    fn from(error: PushError) -> Self {
        match error {
            PushError::Invalid(detail) => Problem::bad_request("invalid_push_config", detail),
            PushError::NoTask => Problem::not_found(codes::TASK_NOT_FOUND, "The task"),
            PushError::TooMany(most) => {
                let detail = format!("a task can have at most {most} push notification configs; delete one first");
                Problem::conflict("too_many_push_configs", detail)
            }
            PushError::NoMasterKey(why) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no_master_key", why),
            PushError::Sealing(error) => {
                tracing::error!(%error, "sealing the secrets of a push notification config failed");
                Problem::internal()
            }
            PushError::Database(error) => error.into(),
        }
    }
}

fn invalid(detail: impl Into<String>) -> PushError {
    PushError::Invalid(detail.into())
}

/// Whether a text can be (a part of) the value of a header.
fn is_header_value(text: &str, max_bytes: usize) -> bool {
    text.len() <= max_bytes && HeaderValue::from_str(text).is_ok()
}

/// Whether a text is a token of HTTP (RFC 9110, 5.6.2), as the name of a scheme.
fn is_scheme(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=SCHEME_MAX_BYTES).contains(&text.len()) && text.bytes().all(is_of_token)
}

impl PushConfig {
    /// Checks all fields but the URL, which the store judges, and gives the config an id if it has none.
    ///
    /// # Errors
    /// A field that is too long, or that no header can have.
    pub fn checked(mut self) -> Result<Self, PushError> {
        if self.url.is_empty() {
            return Err(invalid(
                "url is required: the URL to which the states of the task are sent",
            ));
        }
        if self.id.len() > ID_MAX_BYTES || self.id.chars().any(char::is_control) {
            return Err(invalid(format!(
                "id can have at most {ID_MAX_BYTES} bytes, and no control characters"
            )));
        }
        if self.id.is_empty() {
            self.id = ids::new().to_string();
        }
        if !is_header_value(&self.token, TOKEN_MAX_BYTES) {
            return Err(invalid(format!(
                "token must be the value of a header, of at most {TOKEN_MAX_BYTES} bytes"
            )));
        }
        if let Some(authentication) = &self.authentication {
            if !is_scheme(&authentication.scheme) {
                return Err(invalid(format!(
                    "authentication.scheme must be the name of an HTTP authentication scheme, such as Bearer, of at most {SCHEME_MAX_BYTES} bytes"
                )));
            }
            if !is_header_value(&authentication.credentials, CREDENTIALS_MAX_BYTES) {
                return Err(invalid(format!(
                    "authentication.credentials must be the value of a header, of at most {CREDENTIALS_MAX_BYTES} bytes"
                )));
            }
        }
        Ok(self)
    }

    /// The credentials; empty: none.
    pub fn credentials(&self) -> &str {
        self.authentication
            .as_ref()
            .map_or("", |authentication| &authentication.credentials)
    }

    /// Whether something of it has to be sealed.
    pub fn has_secret(&self) -> bool {
        !self.token.is_empty() || !self.credentials().is_empty()
    }
}

/// The stored configs of tasks, and the policy for their URLs. A task is a top-level run, which the caller has found to be visible.
#[async_trait]
pub trait PushConfigs: Send + Sync {
    /// Judges a config's URL, and whether its secrets can be sealed, before anything is stored.
    ///
    /// # Errors
    /// The URL is not one to which notifications are sent; or there are no master keys.
    fn judge(&self, config: &PushConfig) -> Result<(), PushError>;

    /// Stores a config, in the place of the task's config with its id. A task that has ended, or waits for its client, is sent at once. Wake the
    /// queue after the commit.
    async fn put(
        &self,
        db: &mut PgConnection,
        workspace_id: Uuid,
        run_id: Uuid,
        config: &PushConfig,
    ) -> Result<(), PushError>;

    /// Returns a page of a task's configs in the order of their ids, without secrets, after the id `after`.
    async fn page(
        &self,
        db: &mut PgConnection,
        workspace_id: Uuid,
        run_id: Uuid,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<PushConfig>, sqlx::Error>;

    /// Returns a config without its secrets.
    async fn get(
        &self,
        db: &mut PgConnection,
        workspace_id: Uuid,
        run_id: Uuid,
        id: &str,
    ) -> Result<Option<PushConfig>, sqlx::Error>;

    /// Removes a config with its deliveries, if it exists.
    async fn delete(
        &self,
        db: &mut PgConnection,
        workspace_id: Uuid,
        run_id: Uuid,
        id: &str,
    ) -> Result<(), sqlx::Error>;
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(config: Value) -> Result<PushConfig, String> {
        let config: PushConfig = serde_json::from_value(config).unwrap();
        config.checked().map_err(|error| match error {
            PushError::Invalid(detail) => detail,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_config_is_written_as_it_was_read() {
        let sent = json!({
            "id": "a", "taskId": "t", "url": "https://client.example/", "token": "secret",
            "authentication": {"scheme": "Bearer", "credentials": "key"},
        });
        let config = checked(sent.clone()).unwrap();
        assert_eq!(serde_json::to_value(&config).unwrap(), sent);
        assert!(config.has_secret());
        let shown = format!("{config:?}");
        assert!(!shown.contains("secret") && !shown.contains("key"), "{shown}");
        let plain = checked(json!({"task_id": "t", "url": "https://client.example/", "unknown": 1})).unwrap();
        assert_eq!((plain.task_id.as_str(), plain.has_secret()), ("t", false));
        assert!(plain.id.parse::<Uuid>().is_ok(), "{}", plain.id);
    }

    #[test]
    fn what_no_header_can_have_is_refused() {
        let url = "https://client.example/";
        for (config, field) in [
            (json!({}), "url"),
            (json!({"url": url, "id": "a\u{0}"}), "id"),
            (json!({"url": url, "id": "a".repeat(256)}), "id"),
            (json!({"url": url, "token": "a\r\nb: c"}), "token"),
            (json!({"url": url, "token": "a".repeat(4_097)}), "token"),
            (json!({"url": url, "authentication": {}}), "authentication.scheme"),
            (
                json!({"url": url, "authentication": {"scheme": "Bearer: a"}}),
                "authentication.scheme",
            ),
            (
                json!({"url": url, "authentication": {"scheme": "Bearer", "credentials": "a\n"}}),
                "authentication.credentials",
            ),
        ] {
            let detail = checked(config).unwrap_err();
            assert!(detail.starts_with(field), "{field}: {detail}");
        }
    }
}
