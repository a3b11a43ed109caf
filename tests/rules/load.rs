//! What `cargo xtask bench rules` measures: a file of many rules of all kinds, and processes that fall under some of
//! them or under none. Prints `name value` lines; times are nanoseconds of this thread's CPU.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "a benchmark's program: it stops where it cannot go on"
)]

use std::fmt::Write as _;

use gpu_ledger::attribution::rules::RuleSet;
use gpu_ledger::attribution::{ContainerNames, Process};
use gpu_ledger::identity::Program;
use gpu_ledger::place::Place;
use rustix::time::{ClockId, clock_gettime};

/// Rules that nothing but a look at them tells of: one in so many.
const BARE_ONE_IN: u64 = 500;
/// Processes with the longest command line that is captured: one in so many.
const LONG_ONE_IN: u64 = 50;
/// Different processes; each is seen many times, as on a host.
const PROCESSES: u64 = 5_000;

fn main() {
    let words: Vec<u64> = std::env::args().skip(1).map(|word| word.parse().unwrap()).collect();
    let [rules, subjects, seed] = words[..] else { panic!("RULES SUBJECTS SEED") };
    let text = file(rules, seed);
    let text_kib = peak_kib();
    let before = cpu_ns();
    let set = RuleSet::parse(text.as_bytes()).unwrap();
    let parse_ns = cpu_ns() - before;
    let rules_kib = peak_kib();
    let mut random = Random(seed ^ 0x5eed);
    let processes: Vec<Process> = (0..PROCESSES).map(|_| process(&mut random, rules)).collect();
    let mut times = Vec::with_capacity(subjects as usize);
    let mut matched = 0_u64;
    let began = cpu_ns();
    for _ in 0..subjects {
        let process = &processes[random.below(PROCESSES) as usize];
        let before = cpu_ns();
        let found = process.see(|subject| set.classify(subject));
        times.push(cpu_ns() - before);
        matched += u64::from(found.is_some());
    }
    let classify_ns = cpu_ns() - began;
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    for (name, value) in [
        ("file_bytes", text.len() as u64),
        ("parse_ns", parse_ns),
        ("matched", matched),
        ("classify_ns", classify_ns),
        ("median_ns", at(50)),
        ("p99_ns", at(99)),
        ("worst_ns", at(100)),
        ("text_kib", text_kib),
        ("rules_kib", rules_kib),
        ("peak_kib", peak_kib()),
    ] {
        println!("{name} {value}");
    }
}

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Rules whose numbers are those of the processes that fall under them.
fn file(rules: u64, seed: u64) -> String {
    let mut text = String::new();
    let mut random = Random(seed);
    for n in 0..rules {
        let conditions = if n % BARE_ONE_IN == BARE_ONE_IN - 1 {
            // Longer than any program here, so that it takes none.
            format!("program = {{ regex = '[a-z]{{{}}}[0-9]+' }}", 30 + random.below(20))
        } else {
            condition(n)
        };
        let account = if conditions.contains("?P<m>") { "${m}" } else { "" };
        write!(text, "[[rule]]\naccount = \"account {n} {account}\"\n{conditions}\n\n").unwrap();
    }
    text.replace(" \"\n", "\"\n")
}

fn condition(n: u64) -> String {
    match n % 16 {
        0 => format!("program = \"train{n}.py\""),
        1 => format!("program = {{ prefix = \"serve{n}-\" }}\nuser = \"user{}\"", n % 50),
        2 => format!("exe = {{ suffix = \"/bin/tool{n}\" }}"),
        3 => format!("command_line = {{ regex = '.* --model[ =](?P<m>org{n}/\\S+).*' }}"),
        4 => format!("argv = [\"--config=/etc/app{n}.toml\", \"--config=/srv/app{n}.toml\"]"),
        5 => format!("argv = {{ regex = '--name=job-{n}-\\d+' }}\nscheduler = \"slurm\""),
        6 => format!("unit = \"svc{n}.service\""),
        7 => format!("cgroup = {{ prefix = \"/batch.slice/run{n}.scope\" }}"),
        8 => format!("container = \"box{n}\""),
        9 => format!("image = {{ prefix = \"registry.example/team{n}/\" }}"),
        10 => {
            format!("compose_project = \"shop\"\ncompose_service = {{ regex = 'web{n}(-\\d+)?' }}")
        }
        11 => format!("labels.\"app.kubernetes.io/name\" = \"app{n}\""),
        12 => format!("namespace = \"ns{}\"\npod = {{ prefix = \"pod{n}-\" }}", n % 100),
        13 => format!("job = \"{n}\"\nscheduler = \"slurm\""),
        14 => {
            format!("ancestor = {{ regex = '(?i)Launcher{n}' }}\nuser = {{ regex = 'user\\d+' }}")
        }
        _ => format!("gpu = [0, 1, 2, 3]\nlogin_user = \"login{n}\""),
    }
}

fn process(random: &mut Random, rules: u64) -> Process {
    let n = random.below(rules * 2);
    let text = |text: String| Some(text.into());
    let mut argv: Vec<Vec<u8>> =
        vec![b"/usr/bin/python3".to_vec(), format!("/srv/x/train{n}.py").into()];
    while argv.len() < 20 {
        argv.push(format!("--option-{}={}", random.below(100), random.next()).into());
    }
    match n % 16 {
        3 => argv.push(format!("--model=org{n}/weights").into()),
        4 => argv.push(format!("--config=/srv/app{n}.toml").into()),
        5 => argv.push(format!("--name=job-{n}-7").into()),
        _ => {}
    }
    if random.below(LONG_ONE_IN) == 0 {
        argv.push(vec![b'm'; 3_400]);
    }
    let path = match random.below(4) {
        0 => format!("/system.slice/svc{n}.service"),
        1 => format!("/batch.slice/run{n}.scope"),
        2 => format!("/system.slice/slurmstepd.scope/job_{n}/step_0/user/task_0"),
        _ => format!("/system.slice/docker-{}.scope", "0123456789abcdef".repeat(4)),
    };
    let labels = (0..10).map(|number| (format!("label{number}").into(), "value".into()));
    let mut names = ContainerNames { labels: labels.collect(), ..ContainerNames::default() };
    match n % 16 {
        8 => names.name = text(format!("box{n}")),
        9 => names.image = text(format!("registry.example/team{n}/image:1")),
        10 => {
            names.compose_project = text("shop".to_owned());
            names.compose_service = text(format!("web{n}-2"));
        }
        11 => drop(names.labels.insert("app.kubernetes.io/name".into(), format!("app{n}").into())),
        12 => {
            names.namespace = text(format!("ns{}", n % 100));
            names.pod = text(format!("pod{n}-abc"));
        }
        _ => {}
    }
    let program = if n % 16 == 1 { format!("serve{n}-fast") } else { format!("train{n}.py") };
    let mut process = Process {
        program: Some(Program::named(program.as_bytes())),
        exe: format!("/opt/bin/tool{n}").into(),
        argv: Some(argv),
        place: Place::of([path.as_bytes()]),
        cgroups: vec![path.into()],
        names: Some(names),
        ancestors: (0..8)
            .map(|up| Some(Program::named(format!("launcher{}", n + up).as_bytes())))
            .collect(),
        gpu_index: Some((n % 8) as u32),
        gpu_name: Some("NVIDIA H200".to_owned()),
        ..Process::default()
    };
    process.users.real = text(format!("user{}", n % 50));
    process.users.login = text(format!("login{n}"));
    process
}
