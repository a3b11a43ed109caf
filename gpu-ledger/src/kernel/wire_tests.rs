//! Records by hand, and any bytes at all.

use proptest::prelude::*;

use super::*;

/// A record's bytes, field by field in the order of the wire.
#[derive(Default)]
struct Written(Vec<u8>);

impl Written {
    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn text(mut self, text: &[u8]) -> Self {
        self.0.extend(text);
        self
    }

    fn header(self, kind: u16, length: usize, flags: u32) -> Self {
        let length = u32::try_from(length).unwrap();
        self.u16(WIRE_VERSION).u16(kind).u32(length).u64(41).u64(9_000).u32(3).u32(flags)
    }

    fn subject(self) -> Self {
        let whom =
            self.u64(5_000).u64(4_000).u32(77).u32(66).u32(1_000).u32(0).u32(u32::MAX).u32(0);
        // v2; no cpuset in v1; devices; freezer; memory; pids in the same v1 hierarchy as memory.
        let whom = whom.u64(10).u32(0).u32(1).u64(0).u32(0).u32(0).u64(13).u32(6).u32(1);
        whom.u64(12).u32(5).u32(1).u64(11).u32(4).u32(1).u64(11).u32(4).u32(1)
    }

    fn bytes(self) -> Bytes {
        Bytes::from(self.0)
    }
}

fn expected_subject() -> Subject {
    Subject {
        key: ProcessKey { pid: Pid(77), start: BootNs(5_000) },
        parent: Some(ProcessKey { pid: Pid(66), start: BootNs(4_000) }),
        uid: Some(1_000),
        euid: Some(0),
        login_uid: LoginUid::Unset,
        cgroups: Some(
            [(0, 10), (6, 13), (5, 12), (4, 11)]
                .map(|(hierarchy, id)| CgroupId { hierarchy, id })
                .to_vec(),
        ),
        at: BootNs(9_000),
        cpu: 3,
        seq: 41,
    }
}

fn exec_record(name: &[u8], argv: &[u8], true_length: u64, flags: u32) -> Bytes {
    let length = size_of::<ExecHead>() + name.len() + argv.len();
    let head = Written::default().header(kind::EXEC, length, flags).subject();
    let image = head.u64(true_length).u64(321).u32(8 << 20 | 1);
    let lengths = image
        .u32(u32::try_from(name.len()).unwrap())
        .u32(u32::try_from(argv.len()).unwrap())
        .u32(0);
    lengths.text(name).text(argv).bytes()
}

#[test]
fn a_fork_is_its_subject() {
    let record = Written::default().header(kind::FORK, 168, 0).subject().bytes();
    assert_eq!(parse(&record), Ok(Event::Fork(Fork { subject: expected_subject() })));
}

#[test]
fn an_exit_carries_its_wait_status() {
    let record = Written::default().header(kind::EXIT, 176, 0).subject().u32(9).u32(0).bytes();
    let exit = Exit { subject: expected_subject(), wait_status: Some(9) };
    assert_eq!(parse(&record), Ok(Event::Exit(exit)));
}

#[test]
fn a_touch_carries_major_and_minor() {
    let head = Written::default().header(kind::DEVICE_TOUCH, 176, 0).subject();
    let touch = DeviceTouch { subject: expected_subject(), major: 195, minor: 255 };
    assert_eq!(parse(&head.u32(195).u32(255).bytes()), Ok(Event::DeviceTouch(touch)));
}

#[test]
fn an_exec_slices_its_texts_out_of_the_record() {
    let record = exec_record(b"/bin/x", b"x\0\xff\0", 4, 0);
    let Ok(Event::Exec(exec)) = parse(&record) else { panic!("{:?}", parse(&record)) };
    assert_eq!((exec.filename.as_ref(), exec.exe), (&b"/bin/x"[..], Some((8 << 20 | 1, 321))));
    assert_eq!((exec.argv.bytes.as_ref(), exec.argv.state), (&b"x\0\xff\0"[..], ArgvState::Whole));
    let inside = record.as_ptr_range();
    assert!(inside.contains(&exec.argv.bytes.as_ptr()), "no second copy");
}

#[test]
fn what_is_missing_of_argv_is_said() {
    let cases = [
        (&b"abc"[..], 9, flag::ARGV_TRUNCATED, ArgvState::Truncated),
        (b"", 9, flag::ARGV_SHED, ArgvState::Shed),
        (b"", 9, flag::ARGV_FAULTED, ArgvState::Unreadable),
    ];
    for (argv, true_length, flags, state) in cases {
        let Ok(Event::Exec(exec)) = parse(&exec_record(b"n", argv, true_length, flags)) else {
            panic!("{state:?}")
        };
        assert_eq!((exec.argv.state, exec.argv.true_length), (state, Some(true_length)));
    }
}

fn fork_record(flags: u32) -> Bytes {
    Written::default().header(kind::FORK, 168, flags).subject().bytes()
}

#[test]
fn a_member_of_the_subject_that_was_not_read_is_unknown_and_no_other() {
    let known = expected_subject();
    let cases = [
        (flag::PARENT_UNKNOWN, Subject { parent: None, ..known.clone() }),
        (flag::USER_UNKNOWN, Subject { uid: None, euid: None, ..known.clone() }),
        (flag::LOGIN_UID_UNKNOWN, Subject { login_uid: LoginUid::Unread, ..known.clone() }),
        (flag::CGROUPS_UNKNOWN, Subject { cgroups: None, ..known }),
    ];
    assert_eq!(cases.iter().fold(0, |all, (flag, _)| all | flag), flag::OF_SUBJECT);
    for (flags, subject) in cases {
        assert_eq!(parse(&fork_record(flags)), Ok(Event::Fork(Fork { subject })));
    }
}

#[test]
fn an_exit_whose_status_was_not_read_has_none() {
    let head = Written::default().header(kind::EXIT, 176, flag::WAIT_STATUS_UNKNOWN).subject();
    let exit = Exit { subject: expected_subject(), wait_status: None };
    assert_eq!(parse(&head.u32(0).u32(0).bytes()), Ok(Event::Exit(exit)));
}

#[test]
fn an_executable_that_was_not_read_is_none_and_not_device_0() {
    let record = exec_record(b"/bin/x", b"x\0", 2, flag::EXECUTABLE_UNKNOWN);
    let Ok(Event::Exec(exec)) = parse(&record) else { panic!("{:?}", parse(&record)) };
    assert_eq!((exec.exe, exec.filename.as_ref()), (None, &b"/bin/x"[..]));
}

#[test]
fn arguments_that_lie_nobody_knows_where_have_no_length() {
    let record = exec_record(b"n", b"", 0, flag::ARGV_PLACE_UNKNOWN);
    let Ok(Event::Exec(exec)) = parse(&record) else { panic!("{:?}", parse(&record)) };
    assert_eq!((exec.argv.true_length, exec.argv.state), (None, ArgvState::Unreadable));
}

#[test]
fn a_cgroup_whose_path_was_not_read_has_none() {
    for (flags, path) in [(0, Some(Bytes::new())), (flag::TEXT_FAULTED, None)] {
        let head = Written::default().header(kind::CGROUP_MADE, 56, flags);
        let record = head.u64(10).u32(0).u32(1).u32(0).u32(0).bytes();
        let Ok(Event::CgroupMade(made)) = parse(&record) else { panic!("{:?}", parse(&record)) };
        assert_eq!(made.path, path);
    }
}

#[test]
fn contradictions_are_errors_and_not_guesses() {
    let short_but_whole = exec_record(b"n", b"abc", 9, 0);
    assert!(matches!(parse(&short_but_whole), Err(WireError::Text { .. })));
    let shed_with_bytes = exec_record(b"n", b"abc", 9, flag::ARGV_SHED);
    assert!(matches!(parse(&shed_with_bytes), Err(WireError::Text { .. })));
    let placeless_with_bytes = exec_record(b"n", b"abc", 9, flag::ARGV_PLACE_UNKNOWN);
    assert!(matches!(parse(&placeless_with_bytes), Err(WireError::Text { .. })));
    let name_both_there_and_not = exec_record(b"n", b"abc", 3, flag::TEXT_FAULTED);
    assert!(matches!(parse(&name_both_there_and_not), Err(WireError::Flags { .. })));
    let of_another_kind = fork_record(flag::WAIT_STATUS_UNKNOWN);
    assert!(matches!(parse(&of_another_kind), Err(WireError::Flags { .. })));
    let nobodys = Written::default().header(kind::FORK, 168, 0).text(&[0; 136]).bytes();
    assert_eq!(parse(&nobodys), Err(WireError::Value { field: "tgid", value: 0 }));
    let both = exec_record(b"n", b"", 9, flag::ARGV_SHED | flag::ARGV_FAULTED);
    assert!(matches!(parse(&both), Err(WireError::Flags { .. })));
    let unknown_flag = exec_record(b"n", b"abc", 3, 1 << 30);
    assert!(matches!(parse(&unknown_flag), Err(WireError::Flags { .. })));
    let unknown_kind = Written::default().header(99, 168, 0).subject().bytes();
    assert_eq!(parse(&unknown_kind), Err(WireError::Kind { found: 99 }));
    let lying_length = Written::default().header(kind::FORK, 169, 0).subject().bytes();
    assert!(matches!(parse(&lying_length), Err(WireError::Length { .. })));
    let old = Written::default().u16(0).u16(kind::FORK).bytes();
    assert_eq!(parse(&old), Err(WireError::Version { found: 0 }));
}

proptest! {
    #[test]
    fn any_bytes_give_an_event_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        drop(parse(&Bytes::from(bytes)));
    }

    #[test]
    fn a_good_header_with_any_body_gives_an_event_or_an_error(
        kind in 0_u16..8,
        flags in 0_u32..1 << 13,
        body in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        let record = Written::default().header(kind, 32 + body.len(), flags).text(&body).bytes();
        if let Ok(Event::Exec(exec)) = parse(&record) {
            prop_assert!(exec.argv.bytes.len() <= ARGV_MAX);
        }
    }

    #[test]
    fn what_a_flag_calls_unknown_is_unknown_whatever_stands_there(
        flags in any::<u32>(),
        body in proptest::collection::vec(any::<u8>(), 136 + 32),
    ) {
        let flags = flags & (flag::OF_SUBJECT | flag::EXECUTABLE_UNKNOWN);
        let length = 32 + body.len();
        // No text behind it.
        let head = Written::default().header(kind::EXEC, length, flags | flag::ARGV_SHED);
        let record = head.text(&body[..136 + 20]).u32(0).u32(0).u32(0).bytes();
        if let Ok(Event::Exec(Exec { subject, exe, .. })) = parse(&record) {
            let unknown = |flag| flags & flag != 0;
            prop_assert_eq!(subject.parent.is_none(), unknown(flag::PARENT_UNKNOWN));
            prop_assert_eq!(subject.uid.is_none(), unknown(flag::USER_UNKNOWN));
            prop_assert_eq!(subject.euid.is_none(), unknown(flag::USER_UNKNOWN));
            let login = subject.login_uid == LoginUid::Unread;
            prop_assert_eq!(login, unknown(flag::LOGIN_UID_UNKNOWN));
            prop_assert_eq!(subject.cgroups.is_none(), unknown(flag::CGROUPS_UNKNOWN));
            prop_assert_eq!(exe.is_none(), unknown(flag::EXECUTABLE_UNKNOWN));
        }
    }

    #[test]
    fn a_record_cut_anywhere_is_an_error(cut in 0_usize..208) {
        let record = exec_record(b"/bin/x", b"abcdefgh", 8, 0);
        prop_assert!(cut >= record.len() || parse(&record.slice(..cut)).is_err());
    }

    #[test]
    fn any_argv_comes_back(name in proptest::collection::vec(any::<u8>(), 0..64),
                           argv in proptest::collection::vec(any::<u8>(), 0..600)) {
        let length = u64::try_from(argv.len()).unwrap();
        let Ok(Event::Exec(exec)) = parse(&exec_record(&name, &argv, length, 0)) else {
            return Err(TestCaseError::fail("a whole record is an event"));
        };
        prop_assert_eq!(exec.argv.bytes, argv);
        prop_assert_eq!(exec.filename, name);
    }
}
