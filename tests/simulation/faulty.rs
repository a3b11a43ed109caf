//! Where the planted faults of [`Bug`] change what goes in and comes out.

use gpu_ledger::accounting::driver::Report;
use gpu_ledger::host::{Host, Lost, News, Note};
use gpu_ledger::identity::Program;
use gpu_ledger::journal::draft::Pending;
use gpu_ledger::journal::entry::Figures;
use gpu_ledger::kernel::Event;
use gpu_ledger::settlement::{Account, Attribution, Fit, Ground, Named};
use gpu_ledger::unknown::GapCause;

use super::bugs::Bug;

/// What the ring held.
pub(crate) fn drained(
    bug: Option<Bug>,
    events: &mut Vec<Event>,
    losses: &mut Vec<Lost>,
    held_back: &mut Vec<Event>,
) {
    match bug {
        Some(Bug::LossSwallowed) => losses.clear(),
        Some(Bug::EventDropped) => {
            let mut number = 0;
            events.retain(|event| {
                number += usize::from(matches!(event, Event::Exec(_)));
                !matches!(event, Event::Exec(_)) || number % 3 != 0
            });
        }
        Some(Bug::SettledBeforeEvents) => {
            let late = std::mem::replace(held_back, events.split_off(events.len() / 2));
            events.splice(..0, late);
        }
        _ => {}
    }
}

/// What a read brought.
pub(crate) fn report(bug: Option<Bug>, report: Report) -> Report {
    match (bug, report) {
        (Some(Bug::ForgottenEarly), Report::Read(mut outcome)) => {
            outcome.window.began = outcome.window.ended;
            outcome.open.clear();
            Report::Read(outcome)
        }
        (_, report) => report,
    }
}

/// What was learnt.
pub(crate) fn note(bug: Option<Bug>, mut note: Note, host: &Host) -> Note {
    if bug == Some(Bug::NamedByPidAlone)
        && let News::Settled(settled) = &mut note.news
        && settled.settlement.attribution.named().is_none()
        && let Some(life) = host.lifetimes().of_pid(settled.row.row.pid).next_back()
        && let Some(image) = life.images.last()
    {
        let named = Named {
            key: life.key,
            start_is_exact: life.start_is_exact,
            image: image.clone(),
            parent: life.parent,
            cgroups: life.cgroups.clone(),
            ended: life.ended,
            fit: Fit::MayContain,
        };
        let program = Program::of(&image.content);
        let name = program.as_ref().map_or_else(String::new, ToString::to_string);
        settled.settlement.attribution = Attribution::Named(Box::new(named));
        settled.whose.account = Account::by(Ground::Program, name);
        settled.whose.program = program;
    }
    note
}

/// Whether a draft gets lost.
pub(crate) fn drops(bug: Option<Bug>, pending: &Pending) -> bool {
    let Figures::Gap(gap) = &pending.draft.figures else { return false };
    match bug {
        Some(Bug::RowGapLost) => gap.gpu.is_some(),
        Some(Bug::QueueGapLost) => gap.cause == GapCause::QueueOverflow && gap.gpu.is_some(),
        Some(Bug::AgentDownForgotten) => gap.cause == GapCause::AgentDown,
        _ => false,
    }
}
