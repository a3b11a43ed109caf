//! Forms against the types: what the one takes the other takes, and no byte is lost on the way to JSON.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::Value;

use super::schema::collect;
use super::{ENTRY, EVIDENCE, Fields, Form, Printer, Width, quoted, schema};
use crate::clock::Stamp;
use crate::journal::canon::{self, Canonical as _, Writer};
use crate::journal::entry::{BootId, CoverageEdge, Evidence, Figures, Moment};
use crate::journal::tests::history;
use crate::random::Random;
use crate::unit::{BootNs, WallUs};

type Body = (Moment, Figures);

/// Makes canonical bytes of a form, of nothing but chance.
struct Maker {
    random: Random,
    /// After so many values one is made that is of no form, or of another.
    wrong_after: Option<u64>,
}

impl Maker {
    fn draw(&mut self, below: u64) -> u64 {
        self.random.below(below)
    }

    fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| u8::try_from(self.draw(256)).unwrap()).collect()
    }

    fn number(&mut self, length: u64) -> Vec<u8> {
        match self.draw(4) {
            0 => vec![0; usize::try_from(length).unwrap()],
            1 => vec![0xff; usize::try_from(length).unwrap()],
            _ => self.bytes(length),
        }
    }

    fn text(&mut self) -> String {
        let letters = ['a', '"', '\\', '\u{1b}', '\n', 'ß', '\u{2028}', '\u{1f600}', '\0', '='];
        (0..self.draw(6)).map(|_| letters[usize::try_from(self.draw(10)).unwrap()]).collect()
    }

    /// What stands here and should not.
    fn wrong(&mut self, writer: &mut Writer) {
        match self.draw(5) {
            0 => writer.atom(b"no-such-word"),
            1 => writer.atom(&[0xff; 8]),
            2 => writer.list(|_| {}),
            3 => {
                writer.atom(&[0; 4]);
                writer.atom(&[0; 4]);
            }
            // Nothing at all.
            _ => {}
        }
    }

    fn value(&mut self, form: &Form, writer: &mut Writer) {
        match &mut self.wrong_after {
            Some(0) => {
                self.wrong_after = None;
                return self.wrong(writer);
            }
            Some(left) => *left -= 1,
            None => {}
        }
        match form {
            Form::Number(Width::Four) => writer.atom(&self.number(4)),
            Form::Number(Width::Eight) => writer.atom(&self.number(8)),
            Form::Number(Width::Sixteen) => writer.atom(&self.number(16)),
            Form::Bool => writer.atom(if self.draw(2) == 0 { b"yes" } else { b"no" }),
            Form::Text => writer.atom(self.text().as_bytes()),
            Form::Bytes => {
                let length = self.draw(6);
                writer.atom(&self.bytes(length));
            }
            Form::Digest => writer.atom(&self.number(32)),
            Form::Time => {
                let us = self.number(8);
                writer.list(|writer| writer.atom(&us));
            }
            Form::Word { words, .. } => {
                let place = self.draw(u64::try_from(words.len()).unwrap());
                writer.atom(words[usize::try_from(place).unwrap()].as_bytes());
            }
            Form::Maybe(form) => {
                let is_there = self.draw(4) > 0;
                writer.list(|writer| {
                    if is_there {
                        self.value(form, writer);
                    }
                });
            }
            Form::List(form) => {
                let length = self.draw(4);
                writer.list(|writer| (0..length).for_each(|_| self.value(form, writer)));
            }
            Form::Set(form) => self.set(form, writer),
            Form::Pair(pair) => writer.list(|writer| {
                self.value(&pair.0, writer);
                self.value(&pair.1, writer);
            }),
            Form::Record { fields, .. } => writer.list(|writer| self.fields(fields, writer)),
            Form::Tagged { words, .. } => {
                let place = self.draw(u64::try_from(words.len()).unwrap());
                let (word, fields) = &words[usize::try_from(place).unwrap()];
                writer.list(|writer| {
                    writer.atom(word.as_bytes());
                    self.fields(fields, writer);
                });
            }
        }
    }

    fn set(&mut self, form: &Form, writer: &mut Writer) {
        let Form::Word { words, .. } = form else { panic!("a set of {form:?}") };
        let is_wrong = self.wrong_after.take_if(|left| *left < 3).is_some();
        let mut chosen: Vec<&str> =
            words.iter().copied().filter(|_| self.draw(3) == 0 || is_wrong).collect();
        if is_wrong {
            let (a, b) = (self.draw(2), chosen.len() - 1);
            if a == 0 { chosen.swap(0, b) } else { chosen.push(chosen[b]) }
        }
        writer.list(|writer| chosen.iter().for_each(|word| writer.atom(word.as_bytes())));
    }

    fn fields(&mut self, fields: &Fields, writer: &mut Writer) {
        fields.always.iter().for_each(|(_, form)| self.value(form, writer));
        if let Some((_, form)) = fields.last.as_deref()
            && self.draw(2) == 0
        {
            self.value(form, writer);
        }
    }
}

fn made(form: &Form, state: u64, wrong_after: Option<u64>) -> Vec<u8> {
    let mut writer = Writer::default();
    Maker { random: Random::seeded(state), wrong_after }.value(form, &mut writer);
    writer.finish().unwrap()
}

/// JSON back to canonical bytes: what a form prints says all that the bytes do.
fn put(form: &Form, value: &Value, writer: &mut Writer) {
    let text = || value.as_str().unwrap();
    let hex = || {
        let digits = text().as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
        digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect::<Vec<u8>>()
    };
    match form {
        Form::Number(Width::Four) => {
            writer.atom(&u32::try_from(value.as_u64().unwrap()).unwrap().to_be_bytes());
        }
        Form::Number(Width::Eight) => writer.atom(&value.as_u64().unwrap().to_be_bytes()),
        Form::Number(Width::Sixteen) | Form::Digest => writer.atom(&hex()),
        Form::Bool => writer.atom(if value.as_bool().unwrap() { b"yes" } else { b"no" }),
        Form::Text | Form::Word { .. } => writer.atom(text().as_bytes()),
        Form::Bytes => writer.atom(&STANDARD.decode(text()).unwrap()),
        Form::Time => {
            let us: u64 = value["us"].as_str().unwrap().parse().unwrap();
            writer.list(|writer| writer.atom(&us.to_be_bytes()));
        }
        Form::Maybe(form) => writer.list(|writer| {
            if !value.is_null() {
                put(form, value, writer);
            }
        }),
        Form::List(form) | Form::Set(form) => writer.list(|writer| {
            value.as_array().unwrap().iter().for_each(|value| put(form, value, writer));
        }),
        Form::Pair(pair) => writer.list(|writer| {
            put(&pair.0, &value[0], writer);
            put(&pair.1, &value[1], writer);
        }),
        Form::Record { fields, .. } => writer.list(|writer| put_fields(fields, value, writer)),
        Form::Tagged { words, .. } => {
            let (word, inside) = value.as_object().unwrap().iter().next().unwrap();
            let (_, fields) = words.iter().find(|(known, _)| known == word).unwrap();
            writer.list(|writer| {
                writer.atom(word.as_bytes());
                put_fields(fields, inside, writer);
            });
        }
    }
}

fn put_fields(fields: &Fields, value: &Value, writer: &mut Writer) {
    if let Some(form) = fields.whole() {
        return put(form, value, writer);
    }
    let known: usize = fields.always.len() + usize::from(fields.last.is_some());
    assert_eq!(value.as_object().unwrap().len(), known, "{value}");
    fields.always.iter().for_each(|(name, form)| put(form, &value[*name], writer));
    if let Some((name, form)) = fields.last.as_deref()
        && !value[*name].is_null()
    {
        put(form, &value[*name], writer);
    }
}

fn printed(form: &Form, bytes: &[u8]) -> Option<String> {
    let mut text = "kept".to_owned();
    let printed = Printer::default().print(form, bytes, &mut text);
    // What cannot be printed leaves nothing behind.
    assert!(printed.is_ok() || text == "kept", "{text}");
    printed.ok().map(|()| text["kept".len()..].to_owned())
}

/// That both readings take these bytes or refuse them, and that the JSON says all of them.
fn agree(form: &Form, bytes: &[u8]) -> bool {
    let typed = if std::ptr::eq(form, &*ENTRY) {
        canon::decode::<Body>(bytes).and_then(|value| canon::encode(&value))
    } else {
        canon::decode::<Evidence>(bytes).and_then(|value| canon::encode(&value))
    };
    let json = printed(form, bytes);
    assert_eq!(typed.is_ok(), json.is_some(), "{typed:?} {json:?} {}", bytes.escape_ascii());
    let (Ok(typed), Some(json)) = (typed, json) else { return false };
    assert_eq!(typed, bytes);
    let mut writer = Writer::default();
    put(form, &serde_json::from_str(&json).unwrap(), &mut writer);
    assert_eq!(writer.finish().unwrap(), bytes, "{json}");
    true
}

proptest! {
    #[test]
    fn whatever_has_the_form_is_of_the_type_and_its_json_says_every_byte(state: u64) {
        for form in [&*ENTRY, &*EVIDENCE] {
            prop_assert!(agree(form, &made(form, state, None)));
        }
    }

    #[test]
    fn what_is_nearly_of_the_form_is_refused_by_both_or_by_neither(
        state: u64, wrong_after in 0_u64..120, place: usize, byte: u8,
    ) {
        for form in [&*ENTRY, &*EVIDENCE] {
            agree(form, &made(form, state, Some(wrong_after)));
            let mut bytes = made(form, state, None);
            let place = place % bytes.len();
            bytes[place] = byte;
            agree(form, &bytes);
            agree(form, &bytes[..place]);
        }
    }

    #[test]
    fn text_is_escaped_as_serde_json_does(text: String) {
        let mut out = String::new();
        quoted(&text, &mut out);
        prop_assert_eq!(out, serde_json::to_string(&text).unwrap());
    }

    #[test]
    fn a_time_is_the_calendars(us in 0_u64..253_402_200_000_000_000) {
        let at = jiff::Timestamp::from_microsecond(i64::try_from(us).unwrap()).unwrap();
        let at = format!("{at:.6}").replace('Z', "+00:00");
        let expected = format!("{{\"at\":\"{at}\",\"us\":\"{us}\"}}");
        prop_assert_eq!(printed(&Form::Time, &canon::encode(&WallUs(us)).unwrap()), Some(expected));
    }
}

#[test]
fn one_of_every_kind_is_printed_and_every_word_is_made() {
    let mut kinds = BTreeSet::new();
    for draft in history() {
        kinds.insert(draft.figures.kind());
        assert!(agree(&ENTRY, &canon::encode(&(draft.at, draft.figures)).unwrap()));
        assert!(agree(&EVIDENCE, &canon::encode(&draft.evidence).unwrap()));
    }
    let Form::Tagged { words, .. } = Figures::form() else { unreachable!() };
    let words: BTreeSet<&str> = words.iter().map(|(word, _)| *word).collect();
    // These are made by chance alone.
    let unmade: Vec<&str> = words.difference(&kinds).copied().collect();
    assert!(unmade.iter().all(|word| ["closed", "key", "memory"].contains(word)), "{unmade:?}");
    for state in 0..2_000 {
        let bytes = made(&ENTRY, state, None);
        let (_, figures) = canon::decode::<Body>(&bytes).unwrap();
        let Value::Object(json) = serde_json::from_str(
            &printed(&Figures::form(), &canon::encode(&figures).unwrap()).unwrap(),
        )
        .unwrap() else {
            unreachable!()
        };
        assert_eq!(json.keys().next().map(String::as_str), Some(figures.kind()));
    }
}

#[test]
fn the_json_of_an_entry_is_what_people_and_other_readers_expect() {
    let at = Stamp { boot: BootNs(5), mono_ns: u64::MAX, wall: WallUs(1_785_180_331_123_456) };
    let began = CoverageEdge::Began {
        at: Stamp { wall: WallUs(253_402_300_799_999_999), ..at },
        host: "a\"b".into(),
        device_touch: true,
        process_events: false,
    };
    let body = (Moment { boot: BootId(0xab), stamp: at }, Figures::Coverage(began));
    let json = printed(&ENTRY, &canon::encode(&body).unwrap()).unwrap();
    assert_eq!(
        json,
        "{\"at\":{\"boot\":\"000000000000000000000000000000ab\",\"stamp\":{\"boot\":5,\"mono_ns\":18446744073709551615,\
         \"wall\":{\"at\":\"2026-07-27T19:25:31.123456+00:00\",\"us\":\"1785180331123456\"}}},\"figures\":{\"coverage\":\
         {\"began\":{\"at\":{\"boot\":5,\"mono_ns\":18446744073709551615,\"wall\":{\"at\":\
         \"9999-12-31T23:59:59.999999+00:00\",\"us\":\"253402300799999999\"}},\"host\":\"a\\\"b\",\"device_touch\":true,\
         \"process_events\":false}}}}"
    );
    assert_eq!(
        printed(&EVIDENCE, &canon::encode(&Evidence::None).unwrap()).unwrap(),
        "{\"none\":{}}"
    );
    for us in [253_402_300_800_000_000, u64::MAX] {
        let past = printed(&Form::Time, &canon::encode(&WallUs(us)).unwrap()).unwrap();
        assert_eq!(past, format!("{{\"at\":null,\"us\":\"{us}\"}}"));
    }
}

/// Every form below a form.
fn walk(form: &Form, visit: &mut dyn FnMut(&Form)) {
    visit(form);
    let mut fields = |fields: &Fields| {
        fields.always.iter().chain(fields.last.as_deref()).for_each(|(_, form)| walk(form, visit));
    };
    match form {
        Form::Maybe(form) | Form::List(form) | Form::Set(form) => walk(form, visit),
        Form::Pair(pair) => {
            walk(&pair.0, visit);
            walk(&pair.1, visit);
        }
        Form::Record { fields: of_record, .. } => fields(of_record),
        Form::Tagged { words, .. } => words.iter().for_each(|(_, of_word)| fields(of_word)),
        _ => {}
    }
}

#[test]
fn one_name_is_one_form_and_what_the_printer_cannot_do_is_not_there() {
    let mut records = BTreeMap::new();
    collect(&ENTRY, &mut records);
    collect(&EVIDENCE, &mut records);
    let mut met = BTreeSet::new();
    for form in [&*ENTRY, &*EVIDENCE] {
        walk(form, &mut |form| match form {
            Form::Record { name, fields } => {
                assert_eq!(records[name], fields, "{name}");
                met.insert(*name);
            }
            Form::Set(of) => assert!(matches!(**of, Form::Word { .. }), "{of:?}"),
            // Null would mean two things.
            Form::Maybe(of) => assert!(!matches!(**of, Form::Maybe(_)), "{of:?}"),
            _ => {}
        });
    }
    assert_eq!(met.len(), records.len());
    let schema = schema().unwrap();
    let document: Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(document["records"].as_object().unwrap().len(), records.len());
    assert_eq!(document["records"]["Pid"]["always"][0], serde_json::json!(["0", "number4"]));
    assert_eq!(document["records"]["GpuMark"]["last"][0], "doubted_since");
    assert!(schema.len() < 32 << 10, "{}", schema.len());
}
