//! Access tokens of Google Cloud, for Vertex AI without a key: by Application Default Credentials, which
//! google-cloud-auth finds, signs with and refreshes.
//!
//! One set of credentials per process. Invariant: credentials that failed permanently are dropped; the next call
//! reloads them, so that an operator's fix works without a restart.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use google_cloud_auth::build_errors::Error as BuildError;
use google_cloud_auth::credentials::{AccessTokenCredentials, Builder, CacheableResource, CredentialsProvider as _};
use google_cloud_auth::errors::CredentialsError;
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap, HeaderValue};
use tokio::sync::Mutex;

use crate::ModelError;
use crate::name::Secret;

/// The scope of tokens.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The path of a credentials file.
const FILE_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
/// The path of gcloud's user credentials, below the home directory.
const GCLOUD_FILE: &str = ".config/gcloud/application_default_credentials.json";
/// The workspace billed for a user's requests.
pub(super) const QUOTA_PROJECT: &str = "x-goog-user-project";
/// Timeout of fetching a token.
const LIMIT: Duration = Duration::from_secs(30);
/// Maximum length of a quoted cause, in characters.
const CAUSE_MAX_CHARS: usize = 300;
/// Maximum depth of causes.
const CAUSES_MAX: usize = 4;
const ADVICE: &str = "Set GOOGLE_APPLICATION_CREDENTIALS in the workers' environment to a credentials file with \
    access to Vertex AI, or VERTEX_API_KEY to an access token";

/// The credentials of this process, loaded on first use.
#[derive(Clone, Default)]
pub(super) struct GoogleTokens {
    held: Arc<Mutex<Option<AccessTokenCredentials>>>,
}

/// The access headers of a Vertex AI request.
pub(super) struct Access {
    pub(super) token: Secret,
    /// Sent as `x-goog-user-workspace`.
    pub(super) quota_project: Option<String>,
}

impl GoogleTokens {
    /// Returns a token that is valid for some minutes at least.
    pub(super) async fn access(&self) -> Result<Access, ModelError> {
        let credentials = self.credentials().await?;
        let headers = match tokio::time::timeout(LIMIT, credentials.headers(Extensions::new())).await {
            Ok(Ok(CacheableResource::New { data, .. })) => data,
            // Only returned to callers that send an entity tag.
            Ok(Ok(CacheableResource::NotModified)) => HeaderMap::new(),
            Ok(Err(error)) => {
                if !error.is_transient() {
                    *self.held.lock().await = None;
                }
                return Err(failed(&error));
            }
            Err(_) => return Err(unavailable("the token server did not respond in time")),
        };
        let text = |value: Option<&HeaderValue>| Some(value?.to_str().ok()?.to_owned());
        let token = text(headers.get(AUTHORIZATION));
        let token = token.as_deref().and_then(|token| token.strip_prefix("Bearer "));
        Ok(Access {
            token: Secret::new(token.ok_or_else(|| unavailable("the response contains no token"))?),
            quota_project: text(headers.get(QUOTA_PROJECT)),
        })
    }

    async fn credentials(&self) -> Result<AccessTokenCredentials, ModelError> {
        let mut held = self.held.lock().await;
        if let Some(credentials) = held.as_ref() {
            return Ok(credentials.clone());
        }
        let built = Builder::default()
            .with_scopes([SCOPE])
            .build_access_token_credentials()
            .map_err(|error| unusable(&error))?;
        Ok(held.insert(built).clone())
    }
}

/// Returns the source of the credentials. None: there is neither, and only a Google machine could provide some.
fn source() -> Option<String> {
    if let Some(file) = std::env::var_os(FILE_VARIABLE).filter(|file| !file.is_empty()) {
        return Some(format!(
            "the file of {FILE_VARIABLE}, {}",
            PathBuf::from(file).display()
        ));
    }
    let file = PathBuf::from(std::env::var_os("HOME")?).join(GCLOUD_FILE);
    file.exists().then(|| format!("the file {}", file.display()))
}

/// The credentials can't be parsed. The file's content is secret and not quoted.
fn unusable(error: &BuildError) -> ModelError {
    let source = source().unwrap_or_else(|| "the credentials".to_owned());
    if error.is_loading() {
        model_error(
            "model_key_missing",
            format!("Vertex AI cannot be used: {source}, cannot be read. {ADVICE}"),
            false,
        )
    } else {
        model_error(
            "model_key_rejected",
            format!("Vertex AI cannot be used: {source}, contains credentials of an unsupported type. {ADVICE}"),
            false,
        )
    }
}

/// No token could be obtained.
fn failed(error: &CredentialsError) -> ModelError {
    let why = causes(error);
    match (source(), error.is_transient()) {
        (None, _) => model_error(
            "model_key_missing",
            format!("Vertex AI cannot be used: no Google Cloud credentials were found ({why}). {ADVICE}"),
            false,
        ),
        (Some(_), true) => unavailable(&why),
        (Some(source), false) => model_error(
            "model_key_rejected",
            format!("Google refused a token for Vertex AI for {source}: {why}. {ADVICE}"),
            false,
        ),
    }
}

fn unavailable(why: &str) -> ModelError {
    model_error(
        "model_unavailable",
        format!("getting a token for Vertex AI from Google failed: {why}"),
        true,
    )
}

fn model_error(code: &'static str, message: String, retryable: bool) -> ModelError {
    ModelError {
        code,
        message,
        retryable,
        retry_after: None,
    }
}

/// Formats an error with its causes, on one line.
fn causes(error: &CredentialsError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..CAUSES_MAX {
        let Some(inner) = cause else { break };
        let words = inner.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = inner.source();
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(CAUSE_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
