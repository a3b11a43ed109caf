//! Where control group hierarchies are mounted, from `/proc/self/mountinfo`.
//!
//! Purpose: the place of the v2 root for device touch, and of v1 hierarchies for the self-test.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::{KernelError, read_file};

/// One mounted hierarchy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CgroupMount {
    /// Names of v1 controllers, `name=…` among them; `None` for v2.
    pub controllers: Option<Vec<String>>,
    /// Which group of the hierarchy is mounted there; `/` is all of it.
    pub root: PathBuf,
    /// Where.
    pub place: PathBuf,
}

/// Every cgroup mount in the order of mountinfo.
pub fn cgroup_mounts(proc_root: &Path) -> Result<Vec<CgroupMount>, KernelError> {
    let text = read_file(&proc_root.join("self/mountinfo"))?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(cgroup_mount).collect())
}

/// Where the whole v2 tree is mounted; `None` where it is not.
pub fn cgroup2_root(proc_root: &Path) -> Result<Option<PathBuf>, KernelError> {
    let mut mounts = cgroup_mounts(proc_root)?.into_iter();
    let whole = Path::new("/");
    Ok(mounts.find(|it| it.controllers.is_none() && it.root == whole).map(|it| it.place))
}

/// A line is: id parent major:minor root place options … - type source options.
fn cgroup_mount(line: &[u8]) -> Option<CgroupMount> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let dash = words.iter().position(|word| *word == b"-")?;
    let controllers = match *words.get(dash.checked_add(1)?)? {
        b"cgroup2" => None,
        b"cgroup" => {
            let options = String::from_utf8_lossy(words.get(dash.checked_add(3)?)?);
            Some(options.split(',').map(str::to_owned).collect())
        }
        _ => return None,
    };
    Some(CgroupMount { controllers, root: unescape(words.get(3)?), place: unescape(words.get(4)?) })
}

/// Undoes mountinfo's octal escapes of space, tab, newline and backslash (`fs/proc_namespace.c`).
fn unescape(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().filter(|_| *first == b'\\');
        let byte = digits.and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        });
        if let (Some(byte), Some(behind)) = (byte, after.get(3..)) {
            bytes.push(byte);
            rest = behind;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hybrid_mounts_are_found_and_their_names_unescaped() {
        let made = tempfile::tempdir().unwrap();
        std::fs::create_dir(made.path().join("self")).unwrap();
        let lines = "\
            31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            36 31 0:33 /part /mnt/part rw - cgroup2 cgroup2 rw\n\
            41 31 0:38 / /sys/fs/with\\040space rw shared:9 - cgroup2 cgroup2 rw\n\
            broken line\n";
        std::fs::write(made.path().join("self/mountinfo"), lines).unwrap();
        let mounts = cgroup_mounts(made.path()).unwrap();
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].controllers, Some(vec!["rw".to_owned(), "memory".to_owned()]));
        let root = cgroup2_root(made.path()).unwrap();
        assert_eq!(root, Some(PathBuf::from("/sys/fs/with space")));
    }
}
