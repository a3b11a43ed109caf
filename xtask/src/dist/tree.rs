//! The files of a package, each with its place and mode.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, ensure};

use super::tool::tool;
use super::{names, read};

/// One file.
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
    /// The administrator's: kept over an upgrade, and taken away by purge alone.
    pub(super) config: bool,
}

/// Files by their places, which begin with no slash.
#[derive(Default)]
pub(super) struct Tree(pub(super) BTreeMap<String, File>);

/// Units, beside which drop-ins are examples.
const UNITS: [&str; 4] = [
    "gpu-ledger.service",
    "gpu-ledger-accounting.service",
    "gpu-ledger-names.socket",
    "gpu-ledger-names@.service",
];
/// What is to copy from, and in force nowhere as it is.
const EXAMPLES: [&str; 4] = ["rules.toml", "prices.toml", "listener.conf", "no-device-touch.conf"];
const DOC: &str = "usr/share/doc/gpu-ledger";

impl Tree {
    /// All of them, with the .deb's places where the two packages differ.
    pub(super) fn gather(
        root: &Path,
        program: &Path,
        manual: &Path,
        sbom: &str,
        notices: &str,
        changelog: &str,
    ) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        let own = root.join("gpu-ledger/units");
        tree.put("usr/bin/gpu-ledger", std::fs::read(program)?, 0o755);
        for unit in UNITS {
            tree.put_text(&format!("usr/lib/systemd/system/{unit}"), &read(&own.join(unit))?);
        }
        for kind in ["sysusers", "tmpfiles"] {
            let text = read(&own.join(format!("{kind}.conf")))?;
            tree.put_text(&format!("usr/lib/{kind}.d/gpu-ledger.conf"), &text);
        }
        tree.put_text("etc/gpu-ledger/config.toml", &read(&own.join("config.toml"))?);
        if let Some(config) = tree.0.get_mut("etc/gpu-ledger/config.toml") {
            config.config = true;
        }
        for example in EXAMPLES {
            tree.put_text(&format!("{DOC}/examples/{example}"), &read(&own.join(example))?);
        }
        tree.put_text(&format!("{DOC}/units.md"), &read(&own.join("README.md"))?);
        tree.put_text(&format!("{DOC}/copyright"), &read(&root.join("packaging/deb/copyright"))?);
        tree.put_packed(&format!("{DOC}/changelog.Debian"), changelog)?;
        tree.put_packed(&format!("{DOC}/third-party-notices"), notices)?;
        tree.put_packed(&format!("{DOC}/sbom.cdx.json"), sbom)?;
        let pages = manual.join("man");
        for page in names(&pages)? {
            tree.put_packed(&format!("usr/share/man/man1/{page}"), &read(&pages.join(&page))?)?;
        }
        for (made, place) in [
            ("gpu-ledger.bash", "bash-completion/completions/gpu-ledger"),
            ("_gpu-ledger", "zsh/vendor-completions/_gpu-ledger"),
            ("gpu-ledger.fish", "fish/vendor_completions.d/gpu-ledger.fish"),
        ] {
            tree.put_text(&format!("usr/share/{place}"), &read(&manual.join(made))?);
        }
        Ok(tree)
    }

    fn put(&mut self, place: &str, bytes: Vec<u8>, mode: u32) {
        self.0.insert(place.to_owned(), File { bytes, mode, config: false });
    }

    pub(super) fn put_text(&mut self, place: &str, text: &str) {
        self.put(place, text.as_bytes().to_vec(), 0o644);
    }

    /// A text as policy wants it: gzip's smallest, without name or time.
    fn put_packed(&mut self, place: &str, text: &str) -> anyhow::Result<()> {
        let mut gzip =
            tool("gzip").args(["-9n"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut into = gzip.stdin.take().context("gzip has no stdin")?;
        let text = text.to_owned();
        let writer = std::thread::spawn(move || into.write_all(text.as_bytes()));
        let output = gzip.wait_with_output()?;
        ensure!(output.status.success(), "gzip: {}", output.status);
        writer.join().ok().context("the writer to gzip died")??;
        self.put(&format!("{place}.gz"), output.stdout, 0o644);
        Ok(())
    }

    /// Writes all of them below a folder, dated alike.
    pub(super) fn write(&self, folder: &Path, epoch: &str) -> anyhow::Result<()> {
        for (place, file) in &self.0 {
            put_file(&folder.join(place), &file.bytes, file.mode)?;
        }
        date(folder, epoch)
    }
}

/// Writes a file with its mode, whatever the umask.
pub(super) fn put_file(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let folder = path.parent().context("a file lies in a folder")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    std::fs::write(path, bytes).with_context(|| path.display().to_string())?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
    Ok(())
}

/// Gives everything below a folder, and it, one time, and folders one mode.
pub(super) fn date(folder: &Path, epoch: &str) -> anyhow::Result<()> {
    let mut all: Vec<PathBuf> = vec![folder.to_path_buf()];
    let mut next = 0;
    while let Some(path) = all.get(next).cloned() {
        if path.is_dir() {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
            for name in names(&path)? {
                all.push(path.join(name));
            }
        }
        next += 1;
    }
    // Folders after what is in them.
    let at = format!("@{epoch}");
    let touched =
        tool("touch").args(["--no-dereference", "--date", &at]).args(all.iter().rev()).status()?;
    ensure!(touched.success(), "touch: {touched}");
    Ok(())
}
