//! Connects to an MCP server over HTTP. Called by `connection`.
//!
//! Invariant: the URL and the addresses that its name resolves to are checked against the host policy.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::service::ClientInitializeError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tracing::debug;
use url::Url;

use crate::authorized::Authorized;
use crate::lifecycle::{self, Running};
use crate::oauth::Tokens;
use crate::secrets::ResolvedSettings;
use crate::sse::SseTransport;
use crate::transport::{ConnectorDeps, NotificationHandler, OpenError};

/// Connects. Errors may still contain secrets.
pub(crate) async fn reach(
    deps: &ConnectorDeps,
    filled: ResolvedSettings,
    notifications: NotificationHandler,
) -> Result<Running, OpenError> {
    let url = Url::parse(filled.url.as_deref().unwrap_or_default())
        .map_err(|error| OpenError::Again(format!("its URL is invalid: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(OpenError::Again(
            "its URL must start with http:// or https://".to_owned(),
        ));
    }
    deps.hosts.judge(&url).map_err(OpenError::Again)?;
    let headers = headers(filled.headers).map_err(OpenError::Again)?;
    let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(headers.clone())
        .max_json_response_size(deps.max_result_bytes)
        .max_sse_event_size(deps.max_result_bytes);
    if let Some(user) = filled.user {
        let client = Authorized::new(deps.http.clone(), Arc::new(user.clone()));
        let transport = || StreamableHttpClientTransport::with_client(client.clone(), config.clone());
        let running = lifecycle::over_http(notifications, transport).await;
        return running.map_err(|error| match user.needed(error.auth_challenge()) {
            Some(needed) => OpenError::Account(needed),
            None => OpenError::Again(words(&error, true)),
        });
    }
    let is_per_user = filled.registered.is_some();
    let Some(grant) = filled.oauth else {
        let transport = || StreamableHttpClientTransport::with_client(deps.http.clone(), config.clone());
        let error = match lifecycle::over_http(notifications.clone(), transport).await {
            Ok(running) => return Ok(running),
            Err(error) => error,
        };
        if error.auth_challenge().is_none()
            && let Some(running) = by_events(deps, &url, headers, notifications).await
        {
            return Ok(running);
        }
        if is_per_user && error.auth_challenge().is_some() {
            return Err(OpenError::Hopeless(
                "it requires an account: connect yours, and test the server then".to_owned(),
            ));
        }
        return Err(OpenError::Again(words(&error, false)));
    };
    let tokens = Tokens::new(deps.http.clone(), deps.hosts.clone(), filled.redactor, grant, url);
    let client = Authorized::new(deps.http.clone(), tokens.clone());
    let transport = || StreamableHttpClientTransport::with_client(client.clone(), config.clone());
    let running = lifecycle::over_http(notifications, transport).await;
    running.map_err(|error| {
        if tokens.is_permanently_refused() {
            OpenError::Hopeless(words(&error, true))
        } else {
            OpenError::Again(words(&error, true))
        }
    })
}

/// Connects to a server of the oldest revision. None: it is none.
async fn by_events(
    deps: &ConnectorDeps,
    url: &Url,
    headers: HashMap<HeaderName, HeaderValue>,
    notifications: NotificationHandler,
) -> Option<Running> {
    let headers = headers.into_iter().collect();
    match SseTransport::open(deps.http.clone(), url, headers, deps.max_result_bytes).await {
        Ok(transport) => lifecycle::handshake(notifications, transport).await.ok(),
        Err(error) => {
            debug!(%error, "it does not speak the oldest revision of MCP either");
            None
        }
    }
}

pub(crate) fn headers(filled: Vec<(String, String)>) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    let mut headers = HashMap::new();
    for (name, value) in filled {
        let header = HeaderName::try_from(&name).map_err(|_| format!("{name} is not a valid header name"))?;
        let mut value = HeaderValue::try_from(&value).map_err(|_| format!("the header {name} has an invalid value"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}

fn words(error: &ClientInitializeError, is_authorized: bool) -> String {
    refusal(error.auth_challenge(), is_authorized).unwrap_or_else(|| error_chain(error))
}

/// Returns the error for a server that requires authentication. With tokens, the challenge is in our words
/// (`authorized`).
pub(crate) fn refusal(challenge: Option<&str>, is_authorized: bool) -> Option<String> {
    if is_authorized {
        challenge.map(str::to_owned)
    } else {
        challenge.map(|_| {
            "it denies access: the settings contain no token, or one that it does not accept (`headers`, `oauth`)"
                .to_owned()
        })
    }
}

/// Formats an error with its causes: the root cause comes last.
pub(crate) fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}
