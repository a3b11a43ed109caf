//! What comes in beside reads: how to watch, what is known from before, what the ring held.

use std::collections::BTreeMap;

use crate::accounting::RowKey;
use crate::accounting::schedule::INTERVAL_SWEEP_NS;
use crate::clock::Stamp;
use crate::coverage::Coverage;
use crate::identity::Limits;
use crate::kernel::Event;
use crate::memory::Pace;
use crate::settlement::Named;
use crate::unit::{BootNs, Pid};

/// How a host is watched.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Process events are received. Without them nobody can be named, and all time is a gap.
    pub events: bool,
    /// Opens of NVIDIA devices are among them.
    pub touches_watched: bool,
    /// Our own process, which opens devices too and is counted among nobody.
    pub own_pid: Option<Pid>,
    /// Rows that were over before the watching began are settled as well, as a daemon does whose
    /// journal knows which of them it has. A single trace leaves them out.
    pub books_the_already_dead: bool,
    /// How often it is asked who holds a device, in nanoseconds; `None`: only when somebody asks.
    pub holders_every_ns: Option<u64>,
    /// How memory over time is sampled; `None`: it is not.
    pub memory: Option<Pace>,
    /// How much is kept of the dead.
    pub limits: Limits,
}

impl HostSettings {
    /// As `trace` watches.
    #[must_use]
    pub fn of_trace(events: bool, touches_watched: bool) -> Self {
        Self {
            events,
            touches_watched,
            own_pid: None,
            books_the_already_dead: false,
            holders_every_ns: None,
            memory: None,
            limits: Limits::default(),
        }
    }

    /// As the daemon watches: what is already dead is settled too, and holders are asked for with
    /// every sweep.
    #[must_use]
    pub fn of_daemon(events: bool, touches_watched: bool) -> Self {
        Self {
            books_the_already_dead: true,
            holders_every_ns: Some(INTERVAL_SWEEP_NS),
            ..Self::of_trace(events, touches_watched)
        }
    }
}

/// What is known from before a restart.
#[derive(Clone, Debug, Default)]
pub struct Resumed {
    /// When and what earlier runs saw in this boot: its end is the last moment that is proven to have
    /// been watched. The time since then is one gap. `None` where nothing was watched in this boot.
    pub coverage: Option<Coverage>,
    /// Rows that the journal has open, with the identity they were joined to.
    pub open: BTreeMap<RowKey, Named>,
}

/// What one emptying of the ring brought.
#[derive(Clone, Debug)]
pub struct Drained {
    /// Before it was emptied: every event until then is in hand or lost.
    pub began: Stamp,
    /// In the order they came.
    pub events: Vec<Event>,
    /// What did not come.
    pub losses: Vec<Lost>,
}

/// Events that were lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// So many, between two that came.
    Between {
        /// The last one that came before; `None` where none did.
        after: Option<BootNs>,
        /// The first one that came after; `None` where none has yet.
        before: Option<BootNs>,
        /// How many.
        size: u64,
    },
    /// Some, since the ring was last emptied.
    SinceLastDrain {
        /// How many; `None` where even that is not known.
        size: Option<u64>,
    },
}
