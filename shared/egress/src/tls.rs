//! TLS of outgoing HTTP: the system's root certificates are read once for the process, not for each client. Reading them
//! costs more than a request: a web page or a webhook has its own client.

use std::sync::{Arc, LazyLock};

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_platform_verifier::BuilderVerifierExt as _;

/// None: there are no roots, or they can't be read.
static CONFIG: LazyLock<Option<ClientConfig>> = LazyLock::new(|| {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_platform_verifier());
    match config {
        Ok(config) => {
            let mut config = config.with_no_client_auth();
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            Some(config)
        }
        Err(error) => {
            tracing::debug!(%error, "the system's root certificates cannot be read");
            None
        }
    }
});

/// Returns a builder of an HTTP client that trusts the system's root certificates (`SSL_CERT_FILE` and `SSL_CERT_DIR`
/// replace them). If they can't be read, building the client fails with the reason.
pub fn http_client() -> reqwest::ClientBuilder {
    match &*CONFIG {
        Some(config) => reqwest::Client::builder().tls_backend_preconfigured(config.clone()),
        None => reqwest::Client::builder(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_built_with_the_shared_roots() {
        assert!(CONFIG.is_some());
        http_client().build().unwrap();
    }
}
