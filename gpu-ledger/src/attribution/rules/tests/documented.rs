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
