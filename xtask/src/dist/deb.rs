//! The .deb, by dpkg-deb from a folder of files: nothing stands between the tree and the package.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::tool::{both, ran, told, tool};
use super::tree::{date, put_file};
use super::{Parts, Version, say};

const CONTROL: &str = include_str!("../../../packaging/deb/control");
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("../../../packaging/deb/postinst")),
    ("prerm", include_str!("../../../packaging/deb/prerm")),
    ("postrm", include_str!("../../../packaging/deb/postrm")),
];
const OVERRIDES_AT: &str = "usr/share/lintian/overrides/gpu-ledger";
/// What lintian says and is wrong about here, each with its reason.
const OVERRIDES: &str = include_str!("../../../packaging/deb/lintian-overrides");

/// Makes the package of this version in a folder.
pub(super) fn make(parts: &Parts, version: &Version, out: &Path) -> anyhow::Result<PathBuf> {
    let full = format!("{}-{}", version.upstream, version.revision);
    let work = tempfile::tempdir()?;
    let tree = work.path().join("tree");
    parts.tree.write(&tree, &parts.epoch)?;
    put_file(&tree.join("usr/share/lintian/overrides/gpu-ledger"), OVERRIDES.as_bytes(), 0o644)?;
    let control = tree.join("DEBIAN");
    let size: usize = parts.tree.0.values().map(|file| file.bytes.len().div_ceil(1024)).sum();
    let text = CONTROL
        .replace("@VERSION@", &full)
        .replace("@SIZE@", &size.to_string())
        .replace("@GLIBC@", &parts.needs.glibc.to_string());
    ensure!(
        !text.contains('@') || text.contains("@gpu-ledger.invalid"),
        "a blank of control is left"
    );
    put_file(&control.join("control"), text.as_bytes(), 0o644)?;
    let mut conffiles = String::new();
    for (place, _) in parts.tree.0.iter().filter(|(_, file)| file.config) {
        writeln!(conffiles, "/{place}")?;
    }
    put_file(&control.join("conffiles"), conffiles.as_bytes(), 0o644)?;
    let sums = sums(&tree, parts)?;
    put_file(&control.join("md5sums"), sums.as_bytes(), 0o644)?;
    for (name, script) in SCRIPTS {
        put_file(&control.join(name), script.as_bytes(), 0o755)?;
    }
    date(&tree, &parts.epoch)?;
    let package = out.join(format!("gpu-ledger_{full}_amd64.deb"));
    // xz, as Debian's own; a trial is unpacked once and need not be small.
    let packed: &[&str] = if parts.release { &["-Zxz"] } else { &["-Zgzip", "-z1"] };
    told(
        tool("dpkg-deb")
            .env("SOURCE_DATE_EPOCH", &parts.epoch)
            .arg("--root-owner-group")
            .args(packed)
            .arg("--build")
            .args([&tree, &package]),
    )?;
    Ok(package)
}

/// What `debsums` compares an installed system with.
fn sums(tree: &Path, parts: &Parts) -> anyhow::Result<String> {
    let places = parts.tree.0.iter().filter(|(_, file)| !file.config).map(|(place, _)| place);
    told(tool("md5sum").current_dir(tree).args(places).arg(OVERRIDES_AT))
}

/// That the package is what the tree is, and the same bytes when it is made again.
pub(super) fn look(package: &Path, parts: &Parts) -> anyhow::Result<()> {
    let again = tempfile::tempdir()?;
    let second = make(parts, &parts.version, again.path())?;
    let same = std::fs::read(package)? == std::fs::read(&second)?;
    ensure!(same, "{} has other bytes when it is made again", package.display());
    let listed = told(tool("dpkg-deb").arg("--contents").arg(package))?;
    for (place, file) in &parts.tree.0 {
        let line = listed.lines().find(|line| line.ends_with(&format!(" ./{place}")));
        let line = line.with_context(|| format!("the .deb lacks {place}"))?;
        let mode = if file.mode == 0o755 { "-rwxr-xr-x root/root" } else { "-rw-r--r-- root/root" };
        ensure!(line.starts_with(mode), "{line}: not {mode}");
    }
    Ok(())
}

/// What lintian says of the package: nothing, but for what is overridden.
pub(super) fn lint(package: &Path) -> anyhow::Result<()> {
    let mut lintian = tool("lintian");
    // As root it says that it should not be; it reads the package alone.
    lintian.args(["--allow-root", "--fail-on=error,warning", "--tag-display-limit=0"]).arg(package);
    let output = ran(&mut lintian)?;
    let said = both(&output);
    ensure!(output.status.success(), "lintian: {}\n{said}", output.status);
    say(&format!("lintian has nothing against {}\n{said}", package.display()))
}
