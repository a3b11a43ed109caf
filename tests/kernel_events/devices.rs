//! Who touched an NVIDIA character device.

use std::path::{Path, PathBuf};

use gpu_ledger::kernel::{DeviceTouch, DeviceTouchState, Event, TracerOptions};
use gpu_ledger::unit::Pid;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::support::{Watch, skip, watch};

/// A device node of this test, removed at its end.
pub(crate) struct Node(PathBuf);

impl Node {
    pub(crate) fn make(major: u32, minor: u32) -> Self {
        let name = format!("device-{}-{major}-{minor}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &path, FileType::CharacterDevice, mode, makedev(major, minor)).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn own_touches(watch: &Watch) -> impl Iterator<Item = &DeviceTouch> {
    let own = Pid(std::process::id());
    watch.events.iter().filter_map(move |event| match event {
        Event::DeviceTouch(touch) if touch.subject.key.pid == own => Some(touch),
        _ => None,
    })
}

#[test]
fn an_open_of_a_watched_device_is_seen_though_no_driver_answers() {
    let name = "an_open_of_a_watched_device_is_seen_though_no_driver_answers";
    let Some(mut watch) = watch(name, &TracerOptions::default()) else { return };
    match watch.tracer.device_touch() {
        DeviceTouchState::On { majors } => assert!(majors.contains(&195)),
        DeviceTouchState::Off { reason } => return skip(name, reason),
    }
    let (watched, other) = (Node::make(195, 7), Node::make(1, 3));
    assert!(own_touches(&watch).next().is_none());
    // ENXIO without the driver: the touch counts, not the success.
    drop(std::fs::File::open(&watched.0));
    std::fs::File::open(&other.0).unwrap();
    watch.until("the touch", |events| {
        events.iter().any(|event| matches!(event, Event::DeviceTouch(_))).then_some(())
    });
    watch.quiet();
    let touches: Vec<_> = own_touches(&watch).collect();
    assert_eq!(touches.len(), 1, "one open, and neither mknod nor /dev/null's number");
    assert_eq!((touches[0].major, touches[0].minor), (195, 7));
    assert_eq!(touches[0].subject.uid, Some(rustix::process::getuid().as_raw()));
}

#[test]
fn device_touch_that_cannot_be_attached_is_off_with_its_cause_and_nothing_else_is() {
    let name = "device_touch_that_cannot_be_attached_is_off_with_its_cause_and_nothing_else_is";
    let nowhere = PathBuf::from("/proc/self");
    let options = TracerOptions { cgroup2_root: Some(nowhere), ..TracerOptions::default() };
    let Some(mut watch) = watch(name, &options) else { return };
    let DeviceTouchState::Off { reason } = watch.tracer.device_touch() else {
        panic!("/proc/self is no control group")
    };
    assert!(reason.contains("device_touch"), "{reason}");
    let pid = watch.act(&["exit", "3"]);
    assert_eq!(watch.exit_of(pid).wait_status, Some(3 << 8));
}
