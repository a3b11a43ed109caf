//! The form of what is entered, as a value: what an entry's bytes are, told without this program's types.
//!
//! Every type that has canonical bytes says its form beside how it is written and read ([`Canonical::form`], from
//! the same lines), so that the two cannot part. By a form any entry's bytes become JSON ([`Printer`]), and the forms
//! themselves are a file that a reader of another make decodes with ([`schema()`]).
//!
//! Purpose: a bundle that is read without this program. May touch: nothing. May not: know a type, or accept
//! bytes that the type does not.

mod json;
mod schema;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use super::canon::Canonical;
use super::entry::{Evidence, Figures, Moment};

pub use json::{Printer, quoted};
pub use schema::schema;

/// What a value's bytes are. `A`: an atom; `L`: a list ([`super::canon`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Form {
    /// A number: an atom of so many bytes, big-endian.
    Number(Width),
    /// The atom `yes` or `no`.
    Bool,
    /// An atom of UTF-8.
    Text,
    /// An atom of any bytes.
    Bytes,
    /// An atom of 32 bytes.
    Digest,
    /// A list of one number of eight bytes: microseconds since 1970 on the wall clock.
    Time,
    /// An atom that is one word of a closed list.
    Word {
        /// Of which list.
        what: &'static str,
        /// Its words, in their order.
        words: Vec<&'static str>,
    },
    /// A list of none or one.
    Maybe(Box<Self>),
    /// A list of any number.
    List(Box<Self>),
    /// A list of any number, ascending, each once: words by their place in the closed list, other atoms by their
    /// bytes.
    Set(Box<Self>),
    /// A list of two.
    Pair(Box<(Self, Self)>),
    /// A list of fields.
    Record {
        /// The type's name. One name is one form.
        name: &'static str,
        /// Its fields.
        fields: Fields,
    },
    /// A list of a word and the fields that it brings with it.
    Tagged {
        /// Of what.
        what: &'static str,
        /// The words, each with its fields.
        words: Vec<(&'static str, Fields)>,
    },
}

/// Bytes of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// Four.
    Four,
    /// Eight.
    Eight,
    /// Sixteen.
    Sixteen,
}

/// Fields in their order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Fields {
    /// Those that are always there. A single one that is called `0` has no name of its own: it stands for the whole.
    pub always: Vec<(&'static str, Form)>,
    /// One more that is left out where there is nothing to say.
    pub last: Option<Box<(&'static str, Form)>>,
}

/// The name of a field that has none.
const NAMELESS: &str = "0";

impl Fields {
    /// The one field that stands for the whole.
    #[must_use]
    pub fn whole(&self) -> Option<&Form> {
        match (self.always.as_slice(), &self.last) {
            ([(NAMELESS, form)], None) => Some(form),
            _ => None,
        }
    }
}

/// The form of an entry's body.
pub static ENTRY: LazyLock<Form> = LazyLock::new(|| Form::Record {
    name: "Entry",
    fields: Fields {
        always: vec![("at", Moment::form()), ("figures", Figures::form())],
        last: None,
    },
});

/// The form of its evidence.
pub static EVIDENCE: LazyLock<Form> = LazyLock::new(Evidence::form);

/// The form of a field, from the way to it.
pub(super) fn of<T: Canonical, R>(_: fn(&R) -> &T) -> Form {
    T::form()
}

/// The form of a field that is left out where there is none, from the way to it.
pub(super) fn of_absent<T: Canonical, R>(_: fn(&R) -> &Option<T>) -> Form {
    T::form()
}

/// As [`of`], of what not every value has.
pub(super) fn of_some<T: Canonical, R>(_: fn(&R) -> Option<&T>) -> Form {
    T::form()
}

/// As [`of_absent`], of what not every value has.
pub(super) fn of_some_absent<T: Canonical, R>(_: fn(&R) -> Option<&Option<T>>) -> Form {
    T::form()
}
