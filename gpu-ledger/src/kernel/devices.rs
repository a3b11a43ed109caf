//! Which character devices are NVIDIA's, from `/proc/devices`.

use std::collections::BTreeSet;
use std::path::Path;

use super::{KernelError, read_file};

/// NVIDIA's registered major (`Documentation/admin-guide/devices.txt`): watched also while the
/// driver is not loaded yet. The majors of `nvidia-uvm` and `nvidia-caps` are given out when it is.
pub const NVIDIA_MAJOR: u32 = 195;

/// Majors of all character devices whose driver is named `nvidia` or `nvidia-…`, and
/// [`NVIDIA_MAJOR`], in order.
pub fn nvidia_majors(proc_root: &Path) -> Result<Vec<u32>, KernelError> {
    let path = proc_root.join("devices");
    let text = read_file(&path)?;
    let text = String::from_utf8_lossy(&text);
    let mut majors = BTreeSet::from([NVIDIA_MAJOR]);
    for line in text.lines().take_while(|line| !line.starts_with("Block devices:")) {
        let mut words = line.split_whitespace();
        let (Some(major), Some(name)) = (words.next(), words.next()) else { continue };
        if name != "nvidia" && !name.starts_with("nvidia-") {
            continue;
        }
        let what = "a character device's line does not begin with its major";
        let wrong = |_| KernelError::Text { path: path.display().to_string(), what };
        majors.insert(major.parse().map_err(wrong)?);
    }
    Ok(majors.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn majors_of(text: &str) -> Result<Vec<u32>, KernelError> {
        let made = tempfile::tempdir().unwrap();
        std::fs::write(made.path().join("devices"), text).unwrap();
        nvidia_majors(made.path())
    }

    #[test]
    fn the_registered_major_is_watched_before_the_driver_is_loaded() {
        let text = "Character devices:\n  1 mem\n\nBlock devices:\n259 blkext\n";
        assert_eq!(majors_of(text).unwrap(), [195]);
    }

    #[test]
    fn every_nvidia_character_device_counts_and_no_block_device() {
        let text = "Character devices:\n195 nvidia\n195 nvidiactl\n195 nvidia-frontend\n\
                    234 nvidia-nvswitch\n235 nvidia-caps\n236 nvidia-uvm\n1 mem\n\n\
                    Block devices:\n240 nvidia-odd\n";
        assert_eq!(majors_of(text).unwrap(), [195, 234, 235, 236]);
    }

    #[test]
    fn a_major_that_is_no_number_is_an_error() {
        assert!(matches!(majors_of("x nvidia\n"), Err(KernelError::Text { .. })));
    }
}
