//! What a panic, an assertion that fails or somebody who looks for a fault would print of types that hold arguments.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use crate::argv::{Stored, StoredText};
use crate::attribution::Process;
use crate::billing::Why;
use crate::clock::{Clock, Stamp};
use crate::coverage::Gap;
use crate::identity::{Basis, Image, ImageContent, Lifetime, SeenProcess, User};
use crate::journal::Digest;
use crate::journal::draft::Pending;
use crate::journal::entry::{BootId, Draft, Evidence, Figures, KeptArgv, Moment};
use crate::kernel::{Argv, ArgvState, Event, Exec, LoginUid, ProcessKey, Subject};
use crate::settlement::{Attribution, Fit, Named};
use crate::unit::{BootNs, Pid, WallUs};
use crate::unknown::GapCause;

const CANARY: &[u8] = b"Zq7canaryw9X";
const WORDS: [&[u8]; 4] = [b"train", b"--api-key", CANARY, b"--epochs=3"];

fn argv() -> Argv {
    let bytes = WORDS.join(&0);
    let true_length = u64::try_from(bytes.len()).ok();
    Argv { bytes: bytes.into(), true_length, state: ArgvState::Whole }
}

/// In no way in which it is printed is there a secret; there is what is none.
fn assert_prints_no_secret<T: Debug>(holder: T) {
    let name = std::any::type_name::<T>();
    let mut shown = vec![format!("{holder:?}"), format!("{holder:#?}")];
    // An error that nobody handles.
    let failed: Result<(), T> = std::iter::once(Err(holder)).collect();
    let text = catch_unwind(AssertUnwindSafe(|| failed.unwrap())).unwrap_err();
    shown.push(text.downcast_ref::<String>().unwrap().clone());
    // As a list of numbers it would be read as well.
    let numbers = CANARY.iter().map(ToString::to_string).collect::<Vec<_>>();
    for text in shown {
        let flat: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        assert!(!flat.contains("canary") && !flat.contains(&numbers.join(",")), "{name}: {text}");
        assert!(flat.contains("--epochs=3"), "{name} is looked for in what it prints: {text}");
    }
}

fn image() -> Image {
    let content = ImageContent { argv: argv(), filename: "train".into(), exe: None };
    let user = User { uid: Some(1), euid: Some(1), login_uid: LoginUid::Unset };
    Image { since: BootNs(1), basis: Basis::Exec, content: Arc::new(content), user }
}

const KEY: ProcessKey = ProcessKey { pid: Pid(7), start: BootNs(1) };

fn event() -> Event {
    let subject = Subject {
        key: KEY,
        parent: None,
        uid: None,
        euid: None,
        login_uid: LoginUid::Unset,
        cgroups: None,
        at: BootNs(1),
        cpu: 0,
        seq: 1,
    };
    Event::Exec(Exec { subject, argv: argv(), filename: "train".into(), exe: None })
}

fn draft() -> Draft {
    let stamp = Stamp { boot: BootNs(1), mono_ns: 1, wall: WallUs(1) };
    let gap = Gap { cause: GapCause::DiskFull, gpu: None, from: stamp, to: stamp, size: None };
    Draft {
        at: Moment { boot: BootId(1), stamp },
        figures: Figures::Gap(gap),
        evidence: Evidence::None,
        argv: Some(kept()),
    }
}

fn kept() -> KeptArgv {
    KeptArgv { commitment: Digest::NONE, mode: None, argv: argv(), text: StoredText::Captured }
}

#[test]
fn no_type_that_holds_arguments_prints_a_secret() {
    assert_prints_no_secret(argv());
    assert_prints_no_secret(Stored { bytes: Some(argv().bytes), text: StoredText::Captured });
    assert_prints_no_secret(image());
    let life = Lifetime {
        key: KEY,
        start_is_exact: true,
        parent: None,
        images: vec![image()],
        images_forgotten: 0,
        image_gaps: Vec::new(),
        cgroups: Vec::new(),
        cgroups_stood: 0,
        touched: None,
        ended: None,
    };
    assert_prints_no_secret(life);
    assert_prints_no_secret(event());
    let seen = SeenProcess {
        pid: Pid(7),
        start_ticks: 1,
        parent: Pid(1),
        comm: "train".into(),
        argv: argv(),
        exe_path: "/bin/train".into(),
        exe: None,
        user: image().user,
        cgroups: Vec::new(),
        is_kernel_thread: false,
    };
    assert_prints_no_secret(seen);
    let named = Named {
        key: KEY,
        start_is_exact: true,
        image: image(),
        parent: None,
        cgroups: Vec::new(),
        ended: None,
        fit: Fit::Contains,
    };
    assert_prints_no_secret(Attribution::Named(Box::new(named)));
    assert_prints_no_secret(draft());
    let pending =
        Pending { draft: draft(), note: None, begins: None, ends: None, conflicts_with: None };
    assert_prints_no_secret(pending);
    assert_prints_no_secret(Why { at: draft().at, evidence: Evidence::None, argv: Some(kept()) });
    // All of them, as cmdline = "full" stores them.
    let words = WORDS.iter().map(|word| word.to_vec()).collect();
    let process = Process { argv: Some(words), ..Process::default() };
    process.see(|subject| assert_prints_no_secret(subject.clone()));
    assert_prints_no_secret(process);
    assert_prints_no_secret(traced());
}

fn traced() -> crate::session::TraceOptions {
    use std::os::unix::ffi::OsStrExt as _;
    let words = WORDS.iter().map(|word| std::ffi::OsStr::from_bytes(word).to_owned());
    crate::session::TraceOptions {
        argv: words.collect(),
        run_as: None,
        watch_for: None,
        settle_timeout: std::time::Duration::ZERO,
        json: false,
        output: None,
        strict: false,
        enable_accounting: false,
        ring_bytes: 0,
        device_touch: false,
        cmdline: crate::argv::CmdlineMode::Full,
        call_deadline: std::time::Duration::ZERO,
        nvml_library: None,
        clock: Clock::system(),
    }
}

/// Fields that hold arguments as something else than [`Argv`], whose printing is looked at above, and why each may.
const OTHERWISE: [(&str, &str); 13] = [
    ("attribution/process.rs", "prints them redacted"),
    ("attribution/subject.rs", "prints them redacted"),
    ("session/mod.rs", "prints them redacted"),
    ("daemon/stream.rs", "prints that there are some"),
    ("kernel/witness.rs", "those of the self-test's own child"),
    ("explain/evidence.rs", "a report: what its reader asks for, as it is stored"),
    ("session/report.rs", "a report: what its reader asks for, as cmdline has it"),
    ("cli/rules/test.rs", "what was typed, and is handed on at once"),
    ("cli/trace.rs", "what was typed, and is handed on at once"),
    ("argv/mod.rs", "prints them redacted"),
    ("cli/residency/record.rs", "what was typed, and is handed on at once"),
    ("residency/recorder/record.rs", "cannot be printed at all"),
    ("residency/recorder/window.rs", "cannot be printed at all"),
];

/// A new type that holds arguments is looked at here, or holds them as [`Argv`].
#[test]
fn every_field_of_arguments_is_of_a_type_that_prints_none_of_their_secrets() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut strange, mut seen) = (Vec::new(), 0);
    visit(&root, &mut |path, text| {
        let place = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let mut in_struct = false;
        for line in text.lines() {
            let words = line.trim();
            if words.contains("struct ") && words.ends_with('{') && !words.starts_with("//") {
                in_struct = true;
            } else if words.starts_with('}') {
                in_struct = false;
            }
            let field = words.rsplit_once("pub ").map_or(words, |(_, field)| field);
            let field = field.split_once(") ").map_or(field, |(_, field)| field);
            let Some((name, of)) = field.strip_suffix(',').and_then(|field| field.split_once(": "))
            else {
                continue;
            };
            if !in_struct || !matches!(name, "argv" | "cmd" | "command_line") {
                continue;
            }
            seen += 1;
            let bare = of.trim_start_matches("Option<").trim_end_matches('>');
            let is_told = matches!(bare, "Argv" | "KeptArgv" | "ArgvEvidence" | "u64");
            if !is_told && !OTHERWISE.iter().any(|(known, _)| *known == place) {
                strange.push(format!("{place}: {words}"));
            }
        }
    });
    assert!(seen >= 10, "the fields are found: {seen}");
    assert_eq!(
        strange,
        Vec::<String>::new(),
        "hold them as `Argv`, or print them by `Printed` and say so in OTHERWISE"
    );
}

fn visit(folder: &Path, look: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            visit(&path, look);
        } else if path.extension().is_some_and(|end| end == "rs") && !name.ends_with("tests.rs") {
            look(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}
