//! The figures and the evidence of what was told, field by field.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::accounting::Window;
use crate::accounting::reading::Holder;
use crate::argv::{CmdlineMode, Stored, stored, stored_file};
use crate::clock::Stamp;
use crate::host::{Bearer, Opened, Settled, Whose};
use crate::identity::{Basis, Image, Program};
use crate::journal::commitment::CommitmentKey;
use crate::journal::entry::{
    Ancestor, ArgvEvidence, BootId, BorneImage, BorneImages, DriverSaid, IdentityEvidence,
    KeptArgv, NamelessEvidence, OpenEvidence, OpenFigures, OpenKind, SettlementEvidence,
    SettlementFigures,
};
use crate::kernel::{Argv, ProcessKey};
use crate::settlement::{Attribution, Balance, Fit, Named};
use crate::unit::{BootNs, GpuUuid};

/// With what identities are entered.
pub(super) struct Keeping<'a> {
    pub(super) boot: BootId,
    pub(super) key: &'a CommitmentKey,
    /// How much of arguments is kept.
    pub(super) mode: CmdlineMode,
    /// What earlier runs committed to of images that were open when they ended.
    pub(super) earlier: &'a BTreeMap<(ProcessKey, BootNs), ArgvEvidence>,
}

/// The figures of a settlement. What it replaces and the sums are put in by binder and chain.
pub(super) fn settlement_figures(settled: &Settled) -> SettlementFigures {
    let (settlement, whose) = (&settled.settlement, &settled.whose);
    let row = &settlement.row;
    SettlementFigures {
        gpu: row.gpu.clone(),
        pid: row.pid,
        start: row.start,
        held: row.held,
        read_at: settlement.seen.ended,
        account: whose.account.clone(),
        program: name_of(whose.program.as_ref()),
        uid: settlement.attribution.named().and_then(|named| named.image.user.uid),
        basis: settlement.attribution.basis(),
        flags: settlement.flags.clone(),
        dispute: settlement.dispute,
        asleep: settlement.asleep.known().copied(),
        busy: settlement.busy.clone(),
        memory_peak: row.memory_peak.known().copied(),
        opened: None,
        labels: whose.labels.clone(),
        booked: Balance::default(),
    }
}

pub(super) fn of_settlement(
    settled: &Settled,
    host: &Arc<str>,
    driver: DriverSaid,
    keeping: &Keeping<'_>,
) -> (SettlementEvidence, Option<KeptArgv>) {
    let settlement = &settled.settlement;
    let (identity, nameless, argv) = match &settlement.attribution {
        Attribution::Named(named) => {
            let (identity, argv) = identity(named, &settled.whose, keeping);
            (Some(identity), None, argv)
        }
        Attribution::Nameless(nameless) => {
            let (gap, candidates) = (nameless.gap.clone(), nameless.candidates.clone());
            (None, Some(NamelessEvidence { gap, candidates }), None)
        }
    };
    let (host, row, seen) = (Arc::clone(host), settlement.row.clone(), settlement.seen);
    // The drafter knows it.
    let provenance = None;
    (SettlementEvidence { host, driver, row, seen, identity, nameless, provenance }, argv)
}

pub(super) fn open_figures(opened: &Opened) -> OpenFigures {
    let (row, whose) = (&opened.row, &opened.whose);
    OpenFigures {
        kind: super::kind_of(row),
        gpu: row.gpu.clone(),
        pid: row.pid,
        start: row.start,
        first_seen: row.first_seen,
        account: whose.account.clone(),
        program: name_of(whose.program.as_ref()),
        uid: opened.attribution.named().and_then(|named| named.image.user.uid),
        basis: opened.attribution.basis(),
        labels: whose.labels.clone(),
        // A row is seen when its process has hardly begun: that it holds next to nothing then says nothing.
        memory: None,
    }
}

pub(super) fn of_opened(
    opened: &Opened,
    keeping: &Keeping<'_>,
) -> (Box<OpenEvidence>, Option<KeptArgv>) {
    let named = opened.attribution.named();
    let (identity, argv) = named.map(|named| identity(named, &opened.whose, keeping)).unzip();
    (Box::new(OpenEvidence { row: opened.row.row.clone(), identity }), argv.flatten())
}

pub(super) fn rowless_figures(
    gpu: &GpuUuid,
    holder: &Holder,
    since: Stamp,
    bearer: &Bearer,
) -> OpenFigures {
    let image = bearer.image.as_ref();
    OpenFigures {
        kind: OpenKind::NoDriverRow,
        gpu: gpu.clone(),
        pid: holder.pid,
        start: None,
        first_seen: Window { began: since, ended: since },
        account: bearer.account.clone(),
        program: name_of(image.and_then(|image| Program::of(&image.content)).as_ref()),
        uid: image.and_then(|image| image.user.uid),
        basis: image.map(|image| image.basis),
        labels: bearer.labels.clone(),
        memory: holder.memory.known().copied(),
    }
}

/// Of a holder without a row: who bears the pid, with nothing that a row's start could fit.
pub(super) fn of_bearer(
    bearer: &Bearer,
    keeping: &Keeping<'_>,
) -> (Box<OpenEvidence>, Option<KeptArgv>) {
    let known = bearer.key.zip(bearer.image.as_ref());
    let (identity, argv) = known
        .map(|(process, image)| {
            let around = Around {
                key: process,
                // procfs tells a start to the clock tick.
                start_is_exact: image.basis != Basis::Procfs,
                fit: Fit::MayContain,
            };
            imaged(image, &around, keeping)
        })
        .unzip();
    (Box::new(OpenEvidence { row: None, identity }), argv.flatten())
}

struct Around {
    key: ProcessKey,
    start_is_exact: bool,
    fit: Fit,
}

fn identity(
    named: &Named,
    whose: &Whose,
    keeping: &Keeping<'_>,
) -> (IdentityEvidence, Option<KeptArgv>) {
    let Named { key: process, start_is_exact, image, ended, fit, .. } = named;
    let around = Around { key: *process, start_is_exact: *start_is_exact, fit: *fit };
    let (mut identity, argv) = imaged(image, &around, keeping);
    identity.ended = *ended;
    let ancestors = whose.ancestors.iter();
    identity.ancestors = ancestors
        .map(|one| Ancestor { key: one.key, program: name_of(one.program.as_ref()) })
        .collect();
    identity.borne = whose.borne.as_ref().map(|(images, forgotten)| BorneImages {
        images: images
            .iter()
            .map(|one| BorneImage {
                since: one.since,
                basis: one.basis,
                program: name_of(one.program.as_ref()),
            })
            .collect(),
        forgotten: *forgotten,
    });
    identity.cgroups = whose.cgroups.iter().map(|one| (one.cgroup, one.path.clone())).collect();
    (identity, argv)
}

fn imaged(
    image: &Image,
    around: &Around,
    keeping: &Keeping<'_>,
) -> (IdentityEvidence, Option<KeptArgv>) {
    let content = &image.content;
    let (argv, kept) = arguments(&content.argv, (around.key, image.since), keeping);
    let identity = IdentityEvidence {
        boot: keeping.boot,
        key: around.key,
        start_is_exact: around.start_is_exact,
        fit: around.fit,
        basis: image.basis,
        image_since: image.since,
        filename: Bytes::from(stored_file(&content.filename, keeping.mode).into_owned()),
        exe: content.exe,
        argv,
        user: image.user,
        ancestors: Vec::new(),
        cgroups: Vec::new(),
        ended: None,
        borne: None,
    };
    (identity, kept)
}

/// What is committed to of arguments, and what is kept of them.
fn arguments(
    argv: &Argv,
    image: (ProcessKey, BootNs),
    keeping: &Keeping<'_>,
) -> (ArgvEvidence, Option<KeptArgv>) {
    // What is captured is bounded far below what has no commitment.
    let commitment = if argv.bytes.is_empty() { None } else { keeping.key.commit(argv).ok() };
    // An earlier run captured this image's, and what was kept may be less: its word stands.
    let earlier = keeping.earlier.get(&image).filter(|earlier| earlier.commitment.is_some());
    if let Some(earlier) = earlier.filter(|earlier| earlier.commitment != commitment) {
        let mode = no_more_than(earlier.mode, keeping.mode);
        return (ArgvEvidence { mode, ..earlier.clone() }, None);
    }
    let evidence = ArgvEvidence {
        commitment,
        // A `usize` is at most 64 bits wide wherever this runs.
        captured_length: u64::try_from(argv.bytes.len()).unwrap_or(u64::MAX),
        true_length: argv.true_length,
        state: argv.state,
        mode: commitment.map(|_| keeping.mode),
    };
    let kept = commitment.and_then(|commitment| {
        let Stored { bytes, text } = stored(argv, keeping.mode);
        let argv = Argv { bytes: bytes?, ..argv.clone() };
        Some(KeptArgv { commitment, mode: Some(keeping.mode), argv, text })
    });
    (evidence, kept)
}

/// What an earlier run kept stands for an entry of now as far as the mode of now would have kept as much. Less than
/// that cannot be made of it here, as what is at hand need not be what was captured: then nothing is kept.
fn no_more_than(earlier: Option<CmdlineMode>, now: CmdlineMode) -> Option<CmdlineMode> {
    match earlier {
        Some(earlier) if earlier <= now => Some(earlier),
        // Which mode it was is not known: of such a text no secret is told, whichever it was.
        None if now >= CmdlineMode::Redacted => None,
        Some(_) | None => Some(CmdlineMode::None),
    }
}

fn name_of(program: Option<&Program>) -> Option<Arc<str>> {
    program.map(|program| Arc::from(program.to_string()))
}
