//! A small seeded generator: every run of the simulated driver can be run again.

/// SplitMix64 (Steele, Lea and Flood 2014): one word of state and good enough to spread delays.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator whose every draw follows from `seed`.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next word.
    pub const fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`, or 0 for an empty range.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.word() % bound }
    }

    /// A number in `low..=high`; `low` when the range is empty.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        if high <= low { low } else { low + self.below(high - low + 1) }
    }
}
