//! Canonical bytes: one value, one encoding.
//!
//! A value is an **atom** (bytes) or a **list** (values), both with their length in front:
//! `A` or `L`, four bytes of length, big-endian, then that many bytes. Numbers are atoms of eight
//! (or sixteen) bytes, big-endian; words and text are UTF-8; what may be absent is a list of none or
//! one; a record is the list of its fields in the order of its definition. There is no other
//! form, no default and nothing left out, so that equal bytes are equal entries and a reader of another
//! make needs this paragraph alone.
//!
//! Any bytes decode to a value or a named error, and what decodes encodes to the same bytes again.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::form::{Form, Width};

/// Bytes before the content of a value.
const HEAD: usize = 5;
const ATOM: u8 = b'A';
const LIST: u8 = b'L';

/// Why bytes are not the canonical form of a value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CanonError {
    /// The bytes end inside a value.
    #[error("the entry's bytes end inside a value")]
    Short,
    /// An atom where a list must stand, or the reverse, or neither.
    #[error("the entry's bytes have tag {found:#04x} where {wanted:?} must stand")]
    Tag {
        /// What must stand there.
        wanted: char,
        /// What does.
        found: u8,
    },
    /// An atom of another size than its type has.
    #[error("the entry has a {what} of {length} bytes")]
    Size {
        /// Of which type.
        what: &'static str,
        /// Its bytes.
        length: usize,
    },
    /// Text that is not UTF-8.
    #[error("the entry has a text that is not UTF-8")]
    Text,
    /// A word that its closed list does not have: a newer version wrote it, or it was changed.
    #[error(
        "the entry says {word:?} where a {what} must stand; was it written by a newer version?"
    )]
    Word {
        /// Of which list.
        what: &'static str,
        /// The word.
        word: String,
    },
    /// More than its type has: a newer version wrote it, or it was changed.
    #[error("the entry has more values than a {what} has; was it written by a newer version?")]
    Long {
        /// Of which type.
        what: &'static str,
    },
    /// A set whose members are not in ascending order, each once.
    #[error("the entry has a set whose members are not in ascending order")]
    Order,
    /// A value past the four bytes of a length.
    #[error("a value of {length} bytes is too long for an entry")]
    TooLong {
        /// Its bytes.
        length: usize,
    },
}

/// Writes values.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    too_long: Option<usize>,
}

impl Writer {
    /// With room for these many bytes.
    #[must_use]
    pub fn with_room(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), too_long: None }
    }

    /// An atom of these many bytes, which do not follow here: whoever asks writes or hashes them himself.
    pub fn atom_head(&mut self, length: usize) {
        let length = self.length(length);
        self.bytes.push(ATOM);
        self.bytes.extend_from_slice(&length);
    }

    /// An atom.
    pub fn atom(&mut self, bytes: &[u8]) {
        self.atom_head(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// A list of what `fill` writes.
    pub fn list(&mut self, fill: impl FnOnce(&mut Self)) {
        self.list_around(0, fill);
    }

    /// A list of what `fill` writes and of `elsewhere` bytes that it does not ([`Self::atom_head`]).
    pub fn list_around(&mut self, elsewhere: usize, fill: impl FnOnce(&mut Self)) {
        self.bytes.push(LIST);
        let place = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        let begin = self.bytes.len();
        fill(self);
        let here = self.bytes.len().saturating_sub(begin);
        let length = self.length(here.saturating_add(elsewhere));
        if let Some(room) = self.bytes.get_mut(place..begin) {
            room.copy_from_slice(&length);
        }
    }

    /// How many bytes were written.
    #[must_use]
    pub const fn written(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes.
    ///
    /// # Errors
    /// [`CanonError::TooLong`] where a value was.
    pub fn finish(self) -> Result<Vec<u8>, CanonError> {
        match self.too_long {
            None => Ok(self.bytes),
            Some(length) => Err(CanonError::TooLong { length }),
        }
    }

    fn length(&mut self, length: usize) -> [u8; 4] {
        if let Ok(short) = u32::try_from(length) {
            return short.to_be_bytes();
        }
        self.too_long = Some(length);
        [u8::MAX; 4]
    }
}

/// Texts that a [`Texts`] remembers.
const TEXTS: usize = 64;

/// The texts of values read lately, so that what says the same name a thousand times keeps it once. One thread's own:
/// a text that two threads count is a cache line that both wait for.
#[derive(Debug)]
pub struct Texts(RefCell<[Option<Arc<str>>; TEXTS]>);

impl Default for Texts {
    fn default() -> Self {
        Self(RefCell::new([const { None }; TEXTS]))
    }
}

impl Texts {
    /// A text, the same one as before where it still is remembered.
    fn shared(&self, bytes: &[u8]) -> Result<Arc<str>, CanonError> {
        let mut texts = self.0.borrow_mut();
        let place = texts.get_mut(place_of(bytes));
        if let Some(Some(known)) = &place
            && known.as_bytes() == bytes
        {
            return Ok(Arc::clone(known));
        }
        let text = Arc::<str>::from(text_of(bytes)?);
        if let Some(place) = place {
            *place = Some(Arc::clone(&text));
        }
        Ok(text)
    }
}

/// Where a text is remembered. Names and UUIDs differ at their ends; a clash costs a copy and nothing else.
fn place_of(bytes: &[u8]) -> usize {
    let begin = bytes.first_chunk::<4>().map_or(0, |four| u32::from_le_bytes(*four));
    let end = bytes.last_chunk::<4>().map_or(0, |four| u32::from_le_bytes(*four));
    let mixed = u64::from(begin).wrapping_mul(31).wrapping_add(end.into());
    // Golden ratio: the high bits depend on all of it (Knuth, TAOCP 6.4).
    let spread = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(TEXTS.ilog2());
    usize::try_from(spread).map_or(0, |spread| spread.wrapping_add(bytes.len()) % TEXTS)
}

fn text_of(bytes: &[u8]) -> Result<&str, CanonError> {
    std::str::from_utf8(bytes).map_err(|_| CanonError::Text)
}

/// What no word of a closed list is: a newer version wrote it, or it was changed.
pub(super) fn no_such(what: &'static str, word: &[u8]) -> CanonError {
    text_of(word)
        .map_or_else(|error| error, |word| CanonError::Word { what, word: word.to_owned() })
}

/// Reads values, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    texts: Option<&'a Texts>,
}

impl<'a> Reader<'a> {
    /// Of these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, texts: None }
    }

    /// Of these bytes, with texts shared with what was read before.
    #[must_use]
    pub const fn sharing(bytes: &'a [u8], texts: &'a Texts) -> Self {
        Self { rest: bytes, texts: Some(texts) }
    }

    /// Whether nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next value, an atom.
    pub fn atom(&mut self) -> Result<&'a [u8], CanonError> {
        self.value(ATOM)
    }

    /// The next value, an atom of exactly `N` bytes.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], CanonError> {
        let bytes = self.atom()?;
        bytes.try_into().map_err(|_| CanonError::Size { what, length: bytes.len() })
    }

    /// The next value, an atom of UTF-8.
    pub fn text(&mut self) -> Result<&'a str, CanonError> {
        text_of(self.atom()?)
    }

    /// The next value, an atom of UTF-8, to be kept.
    fn kept_text(&mut self) -> Result<Arc<str>, CanonError> {
        let bytes = self.atom()?;
        self.texts.map_or_else(|| text_of(bytes).map(Arc::from), |texts| texts.shared(bytes))
    }

    /// The next value, a list, all of which `read` must take.
    pub fn list<T>(
        &mut self,
        what: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, CanonError>,
    ) -> Result<T, CanonError> {
        let mut inside = Self { rest: self.value(LIST)?, texts: self.texts };
        let value = read(&mut inside)?;
        if inside.is_empty() { Ok(value) } else { Err(CanonError::Long { what }) }
    }

    fn value(&mut self, wanted: u8) -> Result<&'a [u8], CanonError> {
        let (head, rest) = self.rest.split_first_chunk::<HEAD>().ok_or(CanonError::Short)?;
        let [tag, length @ ..] = *head;
        if tag != wanted {
            return Err(CanonError::Tag { wanted: char::from(wanted), found: tag });
        }
        let length = usize::try_from(u32::from_be_bytes(length)).map_err(|_| CanonError::Short)?;
        let (value, rest) = rest.split_at_checked(length).ok_or(CanonError::Short)?;
        self.rest = rest;
        Ok(value)
    }
}

/// What has a canonical form.
pub trait Canonical: Sized {
    /// Writes it as one value.
    fn put(&self, writer: &mut Writer);

    /// Reads one value.
    ///
    /// # Errors
    /// What the bytes have that a value of this type cannot.
    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError>;

    /// What its bytes are: any that [`Self::take`] takes are of this form, and no others.
    fn form() -> Form;
}

/// The canonical bytes of a value.
///
/// # Errors
/// [`CanonError::TooLong`].
pub fn encode<T: Canonical>(value: &T) -> Result<Vec<u8>, CanonError> {
    let mut writer = Writer::default();
    value.put(&mut writer);
    writer.finish()
}

/// The value of canonical bytes, all of them.
///
/// # Errors
/// What is wrong with the bytes.
pub fn decode<T: Canonical>(bytes: &[u8]) -> Result<T, CanonError> {
    read_all(Reader::new(bytes))
}

/// The value of canonical bytes, all of them, with texts shared with what was read before.
///
/// # Errors
/// What is wrong with the bytes.
pub fn decode_sharing<T: Canonical>(bytes: &[u8], texts: &Texts) -> Result<T, CanonError> {
    read_all(Reader::sharing(bytes, texts))
}

fn read_all<T: Canonical>(mut reader: Reader<'_>) -> Result<T, CanonError> {
    let value = T::take(&mut reader)?;
    if reader.is_empty() { Ok(value) } else { Err(CanonError::Long { what: "entry" }) }
}

/// Numbers are atoms of their own size, big-endian.
macro_rules! canonical_number {
    ($($number:ty: $what:literal, $width:ident;)*) => { $(
        impl Canonical for $number {
            fn put(&self, writer: &mut Writer) {
                writer.atom(&self.to_be_bytes());
            }

            fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
                Ok(Self::from_be_bytes(reader.array($what)?))
            }

            fn form() -> Form {
                Form::Number(Width::$width)
            }
        }
    )* };
}

canonical_number! {
    u32: "number of 4 bytes", Four;
    u64: "number of 8 bytes", Eight;
    u128: "number of 16 bytes", Sixteen;
}

/// One word of a closed list, as it stands in every other format too.
macro_rules! canonical_word {
    ($($list:ty: $what:literal,)*) => { $(
        impl $crate::journal::canon::Canonical for $list {
            fn put(&self, writer: &mut $crate::journal::canon::Writer) {
                writer.atom(self.as_str().as_bytes());
            }

            fn take(
                reader: &mut $crate::journal::canon::Reader<'_>,
            ) -> Result<Self, $crate::journal::canon::CanonError> {
                let word = reader.atom()?;
                let of_list = Self::ALL.iter().copied().find(|one| one.as_str().as_bytes() == word);
                of_list.ok_or_else(|| $crate::journal::canon::no_such($what, word))
            }

            fn form() -> $crate::journal::form::Form {
                let words = Self::ALL.iter().map(|one| one.as_str()).collect();
                $crate::journal::form::Form::Word { what: $what, words }
            }
        }
    )* };
}
pub(super) use canonical_word;

/// A record: the list of its fields.
macro_rules! canonical_record {
    ($($record:ty { $($field:tt),* $(,)? })*) => { $(
        impl $crate::journal::canon::Canonical for $record {
            fn put(&self, writer: &mut $crate::journal::canon::Writer) {
                writer.list(|writer| {
                    $($crate::journal::canon::Canonical::put(&self.$field, writer);)*
                });
            }

            fn take(
                reader: &mut $crate::journal::canon::Reader<'_>,
            ) -> Result<Self, $crate::journal::canon::CanonError> {
                reader.list(stringify!($record), |reader| {
                    // The fields of a struct expression are evaluated in the order written.
                    Ok(Self { $($field: $crate::journal::canon::Canonical::take(reader)?,)* })
                })
            }

            fn form() -> $crate::journal::form::Form {
                use $crate::journal::form::{Fields, Form, of};
                let always =
                    vec![$((stringify!($field), of(|whole: &Self| &whole.$field)),)*];
                Form::Record { name: stringify!($record), fields: Fields { always, last: None } }
            }
        }
    )* };
}
pub(super) use canonical_record;

impl Canonical for bool {
    fn put(&self, writer: &mut Writer) {
        writer.atom(if *self { b"yes" } else { b"no" });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        match reader.atom()? {
            b"yes" => Ok(true),
            b"no" => Ok(false),
            word => Err(no_such("yes or no", word)),
        }
    }

    fn form() -> Form {
        Form::Bool
    }
}

impl Canonical for Arc<str> {
    fn put(&self, writer: &mut Writer) {
        writer.atom(self.as_bytes());
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.kept_text()
    }

    fn form() -> Form {
        Form::Text
    }
}

impl Canonical for Bytes {
    fn put(&self, writer: &mut Writer) {
        writer.atom(self);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.atom().map(Self::copy_from_slice)
    }

    fn form() -> Form {
        Form::Bytes
    }
}

impl Canonical for [u8; 32] {
    fn put(&self, writer: &mut Writer) {
        writer.atom(self);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.array("digest")
    }

    fn form() -> Form {
        Form::Digest
    }
}

impl<T: Canonical> Canonical for Option<T> {
    fn put(&self, writer: &mut Writer) {
        writer.list(|writer| {
            if let Some(value) = self {
                value.put(writer);
            }
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("value that may be absent", |reader| {
            if reader.is_empty() { Ok(None) } else { T::take(reader).map(Some) }
        })
    }

    fn form() -> Form {
        Form::Maybe(Box::new(T::form()))
    }
}

impl<T: Canonical> Canonical for Vec<T> {
    fn put(&self, writer: &mut Writer) {
        writer.list(|writer| self.iter().for_each(|value| value.put(writer)));
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("list", |reader| {
            let mut values = Self::new();
            while !reader.is_empty() {
                values.push(T::take(reader)?);
            }
            Ok(values)
        })
    }

    fn form() -> Form {
        Form::List(Box::new(T::form()))
    }
}

impl<T: Canonical + Ord> Canonical for BTreeSet<T> {
    fn put(&self, writer: &mut Writer) {
        writer.list(|writer| self.iter().for_each(|value| value.put(writer)));
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        let values = Vec::<T>::take(reader)?;
        if values.is_sorted_by(|a, b| a < b) {
            Ok(values.into_iter().collect())
        } else {
            Err(CanonError::Order)
        }
    }

    fn form() -> Form {
        Form::Set(Box::new(T::form()))
    }
}

impl<A: Canonical, B: Canonical> Canonical for (A, B) {
    fn put(&self, writer: &mut Writer) {
        writer.list(|writer| {
            self.0.put(writer);
            self.1.put(writer);
        });
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        reader.list("pair", |reader| Ok((A::take(reader)?, B::take(reader)?)))
    }

    fn form() -> Form {
        Form::Pair(Box::new((A::form(), B::form())))
    }
}

impl<T: Canonical> Canonical for Box<T> {
    fn put(&self, writer: &mut Writer) {
        (**self).put(writer);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, CanonError> {
        T::take(reader).map(Self::new)
    }

    fn form() -> Form {
        T::form()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Anything = (Vec<(Arc<str>, Option<u64>)>, (BTreeSet<u32>, (bool, u128)));

    proptest! {
        #[test]
        fn what_is_written_is_read(
            pairs in prop::collection::vec((".{0,9}", any::<Option<u64>>()), 0..9),
            set: BTreeSet<u32>,
            flag: bool,
            number: u128,
        ) {
            let pairs = pairs.into_iter().map(|(text, value)| (Arc::from(text), value)).collect();
            let value: Anything = (pairs, (set, (flag, number)));
            let bytes = encode(&value).unwrap();
            let texts = Texts::default();
            for _ in 0..2 {
                prop_assert_eq!(&decode_sharing::<Anything>(&bytes, &texts).unwrap(), &value);
            }
            prop_assert_eq!(decode::<Anything>(&bytes).unwrap(), value);
        }

        #[test]
        fn what_any_bytes_decode_to_encodes_to_them(
            mut bytes in prop::collection::vec(any::<u8>(), 0..64),
            seed: bool,
            place: usize,
            byte: u8,
        ) {
            if seed {
                // Near misses: one byte of a good encoding changed.
                bytes = encode(&(bytes.clone().into_iter().map(u64::from).collect::<Vec<_>>(), seed))
                    .unwrap();
                let place = place % bytes.len();
                bytes[place] = byte;
            }
            if let Ok(value) = decode::<(Vec<u64>, bool)>(&bytes) {
                prop_assert_eq!(encode(&value).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn a_record_of_a_newer_version_is_refused_by_name() {
        let longer = encode(&vec![1_u64, 2, 3]).unwrap();
        assert_eq!(decode::<(u64, u64)>(&longer), Err(CanonError::Long { what: "pair" }));
        assert_eq!(
            decode::<u64>(b"A\0\0\0\x04ABCD").unwrap_err().to_string(),
            "the entry has a number of 8 bytes of 4 bytes"
        );
    }

    #[test]
    fn a_set_out_of_order_is_another_entry_and_refused() {
        let swapped = encode(&vec![2_u32, 1]).unwrap();
        assert_eq!(decode::<BTreeSet<u32>>(&swapped), Err(CanonError::Order));
    }
}
