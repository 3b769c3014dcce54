//! Follows a log through every restart: of the API, of a worker, of the database. Used by `chat` and `tail`.
//!
//! A small parser of server-sent events ([`Parser`]) below a follower ([`Follow`]) that keeps the cursor. A connection
//! that ends before the run's end always means: reconnect with the cursor.
//!
//! Invariants: every event is returned once, in the order of its number; no wait exceeds the silence limit.
use std::{collections::VecDeque, time::Duration};

use anyhow::{Context, Result};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    client::{Client, Pauses, Refusal, SILENCE_LIMIT, root_cause},
    exit::Exit,
    out::Out,
};

/// Silence after which a connection counts as dead, whatever TCP reports: a live one sends something at least every 10
/// s.
const CONNECTION_SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// Maximum length of a line: a snapshot contains a long conversation.
const LINE_MAX_BYTES: usize = 64 * 1024 * 1024;

/// One server-sent event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    pub id: Option<String>,
    pub event: Option<String>,
    pub data: String,
}

/// Splits bytes into frames, however the network has split them.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    /// A following LF belongs to the CR before it.
    after_cr: bool,
    /// A byte order mark is allowed before the first line only.
    begun: bool,
    frame: Frame,
    has_data: bool,
}

impl Parser {
    /// Returns the frames completed by these bytes.
    ///
    /// # Errors
    /// A line is longer than any that the API sends.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Frame>> {
        let mut frames = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if std::mem::take(&mut self.after_cr) => {}
                b'\n' | b'\r' => {
                    self.after_cr = *byte == b'\r';
                    frames.extend(self.end_line());
                }
                other => {
                    self.after_cr = false;
                    anyhow::ensure!(self.line.len() < LINE_MAX_BYTES, "a line of the stream is too long");
                    self.line.push(*other);
                }
            }
        }
        Ok(frames)
    }

    fn end_line(&mut self) -> Option<Frame> {
        let line = std::mem::take(&mut self.line);
        // Complete lines only: a split character is complete again.
        let line = String::from_utf8_lossy(&line);
        let first = !std::mem::replace(&mut self.begun, true);
        let line = if first {
            line.strip_prefix('\u{feff}').unwrap_or(&line)
        } else {
            &line
        };
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" if !value.contains('\0') => self.frame.id = Some(value.to_owned()),
            "event" => self.frame.event = Some(value.to_owned()),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            // Comments (an empty field), `retry`, and future fields.
            _ => {}
        }
        None
    }
}

/// The start position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    Beginning,
    /// A number, or `now`.
    After(String),
    Snapshot,
}

/// An event of the log, or a notice about the connection (without a number).
#[derive(Debug, Clone)]
pub struct Received {
    pub seq: Option<i64>,
    /// The JSON as received.
    pub data: String,
    pub json: Value,
}

impl Received {
    pub fn kind(&self) -> &str {
        self.json["type"].as_str().unwrap_or_default()
    }

    /// Returns whether it is part of the log rather than of the transmission: what `--json` prints.
    pub fn is_data(&self) -> bool {
        self.seq.is_some() || matches!(self.kind(), "snapshot" | "gap")
    }

    pub fn text(&self, field: &str) -> &str {
        self.json[field].as_str().unwrap_or_default()
    }
}

/// A followed log.
pub struct Follow {
    client: Client,
    path: String,
    start: Start,
    /// The number of the last returned event.
    last_seq: Option<i64>,
    connection: Option<Connection>,
    ready: VecDeque<Received>,
    pauses: Pauses,
    /// The time of the last received byte.
    heard: Instant,
    /// The outage was reported.
    told: bool,
    out: Out,
}

struct Connection {
    response: Response,
    parser: Parser,
}

/// The result of a connection attempt.
enum Dialled {
    Stream(Box<Response>),
    /// The cursor is at the end of an ended log.
    Ended,
    Later(String, Option<Duration>),
    /// The cursor is older than the retained events.
    TooOld,
}

impl Follow {
    /// `path` is the log's, such as `/api/runs/{id}/events`. Connects at the first [`Self::next`].
    pub fn new(client: Client, path: impl Into<String>, start: Start, out: Out) -> Self {
        Self {
            client,
            path: path.into(),
            start,
            last_seq: None,
            connection: None,
            ready: VecDeque::new(),
            pauses: Pauses::default(),
            heard: Instant::now(),
            told: false,
            out,
        }
    }

    /// Returns the next event; `None` when the log has ended.
    ///
    /// # Errors
    /// The API refuses, or was silent for [`SILENCE_LIMIT`].
    pub async fn next(&mut self) -> Result<Option<Received>> {
        loop {
            if let Some(received) = self.ready.pop_front() {
                return Ok(Some(received));
            }
            let why = match self.connection.as_mut() {
                Some(connection) => match timeout(CONNECTION_SILENCE_LIMIT, connection.response.chunk()).await {
                    Ok(Ok(Some(bytes))) => {
                        self.heard = Instant::now();
                        let frames = connection.parser.push(&bytes)?;
                        for frame in frames {
                            self.take(frame)?;
                        }
                        continue;
                    }
                    Ok(Ok(None)) => "the connection was closed".to_owned(),
                    Ok(Err(error)) => root_cause(&error),
                    Err(_) => format!("the connection was silent for {CONNECTION_SILENCE_LIMIT:?}"),
                },
                None => match self.dial().await? {
                    Dialled::Stream(response) => {
                        self.connection = Some(Connection {
                            response: *response,
                            parser: Parser::default(),
                        });
                        continue;
                    }
                    Dialled::Ended => return Ok(None),
                    Dialled::TooOld => {
                        self.note("(earlier events are no longer stored; continuing from a snapshot)");
                        self.last_seq = None;
                        self.start = Start::Snapshot;
                        continue;
                    }
                    Dialled::Later(why, wait) => {
                        self.wait(&why, wait).await?;
                        continue;
                    }
                },
            };
            self.connection = None;
            self.wait(&why, None).await?;
        }
    }

    /// Connects, with the cursor.
    async fn dial(&self) -> Result<Dialled> {
        let start = match (self.last_seq, &self.start) {
            (Some(_), _) | (None, Start::Beginning) => String::new(),
            (None, Start::After(after)) => {
                let after: String = url::form_urlencoded::byte_serialize(after.as_bytes()).collect();
                format!("?after={after}")
            }
            (None, Start::Snapshot) => "?from=snapshot".to_owned(),
        };
        let request = self.client.request(Method::GET, &format!("{}{start}", self.path));
        let request = request.header("accept", "text/event-stream");
        let request = match self.last_seq {
            Some(seq) => request.header("last-event-id", seq.to_string()),
            None => request,
        };
        let answer = match timeout(CONNECTION_SILENCE_LIMIT, self.client.send(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is_builder() => return Err(error).context("building the request failed"),
            Ok(Err(error)) if self.client.is_nobody_there(self.heard) => {
                return Err(error).with_context(|| self.client.unreachable());
            }
            Ok(Err(error)) => return Ok(Dialled::Later(root_cause(&error), None)),
            Err(_) => return Ok(Dialled::Later("no response".to_owned(), None)),
        };
        match answer.status() {
            StatusCode::NO_CONTENT => Ok(Dialled::Ended),
            status if status.is_success() => Ok(Dialled::Stream(Box::new(answer))),
            StatusCode::GONE => Ok(Dialled::TooOld),
            _ => {
                let refusal = Refusal::read(answer).await;
                if refusal.is_temporary() {
                    return Ok(Dialled::Later(refusal.to_string(), refusal.retry_after));
                }
                Err(refusal.into_error(&self.path))
            }
        }
    }

    /// Queues a frame's event, unless it was returned before.
    fn take(&mut self, frame: Frame) -> Result<()> {
        let json: Value = serde_json::from_str(&frame.data).context("an event of the stream is not JSON")?;
        let kind = json["type"].as_str().unwrap_or_default();
        let seq = frame.id.as_deref().and_then(|id| id.parse::<i64>().ok());
        match (seq, kind) {
            (Some(seq), _) => {
                if self.last_seq.is_some_and(|last| seq <= last) {
                    return Ok(());
                }
                self.last_seq = Some(seq);
                self.pauses = Pauses::default();
                self.told = false;
            }
            // Live events continue after it.
            (None, "snapshot") => self.last_seq = json["through"].as_i64().or(self.last_seq),
            // The server is stopping: it closes the connection, and the next one goes to another server.
            (None, "goaway") => self.pauses = Pauses::default(),
            (None, _) => {}
        }
        self.ready.push_back(Received {
            seq,
            data: frame.data,
            json,
        });
        Ok(())
    }

    async fn wait(&mut self, why: &str, asked: Option<Duration>) -> Result<()> {
        let silent = self.heard.elapsed();
        if silent > SILENCE_LIMIT {
            let message = format!(
                "no events of {} for {SILENCE_LIMIT:?} ({why}); nothing is lost: `rejoin tail` continues from there",
                self.client.url()
            );
            return Err(Exit::Unreachable.because(message).into());
        }
        // A short restart is not reported.
        if !self.told && self.pauses.count == 2 {
            self.told = true;
            self.note(&format!("(the connection was lost: {why}; retrying)"));
        }
        sleep(self.pauses.next(asked)).await;
        Ok(())
    }

    fn note(&self, text: &str) {
        self.out.note(text);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::dev_instance::Access;

    const TEXT: &str = "\u{feff}retry: 2000\n\n:hb\n\nid: 1\ndata: {\"a\":\"ä€😀\"}\n\r\nid:2\r\ndata: x\r\ndata\r\ndata:  y\r\n\r\nevent: e\rdata: z\r\rid: 9\n\n: c\nnonsense\ndata: last\n\n";

    fn frame(id: Option<&str>, event: Option<&str>, data: &str) -> Frame {
        Frame {
            id: id.map(str::to_owned),
            event: event.map(str::to_owned),
            data: data.to_owned(),
        }
    }

    fn expected() -> Vec<Frame> {
        vec![
            frame(Some("1"), None, "{\"a\":\"ä€😀\"}"),
            frame(Some("2"), None, "x\n\n y"),
            frame(None, Some("e"), "z"),
            frame(None, None, "last"),
        ]
    }

    #[test]
    fn frames_are_the_same_wherever_the_bytes_are_cut() {
        let bytes = TEXT.as_bytes();
        for cut in 0..=bytes.len() {
            let mut parser = Parser::default();
            let mut frames = parser.push(&bytes[..cut]).unwrap();
            frames.extend(parser.push(&bytes[cut..]).unwrap());
            assert_eq!(frames, expected(), "cut at {cut}");
        }
        let mut parser = Parser::default();
        let single: Vec<Frame> = bytes.iter().flat_map(|byte| parser.push(&[*byte]).unwrap()).collect();
        assert_eq!(single, expected());
    }

    #[test]
    fn a_frame_that_is_not_finished_is_not_handed_out() {
        let mut parser = Parser::default();
        assert_eq!(parser.push(b"id: 1\ndata: half").unwrap(), []);
        assert_eq!(parser.push(b"\n").unwrap(), []);
        assert_eq!(parser.push(b"\n").unwrap(), [frame(Some("1"), None, "half")]);
    }

    /// An API that answers consecutive connections with these bytes, and returns the requests.
    async fn scripted(answers: Vec<&'static str>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let mut requests = Vec::new();
            for answer in answers {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(socket.read_u8().await.unwrap());
                }
                requests.push(String::from_utf8(request).unwrap());
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
            requests
        });
        (url, serving)
    }

    const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

    #[tokio::test]
    async fn a_log_is_followed_through_lost_connections_exactly_once() {
        let cut: &str = &format!("{STREAM}:hb\n\nid: 1\ndata: {{\"type\":\"a\"}}\n\nid: 2\ndata: {{\"ty");
        let again: &str = &format!(
            "{STREAM}id: 1\ndata: {{\"type\":\"a\"}}\n\nid: 2\ndata: {{\"type\":\"b\"}}\n\ndata: {{\"type\":\"goaway\"}}\n\n"
        );
        let snapshot: &str =
            &format!("{STREAM}data: {{\"type\":\"snapshot\",\"through\":7}}\n\nid: 8\ndata: {{\"type\":\"c\"}}\n\n");
        let answers = [
            cut,
            again,
            "HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 410 Gone\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            snapshot,
            "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n",
        ];
        let (url, serving) = scripted(answers.iter().map(|answer| &*answer.to_string().leak()).collect()).await;
        let access = Access {
            url,
            api_key: "key".to_owned(),
            workspace_id: None,
        };
        let client = Client::new(access).unwrap();
        let mut follow = Follow::new(client, "/log", Start::After("0".to_owned()), Out::new(true));
        let mut seen = Vec::new();
        while let Some(event) = follow.next().await.unwrap() {
            seen.push((event.seq, event.kind().to_owned()));
        }
        let expected = [
            (Some(1), "a"),
            (Some(2), "b"),
            (None, "goaway"),
            (None, "snapshot"),
            (Some(8), "c"),
        ];
        assert_eq!(seen, expected.map(|(seq, kind)| (seq, kind.to_owned())));
        let requests = serving.await.unwrap();
        let asked: Vec<(&str, Option<&str>)> = requests
            .iter()
            .map(|request| {
                let line = request.lines().next().unwrap();
                let cursor = request.lines().find_map(|line| line.strip_prefix("last-event-id: "));
                (line.split(' ').nth(1).unwrap(), cursor)
            })
            .collect();
        let expected = [
            ("/log?after=0", None),
            ("/log", Some("1")),
            ("/log", Some("2")),
            ("/log", Some("2")),
            ("/log?from=snapshot", None),
            ("/log", Some("8")),
        ];
        assert_eq!(asked, expected);
    }

    #[tokio::test]
    async fn a_refusal_ends_it_with_its_exit_code() {
        let (url, _serving) = scripted(vec![
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        ])
        .await;
        let access = Access {
            url,
            api_key: "key".to_owned(),
            workspace_id: None,
        };
        let client = Client::new(access).unwrap();
        let mut follow = Follow::new(client, "/log", Start::Beginning, Out::new(true));
        let error = follow.next().await.unwrap_err();
        assert_eq!(Exit::of(&error), Exit::NotAuthenticated);
    }
}
