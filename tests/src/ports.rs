//! Free ports on 127.0.0.1, for programs that get their address from a test.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::{SocketAddr, TcpListener};

/// Below the range from which a system takes ports of connections: one that is free now is not taken by a connection of another test before
/// its program listens.
const FIRST: u16 = 15_000;
const COUNT: u16 = 15_000;
const TRIES: u32 = 1_000;

/// Returns an address that is free at this moment.
pub fn free_address() -> SocketAddr {
    let random = RandomState::new();
    let ports = (0..TRIES).map(|attempt| {
        let number = random.hash_one(attempt) % u64::from(COUNT);
        FIRST + u16::try_from(number).expect("a number below the count")
    });
    let mut addresses = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    addresses
        .find(|address| TcpListener::bind(address).is_ok())
        .expect("a free port on 127.0.0.1")
}

/// Returns a port that is free at this moment.
pub fn free_port() -> u16 {
    free_address().port()
}
