//! A disk that is full at any step.

use super::work;
use crate::support::skip;

/// Records where `script` leaves no room; whatever happens, nothing is accepted that is not whole.
fn record(script: &str, folder: &std::path::Path) -> (bool, Vec<String>) {
    let child = work::start(script, &format!("record\n{}\n", folder.display()));
    let said = work::said(child);
    assert!(!said.is_empty(), "{script}: it said nothing");
    let find = |word: &str| said.iter().find_map(|line| line.strip_prefix(word));
    if let Some(full) = find("error ") {
        assert_eq!(full, "true", "{script}: {said:?}");
        return (false, said);
    }
    let status = find("status ").unwrap();
    let is_whole = status == "0 0";
    // Writer and reader agree, and an incomplete batch is not a forged one.
    assert!(is_whole || status == "4 4" || status == "5 5", "{script}: {said:?}");
    assert_eq!(find("findings "), Some("0"), "{script}: {said:?}");
    assert_eq!(find("troubles ") == Some("0"), is_whole, "{script}: {said:?}");
    assert_eq!(find("text ").unwrap().contains("incomplete"), !is_whole, "{script}: {said:?}");
    (is_whole, said)
}

#[test]
fn a_file_that_cannot_grow_leaves_an_incomplete_batch() {
    let mut whole = 0;
    let mut cut = 0;
    // In blocks of 512 bytes: from less than a manifest to more than the longest file.
    for blocks in [1, 3, 6, 8, 12, 16, 24, 32, 40, 48, 200] {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let (is_whole, said) = record(&script, folder.path());
        whole += u32::from(is_whole);
        cut += u32::from(said.iter().any(|line| line.starts_with("status 4")));
    }
    assert!(whole >= 1 && cut >= 3, "{whole} whole, {cut} cut");
}

#[test]
fn a_full_disk_leaves_an_incomplete_batch() {
    if !rustix::process::geteuid().is_root() {
        return skip(
            "a_full_disk_leaves_an_incomplete_batch",
            "only root mounts a disk of a few pages",
        );
    }
    let mut whole = 0;
    for kib in (8..200).step_by(12) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let script = format!(
            "exec unshare --mount sh -c 'mount -t tmpfs -o size={kib}k none {path} && exec \"$@\"' sh \"$@\""
        );
        whole += u32::from(record(&script, folder.path()).0);
    }
    assert!(whole >= 1, "none was whole");
}
