//! Connection limits: in total, below the process's limit of open files, and per address. Called by `connections`
//! before a connection is read.
//!
//! Invariant: connections never take the file descriptors reserved for the database, files and requests.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use rejoin_http::proxies::{self, Proxy};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

use crate::settings::StreamArgs;

/// Prefix length of one subscriber's IPv6 addresses: the subscriber has all addresses with it.
const IPV6_PREFIX: u32 = 64;
/// Maximum fraction of all connections for one address, regardless of the setting.
const ADDRESS_PART: usize = 4;

/// Raises this process's limit of open files to the system's maximum.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => info!(files = limit.maximum, "raised the limit of open files"),
        Err(error) => warn!(%error, "raising the limit of open files failed"),
    }
}

/// Counts connections.
pub struct ConnectionLimits {
    max: usize,
    max_per_address: usize,
    proxies: Vec<Proxy>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// One connection, counted until it is dropped.
pub struct Admitted {
    limits: Arc<ConnectionLimits>,
    /// None: a trusted proxy's.
    address: Option<IpAddr>,
}

impl Admitted {
    /// Returns whether the peer is a trusted proxy.
    pub fn is_proxy(&self) -> bool {
        self.address.is_none()
    }
}

impl ConnectionLimits {
    pub fn new(args: &StreamArgs) -> Arc<Self> {
        let files = getrlimit(Resource::Nofile).current;
        let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
        let max = room(files, args.reserved_files).min(args.max_connections);
        if max < args.max_connections {
            info!(
                connections = max,
                wanted = args.max_connections,
                "fewer connections than wanted: the limit of open files is {files}"
            );
        }
        Arc::new(Self {
            max,
            max_per_address: (max / ADDRESS_PART).max(1).min(args.max_connections_per_address),
            proxies: args.trusted_proxies.clone(),
            open: Mutex::default(),
        })
    }

    /// None: the limit is reached.
    pub fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Admitted> {
        let address = (!proxies::trusts(&self.proxies, peer)).then(|| counted_as(peer));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.all >= self.max {
            return refused("all");
        }
        if let Some(address) = address {
            let count = open.by_address.entry(address).or_default();
            if *count >= self.max_per_address {
                return refused("address");
            }
            *count += 1;
        }
        open.all += 1;
        Some(Admitted {
            limits: self.clone(),
            address,
        })
    }
}

fn refused(bound: &'static str) -> Option<Admitted> {
    metrics::counter!("rejoin_connections_refused_total", "bound" => bound).increment(1);
    None
}

/// Returns the number of connections that leave `reserved` files to the process, or half of its files if it has few.
fn room(files: usize, reserved: usize) -> usize {
    files.saturating_sub(reserved).max(files / 2).max(1)
}

fn counted_as(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() >> (128 - IPV6_PREFIX) << (128 - IPV6_PREFIX)).into()
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.limits.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all -= 1;
        let Some(address) = self.address else { return };
        if let Some(count) = open.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn limits(max: usize, per_address: usize) -> Arc<ConnectionLimits> {
        let mut args = StreamArgs::default();
        (args.max_connections, args.max_connections_per_address) = (max, per_address);
        ConnectionLimits::new(&args)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn connections_per_address_are_bounded_except_for_proxies() {
        let limits = limits(12, 2);
        let one = ip("192.0.2.1");
        let held = [limits.admit(one).unwrap(), limits.admit(one).unwrap()];
        assert!(limits.admit(one).is_none());
        assert!(
            limits.admit(ip("::ffff:192.0.2.1")).is_none(),
            "the same address, as IPv6 writes it"
        );
        let network = [
            limits.admit(ip("2001:db8::1")).unwrap(),
            limits.admit(ip("2001:db8::2:1")).unwrap(),
        ];
        assert!(limits.admit(ip("2001:db8::3")).is_none(), "the same subscriber");
        let proxied: Vec<Admitted> = (0..8).map(|_| limits.admit(ip("127.0.0.1")).unwrap()).collect();
        assert!(proxied.iter().all(Admitted::is_proxy));
        assert!(
            limits.admit(ip("192.0.2.2")).is_none(),
            "there are as many as there may be"
        );
        drop((held, network, proxied));
        let open = limits.open.lock().unwrap();
        assert_eq!((open.all, open.by_address.len()), (0, 0));
    }

    #[test]
    fn one_address_never_has_all_connections() {
        let limits = limits(8, 1_000);
        let held: Vec<Option<Admitted>> = (0..3).map(|_| limits.admit(ip("192.0.2.1"))).collect();
        assert_eq!(held.iter().flatten().count(), 2);
    }

    #[test]
    fn files_are_kept_back_for_the_process() {
        assert_eq!(room(20_000, 256), 19_744);
        assert_eq!(room(300, 256), 150);
        assert_eq!(room(usize::MAX, 256), usize::MAX - 256);
    }
}
