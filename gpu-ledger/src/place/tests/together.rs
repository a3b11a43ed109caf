//! Several paths of one process.

use crate::naming::Question;
use crate::place::{Place, Qos, Runtime, Scheduler};

const A: &str = "2403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303d";
const B: &str = "93529524695bb00d91c1f6dba692ea8d3550c3b94fb2463af7bc9ec82f992d26";

fn of(paths: &[&str]) -> Place {
    Place::of(paths.iter().map(|path| path.as_bytes()))
}

/// Both orders, where it must not matter which hierarchy came first.
fn of_both(one: &str, other: &str) -> Place {
    let place = of(&[one, other]);
    assert_eq!(place, of(&[other, one]), "{one}\n{other}");
    place
}

fn container(place: &Place) -> (&str, Option<Runtime>) {
    let container = place.container.as_ref().unwrap();
    (&container.id, container.runtime)
}

#[test]
fn nothing_says_nothing() {
    assert_eq!(of(&[]), Place::default());
    assert_eq!(of(&["/", "", "relative", "/../x/../docker", "//"]), Place::default());
}

/// Whoever has a manager or a container of their own may make groups of any name below it.
#[test]
fn what_a_user_can_make_is_no_job_and_no_pod() {
    let user = "/user.slice/user-1000.slice/user@1000.service";
    for below in [
        "slurm/uid_1000/job_4242/step_0",
        "system.slice/slurmstepd.scope/job_4711/step_0/user/task_0",
        "kubepods/besteffort/pod99999999-2222-3333-4444-555566667777",
    ] {
        let place = of(&[&format!("{user}/{below}")]);
        assert_eq!((&place.job, &place.pod), (&None, &None), "{below}");
        assert_eq!(place.unit.as_deref(), Some("user@1000.service"), "{below}");
        assert!(of(&[&format!("/{below}")]) != Place::default(), "{below}");
    }
    let place = of(&[&format!("/docker/{A}/system.slice/slurmstepd.scope/job_4711/step_0")]);
    assert_eq!((container(&place).0, &place.job), (A, &None));
    // A rootless container is its user's, and what its kubelet makes in it are pods.
    let pod = "kubelet/kubepods/besteffort/pod99999999-2222-3333-4444-555566667777";
    let place = of(&[&format!("{user}/user.slice/docker-{A}.scope/{pod}")]);
    assert!(place.pod.is_some() && place.owner_uid == Some(1_000), "{place:?}");
}

/// What is told of a user's own says whose it is, and what only the system's runtimes make is none of it.
#[test]
fn what_a_user_can_make_is_no_container_of_the_system() {
    let manager = "/user.slice/user-1000.slice/user@1000.service";
    let session = "/user.slice/user-1000.slice/session-3.scope";
    for root in [manager, session] {
        for below in [
            format!("docker/{A}"),
            format!("k8s.io/{A}"),
            "lxc/web".to_owned(),
            format!("ecs/{A}/{B}"),
            "mesos/34dc0b5e-626f-2c5c-4c51-70e34b10e765".to_owned(),
            "nomad.slice/bcd3b184-b67f-f790-ed6f-1c2cbb4a55e8.sleep.scope".to_owned(),
            "machine.slice/machine-web.scope".to_owned(),
            "systemd-nspawn@web.service".to_owned(),
            format!("crio-{A}.scope"),
            format!("system.slice:docker:{A}"),
            format!("kubepods/besteffort/pod99999999-2222-3333-4444-555566667777/{A}"),
        ] {
            let place = of(&[&format!("{root}/{below}")]);
            let inner = (&place.container, &place.pod, &place.job, place.inner_owner_uid);
            assert_eq!(inner, (&None, &None, &None, None), "{root}/{below}");
        }
        for (below, id) in [
            ("lxc.payload.web/x".to_owned(), "web"),
            (format!("user.slice/docker-{A}.scope"), A),
            (format!("app.slice/libpod-{A}.scope/container"), A),
            (format!("app.slice/web.service/libpod-payload-{A}"), A),
            (format!("app.slice/nerdctl-{A}.scope"), A),
        ] {
            let place = of(&[&format!("{root}/{below}")]);
            assert_eq!(container(&place).0, id, "{root}/{below}");
            assert_eq!(place.inner_owner().as_deref(), Some("user@1000"), "{root}/{below}");
        }
        let below = of(&[&format!("{root}/user.slice/docker-{B}.scope/docker/{A}")]);
        let owner = format!("docker {B} of user@1000");
        assert_eq!((container(&below).0, below.inner_owner().as_deref()), (A, Some(&*owner)));
    }
    // Neither of one that is the system's, nor in a container that has users of its own.
    assert_eq!(of(&["/lxc.payload.web"]).inner_owner(), None);
    let inside = format!("/lxc/php{manager}/docker/{A}");
    assert_eq!(container(&of(&[&inside])).0, A);
    assert_eq!(of(&[&inside]).inner_owner().as_deref(), Some("lxc php"));
}

#[test]
fn what_root_of_a_container_calls_a_group_is_not_the_hosts_container_of_that_name() {
    let docker = format!("docker-{A}.scope");
    let in_docker = format!("docker {B}");
    for (path, owner) in [
        (format!("/system.slice/{docker}"), None),
        (format!("/lxc/107/ns/system.slice/{docker}"), Some("lxc 107")),
        (format!("/lxc.payload.web/lxc.payload.db/{docker}"), Some("lxc web")),
        (format!("/machine.slice/systemd-nspawn@db.service/payload/{docker}"), Some("nspawn db")),
        (
            format!("/user.slice/user-1000.slice/user@1000.service/lxc.payload.web/{docker}"),
            Some("lxc web of user@1000"),
        ),
        (format!("/docker/{B}/docker/{A}"), Some(&*in_docker)),
        (
            format!("/docker/{B}/kubepods/besteffort/pod99999999-2222-3333-4444-555566667777/{A}"),
            Some(&*in_docker),
        ),
    ] {
        let place = of(&[&path]);
        assert_eq!((container(&place).0, place.inner_owner().as_deref()), (A, owner), "{path}");
        assert_eq!(Question::about(&place).is_none(), place.within.is_some(), "{path}");
    }
    let pod = of(&["/lxc.payload.k/kubepods/besteffort/pod99999999-2222-3333-4444-555566667777"]);
    assert_eq!(pod.inner_owner().as_deref(), Some("lxc k"));
    assert_eq!(of(&["/lxc.payload.web/lxc.payload.db"]).inner_owner().as_deref(), Some("lxc web"));
}

#[test]
fn whoever_is_given_a_group_of_a_unit_or_a_login_makes_no_job_pod_or_container_of_the_hosts() {
    let pod = format!("kubepods/besteffort/pod99999999-2222-3333-4444-555566667777/{A}");
    for root in
        ["/system.slice/foo.service", "/user/jane/0", "/user/1000.user/3.session", "/init.scope"]
    {
        for below in [
            format!("docker/{A}"),
            format!("docker-{A}.scope"),
            pod.clone(),
            "slurm/uid_0/job_4711/step_0".to_owned(),
            "node1_slurmstepd.scope/job_4711/step_0".to_owned(),
            "pbs_jobs.service/jobid/12.srv".to_owned(),
            "lsf/cl/job.5.1.1".to_owned(),
            "lxc.payload.victim".to_owned(),
        ] {
            let place = of(&[&format!("{root}/{below}")]);
            assert_eq!(
                (&place.container, &place.pod, &place.job),
                (&None, &None, &None),
                "{root}/{below}"
            );
        }
    }
    // What Podman runs in the group of its unit is its own, whatever is below it.
    let payload = of(&[&format!("/system.slice/web.service/libpod-payload-{A}")]);
    assert_eq!((container(&payload).0, payload.inner_owner()), (A, None));
    let below = of(&[&format!("/system.slice/web.service/libpod-payload-{A}/docker/{B}")]);
    assert_eq!(below.inner_owner().as_deref(), Some(&*format!("podman {A}")));
    // A job's own processes start no other job.
    let job = of(&["/slurm/uid_0/job_99/step_0/task_0/slurm/uid_0/job_4711/step_0"]);
    assert_eq!(job.job.unwrap().id.as_deref(), Some("99"));
    // What a user calls a group of their session is no service of the system.
    let session = of(&["/user.slice/user-1000.slice/session-3.scope/ollama.service"]);
    assert_eq!(session.user_manager().as_deref(), Some("user@1000"));
}

#[test]
fn on_a_hybrid_host_v1_names_the_container_and_v2_the_daemon() {
    // ctrsploit/ctrsploit#280: both lines are of one process.
    let place = of_both("/system.slice/containerd.service", &format!("/docker/{A}"));
    assert_eq!(container(&place), (A, Some(Runtime::Docker)));
    assert_eq!(place.unit.as_deref(), Some("containerd.service"));
    assert_eq!(place.service(), None, "the daemon is not the service");
}

#[test]
fn a_pod_of_kind_is_not_lost_to_the_node_that_v2_tells() {
    // spire, testdata/cgroups_pid_in_kind_pod.txt: both lines are of one process.
    let pod = "poda2830d0d-b0f0-4ff0-81b5-0ee4e299cf80";
    let v1 = format!("/docker/{B}/kubepods/besteffort/{pod}/{A}");
    let place = of_both(&v1, &format!("/docker/{B}/system.slice/containerd.service"));
    assert_eq!(container(&place), (A, None));
    let read = place.pod.unwrap();
    assert_eq!((read.uid.as_ref(), read.qos), (&pod[3..], Some(Qos::BestEffort)));
    // Of the pod's own group it is the pod alone: the node is no container of its.
    let level = of_both(&v1[..v1.len() - A.len() - 1], &format!("/docker/{B}/init.scope"));
    assert!(level.container.is_none() && level.pod.is_some());
}

#[test]
fn a_colon_group_is_the_same_at_the_root_and_below_the_daemon() {
    let group = format!(
        "kubepods-besteffort-pod214f3ba8_4b69_4bdb_a7d5_5ecc73f04ae9.slice:cri-containerd:{A}"
    );
    let place = of_both(&format!("/{group}"), &format!("/system.slice/containerd.service/{group}"));
    assert_eq!(container(&place), (A, Some(Runtime::Containerd)));
    assert_eq!(place.pod.unwrap().uid.as_ref(), "214f3ba8-4b69-4bdb-a7d5-5ecc73f04ae9");
    assert_eq!(place.unit.as_deref(), Some("containerd.service"));
}

#[test]
fn a_user_unit_is_seen_in_v2_alone() {
    let manager = "/user.slice/user-1000.slice/user@1000.service";
    let place = of_both(manager, &format!("{manager}/app.slice/comfyui.service"));
    assert_eq!(place.user_unit.as_deref(), Some("comfyui.service"));
    assert_eq!((place.owner_uid, place.service().as_deref()), (Some(1000), Some("comfyui")));
}

#[test]
fn a_job_of_v1_is_not_lost_to_the_daemon_of_v2() {
    let place = of_both("/slurm/uid_1000/job_123/step_0/task_1", "/system.slice/slurmd.service");
    let job = place.job.unwrap();
    assert_eq!(job.scheduler, Scheduler::Slurm);
    assert_eq!((job.id.as_deref(), job.task.as_deref()), (Some("123"), Some("1")));
    // A hierarchy in which Slurm makes no tasks tells less.
    let place = of_both("/slurm/uid_1/job_9/step_0", "/slurm/uid_1/job_9/step_0/task_0");
    assert_eq!(place.job.unwrap().task.as_deref(), Some("0"));
}

#[test]
fn who_is_moved_after_its_fork_is_where_it_came_to() {
    // A manager forks in its own group, and moves the child before it execs.
    let moved = of(&["/init.scope", "/system.slice/ollama.service"]);
    assert_eq!(moved.unit.as_deref(), Some("ollama.service"));
    let manager = "/user.slice/user-7.slice/user@7.service";
    let (own, app) = (format!("{manager}/init.scope"), format!("{manager}/app.slice/a.service"));
    assert_eq!(of(&[&own, &app]).user_unit.as_deref(), Some("a.service"));
    // The later of two containers, with nothing of the earlier.
    let pod = "/kubepods.slice/kubepods-pod2d51509a_fcf0_41cc_b535_57cfeeaf73d1.slice";
    let (first, second) =
        (format!("/machine.slice/libpod-{A}.scope"), format!("/machine.slice/libpod-{B}.scope"));
    assert_eq!(container(&of(&[&first, &second])).0, B);
    assert_eq!(container(&of(&[&second, &first])).0, A);
    let (of_pod, other) =
        (format!("{pod}/crio-{A}.scope"), format!("/system.slice/docker-{B}.scope"));
    let place = of(&[&other, &of_pod]);
    assert_eq!((container(&place).0, place.pod.is_some()), (A, true));
    assert_eq!(container(&of(&[&of_pod, &other])).0, A, "which pod it is tells more");
}

#[test]
fn an_inner_container_wins_over_the_one_it_runs_in() {
    let place = of_both(&format!("/docker/{A}/docker/{B}"), &format!("/docker/{A}/init"));
    assert_eq!(container(&place).0, B);
}

#[test]
fn a_longer_path_than_the_kernel_has_says_nothing() {
    let tail = "/x".repeat(crate::place::PATH_BYTES_MAX);
    let long = format!("/system.slice/a.service{tail}");
    assert_eq!(of(&[&long]), Place::default());
    let whole = &long[..crate::place::PATH_BYTES_MAX];
    assert_eq!(of(&[whole]).unit.as_deref(), Some("a.service"));
}
