//! What `gpu-ledger bill` says of a journal: the built binary, its JSON against the committed schema.

use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::support::Sim;

/// The bill of everything in the journal, a line a process.
pub(crate) struct Billed {
    pub(crate) bill: Value,
    /// Its exit status.
    pub(crate) code: i32,
    /// Where the journal was read.
    source: Vec<OsString>,
}

impl Billed {
    pub(crate) fn of(sim: &Sim) -> Self {
        Self::over(sim, &["--period", "all"], &[])
    }

    /// Over a period, with variables of the environment.
    pub(crate) fn over(sim: &Sim, period: &[&str], environment: &[(&str, &OsStr)]) -> Self {
        let state = sim.folder().join("state");
        Self::by(&[OsStr::new("--state-dir"), state.as_os_str()], period, environment)
    }

    /// The same of the daemon that runs.
    pub(crate) fn through_daemon(
        sim: &Sim,
        period: &[&str],
        environment: &[(&str, &OsStr)],
    ) -> Self {
        let socket = sim.folder().join("run/daemon.sock");
        Self::by(&[OsStr::new("--socket"), socket.as_os_str()], period, environment)
    }

    fn by(source: &[&OsStr], period: &[&str], environment: &[(&str, &OsStr)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
        command.args(["bill", "--by", "process", "--format", "json"]).args(period).args(source);
        command.envs(environment.iter().copied()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let bill: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {said}"));
        let code = output.status.code().unwrap();
        let source = source.iter().map(|word| (*word).to_owned()).collect();
        let billed = Self { bill, code, source };
        billed.check();
        billed
    }

    /// What holds of every bill.
    fn check(&self) {
        static SCHEMA: OnceLock<jsonschema::Validator> = OnceLock::new();
        let schema = SCHEMA.get_or_init(|| {
            let text = include_str!("../../gpu-ledger/schema/bill.v1.schema.json");
            jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap()
        });
        let wrong: Vec<String> =
            schema.iter_errors(&self.bill).map(|error| error.to_string()).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{}", self.bill);
        assert!([0, 2].contains(&self.code), "{}: {}", self.code, self.bill);
        for gpu in self.list("gpus") {
            let of = |field: &str| gpu[field].as_u64().unwrap();
            let parts = of("alone_ms") + of("shared_ms") + of("free_ms") + of("uncovered_ms");
            assert_eq!(parts, of("period_ms"), "{gpu}");
        }
    }

    pub(crate) fn list(&self, of: &str) -> &[Value] {
        self.bill[of].as_array().unwrap()
    }

    /// The one settlement of a pid.
    pub(crate) fn settlement(&self, pid: u32) -> &Value {
        let mut all = self.list("settlements").iter().filter(|one| one["pid"] == pid);
        let (one, more) = (all.next(), all.next());
        assert!(one.is_some() && more.is_none(), "pid {pid}: {}", self.bill["settlements"]);
        one.unwrap()
    }

    /// Asserts that a row is without a name for this reason alone: at the settlement, on a line of its own,
    /// with all its milliseconds, and by the exit status.
    pub(crate) fn nameless(&self, pid: u32, reason: &str) {
        let one = self.settlement(pid);
        assert_eq!((&one["reason"], &one["basis"]), (&reason.into(), &Value::Null), "{one}");
        assert_eq!(one["account"], "unattributed", "{one}");
        let lines: Vec<_> =
            self.list("unattributed").iter().filter(|line| line["reason"] == reason).collect();
        assert_eq!(lines.len(), 1, "{}", self.bill["unattributed"]);
        let of_reason = self.list("settlements").iter().filter(|one| one["reason"] == reason);
        let held: u64 = of_reason.clone().map(|one| one["held_ms"].as_u64().unwrap()).sum();
        assert_eq!(lines[0]["count"], of_reason.count(), "{}", lines[0]);
        assert_eq!(lines[0]["span_ms_total"], held, "{}", lines[0]);
        assert_eq!(self.code, 2);
        self.explained(one, reason);
    }

    /// Asserts that whoever asks why is told what hid its name, up to when, and what would have named it.
    pub(crate) fn explained(&self, one: &Value, reason: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-ledger"));
        command.args(["explain", "--json", one["id"].as_str().unwrap()]).args(&self.source);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let told: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {said}"));
        let schema = include_str!("../../gpu-ledger/schema/explain.v1.schema.json");
        let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
        let wrong: Vec<String> = schema.iter_errors(&told).map(|error| error.to_string()).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{told}");
        let hidden = &told["settlements"][0]["nameless"];
        assert_eq!(told["settlements"][0]["reason"], reason, "{told}");
        for part in [&hidden["cause"], &hidden["remedy"], &hidden["not_seen"]["to"]] {
            assert!(part.as_str().is_some_and(|text| !text.is_empty()), "{hidden}");
        }
        let is_gap = ["agent-down", "event-lost"].contains(&reason);
        assert!(!is_gap || hidden["not_seen"]["gap"] == reason, "{hidden}");
        assert_eq!(output.status.code(), Some(2));
    }

    /// Asserts that a row has this name.
    pub(crate) fn named(&self, pid: u32, account: &str) -> &Value {
        let one = self.settlement(pid);
        assert_eq!((&one["account"], &one["reason"]), (&account.into(), &Value::Null), "{one}");
        one
    }

    /// The gaps of a cause.
    pub(crate) fn gaps(&self, cause: &str) -> Vec<&Value> {
        let gaps = self.bill["coverage"]["gaps"].as_array().unwrap();
        gaps.iter().filter(|gap| gap["cause"] == cause).collect()
    }

    /// Asserts that there is a gap of this cause, and that the exit status tells of it.
    pub(crate) fn gap(&self, cause: &str) -> &Value {
        let gaps = self.gaps(cause);
        assert!(!gaps.is_empty(), "no {cause}: {}", self.bill["coverage"]);
        assert_eq!(self.code, 2);
        gaps[0]
    }

    /// A GPU's statement.
    fn gpu(&self, index: usize) -> &Value {
        // One that could never be asked has no index on the bill.
        let begins = format!("GPU-51d{index:05x}-");
        let begins = |line: &&Value| line["gpu_uuid"].as_str().unwrap().starts_with(&begins);
        let line = self.list("gpus").iter().find(begins);
        line.unwrap_or_else(|| panic!("no GPU {index}: {}", self.bill["gpus"]))
    }

    /// A number of a GPU's statement.
    pub(crate) fn gpu_ms(&self, gpu: usize, field: &str) -> u64 {
        self.gpu(gpu)[field].as_u64().unwrap()
    }

    /// The causes that a GPU has gaps of.
    pub(crate) fn causes(&self, gpu: usize) -> Vec<&str> {
        let uuid = &self.gpu(gpu)["gpu_uuid"];
        let gaps = self.bill["coverage"]["gaps"].as_array().unwrap();
        let own = gaps.iter().filter(|gap| gap["gpu"] == *uuid);
        own.map(|gap| gap["cause"].as_str().unwrap()).collect()
    }
}
