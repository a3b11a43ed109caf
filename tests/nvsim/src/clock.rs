//! The simulated driver's clocks: the kernel's, with the wall clock shifted where a test says so.

use std::path::PathBuf;

use rustix::time::{ClockId, clock_gettime};

use crate::model::Moment;

/// Names a file with a signed number of microseconds that is added to the wall clock. The product
/// reads the same variable, so that both see one clock step.
pub const SHIFT_VARIABLE: &str = "GPU_LEDGER_TEST_CLOCK";

/// Reads the kernel's clocks, and the shift at every reading: the test replaces its file by rename.
#[derive(Clone, Debug)]
pub struct Clock {
    shift: Option<PathBuf>,
}

impl Clock {
    /// The clocks as the environment says.
    #[must_use]
    pub fn from_environment() -> Self {
        Self { shift: std::env::var_os(SHIFT_VARIABLE).map(PathBuf::from) }
    }

    /// Both clocks now. A shift that cannot be read is said on stderr and counts as none: the
    /// server must go on serving the test, which then fails on the missing step.
    #[must_use]
    pub fn now(&self) -> Moment {
        let wall_us = microseconds(ClockId::Realtime);
        let mono_us = microseconds(ClockId::Monotonic);
        Moment { mono_us, wall_us: wall_us.saturating_add_signed(self.shift_us()) }
    }

    fn shift_us(&self) -> i64 {
        let Some(file) = &self.shift else { return 0 };
        let read = std::fs::read_to_string(file).map(|text| text.trim().parse::<i64>());
        match read {
            Ok(Ok(shift_us)) => shift_us,
            Ok(Err(error)) => warn(&format!("{}: {error}", file.display())),
            Err(error) => warn(&format!("{}: {error}", file.display())),
        }
    }
}

fn warn(what: &str) -> i64 {
    use std::io::Write as _;
    // Nothing is left to do when even stderr is gone.
    let _ = writeln!(std::io::stderr(), "nvsim: no clock shift: {what}");
    0
}

fn microseconds(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(u64::MAX);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(u64::MAX);
    seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000)
}
