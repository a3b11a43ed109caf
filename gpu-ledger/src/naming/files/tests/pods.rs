//! Labels of pods, which their sandboxes have: with CRI-O, and with Docker under the kubelet.

use super::*;

/// As cri-dockerd (00d31bf, `core/container_create.go` and `core/sandbox_helpers.go`) has Docker write it.
#[test]
fn docker_tells_the_kubelets_names() {
    let config = |id: &str, name: &str, labels: &str| {
        format!(
            r#"{{"ID":"{id}","Name":"/{name}","Config":{{"Image":"sha256:0f","Env":["TOKEN=secret"],
            "Labels":{{{labels},"io.kubernetes.pod.name":"train-0","io.kubernetes.pod.namespace":"research"}}}}}}"#
        )
    };
    let own = |sandbox: &str| {
        format!(
            r#""io.kubernetes.container.name":"trainer","io.kubernetes.docker.type":"container","app":"of-the-image",
            "annotation.io.kubernetes.container.hash":"5f","io.kubernetes.sandbox.id":"{sandbox}""#
        )
    };
    let pods = r#""io.kubernetes.container.name":"POD","io.kubernetes.docker.type":"podsandbox","app":"train",
        "team":"red","annotation.example.com/long":"text""#;
    for below in ["", "165536.165536/"] {
        let file = |id| format!("/var/lib/docker/{below}containers/{id}/config.v2.json");
        let tree = Tree::new()
            .write(&file(ID), &config(ID, "k8s_trainer_train-0_research_u_0", &own(OTHER)))
            .write(&file(OTHER), &config(OTHER, "k8s_POD_train-0_research_u_0", pods));
        let names = tree.names(&format!("docker {ID}"));
        assert_eq!(words(&names), ["trainer", "sha256:0f", "-", "-", "train-0", "research"]);
        // What the pod says goes before what its image says.
        assert_eq!((label(&names, "app"), label(&names, "team")), (Some("train"), Some("red")));
        assert_eq!(label(&names, "io.kubernetes.docker.type"), Some("container"));
        assert!(names.labels.keys().all(|key| !key.starts_with("annotation.")), "{names:?}");
        assert!(!format!("{names:?}").contains("secret"));
        // Whatever is said to be a sandbox leads out of nowhere.
        for sandbox in ["", "../../../../etc", &"0".repeat(64)] {
            let tree = Tree::new().write(&file(ID), &config(ID, "k8s_trainer", &own(sandbox)));
            let names = tree.names(&format!("docker {ID}"));
            assert_eq!(label(&names, "team"), None, "{sandbox}");
        }
    }
}

/// A container's configuration names its sandbox, whose own has the pod's labels (cri-o 0002c7a,
/// `internal/lib/container_server.go`, `LoadSandbox` and `LoadContainer`).
#[test]
fn crio_tells_the_labels_of_a_containers_pod() {
    let own =
        r#"{\"io.kubernetes.container.name\":\"trainer\",\"io.kubernetes.pod.name\":\"train-0\"}"#;
    let container = |sandbox: &str| {
        oci_config(&format!(
            r#"{{"io.kubernetes.container.name":"trainer","io.kubernetes.pod.name":"train-0",
            "io.kubernetes.pod.namespace":"research","io.kubernetes.cri-o.SandboxID":"{sandbox}",
            "io.kubernetes.cri-o.ImageName":"quay.example/train:7","io.kubernetes.cri-o.Labels":"{own}"}}"#
        ))
    };
    let pods = r#"{\"io.kubernetes.container.name\":\"POD\",\"io.kubernetes.pod.name\":\"train-0\",
        \"team\":\"red\"}"#
        .replace('\n', " ");
    let sandbox = oci_config(&format!(
        r#"{{"io.kubernetes.cri-o.ContainerType":"sandbox","io.kubernetes.cri-o.SandboxID":"{OTHER}",
        "io.kubernetes.cri-o.Labels":"{pods}"}}"#
    ));
    for store in ["/run/containers/storage", "/var/lib/containers/storage"] {
        let file = |id| format!("{store}/overlay-containers/{id}/userdata/config.json");
        let tree = Tree::new().write(&file(ID), &container(OTHER)).write(&file(OTHER), &sandbox);
        let names = tree.names(&format!("cri-o {ID}"));
        let told = ["trainer", "quay.example/train:7", "-", "-", "train-0", "research"];
        assert_eq!((words(&names), names.labels.len()), (told, 3));
        assert_eq!(label(&names, "team"), Some("red"));
        assert_eq!(label(&names, "io.kubernetes.container.name"), Some("trainer"));
        assert_eq!(label(&tree.names(&format!("any {OTHER}")), "team"), Some("red"));
        for sandbox in ["", "../x", &"0".repeat(64)] {
            let tree = Tree::new().write(&file(ID), &container(sandbox));
            assert_eq!(words(&tree.names(&format!("cri-o {ID}"))), told, "{sandbox}");
        }
    }
}
