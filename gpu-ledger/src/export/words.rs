//! What the words on a bill mean, for a reader who has nothing else at hand.

use crate::unknown::{DisputeReason, Flag, GapCause, NamelessReason};

/// Why nobody can say whose a settlement is.
#[must_use]
pub const fn of_nameless(reason: NamelessReason) -> &'static str {
    match reason {
        NamelessReason::PredatesCoverage => {
            "The process was gone before anybody watched processes; the driver kept its row."
        }
        NamelessReason::AgentDown => {
            "Nobody watched processes while it lived: the daemon did not run, or could not receive process events."
        }
        NamelessReason::EventLost => {
            "The kernel's events of the moment that would have named it were lost, and counted as lost."
        }
        NamelessReason::IdentityEvicted => {
            "Its process had been known, and was forgotten under the limit of memory before its row was final."
        }
        NamelessReason::PidAmbiguous => {
            "Two processes had its pid in succession, and the row fits both equally well."
        }
        NamelessReason::RowSpansTwoLifetimes => {
            "The row reaches into a second process of the same pid, as where an open device is inherited."
        }
        NamelessReason::NoStartTime => {
            "The driver gave no start time, so that no process can be joined to it safely; it has no interval either."
        }
    }
}

/// Why an interval could not be seen.
#[must_use]
pub const fn of_gap(cause: GapCause) -> &'static str {
    match cause {
        GapCause::AgentDown => "The daemon did not run.",
        GapCause::EventLost => "Process events were lost, and counted as lost.",
        GapCause::RowsPossiblyEvicted => {
            "No dead row of the read before was left: the driver keeps 128, so others may have gone unread."
        }
        GapCause::ClearedOrReset => {
            "The driver's dead rows were gone and its store was not full: it was cleared, or reset."
        }
        GapCause::RowOverwritten => {
            "A later span of the same pid replaced a row before it was read final."
        }
        GapCause::RowVanished => "A row that was listed could not be read any more.",
        GapCause::AccountingOff => "The driver's accounting was off.",
        GapCause::EpochBroken => {
            "A row that had been running was neither running nor final: accounting was lost in between."
        }
        GapCause::Released => "Every handle of the driver was given back on request.",
        GapCause::QueueOverflow => "A bounded queue was full, and what did not fit was counted.",
        GapCause::DiskFull => "The journal's disk was full.",
        GapCause::NvmlCallTimeout => "A call of the driver did not return in time.",
    }
}

/// Why milliseconds are in doubt.
#[must_use]
pub const fn of_dispute(reason: DisputeReason) -> &'static str {
    match reason {
        DisputeReason::ClockStep => {
            "The wall clock was set while it held the GPU, so that start and length contradict each other."
        }
        DisputeReason::Conflict => "The same row was read again, and said something else.",
    }
}

/// What a flag says of a settlement.
#[must_use]
pub const fn of_flag(flag: Flag) -> &'static str {
    match flag {
        Flag::Below1Ms => "It held the GPU for less than a millisecond.",
        Flag::SettledWhileAlive => "Its process closed the GPU and lived on.",
        Flag::StartedBeforeAccounting => "It held the GPU earlier too, which no row tells.",
        Flag::CgroupMoved => {
            "Its process was moved to another job, pod, container or unit after it had opened a GPU, and all of it \
             stands there."
        }
    }
}

/// The words that are not reasons.
pub const GENERAL: &[(&str, &str)] = &[
    (
        "held",
        "From the first opening of the GPU to the last closing, as the driver accounts for it; of a line the union of \
         such spans, never more than wall time. It is not busy time.",
    ),
    ("alone", "Of held time: nobody else held the GPU. On a line: no other line did."),
    ("shared", "Of held time: somebody else held it too. On a line: another line did."),
    ("free", "The GPU was seen, and nobody held it."),
    ("uncovered", "The GPU was not seen, and fewer than two holders of it are known."),
    (
        "closing",
        "Per GPU and period alone + shared + free + uncovered is the period, to the millisecond.",
    ),
    ("settlement", "A final row of the driver, booked exactly once, with whose it was."),
    ("settled", "Booked."),
    ("open", "Runs still: accrued within the period, not booked. Its settlement will replace it."),
    ("no driver row", "Holds or held a GPU and gets no row, ever: it shares, and is never billed."),
    ("account", "The line on the bill: a name, and what gave it that (named_by)."),
    ("unattributed", "Settled, and nobody can say whose: a line for each GPU and reason."),
    (
        "disputed",
        "Its milliseconds are in doubt: in the total as the driver gave them, never priced.",
    ),
    (
        "span_ms_total",
        "The plain sum of spans within the period: it may exceed wall time where processes overlap.",
    ),
    (
        "busy",
        "How long the GPU was busy for it, by the driver's samples: a range, and evidence only.",
    ),
    ("share", "What the chosen policy gave a line of shared time."),
    (
        "memory held",
        "Device memory over time, by samples whose age is known: bytes x milliseconds.",
    ),
    ("gap", "An interval that could not be seen, with its cause and, where it is known, its size."),
    ("UNKNOWN", "Nobody knows it. It is never written as 0, and in no sum."),
    ("as of", "The moment up to which the journal speaks."),
    ("journal head", "Number and hash of the last entry of the journal that the bill is made of."),
];

/// Every word with what it means, in the order of a reader's need.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let nameless = NamelessReason::ALL.iter().map(|one| (one.as_str(), of_nameless(*one)));
    let gaps = GapCause::ALL.iter().map(|one| (one.as_str(), of_gap(*one)));
    let disputes = DisputeReason::ALL.iter().map(|one| (one.as_str(), of_dispute(*one)));
    let flags = Flag::ALL.iter().map(|one| (one.as_str(), of_flag(*one)));
    GENERAL.iter().copied().chain(nameless).chain(gaps).chain(disputes).chain(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_explained_in_a_sentence_and_no_two_alike() {
        let mut seen = std::collections::BTreeSet::new();
        for (word, meaning) in all() {
            assert!(meaning.ends_with('.') && meaning.len() > 5, "{word}: {meaning}");
            assert!(seen.insert(meaning), "{word}: {meaning}");
        }
        assert!(seen.len() > NamelessReason::ALL.len() + GapCause::ALL.len());
    }
}
