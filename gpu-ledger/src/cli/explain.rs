//! `gpu-ledger explain`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use jiff::tz::TimeZone;

use super::bill::zone;
use super::place::Place;
use super::source::with_source;
use super::{STATUS_UNKNOWN, Usage, print};
use crate::attribution::Label;
use crate::bill::period::{Asked, Standpoint, moment_of};
use crate::billing::Source;
use crate::clock::Clock;
use crate::config::Rules;
use crate::explain::{Choice, ExplainError, RulesAtHand, explain, render};
use crate::output::complain;
use crate::rendering::json;
use crate::unit::Span;

const AFTER_HELP: &str = "ID is as bill --by process has it (the first 8 of the GPU's UUID, pid, startTime in \
microseconds). Its beginning, a pid or the number of an entry will do where that means one settlement; where it means \
several they are listed. Without --since, --until and --period it is searched in the whole journal.\n\
Whoever may not open the journal's files asks the daemon that writes it: root and the daemon's group see all, every \
other user their own settlements.\n\
Exit status: 0 every settlement found has a name, 1 failed, or none was found, 2 found, but one is without a \
name, 64 usage.";

/// What is to be explained.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
#[command(group = ArgGroup::new("which").required(true))]
pub(super) struct Explain {
    /// The settlement: its id or the beginning of it, a pid, or the number of its entry
    #[arg(value_name = "ID", group = "which")]
    id: Option<String>,
    /// Settlements of this batch job
    #[arg(long, value_name = "JOB", group = "which")]
    job: Option<String>,
    /// Settlements of this pod, by its name or uid
    #[arg(long, value_name = "POD", group = "which")]
    pod: Option<String>,
    /// Settlements of this container, by its name or the first 12 digits of its id or more
    #[arg(long, value_name = "CONTAINER", group = "which")]
    container: Option<String>,
    /// Settlements of this unit
    #[arg(long, value_name = "UNIT", group = "which")]
    unit: Option<String>,
    /// Settlements of this account, as bill --account takes it: also unattributed, event-lost, unclassified, disputed
    #[arg(long, value_name = "ACCOUNT", group = "which")]
    account: Option<String>,
    /// Not before this moment
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    since: Option<String>,
    /// Before this moment
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    until: Option<String>,
    /// Within a day, a month or a year (today, yesterday, 2026-10-31, 2026-10, 2026)
    #[arg(long, value_name = "WHOLE", allow_hyphen_values = true)]
    period: Option<String>,
    /// Days and months of UTC instead of those of TZ or of the system's time zone
    #[arg(long)]
    utc: bool,
    /// The file of rules that was in force (default: the configured one, else /etc/gpu-ledger/rules.toml): says what
    /// of a rule held, and which ones nearly did
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// For programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Explain {
    pub(super) fn run(mut self, clock: &Clock) -> anyhow::Result<u8> {
        let choice = self.choice().map_err(refused)?;
        let asked = Asked {
            since: self.since.take(),
            until: self.until.take(),
            period: self.period.take(),
        };
        let span = span(asked, zone(self.utc)?, clock)?;
        let rules = self.rules()?;
        let explain = |source: &mut dyn Source| explain(source, span, &choice, rules.as_ref());
        let explanation = with_source(&self.place, "explain", explain).map_err(told)?;
        let page = if self.json { json(&explanation)? } else { render(&explanation) };
        print(&page)?;
        let is_nameless = explanation.settlements.iter().any(|one| one.reason.is_some());
        Ok(if is_nameless { STATUS_UNKNOWN } else { 0 })
    }
}

impl Explain {
    fn choice(&mut self) -> Result<Choice, ExplainError> {
        if let Some(id) = &self.id {
            return Choice::id(id);
        }
        let labelled = [
            (Label::Job, self.job.take()),
            (Label::PodUid, self.pod.take()),
            (Label::Container, self.container.take()),
            (Label::Unit, self.unit.take()),
        ];
        let labelled = labelled.into_iter().find_map(|(label, name)| Some((label, name?)));
        match (labelled, self.account.take()) {
            (Some((label, name)), _) => Choice::labelled(label, name),
            (None, account) => Choice::account(account.unwrap_or_default()),
        }
    }
}

impl Explain {
    /// The rules that are at hand. What is told does not hang on them, so what keeps them is said beside it.
    fn rules(&self) -> anyhow::Result<Option<RulesAtHand>> {
        if let Some(file) = &self.rules {
            return Ok(Some(at_hand(Rules::read(file)?)));
        }
        let configured = || anyhow::Ok(Rules::read_or_default(self.place.rules()?.as_deref())?);
        match configured() {
            Ok(rules) => Ok(Some(at_hand(rules))),
            Err(error) => {
                complain(&format!("what rules had to say is left out: {error:#}"));
                Ok(None)
            }
        }
    }
}

fn at_hand(Rules { path: file, set, .. }: Rules) -> RulesAtHand {
    RulesAtHand { file, set }
}

/// What has to be typed otherwise, as such.
fn refused(error: ExplainError) -> anyhow::Error {
    if error.is_usage() { Usage(error.to_string()).into() } else { error.into() }
}

/// The same, wherever it comes from.
fn told(error: anyhow::Error) -> anyhow::Error {
    error.downcast().map_or_else(|error| error, refused)
}

/// The period that was asked for; without any, all that there is, also what a clock that was set back calls the future.
fn span(mut asked: Asked, zone: TimeZone, clock: &Clock) -> anyhow::Result<Span> {
    if asked == Asked::default() {
        return Span::new(0, u64::MAX).context("all time is a period");
    }
    if asked.period.is_none() {
        asked.since.get_or_insert_with(|| "1970-01-01".to_owned());
    }
    let now = moment_of(clock.now().wall.ms());
    Ok(Standpoint { now, latest_ms: None, zone }.period(&asked)?.span)
}
