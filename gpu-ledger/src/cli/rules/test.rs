//! `gpu-ledger rules test`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use super::living::{living, uid_of, users_of};
use crate::attribution::rules::{Explanation, Failed, Held};
use crate::attribution::{Attributor, ContainerNames, Process};
use crate::cli::{STATUS_UNKNOWN, Usage, print};
use crate::clock::Clock;
use crate::config::{Config, Rules};
use crate::identity::{ImageContent, Program, argv_words};
use crate::kernel::{Argv, ArgvState, LoginUid};
use crate::output::complain;
use crate::place::{Container, Job, Place, Pod, Scheduler, without_secrets};
use crate::rendering::json;
use crate::unit::{GpuUuid, Pid};

/// Rules shown to people that do not match, the nearest of them; JSON has more.
const FAILED_SHOWN: usize = 8;
/// The same of those that could not be decided.
const UNDECIDED_SHOWN: usize = 6;

const AFTER_HELP: &str = "With --pid the process is read as it is now: its ancestors are those that it has now, and what it is \
given by other options goes before what was read. What is not given is not known, and no rule that looks at it \
matches. A user whom this host does not know is a name alone, without a number.\n\
Exit status: 0 a rule matches, 1 failed, 2 none does, 64 usage.";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Test {
    /// A file of rules (default: the configured one, else /etc/gpu-ledger/rules.toml)
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Configuration file that names it, and says how much of arguments is stored (default:
    /// /etc/gpu-ledger/config.toml)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// For programs (format gpu-ledger-rules-test)
    #[arg(long)]
    json: bool,
    /// A living process
    #[arg(long, value_name = "PID", conflicts_with_all = ["argv", "exe", "program"])]
    pid: Option<u32>,
    /// The file that was executed
    #[arg(long, value_name = "PATH")]
    exe: Option<OsString>,
    /// The program (default: what --argv and --exe say)
    #[arg(long, value_name = "NAME")]
    program: Option<OsString>,
    /// The program of an ancestor, the nearest first
    #[arg(long, value_name = "NAME")]
    ancestor: Vec<OsString>,
    /// The user's name or number
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Who logged in, by name or number
    #[arg(long, value_name = "USER")]
    login_user: Option<String>,
    /// The path of a control group, which also tells unit, slice, container, pod and job
    #[arg(long, value_name = "PATH")]
    cgroup: Vec<OsString>,
    /// The unit
    #[arg(long, value_name = "UNIT")]
    unit: Option<String>,
    /// The container's name
    #[arg(long, value_name = "NAME")]
    container: Option<String>,
    /// The container's image
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// The container's service in a compose file, SERVICE or PROJECT/SERVICE
    #[arg(long, value_name = "SERVICE")]
    compose: Option<String>,
    /// The pod, by its name, or as NAMESPACE/NAME
    #[arg(long, value_name = "POD")]
    pod: Option<String>,
    /// A label of the container or pod, NAME=VALUE
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
    /// The batch job, SCHEDULER ID as in "slurm 1234"
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// The GPU, by its index, UUID or product name
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
    /// The words of its command line, the last option: everything behind it belongs to it
    #[arg(long, value_name = "WORD", num_args = 1.., allow_hyphen_values = true)]
    argv: Vec<OsString>,
}

/// What is said of a process.
#[derive(Serialize)]
struct Report {
    format: &'static str,
    version: u32,
    /// Null where there is no file.
    file: Option<PathBuf>,
    sha256: String,
    /// The account it stands on.
    account: String,
    #[serde(flatten)]
    explanation: Explanation,
}

impl Test {
    pub(super) fn run(mut self, clock: &Clock) -> anyhow::Result<u8> {
        self.describes_somebody()?;
        let config = Config::read_or_default(self.config.as_deref())?;
        let rules = super::rules(self.rules.take().as_deref(), &config)?.fit(config.cmdline)?;
        let is_json = self.json;
        let attributor = Attributor::default().with_rules(&rules.set).with_cmdline(config.cmdline);
        let process = self.process(&attributor, clock)?;
        // As a bill has it: one that is called like a word of ours is quoted.
        let account = process.see(|subject| attributor.attribute(subject).account.title());
        let explanation = process.see(|subject| rules.set.explain(subject));
        let Rules { path: file, set, .. } = rules;
        let (format, sha256) = ("gpu-ledger-rules-test", set.digest().to_string());
        let report = Report { format, version: 1, file, sha256, account, explanation };
        print(&if is_json { json(&report)? } else { report.text()? })?;
        Ok(if report.explanation.matched.is_some() { 0 } else { STATUS_UNKNOWN })
    }

    /// Refuses to say anything of nobody, and of what is given without a value.
    fn describes_somebody(&self) -> Result<(), Usage> {
        let bytes = |text: &Option<OsString>| text.as_ref().map(|text| text.as_bytes().to_vec());
        let texts = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
        let first = |list: &[OsString]| {
            let empty = list.iter().find(|one| one.is_empty()).or_else(|| list.first());
            empty.map(|one| one.as_bytes().to_vec())
        };
        let given = [
            ("--argv", self.argv.first().map(|word| word.as_bytes().to_vec())),
            ("--exe", bytes(&self.exe)),
            ("--program", bytes(&self.program)),
            ("--ancestor", first(&self.ancestor)),
            ("--user", texts(&self.user)),
            ("--login-user", texts(&self.login_user)),
            ("--cgroup", first(&self.cgroup)),
            ("--unit", texts(&self.unit)),
            ("--container", texts(&self.container)),
            ("--image", texts(&self.image)),
            ("--compose", texts(&self.compose)),
            ("--pod", texts(&self.pod)),
            ("--label", self.label.first().map(|label| label.as_bytes().to_vec())),
            ("--job", texts(&self.job)),
            ("--gpu", texts(&self.gpu)),
        ];
        if let Some((option, _)) = given.iter().find(|(_, value)| value.as_deref() == Some(b"")) {
            let what = "is given without a value; leave it out where it is not known";
            return Err(Usage(format!("{option} {what}")));
        }
        if self.pid.is_none() && given.iter().all(|(_, value)| value.is_none()) {
            let what = "of which process? give --pid, or describe it: --argv WORD... as the last option, or \
                        --program, --exe, --ancestor, --user, --unit, --cgroup, --container, --pod, --job, --gpu and \
                        the like (gpu-ledger rules test --help)";
            return Err(Usage(what.to_owned()));
        }
        Ok(())
    }

    fn process(self, attributor: &Attributor, clock: &Clock) -> anyhow::Result<Process> {
        let mut process = match self.pid {
            Some(pid) => living(Pid(pid), attributor, clock)?.ok_or_else(|| {
                anyhow::anyhow!("there is no process {pid}; describe one that is gone with --argv, --exe, --user")
            })?,
            None => Process::default(),
        };
        let argv = argv_of(self.argv);
        let exe = self.exe.map(OsString::into_vec);
        if let Some(exe) = &exe {
            process.exe = attributor.file(exe).into_owned().into();
        }
        if self.pid.is_none() {
            process.program = match self.program {
                Some(program) => Some(Program::named(&program.into_vec())),
                None => program_of(exe, argv.clone()),
            };
            // What is stored of arguments is what rules see.
            process.model = attributor.model(process.program.as_ref(), &argv);
            process.argv = attributor.words(&argv);
        }
        if !self.ancestor.is_empty() {
            let named = |name: OsString| Some(Program::named(&name.into_vec()));
            process.ancestors = self.ancestor.into_iter().map(named).collect();
        }
        if !self.cgroup.is_empty() {
            let stored = |path: OsString| without_secrets(&path.into_vec()).into_owned().into();
            process.cgroups = self.cgroup.into_iter().map(stored).collect();
            process.place = Place::of(process.cgroups.iter().map(AsRef::as_ref));
        }
        let user = self.user.map(Somebody::called);
        let login = self.login_user.map(Somebody::called);
        if let Some(user) = &user {
            process.user.uid = user.uid();
            process.user.euid = user.uid();
        }
        if let Some(user) = &login {
            process.user.login_uid = user.uid().map_or(LoginUid::Unread, LoginUid::Set);
        }
        process.users = users_of(process.user);
        if let Some(Somebody::Named(name)) = user {
            process.users.real = Some(tell_of_no_uid("--user", name));
        }
        if let Some(Somebody::Named(name)) = login {
            process.users.login = Some(tell_of_no_uid("--login-user", name));
        }
        place(&mut process.place, self.unit, self.job.as_deref())?;
        let names = process.names.get_or_insert_default();
        name(names, self.container, self.image, (self.compose, self.pod), &self.label)?;
        process.names = process.names.map(ContainerNames::safe);
        placed(&mut process);
        if let Some(gpu) = self.gpu {
            match gpu.parse() {
                Ok(index) => process.gpu_index = Some(index),
                Err(_) if gpu.starts_with("GPU-") || gpu.starts_with("MIG-") => {
                    process.gpu = GpuUuid(gpu.into());
                }
                Err(_) => process.gpu_name = Some(gpu),
            }
        }
        Ok(process)
    }
}

fn argv_of(words: Vec<OsString>) -> Argv {
    let mut bytes = Vec::new();
    for word in words {
        bytes.extend_from_slice(&word.into_vec());
        bytes.push(0);
    }
    let true_length = u64::try_from(bytes.len()).ok();
    Argv { bytes: bytes.into(), true_length, state: ArgvState::Whole }
}

/// The program of arguments and a file, as the kernel tells of it.
fn program_of(exe: Option<Vec<u8>>, argv: Argv) -> Option<Program> {
    let first = || argv_words(&argv).first().map(|word| word.to_vec()).unwrap_or_default();
    let filename = exe.filter(|exe| !exe.is_empty()).unwrap_or_else(first).into();
    Program::of(&ImageContent { argv, filename, exe: None })
}

/// A user who was given by name or number.
#[derive(PartialEq, Eq, Debug)]
enum Somebody {
    /// Of this number.
    Known(u32),
    /// Of this name, which this host does not know: rules may be another host's.
    Named(String),
}

impl Somebody {
    fn called(user: String) -> Self {
        match user.parse().ok().or_else(|| uid_of(&user)) {
            Some(uid) => Self::Known(uid),
            None => Self::Named(user),
        }
    }

    const fn uid(&self) -> Option<u32> {
        match self {
            Self::Known(uid) => Some(*uid),
            Self::Named(_) => None,
        }
    }
}

/// Says that a name is a name and nothing else.
fn tell_of_no_uid(option: &str, name: String) -> Arc<str> {
    complain(&format!(
        "{option}: this host knows no user {name:?}: it is taken as a name, and the number is not known"
    ));
    name.into()
}

fn place(place: &mut Place, unit: Option<String>, job: Option<&str>) -> Result<(), Usage> {
    if let Some(unit) = unit {
        place.unit = Some(unit.into());
    }
    if let Some(job) = job {
        let (word, id) = job.split_once(' ').unwrap_or((job, ""));
        let scheduler = Scheduler::ALL.into_iter().find(|one| one.as_str() == word);
        let no_job = || Usage(format!("--job {job:?} is no job; give one such as \"slurm 1234\""));
        let id = (!id.is_empty()).then(|| Arc::from(id));
        let scheduler = scheduler.ok_or_else(no_job)?;
        place.job = Some(Job { scheduler, id, step: None, task: None });
    }
    Ok(())
}

fn name(
    names: &mut ContainerNames,
    container: Option<String>,
    image: Option<String>,
    (compose, pod): (Option<String>, Option<String>),
    labels: &[String],
) -> Result<(), Usage> {
    let two = |option: &str, text: String| match text.split_once('/') {
        Some(("", _) | (_, "")) => {
            Err(Usage(format!("{option} {text:?} lacks a name beside its slash")))
        }
        Some((first, second)) => Ok((Some(Arc::from(first)), Arc::from(second))),
        None => Ok((None, Arc::from(text))),
    };
    names.name = container.map(Into::into).or(names.name.take());
    names.image = image.map(Into::into).or(names.image.take());
    if let Some((project, service)) = compose.map(|text| two("--compose", text)).transpose()? {
        (names.compose_project, names.compose_service) = (project, Some(service));
    }
    if let Some((namespace, pod)) = pod.map(|text| two("--pod", text)).transpose()? {
        (names.namespace, names.pod) = (namespace, Some(pod));
    }
    for label in labels {
        let Some((name, value)) = label.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(Usage(format!("--label {label:?} is no label; give one as NAME=VALUE")));
        };
        names.labels.insert(name.into(), value.into());
    }
    Ok(())
}

/// Whoever has a container's or pod's name runs in one.
fn placed(process: &mut Process) {
    let Some(names) = &process.names else { return };
    if let (None, Some(name)) = (&process.place.container, &names.name) {
        process.place.container = Some(Container { runtime: None, id: Arc::clone(name) });
    }
    if let (None, Some(name)) = (&process.place.pod, &names.pod) {
        process.place.pod = Some(Pod { uid: Arc::clone(name), qos: None });
    }
}

impl Report {
    fn text(&self) -> Result<String, std::fmt::Error> {
        let mut page = String::new();
        let Explanation { matched, failed, failed_more, undecided, undecided_more } =
            &self.explanation;
        let file = match &self.file {
            Some(path) => path.display().to_string(),
            None => "no file of rules".to_owned(),
        };
        match matched {
            Some(matched) => {
                let (rule, line) = (matched.rule.0, matched.line);
                writeln!(page, "{}: rule {rule} of {file}, line {line}", self.account)?;
                for Held { key, value, pattern } in &matched.held {
                    writeln!(page, "  {key} {value} is {pattern}")?;
                }
                if matched.held.is_empty() {
                    writeln!(page, "  it has no condition")?;
                }
            }
            None => writeln!(page, "{}: by no rule ({file})", self.account)?,
        }
        let failed = ("not by these, the nearest first", failed, *failed_more, FAILED_SHOWN);
        let not_known = "not to be decided, since nothing is known of what they look at";
        let undecided = (not_known, undecided, *undecided_more, UNDECIDED_SHOWN);
        for (what, rules, more, most) in [failed, undecided] {
            if !rules.is_empty() {
                writeln!(page, "{what}:")?;
            }
            for one in rules.iter().take(most) {
                one.line(&mut page)?;
            }
            match rules.len().saturating_sub(most).saturating_add(more) {
                0 => {}
                1 => writeln!(page, "  and 1 more rule")?,
                more => writeln!(page, "  and {more} more rules")?,
            }
        }
        Ok(page)
    }
}

impl Failed {
    fn line(&self, page: &mut String) -> std::fmt::Result {
        let Self { rule, line, account, key, wants, holds, conditions, .. } = self;
        write!(page, "  rule {} (line {line}, {account}): {key} wants {wants}", rule.0)?;
        match (self.seen.as_slice(), self.seen_more) {
            ([], _) => {}
            (_, _) if self.capture_is_empty => {
                write!(page, "; it is, but a capture takes nothing")?;
            }
            (seen, 0) => write!(page, "; it is {}", seen.join(", "))?,
            (seen, more) => write!(page, "; it is {} and {more} others", seen.join(", "))?,
        }
        match conditions {
            0 | 1 => writeln!(page),
            all => writeln!(page, " ({holds} of {all} conditions hold)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::attribution::rules::RuleSet;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        test: Test,
    }

    fn process(words: &[&str]) -> Process {
        let line = Line::try_parse_from(std::iter::once("test").chain(words.iter().copied()));
        line.unwrap().test.process(&Attributor::default(), &Clock::system()).unwrap()
    }

    fn account(rules: &str, process: &Process) -> Option<String> {
        let rules = RuleSet::parse(rules.as_bytes()).unwrap();
        process.see(|subject| rules.classify(subject)).map(|ruled| ruled.account.to_string())
    }

    #[test]
    fn a_user_whom_this_host_does_not_know_is_a_name_without_a_number() {
        let nobody = process(&["--user", "no such user", "--login-user", "no such login"]);
        assert_eq!((nobody.user.uid, nobody.user.euid), (None, None));
        assert_eq!(nobody.user.login_uid, LoginUid::Unread);
        let rules =
            "[[rule]]\naccount = \"a\"\nuser = \"no such user\"\nlogin_user = \"no such login\"\n";
        assert_eq!(account(rules, &nobody).as_deref(), Some("a"));
        // No number is made up, and none is left of the process that was read.
        let any = "[[rule]]\naccount = \"a\"\nuser = { regex = '[0-9]+' }\n";
        assert_eq!(account(any, &nobody), None);
        let own = std::process::id().to_string();
        assert_eq!(process(&["--pid", &own, "--user", "no such user"]).user.uid, None);
        let root = process(&["--user", "root", "--login-user", "4711"]);
        assert_eq!((root.user.uid, root.user.login_uid), (Some(0), LoginUid::Set(4711)));
        assert_eq!(account(any, &root).as_deref(), Some("a"));
    }
}
