//! Rule (b) of continuity: every row seen open is still open or final, else it was lost.

use super::gone::Doubt;
use super::state::{Listed, PidState};
use crate::accounting::reading::OpenRow;
use crate::unit::{Pid, WallUs};
use crate::unknown::GapCause;

/// A row seen open, and what is needed to recognise its end.
#[derive(Clone, Debug)]
pub(super) struct Tracked {
    pub(super) open: OpenRow,
    /// Why accounting was lost after it was last seen, if it was. It no longer counts as open, but a
    /// final row of it may still turn up.
    pub(super) in_doubt: Option<GapCause>,
    /// It is listed, but the driver has no row of it when asked. It does not count as open either.
    pub(super) gone: Option<Doubt>,
}

impl Tracked {
    /// Whether it runs, as far as anybody knows.
    pub(super) const fn is_open(&self) -> bool {
        self.in_doubt.is_none() && self.gone.is_none()
    }
}

/// What a complete list says of a tracked row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It is final and was read.
    Final,
    /// It runs on, and can be seen itself.
    Open,
    /// It runs on behind a dead row.
    Hidden,
    /// Not known this time.
    Unread,
    /// It is listed, and was not found when asked about.
    Vanished,
    /// A later span of its pid took its place.
    Overwritten(WallUs),
    /// It is neither listed nor final.
    Missing,
}

/// What became of a tracked row.
pub(super) fn fate(pid: Pid, tracked: &Tracked, now: &Listed) -> Fate {
    // What hides behind a dead row after its epoch ended is another one: live rows are thrown away with it
    // (open-gpu-kernel-modules 595.45.04, `gpu_acct.c`). One that shows itself says so by its start.
    match fate_in_epoch(pid, tracked, now) {
        Fate::Hidden if tracked.in_doubt.is_some() => Fate::Missing,
        fate => fate,
    }
}

fn fate_in_epoch(pid: Pid, tracked: &Tracked, now: &Listed) -> Fate {
    let twice = now.twice.contains(&pid);
    // A hidden row's start is not known, but it lies before the read that listed it.
    let later = |start: WallUs| start > tracked.open.last_seen.ended.wall;
    match now.states.get(&pid) {
        None => Fate::Missing,
        Some(PidState::Unread) => Fate::Unread,
        Some(PidState::Gone) => Fate::Vanished,
        Some(PidState::Live(row)) => match (tracked.open.start, row.start) {
            (Some(seen), start) if start != Some(seen) => Fate::Missing,
            (None, Some(start)) if later(start) => Fate::Missing,
            _ => Fate::Open,
        },
        Some(PidState::Dead(dead)) => {
            match (tracked.open.start, tracked.open.behind, dead.row.start) {
                (Some(seen), _, Some(start)) if start == seen => Fate::Final,
                (Some(seen), _, Some(start)) if start > seen => Fate::Overwritten(start),
                (None, Some(mask), Some(start)) if start == mask && twice => Fate::Hidden,
                (None, Some(mask), Some(start)) if start == mask => Fate::Missing,
                // An older dead row came back and hides it.
                (Some(_), _, _) if twice => Fate::Hidden,
                (Some(_), _, _) => Fate::Missing,
                (None, Some(_), Some(start)) if later(start) => Fate::Overwritten(start),
                (None, _, _) => Fate::Final,
            }
        }
    }
}

/// The cause under which a lost row is counted, where the list itself gives `around`.
pub(super) fn loss(fate: Fate, tracked: &Tracked, around: Option<GapCause>) -> Option<GapCause> {
    match fate {
        Fate::Final | Fate::Open | Fate::Hidden | Fate::Unread | Fate::Vanished => None,
        Fate::Overwritten(_) => Some(GapCause::RowOverwritten),
        Fate::Missing => {
            let gone = tracked.gone.map(|doubt| doubt.cause);
            Some(tracked.in_doubt.or(gone).or(around).unwrap_or(GapCause::EpochBroken))
        }
    }
}
