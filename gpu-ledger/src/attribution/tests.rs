use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::identity::{ImageContent, Program};
use crate::kernel::{Argv, ArgvState, CgroupId, LoginUid};
use crate::place::{Container, Job, Place, Pod, Qos, Runtime, Scheduler};
use crate::unit::GpuUuid;

/// A program, as its arguments name it.
fn ran(words: &[&str]) -> Program {
    let mut bytes = Vec::new();
    for word in words {
        bytes.extend_from_slice(word.as_bytes());
        bytes.push(0);
    }
    let length = u64::try_from(bytes.len()).unwrap();
    let argv =
        Argv { bytes: Bytes::from(bytes), true_length: Some(length), state: ArgvState::Whole };
    let filename = Bytes::copy_from_slice(words[0].as_bytes());
    Program::of(&ImageContent { argv, filename, exe: None }).unwrap()
}

/// Who is attributed, piece by piece.
struct Made {
    program: Option<Program>,
    place: Place,
    cgroups: Vec<&'static [u8]>,
    names: Option<ContainerNames>,
    ancestors: Vec<Program>,
    kind: Kind,
    model: Option<Arc<str>>,
}

impl Made {
    fn new(program: &[&str]) -> Self {
        Self {
            program: Some(ran(program)),
            place: Place::default(),
            cgroups: vec![b"/"],
            names: None,
            ancestors: Vec::new(),
            kind: Kind::Unknown,
            model: None,
        }
    }

    fn attributed(&self) -> Attributed {
        self.attributed_by(&Attributor::default())
    }

    fn attributed_by(&self, attributor: &Attributor) -> Attributed {
        let ancestors: Vec<AncestorSubject<'_>> =
            self.ancestors.iter().map(|one| AncestorSubject { program: Some(one) }).collect();
        let gpu = GpuUuid("GPU-1".into());
        let users = Users { real: Some("alice".into()), ..Users::default() };
        attributor.attribute(&Subject {
            gpu: &gpu,
            gpu_index: Some(0),
            gpu_name: None,
            kind: self.kind,
            program: self.program.as_ref(),
            exe: b"",
            argv: None,
            model: self.model.as_ref(),
            user: User { uid: Some(1_000), euid: Some(1_000), login_uid: LoginUid::Unset },
            users: &users,
            cgroups: &self.cgroups,
            place: &self.place,
            names: self.names.as_ref(),
            ancestors: &ancestors,
        })
    }

    fn account(&self) -> String {
        self.attributed().account.to_string()
    }

    fn value(&self, dimension: Dimension) -> Value {
        dimension.value(&self.attributed().labels)
    }
}

const ID: &str = "3f2a9c0d1e4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeef";

fn in_container(names: Option<ContainerNames>) -> Made {
    let mut made = Made::new(&["/usr/bin/python3", "/srv/xtts.py"]);
    made.place.unit = Some(format!("docker-{ID}.scope").into());
    made.place.container = Some(Container { runtime: Some(Runtime::Docker), id: ID.into() });
    made.names = names;
    made
}

fn is(value: &str) -> Value {
    Value::Is(value.into())
}

#[test]
fn the_job_goes_before_the_pod_before_the_container_before_the_program() {
    let mut made = in_container(Some(ContainerNames {
        name: Some("box".into()),
        ..ContainerNames::default()
    }));
    assert_eq!(made.account(), "box");
    made.place.pod =
        Some(Pod { uid: "11112222-3333-4444-5555-666677778888".into(), qos: Some(Qos::Burstable) });
    assert_eq!(made.account(), "pod 11112222-3333-4444-5555-666677778888");
    made.place.job = Some(Job {
        scheduler: Scheduler::Slurm,
        id: Some("4711".into()),
        step: Some("0".into()),
        task: None,
    });
    assert_eq!(made.account(), "slurm 4711");
    assert_eq!(made.value(Dimension::Job), is("slurm 4711"));
    // Of a slot nobody knows the job.
    made.place.job = Some(Job { scheduler: Scheduler::HtCondor, id: None, step: None, task: None });
    assert_eq!(made.account(), "pod 11112222-3333-4444-5555-666677778888");
    assert_eq!(Made::new(&["/usr/bin/python3", "/srv/xtts.py"]).account(), "xtts.py");
}

#[test]
fn a_container_without_a_name_keeps_its_id_and_with_one_both() {
    let made = in_container(None);
    assert_eq!(made.account(), format!("docker {ID}"));
    assert_eq!(made.value(Dimension::Container), is(ID));
    // Two whose first twelve digits agree are two.
    let mut other = in_container(None);
    other.place.container.as_mut().unwrap().id = format!("3f2a9c0d1e4b{}", "0".repeat(52)).into();
    assert_ne!(other.account(), made.account());
    assert_ne!(other.value(Dimension::Container), made.value(Dimension::Container));
    // What is no id is a name as any: it is bounded, and goes without a secret.
    other.place.container.as_mut().unwrap().id = "x".repeat(500).into();
    assert_eq!(other.account().chars().count(), 256);
    let labels = made.attributed().labels;
    assert_eq!(label_of(&labels, Label::Container).map(|id| &**id), Some(ID));
    let names = ContainerNames {
        name: Some("ai-xtts-1".into()),
        image: Some("ghcr.io/x/xtts:2".into()),
        compose_project: Some("ai".into()),
        compose_service: Some("xtts".into()),
        ..ContainerNames::default()
    };
    let made = in_container(Some(names));
    assert_eq!(made.account(), "ai/xtts");
    assert_eq!(made.value(Dimension::Container), is(&format!("ai-xtts-1 ({ID})")));
    assert_eq!(made.value(Dimension::Service), is("ai/xtts"));
    let labels = made.attributed().labels;
    assert_eq!(label_of(&labels, Label::Image).map(|it| &**it), Some("ghcr.io/x/xtts:2"));
    assert!(labels.is_sorted(), "{labels:?}");
}

#[test]
fn a_unit_of_a_users_manager_is_not_the_systems_of_that_name() {
    let made = |path: &str| {
        let mut made = Made::new(&["/usr/bin/ollama", "serve"]);
        made.place = Place::of([path.as_bytes()]);
        made
    };
    let systems = made("/system.slice/ollama.service");
    assert_eq!(systems.account(), "ollama");
    assert_eq!(systems.value(Dimension::Unit), is("ollama.service"));
    for (uid, instance) in [(1000, ""), (1001, ""), (1001, "@gpu0")] {
        let users = made(&format!(
            "/user.slice/user-{uid}.slice/user@{uid}.service/app.slice/ollama{instance}.service"
        ));
        assert_eq!(users.account(), format!("ollama (user@{uid})"));
        let unit = format!("ollama{instance}.service");
        assert_eq!(users.value(Dimension::Unit), is(&format!("{unit} (user@{uid})")));
        let labels = users.attributed().labels;
        assert_eq!(label_of(&labels, Label::Unit).map(|it| &**it), Some(&*unit));
        assert!(labels.is_sorted(), "{labels:?}");
    }
}

#[test]
fn what_is_none_is_told_from_what_nobody_knows() {
    let mut made = Made::new(&["/bin/job"]);
    for dimension in [Dimension::Unit, Dimension::Container, Dimension::Pod, Dimension::Job] {
        assert_eq!(made.value(dimension), Value::None, "{dimension}");
    }
    assert_eq!(made.value(Dimension::Namespace), Value::None);
    made.cgroups = Vec::new();
    for dimension in [Dimension::Unit, Dimension::Container, Dimension::Pod, Dimension::Job] {
        assert_eq!(made.value(dimension), Value::Unknown, "{dimension}");
    }
    // A pod has a namespace; what it is called only the runtime says.
    let mut made = in_container(None);
    made.place.pod = Some(Pod { uid: "u".into(), qos: None });
    assert_eq!(made.value(Dimension::Namespace), Value::Unknown);
    made.names = Some(ContainerNames {
        namespace: Some("lab".into()),
        pod: Some("train-0".into()),
        ..ContainerNames::default()
    });
    assert_eq!(made.value(Dimension::Namespace), is("lab"));
    assert_eq!(made.value(Dimension::Pod), is("lab/train-0"));
    assert_eq!(made.account(), "lab/train-0");
    // Entries from before there were labels say nothing of any of it.
    for dimension in Dimension::ALL {
        assert_eq!(dimension.value(&[]), Value::Unknown, "{dimension}");
    }
    assert_eq!(made.value(Dimension::Kind), Value::Unknown);
    made.kind = Kind::Compute.and(Kind::Graphics);
    assert_eq!(made.value(Dimension::Kind), is("both"));
    assert_eq!(made.value(Dimension::Model), Value::None);
    made.model = Some("qwen3-8b".into());
    assert_eq!(made.value(Dimension::Model), is("qwen3-8b"));
}

#[test]
fn a_label_that_a_rule_looks_at_is_stored_with_what_it_decided() {
    let names = ContainerNames {
        name: Some("box".into()),
        labels: BTreeMap::from([
            (Arc::from("team"), Arc::from("vision")),
            (Arc::from("other"), Arc::from("x")),
        ]),
        ..ContainerNames::default()
    };
    let text = "[[rule]]\naccount = \"${team}\"\nlabels.team = { regex = '(?P<team>.+)' }\n";
    let rules = Arc::new(RuleSet::parse(text.as_bytes()).unwrap());
    let made = in_container(Some(names.clone()));
    let attributed = made.attributed_by(&Attributor::default().with_rules(&rules));
    assert_eq!(attributed.account.to_string(), "vision");
    let stored = labels_of_names(&attributed.labels);
    assert_eq!(stored, BTreeMap::from([(Arc::from("team"), Arc::from("vision"))]));
    assert!(attributed.labels.is_sorted(), "{:?}", attributed.labels);
    let digest = rules.digest().to_string();
    assert_eq!(label_of(&attributed.labels, Label::Rules).map(|it| &**it), Some(digest.as_str()));
    // Without a rule that looks at it, it is nobody's business.
    assert!(labels_of_names(&made.attributed().labels).is_empty());
}

#[test]
fn a_secret_in_a_name_that_somebody_gave_is_in_no_label_and_no_account() {
    let canary = "ZNname7f3Kd9Xw2Lm8";
    let names = ContainerNames {
        name: Some(format!("password={canary}").into()),
        image: Some(format!("https://bob:{canary}@reg/x:1").into()),
        ..ContainerNames::default()
    };
    let attributed = in_container(Some(names)).attributed();
    let shown = format!("{} {:?}", attributed.account, attributed.labels);
    assert!(!shown.contains(canary) && shown.contains("password="), "{shown}");
    assert!(shown.contains(ID), "{shown}");
}

#[test]
fn of_arguments_no_more_is_seen_than_is_stored() {
    let argv = |words: &[&str]| {
        let mut bytes = words.join("\0").into_bytes();
        bytes.push(0);
        let length = u64::try_from(bytes.len()).unwrap();
        Argv { bytes: bytes.into(), true_length: Some(length), state: ArgvState::Whole }
    };
    let secret =
        argv(&["llama-server", "-m", "/models/qwen3-8b.gguf", "--api-key", "hunter2hunter2"]);
    let program = ran(&["/usr/bin/llama-server"]);
    let seen = |mode| {
        let attributor = Attributor::default().with_cmdline(mode);
        let words = attributor.words(&secret).map(|words| {
            let words = words.iter().map(|word| String::from_utf8_lossy(word).into_owned());
            words.collect::<Vec<_>>().join(" ")
        });
        (words, attributor.model(Some(&program), &secret).map(|model| model.to_string()))
    };
    let model = Some("qwen3-8b".to_owned());
    assert_eq!(seen(CmdlineMode::None), (None, None));
    assert_eq!(seen(CmdlineMode::Exe), (Some("llama-server".to_owned()), None));
    let redacted = "llama-server -m /models/qwen3-8b.gguf --api-key [redacted]";
    assert_eq!(seen(CmdlineMode::Redacted), (Some(redacted.to_owned()), model.clone()));
    let whole = "llama-server -m /models/qwen3-8b.gguf --api-key hunter2hunter2";
    assert_eq!(seen(CmdlineMode::Full), (Some(whole.to_owned()), model));
}

#[test]
fn a_cron_job_is_its_command_whatever_that_runs() {
    let mut made = Made::new(&["/usr/bin/python3", "-m", "train"]);
    let cron = || ran(&["/usr/sbin/cron", "-f"]);
    let shell = || ran(&["/bin/sh", "-c", "/opt/nightly.sh --all"]);
    made.ancestors = vec![shell(), cron()];
    assert_eq!(made.account(), "train");
    made.ancestors = vec![ran(&["/bin/bash", "/opt/nightly.sh", "--all"]), shell(), cron()];
    assert_eq!(made.account(), "nightly.sh");
    // Without a scheduler above it, it is its own program.
    made.ancestors = vec![ran(&["/bin/bash", "/opt/nightly.sh", "--all"]), shell()];
    assert_eq!(made.account(), "train");
}

#[test]
fn a_process_is_where_it_was_last_seen_in_each_hierarchy() {
    let group = |hierarchy| CgroupId { hierarchy, id: 1 };
    let (moved, born) = (b"/moved".as_slice(), b"/born".as_slice());
    // However it came there: moved and then executed, or born there.
    let paths = [(group(4), Some(born)), (group(0), Some(born)), (group(0), Some(moved))];
    assert_eq!(last_paths(paths), [moved, born]);
    assert_eq!(last_paths([(group(0), Some(moved)), (group(4), Some(born))]), [moved, born]);
    assert!(last_paths([(group(0), Some(moved)), (group(4), None)]).is_empty());
}

#[test]
fn the_desktop_is_one_line_and_what_it_started_is_not_it() {
    let shell = || {
        Place::of([b"/user.slice/user-1000.slice/user@1000.service/session.slice/org.gnome.Shell@wayland.service".as_slice()])
    };
    for program in ["/usr/bin/gnome-shell", "/usr/bin/Xwayland", "/usr/lib/xorg/Xorg"] {
        let mut made = Made::new(&[program]);
        made.place = shell();
        assert_eq!(made.account(), "desktop", "{program}");
    }
    let mut game = Made::new(&["/opt/games/quake"]);
    game.place = shell();
    assert_eq!(game.account(), "quake");
    // A service of the user's manager is one.
    let mut served = Made::new(&["/usr/bin/ollama", "serve"]);
    served.place = Place::of([
        b"/user.slice/user-1000.slice/user@1000.service/app.slice/ollama@1.service".as_slice(),
    ]);
    assert_eq!(served.account(), "ollama (user@1000)");
    assert_eq!(served.value(Dimension::Unit), is("ollama@1.service (user@1000)"));
}

#[test]
fn nobody_is_called_anything_that_a_terminal_or_a_line_would_stumble_over() {
    let names = ContainerNames {
        name: Some("a\u{1b}]52;c;\u{202e}b\nc".into()),
        image: Some("x".repeat(10_000).into()),
        labels: BTreeMap::from([(Arc::from("k"), Arc::from("v"))]),
        ..ContainerNames::default()
    };
    let made = in_container(Some(names));
    let attributed = made.attributed();
    for (dimension, value) in &attributed.labels {
        assert!(!value.chars().any(crate::escape::is_unprintable), "{dimension}: {value:?}");
        assert!(value.chars().count() <= 256, "{dimension}");
    }
    let account = attributed.account.to_string();
    assert!(!account.chars().any(crate::escape::is_unprintable), "{account:?}");
}

#[test]
fn a_users_container_has_a_line_beside_the_systems_of_the_same_name() {
    let users = "/user.slice/user-1000.slice/user@1000.service";
    let at = |path: &str, names| {
        let mut made = Made::new(&["/usr/bin/python3", "/srv/a.py"]);
        (made.place, made.names) = (Place::of([path.as_bytes()]), names);
        made
    };
    let called =
        |name: &str| Some(ContainerNames { name: Some(name.into()), ..Default::default() });
    for (path, names, account, container) in [
        ("/lxc.payload.web/x".to_owned(), None, "lxc web".to_owned(), "web".to_owned()),
        (
            format!("{users}/lxc.payload.web/x"),
            None,
            "lxc web (user@1000)".to_owned(),
            "web (user@1000)".to_owned(),
        ),
        (
            format!("{users}/user.slice/docker-{ID}.scope"),
            None,
            format!("docker {ID} (user@1000)"),
            format!("{ID} (user@1000)"),
        ),
        (
            format!("{users}/user.slice/libpod-{ID}.scope"),
            called("web"),
            "web (user@1000)".to_owned(),
            format!("web ({ID}) (user@1000)"),
        ),
        (
            "/user.slice/user-7.slice/session-3.scope/lxc.payload.web".to_owned(),
            None,
            "lxc web (user@7)".to_owned(),
            "web (user@7)".to_owned(),
        ),
        (format!("{users}/docker/{ID}"), None, "a.py".to_owned(), String::new()),
    ] {
        let made = at(&path, names);
        assert_eq!(made.account(), account, "{path}");
        let wanted = if container.is_empty() { Value::None } else { is(&container) };
        assert_eq!(made.value(Dimension::Container), wanted, "{path}");
        let service = made.value(Dimension::Service);
        assert_eq!(service, is(&made.account()), "{path}: it is cut or left out as a secret");
    }
}
