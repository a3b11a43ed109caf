//! What is said of a bundle: three verdicts, and what they rest on.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use serde::Serialize;

use super::folder::shown;
use super::period::Moment;

/// Faults that are told one by one; further ones are counted.
pub(super) const FAULTS_TOLD_MAX: usize = 20;
/// Gaps that are told one by one; further ones are counted.
pub(super) const GAPS_TOLD_MAX: usize = 100;

/// Everything that `audit verify` says; `assets/verify.py` says the same, byte for byte.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// `gpu-ledger-audit-verdict`.
    pub format: &'static str,
    /// Of this format.
    pub version: u32,
    /// Of a bundle, or of one proven settlement.
    pub of: Of,
    /// Which bundle; `None` where it is not whole, since then nothing that it says is known.
    pub bundle: Option<Scope>,
    /// Whether it is what the journal was.
    pub integrity: Integrity,
    /// Whether everything of the period is known; `None` where that cannot be said.
    pub completeness: Option<Completeness>,
    /// Up to when the journal speaks; `None` where that cannot be said.
    pub freshness: Option<Freshness>,
    /// By which key.
    pub key: KeyVerdict,
    /// Whether it continues an older checkpoint; `None` where that was asked and could not be looked at.
    pub witness: Option<Witness>,
    /// The settlement that was proven, of a proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Proven>,
}

/// What was verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// A folder.
    Bundle,
    /// The file of `audit prove`.
    Proof,
}

/// Which bundle.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Scope {
    /// Origin of its checkpoints.
    pub origin: String,
    /// Of which host.
    pub host: String,
    /// Beginning of the period (RFC 3339).
    pub since: String,
    /// Its end.
    pub until: String,
    /// First entry of the range.
    pub first: u64,
    /// Last entry of the range.
    pub last: u64,
    /// Entries of the tree.
    pub size: u64,
    /// Settlements that touch the period.
    pub settlements: u64,
    /// Their milliseconds, each settlement whole.
    pub held_ms: String,
}

/// Whether it is what the journal was.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Integrity {
    /// In a word.
    pub verdict: IntegrityWord,
    /// The first faults.
    pub faults: Vec<Fault>,
    /// How many there are.
    pub faults_total: u64,
}

/// Integrity in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntegrityWord {
    /// Everything proven.
    Good,
    /// Something is not.
    Failed,
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fault {
    /// The file it is about.
    pub file: String,
    /// The entry, where it is about one.
    pub seq: Option<u64>,
    /// What.
    pub what: Cow<'static, str>,
}

/// Whether everything of the period is known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Completeness {
    /// In a word.
    pub verdict: CompletenessWord,
    /// Gaps that touch the period, the first ones.
    pub gaps: Vec<GapTold>,
    /// How many there are.
    pub gaps_total: u64,
    /// What else is not known of it, by word and what it is about.
    pub unknown: Vec<UnknownTold>,
}

/// Completeness in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompletenessWord {
    /// Everything is known.
    Complete,
    /// Something is not.
    Incomplete,
}

/// A gap.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GapTold {
    /// Its entry.
    pub seq: u64,
    /// Why.
    pub cause: &'static str,
    /// Whose rows are in doubt; `None`: every GPU's.
    pub gpu: Option<String>,
    /// Last moment that was seen.
    pub from: Moment,
    /// First moment that was seen again.
    pub to: Moment,
    /// How much was missed, where that is known.
    pub size: Option<u64>,
}

/// Something that is not known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct UnknownTold {
    /// What: a word of [`super::unknown::What`].
    pub what: &'static str,
    /// The reason, the cause or the GPU.
    pub about: Option<String>,
    /// How often.
    pub count: u64,
    /// How many milliseconds are booked with it, where some are.
    pub held_ms: Option<String>,
}

/// Up to when the journal speaks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Freshness {
    /// The last entry of the tree.
    pub seq: u64,
    /// When it was learnt; of a proof: when the settlement was.
    pub learnt: Moment,
    /// Whether the period had been seen to its end; `None` of a proof.
    pub period_seen_to_end: Option<bool>,
}

/// By which key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct KeyVerdict {
    /// Whether it came from elsewhere than the bundle.
    pub verdict: KeyWord,
    /// The key that signed; `None` where integrity failed.
    pub vkey: Option<String>,
}

/// Where the key came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyWord {
    /// From whoever asked, and entries lead from it to the one that signed.
    Given,
    /// From the bundle: whoever can sign can make another bundle.
    NotGiven,
}

/// Whether it continues an older checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Witness {
    /// It does.
    Consistent,
    /// It does not: the journal was cut or changed after that.
    Inconsistent,
    /// The bundle has no proof from that size on.
    WitnessNotProvable,
    /// None was given.
    NotGiven,
}

/// A settlement that was proven by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Proven {
    /// Its entry.
    pub seq: u64,
    /// Which GPU.
    pub gpu: String,
    /// The driver's pid.
    pub pid: u32,
    /// The driver's `startTime`, where it gave one.
    pub start: Option<Moment>,
    /// The driver's `time`.
    pub held_ms: u64,
}

/// Exit status of integrity that failed.
const STATUS_FAILED: u8 = 1;
/// Exit status where something is not known.
const STATUS_UNKNOWN: u8 = 2;

impl Verdict {
    /// Of nothing yet.
    #[must_use]
    pub(super) const fn new(of: Of, integrity: Integrity, key: KeyVerdict) -> Self {
        Self {
            format: "gpu-ledger-audit-verdict",
            version: 1,
            of,
            bundle: None,
            integrity,
            completeness: None,
            freshness: None,
            key,
            witness: None,
            settlement: None,
        }
    }

    /// 0 all good, 1 integrity failed, 2 integrity is good but something is not known.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        let is_complete = |one: &Completeness| one.verdict == CompletenessWord::Complete;
        match (self.integrity.verdict, &self.completeness) {
            (IntegrityWord::Failed, _) => STATUS_FAILED,
            (IntegrityWord::Good, Some(known)) if !is_complete(known) => STATUS_UNKNOWN,
            (IntegrityWord::Good, _) => 0,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.integrity.fmt(f)?;
        if let Some(completeness) = &self.completeness {
            completeness.fmt(f)?;
        }
        if let Some(fresh) = &self.freshness {
            let learnt = fresh.learnt.shown();
            writeln!(f, "freshness: the journal speaks up to {learnt} (entry {})", fresh.seq)?;
            match fresh.period_seen_to_end {
                Some(true) => f.write_str("  the period was seen to its end\n")?,
                Some(false) => f.write_str("  the period was not seen to its end\n")?,
                None => {}
            }
        }
        f.write_str(match self.key.verdict {
            KeyWord::Given => "key: given\n",
            KeyWord::NotGiven => {
                "key: not given; the bundle's own was used, and whoever can sign can make another bundle\n"
            }
        })?;
        f.write_str(match self.witness {
            Some(Witness::Consistent) => "witness: consistent\n",
            Some(Witness::Inconsistent) => "witness: inconsistent\n",
            Some(Witness::WitnessNotProvable) => "witness: witness not provable\n",
            Some(Witness::NotGiven) => "witness: not given\n",
            None => "witness: not looked at\n",
        })
    }
}

impl fmt::Display for Integrity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.verdict {
            IntegrityWord::Good => "integrity: good\n",
            IntegrityWord::Failed => "integrity: failed\n",
        })?;
        for Fault { file, seq, what } in &self.faults {
            match seq {
                Some(seq) => writeln!(f, "  {file}: entry {seq}: {what}")?,
                None => writeln!(f, "  {file}: {what}")?,
            }
        }
        further(f, self.faults_total, self.faults.len(), "")
    }
}

impl fmt::Display for Completeness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.verdict {
            CompletenessWord::Complete => "completeness: complete\n",
            CompletenessWord::Incomplete => "completeness: incomplete\n",
        })?;
        for GapTold { seq, cause, gpu, from, to, size } in &self.gaps {
            let gpu = gpu.as_deref().map_or_else(|| "every GPU".to_owned(), safe);
            let size = size.map_or_else(|| "unknown".to_owned(), |size| size.to_string());
            let (from, to) = (from.shown(), to.shown());
            writeln!(f, "  gap {cause} of {gpu} from {from} to {to}, size {size} (entry {seq})")?;
        }
        further(f, self.gaps_total, self.gaps.len(), " gaps")?;
        for UnknownTold { what, about, count, held_ms } in &self.unknown {
            let mut line = format!("  {what}");
            if let Some(about) = about {
                write!(line, " {}", safe(about))?;
            }
            write!(line, ": {count}")?;
            if let Some(held_ms) = held_ms {
                write!(line, ", {held_ms} ms")?;
            }
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

/// A stranger's name on a terminal.
fn safe(name: &str) -> String {
    shown(name.as_bytes())
}

fn further(f: &mut fmt::Formatter<'_>, total: u64, told: usize, of: &str) -> fmt::Result {
    // A `usize` is at most 64 bits wide wherever this runs.
    match total.saturating_sub(u64::try_from(told).unwrap_or(u64::MAX)) {
        0 => Ok(()),
        more => writeln!(f, "  and {more} more{of}"),
    }
}
