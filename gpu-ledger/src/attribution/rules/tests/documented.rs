//! The documented file does what its comments say.

use std::collections::BTreeSet;

use super::*;
use crate::attribution::ContainerNames;
use crate::attribution::rules::key::Field;
use crate::identity::User;
use crate::kernel::LoginUid;
use crate::place::{Container, Job, Place, Pod, Scheduler};
use crate::unit::GpuUuid;

const DOCUMENTED: &str = include_str!("../../../../units/rules.toml");

fn at(process: &Process) -> Option<String> {
    account(&rules(DOCUMENTED), process)
}

fn named(names: ContainerNames) -> Process {
    Process { names: Some(names), ..Process::default() }
}

fn placed(place: Place) -> Process {
    Process { place, ..Process::default() }
}

#[test]
fn it_has_every_key_and_no_rule_that_never_matches() {
    let set = rules(DOCUMENTED);
    assert_eq!(set.shadows(), crate::attribution::rules::Shadows::default());
    let used: BTreeSet<Field> = set.fields.iter().copied().collect();
    assert_eq!(used, Field::ALL.into_iter().collect());
    assert!(DOCUMENTED.contains("\nlabels."));
}

#[test]
fn programs_ancestors_and_arguments() {
    let worker = Process {
        ancestors: vec![Some(program("ollama")), Some(program("systemd"))],
        ..running("llama-server")
    };
    assert_eq!(at(&worker).as_deref(), Some("ollama"));
    assert_eq!(at(&running("ollama")).as_deref(), Some("ollama"));
    assert_eq!(at(&running("ollama2")), None);
    let vllm = |model: Option<&str>| {
        let model = model.map(Into::into);
        at(&Process { model, ..running("vllm.entrypoints.openai.api_server") })
    };
    assert_eq!(vllm(Some("Qwen/Qwen3-8B")).as_deref(), Some("vllm/Qwen/Qwen3-8B"));
    assert_eq!(vllm(None), None);
    let train = |arguments: &[&str]| at(&Process { argv: words(arguments), ..running("train.py") });
    assert_eq!(train(&["python3", "train.py", "--run", "7", "-x"]).as_deref(), Some("training 7"));
    assert_eq!(train(&["python3", "train.py", "--run=a/b"]).as_deref(), Some("training a/b"));
    assert_eq!(train(&["python3", "train.py", "--run"]), None);
    let comfy =
        |word| at(&Process { argv: words(&["python", "main.py", word]), ..running("main.py") });
    assert_eq!(comfy("--listen").as_deref(), Some("comfyui"));
    assert_eq!(comfy("--listen=::").as_deref(), Some("comfyui"));
    assert_eq!(comfy("--listening"), None);
    let exe = |path: &'static str| at(&Process { exe: path.into(), ..Process::default() });
    assert_eq!(exe("/opt/llama/llama-cli").as_deref(), Some("llama.cpp"));
    assert_eq!(exe("llama-cli"), None);
}

#[test]
fn units_slices_groups_users_and_gpus() {
    let unit = |unit: &str| at(&placed(Place { unit: Some(unit.into()), ..Place::default() }));
    assert_eq!(unit("whisper.service").as_deref(), Some("whisper"));
    assert_eq!(unit("whisper@en.service").as_deref(), Some("whisper"));
    assert_eq!(unit("whisperer.service"), None);
    let mut notebook =
        placed(Place { user_unit: Some("jupyter-3.scope".into()), ..Place::default() });
    assert_eq!(at(&notebook), None, "whose it is is not known");
    notebook.users.real = Some("bob".into());
    assert_eq!(at(&notebook).as_deref(), Some("notebooks of bob"));
    let batch = placed(Place { slice: Some("batch.slice".into()), ..Place::default() });
    assert_eq!(at(&batch).as_deref(), Some("batch"));
    let qemu = Process {
        cgroups: vec!["/x".into(), "/machine.slice/machine-qemu-1.scope".into()],
        ..Process::default()
    };
    assert_eq!(at(&qemu).as_deref(), Some("virtual machines"));
    let login = User { uid: Some(0), euid: Some(0), login_uid: LoginUid::Set(1000) };
    assert_eq!(at(&Process { user: login, ..Process::default() }).as_deref(), Some("alice"));
    let mut desktop = Process { gpu: GpuUuid("GPU-8f2c1a77-0".into()), ..Process::default() };
    assert_eq!(at(&desktop), None, "both must hold");
    desktop.users.real = Some("gdm".into());
    assert_eq!(at(&desktop).as_deref(), Some("desktop"));
    desktop.gpu = GpuUuid("GPU-0".into());
    assert_eq!(at(&desktop), None);
    desktop.gpu_index = Some(0);
    assert_eq!(at(&desktop).as_deref(), Some("desktop"));
}

#[test]
fn containers_pods_and_jobs() {
    let names = ContainerNames::default;
    let some = |text: &str| Some(text.into());
    let frigate = named(ContainerNames { name: some("frigate"), ..names() });
    assert_eq!(at(&frigate).as_deref(), Some("frigate"));
    let id = placed(Place {
        container: Some(Container { runtime: None, id: "frigate".into() }),
        ..Place::default()
    });
    assert_eq!(at(&id).as_deref(), Some("frigate"), "a container may be known by its name alone");
    let triton =
        named(ContainerNames { image: some("nvcr.io/nvidia/tritonserver:25.01"), ..names() });
    assert_eq!(at(&triton).as_deref(), Some("triton"));
    let mut compose = ContainerNames { compose_service: some("web"), ..names() };
    assert_eq!(at(&named(compose.clone())), None);
    compose.compose_project = some("shop");
    assert_eq!(at(&named(compose)).as_deref(), Some("shop/web"));
    let team = [("example.org/team".into(), "green-2".into())].into();
    assert_eq!(
        at(&named(ContainerNames { labels: team, ..names() })).as_deref(),
        Some("team green-2")
    );
    let labels = [("app".into(), "server".into())].into();
    let mut pod =
        ContainerNames { pod: some("inference-7f"), namespace: some("ml"), labels, ..names() };
    assert_eq!(at(&named(pod.clone())).as_deref(), Some("ml/inference"));
    pod.labels.clear();
    assert_eq!(at(&named(pod)).as_deref(), Some("k8s/ml"));
    let job = |scheduler, id: Option<&str>| {
        let job = Job { scheduler, id: id.map(Into::into), step: None, task: None };
        at(&placed(Place { job: Some(job), ..Place::default() }))
    };
    assert_eq!(job(Scheduler::Slurm, Some("4712")).as_deref(), Some("night shift"));
    assert_eq!(job(Scheduler::Slurm, Some("47110")).as_deref(), Some("slurm"));
    assert_eq!(job(Scheduler::HtCondor, None), None);
}

#[test]
fn a_pod_and_a_container_are_found_by_their_ids_as_well() {
    let set = rules(
        "[[rule]]\naccount = \"c\"\ncontainer = \"0123456789ab\"\n\
         [[rule]]\naccount = \"p\"\npod = \"1-2-3\"\n",
    );
    let container = |id: &str| {
        let container = Some(Container { runtime: None, id: id.into() });
        account(&set, &placed(Place { container, ..Place::default() }))
    };
    assert_eq!(container("0123456789abcdef").as_deref(), Some("c"));
    assert_eq!(container("0123456789a"), None);
    let pod = Some(Pod { uid: "1-2-3".into(), qos: None });
    assert_eq!(account(&set, &placed(Place { pod, ..Place::default() })).as_deref(), Some("p"));
}

/// Whoever runs containers of their own calls them what they like, and gives them any image and label.
#[test]
fn a_users_own_container_is_none_of_the_systems() {
    let set = rules(
        "[[rule]]\naccount = \"web\"\ncontainer = { prefix = \"web\" }\n\
         [[rule]]\naccount = \"team ${t}\"\nlabels.team = { regex = '(?P<t>.+)' }\n\
         [[rule]]\naccount = \"image\"\nimage = { regex = '.*' }\n\
         [[rule]]\naccount = \"${who}\"\ncontainer_of = { regex = 'user@(?P<who>.*)' }\n\
         [[rule]]\naccount = \"any\"\ncontainer_of = \"system\"\n",
    );
    let process = |path: &str| Process {
        place: Place::of([path.as_bytes()]),
        cgroups: vec![path.as_bytes().to_vec().into()],
        ..Process::default()
    };
    let users = "/user.slice/user-1000.slice/user@1000.service/lxc.payload.web/x";
    let with = |path: &str, names| Process { names: Some(names), ..process(path) };
    let team = || ContainerNames {
        image: Some("a".into()),
        labels: [("team".into(), "red".into())].into(),
        ..ContainerNames::default()
    };
    assert_eq!(account(&set, &process("/lxc.payload.web/x")).as_deref(), Some("web"));
    assert_eq!(account(&set, &with("/lxc.payload.x", team())).as_deref(), Some("team red"));
    assert_eq!(account(&set, &process("/lxc.payload.x")).as_deref(), Some("any"));
    assert_eq!(account(&set, &process(users)).as_deref(), Some("1000"));
    assert_eq!(account(&set, &with(users, team())).as_deref(), Some("1000"));
    // What runs in none falls under neither, also as a journal has it: names of which none is known.
    let unit = "/system.slice/a.service";
    assert_eq!(account(&set, &with(unit, ContainerNames::default())), None);
    // The explanation says why, and counts what is written.
    let why = process(users).see(|subject| set.explain(subject));
    let of = |rule| why.failed.iter().find(|one| one.rule.0 == rule).unwrap();
    assert_eq!((of(1).key.as_str(), of(1).wants.as_str()), ("container_of", "\"system\""));
    assert_eq!(
        (of(1).holds, of(1).conditions, of(1).seen.as_slice()),
        (1, 2, ["user@1000".to_owned()].as_slice())
    );
    let held =
        process("/lxc.payload.web").see(|subject| set.explain(subject)).matched.unwrap().held;
    assert_eq!(held.iter().map(|one| one.key.as_str()).collect::<Vec<_>>(), ["container"]);
}

/// What a capture takes stands in the account, and that is in every file and on every page.
#[test]
fn no_capture_takes_more_than_is_stored() {
    const SECRET: &str = "hf_QQcdefghijKLMNOPQRSTuvwxyz01234567";
    let names = || {
        let some = || Some(SECRET.into());
        ContainerNames {
            name: some(),
            image: Some(format!("https://u:QQpassw0rd@reg/{SECRET}").into()),
            compose_project: some(),
            compose_service: some(),
            pod: some(),
            namespace: some(),
            labels: [
                ("auth".into(), SECRET.into()),
                ("b".into(), format!("password={SECRET}").into()),
            ]
            .into(),
        }
    };
    let keys = [
        "container",
        "image",
        "compose_project",
        "compose_service",
        "pod",
        "namespace",
        "labels.auth",
        "labels.b",
        "user",
    ];
    for key in keys {
        let set = rules(&format!(
            "[[rule]]\naccount = \"team ${{t}}\"\n{key} = {{ regex = '(?P<t>.*)' }}\n"
        ));
        let users = crate::attribution::Users { real: Some(SECRET.into()), ..Default::default() };
        let process = Process { users, ..named(names()) };
        let told = account(&set, &process).unwrap();
        assert!(told.contains("[redacted]") && !told.contains("QQ"), "{key}: {told}");
        let stored = account(&set, &named(names().safe()));
        assert!(key == "user" || stored.as_deref() == Some(told.as_str()), "{key}: {stored:?}");
        let why = format!("{:?}", process.see(|subject| set.explain(subject)));
        assert!(!why.contains("QQ"), "{key}: {why}");
    }
    // A digest and an id are none, and rules on them hold.
    let digest =
        "reg.example/a@sha256:2403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303d";
    let set = rules(&format!("[[rule]]\naccount = \"a\"\nimage = \"{digest}\"\n"));
    let pinned = ContainerNames { image: Some(digest.into()), ..ContainerNames::default() };
    assert_eq!(account(&set, &named(pinned)).as_deref(), Some("a"));
}
