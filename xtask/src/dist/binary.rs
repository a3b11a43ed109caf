//! What a program needs of the system that it is installed on.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};

use super::tool::{both, ran, told, tool};

/// Libraries that the program may need: glibc, and the one that unwinds. All else is linked in; the driver's is opened
/// when it runs, which takes glibc's `dlopen`.
const LIBRARIES: [&str; 4] = ["ld-linux-x86-64.so.2", "libc.so.6", "libgcc_s.so.1", "libm.so.6"];

/// That of Debian 12, the oldest system the packages are for.
const GLIBC_MAX: Glibc = Glibc(2, 36);

/// A version of glibc.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Glibc(u32, u32);

impl std::fmt::Display for Glibc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// What a system must have.
pub(super) struct Needs {
    pub(super) glibc: Glibc,
}

/// What a dynamic program needs; refuses more than the packages say.
pub(super) fn look(program: &Path) -> anyhow::Result<Needs> {
    let headers = told(tool("objdump").arg("-p").arg(program))?;
    let symbols = told(tool("objdump").arg("-T").arg(program))?;
    let needed: Vec<&str> = needed(&headers).collect();
    ensure!(needed.contains(&"libc.so.6"), "{} needs no libc: {headers}", program.display());
    for library in &needed {
        ensure!(
            LIBRARIES.contains(library),
            "it needs {library}, which no package of ours asks for"
        );
    }
    let glibc = symbols.split_whitespace().filter_map(version).max();
    let glibc = glibc.context("objdump says no version of glibc")?;
    ensure!(
        glibc <= GLIBC_MAX,
        "it needs glibc {glibc}; build it on Debian 12, which has {GLIBC_MAX}"
    );
    Ok(Needs { glibc })
}

fn needed(headers: &str) -> impl Iterator<Item = &str> {
    headers.lines().filter_map(|line| line.trim().strip_prefix("NEEDED").map(str::trim))
}

/// Of `(GLIBC_2.34)`.
fn version(word: &str) -> Option<Glibc> {
    let numbers = word.trim_matches(['(', ')']).strip_prefix("GLIBC_")?;
    let mut numbers = numbers.split('.').map(str::parse::<u32>);
    Some(Glibc(numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// That a static program needs nothing, verifies a bundle, and says of the driver what is so.
pub(super) fn look_at_static(program: &Path, root: &Path) -> anyhow::Result<()> {
    let headers = told(tool("objdump").arg("-p").arg(program))?;
    let needed: Vec<&str> = needed(&headers).collect();
    ensure!(
        needed.is_empty() && !headers.contains("INTERP"),
        "the static program needs {needed:?}"
    );
    let mut verify = tool(program);
    verify.args(["audit", "verify"]).arg(root.join("tests/data/audit/v1"));
    let verified = ran(&mut verify)?;
    // 0 or 2: of a bundle this old the freshness may be unknown; integrity that failed is 1.
    ensure!(
        matches!(verified.status.code(), Some(0 | 2)),
        "the static program cannot verify a bundle: {}\n{}",
        verified.status,
        both(&verified)
    );
    let doctor = ran(tool(program).arg("doctor"))?;
    let said = both(&doctor);
    if !said.contains("nvml-library-not-found:static-build") {
        bail!("the doctor of the static program does not say that it is one:\n{said}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_and_not_text() {
        assert_eq!(version("(GLIBC_2.2.5)"), Some(Glibc(2, 2)));
        assert!(version("GLIBC_2.36") > version("GLIBC_2.4"));
        assert_eq!(version("GLIBC_PRIVATE"), None);
        assert_eq!(version("GCC_3.0"), None);
    }

    #[test]
    fn libraries_are_found_in_what_objdump_says() {
        let headers =
            "  NEEDED               libm.so.6\n  SONAME  x\n  NEEDED               libc.so.6\n";
        assert_eq!(needed(headers).collect::<Vec<_>>(), ["libm.so.6", "libc.so.6"]);
    }

    #[test]
    fn this_very_program_needs_a_libc_and_a_library_too_many_is_refused() {
        let own = std::env::current_exe().unwrap();
        assert!(look(&own).unwrap().glibc >= Glibc(2, 2));
        // Of all programs of a Debian system, the one that must have more than glibc.
        let error = look(Path::new("/usr/bin/dpkg-deb")).err().unwrap().to_string();
        assert!(error.contains("which no package of ours asks for"), "{error}");
    }
}
