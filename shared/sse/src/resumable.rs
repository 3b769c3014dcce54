//! Streams of a library that knows the ids of its events in one process, for as long as the stream. Their ids also name that process and the
//! request, so that a client can read on after any event (`Last-Event-ID`): where the library has no such stream any more, the request is
//! answered again from what is stored. Called by the MCP server.
//!
//! An id is `ID@PROCESS@REQUEST`: the library's id, the process, and the request's id in its protocol, as JSON.

use std::convert::Infallible;
use std::future::ready;
use std::sync::LazyLock;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use rejoin_types::ids;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The header of a client that reads on.
const LAST_EVENT_ID: &str = "last-event-id";
/// Maximum length of a request's id, as JSON, in bytes. The events of other requests keep the library's ids.
const REQUEST_MAX_BYTES: usize = 200;
const MARK: char = '@';
/// Names this process.
static PROCESS: LazyLock<String> = LazyLock::new(|| ids::new().simple().to_string());

/// What follows the library's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(String);

/// The place in a stream at which a client reads on.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The id of the last event that the client has.
    pub event: String,
    /// The id of the request.
    pub request: Value,
    is_of_this_process: bool,
}

impl Names {
    fn of(request: &Value) -> Option<Self> {
        let id = request.to_string();
        let is_short = id.len() <= REQUEST_MAX_BYTES && id.bytes().all(|byte| byte.is_ascii_graphic());
        (is_short && !request.is_null()).then(|| Self(format!("{MARK}{}{MARK}{id}", *PROCESS)))
    }

    /// Reads the id of a request from its body, which has arrived. None: it has none.
    pub async fn of_request(request: Request) -> (Request, Option<Self>) {
        let (parts, body) = request.into_parts();
        // It was limited, and read whole, before.
        let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        (Request::from_parts(parts, Body::from(body)), Self::of(&message["id"]))
    }

    fn added(&self, event: &Bytes) -> Bytes {
        let mut text = String::from_utf8_lossy(event).into_owned();
        let line = match text.find("\nid: ") {
            Some(before) => before + 1,
            None if text.starts_with("id: ") => 0,
            None => return event.clone(),
        };
        let end = text[line..].find('\n').map_or(text.len(), |length| line + length);
        text.insert_str(end, &self.0);
        text.into()
    }
}

/// Adds the names to the ids of a body's events.
pub fn named(names: Option<Names>, body: Body) -> Body {
    match names {
        Some(names) => Body::from_stream(body.into_data_stream().map_ok(move |event| names.added(&event))),
        None => body,
    }
}

impl Place {
    /// Takes it from the headers, in which the library's id stays. None: the client does not read on, or after another event.
    pub fn take(headers: &mut HeaderMap) -> Option<Self> {
        let event = headers.get(LAST_EVENT_ID)?.to_str().ok()?.to_owned();
        let (own, names) = event.split_once(MARK)?;
        let (process, request) = names.split_once(MARK)?;
        let place = Self {
            request: serde_json::from_str(request).ok()?,
            is_of_this_process: process == *PROCESS,
            event: event.clone(),
        };
        headers.insert(LAST_EVENT_ID, HeaderValue::from_str(own).ok()?);
        Some(place)
    }

    /// The names of the events that follow.
    pub fn names(&self) -> Option<Names> {
        Names::of(&self.request)
    }

    /// Returns the library's response. None: it has no such stream.
    pub async fn go_on(&self, library: impl Future<Output = Response>) -> Option<Response> {
        if !self.is_of_this_process {
            return None;
        }
        let (parts, body) = library.await.into_parts();
        let mut events = body.into_data_stream();
        // Its stream is over at once, then.
        let first = match events.next().now_or_never() {
            Some(None) => return None,
            Some(first) => first,
            None => None,
        };
        let events = stream::iter(first).chain(events);
        Some(Response::from_parts(parts, Body::from_stream(events)))
    }

    /// Answers the request with a message, once it is there. A client that is cut off before, also because this process stops, reads on at the
    /// same place.
    pub fn answered(
        self,
        message: impl Future<Output = Value> + Send + 'static,
        draining: CancellationToken,
        heartbeat: Duration,
    ) -> Response {
        let place = Event::default().id(self.event);
        let message = message.map(|message| Event::default().data(message.to_string()));
        let events = stream::once(ready(place)).chain(message.into_stream());
        let events = events.take_until(draining.cancelled_owned());
        Sse::new(events.map(Ok::<_, Infallible>))
            .keep_alive(KeepAlive::new().interval(heartbeat))
            .into_response()
    }
}

/// Answers a request at once, and for good.
pub fn refused(message: &Value) -> Response {
    let event = Event::default().data(message.to_string());
    Sse::new(stream::once(ready(Ok::<_, Infallible>(event)))).into_response()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reading_on_after(id: &str) -> (Option<Place>, HeaderMap) {
        let mut headers = HeaderMap::new();
        headers.insert(LAST_EVENT_ID, HeaderValue::from_str(id).unwrap());
        (Place::take(&mut headers), headers)
    }

    #[tokio::test]
    async fn the_id_of_an_event_names_its_process_and_request() {
        let request = Request::new(Body::from(r#"{"jsonrpc":"2.0","id":"a@b","method":"m"}"#));
        let (request, names) = Names::of_request(request).await;
        assert!(to_bytes(request.into_body(), 100).await.unwrap().ends_with(b"\"m\"}"));
        let names = names.unwrap();
        let event = names.added(&Bytes::from_static(b"data: {}\nid: 0/3\nretry: 3000\n\n"));
        let text = String::from_utf8(event.to_vec()).unwrap();
        let id = format!("0/3@{}@\"a@b\"", *PROCESS);
        assert_eq!(text, format!("data: {{}}\nid: {id}\nretry: 3000\n\n"));
        assert_eq!(names.added(&Bytes::from_static(b": \n\n")), &b": \n\n"[..]);

        let (place, headers) = reading_on_after(&id);
        let place = place.unwrap();
        assert_eq!((&place.event, &place.request), (&id, &json!("a@b")));
        assert_eq!(headers[LAST_EVENT_ID], "0/3");
        assert_eq!(place.names(), Some(names));
        for other in ["0", "0/3", "0/3@process", "0/3@process@{"] {
            let (place, headers) = reading_on_after(other);
            assert_eq!((place, headers[LAST_EVENT_ID].to_str().unwrap()), (None, other));
        }
        for none in [json!(null), json!("ü"), json!("x".repeat(REQUEST_MAX_BYTES))] {
            assert_eq!(Names::of(&none), None);
        }
    }

    #[tokio::test]
    async fn a_stream_goes_on_where_the_library_has_it() {
        let response = async |body: &'static str| body.into_response();
        let (here, _) = reading_on_after(&format!("0/3@{}@7", *PROCESS));
        let here = here.unwrap();
        let went_on = here.go_on(response("data: more\n\n")).await.unwrap();
        assert_eq!(to_bytes(went_on.into_body(), 100).await.unwrap(), "data: more\n\n");
        assert!(here.go_on(response("")).await.is_none());
        let (elsewhere, _) = reading_on_after("0/3@elsewhere@7");
        let elsewhere = elsewhere.unwrap();
        assert!(elsewhere.go_on(response("data: more\n\n")).await.is_none());
        let heartbeat = Duration::from_secs(9);
        let answered = elsewhere.answered(ready(json!({"id": 7})), CancellationToken::new(), heartbeat);
        let text = to_bytes(answered.into_body(), 100).await.unwrap();
        assert_eq!(text, "id: 0/3@elsewhere@7\n\ndata: {\"id\":7}\n\n");
    }
}
