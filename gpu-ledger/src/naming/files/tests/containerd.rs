//! containerd's database: as real ones were, as they could be, and as none should be.

use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::made_bolt::{self, Keys, Made, Pages, any, bytes, keys, meta};
use super::*;

const DATABASE: &str = "io.containerd.metadata.v1.bolt/meta.db";
const ROOT: &str = "/var/lib/containerd";

fn path(tree: &Tree, root: &str) -> PathBuf {
    tree.path(&format!("{root}/{DATABASE}"))
}

fn holding(root: &str, content: &[u8]) -> Tree {
    let tree = Tree::new();
    made_bolt::write(&path(&tree, root), content);
    tree
}

/// Looked at with containerd 1.6.20 (Debian 12), 1.7.24 (Debian 13) and 2.1.9 (Debian sid) while they ran and wrote:
/// a pod as the kubelet asks for one over the CRI, with a container that runs and one that has ended, and a
/// container of `ctr run --label team=red`.
struct Real {
    version: &'static str,
    pages: &'static str,
    sandbox: &'static str,
    running: &'static str,
    ended: &'static str,
    /// Told by a kubelet that says what the pod calls its image, to a containerd that understands it.
    image: &'static str,
    ctr: &'static str,
}

const REAL: [Real; 2] = [
    Real {
        version: "1.6.20",
        pages: include_str!("../../../../../tests/data/containerd/1.6.20.pages"),
        sandbox: "41afd4da4977f679533048a0771b7b1fd7da91fd8ca0a4d1023bbb2e289e3398",
        running: "3453ef37e6675f6b7464f564fd59dc250c78fff1816d930f60911f598f1e6b33",
        ended: "09e37f53913e3b90deabfc69403c7085e045ab8f5b4c8be3b2ce076574a2b601",
        image: "docker.io/team/demo:1.0",
        ctr: "my-ctr2",
    },
    Real {
        version: "2.1.9",
        pages: include_str!("../../../../../tests/data/containerd/2.1.9.pages"),
        sandbox: "0320fcf67418a7e581c77f4ed1bcc2dd0e729a58af127ad8bfe3e0f5755cefe7",
        running: "f665974a84dcdb7723726b0f695418fb6765815d292c7b4d30e232879ef54847",
        ended: "b26b7fb4eea6c3e83203969d979c93281659b42e728b35ee8c2fcc3294b30564",
        image: "team/demo:1.0",
        ctr: "my-ctr",
    },
];

impl Real {
    /// The file, with zeros where nothing leads.
    fn file(&self) -> Vec<u8> {
        let mut file = Vec::new();
        for line in self.pages.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let (number, length): (usize, usize) =
                (words[0].parse().unwrap(), words[1].parse().unwrap());
            let (at, content) = (number * 4_096, STANDARD.decode(words[2]).unwrap());
            file.resize(file.len().max(at + length), 0);
            file[at..at + content.len()].copy_from_slice(&content);
        }
        file
    }
}

#[test]
fn what_real_ones_wrote_tells_pods_and_their_labels() {
    for real in REAL {
        let tree = holding(ROOT, &real.file());
        let ended = (real.ended, "dead", "docker.io/team/demo:1.0");
        for (id, name, image) in [(real.running, "main", real.image), ended] {
            for runtime in ["containerd", "any"] {
                let names = tree.names(&format!("{runtime} {id}"));
                let told = [name, image, "-", "-", "train-7d9f8", "research"];
                assert_eq!(words(&names), told, "{}", real.version);
                // Six of the pod, one of the container; none of its image, which has an `app` of its own.
                assert_eq!(names.labels.len(), 7, "{names:?}");
                for (key, value) in [
                    ("app", "train"),
                    ("team", "vision"),
                    ("app.kubernetes.io/name", "trainer"),
                    ("io.kubernetes.container.name", name),
                    ("io.kubernetes.pod.uid", "0f1c4d1e-7b0a-4f0e-9a1e-3f5f5d1c2b3a"),
                ] {
                    assert_eq!(label(&names, key), Some(value));
                }
                assert!(!format!("{names:?}").contains("secret"));
            }
        }
        let sandbox = tree.names(&format!("containerd {}", real.sandbox));
        let told = ["-", "docker.io/local/pause:1", "-", "-", "train-7d9f8", "research"];
        assert_eq!((words(&sandbox), label(&sandbox, "app")), (told, Some("train")));
        let ctr = tree.names(&format!("containerd {}", real.ctr));
        let told = [real.ctr, "docker.io/team/demo:1.0", "-", "-", "-", "-"];
        assert_eq!((words(&ctr), ctr.labels.len()), (told, 3), "{ctr:?}");
        assert_eq!(label(&ctr, "team"), Some("red"));
        assert!(tree.asked(&format!("containerd {ID}")).unwrap().is_none());
    }
}

fn noted(sandbox: &str, name: &str) -> Made {
    any(&format!(
        r#"{{"Version":"v1","Metadata":{{"ID":"x","SandboxID":"{sandbox}","Config":{{"metadata":{{"name":"{name}"}},
        "image":{{"image":"sha256:0f"}},"envs":[{{"key":"TOKEN","value":"secret"}}],
        "labels":{{"io.kubernetes.pod.name":"train-0","io.kubernetes.pod.namespace":"research"}}}}}}}}"#
    ))
}

fn noted_sandbox(labels: &str) -> Made {
    any(&format!(
        r#"{{"Version":"v1","Metadata":{{"ID":"{OTHER}","Config":{{"metadata":{{"name":"train-0","uid":"u",
        "namespace":"research"}},"labels":{labels}}}}}}}"#
    ))
}

fn container(extension: &str, noted: Made) -> Made {
    let extensions = Made::Bucket(keys([(extension, noted)]));
    let spec = bytes(vec![b'x'; 20_000]);
    Made::Bucket(keys([
        ("extensions", extensions),
        ("image", bytes("registry.example/ml/train:7")),
        ("spec", spec),
    ]))
}

const CONTAINER: &str = "io.cri-containerd.container.metadata";
const SANDBOX: &str = "io.cri-containerd.sandbox.metadata";

/// A database with these containers in a namespace.
fn with(namespace: &str, containers: Keys) -> Keys {
    let namespace = (namespace, Made::Bucket(keys([("containers", Made::Bucket(containers))])));
    let v1 = keys([("version", bytes([6])), namespace]);
    keys([("v1", Made::Bucket(v1))])
}

fn pod(labels: &str) -> Keys {
    with(
        "k8s.io",
        keys([
            (ID, container(CONTAINER, noted(OTHER, "trainer"))),
            (OTHER, container(SANDBOX, noted_sandbox(labels))),
        ]),
    )
}

#[test]
fn it_is_found_where_distributions_and_administrators_keep_it() {
    let file = made_bolt::database(&pod(r#"{"team":"red"}"#), 4_096, 8);
    let told = ["trainer", "registry.example/ml/train:7", "-", "-", "train-0", "research"];
    for root in super::super::containerd::ROOTS {
        let names = holding(root, &file).names(&format!("containerd {ID}"));
        assert_eq!((words(&names), label(&names, "team")), (told, Some("red")), "{root}");
    }
    let config = "version = 2\nroot = \"/data/containerd\"\n[plugins]\n";
    let tree = holding("/data/containerd", &file).write("/etc/containerd/config.toml", config);
    assert_eq!(words(&tree.names(&format!("containerd {ID}"))), told);
    // A user's own, in that user's home alone.
    let tree = holding("/home/ann/.local/share/containerd", &file);
    let owner = if tree.owner() == 0 { 1_000 } else { tree.owner() };
    if tree.owner() == 0 {
        let refused = tree.asked(&format!("containerd {ID} {owner}")).unwrap_err().to_string();
        assert!(refused.contains("another than the container's owner"), "{refused}");
        own_all(&tree.path("/home/ann"));
    }
    assert_eq!(words(&tree.names(&format!("containerd {ID} {owner}"))), told);
    assert!(tree.asked(&format!("containerd {ID}")).unwrap().is_none());
}

#[test]
fn what_its_other_clients_keep_there_is_told_and_dockers_is_not() {
    let labels = Made::Inline(keys([
        ("com.docker.compose.project", bytes("lab")),
        ("com.docker.compose.service", bytes("db")),
        ("containerd.io/restart.status", bytes("running")),
        ("io.containerd.image.config.stop-signal", bytes("SIGTERM")),
        ("nerdctl/name", bytes("runcdev")),
        ("not-utf8", bytes([0xff])),
    ]));
    let nerdctl = keys([("image", bytes("team/db:1")), ("labels", labels)]);
    let containers = || keys([(ID, Made::Bucket(keys([("image", bytes("x"))])))]);
    let tree = holding(
        ROOT,
        &made_bolt::database(&with("default", keys([(ID, Made::Bucket(nerdctl))])), 4_096, 8),
    );
    let names = tree.names(&format!("containerd {ID}"));
    assert_eq!(words(&names), ["runcdev", "team/db:1", "lab", "db", "-", "-"]);
    assert_eq!(names.labels.len(), 2, "{names:?}");
    let tree = holding(ROOT, &made_bolt::database(&with("moby", containers()), 4_096, 8));
    assert!(tree.asked(&format!("containerd {ID}")).unwrap().is_none());
    let tree = holding(ROOT, &made_bolt::database(&with("other", containers()), 4_096, 8));
    assert_eq!(words(&tree.names(&format!("containerd {ID}")))[1], "x");
}

#[test]
fn a_pod_without_its_sandbox_has_the_names_that_its_container_bears() {
    for sandbox in [OTHER, "", "../../etc", &"a".repeat(300)] {
        let keys = with("k8s.io", keys([(ID, container(CONTAINER, noted(sandbox, "trainer")))]));
        let tree = holding(ROOT, &made_bolt::database(&keys, 4_096, 8));
        let names = tree.names(&format!("containerd {ID}"));
        assert_eq!(words(&names)[4..], ["train-0", "research"], "{sandbox}");
        assert_eq!(names.labels.len(), 2);
    }
}

#[test]
fn a_pods_labels_go_before_those_of_any_other_and_are_bounded() {
    let many: Vec<String> = (0..500).map(|n| format!(r#""key{n:03}":"v""#)).collect();
    let labels = format!("{{{},\"io.kubernetes.pod.name\":\"other\"}}", many.join(","));
    let tree = holding(ROOT, &made_bolt::database(&pod(&labels), 4_096, 8));
    let names = tree.names(&format!("containerd {ID}"));
    assert_eq!((names.labels.len(), label(&names, "key000")), (64, Some("v")));
    assert_eq!(words(&names)[4], "train-0");
}

#[test]
fn every_container_is_found_however_deep_the_tree_and_large_the_pages() {
    for (size, fanout, count) in [(1_024, 3, 400), (4_096, 50, 3_000), (65_536, 1_000, 3_000)] {
        let containers: Keys = (0..count)
            .map(|n| {
                let image = Made::Inline(keys([("image", bytes(format!("i{n}")))]));
                (format!("{n:064}").into_bytes(), image)
            })
            .collect();
        let tree = holding(ROOT, &made_bolt::database(&with("default", containers), size, fanout));
        for n in (0..count).step_by(37).chain([count - 1]) {
            let names = tree.names(&format!("containerd {n:064}"));
            assert_eq!(words(&names)[1], format!("i{n}"), "{size} {fanout}");
        }
        assert!(tree.asked(&format!("containerd {count:064}")).unwrap().is_none());
    }
}

/// What is none is told, and keeps nobody from the bundle of a container that runs.
#[test]
fn what_is_no_such_database_is_told_and_hides_no_bundle() {
    let whole = made_bolt::database(&pod("{}"), 4_096, 8);
    let other_version = with(
        "k8s.io",
        keys([(ID, container(CONTAINER, any(r#"{"Version":"v2","Metadata":{}}"#)))]),
    );
    let no_any = with("k8s.io", keys([(ID, container(CONTAINER, bytes([0x12, 0xff, 0xff])))]));
    let mut loops = whole.clone();
    for at in (2..whole.len() / 4_096).map(|page| page * 4_096) {
        if loops[at + 8] == 2 {
            // A branch to itself.
            let own = loops[at..at + 8].to_vec();
            loops[at + 8] = 1;
            loops[at + 24..at + 32].copy_from_slice(&own);
        }
    }
    let mut endless = whole.clone();
    for at in (2..whole.len() / 4_096).map(|page| page * 4_096) {
        endless[at + 12..at + 16].fill(0xff);
    }
    let cases = [
        ("nothing", Vec::new()),
        ("short", b"no database".to_vec()),
        ("zeros", vec![0; 1 << 16]),
        ("cut", whole[..8_192].to_vec()),
        ("loops", loops),
        ("endless", endless),
        ("version", made_bolt::database(&other_version, 4_096, 8)),
        ("any", made_bolt::database(&no_any, 4_096, 8)),
    ];
    let bundle = format!("/run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json");
    for (what, file) in cases {
        let tree = holding(ROOT, &file);
        let error = tree.asked(&format!("containerd {ID}")).unwrap_err().to_string();
        assert!(error.ends_with("does not have the form that its runtime gives it"), "{what}");
        let annotations = r#"{"io.kubernetes.cri.container-name":"trainer"}"#;
        let tree = tree.write(&bundle, &oci_config(annotations));
        assert_eq!(words(&tree.names(&format!("containerd {ID}")))[0], "trainer", "{what}");
    }
    // So does a configuration that nobody can read.
    let config = "/etc/containerd/config.toml";
    let tree = holding(ROOT, &whole).write(config, "root = 5");
    let error = tree.asked(&format!("containerd {ID}")).unwrap_err().to_string();
    assert!(error.contains("config.toml does not have the form"), "{error}");
    let tree = tree.write(&bundle, &oci_config(r#"{"io.kubernetes.cri.container-name":"t"}"#));
    assert_eq!(words(&tree.names(&format!("containerd {ID}")))[0], "t");
}

/// Any byte changed, any length: no panic, no end of memory, and names that are within their bounds.
#[test]
fn a_damaged_database_does_no_harm() {
    let mut random = crate::random::Random::seeded(5);
    let (mut told, mut failed) = (0, 0);
    for real in REAL {
        let whole = real.file();
        let tree = holding(ROOT, &whole);
        // Pages that lead somewhere, not the zeros between them.
        let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
        for _ in 0..400 {
            let mut file = whole.clone();
            let below = |random: &mut crate::random::Random, end: usize| {
                usize::try_from(random.below(u64::try_from(end).unwrap())).unwrap()
            };
            match random.below(8) {
                0 => file.truncate(below(&mut random, whole.len())),
                _ => {
                    for _ in 0..=random.below(6) {
                        let at = used[below(&mut random, used.len())];
                        // The heads of pages, where the harm is done, as often as what stands in them.
                        let at = if random.below(2) == 0 { at } else { at & !0xfff | (at & 0x3f) };
                        file[at] ^= 1 << random.below(8);
                    }
                }
            }
            std::fs::write(path(&tree, ROOT), &file).unwrap();
            match tree.asked(&format!("containerd {}", real.running)) {
                Ok(Some(names)) => {
                    assert!(names.labels.len() <= 64);
                    told += 1;
                }
                Ok(None) | Err(FilesError::Form { .. }) => failed += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(told > 50 && failed > 50, "{told} {failed}");
}

/// Ends the writer, whatever ends the reader.
struct Writing<'a>(&'a AtomicBool);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A writer as fast as can be that keeps to what bolt keeps to: a transaction writes over the pages of the one
/// before the last, and then its meta page. What is told is of one transaction.
#[test]
fn what_is_written_meanwhile_is_told_whole_or_not_at_all() {
    let state = |transaction: u64| {
        let labels = format!(r#"{{"n":"{transaction}"}}"#);
        let keys = with(
            "k8s.io",
            keys([
                (ID, container(CONTAINER, noted(OTHER, &format!("n{transaction}")))),
                (OTHER, container(SANDBOX, noted_sandbox(&labels))),
            ]),
        );
        // Two places, far enough apart.
        let first = if transaction.is_multiple_of(2) { 2 } else { 1_000 };
        let mut pages = Pages::from(first, 4_096, 2);
        let root = pages.bucket(&keys);
        (pages.into_bytes(), meta(4_096, root, transaction))
    };
    let tree = holding(ROOT, b"");
    let file = std::fs::OpenOptions::new().write(true).open(path(&tree, ROOT)).unwrap();
    let commit = |transaction: u64| {
        let ((at, pages), (meta_at, meta)) = state(transaction);
        // Page by page, as bolt does, so that there is a middle to be met.
        for (n, page) in pages.chunks(4_096).enumerate() {
            file.write_all_at(page, u64::try_from(at + n * 4_096).unwrap()).unwrap();
        }
        file.write_all_at(&meta, u64::try_from(meta_at).unwrap()).unwrap();
    };
    commit(1);
    let done = AtomicBool::new(false);
    let (mut told, mut seen) = (0, BTreeSet::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut transaction = 2;
            while !done.load(Ordering::Relaxed) {
                commit(transaction);
                transaction += 1;
            }
        });
        let writing = Writing(&done);
        for _ in 0..2_000 {
            match tree.asked(&format!("containerd {ID}")) {
                Ok(names) => {
                    let names = names.expect("it is in every state");
                    let name = names.name.as_deref().unwrap().trim_start_matches('n').to_owned();
                    assert_eq!(label(&names, "n"), Some(&*name));
                    seen.insert(name);
                    told += 1;
                }
                Err(FilesError::Busy { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        drop(writing);
    });
    assert!(told > 100 && seen.len() > 20, "{told} {}", seen.len());
}
