//! The `dist` task: what is handed out. `packaging/README.md` says what is in it, and why it is so.

mod binary;
mod deb;
mod notices;
mod rpm;
mod sbom;
mod tool;
mod tree;
mod trial;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::cargo;
use tree::Tree;

/// What it is made for: the one platform so far.
const TARGET: &str = "x86_64-unknown-linux-gnu";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Put nothing by: make the packages from the test profile's program, look at them, and install, upgrade and remove
    /// the .deb in a fresh root of debootstrap (needs root)
    #[arg(long)]
    check: bool,
    /// Where the packages go
    #[arg(long, value_name = "DIR", default_value = "target/dist")]
    out: PathBuf,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let root = root()?;
    let out = root.join(&options.out);
    if options.check {
        let folder = tempfile::tempdir()?;
        let parts = Parts::build(&root, false, folder.path())?;
        return trial::run(&root, &parts, folder.path());
    }
    fresh(&out)?;
    let work = tempfile::tempdir()?;
    let parts = Parts::build(&root, true, work.path())?;
    let deb = deb::make(&parts, &parts.version, &out)?;
    deb::look(&deb, &parts)?;
    deb::lint(&deb)?;
    let rpm = rpm::make(&root, &parts, &out)?;
    rpm::look(&rpm, &root, &parts)?;
    let fixed = out.join(format!("gpu-ledger-{}-x86_64-static", parts.version.upstream));
    copy(&cargo::build_static(TARGET)?, &fixed)?;
    binary::look_at_static(&fixed, &root)?;
    std::fs::write(out.join("sbom.cdx.json"), &parts.sbom)?;
    let sums = tool::told(tool::tool("sha256sum").current_dir(&out).args(names(&out)?))?;
    std::fs::write(out.join("SHA256SUMS"), &sums)?;
    say(&format!("in {}:\n{sums}", options.out.display()))
}

/// The version of a package.
#[derive(Clone)]
pub(crate) struct Version {
    /// That of the program.
    upstream: String,
    /// That of the package of it.
    revision: String,
}

impl Version {
    /// As the changelog has it, whose first line must be of this program.
    fn of(changelog: &str) -> anyhow::Result<Self> {
        let first = changelog.lines().next().unwrap_or_default();
        let version = first.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        let (version, _) = version.context("packaging/deb/changelog begins with no version")?;
        let (upstream, revision) = version.split_once('-').context("a version without revision")?;
        let own = env!("CARGO_PKG_VERSION");
        ensure!(upstream == own, "packaging/deb/changelog is of {upstream}, the program of {own}");
        Ok(Self { upstream: upstream.to_owned(), revision: revision.to_owned() })
    }
}

/// What both packages are made of.
pub(crate) struct Parts {
    version: Version,
    /// Seconds since 1970 of every file and of every package: the same tree makes the same bytes.
    epoch: String,
    tree: Tree,
    needs: binary::Needs,
    sbom: String,
    release: bool,
}

impl Parts {
    fn build(root: &Path, release: bool, work: &Path) -> anyhow::Result<Self> {
        let changelog = read(&root.join("packaging/deb/changelog"))?;
        let version = Version::of(&changelog)?;
        let epoch = epoch(&changelog)?;
        let built = cargo::build_as(&["gpu-ledger"], release)?.named("gpu-ledger")?;
        let manual = cargo::build_example_as("gpu-ledger", "manual", release)?;
        let metadata = cargo::metadata(TARGET)?;
        let sbom = sbom::make(root, &metadata, &version.upstream, &epoch)?;
        let notices = notices::make(root, &metadata)?;
        // As the release profile leaves it: the names of functions stay, for a backtrace that somebody sends.
        let program = work.join("gpu-ledger");
        let stripped = tool::tool("strip")
            .arg("--strip-debug")
            .arg("-o")
            .arg(&program)
            .arg(&built)
            .status()?;
        ensure!(stripped.success(), "strip: {stripped}");
        let needs = binary::look(&program)?;
        let made = work.join("manual");
        fresh(&made)?;
        tool::told(tool::tool(&manual).arg(&made))?;
        let tree = Tree::gather(root, &program, &made, &sbom, &notices, &changelog)?;
        Ok(Self { version, epoch, tree, needs, sbom, release })
    }
}

/// `SOURCE_DATE_EPOCH`, or when the changelog says that this version was made.
fn epoch(changelog: &str) -> anyhow::Result<String> {
    if let Some(given) = std::env::var_os("SOURCE_DATE_EPOCH") {
        return given.into_string().ok().context("SOURCE_DATE_EPOCH is no text");
    }
    let signed = changelog.lines().find(|line| line.starts_with(" -- "));
    let (_, date) =
        signed.and_then(|line| line.split_once(">  ")).context("an undated changelog")?;
    let seconds = tool::told(tool::tool("date").args(["--utc", "+%s", "--date", date]))?;
    Ok(seconds.trim().to_owned())
}

fn root() -> anyhow::Result<PathBuf> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    Ok(root.canonicalize()?)
}

/// Makes a folder anew. Only one that this task made, or none, is taken away.
fn fresh(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        for name in names(folder)? {
            let path = folder.join(&name);
            ensure!(
                path.is_file(),
                "{} is nothing that dist made: name another --out",
                path.display()
            );
            std::fs::remove_file(&path)?;
        }
    }
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

/// What lies in a folder, sorted.
fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::copy(from, to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    Ok(())
}

fn say(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = include_str!("../../../packaging/deb/changelog");

    #[test]
    fn the_changelog_is_of_this_version_and_dated() {
        let version = Version::of(CHANGELOG).unwrap();
        assert_eq!(version.upstream, env!("CARGO_PKG_VERSION"));
        let other = CHANGELOG.replacen(env!("CARGO_PKG_VERSION"), "9.9.9", 1);
        let error = Version::of(&other).err().unwrap().to_string();
        assert!(error.contains("9.9.9") && error.contains(env!("CARGO_PKG_VERSION")), "{error}");
        assert!(epoch(CHANGELOG).unwrap().parse::<u64>().unwrap() > 1_700_000_000);
    }

    #[test]
    fn a_folder_of_somebody_else_is_not_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("theirs")).unwrap();
        let error = fresh(folder.path()).unwrap_err().to_string();
        assert!(error.contains("theirs"), "{error}");
        assert!(folder.path().join("theirs").is_dir());
    }
}
