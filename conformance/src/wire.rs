//! HTTP/1.1 on a bare socket: a response arrives piece by piece, and can be left at any byte. Called by `target` and `reader`.
//!
//! A client library would hide what the suite is about: where a stream was cut, and whether a body ended or broke. Only `http://` is spoken.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Maximum size of a head or of the line before a chunk, in bytes.
const HEAD_MAX_BYTES: usize = 64 * 1024;

/// A request, ready to be sent.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
}

/// How a body is delimited, and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// Bytes left of the chunk. 0: the next line is a size.
    Chunked(usize),
    Length(usize),
    UntilClose,
    Ended,
}

/// A response whose body is read while it arrives.
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    body: Body,
}

/// What is read of a body.
struct Body {
    stream: TcpStream,
    /// Read and not yet returned.
    inbox: Vec<u8>,
    framing: Framing,
    /// Whether the line end after a chunk is still to come.
    is_after_chunk: bool,
}

enum Taken {
    Data(Vec<u8>),
    Ended,
    NeedsMore,
}

impl Request {
    /// Sends it, and reads the head of the response.
    ///
    /// # Errors
    /// The server can't be reached, closes the connection, or gives no head within `limit`.
    pub async fn send(&self, limit: Duration) -> Result<Response> {
        let about = || format!("{} {}", self.method, self.url);
        timeout(limit, self.sent())
            .await
            .with_context(|| format!("{}: no response within {limit:?}", about()))?
            .with_context(about)
    }

    async fn sent(&self) -> Result<Response> {
        let (authority, path) = split(&self.url)?;
        let mut stream = timeout(CONNECT_LIMIT, TcpStream::connect(authority))
            .await
            .context("connecting took too long")??;
        stream.set_nodelay(true)?;
        stream.write_all(self.bytes(authority, path).as_bytes()).await?;
        let mut inbox = Vec::new();
        loop {
            if let Some(at) = position(&inbox, b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&inbox[..at]).into_owned();
                inbox.drain(..at + 4);
                return respond(&self.method, &head, stream, inbox);
            }
            if inbox.len() > HEAD_MAX_BYTES {
                bail!("the head of the response is longer than {HEAD_MAX_BYTES} bytes");
            }
            if stream.read_buf(&mut inbox).await? == 0 {
                bail!("the connection was closed before the response");
            }
        }
    }

    fn bytes(&self, authority: &str, path: &str) -> String {
        let body = self.body.as_deref().unwrap_or_default();
        let mut head = format!(
            "{} {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n",
            self.method
        );
        if self.body.is_some() || self.method == "POST" {
            head += &format!("content-length: {}\r\n", body.len());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + "\r\n" + body
    }
}

/// The authority and the path of a URL.
fn split(url: &str) -> Result<(&str, &str)> {
    let rest = url
        .strip_prefix("http://")
        .with_context(|| format!("{url:?} does not begin with http://"))?;
    Ok(match rest.find('/') {
        Some(at) => (&rest[..at], &rest[at..]),
        None => (rest, "/"),
    })
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

fn respond(method: &str, head: &str, stream: TcpStream, inbox: Vec<u8>) -> Result<Response> {
    let mut lines = head.split("\r\n");
    let status: u16 = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|status| status.parse().ok())
        .with_context(|| format!("this is not a head of HTTP/1.1: {head:?}"))?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let header = |wanted: &str| {
        headers
            .iter()
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| value.as_str())
    };
    let framing = if method == "HEAD" || status == 204 || status == 304 {
        Framing::Ended
    } else if header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        Framing::Chunked(0)
    } else if let Some(length) = header("content-length") {
        Framing::Length(length.parse().context("content-length is not a number")?)
    } else {
        Framing::UntilClose
    };
    Ok(Response {
        status,
        headers,
        body: Body {
            stream,
            inbox,
            framing,
            is_after_chunk: false,
        },
    })
}

impl Response {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }

    /// The next bytes of the body. None: it has ended as its framing says. Nothing is lost if this future is dropped.
    ///
    /// # Errors
    /// The connection broke before the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let body = &mut self.body;
        loop {
            match body.take()? {
                Taken::Data(data) => return Ok(Some(data)),
                Taken::Ended => return Ok(None),
                Taken::NeedsMore => {}
            }
            if body.stream.read_buf(&mut body.inbox).await? == 0 {
                if body.framing == Framing::UntilClose {
                    body.framing = Framing::Ended;
                } else {
                    bail!("the connection broke in the middle of the body");
                }
            }
        }
    }

    /// The whole body as text.
    ///
    /// # Errors
    /// The connection broke, or the body did not end within `limit`.
    pub async fn text(&mut self, limit: Duration) -> Result<String> {
        let read = async {
            let mut whole = Vec::new();
            while let Some(data) = self.next().await? {
                whole.extend_from_slice(&data);
            }
            Ok(String::from_utf8_lossy(&whole).into_owned())
        };
        timeout(limit, read).await.context("the body did not end in time")?
    }
}

impl Body {
    /// Takes what the inbox has.
    fn take(&mut self) -> Result<Taken> {
        match self.framing {
            Framing::Ended => Ok(Taken::Ended),
            Framing::UntilClose if self.inbox.is_empty() => Ok(Taken::NeedsMore),
            Framing::UntilClose => Ok(Taken::Data(std::mem::take(&mut self.inbox))),
            Framing::Length(0) => {
                self.framing = Framing::Ended;
                Ok(Taken::Ended)
            }
            Framing::Length(left) => Ok(self.data(left, Framing::Length)),
            Framing::Chunked(0) => self.size(),
            Framing::Chunked(left) => {
                let taken = self.data(left, Framing::Chunked);
                self.is_after_chunk |= self.framing == Framing::Chunked(0);
                Ok(taken)
            }
        }
    }

    fn data(&mut self, left: usize, rest: impl Fn(usize) -> Framing) -> Taken {
        if self.inbox.is_empty() {
            return Taken::NeedsMore;
        }
        let count = left.min(self.inbox.len());
        let data = self.inbox.drain(..count).collect();
        self.framing = rest(left - count);
        Taken::Data(data)
    }

    /// The size of the next chunk.
    fn size(&mut self) -> Result<Taken> {
        if self.is_after_chunk {
            if self.inbox.len() < 2 {
                return Ok(Taken::NeedsMore);
            }
            self.inbox.drain(..2);
            self.is_after_chunk = false;
        }
        let Some(at) = position(&self.inbox, b"\r\n") else {
            if self.inbox.len() > HEAD_MAX_BYTES {
                bail!("the size of a chunk is missing");
            }
            return Ok(Taken::NeedsMore);
        };
        let line = String::from_utf8_lossy(&self.inbox[..at]).into_owned();
        let digits = line.split(';').next().unwrap_or_default().trim();
        let size =
            usize::from_str_radix(digits, 16).with_context(|| format!("{digits:?} is not the size of a chunk"))?;
        self.inbox.drain(..at + 2);
        if size == 0 {
            self.framing = Framing::Ended;
            return Ok(Taken::Ended);
        }
        self.framing = Framing::Chunked(size);
        self.take()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    /// Serves one connection: these pieces, each in a segment, then the end.
    async fn served(pieces: &'static [&'static str]) -> Response {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/a?b=c", listener.local_addr().unwrap());
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while position(&request, b"\r\n\r\n").is_none() {
                stream.read_buf(&mut request).await.unwrap();
            }
            assert!(request.starts_with(b"GET /a?b=c HTTP/1.1\r\n"));
            for piece in pieces {
                stream.write_all(piece.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let request = Request {
            method: "GET".to_owned(),
            url,
            ..Request::default()
        };
        let (response, ()) = tokio::join!(request.send(LIMIT), serve);
        response.unwrap()
    }

    #[tokio::test]
    async fn chunks_are_joined() {
        let mut response = served(&[
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Run-Id: 7\r\n\r\n3\r",
            "\nabc\r\n",
            "2;x=y\r\nde",
            "\r\n0\r\n\r\n",
        ])
        .await;
        assert_eq!((response.status, response.header("x-run-id")), (200, Some("7")));
        assert_eq!(response.text(LIMIT).await.unwrap(), "abcde");
    }

    #[tokio::test]
    async fn a_cut_body_is_not_an_ended_one() {
        let mut cut = served(&["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab"]).await;
        assert_eq!(cut.next().await.unwrap(), Some(b"ab".to_vec()));
        assert!(cut.next().await.is_err());
        let mut short = served(&["HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab"]).await;
        assert!(short.text(LIMIT).await.is_err());
        let mut open = served(&["HTTP/1.1 200 OK\r\n\r\nab"]).await;
        assert_eq!(open.text(LIMIT).await.unwrap(), "ab");
        let mut none = served(&["HTTP/1.1 204 No Content\r\n\r\n"]).await;
        assert_eq!(none.next().await.unwrap(), None);
    }
}
