mod documented;
mod doubts;
mod faults;
mod matching;
mod model;
mod never;
mod shadows;

use crate::attribution::Process;
use crate::attribution::rules::RuleSet;
use crate::identity::Program;

fn rules(text: &str) -> RuleSet {
    RuleSet::parse(text.as_bytes()).unwrap_or_else(|faults| panic!("{faults:?}"))
}

/// The account and the number of the rule, and that the explanation says the same.
fn ruled(rules: &RuleSet, process: &Process) -> Option<(String, u32)> {
    let found = process.see(|subject| rules.classify(subject));
    let explained = process.see(|subject| rules.explain(subject)).matched;
    let found = found.map(|ruled| (ruled.account.to_string(), ruled.rule.0));
    assert_eq!(found, explained.map(|matched| (matched.account, matched.rule.0)));
    found
}

fn account(rules: &RuleSet, process: &Process) -> Option<String> {
    ruled(rules, process).map(|(account, _)| account)
}

fn program(name: &str) -> Program {
    Program::named(name.as_bytes())
}

fn words(words: &[&str]) -> Option<Vec<Vec<u8>>> {
    (!words.is_empty()).then(|| words.iter().map(|word| word.as_bytes().to_vec()).collect())
}

/// A process by its program.
fn running(name: &str) -> Process {
    Process { program: Some(program(name)), ..Process::default() }
}
