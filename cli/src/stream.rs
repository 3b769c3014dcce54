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
/// The header of a stream that names the epoch of the database.
const EPOCH: &str = "x-log-epoch";
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
        self.seq.is_some() || matches!(self.kind(), "snapshot" | "gap" | "rewound")
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
    /// The epoch of the database in which the events up to it were received.
    epoch: Option<String>,
    connection: Option<Connection>,
    ready: VecDeque<Received>,
    pauses: Pauses,
    /// The time of the last received byte.
    heard: Instant,
    /// The outage was reported.
    is_reported: bool,
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
    /// The log was taken back before the cursor: the database was restored to an earlier state.
    Rewound,
}

impl Follow {
    /// `path` is the log's, such as `/api/runs/{id}/events`. Connects at the first [`Self::next`].
    pub fn new(client: Client, path: impl Into<String>, start: Start, out: Out) -> Self {
        Self {
            client,
            path: path.into(),
            start,
            last_seq: None,
            epoch: None,
            connection: None,
            ready: VecDeque::new(),
            pauses: Pauses::default(),
            heard: Instant::now(),
            is_reported: false,
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
                        let epoch = response.headers().get(EPOCH).and_then(|epoch| epoch.to_str().ok());
                        self.epoch = epoch.map(str::to_owned).or(self.epoch.take());
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
                    Dialled::Rewound => {
                        self.note("(the server has lost the last events; continuing from a snapshot of what it has)");
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
            (Some(_), _) => {
                let epoch = self.epoch.as_ref().map(|epoch| format!("?epoch={epoch}"));
                epoch.unwrap_or_default()
            }
            (None, Start::Beginning) => String::new(),
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
                if self.last_seq.is_some()
                    && ["cursor_ahead", "cursor_rewound"].contains(&refusal.problem.code.as_str())
                {
                    return Ok(Dialled::Rewound);
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
                self.is_reported = false;
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
        if !self.is_reported && self.pauses.count == 2 {
            self.is_reported = true;
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
mod tests;
