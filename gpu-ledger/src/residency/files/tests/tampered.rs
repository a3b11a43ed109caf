//! Whatever byte of whatever file is changed: it is found, and the file is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use proptest::prelude::*;

use super::made::{self, Recipe};
use crate::residency::files::{SUMS, verify};

/// A small batch, made once.
fn batch() -> &'static (tempfile::TempDir, PathBuf) {
    static MADE: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let recipe = Recipe { duration_ms: 300, ..Recipe::default() };
        let report = made::batch(folder.path(), &recipe);
        assert_eq!(verify(&report.folder).exit_status(), 0);
        (folder, report.folder)
    })
}

/// A copy of a batch, in a folder of the batch's name.
struct Copied {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Copied {
    fn path(&self) -> &Path {
        &self.path
    }
}

/// A copy of it, one file of which is otherwise.
fn with(file: &str, bytes: Option<&[u8]>) -> Copied {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(Recipe::default().id);
    let copy = Copied { _folder: folder, path };
    for (name, whole) in made::files(&batch().1) {
        let path = copy.path().join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let bytes = if name == file { bytes } else { Some(&whole[..]) };
        if let Some(bytes) = bytes {
            fs::write(path, bytes).unwrap();
        }
    }
    copy
}

fn assert_found(file: &str, copy: &Copied) {
    let report = verify(copy.path());
    assert_eq!(report.as_recorded, Some(false), "{file}: {report}");
    assert_ne!(report.exit_status(), 0, "{file}: {report}");
    assert!(!report.accepted);
    let is_named = report
        .findings
        .iter()
        .any(|finding| finding.file == file || file == SUMS && finding.problem.contains(SUMS));
    assert!(is_named, "{file}: {report}");
    // Both forms of the report can be had of it.
    serde_json::to_string(&report).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_changed_byte_is_found(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), flip in 1_u8..) {
        let files: Vec<(String, Vec<u8>)> = made::files(&batch().1).into_iter().collect();
        let (name, bytes) = which.get(&files);
        let mut bytes = bytes.clone();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        assert_found(name, &with(name, Some(&bytes)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_file_that_is_cut_or_longer_is_found(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let files: Vec<(String, Vec<u8>)> = made::files(&batch().1).into_iter().collect();
        let (name, bytes) = which.get(&files);
        let at = at.index(bytes.len());
        assert_found(name, &with(name, Some(&bytes[..at])));
        let longer = [&bytes[..], &bytes[..=at]].concat();
        assert_found(name, &with(name, Some(&longer)));
    }
}

#[test]
fn a_file_that_is_gone_is_found() {
    for name in made::files(&batch().1).into_keys() {
        let copy = with(&name, None);
        let report = verify(copy.path());
        assert_ne!(report.exit_status(), 0, "{name}: {report}");
        assert!(!report.accepted && report.as_recorded == Some(false), "{name}: {report}");
        let text = report.to_string();
        assert!(text.contains(&name), "{name}: {text}");
    }
}

#[test]
fn links_and_devices_in_the_place_of_files_are_refused_and_not_followed() {
    for name in made::files(&batch().1).into_keys() {
        let copy = with(&name, None);
        let path = copy.path().join(&name);
        std::os::unix::fs::symlink(batch().1.join(&name), &path).unwrap();
        let report = verify(copy.path());
        assert!(!report.accepted, "{name}: {report}");
        assert!(report.to_string().contains("no regular file"), "{name}: {report}");
        // One that nobody ever writes into: whoever opened it for reading would wait.
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        assert!(!verify(copy.path()).accepted, "{name}");
    }
}

#[test]
fn windows_that_changed_places_or_are_of_another_batch_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let windows = vec![vec![[1, 1, 1, 1]], vec![[2, 1, 1, 1]]];
    let report = made::batch(folder.path(), &Recipe { windows, ..Recipe::default() });
    let window = |number: u32| report.folder.join(format!("iterations/{number:04}"));
    fs::rename(window(1), window(3)).unwrap();
    fs::rename(window(2), window(1)).unwrap();
    fs::rename(window(3), window(2)).unwrap();
    made::sum_again(&report.folder);
    let verified = verify(&report.folder);
    assert!(!verified.accepted, "{verified}");
    assert_eq!(verified.exit_status(), 4, "{verified}");
    fs::remove_dir_all(window(1)).unwrap();
    let verified = verify(&report.folder);
    assert!(verified.to_string().contains("iterations/0001: it is not there"), "{verified}");
}
