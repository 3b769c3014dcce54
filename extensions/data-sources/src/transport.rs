//! Connects to the servers of sources: checked addresses, TLS, and a limit of received bytes. Called by the kinds.
//!
//! Invariant: the connection goes to a checked address; the name is for the certificate only.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rejoin_egress::ssrf_guard::Hosts;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::source::SourceError;

/// Timeout of connecting.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A bidirectional stream of any type.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// Connects to one of a host's allowed addresses; a path is a socket that the operator must allow.
pub async fn connect(hosts: &Hosts, host: &str, port: u16, socket: &str) -> Result<Box<dyn Wire>, SourceError> {
    let unreachable = |error: io::Error| SourceError::Unreachable(error.to_string());
    let connecting = async {
        if host.starts_with('/') {
            let path = socket_path(hosts, host, socket)?;
            return UnixStream::connect(path)
                .await
                .map(|stream| Box::new(stream) as Box<dyn Wire>)
                .map_err(unreachable);
        }
        let addresses = hosts.resolve(host, port).await.map_err(SourceError::Refused)?;
        let stream = TcpStream::connect(addresses.as_slice()).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        Ok(Box::new(stream) as Box<dyn Wire>)
    };
    timeout(CONNECT_TIMEOUT, connecting)
        .await
        .unwrap_or_else(|_| Err(SourceError::Unreachable("the server does not respond".to_owned())))
}

/// Returns a socket's path: of the file itself, or of the server's file in a folder.
pub fn socket_path(hosts: &Hosts, host: &str, socket: &str) -> Result<String, SourceError> {
    if !hosts.allow(host) {
        return Err(SourceError::Refused(format!(
            "{host} is a Unix socket, which projects may use only if the operator lists it in REJOIN_SOURCE_HOSTS"
        )));
    }
    if socket.is_empty() {
        Ok(host.to_owned())
    } else {
        Ok(format!("{host}/{socket}"))
    }
}

/// TLS with this machine's trusted certificates, which are read once.
#[cfg(any(feature = "postgresql", feature = "bigquery"))]
pub fn tls_config() -> Result<rustls::ClientConfig, SourceError> {
    static READ: std::sync::OnceLock<rustls::ClientConfig> = std::sync::OnceLock::new();
    if let Some(config) = READ.get() {
        return Ok(config.clone());
    }
    let mut roots = rustls::RootCertStore::empty();
    for certificate in rustls_native_certs::load_native_certs().certs {
        // Certificates that rustls can't parse are skipped.
        let _unusable = roots.add(certificate);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| SourceError::Unconfigured(format!("TLS setup failed: {error}")))?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    Ok(READ.get_or_init(|| config).clone())
}

/// The remaining bytes that a server may send. Drivers read a whole message before it can be examined.
#[derive(Debug, Clone)]
pub struct Allowance(Arc<AtomicU64>);

impl Allowance {
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    pub fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// A stream that fails when its server has sent more than allowed.
pub struct Metered {
    wire: Box<dyn Wire>,
    allowance: Allowance,
}

impl Metered {
    pub fn new(wire: Box<dyn Wire>, allowance: Allowance) -> Self {
        Self { wire, allowance }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.wire).poll_read(context, buffer);
        let read = (buffer.filled().len() - before) as u64;
        // Only this task decrements it.
        let left = self.allowance.0.load(Ordering::Relaxed).saturating_sub(read);
        if read > 0 {
            self.allowance.0.store(left, Ordering::Relaxed);
            if left == 0 {
                return Poll::Ready(Err(io::Error::other("the server sent more data than allowed")));
            }
        }
        polled
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(context)
    }
}
