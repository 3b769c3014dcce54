//! Sends requests to providers whose protocols genai implements in part. Answers are genai's events, so that `answer` reads all alike.

use ::genai::chat::ChatStreamEvent;
use ::genai::{Error as GenaiError, ModelIden, Result as GenaiResult};
use futures::StreamExt;
use futures::stream::{self, BoxStream};

/// The events of an answer, in genai's types.
pub(super) type Upstream = BoxStream<'static, GenaiResult<ChatStreamEvent>>;

/// The body of an answer.
pub(super) type Bytes = BoxStream<'static, reqwest::Result<bytes::Bytes>>;

/// The endpoint of a model.
pub(super) struct Wire<'a> {
    pub(super) http: &'a reqwest::Client,
    /// Ends with a slash.
    pub(super) base_url: &'a str,
    pub(super) model: &'a ModelIden,
}

/// Sends nothing before polling. A rejection is the first item; otherwise the body is read.
pub(super) fn stream(
    request: reqwest::RequestBuilder,
    model: ModelIden,
    read: fn(Bytes, ModelIden) -> Upstream,
) -> Upstream {
    stream::once(async move {
        match open(request, &model).await {
            Ok(response) => read(response.bytes_stream().boxed(), model),
            Err(error) => stream::once(async move { Err(error) }).boxed(),
        }
    })
    .flatten()
    .boxed()
}

async fn open(request: reqwest::RequestBuilder, model: &ModelIden) -> GenaiResult<reqwest::Response> {
    let response = request.send().await.map_err(|error| broken_off(error, model))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let headers = Box::new(response.headers().clone());
    Err(GenaiError::HttpError {
        status,
        canonical_reason: status.canonical_reason().unwrap_or_default().to_owned(),
        // An unreadable rejection is reported by its status.
        body: response.text().await.unwrap_or_default(),
        headers,
    })
}

pub(super) fn broken_off(error: reqwest::Error, model: &ModelIden) -> GenaiError {
    GenaiError::WebStream {
        model_iden: model.clone(),
        cause: error.to_string(),
        error: Box::new(error),
    }
}
