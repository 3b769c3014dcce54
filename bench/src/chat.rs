//! A chat client over bare TCP: posts a message and records the times of the first token and the turn's end. Full HTTP
//! clients cost more than what is measured.

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::load::now_us;
use crate::model::{Moments, Script};

/// Timeout of a turn.
const TURN_LIMIT: std::time::Duration = std::time::Duration::from_secs(60);
const READ_BYTES: usize = 16 * 1024;

/// A connection, kept across turns.
pub struct Chat {
    host: String,
    stream: TcpStream,
    head: String,
    buffer: Vec<u8>,
}

/// The times of a turn, in µs of `now_us`.
#[derive(Debug, Clone)]
pub struct Turn {
    pub first_token_us: u64,
    pub done_us: u64,
    pub model: Moments,
}

impl Turn {
    /// The platform's parts of the time to first token, in µs: from the post until the model's request, between the
    /// model's steps, and from the model's first token until its arrival.
    pub fn parts_us(&self, posted_us: u64) -> [u64; 3] {
        let first_asked = self.model.0.first().map_or(posted_us, |step| step.0);
        let first_said = self.model.0.last().map_or(self.first_token_us, |step| step.1);
        [
            first_asked.saturating_sub(posted_us),
            self.model.between_us(),
            self.first_token_us.saturating_sub(first_said),
        ]
    }

    /// The model's time for its steps before the answer, in µs.
    pub fn model_us(&self) -> u64 {
        self.model
            .0
            .iter()
            .map(|(asked, said)| said.saturating_sub(*asked))
            .sum()
    }
}

async fn open(host: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(host)
        .await
        .with_context(|| format!("connecting to {host}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Chat {
    /// `url` without a path.
    pub async fn connect(url: &str, api_key: &str) -> Result<Self> {
        let host = url.strip_prefix("http://").context("an http URL")?;
        Ok(Self {
            host: host.to_owned(),
            stream: open(host).await?,
            head: format!(
                "POST /api/chat/stream HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {api_key}\r\n\
                 Content-Type: application/json\r\nContent-Length: "
            ),
            buffer: Vec::new(),
        })
    }

    /// Runs a turn in a new conversation, until its `done`.
    pub async fn turn(&mut self, agent: Option<Uuid>, script: Script) -> Result<Turn> {
        let fields = agent.map_or_else(|| json!({}), |id| json!({"agentDefinitionId": id}));
        self.ask(fields, script).await
    }

    /// Runs a turn with additional fields in its message, until its `done`.
    pub async fn ask(&mut self, mut fields: Value, script: Script) -> Result<Turn> {
        fields["message"] = script.message().into();
        let turn = tokio::time::timeout(TURN_LIMIT, self.try_turn(fields.to_string()))
            .await
            .context("the turn takes too long")??;
        // A stream ends with its connection. The next one is opened in advance, like a browser's.
        self.stream = open(&self.host).await?;
        Ok(turn)
    }

    async fn try_turn(&mut self, body: String) -> Result<Turn> {
        let request = format!("{}{}\r\n\r\n{body}", self.head, body.len());
        self.stream.write_all(request.as_bytes()).await?;
        self.buffer.clear();
        let mut read = 0;
        let mut first: Option<(u64, Moments)> = None;
        let mut done_us = None;
        loop {
            let at = self.buffer.len();
            self.buffer.resize(at + READ_BYTES, 0);
            let n = self.stream.read(&mut self.buffer[at..]).await?;
            self.buffer.truncate(at + n);
            let now = now_us();
            if n == 0 {
                bail!(
                    "the server closed the connection: {}",
                    String::from_utf8_lossy(&self.buffer)
                );
            }
            // Complete lines only: the rest is examined with the next data.
            while let Some(length) = self.buffer[read..].iter().position(|byte| *byte == b'\n') {
                let line = &self.buffer[read..read + length];
                read += length + 1;
                if first.is_none() && line.starts_with(b"HTTP/") && !line.starts_with(b"HTTP/1.1 200") {
                    bail!("refused: {}", String::from_utf8_lossy(&self.buffer));
                }
                let Some(event) = line.strip_prefix(b"data: ") else {
                    // The last chunk of the body is empty.
                    if line == b"0\r"
                        && let (Some(done_us), Some((first_token_us, model))) = (done_us, &first)
                    {
                        return Ok(Turn {
                            first_token_us: *first_token_us,
                            done_us,
                            model: model.clone(),
                        });
                    }
                    continue;
                };
                if first.is_none() && has_type(event, "token") {
                    let event: Value = serde_json::from_slice(event)?;
                    let token = event["token"].as_str().unwrap_or_default();
                    first = Some((
                        now,
                        Moments::of(token).with_context(|| format!("a token without moments: {token}"))?,
                    ));
                } else if has_type(event, "done") {
                    if first.is_none() {
                        bail!(
                            "the turn ended without a token: {}",
                            String::from_utf8_lossy(&self.buffer)
                        );
                    }
                    done_us = Some(now);
                }
            }
        }
    }
}

/// Without parsing: the type comes first in every event.
fn has_type(event: &[u8], name: &str) -> bool {
    event
        .strip_prefix(br#"{"type":""#)
        .is_some_and(|rest| rest.starts_with(name.as_bytes()) && rest[name.len()] == b'"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_platforms_part_leaves_the_models_out() {
        let turn = Turn {
            first_token_us: 1_000,
            done_us: 2_000,
            model: Moments(vec![(110, 150), (180, 990)]),
        };
        assert_eq!(turn.parts_us(100), [10, 30, 10]);
        assert_eq!(turn.model_us(), 40 + 810);
    }

    #[test]
    fn an_events_type_is_its_first_field() {
        assert!(has_type(br#"{"type":"token","token":"x"}"#, "token"));
        assert!(!has_type(br#"{"type":"tokens","token":"x"}"#, "token"));
    }
}
