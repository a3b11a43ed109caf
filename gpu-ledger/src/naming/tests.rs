//! The whole way, against helpers that answer, hang, babble, break off, or are not there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::kernel::{CgroupId, CgroupMade, Exit, Fork, ProcessKey};
use crate::place::{Container, Runtime};
use crate::support::PATIENCE;
use crate::unit::{BootNs, Pid};

const ID: &str = "9a31de5509752cdfd67ecce37e15d1b8d84a1979b09d6cf56cf84615c8d585de";

/// A helper at a socket, which does this with each connection.
struct Fake {
    folder: tempfile::TempDir,
}

impl Fake {
    fn new(serves: impl Fn(UnixStream) + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("names.sock")).unwrap();
        std::thread::spawn(move || listener.incoming().flatten().for_each(serves));
        Self { folder }
    }

    fn says(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::new(move |mut stream| {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let _ = stream.write_all(&answer);
        })
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("names.sock")
    }

    fn ask(&self) -> Result<Option<ContainerNames>, AskError> {
        ask(&self.socket(), &question(), &Clock::system())
    }
}

fn question() -> Question {
    Question::parse(&format!("docker {ID}")).unwrap()
}

fn container(id: &str) -> Place {
    let container = Some(Container { runtime: Some(Runtime::Docker), id: id.into() });
    Place { container, ..Place::default() }
}

/// What comes sooner or later.
fn awaited<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let tries = PATIENCE.as_millis() / 5;
    for _ in 0..tries {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it never came");
}

fn names(name: &str) -> ContainerNames {
    ContainerNames { name: Some(name.into()), ..ContainerNames::default() }
}

#[test]
fn a_container_is_nameless_at_first_and_named_when_the_helper_has_answered() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("var/lib/docker/containers").join(ID);
    std::fs::create_dir_all(&folder).unwrap();
    let config = r#"{"Name":"/web1","Config":{"Image":"team/demo:1.0"}}"#;
    std::fs::write(folder.join("config.v2.json"), config).unwrap();
    let files = Files::below(root.path());
    let helper = Fake::new(move |stream| {
        serve(stream.try_clone().unwrap(), stream, &files, |_| None).unwrap();
    });
    let naming = Naming::start(Clock::system(), Source::Helper(helper.socket()));
    assert_eq!(naming.container(&container(ID)), None);
    let found = awaited(|| naming.container(&container(ID)));
    assert_eq!(
        (found.name.as_deref(), found.image.as_deref()),
        (Some("web1"), Some("team/demo:1.0"))
    );
    // A name that the group bears needs nobody.
    let lxc = Some(Container { runtime: Some(Runtime::Lxc), id: "any name".into() });
    let lxc = Place { container: lxc, ..Place::default() };
    assert_eq!(naming.container(&lxc).unwrap().name.as_deref(), Some("any name"));
    assert_eq!(naming.container(&container("../x")), None);
    assert_eq!(naming.container(&Place::default()), None);
}

#[test]
fn users_are_named_by_the_system() {
    let naming = Naming::start(Clock::system(), Source::Nobody);
    assert_eq!(awaited(|| naming.user(0)).as_ref(), "root");
    assert_eq!(naming.container(&container(ID)), None);
    assert_eq!(naming.user(u32::MAX - 7), None);
}

#[test]
fn what_ollama_calls_its_blobs_is_read_beside_whoever_asks() {
    let root = tempfile::tempdir().unwrap();
    let manifest = root.path().join("manifests/registry.ollama.ai/library/phi3/mini");
    std::fs::create_dir_all(manifest.parent().unwrap()).unwrap();
    let layer =
        r#"{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:ID","size":1}"#;
    let text = format!(r#"{{"schemaVersion":2,"layers":[{layer}]}}"#).replace("ID", ID);
    std::fs::write(manifest, text).unwrap();
    let naming = Naming::start(Clock::system(), Source::Nobody);
    assert_eq!(naming.blobs().name_of(ID), None);
    let naming = naming.with_models(root.path().to_path_buf());
    assert_eq!(awaited(|| naming.blobs().name_of(ID)).as_ref(), "phi3:mini");
    // Where there are none, none has a name.
    let naming = Naming::start(Clock::system(), Source::Nobody);
    let naming = naming.with_models(root.path().join("absent"));
    assert_eq!(naming.blobs().name_of(ID), None);
}

/// The caller has its answer while whoever is asked hangs: it is let go only after that.
#[test]
fn nobody_waits_for_an_answer_that_hangs() {
    let (asked, at_work) = mpsc::channel();
    let (let_go, hangs) = mpsc::channel::<()>();
    let user = {
        let asked = asked.clone();
        move |uid: &u32| {
            asked.send(uid.to_string()).unwrap();
            hangs.recv().unwrap();
            Answer::Found(Arc::from("ann"))
        }
    };
    let name = move |question: &Question| {
        asked.send(question.to_string()).unwrap();
        Answer::Found(Arc::new(names("web1")))
    };
    let naming = Naming::asking(Clock::system(), user, Some(name));
    assert_eq!(naming.user(1_000), None);
    assert_eq!(at_work.recv_timeout(PATIENCE).unwrap(), "1000");
    // One hangs. Everything else goes on, and what is asked of it waits without us.
    for uid in 0..5_000 {
        assert_eq!(naming.user(uid), None);
    }
    assert_eq!(naming.container(&container(ID)), None);
    assert_eq!(at_work.recv_timeout(PATIENCE).unwrap(), format!("docker {ID}"));
    assert_eq!(*awaited(|| naming.container(&container(ID))), names("web1"));
    drop(let_go);
}

#[test]
fn what_hung_is_named_once_it_answers() {
    let (let_go, hangs) = mpsc::channel::<()>();
    let user = move |_: &u32| {
        let _ = hangs.recv();
        Answer::Found(Arc::from("ann"))
    };
    let naming = Naming::asking(Clock::system(), user, None::<fn(&Question) -> _>);
    assert_eq!(naming.user(1_000), None);
    assert_eq!(naming.user(1_000), None);
    drop(let_go);
    assert_eq!(awaited(|| naming.user(1_000)).as_ref(), "ann");
}

fn subject(uid: u32, login_uid: LoginUid) -> Subject {
    Subject {
        key: ProcessKey { pid: Pid(7), start: BootNs(1) },
        parent: None,
        uid: Some(uid),
        euid: Some(uid + 1),
        login_uid,
        cgroups: None,
        at: BootNs(2),
        cpu: 0,
        seq: 0,
    }
}

fn group(path: &str) -> Event {
    let cgroup = CgroupId { hierarchy: 0, id: 5 };
    let path = Some(Bytes::copy_from_slice(path.as_bytes()));
    Event::CgroupMade(CgroupMade { cgroup, path, at: BootNs(1), cpu: 0, seq: 0 })
}

#[test]
fn whoever_is_met_is_asked_for_ahead_and_once() {
    let (asked, seen) = mpsc::channel();
    let user = {
        let asked = asked.clone();
        move |uid: &u32| {
            asked.send(uid.to_string()).unwrap();
            Answer::Found(Arc::from("ann"))
        }
    };
    let name = move |question: &Question| {
        asked.send(question.to_string()).unwrap();
        Answer::Found(Arc::new(names("web1")))
    };
    let naming = Naming::asking(Clock::system(), user, Some(name));
    let born = |uid| Event::Fork(Fork { subject: subject(uid, LoginUid::Set(500)) });
    let left = Event::Exit(Exit { subject: subject(77, LoginUid::Unset), wait_status: None });
    let scope = "/user.slice/user-1000.slice/user@1000.service/user.slice";
    let events = [
        group(&format!("{scope}/libpod-{ID}.scope")),
        group("/system.slice/ollama.service"),
        group(&format!("/docker/{ID}")),
        group("/lxc.payload.web"),
        born(10),
        born(10),
        left,
    ];
    naming.meet(&events);
    naming.meet(&events);
    let mut all: Vec<String> = (0..5).map(|_| seen.recv_timeout(PATIENCE).unwrap()).collect();
    all.sort();
    let rootless = format!("podman {ID} 1000");
    assert_eq!(all, ["10", "11", "500", &*format!("docker {ID}"), &rootless]);
    // By the time it is needed it is there, without asking again.
    assert_eq!(*awaited(|| naming.container(&container(ID))), names("web1"));
    assert_eq!(awaited(|| naming.user(500)).as_ref(), "ann");
    naming.meet(&events);
    drop(naming);
    assert_eq!(seen.iter().count(), 0);
}

#[test]
fn a_helper_that_answers_is_understood() {
    let found = Fake::says(format!("{}\n", answer::answer(Some(&names("web1"))))).ask();
    assert_eq!(found.unwrap(), Some(names("web1")));
    // A line without an end is whole when the stream is.
    assert_eq!(Fake::says(answer::answer(None)).ask().unwrap(), None);
}

#[test]
fn a_helper_that_does_not_answer_is_given_up() {
    let long = vec![b'x'; 1 << 18];
    let broken: [(&str, Fake); 6] = [
        (
            "none in 500ms",
            Fake::new(|stream| {
                // Held open for good.
                std::mem::forget(stream);
            }),
        ),
        (
            "none in 500ms",
            Fake::new(|mut stream| {
                while stream.write_all(b" ").is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }),
        ),
        ("what is no answer", Fake::says("what?\n")),
        ("what is no answer", Fake::new(drop)),
        ("longer than any answer", Fake::says(long)),
        ("no such runtime", Fake::says(format!("{}\n", answer::refusal("no such runtime")))),
    ];
    for (why, fake) in broken {
        let error = fake.ask().unwrap_err();
        // A connection that is closed at once may be told either way.
        let is_reset = error.to_string().contains("os error");
        assert!(matches!(error, AskError::Broken { .. }), "{why}: {error}");
        assert!(error.to_string().contains(why) || is_reset, "{why}: {error}");
    }
}

#[test]
fn a_helper_that_is_not_there_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let ask = |path: &Path| ask(path, &question(), &Clock::system()).unwrap_err();
    let absent = ask(&folder.path().join("none.sock"));
    assert!(matches!(absent, AskError::Absent { .. }), "{absent}");
    assert!(absent.to_string().contains("gpu-ledger-names.socket"), "{absent}");
    // Its socket lies there, and nobody listens.
    let left = folder.path().join("left.sock");
    drop(UnixListener::bind(&left).unwrap());
    assert!(matches!(ask(&left), AskError::Absent { .. }));
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(ask(&file), AskError::Absent { .. }));
    let too_long = folder.path().join("x".repeat(200));
    assert!(matches!(ask(&too_long), AskError::Absent { .. }));
}

#[test]
fn the_helper_answers_one_line_with_one_line() {
    let files = Files::below(tempfile::tempdir().unwrap().path());
    let answered = |asked: &[u8]| {
        let mut answer = Vec::new();
        serve(asked, &mut answer, &files, |_| None).unwrap();
        String::from_utf8(answer).unwrap()
    };
    let line = format!("docker {ID}\n");
    assert_eq!(answered(line.as_bytes()), "{\"names\":null,\"version\":1}\n");
    // What comes after the line is nobody's business.
    assert_eq!(answered(format!("{line}{line}").as_bytes()).lines().count(), 1);
    assert!(answered(b"lxc web\n").contains("\"name\":\"web\""));
    for (asked, error) in [
        (b"rkt x\n".as_slice(), "no such runtime"),
        (b"docker ../../etc/shadow\n", "no container id"),
        (b"\n", "ask with one line"),
        (b"", "ask with one line"),
        (b"docker \xff\xfe\n", "ask with one line"),
        (&vec![b'a'; 100_000], "at most 192 bytes"),
    ] {
        let answer: serde_json::Value = serde_json::from_str(&answered(asked)).unwrap();
        let told = answer["error"].as_str().unwrap();
        assert!(told.contains(error), "{error}: {told}");
        assert_eq!((answer["version"].as_u64(), answer.get("names")), (Some(1), None));
    }
}

/// An absent helper costs one connection, however many containers there are; the ids stay.
#[test]
fn an_absent_helper_is_not_looked_for_again_and_again() {
    let (asked, seen) = mpsc::channel();
    let name = move |question: &Question| {
        asked.send(question.to_string()).unwrap();
        Answer::Absent
    };
    let naming = Naming::asking(Clock::system(), |_: &u32| Answer::Unfound, Some(name));
    assert_eq!(naming.container(&container(ID)), None);
    seen.recv_timeout(PATIENCE).unwrap();
    // The answer is in when the thread has no question more; until then one more may be asked.
    for n in 0..100 {
        assert_eq!(naming.container(&container(&format!("{n:064}"))), None);
    }
    drop(naming);
    assert!(seen.iter().count() <= 1);
}

#[test]
fn a_stream_that_fails_is_told() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::ConnectionReset.into())
        }
    }
    let files = Files::below(Path::new("/nonexistent"));
    assert!(serve(Broken, Vec::new(), &files, |_| None).is_err());
}
