//! What other rules would have billed: the same settlements, each on the account that those rules give it.
//!
//! Both bills are made of one reading, so that they are of the same entries. Nothing is written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{Source, Why};
use crate::argv::{CmdlineMode, StoredText};
use crate::attribution::rules::{RuleSet, Ruled};
use crate::attribution::{
    Attributor, ContainerNames, Label, Process, Users, label_of, labels_of_names, last_paths,
};
use crate::bill::ledger::Ledger;
use crate::bill::period::{Asked, Standpoint, moment_of};
use crate::bill::report::{Ask, Head, Outside, Report, Tree, report};
use crate::bill::{By, SharePolicy};
use crate::clock::Clock;
use crate::escape::unescape;
use crate::identity::{Program, argv_words};
use crate::journal::Entry;
use crate::journal::entry::{
    ArgvEvidence, Evidence, Figures, IdentityEvidence, KeptArgv, SettlementEvidence,
    SettlementFigures,
};
use crate::kernel::Argv;
use crate::place::{Place, without_secrets};
use crate::settlement::{Account, Ground, NamedBy};
use crate::unit::Ms;

/// The name of the format.
const FORMAT: &str = "gpu-ledger-rules-replay";
/// Its version.
const VERSION: u32 = 1;

/// What is to be replayed.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// The period.
    pub asked: Asked,
    /// The time zone.
    pub zone: TimeZone,
    /// The clocks.
    pub clock: Clock,
    /// Where the rules are from.
    pub file: Option<PathBuf>,
    /// The rules.
    pub rules: Arc<RuleSet>,
}

/// What is billed, beside what would be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(Default))]
pub struct Replay {
    format: &'static str,
    version: u32,
    /// Where the rules are from; null where there is no file.
    pub file: Option<PathBuf>,
    /// SHA-256 of it.
    pub sha256: String,
    /// The period's first moment, RFC 3339 in UTC.
    pub since: String,
    /// The first moment after it, RFC 3339 in UTC.
    pub until: String,
    /// Settlements that meet the period, the same in both bills.
    pub settlements_total: u64,
    /// Their milliseconds, the same in both bills.
    pub span_ms_total: u128,
    /// How many of them are unattributed, and so in no line; the same in both bills.
    pub unattributed_settlements: u64,
    /// Their milliseconds.
    pub unattributed_ms: u128,
    /// One line an account of either bill, the largest difference first.
    pub accounts: Vec<ReplayLine>,
    /// Settlements read that stand as they are booked, since their evidence is not in the journal any more.
    pub without_evidence: u64,
    /// Settlements read of which not all is stored, or not any more, that a rule looks at of arguments: they themselves,
    /// the model that they name, or the file that was executed.
    pub without_argv: u64,
    /// Settlements read from before entries said how much of their arguments was kept, where a rule looks at arguments:
    /// what it saw then may be other than what it is shown.
    pub argv_of_unknown_mode: u64,
    /// A rule looks at a container's or pod's labels, which a settlement has only where a rule looked at them when it
    /// was booked.
    pub looks_at_labels: bool,
    /// The only user whose settlements were replayed, since the daemon shows this reader no other's; null where all
    /// were.
    pub only_uid: Option<u32>,
}

/// One account.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ReplayLine {
    /// Its name.
    pub account: String,
    /// What gave it that; null where the line is another user's.
    pub named_by: Option<NamedBy>,
    /// What is billed.
    pub booked: Billed,
    /// What would be.
    pub would_be: Billed,
}

/// One account on one bill, of what is settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Billed {
    /// Its settlements.
    pub settlements: u64,
    /// Union of their spans over each GPU, summed over the GPUs: what a bill prices.
    pub held_ms: Ms,
    /// Plain sum of their spans. Over all accounts the same on both bills, which the union is not.
    pub span_ms_total: Ms,
}

/// Makes both bills.
///
/// # Errors
/// Those of reading the journal and of the period; that the two bills do not agree on what was held.
pub(crate) fn replay(options: &ReplayOptions, source: &mut dyn Source) -> anyhow::Result<Replay> {
    let now = moment_of(options.clock.now().wall.ms());
    let mut standpoint = Standpoint { now, latest_ms: None, zone: options.zone.clone() };
    let span = standpoint.reading(&options.asked)?;
    let mut replaying = Replaying { rules: &options.rules, unseen: Unseen::default() };
    let (mut booked, mut would_be) =
        (Ledger::for_bill_by(By::Account), Ledger::for_bill_by(By::Account));
    let end = source.visit_with_why(span, &mut |entry, why| {
        replaying.take(entry, why, &mut booked, &mut would_be)
    })?;
    booked.finish(&end)?;
    would_be.finish(&end)?;
    let read_at_ms = options.clock.now().wall.ms();
    standpoint.latest_ms = booked.latest_ms().filter(|latest| *latest > read_at_ms);
    let ask = Ask {
        period: standpoint.period(&options.asked)?,
        by: By::Account,
        share: SharePolicy::None,
        gpus: Vec::new(),
        accounts: Vec::new(),
        prices: None,
    };
    let tree = Tree::Unknown("a replay is no bill");
    let head = Head { seq: end.head.seq, hash: end.head.hash, tree };
    let only_uid = source.outside(&booked)?.reading.only_uid;
    let of = |ledger: &Ledger| report(ledger, &ask, head, &Outside::default());
    let (booked, would_be) = (of(&booked)?, of(&would_be)?);
    agree(&booked, &would_be)?;
    let Unseen { evidence, argv, argv_of_unknown_mode } = replaying.unseen;
    Ok(Replay {
        format: FORMAT,
        version: VERSION,
        file: options.file.clone(),
        sha256: options.rules.digest().to_string(),
        since: booked.period.since.clone(),
        until: booked.period.until.clone(),
        settlements_total: booked.settlements_total,
        span_ms_total: booked.span_ms_total,
        unattributed_settlements: booked.unattributed.iter().map(|line| line.count).sum(),
        unattributed_ms: booked
            .unattributed
            .iter()
            .map(|line| u128::from(line.span_ms_total.0))
            .sum(),
        accounts: lines(&booked, &would_be),
        without_evidence: evidence,
        without_argv: argv,
        argv_of_unknown_mode,
        looks_at_labels: options.rules.labels().next().is_some(),
        only_uid,
    })
}

/// Rules change on whose line a settlement stands, and nothing else.
fn agree(booked: &Report, would_be: &Report) -> anyhow::Result<()> {
    let totals = |report: &Report| {
        let gpus = report.gpus.iter().map(|gpu| {
            (gpu.gpu_uuid.clone(), [gpu.alone_ms, gpu.shared_ms, gpu.free_ms, gpu.uncovered_ms])
        });
        let unattributed: u128 =
            report.unattributed.iter().map(|line| u128::from(line.span_ms_total.0)).sum();
        let disputed: u128 = report.disputed.iter().map(|line| line.raw_ms).sum();
        let sums = [report.span_ms_total, unattributed, disputed];
        (report.settlements_total, sums, gpus.collect::<Vec<_>>())
    };
    anyhow::ensure!(
        totals(booked) == totals(would_be),
        "the bill and what it would be do not agree on what was held; this is a bug, please report it"
    );
    Ok(())
}

/// One side of a line.
type Side = fn(&mut ReplayLine) -> &mut Billed;

fn lines(booked: &Report, would_be: &Report) -> Vec<ReplayLine> {
    let mut lines: BTreeMap<(&str, Option<NamedBy>), ReplayLine> = BTreeMap::new();
    let sides: [(&Report, Side); 2] =
        [(booked, |line| &mut line.booked), (would_be, |line| &mut line.would_be)];
    for (report, side) in sides {
        for account in &report.accounts {
            let line = lines.entry((&account.account, account.named_by)).or_default();
            account.account.clone_into(&mut line.account);
            line.named_by = account.named_by;
            let side = side(line);
            side.settlements = side.settlements.saturating_add(account.settlements);
            side.held_ms = Ms(side.held_ms.0.saturating_add(account.held_ms.0));
            side.span_ms_total = Ms(side.span_ms_total.0.saturating_add(account.span_ms_total.0));
        }
    }
    let mut lines: Vec<ReplayLine> = lines.into_values().collect();
    lines.retain(|line| line.booked != line.would_be || line.booked.settlements > 0);
    lines.sort_by_key(|line| {
        std::cmp::Reverse(line.booked.held_ms.0.abs_diff(line.would_be.held_ms.0))
    });
    lines
}

#[derive(Default)]
struct Unseen {
    evidence: u64,
    argv: u64,
    argv_of_unknown_mode: u64,
}

struct Replaying<'r> {
    rules: &'r Arc<RuleSet>,
    unseen: Unseen,
}

impl Replaying<'_> {
    fn take(
        &mut self,
        entry: &Entry,
        why: Option<Why>,
        booked: &mut Ledger,
        would_be: &mut Ledger,
    ) -> anyhow::Result<()> {
        booked.take(entry)?;
        let Figures::Settlement(figures) = &entry.figures else {
            // What somebody moved by hand stays where it was put.
            return Ok(would_be.take(entry)?);
        };
        let account = self.account(figures, why);
        if account == figures.account {
            return Ok(would_be.take(entry)?);
        }
        let mut moved = entry.clone();
        moved.figures =
            Figures::Settlement(Box::new(SettlementFigures { account, ..(**figures).clone() }));
        Ok(would_be.take(&moved)?)
    }

    fn account(&mut self, figures: &SettlementFigures, why: Option<Why>) -> Account {
        // Another user's, of which the daemon tells when the GPU was held, and no more.
        if figures.account.unattributed().is_some() || figures.pid.is_alias() {
            return figures.account.clone();
        }
        let Some(Why { evidence: Evidence::Settlement(evidence), argv, .. }) = why else {
            self.unseen.evidence = self.unseen.evidence.saturating_add(1);
            return figures.account.clone();
        };
        let Some(identity) = &evidence.identity else { return figures.account.clone() };
        let argv = self.argv(figures, identity, argv);
        account_by(self.rules, figures, &evidence, argv)
    }

    /// The arguments as they are stored, where a rule looks at them; notes what a rule looks at and is not there. The
    /// program, and what a scheduler of commands started, stand in the entry by themselves, in every mode.
    fn argv(
        &mut self,
        figures: &SettlementFigures,
        identity: &IdentityEvidence,
        kept: Option<KeptArgv>,
    ) -> Option<Argv> {
        // The first word's file is not the arguments.
        let kept = kept.filter(|kept| kept.text != StoredText::Exe);
        let uses_argv = self.rules.looks_at_argv();
        let misses_argv = uses_argv && kept.is_none();
        let had_model = label_of(&figures.labels, Label::Model).is_some();
        let misses_model =
            self.rules.uses_model() && !had_model && !was_searched(&identity.argv, kept.as_ref());
        let misses_exe = self.rules.looks_at_exe() && identity.filename.is_empty();
        let unseen = &mut self.unseen;
        if misses_argv || misses_model || misses_exe {
            unseen.argv = unseen.argv.saturating_add(1);
        } else if uses_argv && kept.as_ref().is_some_and(|kept| kept.mode.is_none()) {
            unseen.argv_of_unknown_mode = unseen.argv_of_unknown_mode.saturating_add(1);
        }
        kept.filter(|_| uses_argv).map(|kept| kept.argv)
    }
}

/// The account that rules give a settlement by what is stored of it; where nobody is known, the one it stands on.
pub(crate) fn account_by(
    rules: &RuleSet,
    figures: &SettlementFigures,
    evidence: &SettlementEvidence,
    argv: Option<Argv>,
) -> Account {
    let Some(identity) = &evidence.identity else { return figures.account.clone() };
    let driver = &evidence.driver;
    let process = Process {
        gpu_index: Some(driver.gpu_index),
        gpu_name: driver.gpu_name.as_ref().map(ToString::to_string),
        ..process(figures, identity, argv)
    };
    let by_rule = process.see(|subject| rules.classify(subject));
    match (by_rule, &figures.account, label_of(&figures.labels, Label::Service)) {
        (Some(Ruled { account, rule }), ..) => Account::Ruled { name: account, rule },
        // What it is called without a rule was entered, or it stands there already.
        (None, _, Some(service)) => {
            let ground = label_of(&figures.labels, Label::Ground).and_then(|word| Ground::of(word));
            Account::Unclassified { name: Arc::clone(service), ground }
        }
        (None, Account::Unclassified { .. }, None) => figures.account.clone(),
        (None, _, None) => process.see(|subject| Attributor::default().attribute(subject).account),
    }
}

/// Whether arguments were looked through for a model when their settlement was booked, so that one which has none named
/// none. `kept`: all of them that may be stored.
fn was_searched(argv: &ArgvEvidence, kept: Option<&KeptArgv>) -> bool {
    match argv.mode {
        Some(CmdlineMode::Redacted | CmdlineMode::Full) => true,
        // What is stored in spite of the mode, or of one that is not known, is all there was.
        Some(CmdlineMode::Exe | CmdlineMode::None) => kept.is_some(),
        None => false,
    }
}

/// A process as the journal has it.
pub(crate) fn process(
    figures: &SettlementFigures,
    identity: &IdentityEvidence,
    argv: Option<Argv>,
) -> Process {
    let label = |label| label_of(&figures.labels, label).cloned();
    let program = |name: &Arc<str>| Program::named(&unescape(name));
    // Earlier versions kept paths as they were.
    let cgroups = identity.cgroups.iter();
    let cgroups: Vec<_> =
        cgroups.map(|(cgroup, path)| (*cgroup, path.as_deref().map(without_secrets))).collect();
    let seen_in = || cgroups.iter().map(|(cgroup, path)| (*cgroup, path.as_deref()));
    let argv = argv.map(|argv| argv_words(&argv).into_iter().map(<[u8]>::to_vec).collect());
    Process {
        gpu: figures.gpu.clone(),
        program: figures.program.as_ref().map(program),
        model: label(Label::Model),
        exe: identity.filename.clone(),
        argv,
        user: identity.user,
        users: Users { real: label(Label::User), effective: None, login: label(Label::LoginUser) },
        place: Place::of(seen_in().filter_map(|(_, path)| path)),
        cgroups: last_paths(seen_in()).into_iter().map(Bytes::copy_from_slice).collect(),
        names: Some(ContainerNames {
            name: label(Label::ContainerName),
            image: label(Label::Image),
            compose_project: label(Label::ComposeProject),
            compose_service: label(Label::ComposeService),
            pod: label(Label::Pod),
            namespace: label(Label::Namespace),
            labels: labels_of_names(&figures.labels),
        }),
        ancestors: identity.ancestors.iter().map(|one| one.program.as_ref().map(program)).collect(),
        ..Process::default()
    }
}
