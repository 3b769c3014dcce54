//! Free ports on 127.0.0.1, for programs that get their address from a test.

use std::net::SocketAddr;

/// Returns an address that is free at this moment.
pub fn free_address() -> SocketAddr {
    rejoin_free_ports::address().expect("a free port on 127.0.0.1")
}

/// Returns a port that is free at this moment.
pub fn free_port() -> u16 {
    free_address().port()
}
