use std::os::unix::fs::symlink;

use super::*;

/// A made-up procfs.
struct Made {
    folder: tempfile::TempDir,
}

impl Made {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn process(&self, pid: u32, stat: &str, cmdline: &[u8]) -> PathBuf {
        let folder = self.folder.path().join(pid.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("stat"), stat).unwrap();
        std::fs::write(folder.join("cmdline"), cmdline).unwrap();
        let status = "Name:\tx\nPid:\t7\nUid:\t1000\t0\t1000\t1000\nGid:\t5\t5\t5\t5\n";
        std::fs::write(folder.join("status"), status).unwrap();
        std::fs::write(folder.join("loginuid"), "1001").unwrap();
        std::fs::write(folder.join("cgroup"), "0::/a b\n").unwrap();
        folder
    }

    fn read(&self, pid: u32) -> Result<Option<SeenProcess>, IdentityError> {
        Procfs::new(self.folder.path().into()).read(Pid(pid), &CgroupMounts::default())
    }
}

/// A line of `stat` in the form of proc_pid_stat(5).
fn stat_line(comm: &str, state: char, flags: u32, threads: u32, start: u64) -> String {
    format!(
        "7 ({comm}) {state} 42 7 7 0 -1 {flags} 10 0 0 0 1 2 0 0 20 0 {threads} 0 {start} 1000 20 \
         18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0"
    )
}

#[test]
fn a_process_is_read_with_every_field() {
    let made = Made::new();
    let cmdline = b"python3\0tr\xffain.py\0\0";
    let folder = made.process(7, &stat_line("pt main (x) R 9", 'S', 0x40_0000, 3, 12_345), cmdline);
    let target = folder.join("the program");
    std::fs::write(&target, "").unwrap();
    symlink(&target, folder.join("exe")).unwrap();
    let seen = made.read(7).unwrap().unwrap();
    assert_eq!((seen.pid, seen.parent, seen.start_ticks), (Pid(7), Pid(42), 12_345));
    assert_eq!(seen.comm, "pt main (x) R 9");
    assert_eq!(seen.argv.bytes, cmdline.as_slice());
    assert_eq!((seen.argv.true_length, seen.argv.state), (Some(19), ArgvState::Whole));
    assert_eq!(seen.exe_path, target.as_os_str().as_encoded_bytes());
    assert_eq!(seen.exe.unwrap().1, std::fs::metadata(&target).unwrap().ino());
    assert_eq!(
        seen.user,
        User { uid: Some(1_000), euid: Some(0), login_uid: LoginUid::Set(1_001) }
    );
    assert!(!seen.is_kernel_thread);
}

#[test]
fn a_login_uid_that_was_never_set_is_none_and_so_is_a_kernel_without_audit() {
    let made = Made::new();
    let folder = made.process(7, &stat_line("x", 'S', 0, 1, 1), b"x\0");
    std::fs::write(folder.join("loginuid"), "4294967295").unwrap();
    assert_eq!(made.read(7).unwrap().unwrap().user.login_uid, LoginUid::Unset);
    std::fs::remove_file(folder.join("loginuid")).unwrap();
    assert_eq!(made.read(7).unwrap().unwrap().user.login_uid, LoginUid::Unset);
    std::fs::write(folder.join("loginuid"), "nobody").unwrap();
    assert!(matches!(made.read(7), Err(IdentityError::Malformed { .. })));
}

#[test]
fn a_kernel_thread_has_no_arguments_and_no_executable() {
    let made = Made::new();
    made.process(7, &stat_line("kworker/0:1", 'I', KERNEL_THREAD.try_into().unwrap(), 1, 5), b"");
    let seen = made.read(7).unwrap().unwrap();
    assert!(seen.is_kernel_thread && seen.exe_path.is_empty() && seen.exe.is_none());
    assert_eq!((seen.argv.true_length, seen.argv.state), (Some(0), ArgvState::Whole));
}

#[test]
fn a_program_whose_arguments_are_gone_is_not_one_without_arguments() {
    let made = Made::new();
    made.process(7, &stat_line("x", 'R', 0, 1, 5), b"");
    assert_eq!(made.read(7).unwrap().unwrap().argv.state, ArgvState::Unreadable);
}

#[test]
fn long_arguments_keep_their_true_length() {
    for length in [ARGV_KEPT_MAX - 1, ARGV_KEPT_MAX, ARGV_KEPT_MAX + 1, 2_090_000] {
        let made = Made::new();
        made.process(7, &stat_line("x", 'R', 0, 1, 5), &vec![b'a'; length]);
        let argv = made.read(7).unwrap().unwrap().argv;
        assert_eq!(argv.bytes.len(), length.min(ARGV_KEPT_MAX));
        assert_eq!(argv.true_length, Some(u64::try_from(length).unwrap()));
        assert_eq!(argv.state == ArgvState::Truncated, length > ARGV_KEPT_MAX);
    }
}

#[test]
fn gone_before_or_while_it_is_read_is_no_error() {
    let made = Made::new();
    assert_eq!(made.read(7).unwrap(), None);
    for file in ["stat", "cmdline", "status", "cgroup"] {
        let folder = made.process(7, &stat_line("x", 'R', 0, 1, 5), b"x\0");
        std::fs::remove_file(folder.join(file)).unwrap();
        assert_eq!(made.read(7).unwrap(), None, "without {file}");
    }
}

#[test]
fn a_zombie_has_ended_but_a_leader_that_left_first_has_not() {
    let made = Made::new();
    made.process(7, &stat_line("x", 'Z', 0, 1, 5), b"");
    assert_eq!(made.read(7).unwrap(), None);

    let folder = made.process(8, &stat_line("x", 'Z', 0, 2, 5), b"");
    let thread = folder.join("task/9");
    std::fs::create_dir_all(&thread).unwrap();
    symlink("/opt/job", thread.join("exe")).unwrap();
    std::fs::write(thread.join("cmdline"), b"job\0--gpu\0").unwrap();
    let seen = made.read(8).unwrap().unwrap();
    assert_eq!(
        (seen.argv.bytes.as_ref(), seen.exe_path.as_ref()),
        (&b"job\0--gpu\0"[..], &b"/opt/job"[..])
    );
}

#[test]
fn what_makes_no_sense_is_an_error_of_that_process_and_named_in_a_snapshot() {
    let made = Made::new();
    made.process(7, "7 (x R 1 2", b"x\0");
    made.process(8, &stat_line("y", 'R', 0, 1, 5), b"y\0");
    assert!(made.read(7).unwrap_err().to_string().contains("7/stat has no name"));
    let procfs = Procfs::new(made.folder.path().into());
    let snapshot = procfs.snapshot(&Clock::system(), &CgroupMounts::default()).unwrap();
    assert_eq!(snapshot.unreadable, BTreeSet::from([Pid(7)]));
    assert_eq!(snapshot.processes.len(), 1);
    assert!(snapshot.began <= snapshot.ended);
    let nowhere = Procfs::new(made.folder.path().join("none"));
    assert!(nowhere.snapshot(&Clock::system(), &CgroupMounts::default()).is_err());
}

#[test]
fn this_process_is_found_in_the_real_procfs() {
    let mounts = CgroupMounts::read(Path::new("/proc"), Path::new("/")).unwrap();
    let snapshot = Procfs::new("/proc".into()).snapshot(&Clock::system(), &mounts).unwrap();
    let own = Pid(std::process::id());
    let seen = snapshot.processes.iter().find(|seen| seen.pid == own).unwrap();
    let own_exe = std::env::current_exe().unwrap();
    assert_eq!(seen.exe_path, own_exe.as_os_str().as_encoded_bytes());
    assert_eq!(seen.exe.unwrap().1, std::fs::metadata(&own_exe).unwrap().ino());
    assert_eq!(seen.user.uid, Some(rustix::process::getuid().as_raw()));
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    assert_eq!(i32::try_from(seen.parent.0).ok(), parent);
    let arguments: Vec<_> = std::env::args_os().collect();
    let words = crate::identity::argv_words(&seen.argv);
    assert_eq!(words[0], arguments[0].as_encoded_bytes());
    let started = BootNs(seen.start_ticks * BootNs::PER_TICK);
    assert!(started <= snapshot.began);
}
