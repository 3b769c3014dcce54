//! Connections that don't wait for ever: one whose peer takes nothing is cut, so that what it was owed is freed. With a
//! bounded send buffer in the kernel, and the server library's own bounded one, a reader that does not read holds less than
//! 1 MiB (invariant I10).

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Sleep, sleep};
use tracing::{debug, warn};

/// Connections that wait to be accepted: after a restart, everybody comes at once. The system's own limit may be lower.
const BACKLOG: u32 = 8_192;
/// What the kernel keeps for a peer that has not taken it yet; Linux counts its bookkeeping, too, and doubles it.
const SEND_BUFFER_BYTES: usize = 192 * 1024;
/// A peer that says nothing is asked whether it is still there after this.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// After an accept that failed for want of something (file descriptors, memory).
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// A listener of guarded connections.
pub struct GuardedListener {
    inner: TcpListener,
    stall_timeout: Duration,
}

impl GuardedListener {
    pub fn bind(addr: SocketAddr, stall_timeout: Duration) -> io::Result<Self> {
        let socket = if addr.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        // A server that was just stopped may have left connections behind.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let inner = socket.listen(BACKLOG)?;
        Ok(Self { inner, stall_timeout })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// The next connection. What fails is tried again.
    pub async fn accept(&mut self) -> GuardedStream {
        loop {
            match self.inner.accept().await {
                Ok((stream, _)) => {
                    if let Err(error) = prepare(&stream) {
                        debug!(%error, "setting a connection's options failed");
                    }
                    return GuardedStream {
                        inner: stream,
                        stall_timeout: self.stall_timeout,
                        stalled: None,
                        is_flushed: Arc::default(),
                    };
                }
                Err(error) if is_of_the_peer(&error) => {}
                Err(error) => {
                    warn!(%error, "accepting a connection failed; trying again");
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))
}

/// A connection that fails when a write has made no progress for too long.
pub struct GuardedStream {
    inner: TcpStream,
    stall_timeout: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Whoever writes has flushed since its last write: nothing of it waits anywhere but in the kernel.
    is_flushed: Arc<AtomicBool>,
}

impl GuardedStream {
    /// Tells, also when the stream is in others' hands, whether all that they have to say is written: they flush after they
    /// wrote.
    pub fn flush_mark(&self) -> Arc<AtomicBool> {
        self.is_flushed.clone()
    }

    /// Judges the outcome of a write.
    fn watch(&mut self, context: &mut Context<'_>, write: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if write.is_ready() {
            self.stalled = None;
            return write;
        }
        let timeout = self.stall_timeout;
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(timer.as_mut().poll(context));
        metrics::counter!("rejoin_stalled_connections_total").increment(1);
        debug!(
            "a peer took nothing for {} ms; its connection is cut",
            timeout.as_millis()
        );
        // What the kernel still holds for it goes at once.
        if let Err(error) = SockRef::from(&self.inner).set_linger(Some(Duration::ZERO)) {
            debug!(%error, "setting a connection's options failed");
        }
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.is_flushed.store(false, Ordering::Relaxed);
        let write = Pin::new(&mut self.inner).poll_write(context, buffer);
        self.watch(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.is_flushed.store(false, Ordering::Relaxed);
        let write = Pin::new(&mut self.inner).poll_write_vectored(context, buffers);
        self.watch(context, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_flushed.store(true, Ordering::Relaxed);
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}
