//! What is refused, where, and with which remedy.

use super::*;
use crate::attribution::rules::{
    FAULTS_LOOKED_MAX, FAULTS_MAX, FILE_BYTES_MAX, Faults, LINE_BYTES_MAX, REGEXES_BYTES_MAX,
    RULES_MAX,
};

fn refused(text: &str) -> Faults {
    match RuleSet::parse(text.as_bytes()) {
        Ok(_) => panic!("taken: {text}"),
        Err(faults) => faults,
    }
}

#[test]
fn every_fault_has_its_place_and_what_to_do() {
    // The second line of a rule, and where in it the fault is.
    let cases = [
        ("progam = \"x\"", 1, "unknown key `progam`; did you mean `program`?"),
        ("zzz = \"x\"", 1, "units/rules.toml has every key"),
        ("program = \"\"", 11, "an empty text matches nothing"),
        ("program = []", 1, "an empty list matches nothing"),
        ("program = true", 11, "give a text in quotation marks"),
        ("program = 1.5", 11, "give a text in quotation marks"),
        ("program = -1", 11, "no number of anything"),
        ("program = [\"x\", [\"y\"]]", 17, "give a text in quotation marks"),
        ("program = { regex = 'a(b' }", 23, "bad regular expression: unclosed group"),
        ("program = { regex = \"\\\\d(b\" }", 21, "unclosed group"),
        ("program = { regex = 'a{1000}{1000}{9}' }", 22, "too large"),
        ("program = { regex = '[a&&b]' }", 22, "matches no value"),
        ("program = { regex = '^$' }", 22, "matches no value"),
        ("program = { regex = '' }", 21, "an empty text matches nothing"),
        ("program = { regex = 5 }", 21, "`regex` takes a text"),
        ("program = { regx = 'a' }", 13, "did you mean `regex`?"),
        ("program = { prefix = \"a\", suffix = \"b\" }", 11, "one of them at a time"),
        ("program = {}", 11, "one of them at a time"),
        ("labels = \"x\"", 1, "labels.app = \"web\""),
        ("labels.app = { regex = '(' }", 25, "`labels.app`: bad regular expression"),
        ("labels.\"a.b/c\" = 1.5", 18, "`labels.\"a.b/c\"` does not take this"),
        ("scheduler = \"slrum\"", 13, "they are slurm, pbs, lsf, htcondor"),
        ("program = \"x\"\nprogram = \"y\"", 0, "duplicate key `program`; this is no TOML"),
    ];
    for (condition, column, said) in cases {
        let text = format!("[[rule]]\naccount = \"a\"\n{condition}\n");
        let faults = refused(&text);
        assert_eq!(faults.faults.len(), 1, "{condition}: {faults:?}");
        let fault = &faults.faults[0];
        assert!(fault.what.contains(said), "{said}: {fault}");
        let line = if column == 0 { 4 } else { 3 };
        assert_eq!(fault.line, line, "{fault}");
        assert!(column == 0 || fault.column == column, "{condition}: {fault}");
    }
}

#[test]
fn an_account_is_a_name_that_can_be_told_from_ours() {
    let cases = [
        ("account = \"\"", 12, "no name"),
        ("account = \" \"", 12, "no name"),
        ("account = \" a\"", 12, "begins or ends with a blank"),
        ("account = \"a\\nb\"", 11, r"does not print, \x0a"),
        ("account = \"unattributed\"", 12, "a word of the bill's own"),
        ("account = \"TOTAL\"", 12, "a word of the bill's own"),
        ("account = 5", 1, "takes a text"),
        ("account = \"a${m}\"", 13, "no condition of this rule has a capture `m`; write (?P<m>…)"),
        ("account = \"a${m\"", 13, "without its `}`; for these characters write $${"),
        ("account = \"a${}\"", 13, "is no name of a capture; write ${name}, and (?P<name>…)"),
        (
            "account = \"a${1}\"\nprogram = { regex = '(x)' }",
            13,
            "`${1}` is no name of a capture; write ${c1}, and (?P<c1>…) in a regex",
        ),
        ("account = \"a${b-c}\"", 13, "write ${b_c}, and (?P<b_c>…)"),
        ("account = \"a${m}\"\nprogram = { regex = '(?P<n>x)' }", 13, "has a capture `m`"),
        (
            "account = \"a${m}\"\nprogram = [\"x\", { regex = '(?P<m>x)' }]",
            13,
            "not all that `program` takes has a capture `m`",
        ),
        (
            "account = \"a${m}\"\nprogram = { regex = '(?P<m>x)' }\nexe = { regex = '(?P<m>x)' }",
            13,
            "both `program` and `exe` have a capture `m`",
        ),
    ];
    for (rule, column, said) in cases {
        let faults = refused(&format!("[[rule]]\n{rule}\n"));
        assert_eq!(faults.faults.len(), 1, "{rule}: {faults:?}");
        let fault = &faults.faults[0];
        assert!(fault.what.contains(said), "{said}: {fault}");
        assert!((fault.line, fault.column) == (2, column), "{rule}: {fault}");
    }
    let long = format!("[[rule]]\naccount = \"{}\"\n", "a".repeat(300));
    assert!(refused(&long).to_string().contains("longer than 256 characters"));
    let faults = refused("# c\n\n  [[rule]]\nprogram = \"x\"\n");
    assert_eq!((faults.faults[0].line, faults.faults[0].column), (3, 3), "{faults}");
    assert!(faults.to_string().contains("no account"), "{faults}");
}

#[test]
fn a_misspelt_account_is_said_and_not_that_there_is_none() {
    let faults = refused("[[rule]]\nacount = \"a\"\nprogam = \"x\"\n");
    let told: Vec<String> = faults.faults.iter().map(ToString::to_string).collect();
    let wanted = [
        "2:1: unknown key `acount`; did you mean `account`?",
        "3:1: unknown key `progam`; did you mean `program`?",
    ];
    assert_eq!(told, wanted);
}

#[test]
fn a_name_that_is_proposed_for_a_capture_is_one() {
    for name in ["", "1", "1a", "a-b", " x ", "ä!", ".a", "[", "-", "42"] {
        let text = format!("[[rule]]\naccount = \"a${{{name}}}\"\nexe = {{ regex = '(x)' }}\n");
        let told = refused(&text).to_string();
        let (_, likely) = told.split_once("(?P<").unwrap();
        let (likely, _) = likely.split_once('>').unwrap();
        let text = format!(
            "[[rule]]\naccount = \"a${{{likely}}}\"\nexe = {{ regex = '(?P<{likely}>x)' }}\n"
        );
        assert!(RuleSet::parse(text.as_bytes()).is_ok(), "{name:?}: {told}");
    }
}

#[test]
fn what_is_no_list_of_rules_is_refused() {
    let cases = [
        ("[rule]\naccount = \"a\"\n", 1, "write [[rule]], with two brackets"),
        ("[[rules]]\naccount = \"a\"\n", 1, "unknown key `rules`"),
        ("rule = [1]\n", 1, "no rule; write [[rule]]"),
        ("rule = 1\n", 1, "two brackets"),
        ("x = \n", 1, "no TOML"),
        ("[[rule]]\naccount = \"a\n", 2, "no TOML"),
        (
            "[[rule]]\naccount = \"a\"\n[[rule]]\naccount = \"b\"\nprogram = \"x\"\n",
            1,
            "put it last",
        ),
    ];
    for (text, line, said) in cases {
        let faults = refused(text);
        assert!(
            faults.faults.iter().any(|one| one.what.contains(said) && one.line == line),
            "{text}: {faults:?}"
        );
    }
    // What is wrong below does not hide it, nor does more than one of them.
    let faults = refused(
        "[[rule]]\naccount = \"a\"\n[[rule]]\naccount = \"b\"\nlabels = {}\n[[rule]]\naccount = \"c\"\nexe = 1.5\n",
    );
    let lines: Vec<usize> = faults.faults.iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [1, 3, 8], "{faults:?}");
    assert!(RuleSet::parse(b"[[rule]]\naccount = \"a\"\n").is_ok());
    let faults = RuleSet::parse(b"# good\n# \xc3\xa9 b\xffd\n").unwrap_err();
    assert_eq!((faults.faults[0].line, faults.faults[0].column), (2, 6), "{faults}");
    assert!(faults.to_string().contains("no UTF-8"), "{faults}");
}

#[test]
fn all_faults_of_a_file_are_told_in_its_order_and_bounded() {
    let faults = refused(
        "[[rule]]\naccount = \"a\"\nzz = 1\nprogram = { regex = '(' }\n\
         [[rule]]\nprogram = \"x\"\n[[rule]]\naccount = \"${x}\"\nexe = \"e\"\n",
    );
    let lines: Vec<usize> = faults.faults.iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [3, 4, 5, 8]);
    assert!(faults.to_string().starts_with("3:1: unknown key"), "{faults}");
    assert!(faults.to_string().ends_with("(and 3 more: gpu-ledger rules check)"), "{faults}");
    let many = "[[rule]]\n".repeat(150);
    let faults = refused(&many);
    assert_eq!((faults.faults.len(), faults.more), (FAULTS_MAX, 150 - FAULTS_MAX));
    assert!(faults.faults.iter().zip(1..).all(|(fault, line)| fault.line == line), "{faults:?}");
}

#[test]
fn a_line_of_a_mebibyte_and_a_file_without_end_are_refused_at_their_place() {
    let long = format!("# ok\n[[rule]]\naccount = \"{}\"\n", "a".repeat(1 << 20));
    let faults = refused(&long);
    assert_eq!((faults.faults[0].line, faults.faults.len()), (3, 1));
    assert!(faults.to_string().contains("a line of 1048589 bytes"), "{faults}");
    let line = format!("# {}\n", "x".repeat(LINE_BYTES_MAX - 3));
    let fitting = FILE_BYTES_MAX / line.len();
    assert!(RuleSet::parse(line.repeat(fitting).as_bytes()).is_ok());
    let faults = refused(&line.repeat(fitting + 2));
    assert_eq!(faults.faults[0].line, fitting + 1, "{faults}");
    assert!(faults.to_string().contains("larger than 8388608 bytes"), "{faults}");
}

#[test]
fn rules_and_lists_are_bounded() {
    let many = "[[rule]]\naccount=\"a\"\nexe=\"a\"\n".repeat(RULES_MAX + 1);
    let faults = refused(&many);
    assert_eq!(faults.faults[0].line, 3 * RULES_MAX + 1);
    let list = vec!["\"a\""; 1_025].join(",\n");
    let faults = refused(&format!("[[rule]]\naccount = \"a\"\nexe = [{list}]\n"));
    assert!(faults.to_string().contains("a list of 1025; it may have 1024"), "{faults}");
    let deep =
        format!("[[rule]]\naccount = \"a\"\nexe = {}1{}\n", "[".repeat(5_000), "]".repeat(5_000));
    assert!(!refused(&deep).faults.is_empty());
    let deep = format!(
        "[[rule]]\naccount = \"a\"\nexe = {{ regex = '{}a{}' }}\n",
        "(".repeat(5_000),
        ")".repeat(5_000)
    );
    assert!(refused(&deep).to_string().contains("bad regular expression"));
}

proptest::proptest! {
    /// Any bytes give rules or faults, and faults lie in the file.
    #[test]
    fn nothing_is_neither(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..24)) {
        let text: Vec<u8> = pieces.concat();
        if let Err(faults) = RuleSet::parse(&text) {
            let lines = text.split(|byte| *byte == b'\n').count();
            proptest::prop_assert!(!faults.faults.is_empty());
            proptest::prop_assert!(faults.faults.iter().all(|fault| (1..=lines).contains(&fault.line)));
        }
    }
}

const PIECES: &[&[u8]] = &[
    b"[[rule]]",
    b"\n",
    b"account = ",
    b"\"a${x}\"",
    b"\"a\"",
    b"program = ",
    b"{ regex = ",
    b" }",
    b"'(?P<x>a|b)'",
    b"'('",
    b"'a.*'",
    b"[",
    b"]",
    b",",
    b"labels.",
    b"x = ",
    b"1",
    b"\xff",
    b"exe = ",
    b"\"",
    b"{",
    b"\n",
    b"\n[[rule]]\n",
];

/// Whatever it is that is wrong thousands of times, the file is left alone after some hundreds of it.
#[test]
fn a_file_in_which_enough_is_wrong_is_not_looked_into_any_further() {
    // Of each of these only the time to find it out differs.
    let of_rules = ["argv = { regex = '(?u:\\w{200})' }", "progam = \"x\"", "argv = []"];
    let mut texts: Vec<String> = of_rules
        .iter()
        .map(|line| format!("[[rule]]\naccount = \"a\"\n{line}\n").repeat(2 * FAULTS_LOOKED_MAX))
        .collect();
    let keys = |key: &str| -> String {
        let line = |n| format!("{key}{n} = \"\"\n");
        (0..2 * FAULTS_LOOKED_MAX).map(line).collect()
    };
    texts.push(keys("unknown"));
    texts.push(format!("[[rule]]\naccount = \"a\"\n{}", keys("unknown")));
    texts.push(format!("[[rule]]\naccount = \"a\"\n{}", keys("labels.l")));
    for text in texts {
        let faults = refused(&text);
        assert!(faults.is_cut && faults.faults.len() == FAULTS_MAX, "{faults}");
        let found = FAULTS_MAX + faults.more;
        assert!((FAULTS_LOOKED_MAX..=FAULTS_LOOKED_MAX + 1).contains(&found), "{found}");
        assert!(faults.to_string().contains(" (and at least "), "{faults}");
    }
}

#[test]
fn regular_expressions_that_are_too_large_together_are_refused_at_the_one_with_which_they_are() {
    let rule = "[[rule]]\naccount = \"a\"\nargv = { regex = 'a(?u:\\w{10})' }\n";
    rules(&rule.repeat(10));
    let (small, wrong) = ("[[rule]]\naccount = \"a\"\nargv = { regex = 'a' }\n", "progam = 1\n");
    let faults = refused(&format!("{}{small}{wrong}", rule.repeat(1_000)));
    let [fault] = &*faults.faults else { panic!("{faults:?}") };
    assert_eq!((fault.column, fault.line % 3), (19, 0));
    assert!((300..3_000).contains(&fault.line), "{fault}");
    assert!(fault.what.contains(&format!("more than {REGEXES_BYTES_MAX} bytes")), "{fault}");
    assert!(fault.what.contains("count less with {n}"), "{fault}");
}
