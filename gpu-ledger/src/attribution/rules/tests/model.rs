//! The rules against what they mean, read one after another.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::attribution::ContainerNames;

type Takes = fn(&str) -> bool;

/// Patterns, and by other means what they take.
const PATTERNS: &[(&str, Takes)] = &[
    ("\"a\"", |v| v == "a"),
    ("\"ab\"", |v| v == "ab"),
    ("\"abc\"", |v| v == "abc"),
    ("{ prefix = \"a\" }", |v| v.starts_with('a')),
    ("{ prefix = \"ab\" }", |v| v.starts_with("ab")),
    ("{ suffix = \"c\" }", |v| v.ends_with('c')),
    ("{ suffix = \"bc\" }", |v| v.ends_with("bc")),
    ("{ regex = '.*' }", |_| true),
    ("{ regex = '.*b.*' }", |v| v.contains('b')),
    ("{ regex = 'a|bc' }", |v| v == "a" || v == "bc"),
    ("{ regex = '[ab]+' }", |v| v.chars().all(|c| c == 'a' || c == 'b')),
    ("{ regex = 'a?(bc)+' }", |v| {
        let rest = v.strip_prefix('a').unwrap_or(v);
        !rest.is_empty() && rest.len() % 2 == 0 && rest.replace("bc", "").is_empty()
    }),
    ("{ regex = '(?i)B.*' }", |v| v.starts_with('b')),
];

const KEYS: [&str; 5] = ["program", "argv", "ancestor", "labels.x", "command_line"];

pub(super) type ModelCondition = (usize, Vec<usize>);
pub(super) type ModelRule = Vec<ModelCondition>;

pub(super) fn file(rules: &[ModelRule]) -> String {
    let mut text = String::new();
    for (number, rule) in rules.iter().enumerate() {
        writeln!(text, "[[rule]]\naccount = \"r{number}\"").unwrap();
        for (key, patterns) in rule {
            let list: Vec<&str> = patterns.iter().map(|at| PATTERNS[*at].0).collect();
            writeln!(text, "{} = [{}]", KEYS[*key], list.join(", ")).unwrap();
        }
    }
    text
}

/// Conditions on different keys, at least one.
pub(super) fn rule() -> impl Strategy<Value = ModelRule> {
    let patterns = prop::collection::vec(0..PATTERNS.len(), 1..3);
    prop::collection::btree_map(0..KEYS.len(), patterns, 1..3)
        .prop_map(|conditions| conditions.into_iter().collect())
}

/// The values under each key.
pub(super) type ModelProcess = (Option<String>, Option<Vec<String>>, Vec<String>, Option<String>);

pub(super) fn process() -> impl Strategy<Value = ModelProcess> {
    let word = || "[abc]{1,4}";
    (
        prop::option::of(word()),
        prop::option::of(prop::collection::vec("[abc]{0,4}", 0..3)),
        prop::collection::vec(word(), 0..3),
        prop::option::of(word()),
    )
}

pub(super) fn made((name, argv, ancestors, label): &ModelProcess) -> Process {
    let names = label.as_ref().map(|label| ContainerNames {
        labels: [("x".into(), label.as_str().into())].into(),
        ..ContainerNames::default()
    });
    let argv = argv.as_ref();
    Process {
        program: name.as_deref().map(program),
        argv: argv.map(|list| list.iter().map(|word| word.as_bytes().to_vec()).collect()),
        ancestors: ancestors.iter().map(|name| Some(program(name))).collect(),
        names,
        ..Process::default()
    }
}

fn values((name, argv, ancestors, label): &ModelProcess, key: usize) -> Vec<String> {
    let values: Vec<String> = match KEYS[key] {
        "program" => name.iter().cloned().collect(),
        "argv" => argv.iter().flatten().cloned().collect(),
        "ancestor" => ancestors.clone(),
        "labels.x" => label.iter().cloned().collect(),
        _ => argv.iter().map(|words| words.join(" ")).collect(),
    };
    values.into_iter().filter(|value| !value.is_empty()).collect()
}

pub(super) fn matches(rule: &ModelRule, process: &ModelProcess) -> bool {
    rule.iter().all(|(key, patterns)| {
        let values = values(process, *key);
        values.iter().any(|value| patterns.iter().any(|at| PATTERNS[*at].1(value)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_first_rule_that_matches_is_found(
        rules in prop::collection::vec(rule(), 0..12),
        processes in prop::collection::vec(process(), 1..6),
    ) {
        let set = super::rules(&file(&rules));
        for process in &processes {
            let first = rules.iter().position(|rule| matches(rule, process));
            let found = ruled(&set, &made(process));
            prop_assert_eq!(found.map(|(account, _)| account), first.map(|at| format!("r{at}")));
        }
    }
}
