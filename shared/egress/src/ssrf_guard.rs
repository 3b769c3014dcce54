//! Egress host policy: which hosts a project may connect to. Called before each connection to an address set by a
//! project: MCP servers, data sources.
//!
//! Invariants: a name is judged by the addresses that it resolves to, and the connection goes to one of those; a
//! literal address is judged, too. Addresses of this machine and of private networks are allowed only for hosts that
//! the operator lists.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use globset::{Glob, GlobSet, GlobSetBuilder};
use url::{Host, Url};

/// Name resolution. The system's resolver by default; tests use their own, whose answers change.
pub trait Names: Debug + Send + Sync {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

#[derive(Debug)]
struct System;

impl Names for System {
    fn lookup<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }.boxed()
    }
}

/// Hosts that the operator allows projects to reach, at any address.
#[derive(Debug, Clone)]
pub struct Hosts {
    named: GlobSet,
    setting: &'static str,
    names: Arc<dyn Names>,
}

impl Hosts {
    /// Parses patterns of names and addresses of an operator's setting; invalid ones allow nothing.
    pub fn new(setting: &'static str, patterns: &[String]) -> Self {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns
            .iter()
            .map(|pattern| pattern.trim())
            .filter(|pattern| !pattern.is_empty())
        {
            match Glob::new(&pattern.to_ascii_lowercase()) {
                Ok(glob) => {
                    set.add(glob);
                }
                Err(error) => {
                    tracing::warn!(pattern, %error, "a pattern of allowed hosts is invalid and allows nothing")
                }
            }
        }
        let named = set.build().unwrap_or_else(|_| GlobSet::empty());
        Self {
            named,
            setting,
            names: Arc::new(System),
        }
    }

    /// The same hosts with another resolver.
    #[must_use]
    pub fn with_names(self, names: Arc<dyn Names>) -> Self {
        Self { names, ..self }
    }

    /// Returns whether the operator allows this host.
    pub fn allow(&self, host: &str) -> bool {
        self.named
            .is_match(host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase())
    }

    /// Returns whether the operator allows the URL's host.
    pub fn name(&self, url: &Url) -> bool {
        url.host_str().is_some_and(|host| self.allow(host))
    }

    /// Err: why this URL is refused. A name is judged when it is resolved.
    pub fn judge(&self, url: &Url) -> Result<(), String> {
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(_)) => return Ok(()),
            None => return Err("the URL has no host".to_owned()),
        };
        if is_public(address) || self.allow(&address.to_string()) {
            Ok(())
        } else {
            Err(self.refusal(&address.to_string()))
        }
    }

    /// Returns the allowed addresses of a host.
    ///
    /// # Errors
    /// It has no address, or no allowed one; in words for the author of the setting.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        let host = host.trim_matches(['[', ']']);
        let found = self.names.lookup(host, port).await;
        let found = found.map_err(|error| format!("{host} has no address: {error}"))?;
        if self.allow(host) {
            return Ok(found);
        }
        let allowed = |address: &SocketAddr| is_public(address.ip()) || self.allow(&address.ip().to_string());
        let judged: Vec<SocketAddr> = found.into_iter().filter(allowed).collect();
        if judged.is_empty() {
            Err(self.refusal(host))
        } else {
            Ok(judged)
        }
    }

    fn refusal(&self, host: &str) -> String {
        format!(
            "{host} is an address of this machine or of a private network, which projects may use only if the \
            operator lists it in {}",
            self.setting
        )
    }
}

/// Returns whether an address is public: not of this machine, a private network, or a special purpose (IANA's
/// registries).
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = match (a, b) {
        // This network; carrier-grade NAT; IETF protocols and documentation; 6to4; benchmarks; reserved.
        (0, _) | (100, 64..=127) | (198, 18 | 19) | (240.., _) => true,
        (192, 0) => c == 0 || c == 2,
        (192, 88) => c == 99,
        (_, _) => false,
    };
    !(is_special
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // Embedded IPv4 addresses are judged themselves: mapped, compatible, and NAT64.
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let [a, b, c, d, e, f, g, h] = address.segments();
    let inner = || Ipv4Addr::from((u32::from(g) << 16) | u32::from(h));
    match (a, b) {
        (0x64, 0xff9b) if (c, d, e, f) == (0, 0, 0, 0) => is_public_v4(inner()),
        // 6to4 contains an IPv4 address, Teredo obfuscates one.
        (0x2002, _) => is_public_v4(Ipv4Addr::from((u32::from(b) << 16) | u32::from(c))),
        (0x2001, 0..=0x1ff) | (0x2001, 0xdb8) | (0x3fff, _) => false,
        // Global unicast, and nothing else.
        (0x2000..=0x3fff, _) => true,
        (_, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_and_private_addresses_are_not_public() {
        for address in [
            "127.0.0.1",
            "127.1.2.3",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "3fff::1",
            "100::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "93.184.215.14",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "64:ff9b::101:101",
            "2002:101:101::",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn any_spelling_of_an_address_is_judged_and_may_be_allowed() {
        let nothing = Hosts::new("A_SETTING", &[]);
        for url in [
            "http://127.1/mcp",
            "http://2130706433/",
            "http://0x7f.0.0.1/",
            "http://0177.0.0.1/",
            "http://[::1]:80/",
            "http://[::ffff:7f00:1]/",
            "http://169.254.169.254/latest",
            "http://10.1.2.3/",
        ] {
            let url = Url::parse(url).unwrap();
            assert!(nothing.judge(&url).is_err(), "{url}");
        }
        assert_eq!(nothing.judge(&Url::parse("https://mcp.example/").unwrap()), Ok(()));
        let some = Hosts::new(
            "A_SETTING",
            &["127.0.0.1".to_owned(), "*.internal".to_owned(), "::1".to_owned()],
        );
        assert_eq!(some.judge(&Url::parse("http://127.1:3000/").unwrap()), Ok(()));
        assert_eq!(some.judge(&Url::parse("http://[::1]/").unwrap()), Ok(()));
        assert!(some.judge(&Url::parse("http://127.0.0.2/").unwrap()).is_err());
        assert!(some.allow("a.internal") && some.allow("A.Internal.") && !some.allow("internal.example"));
    }

    #[tokio::test]
    async fn a_name_is_judged_by_what_it_resolves_to() {
        let refused = Hosts::new("A_SETTING", &[]).resolve("localhost", 9).await.unwrap_err();
        assert!(
            refused.contains("private network") && refused.contains("A_SETTING"),
            "{refused}"
        );
        let named = Hosts::new("A_SETTING", &["localhost".to_owned()]);
        assert!(!named.resolve("localhost", 9).await.unwrap().is_empty());
    }
}
