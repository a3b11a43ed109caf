//! What is entered: the types.
//!
//! An entry has two parts. Its **figures** are what a bill sums: small, read and hashed again for every
//! bill. Its **evidence** is what named it and what the driver said: read by those who ask why,
//! and bound to the entry by its digest. Arguments of processes stand in neither, but beside the chain
//! under a commitment, so that they alone can be deleted (see [`super::commitment`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes as RawBytes;

use super::Digest;
use crate::accounting::reading::ModeAround;
use crate::accounting::{Busy, Row, RowKey, Window};
use crate::argv::{CmdlineMode, StoredText};
use crate::clock::Stamp;
use crate::coverage::Gap;
use crate::identity::{Basis, Ended, User};
use crate::kernel::{Argv, ArgvState, CgroupId, ProcessKey};
use crate::memory::Stretch;
use crate::settlement::{Account, Balance, Candidate, Fit};
use crate::unit::{BootNs, Bytes, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::{DisputeReason, Flag, GapCause};

/// One boot of one machine (`/proc/sys/kernel/random/boot_id`): boot times of two are not comparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BootId(pub u128);

/// A moment, and the boot whose clocks it was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// Which boot.
    pub boot: BootId,
    /// Its clocks.
    pub stamp: Stamp,
}

/// What is to be entered: everything but its number, its place in the chain and the sums so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    /// When it was learnt.
    pub at: Moment,
    /// What a bill sums.
    pub figures: Figures,
    /// What it rests on.
    pub evidence: Evidence,
    /// The arguments its evidence commits to, to be kept beside the chain.
    pub argv: Option<KeptArgv>,
}

/// Argument bytes on their way to the table beside the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptArgv {
    /// Under which commitment: over what was captured.
    pub commitment: Digest,
    /// The mode that said how much of it is kept; `None` of what was kept before entries said so.
    pub mode: Option<CmdlineMode>,
    /// What is kept of it, with the true length and state of all of it.
    pub argv: Argv,
    /// How what is kept differs from what was captured.
    pub text: StoredText,
}

impl KeptArgv {
    /// Where it is kept.
    #[must_use]
    pub const fn place(&self) -> ArgvPlace {
        ArgvPlace { commitment: self.commitment, mode: self.mode }
    }
}

/// Where arguments are kept beside the chain. What is kept belongs to the mode that was in force when an entry was
/// drafted: the same arguments under another mode are another text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ArgvPlace {
    /// The commitment to what was captured.
    pub commitment: Digest,
    /// The mode; `None` of an entry that does not say it.
    pub mode: Option<CmdlineMode>,
}

/// One entry of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its number, from 1, without holes.
    pub seq: u64,
    /// When it was learnt.
    pub at: Moment,
    /// What a bill sums.
    pub figures: Figures,
    /// Digest of its evidence's canonical bytes.
    pub evidence: Digest,
    /// Hash of the entry before it.
    pub previous: Digest,
    /// Its own.
    pub hash: Digest,
}

/// The part of an entry that a bill sums.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Figures {
    /// A final row, booked exactly once.
    Settlement(Box<SettlementFigures>),
    /// A holder of a GPU that was seen for the first time and is not booked yet, or never will be.
    Open(Box<OpenFigures>),
    /// What an earlier entry says is to be read otherwise.
    Correction(Correction),
    /// A booked key was read again with other contents.
    Conflict(ConflictFigures),
    /// An interval that could not be seen.
    Gap(Gap),
    /// A GPU's accounting was found on, or was lost.
    Epoch(Epoch),
    /// The agent began, or ended in order.
    Coverage(CoverageEdge),
    /// Up to here everything was seen.
    Mark(Mark),
    /// Who held how much memory: sampled, in no balance.
    Memory(Box<Stretch>),
    /// With which key checkpoints are signed from here on.
    Key(Box<KeyChange>),
    /// A period's bill is fixed.
    Closed(Box<ClosedPeriod>),
}

impl Figures {
    /// The word of its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Settlement(_) => "settlement",
            Self::Open(_) => "open",
            Self::Correction(_) => "correction",
            Self::Conflict(_) => "conflict",
            Self::Gap(_) => "gap",
            Self::Epoch(_) => "epoch",
            Self::Coverage(_) => "coverage",
            Self::Mark(_) => "mark",
            Self::Memory(_) => "memory",
            Self::Key(_) => "key",
            Self::Closed(_) => "closed",
        }
    }
}

/// The figures of a settlement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettlementFigures {
    /// Which GPU.
    pub gpu: GpuUuid,
    /// The driver's pid.
    pub pid: Pid,
    /// The driver's `startTime`; `None` where it gave none.
    pub start: Option<WallUs>,
    /// The driver's `time`.
    pub held: Ms,
    /// End of the read that first showed the row final.
    pub read_at: Stamp,
    /// On whose account; the reason where nobody can say.
    pub account: Account,
    /// The program, where it is known.
    pub program: Option<Arc<str>>,
    /// The real user id, where it is known.
    pub uid: Option<u32>,
    /// What the name rests on; `None` where there is no name.
    pub basis: Option<Basis>,
    /// What a reader should know.
    pub flags: BTreeSet<Flag>,
    /// Why its milliseconds are not priced.
    pub dispute: Option<DisputeReason>,
    /// How much of the span the machine slept through; `None` where not observed.
    pub asleep: Option<Ms>,
    /// How busy the GPU was for it, where that was sampled.
    pub busy: Option<Busy>,
    /// Peak device memory; `None` where not known (the reason is in the evidence).
    pub memory_peak: Option<Bytes>,
    /// The open entry that it replaces.
    pub opened: Option<u64>,
    /// Further lines it can be billed by, as (dimension, value), ascending.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// What was ever booked of this GPU, this settlement included. Written by the chain.
    pub booked: Balance,
}

impl SettlementFigures {
    /// The booking key, where the driver gave a start time.
    #[must_use]
    pub fn key(&self) -> Option<RowKey> {
        self.start.map(|start| RowKey { gpu: self.gpu.clone(), pid: self.pid, start })
    }
}

/// What an open entry is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OpenKind {
    /// A row that runs.
    Row,
    /// A row that runs behind a dead one of its pid: its start is not known.
    Masked,
    /// A process that holds the device and has no row (older than accounting, or accounting is off).
    NoDriverRow,
}

/// The figures of an open entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenFigures {
    /// What it is about.
    pub kind: OpenKind,
    /// Which GPU.
    pub gpu: GpuUuid,
    /// The driver's pid.
    pub pid: Pid,
    /// The driver's `startTime`, where it showed one.
    pub start: Option<WallUs>,
    /// Begin and end of the read that first showed it.
    pub first_seen: Window,
    /// On whose account.
    pub account: Account,
    /// The program, where it is known.
    pub program: Option<Arc<str>>,
    /// The real user id, where it is known.
    pub uid: Option<u32>,
    /// What the name rests on; `None` where there is no name.
    pub basis: Option<Basis>,
    /// Further lines it can be billed by, as (dimension, value), ascending.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// Device memory of a holder without a row when it was first seen, where that was told. Left out of the
    /// entry's bytes where it was not.
    pub memory: Option<Bytes>,
}

impl OpenFigures {
    /// The booking key that it will settle under, where the driver showed a start time.
    #[must_use]
    pub fn key(&self) -> Option<RowKey> {
        self.start.map(|start| RowKey { gpu: self.gpu.clone(), pid: self.pid, start })
    }
}

/// What an earlier entry says is to be read otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Correction {
    /// Number of the entry that it corrects.
    pub of: u64,
    /// How.
    pub change: Change,
}

/// How an entry is corrected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// An open entry is over and will not settle.
    Ended {
        /// When it was last seen to hold the GPU.
        last_seen: Stamp,
        /// How its row was lost; `None` where it never had one and merely ended.
        cause: Option<GapCause>,
    },
    /// A settlement or an open entry stands on another account.
    Account(Account),
}

/// A booked key that was read again with other contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConflictFigures {
    /// Number of the settlement that was booked under the key.
    pub of: u64,
    /// End of the read that showed the other contents.
    pub read_at: Stamp,
}

/// One edge of an accounting epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Epoch {
    /// Which GPU.
    pub gpu: GpuUuid,
    /// When.
    pub at: Stamp,
    /// Which edge.
    pub edge: EpochEdge,
}

/// Which edge of an epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EpochEdge {
    /// Accounting is on from here.
    Began {
        /// Where the GPU enumerates.
        index: u32,
        /// Its product name, where the driver said it.
        name: Option<Arc<str>>,
    },
    /// It was on, and is not known to be any more.
    Ended {
        /// Why.
        cause: GapCause,
    },
}

/// One edge of the agent's own time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CoverageEdge {
    /// Process events are received, and rows read, from here on.
    Began {
        /// Since when.
        at: Stamp,
        /// The host's name.
        host: Arc<str>,
        /// Whether opens of NVIDIA devices are seen.
        device_touch: bool,
        /// Whether process events could be had at all.
        process_events: bool,
    },
    /// The agent ended in order: until here everything was taken in.
    Ended {
        /// When.
        at: Stamp,
    },
}

/// That everything up to here was seen, and what is still unresolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Process events were taken in up to here.
    pub processes_until: Stamp,
    /// Of each GPU.
    pub gpus: Vec<GpuMark>,
    /// Numbers of the open entries that neither settled nor ended, ascending. With the entries
    /// after it this is all that is open.
    pub unresolved: Vec<u64>,
    /// What somebody wanted to remember of this moment.
    pub note: Option<Arc<str>>,
}

/// What a mark says of one GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuMark {
    /// Which.
    pub gpu: GpuUuid,
    /// The last read that brought a list, or the answer that accounting is off.
    pub last_good: Option<Window>,
    /// Dead rows in the driver's store at that read; at 128 it evicts.
    pub dead_rows: Option<u64>,
    /// Since when its lists are empty and nobody could say that they really are, since a mode that was
    /// reset looks the same: until a later list proves more, its holders are not known from then on.
    /// Left out of the entry's bytes where there is none.
    pub doubted_since: Option<Stamp>,
}

/// A key begins to sign.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyChange {
    /// The key, as a verifier key of a signed note.
    pub key: Arc<str>,
    /// The key that signed until then; `None` of the journal's first.
    pub previous: Option<Arc<str>>,
    /// That one's signature over the new key ([`super::note`] has the text); `None` of the first.
    pub signature: Option<RawBytes>,
}

/// A period whose bill stays as it is, whatever comes later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClosedPeriod {
    /// What it is called: `2026-10`, or its two moments.
    pub name: Arc<str>,
    /// Its first moment.
    pub from: WallUs,
    /// The first moment after it.
    pub to: WallUs,
    /// The time zone that its days are those of.
    pub zone: Arc<str>,
    /// Number of the last entry that the bill is made of.
    pub through: u64,
    /// Root of the tree of these entries.
    pub tree: Digest,
    /// What a line of it stands for.
    pub by: Arc<str>,
    /// How shared time is divided on it.
    pub share: Arc<str>,
    /// SHA-256 of the prices that it goes by; `None` where it has none.
    pub prices: Option<Digest>,
    /// The bill itself: the word of each form and the SHA-256 of its bytes, ascending.
    pub documents: Vec<(Arc<str>, Digest)>,
    /// Version of the program that made it.
    pub version: Arc<str>,
}

/// The part of an entry that answers why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// Nothing beyond the figures.
    None,
    /// Of a settlement.
    Settlement(Box<SettlementEvidence>),
    /// Of an open entry.
    Open(Box<OpenEvidence>),
    /// Of a conflict: the row as it reads now.
    Conflict {
        /// The row.
        row: Box<Row>,
        /// The read.
        seen: Window,
    },
    /// Of an epoch's beginning.
    Epoch(DriverSaid),
    /// Of the agent's beginning.
    Coverage(AgentFacts),
}

impl Evidence {
    /// Who it was, where it is about somebody and that is known.
    #[must_use]
    pub fn identity(&self) -> Option<&IdentityEvidence> {
        match self {
            Self::Settlement(evidence) => evidence.identity.as_ref(),
            Self::Open(evidence) => evidence.identity.as_ref(),
            Self::None | Self::Conflict { .. } | Self::Epoch(_) | Self::Coverage(_) => None,
        }
    }

    /// Where the arguments that it commits to are kept, if any were captured.
    #[must_use]
    pub fn argv_place(&self) -> Option<ArgvPlace> {
        self.identity()?.argv.place()
    }
}

/// What a settlement rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettlementEvidence {
    /// On which host.
    pub host: Arc<str>,
    /// Who said how much.
    pub driver: DriverSaid,
    /// What the driver said, every field.
    pub row: Row,
    /// The read that first showed it final.
    pub seen: Window,
    /// Who it was, where that is known.
    pub identity: Option<IdentityEvidence>,
    /// What hides the name, where it is not.
    pub nameless: Option<NamelessEvidence>,
    /// What made it; `None` of entries from before this was said, and left out of the entry's bytes then.
    pub provenance: Option<Provenance>,
}

/// By what a settlement was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// The version that the driver's library says it has; `None` where it said none.
    pub library: Option<Arc<str>>,
    /// The accounting mode around the list that the row stood on.
    pub mode: ModeAround,
    /// SHA-256 of the file of rules that it was attributed by; `None` where there was none.
    pub rules: Option<Digest>,
    /// The program.
    pub agent: AgentFacts,
}

/// What an open entry rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenEvidence {
    /// What the driver said of the row; `None` where there is none.
    pub row: Option<Row>,
    /// Who it is, where that is known.
    pub identity: Option<IdentityEvidence>,
}

/// The driver that was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriverSaid {
    /// `real` or `simulated`.
    pub kind: Arc<str>,
    /// Its version, where it said one.
    pub version: Option<Arc<str>>,
    /// Whether rows carry utilization sums.
    pub stats_v2: bool,
    /// Where the GPU enumerates.
    pub gpu_index: u32,
    /// The GPU's product name, where the driver said it.
    pub gpu_name: Option<Arc<str>>,
}

/// The identity that a row was joined to, with everything that speaks for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdentityEvidence {
    /// Of which boot.
    pub boot: BootId,
    /// Which process.
    pub key: ProcessKey,
    /// Whether its start is exact to the nanosecond.
    pub start_is_exact: bool,
    /// How the row's start fits its life.
    pub fit: Fit,
    /// What the image rests on.
    pub basis: Basis,
    /// Since when the image was in force.
    pub image_since: BootNs,
    /// The file name given to exec, any bytes.
    pub filename: RawBytes,
    /// Device and inode of the executable, where known.
    pub exe: Option<(u64, u64)>,
    /// Its arguments, committed to and not shown.
    pub argv: ArgvEvidence,
    /// Whose.
    pub user: User,
    /// Who it was born under, nearest first, as far as known: process and program.
    pub ancestors: Vec<Ancestor>,
    /// Control groups it was seen in, with their paths where those are known.
    pub cgroups: Vec<(CgroupId, Option<RawBytes>)>,
    /// Its end, as far as it was known when it was entered.
    pub ended: Option<Ended>,
    /// Every image that it was seen to bear until then; `None` where that was not known, and of entries from before
    /// this was said. Left out of the entry's bytes then.
    pub borne: Option<BorneImages>,
}

/// The images of one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BorneImages {
    /// Oldest first; at most [`crate::identity::IMAGES_MAX`].
    pub images: Vec<BorneImage>,
    /// How many more there were, which were forgotten.
    pub forgotten: u64,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BorneImage {
    /// Since when it was in force.
    pub since: BootNs,
    /// What it rests on.
    pub basis: Basis,
    /// The program, where known.
    pub program: Option<Arc<str>>,
}

/// One ancestor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ancestor {
    /// Which process.
    pub key: ProcessKey,
    /// What it ran when the child was born, where known.
    pub program: Option<Arc<str>>,
}

/// Arguments, committed to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArgvEvidence {
    /// The commitment; `None` where no bytes were captured.
    pub commitment: Option<Digest>,
    /// How many bytes were captured.
    pub captured_length: u64,
    /// How many there were; `None` where that could not be read.
    pub true_length: Option<u64>,
    /// How complete they are.
    pub state: ArgvState,
    /// The mode in force when it was entered, which says how much of them is kept for this entry. `None` where
    /// nothing was captured, and of entries from before this was said; left out of the entry's bytes then.
    pub mode: Option<CmdlineMode>,
}

impl ArgvEvidence {
    /// Where they are kept, if they are.
    #[must_use]
    pub fn place(&self) -> Option<ArgvPlace> {
        self.commitment.map(|commitment| ArgvPlace { commitment, mode: self.mode })
    }
}

/// What hides a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamelessEvidence {
    /// The gap, where it is one.
    pub gap: Option<Gap>,
    /// Lifetimes of the pid that were weighed.
    pub candidates: Vec<Candidate>,
}

/// The agent, as it was when it began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentFacts {
    /// Its version.
    pub version: Arc<str>,
    /// SHA-256 of the kernel object.
    pub object: Digest,
    /// Kernel release (`uname -r`).
    pub kernel: Arc<str>,
}
