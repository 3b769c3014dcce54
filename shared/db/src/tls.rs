//! TLS to PostgreSQL: the parameters `sslmode`, `sslrootcert`, `sslcert` and `sslkey` of the URL, for both drivers alike.
//!
//! The modes are libpq's, but for one: a certificate that is verified must also name the server, so `verify-ca` is checked like
//! `verify-full`. sqlx trusts public authorities beside those of `sslrootcert`; without the name, any public certificate would do.
//! Files are read for each new connection, so they may be replaced at any time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::url::{ServerUrl, UrlError};

/// The value of `sslrootcert` for the authorities that the operating system trusts.
const SYSTEM: &str = "system";
/// Number of base64 characters of a line of a PEM file.
const PEM_LINE: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// No TLS.
    Disable,
    /// TLS if the server offers it. Certificates are not verified.
    Prefer,
    /// TLS. Certificates are not verified.
    Require,
    /// TLS, with a certificate of a trusted authority that names the server.
    Verify,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Roots {
    System,
    File(PathBuf),
}

/// A client's certificate and key, in PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    certificate: PathBuf,
    key: PathBuf,
}

/// How connections are encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tls {
    mode: Mode,
    roots: Roots,
    identity: Option<Identity>,
}

/// A file of the TLS settings can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("reading the certificates of {} failed", .path.display())]
    Certificates {
        path: PathBuf,
        #[source]
        source: pem::Error,
    },
    #[error("{} contains no certificate", .0.display())]
    Empty(PathBuf),
    #[error("reading the key of {} failed: it must be a PEM file without a password", .path.display())]
    Key {
        path: PathBuf,
        #[source]
        source: pem::Error,
    },
    #[error("the TLS settings of the database are not usable")]
    Rustls(#[from] rustls::Error),
}

impl Tls {
    pub(crate) fn of(url: &ServerUrl) -> Result<Self, UrlError> {
        let root = url.parameter(&["sslrootcert", "ssl-root-cert", "ssl-ca"])?;
        let mode = url.parameter(&["sslmode", "ssl-mode"])?;
        let is_system = root.as_deref() == Some(SYSTEM);
        let mode = match mode.as_deref().map(str::to_ascii_lowercase).as_deref() {
            // As in libpq: authorities of the system verify names, and nothing less.
            None if is_system => Mode::Verify,
            None | Some("prefer") => Mode::Prefer,
            Some("disable") => Mode::Disable,
            Some("require") if root.is_some() => Mode::Verify,
            Some("require") => Mode::Require,
            Some("verify-ca" | "verify-full") => Mode::Verify,
            Some("allow") => {
                return Err(UrlError(
                    "sslmode=allow is not supported: use prefer or disable".to_owned(),
                ));
            }
            Some(other) => {
                let known = "disable, prefer, require, verify-ca, verify-full";
                return Err(UrlError(format!("sslmode={other} is not known; choose one of {known}")));
            }
        };
        if is_system && mode != Mode::Verify {
            return Err(UrlError("sslrootcert=system needs sslmode=verify-full".to_owned()));
        }
        let path = |names: &[&str]| url.parameter(names).map(|path| path.map(PathBuf::from));
        let identity = match (path(&["sslcert", "ssl-cert"])?, path(&["sslkey", "ssl-key"])?) {
            (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                return Err(UrlError("sslcert and sslkey belong together: name both".to_owned()));
            }
        };
        let roots = match root {
            Some(path) if !is_system => Roots::File(path.into()),
            Some(_) | None => Roots::System,
        };
        Ok(Self { mode, roots, identity })
    }

    /// The same for a server that is reached by a Unix socket: there is none, as in libpq.
    pub(crate) fn for_socket(&self) -> Self {
        Self {
            mode: Mode::Disable,
            ..self.clone()
        }
    }

    /// Adds it to options of sqlx, which reads the files.
    pub(crate) fn apply(&self, options: PgConnectOptions) -> PgConnectOptions {
        let options = options.ssl_mode(match self.mode {
            Mode::Disable => PgSslMode::Disable,
            Mode::Prefer => PgSslMode::Prefer,
            Mode::Require => PgSslMode::Require,
            Mode::Verify => PgSslMode::VerifyFull,
        });
        let options = match (self.mode, &self.roots) {
            (Mode::Verify, Roots::File(path)) => options.ssl_root_cert(path),
            (Mode::Verify, Roots::System) => options.ssl_root_cert_from_pem(system_pem().to_vec()),
            (Mode::Disable | Mode::Prefer | Mode::Require, _) => options,
        };
        match &self.identity {
            Some(Identity { certificate, key }) => options.ssl_client_cert(certificate).ssl_client_key(key),
            None => options,
        }
    }

    /// The mode for tokio-postgres.
    pub(crate) fn mode(&self) -> tokio_postgres::config::SslMode {
        match self.mode {
            Mode::Disable => tokio_postgres::config::SslMode::Disable,
            Mode::Prefer => tokio_postgres::config::SslMode::Prefer,
            Mode::Require | Mode::Verify => tokio_postgres::config::SslMode::Require,
        }
    }

    /// Returns what tokio-postgres connects with. None: no TLS.
    pub(crate) fn connector(&self) -> Result<Option<MakeRustlsConnect>, TlsError> {
        if self.mode == Mode::Disable {
            return Ok(None);
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match (self.mode, &self.roots) {
            (Mode::Verify, Roots::File(path)) => builder.with_root_certificates(roots(certificates(path)?)),
            (Mode::Verify, Roots::System) => builder.with_root_certificates(roots(system().to_vec())),
            (Mode::Disable | Mode::Prefer | Mode::Require, _) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unverified(provider))),
        };
        let config = match &self.identity {
            Some(Identity { certificate, key }) => {
                builder.with_client_auth_cert(certificates(certificate)?, private_key(key)?)?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Some(MakeRustlsConnect::new(config)))
    }

    /// Reads the files, so that a missing one is an error at the start.
    pub(crate) fn check(&self) -> Result<(), TlsError> {
        self.connector().map(drop)
    }
}

/// Certificates that rustls can't parse are skipped: the system's store may have some.
fn roots(certificates: Vec<CertificateDer<'static>>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    roots
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::Certificates {
        path: path.to_owned(),
        source,
    };
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(failed)?.collect();
    let certificates = read.map_err(failed)?;
    if certificates.is_empty() {
        return Err(TlsError::Empty(path.to_owned()));
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| TlsError::Key {
        path: path.to_owned(),
        source,
    })
}

/// The authorities that the operating system trusts, read once.
fn system() -> &'static [CertificateDer<'static>] {
    static CERTIFICATES: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
    CERTIFICATES.get_or_init(|| rustls_native_certs::load_native_certs().certs)
}

/// The same as PEM, for sqlx.
fn system_pem() -> &'static [u8] {
    static PEM: OnceLock<Vec<u8>> = OnceLock::new();
    PEM.get_or_init(|| {
        // sqlx refuses the whole list if it can't use one of them.
        let usable =
            |certificate: &&CertificateDer<'static>| RootCertStore::empty().add((*certificate).clone()).is_ok();
        system()
            .iter()
            .filter(usable)
            .flat_map(|certificate| to_pem(certificate))
            .collect()
    })
}

fn to_pem(der: &[u8]) -> Vec<u8> {
    let mut text = b"-----BEGIN CERTIFICATE-----\n".to_vec();
    for line in base64(der).chunks(PEM_LINE) {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text.extend_from_slice(b"-----END CERTIFICATE-----\n");
    text
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for digit in 0..4_usize {
            let is_padding = digit > three.len();
            let index = ((bits >> (18 - 6 * digit)) & 63) as usize;
            text.push(if is_padding { b'=' } else { DIGITS[index] });
        }
    }
    text
}

/// Accepts any certificate: the connection is encrypted, but its peer may be anyone. For the modes `prefer` and `require`.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parameters: &str) -> Result<Tls, UrlError> {
        Tls::of(&ServerUrl::parse(&format!("postgres://u@h/db?{parameters}"))?)
    }

    #[test]
    fn modes_are_libpqs_and_verified_certificates_name_servers() {
        for (parameters, mode) in [
            ("", Mode::Prefer),
            ("sslmode=disable", Mode::Disable),
            ("sslmode=prefer&sslrootcert=/ca.pem", Mode::Prefer),
            ("sslmode=require", Mode::Require),
            ("sslmode=require&sslrootcert=/ca.pem", Mode::Verify),
            ("sslmode=verify-ca&sslrootcert=/ca.pem", Mode::Verify),
            ("sslmode=verify-full", Mode::Verify),
            ("sslrootcert=system", Mode::Verify),
            ("sslmode=require&sslrootcert=system", Mode::Verify),
        ] {
            assert_eq!(of(parameters).unwrap().mode, mode, "{parameters}");
        }
        for (parameters, words) in [
            ("sslmode=allow", "prefer"),
            ("sslmode=full", "verify-full"),
            ("sslmode=prefer&sslrootcert=system", "verify-full"),
            ("sslcert=/client.pem", "name both"),
        ] {
            let refused = of(parameters).unwrap_err();
            assert!(refused.0.contains(words), "{parameters}: {refused}");
        }
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let tls = of("sslmode=verify-full&sslrootcert=/does-not-exist.pem").unwrap();
        assert!(tls.check().unwrap_err().to_string().contains("/does-not-exist.pem"));
        assert!(of("sslmode=require").unwrap().check().is_ok());
        assert!(
            of("sslmode=verify-full")
                .unwrap()
                .for_socket()
                .connector()
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn certificates_survive_their_way_through_pem() {
        for bytes in [&b"f"[..], b"fo", b"foo", b"foob", &[0xff_u8; 200]] {
            let text = to_pem(bytes);
            let read: Vec<_> = CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().unwrap();
            assert_eq!(read, [CertificateDer::from(bytes.to_vec())]);
        }
        assert_eq!(base64(b"foob"), b"Zm9vYg==");
    }
}
