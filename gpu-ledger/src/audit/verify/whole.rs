//! A bundle's folder, from its names to its verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::ops::ControlFlow;
use std::thread;

use sha2::{Digest as _, Sha256};

use super::books::{Books, Stands};
use super::folder::{Files, shown};
use super::keys::{KeyEntry, Keys, key};
use super::line::{Brings, Line};
use super::period::Moment;
use super::read::{Listed, Manifest, Range};
use super::stream::each_line;
use super::unknown::What;
use super::verdict::{
    Completeness, CompletenessWord, FAULTS_TOLD_MAX, Fault, Freshness, Integrity, IntegrityWord,
    KeyVerdict, KeyWord, Of, Scope, Verdict, Witness,
};
use super::{Known, Wrong};
use crate::journal::chain::sha256;
use crate::journal::entry::{Figures, KeyChange};
use crate::journal::form::schema;
use crate::journal::note::{Checkpoint, Note, VerifyingKey};
use crate::journal::tree::{Frontier, check_consistency, check_inclusion, empty, subtrees};
use crate::journal::{Digest, entry};

/// What the given witness is called among the files.
const WITNESS_GIVEN: &str = "--witness";
const NOT_SIGNED: &str = "is not signed by a key of this journal";
/// Bytes that are hashed at once.
const BLOCK: usize = 1 << 20;

/// Proves a bundle. `faults_max`: after so many faults nothing further is looked at.
#[must_use]
pub(super) fn verify(files: &impl Files, known: &Known, faults_max: Option<u64>) -> Verdict {
    let mut faults = Faults { max: faults_max, ..Faults::default() };
    let whole = Whole { files, known }.check(&mut faults);
    let (proven, witness) = match whole {
        Ok(Found { proven, witness }) => (proven, witness),
        Err(Enough) => (None, None),
    };
    let word = if known.key.is_some() { KeyWord::Given } else { KeyWord::NotGiven };
    let witness = if known.witness.is_some() { witness } else { Some(Witness::NotGiven) };
    let key = KeyVerdict { verdict: word, vkey: None };
    let mut verdict = Verdict::new(Of::Bundle, faults.integrity(), key);
    verdict.witness = witness;
    if let Some(proven) = proven.filter(|_| faults.total == 0) {
        proven.tell(&mut verdict);
    }
    verdict
}

/// Nothing further is to be looked at.
struct Enough;

/// Faults, in the order in which they are told.
#[derive(Default)]
pub(super) struct Faults {
    told: Vec<Fault>,
    total: u64,
    max: Option<u64>,
}

impl Faults {
    fn add(&mut self, file: &str, seq: Option<u64>, wrong: Wrong) -> Result<(), Enough> {
        self.total = self.total.saturating_add(1);
        if self.told.len() < FAULTS_TOLD_MAX {
            self.told.push(Fault { file: file.to_owned(), seq, what: wrong.0 });
        }
        if self.max.is_some_and(|max| self.total >= max) { Err(Enough) } else { Ok(()) }
    }

    /// What a check came to; `None` where it found a fault.
    fn tried<T>(&mut self, file: &str, checked: Result<T, Wrong>) -> Result<Option<T>, Enough> {
        match checked {
            Ok(value) => Ok(Some(value)),
            Err(wrong) => self.add(file, None, wrong).map(|()| None),
        }
    }

    fn append(&mut self, later: Self) {
        self.total = self.total.saturating_add(later.total);
        let room = FAULTS_TOLD_MAX.saturating_sub(self.told.len());
        self.told.extend(later.told.into_iter().take(room));
    }

    fn integrity(&self) -> Integrity {
        let verdict = if self.total == 0 { IntegrityWord::Good } else { IntegrityWord::Failed };
        Integrity { verdict, faults: self.told.clone(), faults_total: self.total }
    }
}

pub(super) struct Whole<'a, F> {
    pub(super) files: &'a F,
    pub(super) known: &'a Known,
}

/// What a look at everything came to.
#[derive(Default)]
struct Found {
    proven: Option<Proven>,
    witness: Option<Witness>,
}

/// What is known of a bundle with no fault.
struct Proven {
    manifest: Manifest,
    key: VerifyingKey,
    books: Books,
    learnt: entry::Moment,
}

impl Proven {
    fn tell(self, verdict: &mut Verdict) {
        let Self { manifest, key, books, learnt } = self;
        let unknown = books.unknown();
        let seen = unknown.iter().all(|one| one.what != What::NotSeenToEnd.as_str());
        verdict.freshness = Some(Freshness {
            seq: manifest.size,
            learnt: Moment::of(learnt.stamp.wall),
            period_seen_to_end: Some(seen),
        });
        verdict.bundle = Some(Scope {
            origin: manifest.origin,
            host: manifest.host,
            since: manifest.period.since,
            until: manifest.period.until,
            first: manifest.first,
            last: manifest.last,
            size: manifest.size,
            settlements: books.settlements,
            held_ms: books.held_ms.to_string(),
        });
        let is_complete = unknown.is_empty() && books.gaps_total == 0;
        let word =
            if is_complete { CompletenessWord::Complete } else { CompletenessWord::Incomplete };
        let Books { gaps, gaps_total, .. } = books;
        verdict.completeness = Some(Completeness { verdict: word, gaps, gaps_total, unknown });
        verdict.key.vkey = Some(key.to_string());
    }
}

/// What everything else is held against.
struct Sealed {
    manifest: Manifest,
    key: VerifyingKey,
    root: Digest,
    range: Range,
}

impl<F: Files> Whole<'_, F> {
    fn check(&self, faults: &mut Faults) -> Result<Found, Enough> {
        let nothing = Found::default();
        let Some(found) = faults.tried(".", self.files.names())? else { return Ok(nothing) };
        let read = self.manifest(&found);
        let Some((manifest, digest)) = faults.tried("manifest.json", read)? else {
            return Ok(nothing);
        };
        let key = faults.tried("key.pub", self.key(&manifest))?;
        if let Some(key) = &key {
            faults.tried("manifest.sig", self.manifest_signature(digest, key))?;
        }
        if faults.max.is_some() {
            self.each_file(&manifest, &found, faults)?;
            return match key {
                Some(key) => self.content(manifest, key, faults),
                None => Ok(nothing),
            };
        }
        // Every byte is hashed beside what is made of the lines, and told before it.
        let mut later = Faults::default();
        let outcome = thread::scope(|scope| {
            let listed = manifest.clone();
            let hashing = scope.spawn(|| {
                let mut hashed = Faults::default();
                let listed = listed;
                drop(self.each_file(&listed, &found, &mut hashed));
                hashed
            });
            let outcome = match key {
                Some(key) => self.content(manifest, key, &mut later),
                None => Ok(nothing),
            };
            let hashed = hashing.join().unwrap_or_else(|_| {
                let mut hashed = Faults::default();
                drop(hashed.add(".", None, "cannot be read".into()));
                hashed
            });
            (outcome, hashed)
        });
        faults.append(outcome.1);
        faults.append(later);
        outcome.0
    }

    fn manifest(&self, found: &BTreeMap<Vec<u8>, bool>) -> Result<(Manifest, Digest), Wrong> {
        plain("manifest.json", found)?;
        let bytes = self.files.small("manifest.json")?;
        Ok((Manifest::read(&bytes)?, sha256(&bytes)))
    }

    fn key(&self, manifest: &Manifest) -> Result<VerifyingKey, Wrong> {
        let bytes = self.files.small("key.pub")?;
        let text = bytes.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
        let key = key(text.unwrap_or_default())?;
        if key.name() == manifest.origin {
            Ok(key)
        } else {
            Err("is the key of another journal".into())
        }
    }

    fn manifest_signature(&self, digest: Digest, key: &VerifyingKey) -> Result<(), Wrong> {
        let note = self.files.small("manifest.sig")?;
        let text = opened_alone(&note, key)?;
        if text == format!("gpu-ledger audit manifest v1\n{digest}\n") {
            Ok(())
        } else {
            Err("signs another manifest".into())
        }
    }

    /// Every file is there, as the manifest says, and no other.
    fn each_file(
        &self,
        manifest: &Manifest,
        found: &BTreeMap<Vec<u8>, bool>,
        faults: &mut Faults,
    ) -> Result<(), Enough> {
        let mut named = BTreeSet::from([&b"manifest.json"[..], &b"manifest.sig"[..]]);
        for file in &manifest.files {
            named.insert(file.name.as_bytes());
            faults.tried(&file.name, self.file(file, found))?;
        }
        for name in found.keys().filter(|name| !named.contains(name.as_slice())) {
            faults.add(&shown(name), None, "is not in the manifest".into())?;
        }
        Ok(())
    }

    /// That a file is what the manifest says.
    pub(super) fn file(
        &self,
        listed: &Listed,
        found: &BTreeMap<Vec<u8>, bool>,
    ) -> Result<(), Wrong> {
        let name = listed.name.as_str();
        plain(name, found)?;
        let (mut file, size) = self.files.open(name)?;
        if Some(size) != listed.size() {
            return Err("has another size than the manifest says".into());
        }
        let mut hash = Sha256::new();
        let mut block = vec![0; BLOCK.min(usize::try_from(size).unwrap_or(BLOCK).max(1))];
        loop {
            match file.read(&mut block) {
                Ok(0) => break,
                Ok(length) => hash.update(block.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let digest = Digest(hash.finalize().into());
        if Some(digest) != listed.digest() {
            return Err("has other bytes than the manifest says".into());
        }
        let of_name =
            ["rules/", "prices/"].into_iter().find_map(|folder| name.strip_prefix(folder));
        let of_name =
            of_name.and_then(|name| super::line::hex(name.strip_suffix(".toml")?.as_bytes()));
        if of_name.is_some_and(|of_name| of_name != digest) {
            return Err("is not the file of that name".into());
        }
        Ok(())
    }

    /// Everything that the files say.
    fn content(
        &self,
        manifest: Manifest,
        key: VerifyingKey,
        faults: &mut Faults,
    ) -> Result<Found, Enough> {
        let root = faults.tried("checkpoint", self.checkpoint(&manifest, &key))?;
        let range = self.files.small("range.json").and_then(|bytes| Range::read(&bytes, &manifest));
        let range = faults.tried("range.json", range)?;
        let is_form = faults.tried("schema.json", self.form())?;
        let (Some(root), Some(range), Some(())) = (root, range, is_form) else {
            return Ok(Found::default());
        };
        let books = Books::new(manifest.period());
        let sealed = Sealed { manifest, key, root, range };
        Following {
            whole: self,
            sealed: &sealed,
            faults,
            books,
            keys: Keys::default(),
            edges: Edges::default(),
        }
        .follow()
        .map(|(proven, witness)| {
            let proven = proven.map(|(books, learnt)| Proven {
                manifest: sealed.manifest,
                key: sealed.key,
                books,
                learnt,
            });
            Found { proven, witness }
        })
    }

    fn checkpoint(&self, manifest: &Manifest, key: &VerifyingKey) -> Result<Digest, Wrong> {
        let note = self.files.small("checkpoint")?;
        let point = point(opened_alone(&note, key)?)?;
        if *point.origin != *manifest.origin {
            return Err("is of another journal".into());
        }
        if point.size != manifest.size {
            return Err("is of another size than the manifest says".into());
        }
        Ok(point.root)
    }

    fn form(&self) -> Result<(), Wrong> {
        let bytes = self.files.small("schema.json")?;
        match schema() {
            Ok(schema) if schema.as_bytes() == bytes => Ok(()),
            _ => Err("is not the form of entries of this version".into()),
        }
    }
}

fn plain(name: &str, found: &BTreeMap<Vec<u8>, bool>) -> Result<(), Wrong> {
    match found.get(name.as_bytes()) {
        Some(true) => Ok(()),
        Some(false) => Err("is not a plain file".into()),
        None => Err("is missing".into()),
    }
}

fn noted(bytes: &[u8]) -> Result<Note<'_>, Wrong> {
    Ok(Note::parse(bytes).map_err(|_| "is not a signed note")?)
}

pub(super) fn point(text: &str) -> Result<Checkpoint, Wrong> {
    Ok(Checkpoint::parse(text).map_err(|_| "is not a checkpoint")?)
}

/// The text of a note that this key signed, and nobody else.
pub(super) fn opened_alone<'n>(note: &'n [u8], key: &VerifyingKey) -> Result<&'n str, Wrong> {
    let note = noted(note)?;
    if note.signatures() != 1 {
        return Err(NOT_SIGNED.into());
    }
    Ok(note.verify(&[key]).map_err(|_| NOT_SIGNED)?)
}

/// The text of a note that one of these keys signed.
pub(super) fn opened<'n>(note: &'n [u8], keys: &[&VerifyingKey]) -> Result<&'n str, Wrong> {
    Ok(noted(note)?.verify(keys).map_err(|_| NOT_SIGNED)?)
}

/// What is known of the entries around the range.
#[derive(Default)]
struct Edges {
    before_first: Option<Digest>,
    after_last: Option<Digest>,
    learnt: Option<entry::Moment>,
}

/// Entries, one after the other.
struct Following<'a, 'f, F> {
    whole: &'a Whole<'a, F>,
    sealed: &'a Sealed,
    faults: &'f mut Faults,
    books: Books,
    keys: Keys,
    edges: Edges,
}

type Outcome = (Option<(Books, entry::Moment)>, Option<Witness>);

impl<F: Files> Following<'_, '_, F> {
    fn follow(mut self) -> Result<Outcome, Enough> {
        let beside = self.beside()?;
        self.faults.tried("context.jsonl", beside)?;
        self.books.open_range(self.sealed.range.opening.clone());
        let witnesses = self.witnesses()?;
        let sizes = witnesses.iter().filter_map(|(_, note)| {
            let point = point(noted(note).ok()?.unproven_text()).ok()?;
            Some((point.size, None))
        });
        let mut roots: BTreeMap<u64, Option<Digest>> = sizes.collect();
        let is_whole = self.range(&mut roots)?;
        if is_whole && self.edges.learnt.is_none() {
            self.faults.add(
                "context.jsonl",
                Some(self.sealed.manifest.size),
                "is missing".into(),
            )?;
        }
        for seq in self.books.end() {
            let Manifest { first, last, .. } = self.sealed.manifest;
            let stands = if (first..=last).contains(&seq) { Stands::Near } else { Stands::Beside };
            self.faults.add(
                stands.file(),
                Some(seq),
                "books a row that is booked already".into(),
            )?;
        }
        let trusted = self.trusted()?;
        if !is_whole {
            roots.clear();
        }
        let mut witness = None;
        for (file, note) in &witnesses {
            let met = self.faults.tried(file, self.meets(note, &trusted, &roots))?;
            if *file == WITNESS_GIVEN {
                witness = Some(met.unwrap_or(Witness::Inconsistent));
            }
        }
        Ok((self.edges.learnt.map(|learnt| (self.books, learnt)), witness))
    }

    /// Entries beside the range, each with its path.
    fn beside(&mut self) -> Result<Result<(), Wrong>, Enough> {
        let file = match self.whole.files.open("context.jsonl") {
            Ok((file, _)) => file,
            Err(error) => return Ok(Err(error.into())),
        };
        let Manifest { first, last, size, .. } = self.sealed.manifest;
        let (mut before, mut enough, mut wrong) = ((0, Digest::NONE), false, None);
        let outcome = each_line(file, Brings::Proof, |line| {
            let is_own = line.seq > before.0 && line.seq <= size;
            if !is_own || (first..=last).contains(&line.seq) {
                wrong = Some(Wrong::from("has entries that are not in order, or not its own"));
                return ControlFlow::Break(());
            }
            let leaf = (line.seq.saturating_sub(1), line.leaf);
            let is_in = check_inclusion(leaf, (size, self.sealed.root), &line.proof).is_ok();
            let follows = line.seq != before.0.saturating_add(1) || line.previous == before.1;
            before = (line.seq, line.hash);
            if line.seq == first.saturating_sub(1) {
                self.edges.before_first = Some(line.hash);
            }
            if line.seq == last.saturating_add(1) {
                self.edges.after_last = Some(line.previous);
            }
            let faults = [
                (!is_in, "is not in the tree of the checkpoint"),
                (!follows, "does not follow the entry before it"),
            ];
            let faults = faults.into_iter().filter_map(|(is, what)| is.then_some(what));
            if self.take(&line, Stands::Beside, faults).is_err() {
                enough = true;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        if enough {
            return Err(Enough);
        }
        Ok(wrong.map_or(outcome, Err))
    }

    /// What one entry says beside the others.
    fn take(
        &mut self,
        line: &Line,
        stands: Stands,
        more: impl Iterator<Item = &'static str>,
    ) -> Result<(), Enough> {
        if line.seq == self.sealed.manifest.size {
            self.edges.learnt = Some(line.at);
        }
        let mut told: Vec<&'static str> = more.collect();
        if let Some(key) = line.key {
            self.books.book(key);
        }
        if let Figures::Key(change) = &line.figures {
            let KeyChange { key, previous, signature } = change.as_ref().clone();
            self.keys.take(KeyEntry { seq: line.seq, stands, key, previous, signature });
        }
        self.books.take((line.seq, &line.figures), stands, |what| told.push(what));
        told.extend(&line.wrong);
        for what in told {
            self.faults.add(stands.file(), Some(line.seq), what.into())?;
        }
        Ok(())
    }

    /// The range, leaf by leaf, up to the root. Whether it is whole, whatever else is wrong.
    fn range(&mut self, roots: &mut BTreeMap<u64, Option<Digest>>) -> Result<bool, Enough> {
        const FILE: &str = "entries.jsonl";
        let Manifest { first, last, size, .. } = self.sealed.manifest;
        let mut tree = Growing { frontier: Frontier::default(), roots };
        let begin = first.saturating_sub(1);
        if tree.append(begin, &self.sealed.range.left).is_none() {
            return Ok(false);
        }
        let file = match self.whole.files.open(FILE) {
            Ok((file, _)) => file,
            Err(error) => return self.faults.add(FILE, None, error.into()).map(|()| false),
        };
        let hash = if first == 1 { Some(Digest::NONE) } else { self.edges.before_first };
        let (mut before, mut enough, mut wrong) = ((begin, hash), false, None);
        let outcome = each_line(file, Brings::Entry, |line| {
            if let Some(what) = unfit(&line, before, last) {
                wrong = Some(Wrong::from(what));
                return ControlFlow::Break(());
            }
            before = (line.seq, Some(line.hash));
            tree.push(line.leaf);
            if self.take(&line, Stands::Near, std::iter::empty()).is_err() {
                enough = true;
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        if enough {
            return Err(Enough);
        }
        let mut outcome = wrong.map_or(outcome, Err);
        if outcome.is_ok() && before.0 != last {
            outcome = Err("ends before its last entry".into());
        }
        if outcome.is_ok() && self.edges.after_last.is_some_and(|after| Some(after) != before.1) {
            outcome = Err("is followed by another entry".into());
        }
        if let Err(wrong) = outcome {
            let seq = before.0.saturating_add(1).min(last);
            return self.faults.add(FILE, Some(seq), wrong).map(|()| false);
        }
        tree.append(size, &self.sealed.range.right);
        if tree.frontier.root() != Some(self.sealed.root) {
            self.faults.add("checkpoint", None, "has another root than its entries".into())?;
        }
        Ok(true)
    }

    /// Every key of the journal; the given one leads to the bundle's.
    fn trusted(&mut self) -> Result<Vec<VerifyingKey>, Enough> {
        let mut told = Vec::new();
        let keys = std::mem::take(&mut self.keys);
        let chained = keys.chained(&self.sealed.key, |entry, wrong| told.push((entry, wrong)));
        for (entry, wrong) in told {
            match entry {
                Some((stands, seq)) => self.faults.add(stands.file(), Some(seq), wrong)?,
                None => self.faults.add("key.pub", None, wrong)?,
            }
        }
        self.books.lose_keys(chained.lost);
        if self.whole.known.key.as_ref().is_some_and(|given| !chained.leading.contains(given)) {
            let wrong = "is not the key that was given, and no entry leads from that to it";
            self.faults.add("key.pub", None, wrong.into())?;
        }
        Ok(chained.all)
    }

    /// Older checkpoints: the one that the bundle was made with, and the one that was given.
    fn witnesses(&mut self) -> Result<Vec<(&'static str, Vec<u8>)>, Enough> {
        let mut known = Vec::new();
        if self.sealed.manifest.files.iter().any(|file| file.name == "witness") {
            let note = self.faults.tried("witness", self.whole.files.small("witness"))?;
            known.extend(note.map(|note| ("witness", note)));
        }
        let given = self.whole.known.witness.clone();
        known.extend(given.map(|note| (WITNESS_GIVEN, note)));
        Ok(known)
    }

    /// Whether an older checkpoint is of the same journal.
    fn meets(
        &self,
        note: &[u8],
        trusted: &[VerifyingKey],
        roots: &BTreeMap<u64, Option<Digest>>,
    ) -> Result<Witness, Wrong> {
        let Sealed { manifest, root, range, .. } = self.sealed;
        let old = point(opened(note, &trusted.iter().collect::<Vec<_>>())?)?;
        if *old.origin != *manifest.origin {
            return Err("is of another journal".into());
        }
        if old.size > manifest.size {
            let what =
                "is of a longer journal: the end of this one was cut off, or it was written anew";
            return Err(what.into());
        }
        let here =
            if old.size == 0 { Some(empty()) } else { roots.get(&old.size).copied().flatten() };
        let proof = range.consistency.iter().find(|proof| proof.from == old.size);
        let is_same = match (here, proof) {
            (Some(here), _) => here == old.root,
            (None, Some(proof)) => {
                let (old, new) = ((old.size, old.root), (manifest.size, *root));
                check_consistency(old, new, &proof.hashes).is_ok()
            }
            (None, None) => return Ok(Witness::WitnessNotProvable),
        };
        if is_same {
            Ok(Witness::Consistent)
        } else {
            Err("has another root: the journal was changed after it".into())
        }
    }
}

/// What of an entry does not fit the one before it.
fn unfit(line: &Line, before: (u64, Option<Digest>), last: u64) -> Option<&'static str> {
    if before.0 == last {
        return Some("has entries after its last");
    }
    if line.seq != before.0.saturating_add(1) {
        return Some("stands where another entry must");
    }
    let follows = before.1.is_none_or(|hash| line.previous == hash);
    (!follows).then_some("does not follow the entry before it")
}

/// A tree that grows, and its roots at the sizes that are asked for.
struct Growing<'r> {
    frontier: Frontier,
    roots: &'r mut BTreeMap<u64, Option<Digest>>,
}

impl Growing<'_> {
    fn push(&mut self, leaf: Digest) {
        self.frontier.append(leaf);
        self.note();
    }

    /// The leaves up to `end`, by the hashes of their subtrees; `None` where those are not as many.
    fn append(&mut self, end: u64, hashes: &[Digest]) -> Option<()> {
        for (subtree, hash) in subtrees(self.frontier.end(), end).zip(hashes) {
            self.frontier.append_subtree(subtree.level, *hash).ok()?;
            self.note();
        }
        (self.frontier.end() == end).then_some(())
    }

    fn note(&mut self) {
        if let Some(root) = self.roots.get_mut(&self.frontier.end()) {
            *root = self.frontier.root();
        }
    }
}
