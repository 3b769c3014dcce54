//! The order of faults: each kind once, before any kind is repeated, so that a run of some minutes has all of them.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Returns an endless order of this many kinds; without kinds it is empty.
pub(super) fn order(kinds: usize, seed: u64) -> impl Iterator<Item = usize> {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut left: Vec<usize> = Vec::new();
    std::iter::from_fn(move || {
        if left.is_empty() {
            left = (0..kinds).collect();
        }
        (!left.is_empty()).then(|| left.swap_remove(dice.random_range(0..left.len())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_comes_once_before_any_is_repeated() {
        for seed in 0..20 {
            let drawn: Vec<usize> = order(6, seed).take(12).collect();
            for round in drawn.chunks(6) {
                let mut sorted = round.to_vec();
                sorted.sort_unstable();
                assert_eq!(sorted, [0, 1, 2, 3, 4, 5], "seed {seed}: {drawn:?}");
            }
        }
        assert_eq!(order(0, 1).next(), None);
    }

    #[test]
    fn a_seed_has_one_order_and_seeds_differ() {
        let of = |seed| order(6, seed).take(60).collect::<Vec<_>>();
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }
}
