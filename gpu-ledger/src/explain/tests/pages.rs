//! Pages, golden; and the same as JSON, which keeps its schema.

use std::sync::Arc;

use unicode_width::UnicodeWidthStr as _;

use super::made::{ID, Made, bare, explanation, nameless};
use crate::argv::CmdlineMode;
use crate::attribution::Label;
use crate::explain::{Explained, NEAR_MAX, RulesAtHand, RulesLack, Who, render};
use crate::rendering::json;
use crate::settlement::Ground;
use crate::unknown::{GapCause, NamelessReason};

fn schema_faults(settlements: &[Explained]) -> Vec<String> {
    let schema = include_str!("../../../schema/explain.v1.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let text = json(&explanation(settlements.to_vec())).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    schema.iter_errors(&value).map(|fault| fault.to_string()).collect()
}

/// The page, of which no line is too wide but for a word that is.
fn page(settlements: &[Explained]) -> String {
    assert_eq!(schema_faults(settlements), Vec::<String>::new());
    let page = render(&explanation(settlements.to_vec()));
    let has_long_word = |line: &str| line.split_whitespace().any(|word| word.width() > 64);
    let is_wide = |line: &&str| line.width() > 80 && !has_long_word(line);
    let too_wide: Vec<&str> = page.lines().filter(is_wide).collect();
    assert_eq!(too_wide, Vec::<&str>::new());
    page
}

fn in_container(names: Vec<(Label, &'static str)>) -> Made {
    let path = format!("/system.slice/docker-{ID}.scope");
    Made { names, ..Made::of("python3").within(&path) }
}

/// One for each ground, in their order.
fn on_every_ground() -> Vec<(Ground, Made)> {
    let pod = format!(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11112222_3333_4444_5555_666677778888\
         .slice/cri-containerd-{ID}.scope"
    );
    let in_pod = Made {
        names: vec![(Label::Namespace, "lab"), (Label::Pod, "train-0")],
        ..Made::of("python3").within(&pod)
    };
    let job = "/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0";
    let by_cron = Made { ancestors: vec!["backup.sh", "cron"], ..Made::of("ffmpeg") }
        .within("/system.slice/cron.service");
    let compose = vec![(Label::ComposeProject, "ai"), (Label::ComposeService, "xtts")];
    vec![
        (Ground::Job, Made::of("python3").within(job)),
        (Ground::Pod, in_pod),
        (Ground::Container, in_container(compose)),
        (Ground::Container, in_container(vec![(Label::ContainerName, "happy_bell")])),
        (Ground::Container, in_container(Vec::new())),
        (Ground::Desktop, Made::of("gnome-shell")),
        (Ground::Unit, Made::of("llama-server").within("/system.slice/ollama.service")),
        (
            Ground::Unit,
            Made::of("comfyui").within(
                "/user.slice/user-1000.slice/user@1000.service/app.slice/comfyui@2.service",
            ),
        ),
        (Ground::Scheduler, by_cron),
        (Ground::Program, Made::of("train.py")),
    ]
}

#[test]
fn every_ground_says_what_decided_and_what_would_have_next() {
    let mut text = String::new();
    let mut told = Vec::new();
    for (ground, made) in on_every_ground() {
        let one = made.told("", None);
        assert_eq!(one.grounds.first().map(|first| first.ground), Some(ground), "{one:?}");
        assert_eq!(one.grounds.last().map(|last| last.ground), Some(Ground::Program));
        let page = page(std::slice::from_ref(&one));
        let of_account = page.lines().skip(1).take_while(|line| !line.starts_with("  held"));
        text.extend(of_account.flat_map(|line| [line, "\n"]));
        text.push('\n');
        told.push(ground);
    }
    told.dedup();
    assert_eq!(told, Ground::ALL);
    insta::assert_snapshot!("grounds", text);
}

#[test]
fn a_page_reads_well_and_says_of_each_control_group_in_which_hierarchy_it_is() {
    let mut made = Made::of("llama-server");
    made.words = vec![
        "llama-server",
        "--model",
        "/usr/share/ollama/.ollama/models/blobs/sha256-abcdef",
        "--port",
        "36447",
        "--ctx-size",
        "8192",
        "--n-gpu-layers",
        "99",
        "--threads",
        "16",
    ];
    made.groups = vec![
        (0, "/system.slice/ollama.service".to_owned()),
        (4, "/system.slice/ollama.service".to_owned()),
    ];
    made.ancestors = vec!["ollama", "systemd"];
    let one = made.told("", None);
    let groups: Vec<(&str, u32)> = one.who.as_ref().map_or_else(Vec::new, |who| {
        who.cgroups.iter().map(|group| (group.version, group.hierarchy)).collect()
    });
    assert_eq!(groups, [("v2", 0), ("v1", 4)]);
    insta::assert_snapshot!("unit", page(&[one]));
}

#[test]
fn a_group_that_is_the_root_is_not_a_line_for_each_hierarchy() {
    let root = |hierarchy| (hierarchy, "/".to_owned());
    let mut made = Made::of("llama-server");
    made.groups = vec![(0, "/a.slice".to_owned()), root(4), root(7)];
    let said = page(&[made.told("", None)]);
    let groups: Vec<&str> =
        said.lines().filter(|line| line.starts_with("  control group")).collect();
    let wanted = ["  control group /a.slice (v2)", "  control group /, the root of 2 hierarchies"];
    assert_eq!(groups, wanted);
    made.groups = vec![root(0)];
    let said = page(&[made.told("", None)]);
    assert!(said.contains("  control group /, the root of one hierarchy\n"), "{said}");
}

/// Whether arguments are of this settlement, were never kept, or are no more, is told apart.
#[test]
fn a_page_says_by_which_mode_there_are_arguments_or_none() {
    let arguments = |mode, is_kept| {
        let one = Made { mode, is_kept, ..Made::of("serve") }.told("", None);
        let page = page(std::slice::from_ref(&one));
        let of_them = page.lines().skip_while(|line| !line.starts_with("  arguments"));
        let of_them: Vec<&str> = of_them.take_while(|line| !line.starts_with("  uid")).collect();
        of_them.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let full = Some(CmdlineMode::Full);
    assert_eq!(arguments(full, true), "arguments serve --port 8080");
    assert_eq!(arguments(full, false), "arguments committed to, stored then, and not any more");
    let none = arguments(Some(CmdlineMode::None), false);
    assert_eq!(none, "arguments committed to, and not stored (`cmdline = \"none\"` then)");
    let exe = Made { mode: Some(CmdlineMode::Exe), ..Made::of("serve") }.told("", None);
    let who = Who {
        argv_text: Some("exe"),
        argv: Some(vec!["serve".into()]),
        ..exe.who.clone().unwrap()
    };
    let said = words(&page(&[Explained { who: Some(who), ..exe }]));
    assert!(
        said.contains("arguments committed to, and not stored (`cmdline = \"exe\"` then) uid"),
        "{said}"
    );
    let unsaid = arguments(None, true);
    assert!(unsaid.starts_with("arguments serve --port 8080 (how much of them"), "{unsaid}");
    let unsaid = arguments(None, false);
    assert_eq!(unsaid, "arguments committed to, and not stored, or not any more");
}

#[test]
fn what_is_stored_no_more_leaves_no_ground_that_it_was_not_booked_on() {
    let within = Made::of("llama-server").within("/system.slice/ollama.service");
    let other = Made { booked: Some("elsewhere"), ..within }.told("", None);
    assert_eq!((other.account.as_str(), other.grounds.len()), ("elsewhere", 0));
    assert!(page(&[other]).contains("  because       no rule took it; what else decided "));
    // A shell that cron started is not told from a program by its name alone.
    let ancestors = vec!["backup.sh", "sh", "cron"];
    let made = Made { ancestors, booked: Some("backup.sh"), ..Made::of("ffmpeg") };
    let one = made.within("/system.slice/cron.service").told("", None);
    let first = one.grounds.first().unwrap();
    assert_eq!((first.ground, &*first.account), (Ground::Scheduler, "backup.sh"));
    insta::assert_snapshot!("bare", page(&[bare(None)]));
    let kept = bare(Some(NamelessReason::EventLost));
    assert!(page(&[kept]).contains("  evidence      not here: "));
}

/// What each of them says beside its words: gap, size, and what is counted.
const BLIND: [(NamelessReason, Option<GapCause>, Option<u64>, &str); 7] = [
    (NamelessReason::PredatesCoverage, None, None, "events"),
    (NamelessReason::AgentDown, Some(GapCause::AgentDown), None, "events"),
    (NamelessReason::EventLost, Some(GapCause::EventLost), Some(12), "events"),
    (NamelessReason::IdentityEvicted, None, Some(1), "processes"),
    (NamelessReason::PidAmbiguous, None, Some(2), "processes"),
    (NamelessReason::RowSpansTwoLifetimes, None, Some(2), "processes"),
    (NamelessReason::NoStartTime, None, None, "processes"),
];

#[test]
fn every_reason_says_what_hid_the_name_when_how_much_and_what_would_have_named_it() {
    let reasons: Vec<NamelessReason> = BLIND.iter().map(|(reason, ..)| *reason).collect();
    assert_eq!(reasons, NamelessReason::ALL);
    let told: Vec<Explained> = reasons.iter().map(|reason| nameless(*reason)).collect();
    for (one, (reason, gap, size, of)) in told.iter().zip(BLIND) {
        let hidden = one.nameless.as_ref().unwrap();
        assert!(!hidden.cause.is_empty() && !hidden.remedy.is_empty());
        let seen = &hidden.not_seen;
        assert_eq!((seen.gap, seen.size, seen.of), (gap, size, of), "{reason}");
        assert!(seen.to.is_some(), "{reason}");
        let is_bounded = reason != NamelessReason::NoStartTime;
        assert_eq!(seen.length_ms.is_some(), is_bounded, "{reason}");
        assert_eq!(one.grounds.len(), 0, "{reason}");
    }
    insta::assert_snapshot!("nameless", page(&told));
}

const RULES: &str = "[[rule]]\naccount = \"research\"\nunit = \"ollama.service\"\nuser = \"bob\"\n\
    [[rule]]\naccount = \"batch\"\njob = { regex = '.*' }\nprogram = \"llama-server\"\n\
    [[rule]]\naccount = \"far\"\nprogram = \"nothing\"\n\
    [[rule]]\naccount = \"${who}\"\nunit = \"ollama.service\"\nancestor = { regex = '(?P<who>b.*)' }\n\
    [[rule]]\naccount = \"rest\"\nuser = \"1000\"\n";

#[test]
fn a_rule_says_what_of_it_held_and_which_before_it_nearly_did() {
    let made = Made::of("llama-server").within("/system.slice/ollama.service");
    let one = made.told(RULES, Some(RULES));
    assert_eq!((one.account.as_str(), one.rule.map(|rule| rule.0)), ("bash", Some(4)));
    let ruling = one.rules.as_ref().unwrap();
    let near: Vec<u32> = ruling.near.iter().map(|near| near.rule.0).collect();
    assert_eq!((ruling.line, ruling.held.len(), ruling.near_more), (Some(12), 2, 1));
    assert_eq!(near, [1, 2], "of the third nothing holds");
    insta::assert_snapshot!("ruled", page(&[one]));
    // Where no rule takes it, all of them stand before it.
    let rules = "[[rule]]\naccount = \"a\"\nuser = \"bob\"\n";
    let one = made.told(rules, Some(rules));
    let page = page(&[one]);
    assert!(page.contains("  because       unit ollama.service\n"), "{page}");
    assert!(page.contains("  nearly        none of the rules before it (1)\n"), "{page}");
    // More than are shown are counted.
    let many = "[[rule]]\naccount = \"a\"\nuser = \"bob\"\nprogram = \"llama-server\"\n".repeat(9);
    let ruling = made.told(&many, Some(&many)).rules.unwrap();
    assert_eq!((ruling.near.len(), ruling.near_more), (NEAR_MAX, 4));
}

#[test]
fn other_rules_than_those_in_force_say_nothing() {
    let made = Made::of("llama-server");
    let one = made.told(RULES, Some("[[rule]]\naccount = \"others\"\n"));
    let ruling = one.rules.as_ref().unwrap();
    assert_eq!((&ruling.file, ruling.line, ruling.near.len()), (&None, None, 0));
    let page = page(&[one]);
    assert!(page.contains("  because       rule 5\n"), "{page}");
    let sha256 = crate::journal::chain::sha256(RULES.as_bytes()).to_string();
    assert!(page.contains(&format!("SHA-256 {}…", &sha256[..16])), "{page}");
    assert!(
        words(&page).contains("…; the one at hand is another: --rules FILE names it"),
        "{page}"
    );
}

#[test]
fn a_file_at_hand_is_called_another_where_none_was_in_force() {
    let made = Made::of("llama-server");
    let one = made.told("", Some(RULES));
    assert_eq!(one.rules.as_ref().unwrap().unknown_because, Some(RulesLack::NoneInForce));
    let said = words(&page(&[one]));
    assert!(said.contains("rules none were in force then: the file at hand is another"), "{said}");
    for at_hand in [None, Some("")] {
        assert!(made.told("", at_hand).rules.is_none(), "{at_hand:?}");
    }
}

/// Without its breaks.
fn words(page: &str) -> String {
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn that_there_are_no_rules_here_is_not_called_another_file() {
    let made = Made::of("llama-server");
    let none = RulesAtHand { file: None, set: Arc::default() };
    let one = made.told_by(RULES, Some(&none));
    assert_eq!(one.rules.as_ref().unwrap().unknown_because, Some(RulesLack::NoFile));
    let said = words(&page(&[one]));
    assert!(said.contains("…; there is none here: --rules FILE names it, and says what"), "{said}");
    let one = made.told_by(RULES, None);
    assert_eq!(one.rules.as_ref().unwrap().unknown_because, Some(RulesLack::Unread));
    let said = words(&page(&[one]));
    assert!(said.contains("…; the one at hand cannot be read: --rules FILE names it"), "{said}");
    let known = made.told(RULES, Some(RULES)).rules.unwrap();
    assert_eq!((known.unknown_because, known.file.is_some()), (None, true));
}

#[test]
fn names_stand_on_a_page_and_in_a_refusal_as_they_can_be_typed() {
    let rules = "[[rule]]\naccount = 'a\\b'\nunit = \"x.service\"\nprogram = \"llama-server\"\n";
    let made = Made::of("llama-server").within("/system.slice/ollama.service");
    let page = page(&[made.told(rules, Some(rules))]);
    assert!(page.contains("(a\\b)"), "{page}");
}
