//! What matches, and what the account is called then.

use super::*;
use crate::argv::CmdlineMode;
use crate::attribution::rules::{ACCOUNT_CHARS_MAX, FAULTS_MAX};

fn one(condition: &str) -> RuleSet {
    rules(&format!("[[rule]]\naccount = \"a\"\n{condition}\n"))
}

#[test]
fn the_first_rule_wins_and_the_last_may_take_everything() {
    let set = rules(
        "[[rule]]\naccount = \"x\"\nprogram = \"one\"\n\
         [[rule]]\naccount = \"y\"\nprogram = { prefix = \"o\" }\n\
         [[rule]]\naccount = \"z\"\n",
    );
    assert_eq!(ruled(&set, &running("one")), Some(("x".to_owned(), 1)));
    assert_eq!(ruled(&set, &running("other")), Some(("y".to_owned(), 2)));
    assert_eq!(ruled(&set, &running("two")), Some(("z".to_owned(), 3)));
    assert_eq!(ruled(&set, &Process::default()), Some(("z".to_owned(), 3)));
    assert_eq!(ruled(&RuleSet::default(), &running("one")), None);
}

#[test]
fn what_is_not_known_matches_nothing_not_even_everything() {
    let everything = "{ regex = '.*' }";
    for key in ["exe", "argv", "command_line", "program", "ancestor", "user", "cgroup", "gpu"] {
        let set = one(&format!("{key} = {everything}"));
        assert_eq!(account(&set, &Process::default()), None, "{key}");
    }
    assert_eq!(account(&one("labels.x = { regex = '.*' }"), &running("x")), None);
    assert_eq!(
        account(&one(&format!("program = {everything}")), &running("x")).as_deref(),
        Some("a")
    );
    // Words without anything in them are words of nothing.
    let empty = Process { argv: words(&[""]), ..Process::default() };
    assert_eq!(account(&one("argv = { regex = '.*' }"), &empty), None);
}

#[test]
fn a_regex_takes_the_whole_value_and_any_bytes() {
    let set = one("exe = { regex = '/opt/.*/run' }");
    let exe = |path: &[u8]| {
        account(&set, &Process { exe: bytes::Bytes::copy_from_slice(path), ..Process::default() })
    };
    assert!(exe(b"/opt/\xff\n/run").is_some(), "bytes that are no text hide nothing");
    assert!(exe(b"/opt/x/run2").is_none());
    assert!(exe(b"/srv/opt/x/run").is_none());
    // Neither branch gets out of the anchors, and a comment does not swallow one.
    let set = one("program = { regex = 'a|b' }");
    assert!(account(&set, &running("ab")).is_none() && account(&set, &running("b")).is_some());
    let set = one("program = { regex = '(?x) a b # a comment' }");
    assert!(account(&set, &running("ab")).is_some() && account(&set, &running("abc")).is_none());
    let set = one("program = { regex = '(?i)OLLAMA' }");
    assert!(account(&set, &running("Ollama")).is_some());
}

#[test]
fn a_capture_that_takes_nothing_is_no_match() {
    let set = rules(
        "[[rule]]\naccount = \"m/${m}\"\nargv = { regex = '--model(=(?P<m>.*))?' }\n\
         [[rule]]\naccount = \"plain\"\nargv = { regex = '--model.*' }\n",
    );
    let argv =
        |list: &[&str]| ruled(&set, &Process { argv: words(list), ..Process::default() }).unwrap();
    assert_eq!(argv(&["--model=x"]), ("m/x".to_owned(), 1));
    for empty in ["--model", "--model=", "--model= "] {
        assert_eq!(argv(&[empty]), ("plain".to_owned(), 2), "{empty:?}");
    }
    // The first value of which it can be taken.
    assert_eq!(argv(&["--model", "--model=y", "--model=z"]), ("m/y".to_owned(), 1));
    let process = Process { argv: words(&["--model"]), ..Process::default() };
    let failed = process.see(|subject| set.explain(subject)).failed;
    assert!(failed[0].capture_is_empty && failed[0].key == "argv", "{failed:?}");
}

#[test]
fn strangers_bytes_reach_an_account_escaped_and_bounded() {
    let set = rules("[[rule]]\naccount = \"<${x}>\"\nexe = { regex = '(?P<x>.*)' }\n");
    let exe =
        |path: Vec<u8>| account(&set, &Process { exe: path.into(), ..Process::default() }).unwrap();
    assert_eq!(exe(b"a\x1b[2J\xff\n".to_vec()), r"<a\x1b[2J\xff\x0a>");
    let long = exe(vec![b'x'; 4096]);
    assert_eq!(long.chars().count(), ACCOUNT_CHARS_MAX);
    assert!(long.ends_with('…'), "{long}");
    // A word of the bill's own, put together out of a capture, is told apart where it stands.
    let set = rules("[[rule]]\naccount = \"${x}\"\nprogram = { regex = '(?P<x>.*)' }\n");
    assert_eq!(account(&set, &running("TOTAL")).as_deref(), Some("TOTAL"));
    assert_eq!(crate::settlement::told_apart("TOTAL"), "\"TOTAL\"");
}

#[test]
fn a_dollar_is_a_dollar_unless_a_brace_follows() {
    let set = rules("[[rule]]\naccount = \"$5 $${x} $\"\nprogram = \"x\"\n");
    assert_eq!(account(&set, &running("x")).as_deref(), Some("$5 ${x} $"));
}

#[test]
fn several_captures_stand_where_they_are_wanted() {
    let set =
        rules("[[rule]]\naccount = \"${b}-${a}-${b}\"\nprogram = { regex = '(?P<a>.)(?P<b>.)' }\n");
    assert_eq!(account(&set, &running("xy")).as_deref(), Some("y-x-y"));
}

#[test]
fn a_hundred_thousand_bytes_end_in_time() {
    // Backtracking engines take years for this.
    let set = one("argv = { regex = '(a|aa)*b' }");
    let argv = Some(vec![vec![b'a'; 100_000]]);
    assert_eq!(account(&set, &Process { argv, ..Process::default() }), None);
}

#[test]
fn rules_that_look_at_arguments_are_named() {
    let set = rules(
        "[[rule]]\naccount = \"a\"\nprogram = \"x\"\n[[rule]]\naccount = \"b\"\nexe = \"x\"\nargv = \"y\"\n",
    );
    let text = set.fits(CmdlineMode::Exe).unwrap_err().to_string();
    assert!(text.starts_with("7:1: rule 2 looks at `argv`, and `cmdline = \"exe\"`"), "{text}");
    // Nothing of a command line is not its file either.
    let text = set.fits(CmdlineMode::None).unwrap_err().to_string();
    assert!(text.starts_with("6:1: rule 2 looks at `exe`, and `cmdline = \"none\"`"), "{text}");
    assert!(one("exe = \"y\"").fits(CmdlineMode::Exe).is_ok());
    assert!(one("command_line = \"y\"").fits(CmdlineMode::Exe).is_err());
    assert!(one("program = \"y\"").fits(CmdlineMode::None).is_ok());
}

#[test]
fn what_only_arguments_say_is_refused_where_none_are_stored_and_every_place_is_named() {
    let documented = rules(include_str!("../../../../units/rules.toml"));
    let arguments = ["model =", "argv =", "command_line ="];
    let all = ["model =", "argv =", "command_line =", "exe ="];
    for (mode, keys) in [(CmdlineMode::None, &all[..]), (CmdlineMode::Exe, &arguments)] {
        let faults = documented.fits(mode).unwrap_err();
        let text = include_str!("../../../../units/rules.toml");
        let wanted =
            text.lines().zip(1..).filter(|(line, _)| keys.iter().any(|key| line.starts_with(key)));
        let wanted: Vec<usize> = wanted.map(|(_, line)| line).collect();
        let told: Vec<usize> = faults.faults.iter().map(|fault| fault.line).collect();
        assert_eq!((told, faults.more, wanted.len()), (wanted, 0, keys.len()));
        assert!(faults.faults[0].what.contains("looks at `model`"), "{faults}");
        assert!(faults.faults[0].what.contains("no arguments, which alone name it"), "{faults}");
    }
    assert!(documented.fits(CmdlineMode::Redacted).is_ok());
    // What is refused is what nothing can stand under.
    let argv = crate::kernel::Argv {
        bytes: b"vllm\0serve\0m/x\0".to_vec().into(),
        true_length: Some(15),
        state: crate::kernel::ArgvState::Whole,
    };
    let vllm = program("vllm");
    let model = |mode| {
        crate::attribution::Attributor::default().with_cmdline(mode).model(Some(&vllm), &argv)
    };
    assert_eq!(model(CmdlineMode::None).or(model(CmdlineMode::Exe)), None);
    assert_eq!(model(CmdlineMode::Redacted).as_deref(), Some("m/x"));
    let many = "[[rule]]\naccount = \"a\"\nmodel = \"m\"\n".repeat(FAULTS_MAX + 2);
    let faults = rules(&many).fits(CmdlineMode::None).unwrap_err();
    assert_eq!((faults.faults.len(), faults.more), (FAULTS_MAX, 2));
}

#[test]
fn a_program_is_seen_as_it_is_stored() {
    let set = rules("[[rule]]\naccount = \"a\"\nprogram = 'x\\x0a'\n");
    assert_eq!(account(&set, &running("x\n")).as_deref(), Some("a"));
}

/// Most of many rules are not even looked at.
#[test]
fn rules_are_filed_under_what_tells_them_apart() {
    use std::fmt::Write as _;
    let mut text = String::new();
    for number in 0..2_000 {
        write!(text, "[[rule]]\naccount = \"a{number}\"\nscheduler = \"slurm\"\n").unwrap();
        match number % 4 {
            0 => writeln!(text, "program = \"p{number:04}\""),
            1 => writeln!(text, "program = {{ prefix = \"p{number:04}\" }}"),
            2 => writeln!(text, "program = {{ regex = '.*p{number:04}(-\\d+)?' }}"),
            _ => writeln!(text, "labels.l{number} = \"p{number:04}\""),
        }
        .unwrap();
    }
    let set = rules(&text);
    for number in [0, 801, 1_202] {
        let process = running(&format!("p{number:04}"));
        process.see(|subject| {
            let seen = crate::attribution::rules::Seen::of(subject, &set.fields, &set.labels);
            assert_eq!(set.index.candidates(&seen).collect::<Vec<_>>(), [number]);
        });
    }
    assert_eq!(set.index.always(), [0_u32; 0]);
}

#[test]
fn the_digest_is_of_the_files_bytes() {
    let (one, other) = (rules("# a\n"), rules("# b\n"));
    assert_ne!(one.digest(), other.digest());
    assert_eq!(RuleSet::default().digest(), rules("").digest());
    let of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(rules("").digest().to_string(), of_nothing);
}
