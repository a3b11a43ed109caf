//! What is taken as it is written, and hardly meant so.

use super::*;
use crate::attribution::rules::DOUBTS_MAX;

fn doubts(text: &str) -> Vec<String> {
    let doubts = rules(text).doubts(|user| user != "alcie");
    assert_eq!(doubts.more, 0);
    doubts.doubts.iter().map(ToString::to_string).collect()
}

#[test]
fn what_hardly_anything_is_called_is_said_with_what_to_write_and_that_is_not() {
    // What is written, what is said of it, and what the right one is.
    let cases = [
        ("ancestor = \"ollama serve\"", "write \"ollama\"; arguments of", "ancestor = \"ollama\""),
        (
            "program = [\"x\", \"ollama serve\"]",
            "write \"ollama\", and look at the rest with argv",
            "program = [\"python -c\", \"bun dev\", \"ollama\"]",
        ),
        ("program = \"llama-*\"", "{ prefix = \"llama-\" }", "program = { prefix = \"llama-\" }"),
        ("exe = \"*/llama\"", "{ suffix = \"/llama\" }", "exe = { suffix = \"/llama\" }"),
        ("unit = \"a.*.service\"", "{ regex = 'a.*.service' }", "unit = \"a.service\""),
        ("user = \"a?b*\"", "{ regex = 'a.b.*' }", "user = { regex = 'a.b.*' }"),
        ("program = \"a.b-?\"", r"{ regex = 'a\.b\-.' }", r"program = { regex = 'a\.b\-.' }"),
        ("exe = \"/bin/x --y\"", "with argv", "exe = \"/bin/x y\""),
        ("user = \"alcie\"", "no such user", "user = [\"alice\", \"4711\", 1000]"),
        ("labels.app = \"x\"\nlogin_user = \"alcie\"", "spelling", "labels.app = \"a*\""),
        ("argv = \"x\"\nprogram = \"?\"", "no pattern", "argv = [\"a b\", \"*\"]"),
        ("job = \"1\"\nancestor = \"a b\"", "write \"a\"", "job = \"4711[*]\""),
    ];
    for (wrong, said, right) in cases {
        let of = |line: &str| doubts(&format!("[[rule]]\naccount = \"a\"\n{line}\n"));
        let told = of(wrong);
        assert_eq!(told.len(), 1, "{wrong}: {told:?}");
        let is_there =
            told.iter().all(|one| one.contains(" is hardly ever ") && one.contains(said));
        let line = if wrong.contains('\n') { "4:1:" } else { "3:1:" };
        assert!(is_there && told[0].starts_with(line), "{wrong}: {told:?}");
        assert_eq!(of(right), Vec::<String>::new());
    }
}

#[test]
fn a_dollar_without_brackets_is_a_fault_where_a_regex_has_the_name_and_else_a_doubt() {
    let of = |account: &str| {
        format!("[[rule]]\naccount = \"{account}\"\nexe = {{ regex = '(?P<run>x).*' }}\n")
    };
    let fault = RuleSet::parse(of("x $run").as_bytes()).unwrap_err().to_string();
    assert!(fault.starts_with("2:14: ") && fault.ends_with("took is ${run}"), "{fault}");
    let told = doubts(&of("x $day"));
    assert!(told.len() == 1 && told[0].contains("a capture is ${day}"), "{told:?}");
    for account in ["x ${run}", "5 $", "$5", "a$$ b", "$${run}"] {
        assert_eq!(doubts(&of(account)), Vec::<String>::new(), "{account}");
    }
}

#[test]
fn doubts_are_bounded_and_a_pattern_is_no_units_name() {
    let many = "[[rule]]\naccount = \"a\"\nprogram = \"a*\"\n".repeat(DOUBTS_MAX + 3);
    let told = rules(&many).doubts(|_| true);
    assert_eq!((told.doubts.len(), told.more), (DOUBTS_MAX, 3));
    let fault = RuleSet::parse(b"[[rule]]\naccount = \"a\"\nunit = \"llama-*\"\n").unwrap_err();
    assert!(fault.to_string().ends_with("write { prefix = \"llama-\" }"), "{fault}");
}
