//! Trusted reverse proxies: their statements about a request's host and scheme are trusted, and their connections are
//! exempt from the limit per address, since many users share it.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// One entry of `REJOIN_TRUSTED_PROXIES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proxy {
    /// No proxy. Overrides the default.
    None,
    /// All connections from this machine.
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

/// Returns whether a peer is one of these proxies.
pub fn trusts(proxies: &[Proxy], peer: IpAddr) -> bool {
    let peer = peer.to_canonical();
    proxies.iter().any(|proxy| match proxy {
        Proxy::None => false,
        Proxy::Loopback => peer.is_loopback(),
        Proxy::Net(net) => net.contains(&peer),
    })
}

/// Marks a request over a connection of a trusted proxy.
#[derive(Debug, Clone, Copy)]
pub struct FromTrustedProxy;

#[cfg(test)]
mod tests {
    use super::*;

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
