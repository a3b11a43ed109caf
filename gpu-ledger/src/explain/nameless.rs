//! What hides a name: which blind spot, how large, and what would have named it.

use serde::Serialize;

use super::evidence::word_of;
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::journal::entry::{NamelessEvidence, SettlementEvidence, SettlementFigures};
use crate::rendering::rfc3339;
use crate::unit::{BootNs, Ms, WallUs};
use crate::unknown::{GapCause, NamelessReason};

/// What hides a name.
#[derive(Clone, Debug, Serialize)]
pub struct Nameless {
    /// What happened.
    pub cause: &'static str,
    /// What would have named it.
    pub remedy: &'static str,
    /// The blind spot.
    pub not_seen: NotSeen,
    /// Processes of the pid that were weighed.
    pub weighed: Vec<Weighed>,
}

/// A blind spot.
#[derive(Clone, Debug, Serialize)]
pub struct NotSeen {
    /// The cause of the gap that it is; null where it is no gap.
    pub gap: Option<GapCause>,
    /// From when, RFC 3339; null where nobody knows.
    pub from: Option<String>,
    /// To when; null likewise.
    pub to: Option<String>,
    /// How long; null where an end is not known.
    pub length_ms: Option<Ms>,
    /// How many; null where nobody could count them.
    pub size: Option<u64>,
    /// Of what: `events`, or `processes` that it may have been.
    pub of: &'static str,
}

/// A process of the row's pid that was weighed.
#[derive(Clone, Debug, Serialize)]
pub struct Weighed {
    /// When it began, RFC 3339; null where the clocks of that boot do not say.
    pub born: Option<String>,
    /// When it ended; null where that was not known.
    pub ended: Option<String>,
    /// How the row's start fits its life.
    pub fit: &'static str,
}

/// What hides the name of a settlement. `began`: when the agent that booked it began to watch.
pub(super) fn nameless(
    reason: NamelessReason,
    figures: &SettlementFigures,
    evidence: Option<&SettlementEvidence>,
    began: Option<Stamp>,
    place: impl Fn(BootNs) -> Option<String>,
) -> Nameless {
    let hidden = evidence.and_then(|evidence| evidence.nameless.as_ref());
    let weighed = hidden.map_or(&[][..], |hidden| &hidden.candidates);
    let (cause, remedy) = words_of(reason);
    Nameless {
        cause,
        remedy,
        not_seen: not_seen(reason, figures, (evidence, hidden), began),
        weighed: weighed
            .iter()
            .map(|one| Weighed {
                born: place(one.key.start),
                ended: one.ended.and_then(|ended| place(ended.at)),
                fit: word_of(one.fit),
            })
            .collect(),
    }
}

fn not_seen(
    reason: NamelessReason,
    figures: &SettlementFigures,
    (evidence, hidden): (Option<&SettlementEvidence>, Option<&NamelessEvidence>),
    began: Option<Stamp>,
) -> NotSeen {
    if let Some(gap) = hidden.and_then(|hidden| hidden.gap.as_ref()) {
        return of_gap(gap);
    }
    let start = figures.start;
    let end =
        start.and_then(|start| start.0.checked_add(figures.held.0.checked_mul(1_000)?)).map(WallUs);
    let read = evidence.map(|evidence| evidence.seen.ended.wall);
    let candidates = hidden.map(|hidden| u64::try_from(hidden.candidates.len()).ok());
    let (from, to, size, of) = match reason {
        NamelessReason::PredatesCoverage => {
            let until = began.map(|began| began.wall).filter(|until| start <= Some(*until));
            (start, until, None, EVENTS)
        }
        // The gap is in the evidence where it was over when the row was entered.
        NamelessReason::AgentDown | NamelessReason::EventLost => (start, read, None, EVENTS),
        // Between the end of its span and the read that came too late.
        NamelessReason::IdentityEvicted => (end, read, Some(1), PROCESSES),
        NamelessReason::PidAmbiguous | NamelessReason::RowSpansTwoLifetimes => {
            (start, end, candidates.flatten(), PROCESSES)
        }
        NamelessReason::NoStartTime => (None, read, None, PROCESSES),
    };
    let length = from.zip(to).and_then(|(from, to)| to.0.checked_sub(from.0));
    NotSeen {
        gap: None,
        from: from.map(rfc3339),
        to: to.map(rfc3339),
        length_ms: length.map(|us| Ms(us / 1_000)),
        size,
        of,
    }
}

/// What a blind spot counts.
const EVENTS: &str = "events";
/// What it counts where nothing was lost.
const PROCESSES: &str = "processes";

fn of_gap(gap: &Gap) -> NotSeen {
    let length = gap.to.boot.0.checked_sub(gap.from.boot.0);
    NotSeen {
        gap: Some(gap.cause),
        from: Some(rfc3339(gap.from.wall)),
        to: Some(rfc3339(gap.to.wall)),
        length_ms: length.map(|ns| Ms(ns / 1_000_000)),
        size: gap.size,
        of: EVENTS,
    }
}

/// What happened, and what would have named it.
const fn words_of(reason: NamelessReason) -> (&'static str, &'static str) {
    match reason {
        NamelessReason::PredatesCoverage => (
            "the process, or what it ran then, was gone before process events were received",
            "start the daemon before the jobs, at boot (systemctl enable gpu-ledger)",
        ),
        NamelessReason::AgentDown => (
            "nobody watched processes then",
            "keep the daemon running (systemctl enable --now gpu-ledger); what holds a GPU when it stops and still \
             does when it is back keeps its name",
        ),
        NamelessReason::EventLost => (
            "the event that names it was lost",
            "a larger ring_size in the configuration loses less, and `gpu-ledger status` counts what is lost",
        ),
        NamelessReason::IdentityEvicted => (
            "who it was had to be forgotten before its row could be read",
            "the row was read too late: `gpu-ledger status` and the daemon's log say what kept it from the driver, \
             or that too many processes ended at once",
        ),
        NamelessReason::PidAmbiguous => (
            "several processes of that pid fit, as the clocks were set then",
            "keep the wall clock in step (chrony or ntpd that slews), since the driver stamps rows with it",
        ),
        NamelessReason::NoStartTime => (
            "the driver gave the row no start time, and a pid alone names nobody",
            "nothing that gpu-ledger does: the driver has to stamp the row (`gpu-ledger doctor` says which one it is)",
        ),
        NamelessReason::RowSpansTwoLifetimes => (
            "two processes of that pid lived while the row ran: another process kept the first one's device open \
             until the pid came again",
            "end workers that inherit an open device with their parent; a larger kernel.pid_max lets pids come \
             again later",
        ),
    }
}
