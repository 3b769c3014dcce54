//! Reverse proxies that are trusted: what they say of a request's host and scheme is believed, and their connections are not counted by
//! address, since many users share it. Called by `connections`; [`Origin`] is taken by handlers that answer with addresses of our own.

use std::net::IpAddr;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::HOST;
use axum::http::request::Parts;
use ipnet::IpNet;

use crate::state::AppState;

/// One entry of `REJOIN_TRUSTED_PROXIES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proxy {
    /// Nobody. Takes the default away.
    None,
    /// Whoever connects from this machine.
    Loopback,
    Net(IpNet),
}

impl FromStr for Proxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "none" => Ok(Self::None),
            "loopback" => Ok(Self::Loopback),
            text => text
                .parse::<IpNet>()
                .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
                .map(Self::Net)
                .map_err(|_| {
                    format!("{text} is neither an address, a network such as 10.0.0.0/8, `loopback` nor `none`")
                }),
        }
    }
}

/// Whether a peer is one of these proxies.
pub fn trusts(proxies: &[Proxy], peer: IpAddr) -> bool {
    let peer = peer.to_canonical();
    proxies.iter().any(|proxy| match proxy {
        Proxy::None => false,
        Proxy::Loopback => peer.is_loopback(),
        Proxy::Net(net) => net.contains(&peer),
    })
}

/// Marks a request that came over a connection of a trusted proxy.
#[derive(Debug, Clone, Copy)]
pub struct FromTrustedProxy;

/// Scheme and host under which the caller reaches us: `REJOIN_PUBLIC_URL`, else what a trusted proxy says, else what the caller says.
pub struct Origin(pub String);

impl FromRequestParts<AppState> for Origin {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Self::Rejection> {
        if let Some(url) = &state.config.public_url {
            return Ok(Self(url.trim_end_matches('/').to_owned()));
        }
        let is_proxied = parts.extensions.get::<FromTrustedProxy>().is_some();
        Ok(Self(told(&parts.headers, is_proxied)))
    }
}

fn told(headers: &HeaderMap, is_proxied: bool) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let forwarded = |name: &str| text(name).filter(|_| is_proxied);
    let first = |value: &str| value.split(',').next().unwrap_or_default().trim().to_owned();
    let scheme = match forwarded("x-forwarded-proto").map(first).as_deref() {
        Some("https") => "https",
        Some(_) | None => "http",
    };
    let host = forwarded("x-forwarded-host").or_else(|| text(HOST.as_str())).map(first);
    format!("{scheme}://{}", host.as_deref().unwrap_or("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_where_the_caller_came_from_and_only_a_proxy_says_so_for_another() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "127.0.0.1:7420".parse().unwrap());
        assert_eq!(told(&headers, true), "http://127.0.0.1:7420");
        headers.insert("x-forwarded-proto", "https, http".parse().unwrap());
        headers.insert("x-forwarded-host", "chat.example".parse().unwrap());
        assert_eq!(told(&headers, true), "https://chat.example");
        assert_eq!(told(&headers, false), "http://127.0.0.1:7420");
    }

    #[test]
    fn proxies_are_addresses_networks_this_machine_or_none() {
        let proxies = |text: &str| text.split(',').map(str::parse).collect::<Result<Vec<Proxy>, _>>();
        for (list, peer, expected) in [
            ("loopback", "127.0.0.2", true),
            ("loopback", "::1", true),
            ("loopback", "::ffff:127.0.0.1", true),
            ("loopback", "10.0.0.1", false),
            ("none", "127.0.0.1", false),
            ("10.0.0.0/8,192.0.2.1", "10.9.8.7", true),
            ("10.0.0.0/8,192.0.2.1", "::ffff:10.9.8.7", true),
            ("10.0.0.0/8,192.0.2.1", "192.0.2.1", true),
            ("10.0.0.0/8,192.0.2.1", "192.0.2.2", false),
        ] {
            assert_eq!(
                trusts(&proxies(list).unwrap(), peer.parse().unwrap()),
                expected,
                "{list} {peer}"
            );
        }
        assert!(proxies("proxy.example").is_err());
    }
}
