//! Bundles on the disk, and what is none: told by what it is, in bounded time, by the binary's code and by the script.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::made::{Bundle, Journal, faults, fifty};
use super::python::python;
use crate::audit::verify::{Known, Verdict, verify};
use crate::journal::note::VerifyingKey;
use crate::rendering::json;
use crate::support::skip;

fn write(bundle: &Bundle, folder: &Path) {
    for (name, bytes) in &bundle.0 {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// The verdict, held against the script's, its exit status too.
fn both(path: &Path, python: Option<&Path>) -> Verdict {
    let verdict = verify(path, &Known::default());
    let schema = include_str!("../../../../schema/audit-verdict.v1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let page = json(&verdict).unwrap();
    let page: Value = serde_json::from_str(&page).unwrap();
    assert!(schema.is_valid(&page), "{page}");
    if let Some(python) = python {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/audit/assets/verify.py");
        let run = |more: &[&str]| {
            Command::new(python).args(["-B", script]).arg(path).args(more).output().unwrap()
        };
        let output = run(&["--json"]);
        let said: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {output:?}"));
        assert_eq!(said, page);
        assert_eq!(output.status.code(), Some(verdict.exit_status().into()));
        assert_eq!(String::from_utf8_lossy(&run(&[]).stdout), verdict.to_string());
    }
    verdict
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list")]
fn what_is_no_bundle_is_told_by_what_it_is() {
    let python = python();
    if let Err(reason) = &python {
        skip("what_is_no_bundle_is_told_by_what_it_is", reason);
    }
    let python = python.ok();
    let python = python.as_deref();
    let journal = Journal::of(fifty());
    let bundle = journal.bundle(&journal.all());
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let place = folder.path().join(name);
        std::fs::create_dir(&place).unwrap();
        place
    };
    let good = place("good");
    write(&bundle, &good);
    assert_eq!(both(&good, python).exit_status(), 0);
    let told = |path: &Path| faults(&both(path, python));
    assert_eq!(told(&folder.path().join("nothing")), [". is not there"]);
    assert_eq!(told(&place("empty")), ["manifest.json is missing"]);
    assert_eq!(
        told(&good.join("entries.jsonl")),
        [". is not of the format gpu-ledger-audit-proof"]
    );
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(told(&pipe), [". is not a folder"]);

    let links = place("links");
    write(&bundle, &links);
    std::fs::remove_file(links.join("bill.csv")).unwrap();
    symlink("/etc/passwd", links.join("bill.csv")).unwrap();
    std::fs::rename(&pipe, links.join("pipe")).unwrap();
    std::fs::create_dir_all(links.join("rules/deep")).unwrap();
    assert_eq!(
        told(&links),
        [
            "bill.csv is not a plain file",
            "pipe is not in the manifest",
            "rules/deep is not in the manifest"
        ]
    );
    std::fs::remove_file(links.join("manifest.json")).unwrap();
    symlink(good.join("manifest.json"), links.join("manifest.json")).unwrap();
    assert_eq!(told(&links), ["manifest.json is not a plain file"]);

    for name in bundle.0.keys().filter(|name| !name.contains('/')) {
        let folders = place(&format!("folder-{name}"));
        write(&bundle, &folders);
        std::fs::remove_file(folders.join(name)).unwrap();
        std::fs::create_dir(folders.join(name)).unwrap();
        let found = told(&folders);
        assert!(found.iter().any(|fault| fault.starts_with(&format!("{name} "))), "{found:?}");
    }

    // A line of ten gigabytes, of which none is on the disk.
    let long = place("long");
    write(&bundle, &long);
    let file = std::fs::File::create(long.join("entries.jsonl")).unwrap();
    file.set_len(10 << 30).unwrap();
    assert_eq!(
        told(&long),
        [
            "entries.jsonl has another size than the manifest says",
            "entries.jsonl 1 a line is longer than 16 MiB"
        ]
    );
    for (name, half) in [
        ("manifest.json", "is not written as this format writes it"),
        ("checkpoint", "is not a signed note"),
    ] {
        let cut = place(&format!("cut-{name}"));
        write(&bundle, &cut);
        let bytes = &bundle.0[name];
        std::fs::write(cut.join(name), &bytes[..bytes.len() / 2]).unwrap();
        assert!(told(&cut).contains(&format!("{name} {half}")), "{name}");
    }
}

/// Bundles that earlier versions made: this one, and the script that each of them has, say of them what was said then.
#[test]
fn a_bundle_that_an_earlier_version_made_is_still_proven_in_the_same_words() {
    let python = python();
    if let Err(reason) = &python {
        skip("a_bundle_that_an_earlier_version_made_is_still_proven_in_the_same_words", reason);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/audit");
    let mut looked_at = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bundle = entry.unwrap().path();
        if !bundle.is_dir() {
            continue;
        }
        looked_at += 1;
        let said = std::fs::read(bundle.with_extension("verdict.json")).unwrap();
        let said: Value = serde_json::from_slice(&said).unwrap();
        let line = std::fs::read_to_string(bundle.join("key.pub")).unwrap();
        let key: VerifyingKey = line.trim_end().parse().unwrap();
        let verdict = verify(&bundle, &Known { key: Some(key), witness: None });
        let now: Value = serde_json::from_str(&json(&verdict).unwrap()).unwrap();
        assert_eq!(now, said, "{}", bundle.display());
        assert_eq!(now["integrity"]["verdict"], "good");
        if let Ok(python) = &python {
            let output = Command::new(python)
                .args(["-B".as_ref(), bundle.join("verify.py").as_os_str()])
                .args(["--json", "--key", line.trim_end()])
                .output()
                .unwrap();
            let now: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(now, said, "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    assert!(looked_at >= 1, "no bundle is kept");
}
