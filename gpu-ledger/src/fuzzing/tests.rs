//! What was found worth keeping, as it is and with changes: the same functions that fuzzing runs for longer.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::input::changed;
use super::{TARGETS, Target};

/// Changed inputs a target, in the test command.
const CASES: u32 = 200;
/// Of those that write files for each, and check whole batches and journals.
const CASES_OF_FILES: u32 = 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// The kept inputs of a target.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = folder().join("corpus").join(name);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn holds((name, target): Target) {
    let corpus = corpus(name);
    for input in &corpus {
        target(input);
    }
    target(&[]);
    let is_of_files = matches!(name, "batch" | "bundle" | "journal" | "names");
    let cases = if is_of_files { CASES_OF_FILES } else { CASES };
    let changes = prop::collection::vec(any::<u8>(), 0..60);
    let seed = prop::sample::select(corpus);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let run = TestRunner::new(config).run(&(seed, changes), |(seed, changes)| {
        target(&changed(&seed, &changes));
        target(&changes);
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// A test for each target, so that each is told by its name.
macro_rules! each {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            let target = TARGETS.into_iter().find(|(name, _)| *name == stringify!($name));
            holds(target.unwrap());
        })*

        /// No target is without its test, its program and its folder.
        #[test]
        fn every_target_is_run_here_and_by_a_program_of_its_own() {
            assert_eq!(TARGETS.map(|(name, _)| name), [$(stringify!($name)),*]);
            let listed = |folder: PathBuf| {
                let entries = fs::read_dir(folder).unwrap();
                let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
                let mut names: Vec<String> = names.collect();
                names.sort();
                names
            };
            let programs = TARGETS.map(|(name, _)| format!("{name}.rs"));
            assert_eq!(listed(folder().join("fuzz_targets")), programs);
            assert_eq!(listed(folder().join("corpus")), TARGETS.map(|(name, _)| name));
        }
    };
}

each![
    argv,
    batch,
    bill,
    btf,
    bundle,
    bundle_documents,
    cgroup_path,
    config,
    entry,
    host,
    journal,
    meters,
    names,
    note,
    nvml,
    prices,
    process,
    proof,
    ring,
    rows,
    rules,
    socket,
];
