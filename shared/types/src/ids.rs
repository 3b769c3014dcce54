//! Identifiers: UUIDv7, which sort by creation time and index well.

use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

/// Returns a new id.
pub fn new() -> Uuid {
    Uuid::now_v7()
}

/// Returns the `nth` id derived from `origin`, a UUIDv7: deterministic, with the same time, and unique.
pub fn derived(origin: Uuid, nth: usize) -> Uuid {
    let mut hasher = Sha256::new();
    hasher.update(origin.as_bytes());
    hasher.update((nth as u64).to_be_bytes());
    let digest = hasher.finalize();
    let mut bytes = *origin.as_bytes();
    // The first six bytes are the time.
    bytes[6..].copy_from_slice(&digest[..10]);
    Builder::from_bytes(bytes)
        .with_version(uuid::Version::SortRand)
        .with_variant(uuid::Variant::RFC4122)
        .into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_id_is_always_the_same_and_sorts_with_its_origin() {
        let origin = new();
        assert_eq!(derived(origin, 0), derived(origin, 0));
        assert_ne!(derived(origin, 0), derived(origin, 1));
        assert_ne!(derived(origin, 0), derived(new(), 0));
        assert_eq!(derived(origin, 3).as_bytes()[..6], origin.as_bytes()[..6]);
        assert_eq!(derived(origin, 3).get_version_num(), 7);
    }
}
