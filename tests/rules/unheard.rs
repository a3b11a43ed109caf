//! An answer that cannot be written is none: whoever asked is told so by the exit status, whatever the command.

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

use crate::replayed::filled;
use crate::{DOCUMENTED, text};

/// Where its answer goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stdout {
    Read,
    Null,
    Gone,
    Closed,
    Full,
}

/// The exit status, and what stderr says.
fn asked(words: &[&str], stdout: Stdout) -> (i32, String) {
    let binary = env!("CARGO_BIN_EXE_gpu-ledger");
    let mut command = match stdout {
        Stdout::Closed => {
            let mut shell = Command::new("sh");
            shell.args(["-c", r#"exec "$0" "$@" >&-"#, binary]);
            shell
        }
        _ => Command::new(binary),
    };
    command.args(words).stdin(Stdio::null()).stderr(Stdio::piped());
    match stdout {
        Stdout::Read | Stdout::Closed => command.stdout(Stdio::piped()),
        Stdout::Null => command.stdout(Stdio::null()),
        Stdout::Full => command.stdout(OpenOptions::new().write(true).open("/dev/full").unwrap()),
        Stdout::Gone => {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            command.stdout(writer)
        }
    };
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    (output.status.code().unwrap(), text(&output.stderr).to_owned())
}

#[test]
fn a_command_whose_answer_cannot_be_written_fails_and_one_that_is_not_read_does_not() {
    let folder = crate::made::folder();
    filled(folder.path());
    let state = folder.path().to_str().unwrap();
    let nobody = folder.path().join("no.sock");
    let nobody = nobody.to_str().unwrap();
    let commands: [&[&str]; 13] = [
        &["--help"],
        &["--version"],
        &["rules", "--help"],
        &["rules", "check", DOCUMENTED],
        &["rules", "check", "--json", DOCUMENTED],
        &["rules", "test", "--rules", DOCUMENTED, "--program", "x"],
        &["rules", "replay", "--period", "all", "--state-dir", state, DOCUMENTED],
        &["bill", "--period", "all", "--state-dir", state],
        &["bill", "--period", "all", "--format", "json", "--state-dir", state],
        &["explain", "--state-dir", state, "1"],
        &["journal", "check", "--state-dir", state],
        &[
            "container-names",
            "docker",
            "0123456789012345678901234567890123456789012345678901234567890123",
        ],
        &["status", "--json", "--socket", nobody, "--state-dir", state],
    ];
    for words in commands {
        let (status, said) = asked(words, Stdout::Read);
        assert!(status == 0 || status == 2, "{words:?}: {status} {said}");
        assert_eq!(asked(words, Stdout::Null).0, status, "{words:?}");
        assert_eq!(asked(words, Stdout::Gone).0, status, "{words:?}");
        for unheard in [Stdout::Closed, Stdout::Full] {
            let (status, said) = asked(words, unheard);
            assert_eq!(status, 1, "{unheard:?} {words:?}: {said}");
            assert!(said.contains("cannot write "), "{unheard:?} {words:?}: {said}");
        }
    }
}
