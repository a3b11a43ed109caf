//! Signed notes and checkpoints of a tree. Pure.
//!
//! The formats are those that transparency logs share: C2SP `signed-note` and `tlog-checkpoint`, with Ed25519 keys
//! (signature type 0x01), so that any witness and any checker of such logs reads ours. A verifying key is
//! `name+hex id+base64(0x01 || key)` and a signing key `PRIVATE+KEY+name+hex id+base64(0x01 || seed)`, as
//! golang.org/x/mod/sumdb/note prints them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::Signer as _;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::Digest;

/// Signature type of Ed25519 (C2SP signed-note, "Signature types").
const ED25519: u8 = 1;
/// What a signature line begins with: an em dash.
const SIGNATURE_LINE: &str = "— ";
/// What a signing key's text begins with.
const PRIVATE: &str = "PRIVATE+KEY+";
/// Bytes of a seed.
pub const SEED_LENGTH: usize = 32;

/// Bytes of a note at most: sixteen signatures, which all must accept, have 7 KB each at the very most.
pub const NOTE_BYTES_MAX: usize = 256 << 10;
/// Signature lines of a note at most.
pub const SIGNATURES_MAX: usize = 64;
/// Bytes of a key's name at most.
const NAME_BYTES_MAX: usize = 255;

/// What an origin begins with.
const ORIGIN: &str = "gpu-ledger/";
/// What a machine's id is hashed after, so that an origin tells nothing of it.
const MACHINE: &[u8] = b"gpu-ledger machine";
/// What the text begins with that the key before signs of the next one.
const KEY_CHANGE: &str = "gpu-ledger key change v1";

/// Why bytes are no note, no key or no checkpoint, or prove nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoteError {
    /// More than a note may have.
    #[error("a signed note has at most {NOTE_BYTES_MAX} bytes and {SIGNATURES_MAX} signatures")]
    TooLong,
    /// It is not of the form.
    #[error("this is no signed note: {0}")]
    Form(&'static str),
    /// It is no key.
    #[error("this is no key: {0}; a key is one line: name+id+base64")]
    Key(&'static str),
    /// The text is no checkpoint.
    #[error("this is no checkpoint: {0}")]
    Checkpoint(&'static str),
    /// None of its signatures is by a key that was given.
    #[error("it is not signed by {wanted}")]
    Unsigned {
        /// The keys, by name and id.
        wanted: String,
    },
    /// A signature of a key that was given is wrong.
    #[error("the signature of {key} is wrong: the text was changed, or another key signed it")]
    Signature {
        /// The key, by name and id.
        key: String,
    },
    /// It is of another log.
    #[error("it is of {found} and not of {wanted}")]
    Origin {
        /// As it says.
        found: String,
        /// As was asked for.
        wanted: String,
    },
}

/// The first four bytes of the SHA-256 of a key's name, its type and the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyId(pub [u8; 4]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

/// A key that checks signatures.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyingKey {
    name: Arc<str>,
    id: KeyId,
    key: ed25519_dalek::VerifyingKey,
}

impl VerifyingKey {
    fn new(name: &str, key: ed25519_dalek::VerifyingKey) -> Result<Self, NoteError> {
        if !is_name(name) {
            return Err(NoteError::Key("its name is empty, too long, or has blanks or a plus"));
        }
        if key.is_weak() {
            return Err(NoteError::Key("anyone can sign for it"));
        }
        let hash = Sha256::new().chain_update(name).chain_update([b'\n', ED25519]);
        let hash = hash.chain_update(key.as_bytes()).finalize();
        let id = KeyId(hash.first_chunk().copied().unwrap_or_default());
        Ok(Self { name: name.into(), id, key })
    }

    /// Its name: of ours the origin of the log.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// Checks a bare signature. Strict: of one message and key there is one signature that passes.
    ///
    /// # Errors
    /// [`NoteError::Signature`].
    pub fn check(&self, text: &str, signature: &[u8]) -> Result<(), NoteError> {
        let checked = ed25519_dalek::Signature::from_slice(signature)
            .and_then(|signature| self.key.verify_strict(text.as_bytes(), &signature));
        checked.map_err(|_| NoteError::Signature { key: self.called() })
    }

    /// Its name and id, for people.
    fn called(&self) -> String {
        format!("{}+{}", self.name, self.id)
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}+{}", self.name, self.id, typed(self.key.as_bytes()).as_str())
    }
}

impl FromStr for VerifyingKey {
    type Err = NoteError;

    fn from_str(text: &str) -> Result<Self, NoteError> {
        let (name, id, bytes) = read_key(text)?;
        let key = ed25519_dalek::VerifyingKey::from_bytes(&bytes)
            .map_err(|_| NoteError::Key("its bytes are no point of the curve"))?;
        let key = Self::new(name, key)?;
        if key.id.to_string() == id {
            Ok(key)
        } else {
            Err(NoteError::Key("its id is not that of its name and bytes"))
        }
    }
}

/// A key that signs. Its secret is overwritten when it goes.
pub struct SigningKey {
    public: VerifyingKey,
    secret: ed25519_dalek::SigningKey,
}

impl SigningKey {
    /// The key of a seed, which must be random.
    ///
    /// # Errors
    /// [`NoteError::Key`] where the name is none.
    pub fn from_seed(name: &str, seed: &[u8; SEED_LENGTH]) -> Result<Self, NoteError> {
        let secret = ed25519_dalek::SigningKey::from_bytes(seed);
        Ok(Self { public: VerifyingKey::new(name, secret.verifying_key())?, secret })
    }

    /// Reads a key as [`Self::secret_text`] writes it.
    ///
    /// # Errors
    /// [`NoteError::Key`].
    pub fn from_secret_text(text: &str) -> Result<Self, NoteError> {
        let inner = text.strip_prefix(PRIVATE).ok_or(NoteError::Key("it is no signing key"))?;
        let (name, id, seed) = read_key(inner)?;
        let key = Self::from_seed(name, &seed)?;
        if key.public.id.to_string() == id {
            Ok(key)
        } else {
            Err(NoteError::Key("its id is not that of its name and bytes"))
        }
    }

    /// The key as one line, to be kept secret.
    #[must_use]
    pub fn secret_text(&self) -> Zeroizing<String> {
        let VerifyingKey { name, id, .. } = &self.public;
        let seed = typed(self.secret.as_bytes());
        // In one go: a text that grows leaves copies of what it had.
        let mut text = Zeroizing::new(String::with_capacity(NAME_BYTES_MAX.saturating_add(128)));
        for part in [PRIVATE, name, "+", id.to_string().as_str(), "+", seed.as_str()] {
            text.push_str(part);
        }
        text
    }

    /// The key that checks what this one signs.
    #[must_use]
    pub const fn public(&self) -> &VerifyingKey {
        &self.public
    }

    /// A bare signature: the same one each time (RFC 8032).
    #[must_use]
    pub fn sign(&self, text: &str) -> [u8; 64] {
        self.secret.sign(text.as_bytes()).to_bytes()
    }

    /// The text as a note with one signature.
    ///
    /// # Errors
    /// [`NoteError::Form`] and [`NoteError::TooLong`] where no note can have that text.
    pub fn sign_note(&self, text: &str) -> Result<String, NoteError> {
        let VerifyingKey { name, id, .. } = &self.public;
        let signature = BASE64.encode([&id.0[..], &self.sign(text)].concat());
        let note = format!("{text}\n{SIGNATURE_LINE}{name} {signature}\n");
        let read = Note::parse(note.as_bytes())?;
        if read.text == text { Ok(note) } else { Err(NoteError::Form("its text is none")) }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({}, ..)", self.public)
    }
}

/// Base64 of a key's type and bytes.
fn typed(bytes: &[u8; 32]) -> Zeroizing<String> {
    let mut all = Zeroizing::new([ED25519; 33]);
    if let Some((_, room)) = all.split_first_mut() {
        room.copy_from_slice(bytes);
    }
    Zeroizing::new(BASE64.encode(all.as_slice()))
}

/// The parts of `name+id+base64`.
fn read_key(text: &str) -> Result<(&str, &str, Zeroizing<[u8; 32]>), NoteError> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let mut parts = text.splitn(3, '+');
    let (Some(name), Some(id), Some(bytes)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(NoteError::Key("it has fewer than three parts"));
    };
    let not_base64 = |_| NoteError::Key("its last part is no base64");
    let bytes = Zeroizing::new(BASE64.decode(bytes).map_err(not_base64)?);
    match bytes.split_first() {
        Some((&ED25519, key)) => {
            let key = key.try_into().map_err(|_| NoteError::Key("it has not 32 bytes"))?;
            Ok((name, id, Zeroizing::new(key)))
        }
        _ => Err(NoteError::Key("it is none of Ed25519")),
    }
}

fn is_name(name: &str) -> bool {
    let is_wrong = |c: char| c.is_whitespace() || c.is_control() || c == '+';
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(is_wrong)
}

/// A text and its signatures, of which nothing is proven yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note<'a> {
    text: &'a str,
    signatures: Vec<Signature<'a>>,
}

/// A signature line.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Signature<'a> {
    name: &'a str,
    id: KeyId,
    bytes: Vec<u8>,
}

impl<'a> Note<'a> {
    /// Reads a note.
    ///
    /// # Errors
    /// [`NoteError::Form`] and [`NoteError::TooLong`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NoteError> {
        if bytes.len() > NOTE_BYTES_MAX {
            return Err(NoteError::TooLong);
        }
        let note = std::str::from_utf8(bytes).map_err(|_| NoteError::Form("it is not UTF-8"))?;
        if note.bytes().any(|byte| byte < b' ' && byte != b'\n') {
            return Err(NoteError::Form("it has control characters"));
        }
        // The text may have empty lines of its own.
        let (before, lines) =
            note.rsplit_once("\n\n").ok_or(NoteError::Form("it has no empty line"))?;
        let text = note.get(..=before.len()).unwrap_or_default();
        let lines = lines.strip_suffix('\n').ok_or(NoteError::Form("its last line has no end"))?;
        let mut signatures = Vec::new();
        for line in lines.split('\n') {
            if signatures.len() >= SIGNATURES_MAX {
                return Err(NoteError::TooLong);
            }
            signatures.push(Signature::parse(line)?);
        }
        Ok(Self { text, signatures })
    }

    /// The text, with its last newline. Whoever has not called [`Self::verify`] knows nothing of it.
    #[must_use]
    pub const fn unproven_text(&self) -> &'a str {
        self.text
    }

    /// How many signatures it has.
    #[must_use]
    pub const fn signatures(&self) -> usize {
        self.signatures.len()
    }

    /// The text, where one of these keys signed it. Signatures of other keys say nothing.
    ///
    /// # Errors
    /// [`NoteError::Signature`] where one of a given key is wrong, [`NoteError::Unsigned`] where there is none.
    pub fn verify(&self, keys: &[&VerifyingKey]) -> Result<&'a str, NoteError> {
        let mut is_signed = false;
        for signature in &self.signatures {
            let is_by =
                |key: &&&VerifyingKey| *key.name == *signature.name && key.id == signature.id;
            for key in keys.iter().filter(is_by) {
                key.check(self.text, &signature.bytes)?;
                is_signed = true;
            }
        }
        if is_signed {
            return Ok(self.text);
        }
        let wanted: Vec<String> = keys.iter().map(|key| key.called()).collect();
        Err(NoteError::Unsigned { wanted: wanted.join(" or ") })
    }
}

impl<'a> Signature<'a> {
    fn parse(line: &'a str) -> Result<Self, NoteError> {
        let wrong = NoteError::Form("one of its last lines is no signature");
        let parts = line.strip_prefix(SIGNATURE_LINE).and_then(|line| line.split_once(' '));
        let (name, signature) = parts.filter(|(name, _)| is_name(name)).ok_or(wrong.clone())?;
        let bytes = BASE64.decode(signature).map_err(|_| wrong.clone())?;
        match bytes.split_first_chunk() {
            Some((id, bytes)) if !bytes.is_empty() => {
                Ok(Self { name, id: KeyId(*id), bytes: bytes.to_vec() })
            }
            _ => Err(wrong),
        }
    }
}

/// What a log says of its tree at one size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// Which log.
    pub origin: Arc<str>,
    /// Leaves.
    pub size: u64,
    /// Root of the tree of these leaves.
    pub root: Digest,
}

impl Checkpoint {
    /// The text of its note.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { origin, size, root } = self;
        format!("{origin}\n{size}\n{}\n", BASE64.encode(root.0))
    }

    /// Reads the text of a note. Lines after the third say nothing to us.
    ///
    /// # Errors
    /// [`NoteError::Checkpoint`].
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        let wrong = NoteError::Checkpoint;
        let text = text.strip_suffix('\n').ok_or(wrong("its last line has no end"))?;
        let mut lines = text.split('\n');
        let (Some(origin), Some(size), Some(root)) = (lines.next(), lines.next(), lines.next())
        else {
            return Err(wrong("it has fewer than three lines"));
        };
        if origin.is_empty() || lines.any(str::is_empty) {
            return Err(wrong("it has an empty line"));
        }
        let is_plain = size.bytes().all(|byte| byte.is_ascii_digit())
            && (size == "0" || !size.starts_with('0'));
        let size = size.parse().ok().filter(|_| is_plain).ok_or(wrong("its size is no number"))?;
        let root = BASE64.decode(root).ok().and_then(|bytes| bytes.try_into().ok());
        let root = Digest(root.ok_or(wrong("its root is not the base64 of 32 bytes"))?);
        Ok(Self { origin: origin.into(), size, root })
    }

    /// Signs it.
    ///
    /// # Errors
    /// [`NoteError::Origin`] where the key is of another log, [`NoteError::Form`] where the origin is no line.
    pub fn sign(&self, key: &SigningKey) -> Result<String, NoteError> {
        self.expect_origin(key.public.name())?;
        key.sign_note(&self.text())
    }

    /// Reads a signed checkpoint that one of these keys signed for the log of its name.
    ///
    /// # Errors
    /// What the note is not.
    pub fn open(note: &[u8], keys: &[&VerifyingKey]) -> Result<Self, NoteError> {
        let checkpoint = Self::parse(Note::parse(note)?.verify(keys)?)?;
        match keys.first() {
            Some(key) => checkpoint.expect_origin(key.name())?,
            None => return Err(NoteError::Unsigned { wanted: "any key".to_owned() }),
        }
        Ok(checkpoint)
    }

    fn expect_origin(&self, wanted: &str) -> Result<(), NoteError> {
        let found = self.origin.to_string();
        if *found == *wanted {
            Ok(())
        } else {
            Err(NoteError::Origin { found, wanted: wanted.to_owned() })
        }
    }
}

/// The origin of the log of a machine: its id (machine-id(5), or random bytes where there is none) hashed, since that
/// is not for strangers.
#[must_use]
pub fn origin_of(machine: &[u8]) -> String {
    let hash = Sha256::new().chain_update(MACHINE).chain_update(machine).finalize();
    let short = hash.first_chunk().copied().map_or(0, u64::from_be_bytes);
    format!("{ORIGIN}{short:016x}")
}

/// What the key before signs of the next one, so that nobody else can say which it is.
#[must_use]
pub fn key_change_text(previous: &VerifyingKey, next: &VerifyingKey) -> String {
    format!("{KEY_CHANGE}\n{previous}\n{next}\n")
}

#[cfg(test)]
#[path = "note_tests.rs"]
mod tests;
