//! What is said never to match never does; the plain cases are said.

use proptest::prelude::*;

use super::model;
use super::*;

/// The number of each rule that never matches, and of the one that takes its place.
fn shadows(text: &str) -> Vec<(u32, u32)> {
    let found = rules(text).shadows();
    assert_eq!(found.more, 0);
    found.shadowed.iter().map(|one| (one.rule.0, one.by.0)).collect()
}

fn two(first: &str, second: &str) -> Vec<(u32, u32)> {
    shadows(&format!("[[rule]]\naccount = \"a\"\n{first}\n[[rule]]\naccount = \"b\"\n{second}\n"))
}

#[test]
fn what_an_earlier_rule_takes_is_said() {
    let cases = [
        ("program = \"x\"", "program = \"x\""),
        ("program = \"x\"", "program = \"x\"\nexe = \"y\""),
        ("program = [\"x\", \"y\"]", "program = \"y\""),
        ("program = { prefix = \"x\" }", "program = { prefix = \"xy\" }"),
        ("program = { prefix = \"x\" }", "program = [\"xy\", \"xz\"]"),
        ("program = { suffix = \"x\" }", "program = { suffix = \"yx\" }"),
        ("program = { regex = 'x+' }", "program = \"xx\""),
        ("program = { regex = '[xy]+' }", "program = \"xy\""),
        ("program = { regex = 'x+' }", "program = { regex = 'x+' }\nexe = \"y\""),
        ("program = { regex = '[xy]+' }", "exe = \"z\"\nprogram = { regex = '[xy]+' }"),
        ("labels.a = \"x\"", "labels.a = \"x\"\nlabels.b = \"y\""),
        ("gpu = \"GPU-1\"", "gpu = \"GPU-12\""),
    ];
    for (first, second) in cases {
        assert_eq!(two(first, second), [(2, 1)], "{first} | {second}");
    }
}

#[test]
fn what_may_still_match_is_not() {
    let cases = [
        ("program = \"x\"\nexe = \"y\"", "program = \"x\""),
        ("program = \"x\"", "program = [\"x\", \"y\"]"),
        ("program = { prefix = \"xy\" }", "program = { prefix = \"x\" }"),
        ("program = \"x\"", "exe = \"x\""),
        ("labels.a = \"x\"", "labels.b = \"x\""),
        ("program = { regex = 'x+' }", "program = { regex = 'x*y' }"),
        ("program = { prefix = \"x\" }", "program = { suffix = \"x\" }"),
    ];
    for (first, second) in cases {
        assert_eq!(two(first, second), [], "{first} | {second}");
    }
}

#[test]
fn a_capture_that_must_take_something_leaves_the_rest() {
    let first = "[[rule]]\naccount = \"${x}\"\nprogram = { regex = 'a(?P<x>b*)' }\n";
    let same = "[[rule]]\naccount = \"c\"\nprogram = { regex = 'a(?P<x>b*)' }\n";
    assert_eq!(shadows(&format!("{first}{same}")), []);
    assert_eq!(shadows(&format!("{same}{first}")), [(2, 1)]);
    assert_eq!(shadows(&format!("{first}[[rule]]\naccount = \"c\"\nprogram = \"a\"\n")), []);
    assert_eq!(shadows(&format!("{first}[[rule]]\naccount = \"c\"\nprogram = \"ab\"\n")), [(2, 1)]);
}

/// Rules that would each have to be held against all before them: what is found is certain, and what was not looked
/// for is counted.
#[test]
fn where_everybody_would_be_held_against_everybody_the_rest_is_counted() {
    let distinct = |count: u32| -> String {
        let rule = |n: u32| {
            let (low, high) = (1 + n % 100, 1 + n / 100);
            format!(
                "[[rule]]\naccount = \"a\"\nargv = {{ regex = '[a-z]{{{low}}}[0-9]{{{high}}}' }}\n"
            )
        };
        (0..count).map(rule).collect()
    };
    let again = "[[rule]]\naccount = \"b\"\nargv = { regex = '[a-z]{1}[0-9]{1}' }\n";
    let few = rules(&format!("{}{again}", distinct(1_000))).shadows();
    assert_eq!((few.count(), few.unlooked), (1, 0));
    let many = rules(&format!("{again}{}{again}", distinct(5_000))).shadows();
    assert!(many.unlooked > 1 && many.unlooked < 3_000, "{}", many.unlooked);
    assert_eq!((many.shadowed[0].rule.0, many.count()), (2, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_shadowed_rule_takes_nothing_that_the_other_does_not(
        rules in prop::collection::vec(model::rule(), 2..10),
        processes in prop::collection::vec(model::process(), 1..30),
    ) {
        for (rule, by) in shadows(&model::file(&rules)) {
            prop_assert!(by < rule);
            let place = |number: u32| usize::try_from(number - 1).unwrap();
            for process in &processes {
                let taken = model::matches(&rules[place(rule)], process);
                prop_assert!(!taken || model::matches(&rules[place(by)], process));
            }
        }
    }
}
