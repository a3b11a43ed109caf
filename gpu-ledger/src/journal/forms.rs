//! The canonical form of every type that stands in an entry. Fields stand in the order given here;
//! a new field is a new version of the entry ([`super::chain::VERSION`]), or one that may be absent at the
//! end of its record, where an entry that has none reads, and is written, as before there was such a field.

use std::sync::Arc;

use super::Digest;
use super::canon::{
    CanonError, Canonical, Reader, Writer, canonical_record, canonical_word, no_such,
};
use super::entry::{
    AgentFacts, Ancestor, ArgvEvidence, BootId, Change, ClosedPeriod, ConflictFigures, Correction,
    CoverageEdge, DriverSaid, Epoch, EpochEdge, Evidence, Figures, GpuMark, IdentityEvidence,
    KeyChange, Mark, Moment, NamelessEvidence, OpenEvidence, OpenFigures, OpenKind, Provenance,
    SettlementEvidence, SettlementFigures,
};
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
    WallUs { 0 }
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
    IdentityEvidence {
        boot, key, start_is_exact, fit, basis, image_since, filename, exe, argv, user, ancestors,
        cgroups, ended,
    }
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
        }
    )* };
}

canonical_record_with_absent! {
    OpenFigures { kind, gpu, pid, start, first_seen, account, program, uid, basis, labels; memory }
    GpuMark { gpu, last_good, dead_rows; doubted_since }
    SettlementEvidence { host, driver, row, seen, identity, nameless; provenance }
    ArgvEvidence { commitment, captured_length, true_length, state; mode }
}

/// A word, then what it brings with it.
fn tagged(writer: &mut Writer, word: &str, rest: impl FnOnce(&mut Writer)) {
    writer.list(|writer| {
        writer.atom(word.as_bytes());
        rest(writer);
    });
}

impl<T: Canonical> Canonical for Observed<T> {
    fn put(&self, writer: &mut Writer) {
        match self {
            Self::Known(value) => tagged(writer, "known", |writer| value.put(writer)),
            Self::Unknown(reason) => tagged(writer, "unknown", |writer| reason.put(writer)),
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("observed value", |reader| match reader.atom()? {
            b"known" => T::take(reader).map(Self::Known),
            b"unknown" => UnknownReason::take(reader).map(Self::Unknown),
            word => Err(no_such("observed value", word)),
        })
    }
}

impl Canonical for LoginUid {
    fn put(&self, writer: &mut Writer) {
        match self {
            Self::Set(uid) => tagged(writer, "set", |writer| uid.put(writer)),
            Self::Unset => tagged(writer, "unset", |_| {}),
            Self::Unread => tagged(writer, "unread", |_| {}),
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("login uid", |reader| match reader.atom()? {
            b"set" => u32::take(reader).map(Self::Set),
            b"unset" => Ok(Self::Unset),
            b"unread" => Ok(Self::Unread),
            word => Err(no_such("login uid", word)),
        })
    }
}

impl Canonical for Account {
    fn put(&self, writer: &mut Writer) {
        match self {
            Self::Ruled { name, rule } => tagged(writer, "ruled", |writer| {
                name.put(writer);
                rule.put(writer);
            }),
            // Left out where it is not told, as in entries from before it was.
            Self::Unclassified { name, ground } => tagged(writer, "unclassified", |writer| {
                name.put(writer);
                if let Some(ground) = ground {
                    ground.put(writer);
                }
            }),
            Self::Unattributed(reason) => {
                tagged(writer, "unattributed", |writer| reason.put(writer));
            }
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("account", |reader| match reader.atom()? {
            b"ruled" => {
                let name = Arc::take(reader)?;
                Ok(Self::Ruled { name, rule: RuleId::take(reader)? })
            }
            b"unclassified" => {
                let name = Arc::take(reader)?;
                let is_told = !reader.is_empty();
                let ground = if is_told { Some(Canonical::take(reader)?) } else { None };
                Ok(Self::Unclassified { name, ground })
            }
            b"unattributed" => NamelessReason::take(reader).map(Self::Unattributed),
            word => Err(no_such("account", word)),
        })
    }
}

impl Canonical for Change {
    fn put(&self, writer: &mut Writer) {
        match self {
            Self::Ended { last_seen, cause } => tagged(writer, "ended", |writer| {
                last_seen.put(writer);
                cause.put(writer);
            }),
            Self::Account(account) => tagged(writer, "account", |writer| account.put(writer)),
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("change", |reader| match reader.atom()? {
            b"ended" => {
                let last_seen = Stamp::take(reader)?;
                Ok(Self::Ended { last_seen, cause: Canonical::take(reader)? })
            }
            b"account" => Account::take(reader).map(Self::Account),
            word => Err(no_such("change", word)),
        })
    }
}

impl Canonical for EpochEdge {
    fn put(&self, writer: &mut Writer) {
        match self {
            Self::Began { index, name } => tagged(writer, "began", |writer| {
                index.put(writer);
                name.put(writer);
            }),
            Self::Ended { cause } => tagged(writer, "ended", |writer| cause.put(writer)),
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("edge of an epoch", |reader| match reader.atom()? {
            b"began" => {
                let index = u32::take(reader)?;
                Ok(Self::Began { index, name: Canonical::take(reader)? })
            }
            b"ended" => Ok(Self::Ended { cause: GapCause::take(reader)? }),
            word => Err(no_such("edge of an epoch", word)),
        })
    }
}

impl Canonical for CoverageEdge {
    fn put(&self, writer: &mut Writer) {
        match self {
            Self::Began { at, host, device_touch, process_events } => {
                tagged(writer, "began", |writer| {
                    at.put(writer);
                    host.put(writer);
                    device_touch.put(writer);
                    process_events.put(writer);
                });
            }
            Self::Ended { at } => tagged(writer, "ended", |writer| at.put(writer)),
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("edge of coverage", |reader| match reader.atom()? {
            b"began" => {
                let (at, host) = (Stamp::take(reader)?, Arc::take(reader)?);
                let device_touch = bool::take(reader)?;
                Ok(Self::Began { at, host, device_touch, process_events: bool::take(reader)? })
            }
            b"ended" => Ok(Self::Ended { at: Stamp::take(reader)? }),
            word => Err(no_such("edge of coverage", word)),
        })
    }
}

impl Canonical for Figures {
    fn put(&self, writer: &mut Writer) {
        tagged(writer, self.kind(), |writer| match self {
            Self::Settlement(figures) => figures.put(writer),
            Self::Open(figures) => figures.put(writer),
            Self::Correction(figures) => figures.put(writer),
            Self::Conflict(figures) => figures.put(writer),
            Self::Gap(figures) => figures.put(writer),
            Self::Epoch(figures) => figures.put(writer),
            Self::Coverage(figures) => figures.put(writer),
            Self::Mark(figures) => figures.put(writer),
            Self::Memory(figures) => figures.put(writer),
            Self::Key(figures) => figures.put(writer),
            Self::Closed(figures) => figures.put(writer),
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("entry", |reader| match reader.atom()? {
            b"settlement" => {
                SettlementFigures::take(reader).map(|figures| Self::Settlement(Box::new(figures)))
            }
            b"open" => OpenFigures::take(reader).map(|figures| Self::Open(Box::new(figures))),
            b"correction" => Correction::take(reader).map(Self::Correction),
            b"conflict" => ConflictFigures::take(reader).map(Self::Conflict),
            b"gap" => Gap::take(reader).map(Self::Gap),
            b"epoch" => Epoch::take(reader).map(Self::Epoch),
            b"coverage" => CoverageEdge::take(reader).map(Self::Coverage),
            b"mark" => Mark::take(reader).map(Self::Mark),
            b"memory" => Stretch::take(reader).map(|stretch| Self::Memory(Box::new(stretch))),
            b"key" => KeyChange::take(reader).map(|change| Self::Key(Box::new(change))),
            b"closed" => ClosedPeriod::take(reader).map(|closed| Self::Closed(Box::new(closed))),
            word => Err(no_such("kind of entry", word)),
        })
    }
}

impl Canonical for Evidence {
    fn put(&self, writer: &mut Writer) {
        match self {
            Self::None => tagged(writer, "none", |_| {}),
            Self::Settlement(evidence) => {
                tagged(writer, "settlement", |writer| evidence.put(writer));
            }
            Self::Open(evidence) => tagged(writer, "open", |writer| evidence.put(writer)),
            Self::Conflict { row, seen } => tagged(writer, "conflict", |writer| {
                row.put(writer);
                seen.put(writer);
            }),
            Self::Epoch(evidence) => tagged(writer, "epoch", |writer| evidence.put(writer)),
            Self::Coverage(evidence) => tagged(writer, "coverage", |writer| evidence.put(writer)),
        }
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("evidence", |reader| match reader.atom()? {
            b"none" => Ok(Self::None),
            b"settlement" => {
                SettlementEvidence::take(reader).map(|found| Self::Settlement(Box::new(found)))
            }
            b"open" => OpenEvidence::take(reader).map(|found| Self::Open(Box::new(found))),
            b"conflict" => {
                let row = Box::new(Row::take(reader)?);
                Ok(Self::Conflict { row, seen: Window::take(reader)? })
            }
            b"epoch" => DriverSaid::take(reader).map(Self::Epoch),
            b"coverage" => AgentFacts::take(reader).map(Self::Coverage),
            word => Err(no_such("kind of evidence", word)),
        })
    }
}
