//! What one settlement rests on.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::Chosen;
use crate::clock::Stamp;
use crate::escape::escape;
use crate::identity::{Basis, argv_words};
use crate::journal::Digest;
use crate::journal::entry::{
    Evidence, IdentityEvidence, KeptArgv, Moment, NamelessEvidence, SettlementEvidence,
};
use crate::journal::store::StoreError;
use crate::rendering::rfc3339;
use crate::settlement::{Account, Fit, RuleId, SettlementId};
use crate::unit::{BootNs, Bytes, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::{DisputeReason, Flag, GapCause, NamelessReason};

/// One settlement, explained.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// Its id.
    pub id: String,
    /// Number of its entry in the journal.
    pub seq: u64,
    /// That entry's hash.
    pub hash: String,
    /// On which line it stands.
    pub account: String,
    /// The rule that said so, by its place in the rule file; null where none did.
    pub rule: Option<RuleId>,
    /// Why it has no name; null where it has one.
    pub reason: Option<NamelessReason>,
    /// What the name rests on; null where there is none.
    pub basis: Option<Basis>,
    /// Which GPU.
    pub gpu_uuid: GpuUuid,
    /// The driver's pid.
    pub pid: Pid,
    /// The driver's `startTime`; null where it gave none.
    pub start_time_us: Option<WallUs>,
    /// The same, RFC 3339.
    pub start: Option<String>,
    /// The driver's `time`.
    pub held_ms: Ms,
    /// The program; null where nobody knows.
    pub program: Option<String>,
    /// The real user id; null where nobody knows.
    pub uid: Option<u32>,
    /// By what else it can be billed.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// What a reader should know.
    pub flags: Vec<Flag>,
    /// Why its milliseconds are not priced; null where they are.
    pub dispute: Option<DisputeReason>,
    /// What the driver said; null where its evidence is not in the journal any more.
    pub driver: Option<Driver>,
    /// Who it was; null where nobody knows.
    pub who: Option<Who>,
    /// What hides the name; null where there is one.
    pub nameless: Option<Nameless>,
}

/// What the driver said.
#[derive(Clone, Debug, Serialize)]
pub struct Driver {
    /// `real` or `simulated`.
    pub kind: Arc<str>,
    /// Its version; null where it said none.
    pub version: Option<Arc<str>>,
    /// The GPU's product name; null where it said none.
    pub gpu_name: Option<Arc<str>>,
    /// Where it enumerated.
    pub gpu_index: u32,
    /// Before the read that first showed the row final, RFC 3339.
    pub read_began: String,
    /// After it.
    pub read_ended: String,
    /// Peak device memory; null where the driver did not say.
    pub max_memory_bytes: Option<Bytes>,
    /// Percent of the span; null where the driver did not say.
    pub gpu_utilization: Option<u32>,
}

/// Who it was.
#[derive(Clone, Debug, Serialize)]
pub struct Who {
    /// When the process began, RFC 3339; null where the clocks of that boot do not say.
    pub born: Option<String>,
    /// The same in nanoseconds since boot.
    pub born_boot_ns: u64,
    /// Whether that is exact, and not to the clock's tick.
    pub born_is_exact: bool,
    /// Since when the image was in force, in nanoseconds since boot.
    pub image_since_boot_ns: u64,
    /// How the row's start fits its life.
    pub fit: &'static str,
    /// The file name given to exec, escaped; null where it was not had.
    pub exe: Option<String>,
    /// Its arguments as they are stored, each escaped; null where none are.
    pub argv: Option<Vec<String>>,
    /// How that differs from what was captured: `captured` not at all, `redacted`, `exe`; null where none are.
    pub argv_text: Option<&'static str>,
    /// The commitment to what was captured; null where nothing was.
    pub argv_commitment: Option<String>,
    /// Bytes that the arguments had; null where that could not be read.
    pub argv_length: Option<u64>,
    /// The effective user id; null where it could not be read.
    pub euid: Option<u32>,
    /// The login user id; null where none was set, or it could not be read.
    pub login_uid: Option<u32>,
    /// Programs that it descends from, by birth, the nearest first; null of one that nobody knows.
    pub ancestors: Vec<Option<Arc<str>>>,
    /// Paths of the control groups it was seen in, escaped; null of one whose path nobody knows.
    pub cgroups: Vec<Option<String>>,
}

/// What hides a name.
#[derive(Clone, Debug, Serialize)]
pub struct Nameless {
    /// What would have named it.
    pub remedy: &'static str,
    /// What was not seen: the cause; null where it was no gap.
    pub gap_cause: Option<GapCause>,
    /// From when, RFC 3339.
    pub gap_from: Option<String>,
    /// To when.
    pub gap_to: Option<String>,
    /// How many events or rows; null where not known.
    pub gap_size: Option<u64>,
    /// Processes of the pid that were weighed.
    pub weighed: Vec<Weighed>,
}

/// A process of the row's pid that was weighed.
#[derive(Clone, Debug, Serialize)]
pub struct Weighed {
    /// When it began, RFC 3339; null where the clocks of that boot do not say.
    pub born: Option<String>,
    /// When it ended; null where that was not known.
    pub ended: Option<String>,
    /// How the row's start fits its life.
    pub fit: &'static str,
}

/// Puts together what one settlement rests on.
pub(super) fn of(
    chosen: &Chosen,
    found: Option<(Moment, Evidence)>,
    argv: impl Fn(Digest) -> Result<Option<KeptArgv>, StoreError>,
) -> Result<Explained, StoreError> {
    let figures = &chosen.figures;
    let (at, evidence) = match found {
        Some((at, Evidence::Settlement(evidence))) => (Some(at), Some(evidence)),
        _ => (None, None),
    };
    let place = |boot: BootNs| wall_of(at?, boot);
    let identity = evidence.as_ref().and_then(|evidence| evidence.identity.as_ref());
    let reason = figures.account.unattributed();
    let hidden = evidence.as_ref().and_then(|evidence| evidence.nameless.as_ref());
    Ok(Explained {
        id: SettlementId::of_parts(&figures.gpu, figures.pid, figures.start).to_string(),
        seq: chosen.seq,
        hash: chosen.hash.to_string(),
        account: figures.account.title(),
        rule: match figures.account {
            Account::Ruled { rule, .. } => Some(rule),
            Account::Unclassified(_) | Account::Unattributed(_) => None,
        },
        reason,
        basis: figures.basis,
        gpu_uuid: figures.gpu.clone(),
        pid: figures.pid,
        start_time_us: figures.start,
        start: figures.start.map(rfc3339),
        held_ms: figures.held,
        program: figures.program.as_ref().map(ToString::to_string),
        uid: figures.uid,
        labels: figures.labels.iter().cloned().collect(),
        flags: figures.flags.iter().copied().collect(),
        dispute: chosen.dispute,
        driver: evidence.as_deref().map(driver),
        who: identity.map(|identity| who(identity, place, &argv)).transpose()?,
        nameless: reason.map(|reason| nameless(reason, hidden, place)),
    })
}

/// A moment of the entry's boot on its wall clock; `None` before 1970.
fn wall_of(at: Moment, boot: BootNs) -> Option<String> {
    let Stamp { boot: entered, wall, .. } = at.stamp;
    let us = if boot <= entered {
        wall.0.checked_sub(entered.0.checked_sub(boot.0)?.checked_div(1_000)?)?
    } else {
        wall.0.checked_add(boot.0.checked_sub(entered.0)?.checked_div(1_000)?)?
    };
    Some(rfc3339(WallUs(us)))
}

fn driver(evidence: &SettlementEvidence) -> Driver {
    let said = &evidence.driver;
    Driver {
        kind: Arc::clone(&said.kind),
        version: said.version.clone(),
        gpu_name: said.gpu_name.clone(),
        gpu_index: said.gpu_index,
        read_began: rfc3339(evidence.seen.began.wall),
        read_ended: rfc3339(evidence.seen.ended.wall),
        max_memory_bytes: evidence.row.memory_peak.known().copied(),
        gpu_utilization: evidence.row.utilization.known().copied(),
    }
}

fn who(
    identity: &IdentityEvidence,
    place: impl Fn(BootNs) -> Option<String>,
    argv: impl Fn(Digest) -> Result<Option<KeptArgv>, StoreError>,
) -> Result<Who, StoreError> {
    let shown = |bytes: &[u8]| escape(bytes).to_string();
    let stored = identity.argv.commitment.map(argv).transpose()?.flatten();
    Ok(Who {
        born: place(identity.key.start),
        born_boot_ns: identity.key.start.0,
        born_is_exact: identity.start_is_exact,
        image_since_boot_ns: identity.image_since.0,
        fit: word_of(identity.fit),
        exe: (!identity.filename.is_empty()).then(|| shown(&identity.filename)),
        argv_text: stored.as_ref().map(|kept| kept.text.as_str()),
        argv: stored.map(|kept| argv_words(&kept.argv).into_iter().map(shown).collect()),
        argv_commitment: identity.argv.commitment.map(|digest| digest.to_string()),
        argv_length: identity.argv.true_length,
        euid: identity.user.euid,
        login_uid: identity.user.login_uid.uid(),
        ancestors: identity.ancestors.iter().map(|one| one.program.clone()).collect(),
        cgroups: identity.cgroups.iter().map(|(_, path)| Some(shown(path.as_ref()?))).collect(),
    })
}

fn nameless(
    reason: NamelessReason,
    hidden: Option<&NamelessEvidence>,
    place: impl Fn(BootNs) -> Option<String>,
) -> Nameless {
    let gap = hidden.and_then(|hidden| hidden.gap.as_ref());
    let weighed = hidden.map_or(&[][..], |hidden| &hidden.candidates);
    Nameless {
        remedy: remedy(reason),
        gap_cause: gap.map(|gap| gap.cause),
        gap_from: gap.map(|gap| rfc3339(gap.from.wall)),
        gap_to: gap.map(|gap| rfc3339(gap.to.wall)),
        gap_size: gap.and_then(|gap| gap.size),
        weighed: weighed
            .iter()
            .map(|one| Weighed {
                born: place(one.key.start),
                ended: one.ended.and_then(|ended| place(ended.at)),
                fit: word_of(one.fit),
            })
            .collect(),
    }
}

const fn word_of(fit: Fit) -> &'static str {
    match fit {
        Fit::Contains => "contains",
        Fit::MayContain => "may-contain",
        Fit::WithinTolerance => "within-tolerance",
        Fit::Outside => "outside",
    }
}

/// What would have named it.
const fn remedy(reason: NamelessReason) -> &'static str {
    match reason {
        NamelessReason::PredatesCoverage => {
            "the process was gone before process events were received; start the daemon before the jobs, \
             at boot"
        }
        NamelessReason::AgentDown => {
            "nobody watched processes then; keep the daemon running (systemctl enable --now gpu-ledger)"
        }
        NamelessReason::EventLost => {
            "the event that names it was lost; a larger ring_size loses less, and `gpu-ledger status` \
             counts what is lost"
        }
        NamelessReason::IdentityEvicted => {
            "its identity had to be forgotten before its row could be read; the rows were read too late, \
             which `gpu-ledger status` and the log explain"
        }
        NamelessReason::PidAmbiguous => {
            "several processes of that pid fit, as the clocks were set then; keep the clock in step"
        }
        NamelessReason::NoStartTime => {
            "the driver gave the row no start time, and a pid alone names nobody"
        }
        NamelessReason::RowSpansTwoLifetimes => {
            "two processes of that pid lived while the row ran, as another process kept its device open"
        }
    }
}
