//! What one settlement rests on.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::grounds::{RulesAtHand, Ruling, grounds_of, ruling};
use super::nameless::{Nameless, nameless};
use super::{Chosen, MemoryExplained};
use crate::argv::CmdlineMode;
use crate::attribution::{Grounded, Process};
use crate::billing::{Why, journaled_process};
use crate::clock::Stamp;
use crate::escape::escape;
use crate::identity::{Basis, argv_words};
use crate::journal::Digest;
use crate::journal::entry::{Evidence, IdentityEvidence, KeptArgv, Moment, SettlementEvidence};
use crate::kernel::CgroupId;
use crate::place::without_secrets;
use crate::rendering::rfc3339;
use crate::settlement::{Account, Fit, RuleId, SettlementId};
use crate::unit::{BootNs, Bytes as Memory, GpuUuid, Ms, Pid, WallUs};
use crate::unknown::{DisputeReason, Flag, NamelessReason};

/// One settlement, explained.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// Its id.
    pub id: String,
    /// Number of its entry in the journal.
    pub seq: u64,
    /// That entry's hash; null where the daemon shows this reader none.
    pub hash: Option<String>,
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
    /// What has a name for it without a rule, the one that decides first; empty where that cannot be told any more.
    pub grounds: Vec<Grounded>,
    /// What of the GPU's memory its process was seen to hold, by samples: in no total; null where its
    /// entries were not looked through.
    pub memory: Option<MemoryExplained>,
    /// What rules had to say of it; null where none were in force, and no file of them is at hand.
    pub rules: Option<Ruling>,
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
    pub max_memory_bytes: Option<Memory>,
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
    /// The mode in force when it was entered, which says how much is stored for it; null where none were captured, and
    /// in entries of before that was said, of which no secret is shown.
    pub argv_mode: Option<&'static str>,
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
    /// Every image that it was seen to bear until it was entered, oldest first; null where that was not known, and in
    /// entries of before it was said.
    pub images: Option<Vec<BorneBy>>,
    /// How many more there were; null likewise.
    pub images_forgotten: Option<u64>,
    /// Programs that it descends from, by birth, the nearest first; null of one that nobody knows.
    pub ancestors: Vec<Option<Arc<str>>>,
    /// Control groups that it was seen in, in each hierarchy the last one last.
    pub cgroups: Vec<Group>,
}

/// An image that it bore.
#[derive(Clone, Debug, Serialize)]
pub struct BorneBy {
    /// Since when, RFC 3339; null where the clocks of that boot do not say.
    pub since: Option<String>,
    /// The same in nanoseconds since boot.
    pub since_boot_ns: u64,
    /// What it rests on: `exec`, `fork`, `procfs` or `journal`.
    pub basis: &'static str,
    /// The program; null where nobody knows.
    pub program: Option<Arc<str>>,
    /// Whether it is the one that is billed: in force when the row began.
    pub is_billed: bool,
}

/// A control group that it was seen in.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// `v2`, or `v1`: one with a controller of [`gpu_ledger_ebpf::CONTROLLERS`], since others are not watched.
    pub version: &'static str,
    /// The hierarchy, as `/proc/PID/cgroup` numbers it; 0 is v2.
    pub hierarchy: u32,
    /// Its path within that, escaped; null where nobody knows it.
    pub path: Option<String>,
}

/// Puts together what one settlement rests on.
pub(super) fn of(chosen: &Chosen, why: Option<Why>, at_hand: Option<&RulesAtHand>) -> Explained {
    let figures = &chosen.figures;
    let (at, evidence, argv) = match why {
        Some(Why { at, evidence: Evidence::Settlement(evidence), argv }) => {
            (Some(at), Some(evidence), argv)
        }
        _ => (None, None, None),
    };
    let place = |boot: BootNs| wall_of(at?, boot);
    let identity = evidence.as_ref().and_then(|evidence| evidence.identity.as_ref());
    let process = evidence.as_ref().zip(identity).map(|(evidence, identity)| {
        let argv = argv.as_ref().map(|kept| kept.argv.clone());
        let driver = &evidence.driver;
        Process {
            gpu_index: Some(driver.gpu_index),
            gpu_name: driver.gpu_name.as_ref().map(ToString::to_string),
            ..journaled_process(figures, identity, argv)
        }
    });
    let reason = figures.account.unattributed();
    Explained {
        id: SettlementId::of_parts(&figures.gpu, figures.pid, figures.start).to_string(),
        seq: chosen.seq,
        hash: (chosen.hash != Digest::NONE).then(|| chosen.hash.to_string()),
        account: figures.account.title(),
        rule: match figures.account {
            Account::Ruled { rule, .. } => Some(rule),
            Account::Unclassified { .. } | Account::Unattributed(_) => None,
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
        who: identity.map(|identity| who(identity, place, argv.as_ref())),
        nameless: reason
            .map(|reason| nameless(reason, figures, evidence.as_deref(), chosen.began, place)),
        grounds: process.as_ref().map_or_else(Vec::new, |process| grounds_of(figures, process)),
        memory: None,
        rules: ruling(figures, process.as_ref(), at_hand),
    }
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
    stored: Option<&KeptArgv>,
) -> Who {
    let shown = |bytes: &[u8]| escape(bytes).to_string();
    let group = |(cgroup, path): &(CgroupId, Option<Bytes>)| Group {
        version: if cgroup.hierarchy == 0 { "v2" } else { "v1" },
        hierarchy: cgroup.hierarchy,
        // Earlier versions kept it as it was.
        path: path.as_deref().map(|path| shown(&without_secrets(path))),
    };
    Who {
        born: place(identity.key.start),
        born_boot_ns: identity.key.start.0,
        born_is_exact: identity.start_is_exact,
        image_since_boot_ns: identity.image_since.0,
        fit: word_of(identity.fit),
        exe: (!identity.filename.is_empty()).then(|| shown(&identity.filename)),
        argv_mode: identity.argv.mode.map(CmdlineMode::as_str),
        argv_text: stored.map(|kept| kept.text.as_str()),
        argv: stored.map(|kept| argv_words(&kept.argv).into_iter().map(shown).collect()),
        argv_commitment: identity.argv.commitment.map(|digest| digest.to_string()),
        argv_length: identity.argv.true_length,
        euid: identity.user.euid,
        login_uid: identity.user.login_uid.uid(),
        images: identity.borne.as_ref().map(|borne| {
            let images = borne.images.iter().map(|image| BorneBy {
                since: place(image.since),
                since_boot_ns: image.since.0,
                basis: image.basis.as_str(),
                program: image.program.clone(),
                is_billed: image.since == identity.image_since,
            });
            images.collect()
        }),
        images_forgotten: identity.borne.as_ref().map(|borne| borne.forgotten),
        ancestors: identity.ancestors.iter().map(|one| one.program.clone()).collect(),
        cgroups: identity.cgroups.iter().map(group).collect(),
    }
}

pub(super) const fn word_of(fit: Fit) -> &'static str {
    match fit {
        Fit::Contains => "contains",
        Fit::MayContain => "may-contain",
        Fit::WithinTolerance => "within-tolerance",
        Fit::Outside => "outside",
    }
}
