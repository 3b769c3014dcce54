//! Free ports on 127.0.0.1, for parts that listen on the same one after each restart. Called by `target`.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::TcpListener;

use anyhow::{Result, bail};

use crate::random::Random;

/// Below the range from which a system takes ports of connections.
const FIRST: usize = 15_000;
const LAST: usize = 29_999;
const TRIES: usize = 1_000;

/// Returns this many different ports that are free at this moment.
///
/// # Errors
/// There are none.
pub fn free(count: usize) -> Result<Vec<u16>> {
    // Not by the seed of a run: two runs may be side by side.
    let mut random = Random::new(RandomState::new().build_hasher().finish());
    // Held until the last one is found, so that none is found twice.
    let mut held = Vec::new();
    for _ in 0..TRIES {
        if held.len() == count {
            break;
        }
        let port = u16::try_from(random.between(FIRST, LAST))?;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            held.push((port, listener));
        }
    }
    if held.len() < count {
        bail!("there are no free ports on 127.0.0.1 from {FIRST} to {LAST}");
    }
    Ok(held.into_iter().map(|(port, _)| port).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_different() {
        let mut found = free(9).unwrap();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 9);
    }
}
