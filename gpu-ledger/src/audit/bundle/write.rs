//! From a journal to a bundle, in one pass over its entries.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use jiff::tz::TimeZone;

use super::argv::ArgvFile;
use super::folder::{Folder, Stream};
use super::readme::{About, readme};
use super::seal::Seal;
use crate::audit::bill::{BillAsked, BillMaker, Finished, document, portable_zone};
use crate::audit::error::BundleError;
use crate::audit::layout::{
    ARGV, BILL_CSV, BILL_FOCUS, BILL_JSON, BILL_TXT, BILL_XLSX, CHECKPOINT, CONTEXT, ENTRIES, KEY,
    LINE_BYTES_MAX, MANIFEST, MANIFEST_SIG, PRICES_DIR, RANGE, README, RULES_DIR, SCHEMA, VERIFY,
    WITNESS, manifest_text,
};
use crate::audit::line::{LinePrinter, Raw};
use crate::audit::manifest::{Manifest, ManifestBill, ManifestPeriod, Of};
use crate::audit::range::{Consistency, Range};
use crate::audit::select::{Selection, select};
use crate::bill::report::Report;
use crate::bill::{By, SharePolicy};
use crate::billing::{JournalFiles, users};
use crate::journal::Digest;
use crate::journal::canon::{self, Texts};
use crate::journal::chain::{self, sha256};
use crate::journal::entry::{Evidence, Figures};
use crate::journal::form::schema;
use crate::journal::note::{Checkpoint, Note, VerifyingKey};
use crate::journal::store::{Files, RawEntry, Tree};
use crate::journal::tree::{Frontier, check_consistency};
use crate::prices::PriceList;
use crate::rendering::rfc3339;
use crate::session::preflight::host_name;
use crate::unit::{Span, WallUs};

/// Entries between two looks at whether it is to go on.
const STEP: u64 = 256;

/// What a bundle is asked to be.
#[derive(Clone, Debug)]
pub struct ExportAsked {
    /// The period, in ms since 1970; from 0: from where the journal begins.
    pub span: Span,
    /// Number of the last entry that is covered.
    pub size: u64,
    /// Where days begin.
    pub zone: TimeZone,
    /// What a line of the bill stands for.
    pub by: By,
    /// How shared time is divided.
    pub share: SharePolicy,
    /// What hours cost, and the text that says so.
    pub prices: Option<(PriceList, String)>,
    /// An older checkpoint, to be shown to be continued.
    pub witness: Option<Vec<u8>>,
}

/// Where a bundle comes from.
pub struct ExportFrom<'a> {
    /// The journal and its archives.
    pub journal: &'a JournalFiles,
    /// What entries name by its SHA-256; `None` where nothing was ever kept.
    pub files: Option<&'a Files>,
    /// Who signs it.
    pub seal: &'a dyn Seal,
}

/// What was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exported {
    /// First entry of the range, last one, and the last that the checkpoint covers.
    pub range: (u64, u64, u64),
    /// Entries beside the range.
    pub context: u64,
    /// The signed checkpoint.
    pub checkpoint: String,
    /// Files of rules that entries name and that are not kept: without them the bill cannot be made again from the rules.
    pub missing: BTreeSet<Digest>,
    /// Everything on the bill is known.
    pub is_known: bool,
}

/// Told how many entries of how many are done; whether to go on.
pub type Tick<'t> = &'t mut dyn FnMut(u64, u64) -> bool;

/// Makes a bundle at `out`, which must not be there; where that fails, nothing is.
///
/// # Errors
/// [`BundleError`].
pub fn export(
    from: &ExportFrom<'_>,
    asked: &ExportAsked,
    out: &Path,
    tick: Tick<'_>,
) -> Result<Exported, BundleError> {
    let zone = portable_zone(&asked.zone)?;
    if from.journal.missing() > 0 {
        return Err(BundleError::Archived { last: from.journal.missing() });
    }
    let mut folder = Folder::begin(out)?;
    let selection = select(from.journal, asked.span, asked.size)?;
    let mut tree = from.journal.tree()?;
    let origin = from.seal.public().name().to_owned();
    let root = tree.root_at(asked.size)?;
    let consistency = witness(asked, &origin, &mut tree, root)?;
    let range = Range {
        of: (selection.first, selection.last, selection.size),
        left: tree.range(0, selection.first.saturating_sub(1))?.hashes().collect(),
        right: tree.range(selection.last, selection.size)?.hashes().collect(),
        booked: selection.opening.head.booked.clone(),
        unresolved: selection.opening.unresolved.keys().copied().collect(),
        consistency,
    };
    let mut writing = Writing::begin(from, asked, &selection, &mut folder, tick)?;
    writing.entries(&mut tree, &range, root)?;
    let Written { bill, rules, now_ms, key } = writing.end(&mut folder)?;
    refuse_other_key(key.as_deref(), from.seal.public(), asked.size)?;

    let checkpoint = from.seal.checkpoint(&mut tree, asked.size)?;
    folder.add(CHECKPOINT, checkpoint.as_bytes())?;
    folder.add(KEY, format!("{}\n", from.seal.public()).as_bytes())?;
    folder.add(RANGE, form(range.text())?.as_bytes())?;
    folder.add(SCHEMA, form(schema())?.as_bytes())?;
    folder.add(VERIFY, include_bytes!("../assets/verify.py"))?;
    #[cfg(feature = "parquet")]
    folder.add(crate::audit::layout::CHECKS, include_bytes!("../assets/checks.sql"))?;
    if let Some(witness) = &asked.witness {
        folder.add(WITNESS, witness)?;
    }
    let missing = add_rules(from, &rules, &mut folder)?;
    let prices = add_prices(asked, &mut folder)?;
    let users = named(&bill);
    let bill_asked = BillAsked {
        span: asked.span,
        now_ms,
        zone: asked.zone.clone(),
        by: asked.by,
        share: asked.share,
        prices: asked.prices.as_ref().map(|(prices, _)| prices.clone()),
    };
    let report = bill.report(bill_asked, root, users.clone())?;
    add_bill(&report, &mut folder)?;

    let of = Of {
        origin,
        journal: hex(from.journal.journal_id()),
        host: bill.ledger().host().map_or_else(String::new, ToString::to_string),
        period: period_of(asked.span, zone),
        bill: ManifestBill {
            by: asked.by.as_str().to_owned(),
            share: asked.share.as_str().to_owned(),
            prices: prices.map(|digest| digest.to_string()),
            now_ms: now_ms.to_string(),
            users,
        },
        range: range.of,
    };
    sign(from, of, root, folder)?;
    let context = u64::try_from(selection.context.len()).unwrap_or(u64::MAX);
    let is_known = report.is_known();
    Ok(Exported { range: range.of, context, checkpoint, missing, is_known })
}

/// Writes what speaks of all the others: readme, manifest, its signature; and gives the folder its name.
fn sign(
    from: &ExportFrom<'_>,
    of: Of,
    root: Digest,
    mut folder: Folder,
) -> Result<(), BundleError> {
    let about = About {
        host: &of.host,
        origin: &of.origin,
        since: &of.period.since,
        until: &of.period.until,
        range: of.range,
        root: root.to_string(),
        key: from.seal.public().to_string(),
        files: &folder.listed(),
    };
    let readme = readme(&about);
    folder.add(README, readme.as_bytes())?;
    let manifest = form(Manifest::new(of, folder.listed()).text())?;
    folder.add_unlisted(MANIFEST, manifest.as_bytes())?;
    let signed = from.seal.note(&manifest_text(sha256(manifest.as_bytes())))?;
    folder.add_unlisted(MANIFEST_SIG, signed.as_bytes())?;
    folder.finish()
}

fn period_of(span: Span, zone: String) -> ManifestPeriod {
    let moment = |ms: u64| rfc3339(WallUs(ms.saturating_mul(1_000))).replace('Z', "+00:00");
    ManifestPeriod {
        since_ms: span.from_ms().to_string(),
        until_ms: span.to_ms().to_string(),
        since: moment(span.from_ms()),
        until: moment(span.to_ms()),
        zone,
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// What cannot be written as text, for no reason of the reader's.
fn form<T, E: std::fmt::Display>(made: Result<T, E>) -> Result<T, BundleError> {
    made.map_err(|error| BundleError::Form(error.to_string()))
}

/// The proof that the witness is continued.
fn witness(
    asked: &ExportAsked,
    origin: &str,
    tree: &mut Tree<'_>,
    root: Digest,
) -> Result<Vec<Consistency>, BundleError> {
    let Some(note) = &asked.witness else { return Ok(Vec::new()) };
    let wrong = |what: String| BundleError::Witness { what };
    // Who signed it is for whoever verifies to know.
    let old = Note::parse(note).and_then(|note| Checkpoint::parse(note.unproven_text()));
    let old = old.map_err(|error| wrong(format!("is no checkpoint: {error}")))?;
    let to = asked.size;
    if *old.origin != *origin {
        return Err(wrong(format!(
            "is of {} and not of {origin}; give one of this journal",
            old.origin
        )));
    }
    if old.size > to {
        let size = old.size;
        let what = format!(
            "is of {size} entries, which are more than {to}; give an older one, or a later --checkpoint"
        );
        return Err(wrong(what));
    }
    let hashes = tree.consistency(old.size, to)?;
    check_consistency((old.size, old.root), (to, root), &hashes).map_err(|error| {
        wrong(format!("is not continued by this journal, which was changed after it: {error}"))
    })?;
    Ok(vec![Consistency { from: old.size, to, hashes }])
}

/// The rules that entries name. Those that are not kept.
fn add_rules(
    from: &ExportFrom<'_>,
    rules: &BTreeSet<Digest>,
    folder: &mut Folder,
) -> Result<BTreeSet<Digest>, BundleError> {
    let mut missing = BTreeSet::new();
    let mut has_folder = false;
    for digest in rules {
        let bytes = from.files.map(|files| files.read(*digest)).transpose()?.flatten();
        let Some(bytes) = bytes else {
            missing.insert(*digest);
            continue;
        };
        if !std::mem::replace(&mut has_folder, true) {
            folder.folder(RULES_DIR)?;
        }
        folder.add(&format!("{RULES_DIR}/{digest}.toml"), &bytes)?;
    }
    Ok(missing)
}

fn add_prices(asked: &ExportAsked, folder: &mut Folder) -> Result<Option<Digest>, BundleError> {
    let Some((_, text)) = &asked.prices else { return Ok(None) };
    let digest = sha256(text.as_bytes());
    folder.folder(PRICES_DIR)?;
    folder.add(&format!("{PRICES_DIR}/{digest}.toml"), text.as_bytes())?;
    Ok(Some(digest))
}

/// What this system calls the users on the bill, where it is the bill's host.
fn named(bill: &Finished) -> BTreeMap<u32, String> {
    let ledger = bill.ledger();
    if ledger.host().is_some_and(|host| *host == host_name()) {
        users(&ledger.uids())
    } else {
        BTreeMap::new()
    }
}

fn add_bill(report: &Report, folder: &mut Folder) -> Result<(), BundleError> {
    for name in [BILL_JSON, BILL_CSV, BILL_TXT, BILL_XLSX] {
        if let Some(bytes) = document(name, report)? {
            folder.add(name, &bytes)?;
        }
    }
    if report.priced.is_some()
        && let Some(bytes) = document(BILL_FOCUS, report)?
    {
        folder.add(BILL_FOCUS, &bytes)?;
    }
    Ok(())
}

/// A checkpoint of before the last rotation is signed by a key that is no more.
fn refuse_other_key(then: Option<&str>, now: &VerifyingKey, size: u64) -> Result<(), BundleError> {
    let now = now.to_string();
    match then {
        Some(then) if *then != now => {
            Err(BundleError::OtherKey { size, then: then.to_owned(), now })
        }
        Some(_) | None => Ok(()),
    }
}

/// The pass over the entries.
struct Writing<'w, 't> {
    journal: &'w JournalFiles,
    selection: &'w Selection,
    range: Stream,
    context: Stream,
    #[cfg(feature = "parquet")]
    table: super::table::EntryTable<Stream>,
    kept_texts: ArgvFile<'w>,
    bill: BillMaker,
    rules: BTreeSet<Digest>,
    /// The last that an entry names.
    key: Option<Arc<str>>,
    now_ms: u64,
    printer: LinePrinter,
    texts: Texts,
    line: String,
    done: u64,
    total: u64,
    tick: Tick<'t>,
}

/// What the pass has learnt.
struct Written {
    bill: Finished,
    rules: BTreeSet<Digest>,
    key: Option<Arc<str>>,
    now_ms: u64,
}

impl<'w, 't> Writing<'w, 't> {
    fn begin(
        from: &ExportFrom<'w>,
        asked: &ExportAsked,
        selection: &'w Selection,
        folder: &mut Folder,
        tick: Tick<'t>,
    ) -> Result<Self, BundleError> {
        let Selection { first, last, context, .. } = selection;
        let beside = u64::try_from(context.len()).unwrap_or(u64::MAX);
        let within = last.saturating_sub(*first).saturating_add(1);
        Ok(Self {
            journal: from.journal,
            selection,
            range: folder.stream(ENTRIES)?,
            context: folder.stream(CONTEXT)?,
            #[cfg(feature = "parquet")]
            table: super::table::EntryTable::new(folder.stream(crate::audit::layout::PARQUET)?)?,
            kept_texts: ArgvFile::new(from.journal, folder.stream(ARGV)?),
            bill: BillMaker::new(asked.by),
            rules: BTreeSet::new(),
            key: None,
            now_ms: 0,
            printer: LinePrinter::default(),
            texts: Texts::default(),
            line: String::new(),
            done: 0,
            total: within.saturating_add(beside),
            tick,
        })
    }

    /// All of them, ascending.
    fn entries(
        &mut self,
        tree: &mut Tree<'_>,
        range: &Range,
        root: Digest,
    ) -> Result<(), BundleError> {
        let Selection { first, last, size, context, .. } = self.selection;
        for seq in context.range(..first) {
            self.beside(*seq, tree)?;
        }
        let mut frontier = Frontier::of(0, first.saturating_sub(1), &range.left)?;
        let journal = self.journal;
        journal.raw::<BundleError>((*first, *last), &mut |raw| {
            frontier.append(raw.leaf);
            self.take(raw, None)
        })?;
        frontier.append_range(*size, &range.right)?;
        if frontier.root() != Some(root) {
            // The journal does not agree with itself.
            let what = "its entries make another root than the tree that is kept; see gpu-ledger journal check";
            return Err(BundleError::Form(what.to_owned()));
        }
        for seq in context.range(last.saturating_add(1)..) {
            self.beside(*seq, tree)?;
        }
        Ok(())
    }

    fn beside(&mut self, seq: u64, tree: &mut Tree<'_>) -> Result<(), BundleError> {
        let proof = tree.inclusion(seq, self.selection.size)?;
        let journal = self.journal;
        journal.raw::<BundleError>((seq, seq), &mut |raw| self.take(raw, Some(&proof)))
    }

    fn take(&mut self, raw: RawEntry<'_>, proof: Option<&[Digest]>) -> Result<(), BundleError> {
        let RawEntry { kept, evidence, .. } = raw;
        let seq = kept.seq;
        let entry = chain::read_sharing(kept, &self.texts)?;
        let because: Evidence = canon::decode_sharing(evidence, &self.texts)?;
        self.line.clear();
        self.printer.print(Raw { kept, evidence }, proof, &mut self.line)?;
        if self.line.len() > LINE_BYTES_MAX {
            let what = format!(
                "entry {seq} is too large for a bundle: its line has {} bytes",
                self.line.len()
            );
            return Err(BundleError::Form(what));
        }
        match proof {
            None => {
                self.range.put(self.line.as_bytes())?;
                #[cfg(feature = "parquet")]
                self.table.row(&entry, &because)?;
            }
            Some(_) => self.context.put(self.line.as_bytes())?,
        }
        self.kept_texts.take(&because)?;
        if let Evidence::Settlement(settlement) = &because {
            let provenance = settlement.provenance.as_ref();
            self.rules.extend(provenance.and_then(|provenance| provenance.rules));
        }
        if let Figures::Key(change) = &entry.figures {
            self.key = Some(Arc::clone(&change.key));
        }
        if seq == self.selection.size {
            self.now_ms = entry.at.stamp.wall.ms();
        }
        self.bill.take(&entry, || Ok(because))?;
        self.done = self.done.saturating_add(1);
        if self.done.checked_rem(STEP) == Some(0) && !(self.tick)(self.done, self.total) {
            return Err(BundleError::Interrupted);
        }
        Ok(())
    }

    fn end(self, folder: &mut Folder) -> Result<Written, BundleError> {
        folder.end(self.range)?;
        folder.end(self.context)?;
        #[cfg(feature = "parquet")]
        folder.end(self.table.finish()?)?;
        folder.end(self.kept_texts.into_stream())?;
        if !(self.tick)(self.done, self.total) {
            return Err(BundleError::Interrupted);
        }
        let Self { bill, rules, key, now_ms, .. } = self;
        Ok(Written { bill: bill.finish()?, rules, key, now_ms })
    }
}
