//! The bill of a bundle, derived again: every settlement from what it rests on and from the rules in the bundle, and
//! every form of the bill from the entries. What comes out is compared byte for byte with what was sent.
//!
//! What somebody moved to another account by hand is an entry, and stays. What cannot be derived any more, as the
//! arguments that its rules look at were erased, is counted and is no difference. That the bundle is the one that was
//! signed is for verification, which is to come before.

mod argv;
mod text;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use serde::Serialize;

use self::argv::ArgvIndex;
pub use self::text::render;
use super::bill::{BillAsked, BillMaker, document, zone_of};
use super::error::BundleError;
use super::layout::{
    BILL_CSV, BILL_FOCUS, BILL_JSON, BILL_TXT, BILL_XLSX, CHECKPOINT, KEY, PRICES_DIR, RULES_DIR,
};
use super::manifest::Manifest;
use super::read::Bundle;
use crate::argv::{CmdlineMode, StoredText};
use crate::attribution::rules::RuleSet;
use crate::billing::account_by;
use crate::journal::Digest;
use crate::journal::entry::{Entry, Evidence, Figures, SettlementEvidence, SettlementFigures};
use crate::journal::note::{Checkpoint, VerifyingKey};
use crate::prices;
use crate::settlement::Account;
use crate::unit::Span;

/// The name of the format.
const FORMAT: &str = "gpu-ledger-audit-replay";
/// Its version.
const VERSION: u32 = 1;
/// Differences that are listed; the rest is counted.
pub const DIFFERENCES_MAX: usize = 100;
/// Bytes that are compared at once.
const CHUNK_BYTES: usize = 64 << 10;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Replayed {
    format: &'static str,
    version: u32,
    /// Which journal, in hex.
    pub journal: String,
    /// Its host; empty where it does not say.
    pub host: String,
    /// Number of the last entry that the bundle covers.
    pub size: u64,
    /// All of it.
    pub verdict: Verdict,
    /// Settlements in the bundle.
    pub settlements: u64,
    /// Of these, derived again, and the same.
    pub same: u64,
    /// The first [`DIFFERENCES_MAX`] figures that are others.
    pub differences: Vec<Difference>,
    /// All of them.
    pub differences_total: u64,
    /// Settlements whose account cannot be derived, by why.
    pub undecided: Vec<Undecided>,
    /// The forms of the bill.
    pub documents: Vec<Document>,
}

/// Whether it is the same again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every figure and every byte.
    Same,
    /// Something is not.
    Differs,
    /// Everything that can be derived still.
    SameAsFarAsKnown,
}

impl Verdict {
    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Differs => "differs",
            Self::SameAsFarAsKnown => "same-as-far-as-known",
        }
    }
}

/// A figure that is another one when it is derived again.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Difference {
    /// Of which entry.
    pub seq: u64,
    /// Which.
    pub what: &'static str,
    /// As it was entered.
    pub entered: String,
    /// As it comes out of the evidence and the rules.
    pub derived: String,
}

/// Settlements whose account cannot be derived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Undecided {
    /// Why.
    pub why: Why,
    /// How many.
    pub settlements: u64,
}

/// Why an account cannot be derived.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// Its rules look at arguments, and they are not stored any more.
    EvidenceErased,
    /// The file of rules that it names is not in the bundle, or this version cannot read it.
    RulesNotInBundle,
    /// It is from before entries said by which rules they were made.
    NoProvenance,
    /// Its rules look at arguments, of which less is stored than they may have seen.
    ArgvRedacted,
}

impl Why {
    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EvidenceErased => "evidence-erased",
            Self::RulesNotInBundle => "rules-not-in-bundle",
            Self::NoProvenance => "no-provenance",
            Self::ArgvRedacted => "argv-redacted",
        }
    }
}

/// A form of the bill.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Document {
    /// Its file.
    pub file: String,
    /// Whether it is the same.
    pub state: DocumentState,
    /// The first byte that is another one; null where there is none.
    pub first_byte: Option<u64>,
}

/// Whether a form of the bill is the same again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentState {
    /// Byte for byte.
    Same,
    /// It is not.
    Differs,
    /// This program makes no such form.
    NotMade,
}

impl DocumentState {
    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Differs => "differs",
            Self::NotMade => "not-made",
        }
    }
}

impl Replayed {
    /// Exit status: 0 the same, 1 not, 2 as far as can be told.
    #[must_use]
    pub const fn status(&self) -> u8 {
        match self.verdict {
            Verdict::Same => 0,
            Verdict::Differs => 1,
            Verdict::SameAsFarAsKnown => 2,
        }
    }
}

/// Derives the bill of a bundle again.
///
/// # Errors
/// What keeps it from reading; that the bill cannot be made of the entries.
pub fn replay(bundle: &Bundle) -> Result<Replayed, BundleError> {
    let manifest = bundle.manifest();
    let asked = asked(bundle)?;
    let mut deriving = Deriving::of(bundle)?;
    let mut maker = BillMaker::new(asked.by);
    for one in bundle.all()? {
        let one = one?;
        if let Figures::Settlement(figures) = &one.entry.figures {
            deriving.take(&one.entry, figures, &one.because()?)?;
        }
        maker.take(&one.entry, || one.because())?;
    }
    let report = maker.finish()?.report(asked, root(bundle)?, manifest.bill.users.clone())?;
    let mut documents = Vec::new();
    for name in [BILL_JSON, BILL_CSV, BILL_TXT, BILL_XLSX, BILL_FOCUS] {
        if bundle.has(name) {
            let made = document(name, &report)?;
            documents.push(compared(name, bundle.file(name)?, made.as_deref())?);
        }
    }
    let Deriving { settlements, same, differences, differences_total, undecided, .. } = deriving;
    let differs = |one: &Document| one.state == DocumentState::Differs;
    let is_known =
        undecided.is_empty() && documents.iter().all(|one| one.state == DocumentState::Same);
    Ok(Replayed {
        format: FORMAT,
        version: VERSION,
        journal: manifest.journal.clone(),
        host: manifest.host.clone(),
        size: manifest.size,
        verdict: match (differences_total > 0 || documents.iter().any(differs), is_known) {
            (true, _) => Verdict::Differs,
            (false, true) => Verdict::Same,
            (false, false) => Verdict::SameAsFarAsKnown,
        },
        settlements,
        same,
        differences,
        differences_total,
        undecided: undecided
            .into_iter()
            .map(|(why, settlements)| Undecided { why, settlements })
            .collect(),
        documents,
    })
}

/// What the bill was asked to be, as the manifest says.
fn asked(bundle: &Bundle) -> Result<BillAsked, BundleError> {
    let manifest: &Manifest = bundle.manifest();
    let wrong = |what: &str| BundleError::wrong(super::layout::MANIFEST, what);
    let (from, to) = manifest.span_ms().ok_or_else(|| wrong("has no period"))?;
    let span = Span::new(from, to).ok_or_else(|| wrong("has no period"))?;
    let zone = zone_of(&manifest.period.zone)?;
    let prices = match &manifest.bill.prices {
        None => None,
        Some(digest) => {
            let name = format!("{PRICES_DIR}/{digest}.toml");
            let text = String::from_utf8(bundle.document(&name)?)
                .map_err(|_| BundleError::wrong(&name, "is no text"))?;
            let list = prices::parse(&text, &zone).map_err(|faults| {
                BundleError::wrong(&name, format!("cannot be read: {}", faults.told(&name)))
            })?;
            Some(list)
        }
    };
    Ok(BillAsked {
        span,
        now_ms: manifest.now_ms().ok_or_else(|| wrong("has no moment of its bill"))?,
        zone,
        by: manifest.bill.by.parse()?,
        share: manifest.bill.share.parse()?,
        prices,
    })
}

/// The root of the tree, as the checkpoint has it.
///
/// # Errors
/// Where it is not signed by the key in the bundle.
pub fn root(bundle: &Bundle) -> Result<Digest, BundleError> {
    let key = String::from_utf8(bundle.document(KEY)?)
        .map_err(|_| BundleError::wrong(KEY, "is no text"))?;
    let key: VerifyingKey = key.trim_end_matches('\n').parse()?;
    Ok(Checkpoint::open(&bundle.document(CHECKPOINT)?, &[&key])?.root)
}

fn compared(name: &str, file: File, made: Option<&[u8]>) -> Result<Document, BundleError> {
    let of = |state, first_byte| Document { file: name.to_owned(), state, first_byte };
    let Some(made) = made else { return Ok(of(DocumentState::NotMade, None)) };
    let differs = |at: usize| of(DocumentState::Differs, u64::try_from(at).ok());
    let mut file = BufReader::with_capacity(CHUNK_BYTES, file);
    let (mut at, mut chunk) = (0_usize, vec![0; CHUNK_BYTES]);
    loop {
        let read = file.read(&mut chunk).map_err(BundleError::io("read", Path::new(name)))?;
        let sent = chunk.get(..read).unwrap_or_default();
        let rest = made.get(at..).unwrap_or_default();
        if read == 0 {
            let is_whole = rest.is_empty();
            return Ok(if is_whole { of(DocumentState::Same, None) } else { differs(at) });
        }
        let same = sent.iter().zip(rest).take_while(|(one, other)| one == other).count();
        at = at.saturating_add(same);
        if same < read {
            return Ok(differs(at));
        }
    }
}

/// What is derived of settlements, one after the other.
struct Deriving {
    rules: BTreeMap<Digest, RuleSet>,
    none: RuleSet,
    /// `None`: no rules look at arguments.
    kept: Option<ArgvIndex>,
    settlements: u64,
    same: u64,
    differences: Vec<Difference>,
    differences_total: u64,
    undecided: BTreeMap<Why, u64>,
}

/// What comes of an account.
enum Derived {
    Same,
    Other(Account),
    Undecided(Why),
}

impl Deriving {
    fn of(bundle: &Bundle) -> Result<Self, BundleError> {
        let mut rules = BTreeMap::new();
        for bytes in bundle.below(RULES_DIR)?.into_values() {
            // Of what this version cannot read nothing is derived.
            if let Ok(set) = RuleSet::parse(&bytes) {
                rules.insert(set.digest(), set);
            }
        }
        let looks = rules.values().any(RuleSet::looks_at_argv);
        Ok(Self {
            kept: looks.then(|| ArgvIndex::of(bundle)).transpose()?,
            rules,
            none: RuleSet::default(),
            settlements: 0,
            same: 0,
            differences: Vec::new(),
            differences_total: 0,
            undecided: BTreeMap::new(),
        })
    }

    fn take(
        &mut self,
        entry: &Entry,
        figures: &SettlementFigures,
        because: &Evidence,
    ) -> Result<(), BundleError> {
        self.settlements = self.settlements.saturating_add(1);
        let before = self.differences_total;
        let Evidence::Settlement(evidence) = because else {
            self.differs(entry.seq, "evidence", "of a settlement".to_owned(), "of none".to_owned());
            return Ok(());
        };
        for (what, entered, derived) in said(figures, evidence) {
            if entered != derived {
                self.differs(entry.seq, what, entered, derived);
            }
        }
        match self.account(figures, evidence)? {
            Derived::Same if before == self.differences_total => {
                self.same = self.same.saturating_add(1);
            }
            Derived::Same => {}
            Derived::Other(account) => {
                self.differs(entry.seq, "account", called(&figures.account), called(&account));
            }
            Derived::Undecided(why) => {
                let count = self.undecided.entry(why).or_default();
                *count = count.saturating_add(1);
            }
        }
        Ok(())
    }

    fn differs(&mut self, seq: u64, what: &'static str, entered: String, derived: String) {
        self.differences_total = self.differences_total.saturating_add(1);
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(Difference { seq, what, entered, derived });
        }
    }

    /// The account by the rules that were in force.
    fn account(
        &self,
        figures: &SettlementFigures,
        evidence: &SettlementEvidence,
    ) -> Result<Derived, BundleError> {
        // That nobody is known stands among what is said; why is no rule's matter.
        let Some(identity) = &evidence.identity else { return Ok(Derived::Same) };
        let Some(provenance) = &evidence.provenance else {
            return Ok(Derived::Undecided(Why::NoProvenance));
        };
        let rules = match provenance.rules {
            None => &self.none,
            Some(digest) => match self.rules.get(&digest) {
                None => return Ok(Derived::Undecided(Why::RulesNotInBundle)),
                Some(rules) => rules,
            },
        };
        let place = identity.argv.place().filter(|_| rules.looks_at_argv());
        let mut kept = None;
        if let (Some(place), Some(argv)) = (place, &self.kept) {
            kept = argv.get(place)?;
        }
        let was_stored = !matches!(identity.argv.mode, Some(CmdlineMode::None | CmdlineMode::Exe));
        let is_missing = place.is_some() && kept.is_none();
        if is_missing && was_stored {
            return Ok(Derived::Undecided(Why::EvidenceErased));
        }
        // The first word's file is not the arguments.
        let kept = kept.filter(|kept| kept.text != StoredText::Exe).map(|kept| kept.argv);
        let has_argv = kept.is_some();
        let account = account_by(rules, figures, evidence, kept);
        Ok(if account == figures.account {
            Derived::Same
        } else if place.is_some() && !has_argv {
            // An earlier run may have stored more, and rules saw it.
            Derived::Undecided(Why::ArgvRedacted)
        } else {
            Derived::Other(account)
        })
    }
}

/// The figures that the evidence says by itself: which, as it was entered, and as it comes out.
fn said(
    figures: &SettlementFigures,
    evidence: &SettlementEvidence,
) -> [(&'static str, String, String); 9] {
    fn or_none(value: Option<impl ToString>) -> String {
        value.map_or_else(|| "none".to_owned(), |value| value.to_string())
    }
    let row = &evidence.row;
    let identity = evidence.identity.as_ref();
    let is_known = |is_known: bool| if is_known { "known" } else { "unattributed" }.to_owned();
    let us = |start: Option<crate::unit::WallUs>| or_none(start.map(|start| start.0));
    [
        ("gpu", figures.gpu.to_string(), row.gpu.to_string()),
        ("pid", figures.pid.to_string(), row.pid.to_string()),
        ("start_us", us(figures.start), us(row.start)),
        ("held_ms", figures.held.0.to_string(), row.held.0.to_string()),
        ("read_at_us", figures.read_at.wall.0.to_string(), evidence.seen.ended.wall.0.to_string()),
        (
            "memory_peak",
            or_none(figures.memory_peak.map(|peak| peak.0)),
            or_none(row.memory_peak.known().map(|peak| peak.0)),
        ),
        ("uid", or_none(figures.uid), or_none(identity.and_then(|one| one.user.uid))),
        (
            "basis",
            or_none(figures.basis.map(crate::identity::Basis::as_str)),
            or_none(identity.map(|one| one.basis.as_str())),
        ),
        (
            "identity",
            is_known(figures.account.unattributed().is_none()),
            is_known(identity.is_some()),
        ),
    ]
}

/// An account with what named it.
fn called(account: &Account) -> String {
    match account {
        Account::Ruled { name, rule } => format!("{name} (rule {})", rule.0),
        Account::Unclassified { name, ground: Some(ground) } => format!("{name} ({ground})"),
        Account::Unclassified { .. } | Account::Unattributed(_) => account.to_string(),
    }
}

#[cfg(test)]
mod tests;
