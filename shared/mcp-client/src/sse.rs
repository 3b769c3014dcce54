//! The transport of servers of the protocol's revision 2024-11-05: a stream of server-sent events, whose first one names the address to which
//! messages are posted. Newer servers use one address for both, so `http` tries this one last.
//!
//! Invariants: messages are posted to the origin of the stream only; an event has a maximum size.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use sse_stream::{Sse, SseStream};
use tokio::time::timeout;
use tracing::debug;
use url::Url;

const EVENT_STREAM: &str = "text/event-stream";
/// Timeout until the first event.
const ENDPOINT_LIMIT: Duration = Duration::from_secs(10);

/// The reason why a message can't be sent, or why a stream can't be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SseError {
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    #[error("the server responded with HTTP {0}")]
    Status(StatusCode),
    #[error("the server does not send a stream of events")]
    NoStream,
    #[error("the server's stream does not begin with the address for messages")]
    NoEndpoint,
    #[error("the server's address for messages is elsewhere")]
    OtherOrigin,
}

/// What ends a stream.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    #[error("an event has more than {0} bytes")]
    TooLarge(usize),
}

type Events = BoxStream<'static, Result<Sse, sse_stream::Error>>;

/// An open stream, and the address for messages.
pub(crate) struct SseTransport {
    http: reqwest::Client,
    headers: HeaderMap,
    endpoint: Url,
    events: Events,
}

impl SseTransport {
    /// Opens the stream at this address. `max_event_bytes`: maximum size of a message from the server.
    pub(crate) async fn open(
        http: reqwest::Client,
        url: &Url,
        headers: HeaderMap,
        max_event_bytes: usize,
    ) -> Result<Self, SseError> {
        let request = http
            .get(url.clone())
            .headers(headers.clone())
            .header(ACCEPT, EVENT_STREAM);
        let response = request.send().await?;
        if !response.status().is_success() {
            return Err(SseError::Status(response.status()));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(|kind| kind.starts_with(EVENT_STREAM)) {
            return Err(SseError::NoStream);
        }
        let mut size = EventSize::new(max_event_bytes);
        let bytes = response.bytes_stream().map(move |chunk| {
            let chunk = chunk?;
            size.take(&chunk)?;
            Ok::<_, Broken>(chunk)
        });
        let mut events = SseStream::from_bytes_stream(bytes).boxed();
        let first = timeout(ENDPOINT_LIMIT, events.next()).await;
        let named = match first {
            Ok(Some(Ok(Sse {
                event: Some(event),
                data: Some(data),
                ..
            }))) if event == "endpoint" => data,
            Ok(_) | Err(_) => return Err(SseError::NoEndpoint),
        };
        let endpoint = url.join(named.trim()).map_err(|_| SseError::NoEndpoint)?;
        if endpoint.origin() != url.origin() {
            return Err(SseError::OtherOrigin);
        }
        Ok(Self {
            http,
            headers,
            endpoint,
            events,
        })
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = SseError;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), SseError>> + Send + 'static {
        let request = self.http.post(self.endpoint.clone()).headers(self.headers.clone());
        async move {
            let response = request.json(&message).send().await?;
            if response.status().is_success() {
                Ok(())
            } else {
                Err(SseError::Status(response.status()))
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let event = match self.events.next().await? {
                Ok(event) => event,
                Err(error) => {
                    debug!(%error, "the stream of an MCP server broke");
                    return None;
                }
            };
            let is_message = event.event.is_none_or(|kind| kind == "message");
            let data = event.data.filter(|_| is_message);
            match data.map(|data| serde_json::from_str(&data)) {
                None => {}
                Some(Ok(message)) => return Some(message),
                Some(Err(error)) => debug!(%error, "an event of an MCP server is not a message"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), SseError> {
        self.events = futures::stream::empty().boxed();
        Ok(())
    }
}

/// Counts the bytes of the event that is being received.
struct EventSize {
    max: usize,
    bytes: usize,
    /// The line so far is empty.
    is_line_empty: bool,
}

impl EventSize {
    fn new(max: usize) -> Self {
        Self {
            max,
            bytes: 0,
            is_line_empty: true,
        }
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), Broken> {
        for byte in chunk {
            self.bytes += 1;
            match byte {
                // An empty line ends an event.
                b'\n' if self.is_line_empty => self.bytes = 0,
                b'\n' => self.is_line_empty = true,
                b'\r' => {}
                _ => self.is_line_empty = false,
            }
            if self.bytes > self.max {
                return Err(Broken::TooLarge(self.max));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_each_event_is_limited() {
        let mut size = EventSize::new(20);
        for _ in 0..10 {
            size.take(b"data: 12345\r\n").unwrap();
            size.take(b"\r\n").unwrap();
        }
        size.take(b"data: 1234567890\n").unwrap();
        let refused = size.take(b"data: 1").unwrap_err();
        assert_eq!(refused.to_string(), "an event has more than 20 bytes");
    }
}
