//! What may be made to go wrong: the words of `nvsim fault`, of scripts, and of tests.

use std::path::Path;

use clap::{Parser, Subcommand, ValueEnum};

use crate::client::{self, Wire};
use crate::protocol::Request;

/// Words that are no fault.
#[derive(Debug, thiserror::Error)]
#[error("no such fault; try `nvsim fault --help`: {0}")]
pub struct NotAFault(#[from] clap::Error);

impl NotAFault {
    /// Prints what clap has to say (help, or what is wrong) and ends the program with its status.
    pub fn exit(&self) -> ! {
        self.0.exit()
    }
}

/// A fault as words say it.
#[derive(Parser, Clone, Debug)]
#[command(name = "nvsim fault", about = "Make the simulated driver misbehave")]
pub struct Words {
    /// What goes wrong.
    #[command(subcommand)]
    pub fault: Fault,
}

/// A switch on a command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Switch {
    /// It is so.
    On,
    /// It is not.
    Off,
}

impl Switch {
    /// Whether it is on.
    #[must_use]
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// How a list changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Change {
    /// Made-up live entries are added.
    Grow,
    /// The oldest dead entries go, then made-up live ones.
    Shrink,
}

/// What accounting calls say while the mode is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Disabled {
    /// What was seen: lists succeed, a query that finds nothing says NOT_FOUND.
    Observed,
    /// What the header says: NOT_SUPPORTED.
    Documented,
}

/// What a size query says of an empty list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum EmptyList {
    /// SUCCESS, as headers up to 12.6 say.
    Success,
    /// INSUFFICIENT_SIZE with a count of 0.
    Insufficient,
}

/// Which calls a fault concerns.
#[derive(clap::Args, Clone, Debug)]
pub struct Calls {
    /// The symbol; `*` at its end stands for any rest.
    pub call: String,
    /// Only calls for this GPU.
    #[arg(long)]
    pub gpu: Option<u32>,
    /// Only so many calls; without it, until healed.
    #[arg(long)]
    pub times: Option<u64>,
    /// Let so many calls pass first.
    #[arg(long, default_value_t = 0)]
    pub after: u64,
}

/// Which GPUs a fault concerns.
#[derive(clap::Args, Clone, Debug)]
pub struct Gpus {
    /// Only this GPU; without it, all.
    #[arg(long)]
    pub gpu: Option<u32>,
}

/// Everything that may go wrong.
#[derive(Subcommand, Clone, Debug)]
pub enum Fault {
    /// Answer calls late
    Delay {
        /// Which calls.
        #[command(flatten)]
        calls: Calls,
        /// By how much.
        #[arg(long = "ms")]
        delay_ms: u64,
    },
    /// Do not answer calls until healed
    Hang {
        /// Which calls.
        #[command(flatten)]
        calls: Calls,
    },
    /// Answer calls with a return code
    Code {
        /// Which calls.
        #[command(flatten)]
        calls: Calls,
        /// The code.
        #[arg(long = "code")]
        code: u32,
    },
    /// Switch accounting, as another administrator would
    Accounting {
        /// On or off.
        switch: Switch,
        /// Which GPUs.
        #[command(flatten)]
        gpus: Gpus,
    },
    /// Throw the dead entries away, as another administrator would
    Clear {
        /// Which GPUs.
        #[command(flatten)]
        gpus: Gpus,
    },
    /// Tear the GPU's driver state down: mode off, live entries lost, dead ones kept
    Reset {
        /// Which GPUs.
        #[command(flatten)]
        gpus: Gpus,
    },
    /// Let the GPU fall off the bus, or come back
    GpuLost {
        /// On or off.
        #[arg(default_value = "on")]
        switch: Switch,
        /// Which GPUs.
        #[command(flatten)]
        gpus: Gpus,
        /// Let so many calls for the GPU pass first.
        #[arg(long, default_value_t = 0)]
        after: u64,
    },
    /// Switch MIG
    Mig {
        /// On or off.
        switch: Switch,
        /// Which GPUs.
        #[command(flatten)]
        gpus: Gpus,
    },
    /// Make it a vGPU host
    VgpuHost {
        /// On or off.
        switch: Switch,
        /// Which GPUs.
        #[command(flatten)]
        gpus: Gpus,
    },
    /// Switch persistence mode
    Persistence {
        /// On or off.
        switch: Switch,
        /// Which GPUs.
        #[command(flatten)]
        gpus: Gpus,
    },
    /// Let so many strangers die, whose entries push others out
    Evict {
        /// How many.
        count: u64,
        /// Which GPUs.
        #[command(flatten)]
        gpus: Gpus,
    },
    /// Change the lists right after the next answer to a call
    ListChange {
        /// How.
        change: Change,
        /// By how many entries.
        count: u64,
        /// After which call.
        #[arg(long, default_value = "nvmlDeviceGetAccountingPids")]
        call: String,
        /// Which GPUs.
        #[command(flatten)]
        gpus: Gpus,
    },
    /// Change the lists at once
    ChangeNow {
        /// How.
        change: Change,
        /// By how many entries.
        count: u64,
        /// Which GPUs.
        #[command(flatten)]
        gpus: Gpus,
    },
    /// Do another fault right after the next answer to a call
    After {
        /// After which call.
        call: String,
        /// The other fault's words.
        #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Answer every client as one outside the initial pid namespace
    ContainerView {
        /// On or off.
        switch: Switch,
    },
    /// Answer every client as one that is not root
    NotRoot {
        /// On or off.
        switch: Switch,
    },
    /// What a size query says of an empty list
    EmptyList {
        /// Which of the two documented codes.
        answer: EmptyList,
    },
    /// What accounting calls say while the mode is off
    Disabled {
        /// As seen or as documented.
        behaviour: Disabled,
    },
    /// The code for a struct of another version (25, or 13 as older drivers)
    StructVersion {
        /// The code.
        code: u32,
    },
    /// Refuse initialisation: the driver is not loaded
    DriverNotLoaded {
        /// On or off.
        switch: Switch,
    },
    /// Refuse initialisation: there is no GPU
    NoGpu {
        /// On or off.
        switch: Switch,
    },
    /// Give the "not available" marks for utilization and memory
    Sentinels {
        /// On or off.
        switch: Switch,
    },
    /// Give no start time of any row
    NoStartTime {
        /// On or off.
        switch: Switch,
    },
    /// Give a mode that is neither on nor off
    OddMode {
        /// On or off.
        switch: Switch,
    },
    /// Give another length of dead rows than before
    LongerRows {
        /// On or off.
        switch: Switch,
    },
    /// Report an Xid to whoever waits for events
    Xid {
        /// The number.
        number: u64,
        /// Which GPUs.
        #[command(flatten)]
        gpus: Gpus,
    },
    /// End all delays, hangs, codes, losses and switched answers
    Heal,
    /// Print how many faults still wait for the call they come after
    Pending,
    /// Print how many NVML clients are connected
    Clients,
    /// Print what the model holds, as JSON
    State,
}

impl Fault {
    /// The fault that words name.
    pub fn parse(words: &[String]) -> Result<Self, NotAFault> {
        let program = std::iter::once("nvsim fault");
        let all = program.chain(words.iter().map(String::as_str));
        Ok(Words::try_parse_from(all)?.fault)
    }
}

/// Asks the server at `socket` for a fault; what it says comes back.
pub fn ask(socket: &Path, words: &[&str]) -> Result<String, client::Failure> {
    let wire = Wire::connect(socket)?;
    let words = words.iter().map(|&word| word.to_owned()).collect();
    let answer = wire.ask(&Request::Fault(words))?;
    if answer.code == 0 { Ok(answer.text) } else { Err(client::Failure::Refused(answer.text)) }
}
