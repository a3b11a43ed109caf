//! Kernels as their distributions sign them: fetched with apt, which proves every byte, into a folder of their own.
//! Nothing of this machine's own packages is looked at or changed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

/// Where a kernel comes from.
pub(super) struct Source {
    /// What it is called here, and asked for.
    pub(super) name: &'static str,
    mirror: &'static str,
    suite: &'static str,
    /// The package that depends on the newest kernel of the suite.
    meta: &'static str,
    keyring: Keyring,
    pub(super) btf: Btf,
}

/// Who signs for it.
#[derive(Clone, Copy)]
enum Keyring {
    /// Debian's, which is installed.
    Debian,
    /// Ubuntu's, as Debian has it in a package.
    OfPackage,
}

/// Whether the kernel says how it is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Btf {
    There,
    /// The product has to say that it is not.
    Missing,
}

const DEBIAN: &str = "http://deb.debian.org/debian";

const fn debian(name: &'static str, suite: &'static str) -> Source {
    let (mirror, meta) = (DEBIAN, "linux-image-cloud-amd64");
    Source { name, mirror, suite, meta, keyring: Keyring::Debian, btf: Btf::There }
}

/// Ascending by version, and the one that has no BTF.
pub(super) const SOURCES: [Source; 5] = [
    debian("5.10", "bullseye"),
    debian("6.1", "bookworm"),
    debian("6.12", "trixie"),
    debian("newest", "sid"),
    Source {
        name: "no-btf",
        mirror: "http://archive.ubuntu.com/ubuntu",
        suite: "focal",
        meta: "linux-image-virtual",
        keyring: Keyring::OfPackage,
        btf: Btf::Missing,
    },
];

/// What cannot be tried here, and why.
pub(super) const NOT_TRIED: [(&str, &str); 3] = [
    ("Enterprise Linux 8", "its kernels are in no archive that apt can prove"),
    ("Enterprise Linux 9", "its kernels are in no archive that apt can prove"),
    ("arm64", "the kernel object and the programs of the guest are built for x86_64 alone"),
];

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A kernel that can be booted.
pub(super) struct Kernel {
    /// As its package calls it: `6.1.0-50-cloud-amd64`.
    pub(super) release: String,
    pub(super) image: PathBuf,
}

/// Fetches the newest kernel of a suite, or takes the one that was fetched before.
pub(super) fn fetch(source: &Source, folder: &Path) -> anyhow::Result<Kernel> {
    let place = folder.join(source.name);
    let keyring = match source.keyring {
        Keyring::Debian => PathBuf::from(KEYRING),
        Keyring::OfPackage => ubuntu_keyring(folder)?,
    };
    let apt = Apt::at(&place, source, &keyring)?;
    let release = apt.newest(source.meta)?;
    let unpacked = place.join(&release);
    let image = |unpacked: &Path| {
        let places = [
            unpacked.join(format!("boot/vmlinuz-{release}")),
            unpacked.join(format!("usr/lib/modules/{release}/vmlinuz")),
        ];
        places.into_iter().find(|path| path.is_file())
    };
    if image(&unpacked).is_none() {
        // Newer packages have the image beside their scripts; of others the signed one has a package without it.
        let names = [format!("linux-image-{release}"), format!("linux-binary-{release}")];
        let mut fetched = 0;
        for name in names {
            if apt.knows(&name)? {
                apt.unpack(&name, &unpacked)?;
                fetched += 1;
            }
        }
        ensure!(fetched > 0, "{} has no package of kernel {release}", source.suite);
    }
    let image = image(&unpacked)
        .with_context(|| format!("no kernel image in what {} has as {release}", source.suite))?;
    Ok(Kernel { release, image })
}

/// Ubuntu's keys, proven by Debian's.
fn ubuntu_keyring(folder: &Path) -> anyhow::Result<PathBuf> {
    let place = folder.join("keyring");
    let file = place.join("x/usr/share/keyrings/ubuntu-archive-keyring.gpg");
    if !file.is_file() {
        let source = debian("keyring", "trixie");
        Apt::at(&place, &source, Path::new(KEYRING))?.unpack("ubuntu-keyring", &place.join("x"))?;
    }
    ensure!(file.is_file(), "{} is not in ubuntu-keyring", file.display());
    Ok(file)
}

/// apt, with a suite and a state of its own.
struct Apt {
    place: PathBuf,
    configuration: PathBuf,
}

impl Apt {
    fn at(place: &Path, source: &Source, keyring: &Path) -> anyhow::Result<Self> {
        for folder in ["lists/partial", "archives/partial", "parts"] {
            std::fs::create_dir_all(place.join(folder))
                .with_context(|| place.display().to_string())?;
        }
        let place = place.canonicalize()?;
        let list = format!(
            "deb [signed-by={} arch=amd64] {} {} main\n",
            keyring.display(),
            source.mirror,
            source.suite
        );
        std::fs::write(place.join("sources.list"), list)?;
        std::fs::write(place.join("status"), "")?;
        let mut text = String::new();
        for (key, value) in [
            ("Dir::Etc::SourceList", "sources.list"),
            ("Dir::Etc::SourceParts", "parts"),
            ("Dir::Etc::Parts", "parts"),
            ("Dir::Etc::PreferencesParts", "parts"),
            ("Dir::State::Lists", "lists"),
            ("Dir::State::Status", "status"),
            ("Dir::Cache", "."),
        ] {
            writeln!(text, "{key} \"{}\";", place.join(value).display())?;
        }
        // A mirror that stands still, and suites that are at their end, are no less signed.
        text.push_str(
            "APT::Architecture \"amd64\";\nAPT::Architectures {\"amd64\";};\nAPT::Sandbox::User \"root\";\n\
             Acquire::Languages \"none\";\nAcquire::Retries \"3\";\nAcquire::Check-Valid-Until \"false\";\n",
        );
        let configuration = place.join("apt.conf");
        std::fs::write(&configuration, text)?;
        let apt = Self { place, configuration };
        apt.run("apt-get", &["-q", "update"], &apt.place)?;
        Ok(apt)
    }

    /// The kernel that a package without content stands for.
    fn newest(&self, meta: &str) -> anyhow::Result<String> {
        let depends = self.run("apt-cache", &["depends", "--important", meta], &self.place)?;
        let named = depends.lines().filter_map(|line| {
            line.trim().strip_prefix("Depends: linux-image-").map(|name| name.trim().to_owned())
        });
        let mut releases: Vec<String> =
            named.filter(|name| name.starts_with(|first: char| first.is_ascii_digit())).collect();
        match (releases.pop(), releases.is_empty()) {
            (Some(release), true) => Ok(release),
            _ => bail!("{meta} does not stand for one kernel:\n{depends}"),
        }
    }

    fn knows(&self, package: &str) -> anyhow::Result<bool> {
        let names = self.run("apt-cache", &["pkgnames", package], &self.place)?;
        Ok(names.lines().any(|name| name == package))
    }

    fn unpack(&self, package: &str, to: &Path) -> anyhow::Result<()> {
        let folder = tempfile::tempdir_in(&self.place)?;
        self.run("apt-get", &["-q", "download", package], folder.path())?;
        for file in std::fs::read_dir(folder.path())? {
            let file = file?.path();
            let (file, to) = (file.display().to_string(), to.display().to_string());
            self.run("dpkg-deb", &["-x", &file, &to], &self.place)?;
        }
        Ok(())
    }

    fn run(&self, program: &str, words: &[&str], folder: &Path) -> anyhow::Result<String> {
        let output = Command::new(program)
            .args(words)
            .env("APT_CONFIG", &self.configuration)
            .env("LC_ALL", "C")
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {program}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("{program} {}: {}\n{said}", words.join(" "), output.status);
        }
        String::from_utf8(output.stdout).with_context(|| format!("what {program} says is no text"))
    }
}
