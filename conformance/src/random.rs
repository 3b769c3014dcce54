//! Random numbers from a seed, the same on every machine and in every version: a seed in a report repeats its run.
//! Called by `plan`, `cases` and `target`. The generator is SplitMix64.

/// A seeded generator.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator for a case of a seed: cases of one seed differ.
    pub fn of(seed: u64, name: &str) -> Self {
        // FNV-1a.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self::new(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        let span = u64::try_from(high.saturating_sub(low))
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        low + usize::try_from(self.draw() % span).unwrap_or_default()
    }

    /// One of several.
    ///
    /// # Panics
    /// There is none.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.between(0, of.len() - 1)]
    }

    /// Text in the form of a UUID, version 4: names for requests.
    pub fn uuid(&mut self) -> String {
        let (high, low) = (self.draw(), self.draw());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut random = Random::of(seed, "case");
            [random.draw(), random.draw(), random.draw()]
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        assert_ne!(Random::of(1, "a").draw(), Random::of(1, "b").draw());
        assert_eq!(
            Random::new(0).draw(),
            0xe220_a839_7b1d_cdaf,
            "the reference value of SplitMix64"
        );
    }

    #[test]
    fn numbers_stay_between_their_limits() {
        let mut random = Random::new(7);
        for _ in 0..1_000 {
            assert!((3..=5).contains(&random.between(3, 5)));
        }
        assert_eq!(random.between(4, 4), 4);
        assert_eq!(random.uuid().len(), 36);
    }
}
