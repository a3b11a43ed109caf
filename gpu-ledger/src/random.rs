//! Random histories for tests: a seeded generator that is cheap in a debug build, and a runner that
//! spreads many of them over the machine's cores and says how to replay the one that failed.

use std::io::Write as _;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `bound`; 0 where that is 0.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        match self.next().checked_rem(bound) {
            Some(value) => value,
            None => 0,
        }
    }

    /// From `least` to `most`, both included.
    pub(crate) const fn between(&mut self, least: u64, most: u64) -> u64 {
        least.saturating_add(self.below(most.saturating_sub(least).saturating_add(1)))
    }

    /// True once in `n` times.
    pub(crate) const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Runs `check` on `count` seeds, on all cores. `GPU_LEDGER_HISTORIES` in the environment multiplies the
/// count, `GPU_LEDGER_SEED` runs that one seed instead.
pub(crate) fn histories(count: u64, check: impl Fn(u64, &mut Random) + Sync) {
    let set = |name: &str| -> Option<u64> {
        let value = std::env::var_os(name)?;
        Some(value.to_str().and_then(|text| text.parse().ok()).expect("a number"))
    };
    if let Some(seed) = set("GPU_LEDGER_SEED") {
        return check(seed, &mut Random::seeded(seed));
    }
    let count = count.saturating_mul(set("GPU_LEDGER_HISTORIES").unwrap_or(1));
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = u64::try_from(workers).expect("few cores").max(1);
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let check = &check;
            scope.spawn(move || {
                let mut seed = worker;
                while seed < count {
                    let replay = Replay(seed);
                    check(seed, &mut Random::seeded(seed));
                    std::mem::forget(replay);
                    seed = seed.saturating_add(workers);
                }
            });
        }
    });
}

/// Says which seed failed when a check panics past it.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        // Nothing can be done where even stderr is gone; the panic is reported all the same.
        let _ = writeln!(std::io::stderr(), "replay this history with GPU_LEDGER_SEED={}", self.0);
    }
}
