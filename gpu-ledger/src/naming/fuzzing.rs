//! What fuzzing asks of the readers of runtimes' files and of the helper's words (`fuzz/README.md`).

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::answer::{ANSWER_BYTES_MAX, answer, read_answer};
use super::asked::Question;
use super::files::Files;
use crate::attribution::ContainerNames;
use crate::fuzzing::input::{changed, chosen, is_printable, parts};
use crate::fuzzing::scratch;

/// The container that is asked about.
const ID: &str = "3453ef37e6675f6b7464f564fd59dc250c78fff1816d930f60911f598f1e6b33";
/// Pages of a real database of containerd, which knows it.
const PAGES: &str = include_str!("../../../tests/data/containerd/1.6.20.pages");
/// A database of Podman that knows it, without its log.
const PODMAN: &[u8] = include_bytes!("../../../fuzz/golden/podman.sqlite");
const PAGE: usize = 4_096;

/// A file that a runtime writes: where, and with which word it is asked for.
const TEXTS: [(&str, &str); 6] = [
    ("docker", "var/lib/docker/containers/ID/config.v2.json"),
    ("containerd", "run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json"),
    ("cri-o", "run/containers/storage/overlay-containers/ID/userdata/config.json"),
    ("podman", "var/lib/containers/storage/overlay-containers/containers.json"),
    ("docker", "etc/docker/daemon.json"),
    ("podman", "etc/containers/storage.conf"),
];

/// A runtime's file with any bytes in it, or a real database with some bytes changed: names that are bounded, none, or
/// an error that is safe to print.
pub fn names(bytes: &[u8]) {
    let (what, input) = chosen(bytes);
    scratch::with(|folder| {
        let root = folder.join("names");
        drop(fs::remove_dir_all(&root));
        let kinds = TEXTS.len();
        match TEXTS.get(what % 16) {
            Some((runtime, place)) => {
                scratch::write(&root, &place.replace("ID", ID), input);
                asked(&root, runtime);
            }
            None if what % 16 == kinds => {
                let place = "var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db";
                scratch::write(&root, place, &changed(containerd(), input));
                asked(&root, "containerd");
            }
            None if what % 16 == kinds.saturating_add(1) => {
                let (changes, log) = match parts(input).as_slice() {
                    [changes, log, ..] => (*changes, *log),
                    _ => (input, [].as_slice()),
                };
                let store = "var/lib/containers/storage";
                scratch::write(&root, &format!("{store}/db.sql"), &changed(PODMAN, changes));
                scratch::write(&root, &format!("{store}/db.sql-wal"), log);
                asked(&root, "podman");
            }
            None if what % 16 == kinds.saturating_add(2) => {
                let place = "var/lib/containers/storage/libpod/bolt_state.db";
                scratch::write(&root, place, &changed(containerd(), input));
                asked(&root, "podman");
            }
            None => words(input),
        }
    });
}

fn asked(root: &Path, runtime: &str) {
    let Ok(question) = Question::parse(&format!("{runtime} {ID}")) else { return };
    match Files::below(root).names_of(&question, |_| None) {
        Ok(names) => same_again(names.as_ref()),
        Err(error) => assert!(is_printable(&error.to_string()), "{error:?}"),
    }
}

/// Names come out of an answer as they went in.
fn same_again(names: Option<&ContainerNames>) {
    let line = answer(names);
    assert!(!line.contains('\n'), "{line}");
    assert!(u64::try_from(line.len()).is_ok_and(|length| length < ANSWER_BYTES_MAX), "{line}");
    assert_eq!(read_answer(line.as_bytes()).as_ref().map(Option::as_ref), Ok(names));
}

/// The helper's line, and the line that it is asked with.
fn words(input: &[u8]) {
    if let Ok(names) = read_answer(input) {
        same_again(names.as_ref());
    }
    if let Ok(line) = std::str::from_utf8(input)
        && let Ok(question) = Question::parse(line)
    {
        assert_eq!(Question::parse(&question.to_string()), Ok(question));
    }
}

fn containerd() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let mut file = Vec::new();
        for line in PAGES.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let mut number = || words.next().and_then(|word| word.parse::<usize>().ok());
            let (Some(page), Some(length)) = (number(), number()) else { continue };
            let content = STANDARD.decode(words.next().unwrap_or_default()).unwrap_or_default();
            let at = page.saturating_mul(PAGE);
            file.resize(file.len().max(at.saturating_add(length)), 0);
            if let Some(into) = file.get_mut(at..at.saturating_add(content.len())) {
                into.copy_from_slice(&content);
            }
        }
        file
    })
}
