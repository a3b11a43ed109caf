//! Hours of a GPU, counted over everything that a journal has of them: one over-age sample voids its whole hour,
//! whichever run of the daemon took it.

use super::{HOUR_MS, Stretch, Voids, add_voids};

/// How one GPU's hours came out.
#[derive(Clone, Debug, Default)]
pub struct Hours {
    /// Over, and valid as far as they were covered.
    valid: u64,
    void: u64,
    reasons: Voids,
    /// The hour of the last stretch, whether anything voids it, and whether it is counted.
    last: Option<(u64, bool, bool)>,
}

impl Hours {
    /// The next stretch, in the order of the journal. Where the wall clock was set back, an hour that comes twice
    /// counts twice.
    pub fn take(&mut self, stretch: &Stretch) {
        let hour_ms = stretch.hour_ms();
        let (was_void, was_counted) = match self.last {
            Some((last, is_void, is_counted)) if last == hour_ms => (is_void, is_counted),
            Some((_, false, false)) => {
                // Its last quarter never came.
                self.valid = self.valid.saturating_add(1);
                (false, false)
            }
            _ => (false, false),
        };
        add_voids(&mut self.reasons, stretch.voids.iter().copied());
        let is_void = was_void || !stretch.voids.is_empty();
        let is_over = stretch.to.ms() >= hour_ms.saturating_add(HOUR_MS);
        let mut is_counted = was_counted;
        if is_void && !was_void {
            self.void = self.void.saturating_add(1);
            // What was taken for valid is not.
            self.valid = self.valid.saturating_sub(u64::from(was_counted));
            is_counted = true;
        } else if is_over && !was_counted {
            self.valid = self.valid.saturating_add(1);
            is_counted = true;
        }
        self.last = Some((hour_ms, is_void, is_counted));
    }

    /// Hours that are over and valid, as far as they were covered.
    #[must_use]
    pub const fn valid(&self) -> u64 {
        self.valid
    }

    /// Hours that are void.
    #[must_use]
    pub const fn void(&self) -> u64 {
        self.void
    }

    /// Why they are, each with how often.
    #[must_use]
    pub const fn reasons(&self) -> &Voids {
        &self.reasons
    }

    /// The hour of the last stretch, in ms since 1970, where it is void.
    #[must_use]
    pub fn void_hour(&self) -> Option<u64> {
        self.last.filter(|(_, is_void, _)| *is_void).map(|(hour_ms, _, _)| hour_ms)
    }
}
