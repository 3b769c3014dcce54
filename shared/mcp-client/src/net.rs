//! The HTTP client for URLs set by workspaces: `rejoin_egress::ssrf_guard` checks each address.
//!
//! Invariant: no redirects are followed and no proxy is used.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rejoin_egress::ssrf_guard::Hosts;
use rejoin_egress::tls;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates a client that connects only to allowed hosts, uses no proxy, and follows no redirects.
///
/// # Errors
/// The system provides no TLS roots.
pub fn client(hosts: &Hosts) -> Result<reqwest::Client, reqwest::Error> {
    tls::http_client()
        .dns_resolver(Arc::new(Judging(hosts.clone())))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        // A proxy would resolve names itself, unchecked.
        .no_proxy()
        .build()
}

/// Resolves names, and returns only allowed addresses.
struct Judging(Hosts);

impl Resolve for Judging {
    fn resolve(&self, name: Name) -> Resolving {
        let hosts = self.0.clone();
        Box::pin(async move {
            let judged: Vec<SocketAddr> = hosts.resolve(name.as_str(), 0).await?;
            Ok(Box::new(judged.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_judged_by_what_it_resolves_to() {
        let ask = |hosts: Hosts| async move {
            let address = client(&hosts)
                .unwrap()
                .get("http://localhost:9/")
                .send()
                .await
                .unwrap_err();
            format!("{:?}", address)
        };
        assert!(ask(Hosts::new("A_SETTING", &[])).await.contains("private network"));
        assert!(
            !ask(Hosts::new("A_SETTING", &["localhost".to_owned()]))
                .await
                .contains("private network")
        );
    }
}
