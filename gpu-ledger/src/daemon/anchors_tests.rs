//! The places outside: each by itself, and none that can hold anybody up.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::journal::Digest;
use crate::journal::note::{Checkpoint, SigningKey};

fn signed(size: u64) -> Signed {
    let key = SigningKey::from_seed("gpu-ledger/0123456789abcdef", &[7; 32]).unwrap();
    let checkpoint = Checkpoint { origin: key.public().name().into(), size, root: Digest([9; 32]) };
    let note = checkpoint.sign(&key).unwrap().into();
    Signed { checkpoint, note }
}

fn at() -> WallUs {
    WallUs(1_785_180_331_123_456)
}

/// What became of two checkpoints.
fn sent(syslog: &Path, file: Option<&Path>) -> Outlets {
    let outlets = SharedOutlets::default();
    let file = file.map(Path::to_path_buf);
    let mut anchors = Anchors::start(syslog.to_path_buf(), file, Arc::clone(&outlets));
    anchors.send(&signed(1), at());
    anchors.send(&signed(2), at());
    anchors.finish();
    outlets.lock().unwrap().clone()
}

#[test]
fn a_checkpoint_gets_into_log_and_file_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (log, file) = (folder.path().join("log"), folder.path().join("checkpoints"));
    let socket = UnixDatagram::bind(&log).unwrap();
    let outlets = sent(&log, Some(&file));
    let on = Outlet { is_on: Some(true), failed: 0, lack: None };
    assert_eq!(outlets, Outlets { syslog: on.clone(), file: on });
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, format!("{}\n{}\n", signed(1).note, signed(2).note));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o137, 0);
    let mut bytes = [0; 2_000];
    let length = socket.recv(&mut bytes).unwrap();
    let line = std::str::from_utf8(&bytes[..length]).unwrap();
    assert!(line.starts_with("<29>") && line.contains(" gpu-ledger-checkpoint["), "{line}");
    // The note can be made of it again.
    let parts: Vec<&str> = line
        .split(' ')
        .filter_map(|part| {
            let (name, value) = part.split_once('=')?;
            ["origin", "size", "root", "signature"].contains(&name).then_some(value)
        })
        .collect();
    let [origin, size, root, signature] = parts[..] else { panic!("{line}") };
    let note = format!("{origin}\n{size}\n{root}\n\n— {origin} {signature}\n");
    assert_eq!(note, *signed(1).note);
}

#[test]
fn what_is_not_there_is_off_and_what_fails_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none");
    let outlets = sent(&none, None);
    let off = Outlet { is_on: Some(false), failed: 0, lack: None };
    assert_eq!(outlets, Outlets { syslog: off.clone(), file: off });
    // A link, a pipe that nobody reads and a folder are no file.
    let (link, pipe) = (folder.path().join("link"), folder.path().join("pipe"));
    std::os::unix::fs::symlink(folder.path().join("victim"), &link).unwrap();
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
    for wrong in [&link, &pipe, &folder.path().to_path_buf()] {
        let outlets = sent(&none, Some(wrong));
        assert_eq!((outlets.file.is_on, outlets.file.failed), (Some(true), 2), "{wrong:?}");
        let lack = outlets.file.lack.unwrap();
        assert!(lack.contains(&wrong.display().to_string()), "{lack}");
        assert!(!folder.path().join("victim").exists());
    }
    // A log that takes nothing more holds nobody up.
    let log = folder.path().join("log");
    let _unread = UnixDatagram::bind(&log).unwrap();
    let outlets = SharedOutlets::default();
    let mut anchors = Anchors::start(log, None, Arc::clone(&outlets));
    for size in 1..3_000 {
        anchors.send(&signed(size), at());
    }
    anchors.finish();
    let outlets = outlets.lock().unwrap().clone();
    assert!(outlets.syslog.failed > 0, "{outlets:?}");
}
