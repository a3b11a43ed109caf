//! The canonical form of every type that stands in an entry. Fields stand in the order given here;
//! a new field is a new version of the entry ([`super::chain::VERSION`]), or one that may be absent at the
//! end of its record, where an entry that has none reads, and is written, as before there was such a field.

use super::Digest;
use super::canon::{
    CanonError, Canonical, Reader, Writer, canonical_record, canonical_word, no_such,
};
use super::entry::{
    AgentFacts, Ancestor, ArgvEvidence, BootId, BorneImage, BorneImages, Change, ClosedPeriod,
    ConflictFigures, Correction, CoverageEdge, DriverSaid, Epoch, EpochEdge, Evidence, Figures,
    GpuMark, IdentityEvidence, KeyChange, Mark, Moment, NamelessEvidence, OpenEvidence,
    OpenFigures, OpenKind, Provenance, SettlementEvidence, SettlementFigures,
};
use super::form::{Fields, Form, of, of_absent, of_some, of_some_absent};
use crate::accounting::reading::ModeAround;
use crate::accounting::{Busy, BusySource, Row, UtilizationSums, Window};
use crate::argv::CmdlineMode;
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::identity::{Basis, Ended, User};
use crate::kernel::{ArgvState, CgroupId, LoginUid, ProcessKey};
use crate::memory::{Beyond, ByteMs, Device, Held, Holder, Holding, Pace, Sampling, Stretch};
use crate::residency::moment::Length;
use crate::residency::verdict::VoidReason;
use crate::settlement::{Account, Balance, Candidate, Fit, Ground, RuleId};
use crate::unit::{BootNs, Bytes, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::{DisputeReason, Flag, GapCause, NamelessReason, Observed, UnknownReason};

canonical_word! {
    NamelessReason: "reason",
    GapCause: "cause of a gap",
    DisputeReason: "reason of a dispute",
    Flag: "flag",
    UnknownReason: "reason of an unknown",
    VoidReason: "reason of a void",
    Ground: "what names an account",
}

/// Lists that are closed too, and have their words here.
macro_rules! canonical_enum {
    ($($list:ident: $what:literal { $($variant:ident = $word:literal,)* })*) => { $(
        impl Canonical for $list {
            fn put(&self, writer: &mut Writer) {
                writer.atom(match self { $(Self::$variant => $word,)* }.as_bytes());
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
                let word = reader.atom()?;
                $(if word == $word.as_bytes() {
                    return Ok(Self::$variant);
                })*
                Err(no_such($what, word))
            }

            fn form() -> Form {
                Form::Word { what: $what, words: vec![$($word,)*] }
            }
        }
    )* };
}

canonical_enum! {
    Basis: "basis" { Exec = "exec", Fork = "fork", Procfs = "procfs", Journal = "journal", }
    BusySource: "source of busy time" {
        StatsV2 = "stats_v2",
        ProcessSamples = "process_samples",
        StatsV1 = "stats_v1",
    }
    ArgvState: "state of arguments" {
        Whole = "whole",
        Truncated = "truncated",
        Shed = "shed",
        Unreadable = "unreadable",
    }
    CmdlineMode: "how much of arguments is kept" {
        None = "none",
        Exe = "exe",
        Redacted = "redacted",
        Full = "full",
    }
    Fit: "fit" {
        Contains = "contains",
        MayContain = "may-contain",
        WithinTolerance = "within-tolerance",
        Outside = "outside",
    }
    OpenKind: "kind of open entry" {
        Row = "row",
        Masked = "masked",
        NoDriverRow = "no-driver-row",
    }
}

canonical_record! {
    Pid { 0 }
    BootNs { 0 }
    Ms { 0 }
    Bytes { 0 }
    GpuUuid { 0 }
    RuleId { 0 }
    BootId { 0 }
    Digest { 0 }
    Stamp { boot, mono_ns, wall }
    Moment { boot, stamp }
    Window { began, ended }
    ProcessKey { pid, start }
    CgroupId { hierarchy, id }
    User { uid, euid, login_uid }
    Ended { at, is_seen, wait_status }
    Candidate { key, ended, fit }
    Gap { cause, gpu, from, to, size }
    Balance { count, held_ms }
    Busy { low, high, samples, source }
    UtilizationSums { sample_count, gpu_centipercent }
    Row { gpu, pid, start, held, running, memory_peak, utilization, sums }
    SettlementFigures {
        gpu, pid, start, held, read_at, account, program, uid, basis, flags, dispute, asleep, busy,
        memory_peak, opened, labels, booked,
    }
    Correction { of, change }
    ConflictFigures { of, read_at }
    Epoch { gpu, at, edge }
    Mark { processes_until, gpus, unresolved, note }
    DriverSaid { kind, version, stats_v2, gpu_index, gpu_name }
    Ancestor { key, program }
    BorneImages { images, forgotten }
    BorneImage { since, basis, program }
    NamelessEvidence { gap, candidates }
    ModeAround { before, after }
    Provenance { library, mode, rules, agent }
    KeyChange { key, previous, signature }
    ClosedPeriod { name, from, to, zone, through, tree, by, share, prices, documents, version }
    OpenEvidence { row, identity }
    AgentFacts { version, object, kernel }
    Length { 0 }
    ByteMs { 0 }
    Pace { period, cap }
    Holder { pid, start, account, program, uid, basis, labels }
    Held { memory, known_ms, unsaid_ms }
    Holding { holder, held }
    Beyond { holders, held }
    Device { used, unattributed, excess }
    Sampling { samples, failed, recoveries, age_max }
    Stretch {
        gpu, from, to, pace, sampling, device, holders, beyond, voids, is_cut_by_step,
    }
}

/// Records with a last field that is left out where it is `None`.
macro_rules! canonical_record_with_absent {
    ($($record:ident { $($field:ident),* ; $absent:ident })*) => { $(
        impl Canonical for $record {
            fn put(&self, writer: &mut Writer) {
                writer.list(|writer| {
                    $(self.$field.put(writer);)*
                    if let Some(value) = &self.$absent {
                        value.put(writer);
                    }
                });
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
                reader.list(stringify!($record), |reader| {
                    $(let $field = Canonical::take(reader)?;)*
                    let is_absent = reader.is_empty();
                    let $absent =
                        if is_absent { None } else { Some(Canonical::take(reader)?) };
                    Ok(Self { $($field,)* $absent })
                })
            }

            fn form() -> Form {
                let always =
                    vec![$((stringify!($field), of(|whole: &Self| &whole.$field)),)*];
                let absent = of_absent(|whole: &Self| &whole.$absent);
                let last = Some(Box::new((stringify!($absent), absent)));
                Form::Record { name: stringify!($record), fields: Fields { always, last } }
            }
        }
    )* };
}

canonical_record_with_absent! {
    OpenFigures { kind, gpu, pid, start, first_seen, account, program, uid, basis, labels; memory }
    GpuMark { gpu, last_good, dead_rows; doubted_since }
    IdentityEvidence {
        boot, key, start_is_exact, fit, basis, image_since, filename, exe, argv, user, ancestors,
        cgroups, ended; borne
    }
    SettlementEvidence { host, driver, row, seen, identity, nameless; provenance }
    ArgvEvidence { commitment, captured_length, true_length, state; mode }
}

impl Canonical for WallUs {
    fn put(&self, writer: &mut Writer) {
        writer.list(|writer| self.0.put(writer));
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("time", |reader| u64::take(reader).map(Self))
    }

    fn form() -> Form {
        Form::Time
    }
}

impl<T: Canonical> Canonical for Observed<T> {
    fn put(&self, writer: &mut Writer) {
        writer.list(|writer| match self {
            Self::Known(value) => {
                writer.atom(b"known");
                value.put(writer);
            }
            Self::Unknown(reason) => {
                writer.atom(b"unknown");
                reason.put(writer);
            }
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("observed value", |reader| match reader.atom()? {
            b"known" => T::take(reader).map(Self::Known),
            b"unknown" => UnknownReason::take(reader).map(Self::Unknown),
            word => Err(no_such("observed value", word)),
        })
    }

    fn form() -> Form {
        let of = |form| Fields { always: vec![("0", form)], last: None };
        let words = vec![("known", of(T::form())), ("unknown", of(UnknownReason::form()))];
        Form::Tagged { what: "observed value", words }
    }
}

/// Lists whose words bring something with them: a word, then its fields; one after `;` is left out where it is `None`.
macro_rules! canonical_tagged {
    ($($list:ident: $what:literal {
        $($word:literal = $variant:ident
            $(($value:ident))?
            $({ $($field:ident),+ $(; $absent:ident)? })?,)*
    })*) => { $(
        impl Canonical for $list {
            fn put(&self, writer: &mut Writer) {
                match self { $(
                    Self::$variant $(($value))? $({ $($field,)+ $($absent)? })? => {
                        writer.list(|writer| {
                            writer.atom($word.as_bytes());
                            $($value.put(writer);)?
                            $(
                                $($field.put(writer);)+
                                $(if let Some(value) = $absent {
                                    value.put(writer);
                                })?
                            )?
                        });
                    }
                )* }
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
                reader.list($what, |reader| {
                    let word = reader.atom()?;
                    $(if word == $word.as_bytes() {
                        $(let $value = Canonical::take(reader)?;)?
                        $(
                            $(let $field = Canonical::take(reader)?;)+
                            $(let $absent = if reader.is_empty() {
                                None
                            } else {
                                Some(Canonical::take(reader)?)
                            };)?
                        )?
                        return Ok(Self::$variant $(($value))? $({ $($field,)+ $($absent)? })?);
                    })*
                    Err(no_such($what, word))
                })
            }

            fn form() -> Form {
                let words = vec![$(($word, Fields {
                    always: vec![
                        $(("0", of_some(|whole: &Self| match whole {
                            Self::$variant($value) => Some($value),
                            _ => None,
                        })),)?
                        $($((stringify!($field), of_some(|whole: &Self| match whole {
                            Self::$variant { $field, .. } => Some($field),
                            _ => None,
                        })),)+)?
                    ],
                    last: [
                        $($((stringify!($absent), of_some_absent(|whole: &Self| match whole {
                            Self::$variant { $absent, .. } => Some($absent),
                            _ => None,
                        })),)?)?
                    ].into_iter().next().map(Box::new),
                }),)*];
                Form::Tagged { what: $what, words }
            }
        }
    )* };
}

canonical_tagged! {
    LoginUid: "login uid" {
        "set" = Set(uid),
        "unset" = Unset,
        "unread" = Unread,
    }
    Account: "account" {
        "ruled" = Ruled { name, rule },
        // Left out where it is not told, as in entries from before it was.
        "unclassified" = Unclassified { name; ground },
        "unattributed" = Unattributed(reason),
    }
    Change: "change" {
        "ended" = Ended { last_seen, cause },
        "account" = Account(account),
    }
    EpochEdge: "edge of an epoch" {
        "began" = Began { index, name },
        "ended" = Ended { cause },
    }
    CoverageEdge: "edge of coverage" {
        "began" = Began { at, host, device_touch, process_events },
        "ended" = Ended { at },
    }
    // The words of [`Figures::kind`].
    Figures: "kind of entry" {
        "settlement" = Settlement(figures),
        "open" = Open(figures),
        "correction" = Correction(figures),
        "conflict" = Conflict(figures),
        "gap" = Gap(figures),
        "epoch" = Epoch(figures),
        "coverage" = Coverage(figures),
        "mark" = Mark(figures),
        "memory" = Memory(figures),
        "key" = Key(figures),
        "closed" = Closed(figures),
    }
    Evidence: "kind of evidence" {
        "none" = None,
        "settlement" = Settlement(evidence),
        "open" = Open(evidence),
        "conflict" = Conflict { row, seen },
        "epoch" = Epoch(evidence),
        "coverage" = Coverage(evidence),
    }
}
