//! Made trees, with what real runtimes wrote where one could be had (Docker 20.10.24, containerd 1.6.20, Podman
//! 4.3.1), and with what their sources say that they write.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt as _, symlink};

use super::*;

mod containerd;
mod made_bolt;
mod podman;
mod pods;

const ID: &str = "9a31de5509752cdfd67ecce37e15d1b8d84a1979b09d6cf56cf84615c8d585de";
const OTHER: &str = "eaa8a02f0a4dfc85246cf72864f3e454889cc3208b35ffb84449a2416420979b";

/// A root with files.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below.trim_start_matches('/'))
    }

    fn write(self, below: &str, text: &str) -> Self {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn asked(&self, line: &str) -> Result<Option<ContainerNames>, FilesError> {
        let question = Question::parse(line).unwrap();
        Files::below(self.0.path()).names_of(&question, |_| Some(PathBuf::from("/home/ann")))
    }

    fn names(&self, line: &str) -> ContainerNames {
        self.asked(line).unwrap().unwrap_or_else(|| panic!("{line}: nothing is told"))
    }

    /// Whoever runs the tests made the files, and is as good a user as any.
    fn owner(&self) -> u32 {
        // Root's own containers are the system's.
        std::fs::metadata(self.0.path()).unwrap().uid()
    }
}

/// Name, image, project, service, pod, namespace.
fn words(names: &ContainerNames) -> [&str; 6] {
    let ContainerNames { name, image, compose_project, compose_service, pod, namespace, .. } =
        names;
    [name, image, compose_project, compose_service, pod, namespace]
        .map(|word| word.as_deref().unwrap_or("-"))
}

fn label<'a>(names: &'a ContainerNames, key: &str) -> Option<&'a str> {
    names.labels.get(key).map(AsRef::as_ref)
}

/// As Docker 20.10.24 wrote it, without what nobody reads here.
fn docker_config(name: &str) -> String {
    format!(
        r#"{{"StreamConfig":{{}},"State":{{"Running":true}},"ID":"{ID}","Created":"2026-11-30T15:43:02Z","Managed":false,
        "Path":"/s","Args":[],"Config":{{"Hostname":"9a31de550975","Env":["TOKEN=secret"],"Cmd":["/s"],"Image":"team/demo:1.0",
        "Volumes":null,"Labels":{{"com.docker.compose.project":"shop","com.docker.compose.service":"web","empty":""}}}},
        "Image":"sha256:55b344091fabb0fe6bb198c85570e980327b336c996a288611eb717ba67af5dd","Name":"/{name}","RestartCount":0}}"#
    )
}

#[test]
fn docker_tells_name_image_and_compose() {
    let below = format!("/var/lib/docker/containers/{ID}/config.v2.json");
    let tree = Tree::new().write(&below, &docker_config("web1"));
    let names = tree.names(&format!("docker {ID}"));
    assert_eq!(words(&names), ["web1", "team/demo:1.0", "shop", "web", "-", "-"]);
    assert_eq!((names.labels.len(), label(&names, "empty")), (3, Some("")));
    assert!(!format!("{names:?}").contains("secret"));
    assert_eq!(words(&tree.names(&format!("any {ID}"))), words(&names));
    // Whoever runs something else has no such container.
    for line in [format!("docker {OTHER}"), format!("podman {ID}"), format!("containerd {ID}")] {
        assert!(tree.asked(&line).unwrap().is_none(), "{line}");
    }
}

#[test]
fn docker_is_found_where_it_is_configured_to_be_and_where_users_are_remapped() {
    let elsewhere = format!("/data/docker/containers/{ID}/config.v2.json");
    for key in ["data-root", "graph"] {
        let tree = Tree::new()
            .write("/etc/docker/daemon.json", &format!(r#"{{"{key}":"/data/docker"}}"#))
            .write(&elsewhere, &docker_config("web2"));
        assert_eq!(words(&tree.names(&format!("docker {ID}")))[0], "web2");
    }
    let remapped = format!("/var/lib/docker/165536.165536/containers/{ID}/config.v2.json");
    let tree = Tree::new()
        .write("/etc/docker/daemon.json", "{}")
        .write("/var/lib/docker/volumes/a.b/x", "")
        .write(&remapped, &docker_config("web3"));
    assert_eq!(words(&tree.names(&format!("docker {ID}")))[0], "web3");
    // The administrator's links are followed.
    symlink("../../data/docker", tree.path("/var/lib/linked")).unwrap();
    std::fs::rename(tree.path("/var/lib/docker"), tree.path("/data")).unwrap();
    std::fs::create_dir(tree.path("/data2")).unwrap();
    std::fs::rename(tree.path("/data"), tree.path("/data2/docker")).unwrap();
    symlink("../../data2/docker", tree.path("/var/lib/docker")).unwrap();
    assert_eq!(words(&tree.names(&format!("docker {ID}")))[0], "web3");
}

/// What containerd 1.6.20 wrote for `ctr run`, and the kubelet's and nerdctl's annotations.
fn oci_config(annotations: &str) -> String {
    format!(
        r#"{{"ociVersion":"1.0.2-dev","process":{{"args":["/s"],"env":["TOKEN=secret"]}},"root":{{"path":"rootfs"}},
        "annotations":{annotations},"linux":{{"cgroupsPath":"/default/x"}}}}"#
    )
}

#[test]
fn containerd_tells_the_kubelets_names() {
    let kubelet = oci_config(&format!(
        r#"{{"io.kubernetes.cri.container-name":"trainer","io.kubernetes.cri.container-type":"container",
        "io.kubernetes.cri.image-name":"registry.example/ml/train:7","io.kubernetes.cri.sandbox-id":"{OTHER}",
        "io.kubernetes.cri.sandbox-name":"train-0","io.kubernetes.cri.sandbox-namespace":"research",
        "io.kubernetes.cri.sandbox-uid":"de7c6a0c-79c0-44dc-a099-69bb39f180af","team":"red"}}"#
    ));
    for root in ["/run/containerd", "/run/k3s/containerd"] {
        let tasks = format!("{root}/io.containerd.runtime.v2.task");
        let tree = Tree::new()
            .write(&format!("{tasks}/moby/{OTHER}/config.json"), &oci_config("{}"))
            .write(&format!("{tasks}/k8s.io/{ID}/config.json"), &kubelet);
        // A kubelet on cgroupfs has groups that do not tell the runtime.
        for runtime in ["containerd", "any"] {
            let names = tree.names(&format!("{runtime} {ID}"));
            let image = "registry.example/ml/train:7";
            assert_eq!(words(&names), ["trainer", image, "-", "-", "train-0", "research"]);
            assert_eq!((names.labels.len(), label(&names, "team")), (1, Some("red")));
        }
    }
}

#[test]
fn containerd_tells_the_names_of_nerdctl_and_ctr() {
    let tasks = "/run/containerd/io.containerd.runtime.v2.task";
    let nerdctl = oci_config(
        r#"{"nerdctl/name":"runcdev","nerdctl/namespace":"default","nerdctl/platform":"linux/amd64",
        "com.docker.compose.project":"lab","com.docker.compose.service":"db"}"#,
    );
    let tree = Tree::new()
        .write(&format!("{tasks}/default/{ID}/config.json"), &nerdctl)
        .write(&format!("{tasks}/plain/my-ctr/config.json"), &oci_config("null"))
        .write(&format!("{tasks}/plain/{OTHER}/config.json"), r#"{"ociVersion":"1"}"#);
    let names = tree.names(&format!("containerd {ID}"));
    assert_eq!(words(&names), ["runcdev", "-", "lab", "db", "-", "-"]);
    assert!(names.labels.keys().all(|key| !key.starts_with("nerdctl")));
    assert_eq!(words(&tree.names("containerd my-ctr"))[0], "my-ctr");
    // Nothing is told there, which is no name.
    assert!(tree.asked(&format!("containerd {OTHER}")).unwrap().is_none());
    // Docker's own containers are containerd's too, and Docker knows more of them.
    let docker = oci_config(r#"{"com.example":"x"}"#);
    let tree = Tree::new()
        .write(&format!("{tasks}/moby/{ID}/config.json"), &docker)
        .write(&format!("/var/lib/docker/containers/{ID}/config.v2.json"), &docker_config("web1"));
    assert_eq!(words(&tree.names(&format!("any {ID}")))[0], "web1");
    assert!(tree.asked(&format!("containerd {ID}")).unwrap().is_none());
}

#[test]
fn crio_tells_the_kubelets_names() {
    let labels = r#"{\"io.kubernetes.container.name\":\"trainer\",\"io.kubernetes.pod.name\":\"train-0\",\"team\":\"red\"}"#;
    let config = |image_name: &str| {
        oci_config(&format!(
            r#"{{"io.kubernetes.container.name":"trainer","io.kubernetes.pod.name":"train-0",
            "io.kubernetes.pod.namespace":"research","io.kubernetes.cri-o.Name":"k8s_trainer_train-0_research_u_0",
            "io.kubernetes.cri-o.ImageName":"{image_name}","io.kubernetes.cri-o.Image":"quay.example/train@sha256:0f",
            "io.kubernetes.cri-o.Labels":"{labels}","io.container.manager":"cri-o"}}"#
        ))
    };
    for store in ["/run/containers/storage", "/var/lib/containers/storage"] {
        let below = format!("{store}/overlay-containers/{ID}/userdata/config.json");
        let tree = Tree::new().write(&below, &config("quay.example/train:7"));
        let names = tree.names(&format!("cri-o {ID}"));
        assert_eq!(
            words(&names),
            ["trainer", "quay.example/train:7", "-", "-", "train-0", "research"]
        );
        assert_eq!(label(&names, "team"), Some("red"));
        let unnamed = tree.write(&below, &config(""));
        assert_eq!(words(&unnamed.names(&format!("any {ID}")))[1], "quay.example/train@sha256:0f");
    }
}

/// What a user wrote: that user's alone is looked at, and only plain files of theirs.
#[test]
fn a_users_containers_are_looked_for_in_that_users_home_alone() {
    let docker = format!(".local/share/docker/containers/{ID}/config.v2.json");
    let tree = Tree::new().write(&format!("/home/ann/{docker}"), &docker_config("anns"));
    let owner = tree.owner();
    let podman = tree.path("/home/ann/.local/share/containers/storage/db.sql");
    let database = podman::made(&podman);
    podman::add(&database, OTHER, "anns-too", "");
    let system = format!("/var/lib/docker/containers/{OTHER}/config.v2.json");
    let tree = tree.write(&system, &docker_config("the-systems"));
    if owner == 0 {
        // Files of root's are no user's.
        let error = tree.asked(&format!("docker {ID} 1000")).unwrap_err().to_string();
        assert!(error.contains("another than the container's owner"), "{error}");
        for below in ["home/ann", "home/ann/.local/share/containers/storage"] {
            own_all(&tree.path(below));
        }
    }
    let owner = if owner == 0 { 1_000 } else { owner };
    assert_eq!(words(&tree.names(&format!("docker {ID} {owner}")))[0], "anns");
    assert_eq!(words(&tree.names(&format!("podman {OTHER} {owner}")))[0], "anns-too");
    // A group with somebody else's id does not go by their name.
    assert!(tree.asked(&format!("docker {OTHER} {owner}")).unwrap().is_none());
    assert!(tree.asked(&format!("docker {ID}")).unwrap().is_none());
    let nobody = Question::parse(&format!("any {ID} {owner}")).unwrap();
    assert!(Files::below(tree.0.path()).names_of(&nobody, |_| None).unwrap().is_none());
}

/// Gives everything below to a user.
fn own_all(path: &Path) {
    std::os::unix::fs::lchown(path, Some(1_000), Some(1_000)).unwrap();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            own_all(&entry.unwrap().path());
        }
    }
}

#[test]
fn no_link_pipe_or_endless_file_of_a_users_is_read() {
    let config = format!(".local/share/docker/containers/{ID}/config.v2.json");
    let tree = Tree::new()
        .write("/secret/config.v2.json", &docker_config("secret"))
        .write(&format!("/home/ann/{config}"), &docker_config("anns"));
    let file = tree.path(&format!("/home/ann/{config}"));
    let folder = file.parent().unwrap().to_path_buf();
    let owner = tree.owner();
    let uid = if owner == 0 { 1_000 } else { owner };
    let ask = || {
        if owner == 0 {
            own_all(&tree.path("/home/ann"));
        }
        tree.asked(&format!("docker {ID} {uid}"))
    };
    let refused = |why: &str| {
        let error = ask().unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
    };
    assert!(ask().unwrap().is_some());
    // The last part of the path is a link, …
    std::fs::remove_file(&file).unwrap();
    symlink(tree.path("/secret/config.v2.json"), &file).unwrap();
    refused("a link leads there");
    // … then one before it, …
    std::fs::remove_dir_all(&folder).unwrap();
    symlink(tree.path("/secret"), &folder).unwrap();
    refused("a link leads there");
    std::fs::remove_file(&folder).unwrap();
    std::fs::create_dir(&folder).unwrap();
    // … a folder, a pipe that nobody writes to, …
    std::fs::create_dir(&file).unwrap();
    refused("no plain file");
    std::fs::remove_dir(&file).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    refused("no plain file");
    std::fs::remove_file(&file).unwrap();
    // … and a file without end.
    std::fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
    refused("larger than");
}

#[test]
fn what_is_not_of_a_runtimes_form_is_told_without_what_stands_in_it() {
    let below = format!("/var/lib/docker/containers/{ID}/config.v2.json");
    let deep = "[".repeat(100_000);
    for text in ["", "{", "[\"secret\"]", r#"{"Name":["secret"]}"#, r#"{"Config":"secret"}"#, &deep]
    {
        let tree = Tree::new().write(&below, text);
        let error = tree.asked(&format!("docker {ID}")).unwrap_err().to_string();
        assert!(error.ends_with("does not have the form that its runtime gives it"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    // One runtime's broken file hides no other's names.
    let tasks = format!("/run/containerd/io.containerd.runtime.v2.task/default/{ID}/config.json");
    let tree = Tree::new().write(&below, "{").write(&tasks, &oci_config(r#"{"nerdctl/name":"n"}"#));
    assert_eq!(words(&tree.names(&format!("any {ID}")))[0], "n");
}

#[test]
fn a_name_that_a_group_bears_is_looked_up_nowhere() {
    for runtime in ["lxc", "nspawn", "nomad"] {
        let names = Tree::new().names(&format!("{runtime} web-1"));
        assert_eq!(words(&names), ["web-1", "-", "-", "-", "-", "-"]);
    }
    // No file at all: nothing is told, and nothing is wrong.
    for runtime in ["docker", "podman", "containerd", "cri-o", "any"] {
        assert!(Tree::new().asked(&format!("{runtime} {ID}")).unwrap().is_none());
    }
}

/// What lies where one container's things do, and says that it is another's: nobody is called by that.
#[test]
fn what_says_that_it_is_anothers_names_nobody() {
    let docker = format!("/var/lib/docker/containers/{OTHER}/config.v2.json");
    let tree = Tree::new().write(&docker, &docker_config("web1"));
    let crio = |id: &str| {
        let annotations = format!(
            r#"{{"io.kubernetes.container.name":"trainer","io.kubernetes.cri-o.ContainerID":"{id}"}}"#
        );
        let below =
            format!("/run/containers/storage/overlay-containers/{OTHER}/userdata/config.json");
        Tree::new().write(&below, &oci_config(&annotations))
    };
    let database = "/var/lib/containers/storage/db.sql";
    let podman = Tree::new();
    let made = podman::made(&podman.path(database));
    podman::add(&made, ID, "web1", "");
    made.execute("UPDATE ContainerConfig SET Id = ?1", [OTHER]).unwrap();
    for (runtime, tree) in [("docker", tree), ("cri-o", crio(ID)), ("podman", podman)] {
        for question in [format!("{runtime} {OTHER}"), format!("any {OTHER}"), format!("any {ID}")]
        {
            assert!(tree.asked(&question).unwrap().is_none(), "{question}");
        }
    }
    assert_eq!(words(&crio(OTHER).names(&format!("cri-o {OTHER}")))[0], "trainer");
}
