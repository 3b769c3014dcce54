//! HTTP to an MCP server with an access token in each request. A request rejected for its token is retried once with a
//! new one. Called by rmcp's transport, where `connection` installs it.
//!
//! Rejections are passed as rmcp's error `AuthRequired`: it ends streams and preserves the whole challenge
//! (`auth_challenge`).

use std::collections::HashMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;

use crate::oauth::{Refusal, TokenSource};

type Error = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// An HTTP client with access tokens. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Authorized {
    http: reqwest::Client,
    tokens: Arc<dyn TokenSource>,
}

impl Authorized {
    pub(crate) fn new(http: reqwest::Client, tokens: Arc<dyn TokenSource>) -> Self {
        Self { http, tokens }
    }

    /// Sends a request with a token, and retries once with a new one.
    async fn send<T, F, Sent>(&self, request: F) -> Result<T, Error>
    where
        F: Fn(Option<String>) -> Sent + Send + Sync,
        Sent: Future<Output = Result<T, Error>> + Send,
    {
        let token = self.tokens.current().await.map_err(carried)?;
        let error = match request(token.clone()).await {
            Ok(answered) => return Ok(answered),
            Err(error) => error,
        };
        let Some(challenge) = unauthorized(&error) else {
            return Err(self.redacted(error));
        };
        let another = self.tokens.refreshed(token.as_deref(), challenge.as_deref()).await;
        request(Some(another.map_err(carried)?))
            .await
            .map_err(|error| match unauthorized(&error) {
                Some(challenge) => carried(self.tokens.rejected(challenge.as_deref())),
                None => self.redacted(error),
            })
    }

    /// Redacts an error: rmcp logs some.
    fn redacted(&self, error: Error) -> Error {
        match error {
            StreamableHttpError::InsufficientScope(error) => {
                carried(self.tokens.insufficient_scope(error.required_scope.as_deref()))
            }
            StreamableHttpError::UnexpectedServerResponse(text) => {
                StreamableHttpError::UnexpectedServerResponse(self.tokens.redact(text.into_owned()).into())
            }
            StreamableHttpError::UnexpectedContentType(text) => {
                StreamableHttpError::UnexpectedContentType(text.map(|text| self.tokens.redact(text)))
            }
            other => other,
        }
    }
}

fn carried(refusal: Refusal) -> Error {
    StreamableHttpError::AuthRequired(AuthRequiredError::new(refusal.words))
}

/// Returns the challenge of a 401 response; a server may omit the challenge.
fn unauthorized(error: &Error) -> Option<Option<String>> {
    match error {
        StreamableHttpError::AuthRequired(error) => Some(Some(error.www_authenticate_header.clone())),
        StreamableHttpError::Client(error) if error.status() == Some(StatusCode::UNAUTHORIZED) => Some(None),
        // rmcp's form of a 401 response without a challenge.
        StreamableHttpError::UnexpectedServerResponse(text) if text.starts_with("HTTP 401 ") => Some(None),
        _ => None,
    }
}

impl StreamableHttpClient for Authorized {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Error> {
        self.send(|token| {
            self.http.post_message_with_response_limits(
                uri.clone(),
                message.clone(),
                session_id.clone(),
                token,
                custom_headers.clone(),
                limits,
            )
        })
        .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Error> {
        // When closing a connection: not worth fetching a token.
        let token = self.tokens.last().await;
        let deleted = self.http.delete_session(uri, session_id, token, custom_headers).await;
        deleted.map_err(|error| self.redacted(error))
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Events, Error> {
        self.send(|token| {
            self.http.get_stream(
                uri.clone(),
                session_id.clone(),
                last_event_id.clone(),
                token,
                custom_headers.clone(),
            )
        })
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<Events, Error> {
        self.send(|token| {
            self.http.get_stream_with_max_sse_event_size(
                uri.clone(),
                session_id.clone(),
                last_event_id.clone(),
                token,
                custom_headers.clone(),
                max_sse_event_size,
            )
        })
        .await
    }
}
