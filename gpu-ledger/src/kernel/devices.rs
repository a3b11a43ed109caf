//! Which character devices are NVIDIA's, and where the cgroup v2 tree is mounted.
//!
//! Purpose: what device touch needs to know of the system, from `/proc/devices` and
//! `/proc/self/mountinfo` under a root that tests make up.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::KernelError;

/// NVIDIA's registered major (`Documentation/admin-guide/devices.txt`): watched also while the
/// driver is not loaded yet. The majors of `nvidia-uvm` and `nvidia-caps` are given out when it is.
pub const NVIDIA_MAJOR: u32 = 195;

/// Majors of all character devices whose driver's name is `nvidia` or begins with `nvidia-`, and
/// [`NVIDIA_MAJOR`], in order.
pub fn nvidia_majors(proc_root: &Path) -> Result<Vec<u32>, KernelError> {
    let path = proc_root.join("devices");
    let text = read(&path)?;
    let mut majors = BTreeSet::from([NVIDIA_MAJOR]);
    let lines = text.split(|byte| *byte == b'\n');
    for line in lines.take_while(|line| !line.starts_with(b"Block devices:")) {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        let (Some(major), Some(name)) = (words.next(), words.next()) else { continue };
        if name != "nvidia" && !name.starts_with("nvidia-") {
            continue;
        }
        let Ok(major) = major.parse() else {
            return Err(text_error(&path, "a line of a character device begins with its major"));
        };
        majors.insert(major);
    }
    Ok(majors.into_iter().collect())
}

/// Where the root of the cgroup v2 tree is mounted; `None` where it is not.
pub fn cgroup2_root(proc_root: &Path) -> Result<Option<PathBuf>, KernelError> {
    let text = read(&proc_root.join("self/mountinfo"))?;
    for line in text.split(|byte| *byte == b'\n') {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        // id parent major:minor root mount-point options … - type source options
        let Some(dash) = words.iter().position(|word| *word == b"-") else { continue };
        let kind = words.get(dash.saturating_add(1)).copied();
        let (Some(root), Some(place)) = (words.get(3), words.get(4)) else { continue };
        if kind == Some(b"cgroup2".as_slice()) && *root == b"/" {
            return Ok(Some(unescape(place)));
        }
    }
    Ok(None)
}

/// Undoes the octal escapes of mountinfo (`fs/proc_namespace.c`, `show_mnt_opts` and `mangle`).
fn unescape(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.first_chunk::<3>().filter(|_| *first == b'\\');
        let escaped = octal.and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        });
        match (escaped, after.get(3..)) {
            (Some(byte), Some(behind)) => {
                bytes.push(byte);
                rest = behind;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn read(path: &Path) -> Result<Vec<u8>, KernelError> {
    std::fs::read(path).map_err(|cause| KernelError::File { path: shown(path), cause })
}

fn text_error(path: &Path, what: &'static str) -> KernelError {
    KernelError::Text { path: shown(path), what }
}

fn shown(path: &Path) -> String {
    String::from_utf8_lossy(OsStr::as_bytes(path.as_os_str())).into_owned()
}
