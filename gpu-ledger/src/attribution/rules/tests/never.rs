//! A text that nothing ever is has its line told, with what to write.

use super::*;
use crate::place::{Job, Place, Scheduler};

fn told(condition: &str) -> Option<String> {
    let text = format!("[[rule]]\naccount = \"a\"\n{condition}\n");
    match RuleSet::parse(text.as_bytes()) {
        Ok(_) => None,
        Err(faults) => Some(faults.to_string()),
    }
}

#[test]
fn a_text_that_nothing_is_called_is_refused_with_what_to_write() {
    // What is wrong, what is said, and what is right.
    let cases = [
        ("unit = \"ollama\"", "write \"ollama.service\"", "unit = \"ollama.service\""),
        ("user_unit = \"jupyter\"", "write \"jupyter.service\"", "user_unit = \"app-x.scope\""),
        ("slice = \"batch\"", "write \"batch.slice\"", "slice = \"batch.slice\""),
        ("cgroup = \"batch.slice\"", "write \"/batch.slice\"", "cgroup = \"/batch.slice\""),
        ("cgroup = { prefix = \"x/\" }", "write \"/x/\"", "cgroup = { prefix = \"/x/\" }"),
        (
            "program = \"/usr/bin/ollama\"",
            "write \"ollama\", or look at exe",
            "program = \"ollama\"",
        ),
        ("ancestor = \"/usr/bin/ollama\"", "write \"ollama\"", "ancestor = \"dir/__main__.py\""),
        ("container_of = \"alice\"", "\"user@UID\"", "container_of = \"user@1000\""),
        (
            "container_of = \"dokcer 107\"",
            "as \"lxc 107\"",
            "container_of = [\"system\", \"lxc 107\", \"nspawn a of user@7\"]",
        ),
        ("container = \"/web\"", "has no slash before it", "container = \"web\""),
        ("container = \"docker 3f2a\"", "write \"3f2a\"", "container = \"3f2a\""),
        ("pod = \"ml/web-0\"", "namespace = \"ml\" and pod = \"web-0\"", "pod = \"web-0\""),
        ("pod = \"pod 0a1b\"", "write \"0a1b\"", "pod = \"0a1b\""),
        ("namespace = \"ml/web\"", "namespace = \"ml\"", "namespace = \"ml\""),
        (
            "compose_service = \"shop/web\"",
            "compose_service = \"web\"",
            "compose_service = \"web\"",
        ),
        ("job = \"slurm\"", "scheduler = \"slurm\"", "job = \"slurm 4711\""),
        ("job = \"cron 4711\"", "as in \"slurm 4711\"", "job = \"pbs 4711.server\""),
        ("job = \"slurm \"", "as in \"slurm 4711\"", "job = [4711, \"4711[1]\"]"),
        ("scheduler = \"cron\"", "they are slurm, pbs", "scheduler = \"slurm\""),
        ("gpu = \"51d00000\"", "write \"GPU-51d00000\"", "gpu = \"GPU-51d00000\""),
        (
            "gpu = \"0000:3b:00.0\"",
            "place on the bus",
            "gpu = [0, \"A100\", \"NVIDIA A100-SXM4-80GB\"]",
        ),
        // As they are stored.
        ("labels.team = \"a\\u0007b\"", "is stored as", "labels.team = \"a b\""),
        ("image = \"x:hf_abcdefghijklmnopqrstuvwxyzABCDEFGH\"", "[redacted]", "image = \"x:1\""),
    ];
    for (wrong, said, right) in cases {
        let fault = told(wrong).unwrap_or_else(|| panic!("{wrong} is taken"));
        assert!(
            fault.starts_with("3:") && fault.contains(" is never ") && fault.contains(said),
            "{fault}"
        );
        assert_eq!(told(right), None, "{right}");
    }
}

#[test]
fn a_job_goes_by_its_id_and_by_what_its_account_is_called() {
    let job =
        |id: &str| Job { scheduler: Scheduler::Slurm, id: Some(id.into()), step: None, task: None };
    let of = |id: &str| Process {
        place: Place { job: Some(job(id)), ..Place::default() },
        ..Process::default()
    };
    for written in ["4711", "slurm 4711"] {
        let set = rules(&format!("[[rule]]\naccount = \"night\"\njob = \"{written}\"\n"));
        assert_eq!(account(&set, &of("4711")).as_deref(), Some("night"), "{written}");
        assert_eq!(account(&set, &of("4712")), None, "{written}");
    }
    let other = rules("[[rule]]\naccount = \"night\"\njob = \"pbs 4711\"\n");
    assert_eq!(account(&other, &of("4711")), None);
    // The id goes first, so that a capture takes that.
    let captured = rules("[[rule]]\naccount = \"job ${id}\"\njob = { regex = '(?P<id>.+)' }\n");
    assert_eq!(account(&captured, &of("4711")).as_deref(), Some("job 4711"));
}
