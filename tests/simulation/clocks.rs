//! The three clocks of a machine, which somebody else moves.

use gpu_ledger::clock::Stamp;
use gpu_ledger::journal::BootId;
use gpu_ledger::unit::{BootNs, WallUs};

/// Where every first boot begins on the wall clock.
const EPOCH_US: u64 = 1_790_000_000_000_000;

/// The clocks of the boot that runs.
#[derive(Clone, Debug)]
pub(crate) struct Clocks {
    /// Which boot.
    pub(crate) boot: BootId,
    /// Since boot, time asleep included.
    pub(crate) boot_us: u64,
    asleep_us: u64,
    wall_us: u64,
    /// The wall clock was set in this boot.
    pub(crate) stepped: bool,
}

impl Clocks {
    pub(crate) const fn new(boot_us: u64) -> Self {
        let wall_us = EPOCH_US + boot_us;
        Self { boot: BootId(1), boot_us, asleep_us: 0, wall_us, stepped: false }
    }

    pub(crate) const fn wall_us(&self) -> u64 {
        self.wall_us
    }

    /// Now, on the boot clock. Never a whole clock tick: a start that is known exactly is told from
    /// one that procfs floored.
    pub(crate) const fn now(&self) -> BootNs {
        BootNs(self.boot_us * 1_000 + 1)
    }

    pub(crate) const fn stamp(&self) -> Stamp {
        let BootNs(boot_ns) = self.now();
        Stamp {
            boot: BootNs(boot_ns),
            mono_ns: boot_ns - self.asleep_us * 1_000,
            wall: WallUs(self.wall_us),
        }
    }

    pub(crate) const fn pass(&mut self, us: u64) {
        self.boot_us += us;
        self.wall_us += us;
    }

    pub(crate) const fn sleep(&mut self, us: u64) {
        self.pass(us);
        self.asleep_us += us;
    }

    pub(crate) const fn step(&mut self, us: i64) {
        self.wall_us = self.wall_us.saturating_add_signed(us);
        self.stepped = true;
    }

    /// Another boot of the same machine, after so long without power.
    pub(crate) const fn reboot(&mut self, off_us: u64, boot_us: u64) {
        self.boot = BootId(self.boot.0 + 1);
        (self.boot_us, self.asleep_us, self.stepped) = (boot_us, 0, false);
        self.wall_us += off_us + boot_us;
    }
}
