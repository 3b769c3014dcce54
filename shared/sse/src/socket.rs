//! Connections with timeouts: one whose peer does not read is closed, which frees its pending data. With a bounded send
//! buffer in the kernel, and the server library's own bounded one, a reader that does not read holds less than 1 MiB
//! (invariant I10). Connections whose peer does not complete a request's head, or that exceed the limit, are closed as
//! well.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, Sleep, sleep};
use tracing::{debug, warn};

use crate::connection_limits::{Admitted, ConnectionLimits};
use crate::settings::StreamArgs;

/// Backlog of connections: after a restart, all clients connect at once. The system's own limit may be lower.
const BACKLOG: u32 = 8_192;
/// Size of the kernel's send buffer; Linux includes its overhead, and doubles it.
const SEND_BUFFER_BYTES: usize = 192 * 1024;
/// Idle time before TCP keep-alive probes.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Delay after a failed accept (file descriptors, memory).
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// A listener of guarded connections.
pub struct GuardedListener {
    inner: TcpListener,
    stall_timeout: Duration,
    head_timeout: Duration,
    limits: Arc<ConnectionLimits>,
}

impl GuardedListener {
    pub fn bind(addr: SocketAddr, args: &StreamArgs) -> io::Result<Self> {
        let socket = if addr.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        // A server that was just stopped may have left connections behind.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let inner = socket.listen(BACKLOG)?;
        Ok(Self {
            inner,
            stall_timeout: args.stall_timeout(),
            head_timeout: args.head_timeout(),
            limits: ConnectionLimits::new(args),
        })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Returns the next connection. Retries failures, and closes connections beyond the limit.
    pub async fn accept(&mut self) -> GuardedStream {
        loop {
            match self.inner.accept().await {
                Ok((stream, peer)) => {
                    let Some(admitted) = self.limits.admit(peer.ip()) else {
                        debug!(%peer, "a connection was closed because there are too many");
                        continue;
                    };
                    if let Err(error) = prepare(&stream) {
                        debug!(%error, "setting a connection's options failed");
                    }
                    return GuardedStream {
                        inner: stream,
                        stall_timeout: self.stall_timeout,
                        stalled: None,
                        head_timeout: self.head_timeout,
                        head: Some(Box::pin(sleep(self.head_timeout))),
                        marks: Arc::new(Marks::new(&admitted)),
                        _admitted: admitted,
                    };
                }
                Err(error) if is_of_the_peer(&error) => {}
                Err(error) => {
                    warn!(%error, "accepting a connection failed; retrying");
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

/// State shared between a connection and its server.
pub struct Marks {
    /// The writer has flushed since its last write: all data are in the kernel.
    is_flushed: AtomicBool,
    is_from_proxy: bool,
    phase: AtomicU8,
}

/// The head of a request is awaited, or has begun.
const HEAD: u8 = 0;
/// A request is being served. Incoming data are its body.
const SERVING: u8 = 1;
/// The request was answered; incoming data are the next one.
const BETWEEN: u8 = 2;

impl Marks {
    fn new(admitted: &Admitted) -> Self {
        Self {
            is_flushed: AtomicBool::new(false),
            is_from_proxy: admitted.is_proxy(),
            phase: AtomicU8::new(HEAD),
        }
    }

    /// Returns whether all written data have been flushed: writers flush after writing.
    pub fn is_flushed(&self) -> bool {
        self.is_flushed.load(Ordering::Relaxed)
    }

    pub fn is_from_proxy(&self) -> bool {
        self.is_from_proxy
    }

    /// A request's head has arrived.
    pub fn head_came(&self) {
        self.phase.store(SERVING, Ordering::Relaxed);
    }

    /// The response to a request begins.
    pub fn answered(&self) {
        self.phase.store(BETWEEN, Ordering::Relaxed);
    }
}

/// A connection that fails when a write makes no progress for too long, or when the head of a request does not arrive.
pub struct GuardedStream {
    inner: TcpStream,
    stall_timeout: Duration,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
    head_timeout: Duration,
    /// Runs while a head is awaited.
    head: Option<Pin<Box<Sleep>>>,
    marks: Arc<Marks>,
    /// Its slot among all connections.
    _admitted: Admitted,
}

impl GuardedStream {
    /// Remain valid when the stream is taken over.
    pub fn marks(&self) -> Arc<Marks> {
        self.marks.clone()
    }

    /// A response is being written: a pipelined head waits for its end, and is not late.
    fn answering(&mut self) {
        let timeout = self.head_timeout;
        if let Some(head) = &mut self.head {
            head.as_mut().reset(Instant::now() + timeout);
        }
    }

    /// No further request will arrive.
    pub fn head_is_over(&mut self) {
        self.marks.head_came();
        self.head = None;
    }

    /// Checks the result of a read: a head that has begun must be completed in time.
    fn watch_head(
        &mut self,
        context: &mut Context<'_>,
        read: &Poll<io::Result<()>>,
        is_more: bool,
    ) -> Poll<io::Result<()>> {
        match self.marks.phase.load(Ordering::Relaxed) {
            SERVING => self.head = None,
            BETWEEN => {
                self.head = None;
                if is_more {
                    self.marks.phase.store(HEAD, Ordering::Relaxed);
                    self.head = Some(Box::pin(sleep(self.head_timeout)));
                }
            }
            _ => {}
        }
        let Some(head) = self.head.as_mut().filter(|_| read.is_pending()) else {
            return Poll::Pending;
        };
        ready!(head.as_mut().poll(context));
        metrics::counter!("rejoin_slow_heads_total").increment(1);
        debug!(
            "the head of a request did not arrive within {} ms; closing its connection",
            self.head_timeout.as_millis()
        );
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Checks the result of a write.
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
            "a peer did not read for {} ms; closing its connection",
            timeout.as_millis()
        );
        // The kernel's pending data are dropped immediately.
        if let Err(error) = SockRef::from(&self.inner).set_linger(Some(Duration::ZERO)) {
            debug!(%error, "setting a connection's options failed");
        }
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.marks.is_flushed.store(false, Ordering::Relaxed);
        self.answering();
        let write = Pin::new(&mut self.inner).poll_write(context, buffer);
        self.watch(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.marks.is_flushed.store(false, Ordering::Relaxed);
        self.answering();
        let write = Pin::new(&mut self.inner).poll_write_vectored(context, buffers);
        self.watch(context, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.marks.is_flushed.store(true, Ordering::Relaxed);
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        let is_more = buffer.filled().len() > before;
        match self.watch_head(context, &read, is_more) {
            Poll::Ready(late) => Poll::Ready(late),
            Poll::Pending => read,
        }
    }
}
