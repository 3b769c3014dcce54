//! One reader: the parts of HTTP/1.1 and SSE that a stream needs, without copying chunks that arrive complete.

use std::io::{self, ErrorKind, Write as _};

use memchr::{memchr, memchr_iter, memmem};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

/// Maximum size of a response's head.
const MAX_HEAD_BYTES: usize = 8 * 1024;

/// An item of a stream.
pub(super) enum Seen {
    Event {
        scheduled_us: u64,
    },
    /// A number of a gapless stream.
    Number {
        follows: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expects {
    Head,
    /// A chunk's size line, parsed so far.
    Size(usize),
    /// Remaining bytes of a chunk.
    Data(usize),
    /// The line end after a chunk.
    DataEnd,
    /// An unchunked body, until the connection ends.
    Plain,
}

pub(super) struct Connection {
    pub(super) socket: TcpStream,
    /// Index among all readers of the fleet.
    pub(super) index: usize,
    pub(super) scheduled_us: u64,
    pub(super) is_stuck: bool,
    pub(super) has_asked: bool,
    pub(super) is_live: bool,
    pub(super) is_over: bool,
    expects: Expects,
    /// An incomplete head or line.
    begun: Vec<u8>,
    /// The last number; 0: none yet, and any may follow.
    seq: u64,
}

impl Connection {
    pub(super) fn new(socket: TcpStream, index: usize, scheduled_us: u64, is_stuck: bool, cursor: u64) -> Self {
        Self {
            socket,
            index,
            scheduled_us,
            is_stuck,
            has_asked: false,
            is_live: false,
            is_over: false,
            expects: Expects::Head,
            begun: Vec::new(),
            seq: cursor,
        }
    }

    /// Sends the request once connected. A request is far smaller than a socket's buffer: it is sent at once.
    pub(super) fn ask(&mut self, request: &[u8], registry: &Registry, token: Token) -> io::Result<bool> {
        match (&self.socket).write(request) {
            Ok(n) if n == request.len() => {}
            Ok(_) => return Err(io::Error::other("a request did not fit")),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => return Ok(false),
            Err(error) => return Err(error),
        }
        self.has_asked = true;
        registry.reregister(&mut self.socket, token, Interest::READABLE)?;
        Ok(true)
    }

    /// Processes bytes of the connection. The error says why the stream is invalid.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        mark: &[u8],
        gapless: bool,
        seen: &mut impl FnMut(Seen),
    ) -> Result<(), String> {
        while !bytes.is_empty() {
            match self.expects {
                Expects::Head => {
                    self.begun.extend_from_slice(bytes);
                    let Some(end) = memmem::find(&self.begun, b"\r\n\r\n") else {
                        return if self.begun.len() > MAX_HEAD_BYTES {
                            Err("no end of the head".into())
                        } else {
                            Ok(())
                        };
                    };
                    let head = String::from_utf8_lossy(&self.begun[..end]).to_ascii_lowercase();
                    if !head.starts_with("http/1.1 200") {
                        return Err(String::from_utf8_lossy(&self.begun).into_owned());
                    }
                    let chunked = head.contains("transfer-encoding: chunked");
                    self.expects = if chunked { Expects::Size(0) } else { Expects::Plain };
                    self.is_live |= mark.is_empty() || self.is_stuck;
                    let rest = self.begun.len() - end - 4;
                    bytes = &bytes[bytes.len() - rest..];
                    self.begun = Vec::new();
                }
                Expects::Size(known) => {
                    let (first, rest) = (bytes[0], &bytes[1..]);
                    bytes = rest;
                    self.expects = match first {
                        b'\n' if known == 0 => return Err("the stream ended".into()),
                        b'\n' => Expects::Data(known),
                        _ => match char::from(first).to_digit(16) {
                            Some(digit) => Expects::Size(known * 16 + digit as usize),
                            None => Expects::Size(known),
                        },
                    };
                }
                Expects::Data(left) => {
                    let (data, rest) = bytes.split_at(left.min(bytes.len()));
                    bytes = rest;
                    self.expects = if data.len() == left {
                        Expects::DataEnd
                    } else {
                        Expects::Data(left - data.len())
                    };
                    self.body(data, mark, gapless, seen);
                }
                Expects::DataEnd => {
                    if bytes[0] == b'\n' {
                        self.expects = Expects::Size(0);
                    }
                    bytes = &bytes[1..];
                }
                Expects::Plain => {
                    self.body(bytes, mark, gapless, seen);
                    bytes = &[];
                }
            }
        }
        Ok(())
    }

    fn body(&mut self, mut data: &[u8], mark: &[u8], gapless: bool, seen: &mut impl FnMut(Seen)) {
        while let Some(end) = memchr(b'\n', data) {
            if self.begun.is_empty() {
                self.line(&data[..end], mark, gapless, seen);
            } else {
                let mut line = std::mem::take(&mut self.begun);
                line.extend_from_slice(&data[..end]);
                self.line(&line, mark, gapless, seen);
            }
            data = &data[end + 1..];
        }
        self.begun.extend_from_slice(data);
    }

    fn line(&mut self, line: &[u8], mark: &[u8], gapless: bool, seen: &mut impl FnMut(Seen)) {
        if let Some(data) = line.strip_prefix(b"data: ") {
            // Merged deltas are one event, with a moment each.
            let moments = memchr_iter(b'@', data).map(|at| number(&data[at + 1..]));
            let mut is_event = false;
            for scheduled_us in moments.filter(|moment| *moment > 0) {
                seen(Seen::Event { scheduled_us });
                is_event = true;
            }
            if !is_event && !self.is_live && memmem::find(data, mark).is_some() {
                self.is_live = true;
            }
        } else if gapless && let Some(id) = line.strip_prefix(b"id: ") {
            let seq = number(id);
            let follows = self.seq == 0 || seq == self.seq + 1;
            seen(Seen::Number { follows });
            self.seq = seq;
        }
    }
}

/// Parses the leading digits; 0 without any.
fn number(text: &[u8]) -> u64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, byte| number * 10 + u64::from(byte - b'0'))
}
