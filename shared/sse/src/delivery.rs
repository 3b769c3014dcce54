//! Delivery of a started stream: written to its socket directly.
//!
//! The server library reads the request and writes the response's head and the stream's first chunk. Then its
//! connection is taken apart (by `connections`), and a socket and a reader remain: about a tenth of the memory, and
//! less work for each event. The body stays chunked and the connection closes at its end, as the head announced.
//!
//! Invariant: at most one chunk waits to be written (I10).

use std::io::{self, IoSlice, Write as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::reader::Reader;
use super::socket::GuardedStream;

/// Maximum size of a chunk that is copied and written with one plain call, which is cheaper than one with several
/// buffers.
const COPIED_BYTES: usize = 1_024;
/// Maximum length of a chunk's size line: 16 digits and the line end.
const SIZE_LINE_BYTES: usize = 18;
/// The end of a chunked body.
const LAST: &[u8] = b"0\r\n\r\n";

/// A response's stream, which the connection's owner may take over. Passed in the response's extensions.
#[derive(Clone)]
pub struct Handover(Arc<Mutex<State>>);

struct State {
    reader: Option<Reader>,
    /// The takeover is requested.
    is_wanted: bool,
    has_begun: bool,
    /// The first chunk was returned, and the next one is left to the new owner.
    is_ready: bool,
}

impl Handover {
    pub fn new(reader: Reader) -> Self {
        Self(Arc::new(Mutex::new(State {
            reader: Some(reader),
            is_wanted: false,
            has_begun: false,
            is_ready: false,
        })))
    }

    /// Returns the body of the response: the whole stream or, if a takeover is requested, its first chunk.
    pub fn body(&self) -> impl Stream<Item = <Reader as Stream>::Item> + Send + 'static {
        Body(self.0.clone())
    }

    /// Requests the takeover after the first chunk.
    pub fn want(&self) {
        lock(&self.0).is_wanted = true;
    }

    /// Returns the reader, once the first chunk was returned.
    pub fn take(&self) -> Option<Reader> {
        let mut state = lock(&self.0);
        if state.is_ready { state.reader.take() } else { None }
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    // A panicking holder never leaves it half changed.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Body(Arc<Mutex<State>>);

impl Stream for Body {
    type Item = <Reader as Stream>::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = lock(&self.0);
        if state.is_wanted && state.has_begun {
            // No wake-up needed: the new owner checks after each poll of the connection.
            state.is_ready = true;
            return Poll::Pending;
        }
        let Some(reader) = &mut state.reader else {
            return Poll::Ready(None);
        };
        let chunk = ready!(Pin::new(reader).poll_next(context));
        state.has_begun = true;
        Poll::Ready(chunk)
    }
}

/// Writes the rest of a stream. Ends with it, or when the peer disconnects.
pub struct Delivery {
    socket: GuardedStream,
    reader: Reader,
    unwritten: Option<Unwritten>,
    is_over: bool,
}

/// A partially written chunk.
struct Unwritten {
    size_line: [u8; SIZE_LINE_BYTES],
    size_line_bytes: usize,
    data: Bytes,
    written: usize,
}

impl Delivery {
    pub fn new(socket: GuardedStream, reader: Reader) -> Self {
        Self {
            socket,
            reader,
            unwritten: None,
            is_over: false,
        }
    }

    /// Writes everything available. Ready: the stream has ended.
    fn poll_deliver(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while let Some(unwritten) = &mut self.unwritten {
                let n = ready!(unwritten.poll_write(&mut self.socket, context))?;
                if n == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                unwritten.written += n;
                if unwritten.left() == 0 {
                    self.unwritten = None;
                }
            }
            if self.is_over {
                return Pin::new(&mut self.socket).poll_shutdown(context);
            }
            self.unwritten = Some(match ready!(Pin::new(&mut self.reader).poll_next(context)) {
                Some(Ok(data)) => Unwritten::chunk(data),
                None => {
                    self.is_over = true;
                    Unwritten::last()
                }
            });
        }
    }

    /// Ready: the peer has closed its side, which no reader does before its stream has ended.
    fn poll_left(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut buffer = [0_u8; 64];
        loop {
            let mut unread = ReadBuf::new(&mut buffer);
            ready!(Pin::new(&mut self.socket).poll_read(context, &mut unread))?;
            // Other data are ignored: the head has announced that the connection closes.
            if unread.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl Future for Delivery {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let delivery = self.get_mut();
        match delivery.poll_deliver(context) {
            Poll::Ready(over) => Poll::Ready(over),
            Poll::Pending => delivery.poll_left(context),
        }
    }
}

impl Unwritten {
    fn chunk(data: Bytes) -> Self {
        let mut size_line = [0_u8; SIZE_LINE_BYTES];
        let mut free = &mut size_line[..];
        write!(free, "{:x}\r\n", data.len()).expect("a number fits into its line");
        let size_line_bytes = SIZE_LINE_BYTES - free.len();
        Self {
            size_line,
            size_line_bytes,
            data,
            written: 0,
        }
    }

    /// The end of the body: an empty chunk, whose line end is doubled.
    fn last() -> Self {
        let mut unwritten = Self::chunk(Bytes::new());
        debug_assert_eq!(unwritten.parts().concat(), LAST);
        unwritten.written = 0;
        unwritten
    }

    /// Returns the unwritten parts.
    fn parts(&self) -> [&[u8]; 3] {
        let mut skip = self.written;
        [&self.size_line[..self.size_line_bytes], &self.data[..], b"\r\n"].map(|part| {
            let skipped = skip.min(part.len());
            skip -= skipped;
            &part[skipped..]
        })
    }

    fn left(&self) -> usize {
        self.size_line_bytes + self.data.len() + 2 - self.written
    }

    fn poll_write(&self, socket: &mut GuardedStream, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let left = self.left();
        if left > COPIED_BYTES {
            return Pin::new(socket).poll_write_vectored(context, &self.parts().map(IoSlice::new));
        }
        let mut copy = [0_u8; COPIED_BYTES];
        let mut at = 0;
        for part in self.parts() {
            copy[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Pin::new(socket).poll_write(context, &copy[..left])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_its_size_its_data_and_line_ends() {
        let mut chunk = Unwritten::chunk(Bytes::from_static(b":hb\n\n"));
        assert_eq!(chunk.parts().concat(), b"5\r\n:hb\n\n\r\n");
        assert_eq!(chunk.left(), 10);
        chunk.written = 4;
        assert_eq!(chunk.parts().concat(), b"hb\n\n\r\n");
        chunk.written = 9;
        assert_eq!(chunk.parts().concat(), b"\n");
        assert_eq!(chunk.left(), 1);
    }

    #[test]
    fn the_last_chunk_ends_the_body() {
        assert_eq!(Unwritten::last().parts().concat(), LAST);
    }
}
