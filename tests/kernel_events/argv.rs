//! Arguments come as they lie in memory, and what is missing of them is said.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use gpu_ledger::kernel::{Argv, ArgvState, TracerOptions};
use gpu_ledger::unit::Pid;
use gpu_ledger_ebpf::ARGV_MAX;

use crate::support::{Watch, actor, watch};

/// What exec is given and what of it the record holds.
fn round_trip(watch: &mut Watch, arguments: &[&[u8]]) -> (Vec<u8>, Argv) {
    let mut given = actor().as_os_str().as_bytes().to_vec();
    given.push(0);
    for argument in arguments {
        given.extend_from_slice(argument);
        given.push(0);
    }
    let mut child = Command::new(actor())
        .args(arguments.iter().map(|argument| OsStr::from_bytes(argument)))
        .env_clear()
        .spawn()
        .unwrap();
    child.wait().unwrap();
    let exec = watch.exec_of(Pid(child.id()));
    assert_eq!(exec.filename, actor().as_os_str().as_bytes());
    (given, exec.argv)
}

#[test]
fn any_bytes_come_through_unchanged() {
    let Some(mut watch) = watch("any_bytes_come_through_unchanged", &TracerOptions::default())
    else {
        return;
    };
    let cases: [&[&[u8]]; 5] = [
        &[],
        &[b""],
        &[b"", b"", b"two\nlines", b""],
        &[b"\x1b[31mred\x1b[0m", b"\xff\xfe\x80 not UTF-8 \xc3\x28"],
        &["grün 東京".as_bytes(), b"a b\tc\\d'e\"f"],
    ];
    for case in cases {
        let (given, argv) = round_trip(&mut watch, case);
        assert_eq!(argv.bytes, given);
        assert_eq!(argv.true_length, Some(given.len() as u64));
        assert_eq!(argv.state, ArgvState::Whole);
    }
}

#[test]
fn the_capture_limit_is_exact_to_the_byte() {
    let Some(mut watch) =
        watch("the_capture_limit_is_exact_to_the_byte", &TracerOptions::default())
    else {
        return;
    };
    let name = actor().as_os_str().len() + 1;
    for total in [ARGV_MAX - 1, ARGV_MAX, ARGV_MAX + 1] {
        let argument = vec![b'x'; total - name - 1];
        let (given, argv) = round_trip(&mut watch, &[&argument]);
        assert_eq!((given.len(), argv.true_length), (total, Some(total as u64)));
        assert_eq!(argv.bytes, given[..total.min(ARGV_MAX)]);
        let whole = total <= ARGV_MAX;
        assert_eq!(argv.state, if whole { ArgvState::Whole } else { ArgvState::Truncated });
    }
}

#[test]
fn two_megabytes_of_arguments_are_cut_and_their_length_kept() {
    let name = "two_megabytes_of_arguments_are_cut_and_their_length_kept";
    let Some(mut watch) = watch(name, &TracerOptions::default()) else { return };
    // One argument may have 128 KiB at most.
    let piece = vec![b'y'; 103_999];
    let rest = vec![b'z'; 2_090_000 - 20 * 104_000 - actor().as_os_str().len() - 2];
    let mut arguments = vec![piece.as_slice(); 20];
    arguments.push(&rest);
    let (given, argv) = round_trip(&mut watch, &arguments);
    assert_eq!((given.len(), argv.true_length), (2_090_000, Some(2_090_000)));
    assert_eq!(argv.bytes, given[..ARGV_MAX]);
    assert_eq!(argv.state, ArgvState::Truncated);
}
