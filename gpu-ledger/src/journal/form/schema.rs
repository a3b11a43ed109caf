//! The forms as a JSON document, by which a program in any language decodes entries.
//!
//! ```text
//! {"format":"gpu-ledger-audit-schema","version":1,"entry":FORM,"evidence":FORM,"records":{"Name":FIELDS,...}}
//! ```
//! FORM is a word, `number4`, `number8`, `number16`, `bool`, `text`, `bytes`, `digest` or `time`, or an object of one
//! member: `{"word":[words]}`, `{"maybe":FORM}`, `{"list":FORM}`, `{"set":FORM}`, `{"pair":[FORM,FORM]}`,
//! `{"record":"Name"}` (its FIELDS are in `records`), `{"tagged":{"word":FIELDS,...}}`. FIELDS is
//! `{"always":[["name",FORM],...]}`, with `"last":["name",FORM]` where the list may end without that one. What the
//! bytes of each are stands at [`Form`], and what they are as JSON in `json.rs`.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::{ENTRY, EVIDENCE, Fields, Form, Width};

const FORMAT: &str = "gpu-ledger-audit-schema";
const VERSION: u32 = 1;

/// The document, one line.
///
/// # Errors
/// Where it cannot be written as JSON, which it can.
pub fn schema() -> serde_json::Result<String> {
    let mut records = BTreeMap::new();
    collect(&ENTRY, &mut records);
    collect(&EVIDENCE, &mut records);
    let mut text = serde_json::to_string(&Schema { records })?;
    text.push('\n');
    Ok(text)
}

/// Every record in a form, by its name.
pub(super) fn collect<'f>(form: &'f Form, records: &mut BTreeMap<&'static str, &'f Fields>) {
    let mut below = |fields: &'f Fields| {
        let last = fields.last.as_deref();
        fields.always.iter().chain(last).for_each(|(_, form)| collect(form, records));
    };
    match form {
        Form::Maybe(form) | Form::List(form) | Form::Set(form) => collect(form, records),
        Form::Pair(pair) => {
            collect(&pair.0, records);
            collect(&pair.1, records);
        }
        Form::Record { name, fields } => {
            if records.insert(name, fields).is_none() {
                let last = fields.last.as_deref();
                fields.always.iter().chain(last).for_each(|(_, form)| collect(form, records));
            }
        }
        Form::Tagged { words, .. } => words.iter().for_each(|(_, fields)| below(fields)),
        Form::Number(_)
        | Form::Bool
        | Form::Text
        | Form::Bytes
        | Form::Digest
        | Form::Time
        | Form::Word { .. } => {}
    }
}

struct Schema {
    records: BTreeMap<&'static str, &'static Fields>,
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("format", FORMAT)?;
        map.serialize_entry("version", &VERSION)?;
        map.serialize_entry("entry", &*ENTRY)?;
        map.serialize_entry("evidence", &*EVIDENCE)?;
        map.serialize_entry("records", &self.records)?;
        map.end()
    }
}

impl Serialize for Form {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(Width::Four) => serializer.serialize_str("number4"),
            Self::Number(Width::Eight) => serializer.serialize_str("number8"),
            Self::Number(Width::Sixteen) => serializer.serialize_str("number16"),
            Self::Bool => serializer.serialize_str("bool"),
            Self::Text => serializer.serialize_str("text"),
            Self::Bytes => serializer.serialize_str("bytes"),
            Self::Digest => serializer.serialize_str("digest"),
            Self::Time => serializer.serialize_str("time"),
            Self::Word { words, .. } => one(serializer, "word", words),
            Self::Maybe(form) => one(serializer, "maybe", form),
            Self::List(form) => one(serializer, "list", form),
            Self::Set(form) => one(serializer, "set", form),
            Self::Pair(pair) => one(serializer, "pair", pair),
            Self::Record { name, .. } => one(serializer, "record", name),
            Self::Tagged { words, .. } => one(serializer, "tagged", &Words(words)),
        }
    }
}

fn one<S: Serializer>(
    serializer: S,
    key: &str,
    value: &(impl Serialize + ?Sized),
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(key, value)?;
    map.end()
}

struct Words<'f>(&'f [(&'static str, Fields)]);

impl Serialize for Words<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(word, fields)| (word, fields)))
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("always", &self.always)?;
        if let Some(last) = &self.last {
            map.serialize_entry("last", last)?;
        }
        map.end()
    }
}
