//! Made rows, lifetimes and coverage. Times are microseconds since boot; the wall clock is ahead of
//! the boot clock by [`OFFSET_US`].

use std::sync::Arc;

use bytes::Bytes;

use crate::accounting::{FinalRow, Row, Window};
use crate::clock::{ClockHistory, Stamp};
use crate::coverage::{Coverage, Gap};
use crate::identity::{Basis, Ended, Image, ImageContent, Lifetime, User};
use crate::kernel::{Argv, ArgvState, LoginUid, ProcessKey};
use crate::settlement::{Attribution, Eviction, Evidence, Named, Settlement, settle};
use crate::unit::{BootNs, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::{GapCause, NamelessReason, Observed, UnknownReason};

pub(super) const OFFSET_US: u64 = 1_790_000_000_000_000;
pub(super) const PID: Pid = Pid(4_242);

pub(super) fn boot(us: u64) -> BootNs {
    BootNs(us * 1_000)
}

pub(super) fn stamp(us: u64) -> Stamp {
    Stamp { boot: boot(us), mono_ns: us * 1_000, wall: WallUs(OFFSET_US + us) }
}

pub(super) fn image(name: &str, since_us: u64, basis: Basis) -> Image {
    let name = Bytes::copy_from_slice(name.as_bytes());
    let argv = Argv { true_length: None, bytes: Bytes::new(), state: ArgvState::Shed };
    Image {
        since: boot(since_us),
        basis,
        content: Arc::new(ImageContent { argv, filename: name, exe: None }),
        user: User { uid: None, euid: None, login_uid: LoginUid::Unread },
    }
}

/// A process seen from exec to exit.
pub(super) fn lifetime(name: &str, born_us: u64, exit_us: Option<u64>) -> Lifetime {
    Lifetime {
        key: ProcessKey { pid: PID, start: boot(born_us) },
        start_is_exact: true,
        parent: None,
        images: vec![image(name, born_us, Basis::Exec)],
        images_forgotten: 0,
        image_gaps: Vec::new(),
        cgroups: Vec::new(),
        cgroups_stood: 0,
        touched: None,
        ended: exit_us.map(exited),
    }
}

pub(super) fn exited(us: u64) -> Ended {
    Ended { at: boot(us), is_seen: true, wait_status: Some(0) }
}

pub(super) fn found_gone(us: u64) -> Ended {
    Ended { at: boot(us), is_seen: false, wait_status: None }
}

/// A final row that a read shows from 1 ms after its end on.
pub(super) fn row(start_us: u64, held_ms: u64) -> FinalRow {
    seen_at(start_us, held_ms, start_us + held_ms * 1_000 + 1_000)
}

pub(super) fn seen_at(start_us: u64, held_ms: u64, read_us: u64) -> FinalRow {
    let row = Row {
        gpu: GpuUuid(Arc::from("GPU-2f9a1b3c-0000-0000-0000-000000000000")),
        pid: PID,
        start: Some(WallUs(OFFSET_US + start_us)),
        held: Ms(held_ms),
        running: false,
        memory_peak: Observed::Unknown(UnknownReason::ValueNotAvailable),
        utilization: Observed::Unknown(UnknownReason::ValueNotAvailable),
        sums: None,
    };
    let seen = Window { began: stamp(read_us), ended: stamp(read_us + 200) };
    FinalRow { row, seen, busy: None }
}

pub(super) fn gap(cause: GapCause, from_us: u64, to_us: u64) -> Gap {
    Gap { cause, gpu: None, from: stamp(from_us), to: stamp(to_us), size: None }
}

/// What is known, in a form that a test can change before it settles.
pub(super) struct Known {
    pub(super) lifetimes: Vec<Lifetime>,
    pub(super) evictions: Vec<Eviction>,
    pub(super) coverage: Coverage,
    pub(super) clock: ClockHistory,
    pub(super) rowless_since: Option<BootNs>,
    pub(super) journaled: Option<Named>,
    pub(super) host: Arc<str>,
}

impl Known {
    /// Coverage from second 1 to second 1000, a steady clock, and these lifetimes.
    pub(super) fn of(lifetimes: impl IntoIterator<Item = Lifetime>) -> Self {
        let mut clock = ClockHistory::default();
        clock.observe(stamp(1_000_000));
        Self {
            lifetimes: lifetimes.into_iter().collect(),
            evictions: Vec::new(),
            coverage: Coverage {
                start: stamp(1_000_000),
                end: stamp(1_000_000_000),
                gaps: Vec::new(),
            },
            clock,
            rowless_since: None,
            journaled: None,
            host: Arc::from("host"),
        }
    }

    pub(super) fn with_gap(mut self, gap: Gap) -> Self {
        self.coverage.gaps.push(gap);
        self
    }

    pub(super) fn evidence(&self) -> Evidence<'_> {
        Evidence {
            lifetimes: self.lifetimes.iter().collect(),
            evictions: self.evictions.clone(),
            coverage: &self.coverage,
            clock: &self.clock,
            rowless_since: self.rowless_since,
            journaled: self.journaled.as_ref(),
            host: &self.host,
        }
    }

    pub(super) fn settle(&self, row: &FinalRow) -> Settlement {
        let settlement = settle(row, &self.evidence()).unwrap();
        assert_eq!(settlement.row, row.row, "a row goes through unchanged");
        settlement
    }

    /// The name that a row gets, or the reason for having none.
    pub(super) fn answer(&self, row: &FinalRow) -> Result<String, NamelessReason> {
        answer(&self.settle(row))
    }
}

pub(super) fn answer(settlement: &Settlement) -> Result<String, NamelessReason> {
    match &settlement.attribution {
        Attribution::Named(named) => {
            Ok(String::from_utf8(named.image.content.filename.to_vec()).unwrap())
        }
        Attribution::Nameless(nameless) => Err(nameless.reason),
    }
}
