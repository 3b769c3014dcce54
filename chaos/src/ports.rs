//! Free ports on 127.0.0.1, for programs that listen on the same one after each restart.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use anyhow::{Context as _, Result};
use rand::RngExt as _;

/// Below the ephemeral port range: the system assigns them to no connection.
const PORTS: std::ops::Range<u16> = 15_000..30_000;

/// Returns this many different addresses that are free at this moment.
///
/// # Errors
/// This machine lets us listen on no port.
pub fn free(count: usize) -> Result<Vec<SocketAddr>> {
    // All are held until the last one is found, so that none is found twice.
    let mut held: Vec<TcpListener> = Vec::new();
    while held.len() < count {
        let address = SocketAddr::from(([127, 0, 0, 1], rand::rng().random_range(PORTS)));
        match TcpListener::bind(address) {
            Ok(listener) => held.push(listener),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).context("no free port on 127.0.0.1"),
        }
    }
    held.iter()
        .map(|listener| listener.local_addr().context("the address of a listener"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_different_and_can_be_used() {
        let found = free(9).unwrap();
        for (nth, address) in found.iter().enumerate() {
            assert!(!found[..nth].contains(address));
            TcpListener::bind(address).unwrap();
        }
    }
}
