//! Free ports on 127.0.0.1, for programs that tests, benchmarks and chaos runs start: they get their address from these, and keep it over restarts.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpListener};

/// Below the range from which a system takes ports of connections: one that is free now is not taken by a connection before its program listens.
const FIRST: u16 = 15_000;
const COUNT: u16 = 15_000;
/// For each address.
const TRIES: usize = 1_000;

/// Returns an address that is free at this moment.
///
/// # Errors
/// This machine lets us listen on no port.
pub fn address() -> Result<SocketAddr> {
    Ok(addresses(1)?[0])
}

/// Returns this many different addresses that are free at this moment.
///
/// # Errors
/// This machine lets us listen on too few ports.
pub fn addresses(count: usize) -> Result<Vec<SocketAddr>> {
    // Random, since others may choose at the same time.
    let random = RandomState::new();
    // All are held until the last one is found, so that none is found twice.
    let mut held: Vec<TcpListener> = Vec::with_capacity(count);
    for attempt in 0..TRIES * count {
        if held.len() == count {
            break;
        }
        let nth = u16::try_from(random.hash_one(attempt) % u64::from(COUNT)).unwrap_or_default();
        match TcpListener::bind(("127.0.0.1", FIRST + nth)) {
            Ok(listener) => held.push(listener),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    if held.len() < count {
        let last = FIRST + COUNT - 1;
        let what = format!("there are no {count} free ports on 127.0.0.1 from {FIRST} to {last}");
        return Err(Error::new(ErrorKind::AddrInUse, what));
    }
    held.iter().map(TcpListener::local_addr).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_addresses_are_different_and_can_be_used() {
        let found = addresses(9).unwrap();
        for (nth, address) in found.iter().enumerate() {
            assert!(!found[..nth].contains(address));
            TcpListener::bind(address).unwrap();
        }
    }
}
