//! Every bit of a bundle of fifty entries, one after the other.

use sha2::{Digest as _, Sha256};

use super::made::{Bundle, Journal, fifty};
use super::python::{Asked, told};
use crate::audit::verify::line::{Brings, Prover};
use crate::audit::verify::read::Manifest;
use crate::audit::verify::whole::{Whole, verify};
use crate::audit::verify::{Fault, Files as _, Known};
use crate::journal::entry::Figures;

/// The bytes with one bit turned.
fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    changed[bit / 8] ^= 1 << (bit % 8);
    changed
}

/// The digest of the first fault of each flip; a flip without a fault fails.
fn all_flips(bundle: &Bundle, name: &str) -> String {
    let known = Known::default();
    let found = bundle.names().unwrap();
    let manifest = Manifest::read(&bundle.0["manifest.json"]).unwrap();
    // What comes before such a file's own bytes is as it was.
    let listed = manifest.files.iter().find(|file| file.name == name);
    let listed = listed.filter(|_| !matches!(name, "key.pub" | "checkpoint"));
    let mut told = Sha256::new();
    let mut changed = bundle.clone();
    for bit in 0..bundle.0[name].len() * 8 {
        changed.0.get_mut(name).unwrap()[bit / 8] ^= 1 << (bit % 8);
        let fault = match listed {
            Some(listed) => {
                let wrong = Whole { files: &changed, known: &known }.file(listed, &found);
                let what = wrong.err().map(|wrong| wrong.0);
                what.map(|what| Fault { file: name.to_owned(), seq: None, what })
            }
            None => verify(&changed, &known, Some(1)).integrity.faults.into_iter().next(),
        };
        changed.0.get_mut(name).unwrap()[bit / 8] ^= 1 << (bit % 8);
        let fault = fault.unwrap_or_else(|| panic!("{name}, bit {bit}"));
        told.update(serde_json::to_string(&fault).unwrap());
        told.update("\n");
    }
    hex(told)
}

fn hex(digest: Sha256) -> String {
    crate::journal::Digest(digest.finalize().into()).to_string()
}

#[test]
fn every_bit_of_every_file_is_found_by_both() {
    let journal = Journal::of(fifty());
    let mut part = journal.all();
    (part.first, part.last, part.beside) = (3, 46, vec![1, 2, 48]);
    let bundle = journal.bundle(&part);
    let mut asked = Asked::of(&bundle);
    bundle.0.keys().for_each(|name| asked.flips(name));
    let (answers, wanted) = std::thread::scope(|scope| {
        let answers = scope.spawn(|| asked.answers("every_bit_of_every_file_is_found_by_both"));
        let wanted = bundle.0.iter().map(|(name, bytes)| {
            let (digest, flips) = (all_flips(&bundle, name), bytes.len() * 8);
            format!(r#"{{"digest":"{digest}","missed":[],"flips":{flips}}}"#)
        });
        let wanted: Vec<String> = wanted.collect();
        (answers.join().unwrap(), wanted)
    });
    let Some(answers) = answers else { return };
    assert_eq!(answers[1..], wanted);
}

#[test]
fn every_bit_of_a_line_is_found_by_the_line_itself() {
    let journal = Journal::of(fifty());
    let bundle = journal.bundle(&journal.all());
    let mut asked = Asked::of(&bundle);
    let mut lines = Vec::new();
    // One of each kind, and one that brings its path.
    let mut kinds = std::collections::BTreeSet::new();
    for (seq, said) in (1..).zip(&journal.said) {
        if kinds.insert(said.figures.kind()) {
            lines.push((journal.line(seq, None), Brings::Entry));
        }
        if matches!(said.figures, Figures::Open(_)) && lines.len() == 3 {
            lines.push((journal.line(seq, Some(50)), Brings::Proof));
        }
    }
    assert!(lines.iter().any(|(_, brings)| *brings == Brings::Proof));
    for (line, brings) in &lines {
        asked.line(line, *brings == Brings::Proof);
    }
    let mut digests = Vec::new();
    let mut prover = Prover::default();
    for (line, brings) in &lines {
        let mut told = Sha256::new();
        for bit in 0..line.len() * 8 {
            // A path may be any: whether it leads to the root is seen with the tree.
            let wrong = prover.prove(&flipped(line.as_bytes(), bit), *brings);
            if let Err(wrong) = wrong {
                told.update(wrong.0.as_bytes());
            } else {
                assert_eq!(*brings, Brings::Proof, "bit {bit} of {line}");
                assert!(bit / 8 > line.find("\"proof\"").unwrap());
                told.update("none");
            }
            told.update("\n");
        }
        digests.push(hex(told));
    }
    let Some(answers) = asked.answers("every_bit_of_a_line_is_found_by_the_line_itself") else {
        return;
    };
    for (digest, answer) in digests.iter().zip(answers.iter().skip(1)) {
        assert!(answer.starts_with(&format!(r#"{{"digest":"{digest}","#)), "{answer}");
    }
}

#[test]
fn the_whole_verdict_on_a_flip_is_the_same_by_both() {
    let journal = Journal::of(fifty());
    let mut part = journal.all();
    (part.first, part.last, part.beside) = (3, 46, vec![1, 2, 48]);
    let bundle = journal.bundle(&part);
    let mut asked = Asked::of(&bundle);
    let mut wanted = vec![told(&bundle.verdict())];
    for (name, bytes) in &bundle.0 {
        // Every so-many-th bit, another one of its byte each time; with the manifest as it was, and redone.
        let step = (bytes.len() * 8 / 25).max(1) | 1;
        for bit in (0..bytes.len() * 8).step_by(step) {
            let mut changed = bundle.clone();
            changed.0.insert(name.clone(), flipped(bytes, bit));
            asked.verdict(&bundle, &changed, &Known::default());
            wanted.push(told(&changed.verdict()));
            changed.seal(&part, journal.period, &journal.key);
            asked.verdict(&bundle, &changed, &Known::default());
            wanted.push(told(&changed.verdict()));
        }
    }
    let Some(answers) = asked.answers("the_whole_verdict_on_a_flip_is_the_same_by_both") else {
        return;
    };
    for (answer, wanted) in answers.iter().zip(&wanted) {
        assert_eq!(answer, wanted);
    }
    assert_eq!(answers.len(), wanted.len());
}
