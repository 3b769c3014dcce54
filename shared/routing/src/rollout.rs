//! Gradual rollout: for which conversations routing is on.

use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Salt, so that another rollout with the same percentage selects other conversations.
const NAME: &[u8] = b"rejoin.routing";

/// Returns whether a conversation is within the given percentage: 0 is none, 100 and more is all.
///
/// Its position is the first eight bytes, as a big-endian number, of SHA-256 of the text `rejoin.routing` and the 16
/// bytes of its id, modulo 100; it is within if the position is below the percentage. So a conversation always gets the
/// same answer, in every process and release, and one that is in at 10 % is in at 50 %.
pub fn rolled_in(conversation_id: Uuid, percent: u8) -> bool {
    let digest = Sha256::new()
        .chain_update(NAME)
        .chain_update(conversation_id.as_bytes())
        .finalize();
    let place = digest[..8]
        .iter()
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        % 100;
    place < u64::from(percent)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Requirements: D13, D59.
    #[test]
    fn the_percentage_is_met_and_no_conversation_changes_its_agent() {
        let ids: Vec<Uuid> = (0..20_000).map(|number| Uuid::from_u128(number << 70)).collect();
        for percent in [0, 10, 50, 100] {
            let taken = ids.iter().filter(|id| rolled_in(**id, percent)).count();
            let expected = ids.len() * usize::from(percent) / 100;
            assert!(taken.abs_diff(expected) < 300, "{percent} %: {taken}");
        }
        // Fixed for other processes and later releases, too.
        let first = Uuid::from_u128(0x0192_f0c1_0000_7000_8000_0000_0000_0001);
        assert!((0..100).any(|percent| !rolled_in(first, percent) && rolled_in(first, percent + 1)));
        assert_eq!((0..=100).find(|percent| rolled_in(first, *percent)), Some(PLACE + 1));
    }
    /// The position of the id above, computed with `sha256sum`.
    const PLACE: u8 = 29;

    proptest! {
        /// Requirements: D59.
        #[test]
        fn who_is_in_stays_in(id: u128, percent in 0_u8..100) {
            let id = Uuid::from_u128(id);
            prop_assert!(!rolled_in(id, 0) && rolled_in(id, 100));
            prop_assert!(!rolled_in(id, percent) || rolled_in(id, percent + 1));
        }
    }
}
