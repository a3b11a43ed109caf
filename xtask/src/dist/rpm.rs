//! The .rpm, by rpmbuild from the same tree.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::tool::{told, tool};
use super::tree::Tree;
use super::{Parts, names};

const SPEC: &str = "packaging/rpm/gpu-ledger.spec";

/// Makes the package in a folder.
pub(super) fn make(root: &Path, parts: &Parts, out: &Path) -> anyhow::Result<PathBuf> {
    let work = tempfile::tempdir()?;
    let tree = work.path().join("tree");
    parts.tree.write_moved(&tree, &parts.epoch)?;
    let list = work.path().join("files");
    std::fs::write(&list, files(&parts.tree)?)?;
    let made = work.path().join("made");
    let payload = if parts.release { "w19.zstdio" } else { "w1.zstdio" };
    let mut rpmbuild = tool("rpmbuild");
    rpmbuild.env("SOURCE_DATE_EPOCH", &parts.epoch).args(["-bb", "--quiet"]);
    for (name, value) in [
        ("_topdir", work.path().join("rpmbuild").as_path()),
        ("_rpmdir", &made),
        ("tree", &tree),
        ("list", &list),
        ("upstream", parts.version.upstream.as_ref()),
        ("revision", parts.version.revision.as_ref()),
        ("glibc", parts.needs.glibc.to_string().as_ref()),
        ("_binary_payload", payload.as_ref()),
        // The same bytes from the same tree, wherever it is built.
        ("_buildhost", "localhost".as_ref()),
        ("use_source_date_epoch_as_buildtime", "1".as_ref()),
        ("clamp_mtime_to_source_date_epoch", "1".as_ref()),
        // The program is as it is in the .deb.
        ("__os_install_post", "%{nil}".as_ref()),
        ("debug_package", "%{nil}".as_ref()),
        ("_build_id_links", "none".as_ref()),
    ] {
        rpmbuild.arg("--define").arg(format!("{name} {}", value.display()));
    }
    told(rpmbuild.arg(root.join(SPEC)))?;
    let made = made.join("x86_64");
    let built = names(&made)?;
    let name =
        built.first().with_context(|| format!("rpmbuild made nothing in {}", made.display()))?;
    let package = out.join(name);
    super::copy(&made.join(name), &package)?;
    Ok(package)
}

/// The spec's list of files.
fn files(tree: &Tree) -> anyhow::Result<String> {
    let mut list = String::new();
    for (place, file) in &tree.0 {
        let place = moved(place);
        let kind = match place.as_str() {
            _ if file.config => "%config(noreplace) ",
            doc if doc.starts_with("usr/share/doc/") || doc.starts_with("usr/share/man/") => {
                "%doc "
            }
            _ => "",
        };
        writeln!(list, "%attr({:04o},root,root) {kind}/{place}", file.mode)?;
    }
    Ok(list)
}

/// Where a file lies on systems with .rpm.
pub(super) fn moved(place: &str) -> String {
    place
        .replace("/zsh/vendor-completions/", "/zsh/site-functions/")
        .replace("/changelog.Debian.gz", "/changelog.gz")
}

impl Tree {
    fn write_moved(&self, folder: &Path, epoch: &str) -> anyhow::Result<()> {
        for (place, file) in &self.0 {
            super::tree::put_file(&folder.join(moved(place)), &file.bytes, file.mode)?;
        }
        super::tree::date(folder, epoch)
    }
}

/// That the package is what the tree is, asks for what the program needs, and is the same bytes when made again.
pub(super) fn look(package: &Path, root: &Path, parts: &Parts) -> anyhow::Result<()> {
    let again = tempfile::tempdir()?;
    let second = make(root, parts, again.path())?;
    let same = std::fs::read(package)? == std::fs::read(&second)?;
    ensure!(same, "{} has other bytes when it is made again", package.display());
    let query = |what: &str| told(tool("rpm").args(["-qp", what]).arg(package));
    let listed = query("--list")?;
    for place in parts.tree.0.keys() {
        let place = format!("/{}", moved(place));
        ensure!(listed.lines().any(|line| line == place), "the .rpm lacks {place}:\n{listed}");
    }
    ensure!(query("--configfiles")?.trim() == "/etc/gpu-ledger/config.toml", "its configuration");
    let requires = query("--requires")?;
    let libc = format!("libc.so.6(GLIBC_{})(64bit)", parts.needs.glibc);
    let asks = |word: &str| requires.lines().any(|line| line.trim() == word);
    ensure!(
        asks("systemd") && (asks(&libc) || asks(&format!("glibc >= {}", parts.needs.glibc))),
        "the .rpm does not ask for {libc} and systemd:\n{requires}"
    );
    Ok(())
}
