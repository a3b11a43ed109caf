//! Two bills compared: every figure that differs, and every entry that made it differ.

use std::fmt::Write as _;
use std::path::Path;

use jiff::tz::TimeZone;
use serde::Serialize;

use super::adjust::{Between, ask, late};
use super::closed::{file, prices_of};
use super::{PricesAt, STATUS_UNKNOWN, Source, outside};
use crate::bill::figures::{Difference, Told};
use crate::bill::ledger::Ledger;
use crate::bill::period::{Asked, Standpoint, moment_of, show};
use crate::bill::report::{
    Adjustment, Ask, FORMAT as BILL, Outside, VERSION as BILL_VERSION, report,
};
use crate::bill::{BillError, By, Closings, SharePolicy, text};
use crate::clock::Clock;
use crate::config::read_bounded;
use crate::journal::Figures;
use crate::journal::store::Extent;
use crate::output::to_stdout;
use crate::rendering::json;
use crate::unit::{Span, WallUs};

/// The name of the format.
const FORMAT: &str = "gpu-ledger-bill-diff";
/// Its version.
const VERSION: u32 = 1;
/// The largest file that is read for a bill.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Digits of a bill's id.
const ID_DIGITS: usize = 16;

/// What is to be compared.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// The two bills: files of their JSON, ids of closed ones, numbers of heads, or moments.
    pub bills: [String; 2],
    /// The period, where no file says it.
    pub asked: Asked,
    /// What a line stands for, where no file says it.
    pub by: Option<By>,
    /// How shared time is divided, where no file says it.
    pub share: Option<SharePolicy>,
    /// Where prices are.
    pub prices: PricesAt,
    /// One JSON object instead of words.
    pub is_json: bool,
    /// The time zone.
    pub zone: TimeZone,
    /// The clocks.
    pub clock: Clock,
}

/// Why two bills are not compared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DiffError {
    /// The file is no bill.
    #[error("{path} is no bill: {why}; give what gpu-ledger bill --format json wrote")]
    NoBill {
        /// Which.
        path: String,
        /// Why.
        why: String,
    },
    /// No file, and nothing of a journal.
    #[error(
        "{0:?} is no file, no id of a closed period's bill, no number of an entry and no moment; give one of those"
    )]
    NoSuchBill(String),
    /// No period is said.
    #[error(
        "two versions of the journal are compared over a period; give --period, or --since and --until"
    )]
    NoPeriod,
    /// It cannot be read without the journal.
    #[error("{0:?} is no file, and the journal cannot be read: {1}")]
    NoJournal(String, String),
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
struct Answer {
    format: &'static str,
    version: u32,
    a: SideLine,
    b: SideLine,
    /// Whether any figure differs.
    differ: bool,
    /// Whose bills are of other periods, or made in another way.
    options: Vec<OptionLine>,
    /// Every figure that differs.
    lines: Vec<Difference>,
    /// Which of the two is made of more entries; null where both are made of the same.
    later: Option<&'static str>,
    /// Every entry that one is made of and the other is not, and that changes a figure; null where nobody can say.
    entries: Option<Vec<Adjustment>>,
    /// Why not.
    entries_unknown: Option<String>,
}

/// One of the two.
#[derive(Clone, Debug, Serialize)]
struct SideLine {
    /// As it was asked for.
    given: String,
    /// What that is: `file`, `closed` or `head`.
    is: &'static str,
    bill_id: String,
    as_of: Option<String>,
    head: u64,
    since: String,
    until: String,
    by: String,
    share: String,
    prices_sha256: Option<String>,
}

/// An option that the two were not made alike with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct OptionLine {
    option: &'static str,
    a: Option<String>,
    b: Option<String>,
}

/// A bill, and how it was found.
struct Side {
    given: String,
    is: &'static str,
    told: Told,
}

/// Which bill a word means, before it is made.
enum Found {
    Told(Box<Side>),
    Head(u64),
}

/// Compares two bills and returns the exit status. Without a journal, `Err` of why there is none, files alone.
///
/// # Errors
/// [`DiffError`], and what keeps a bill from being made.
pub fn diff(
    options: &DiffOptions,
    mut source: Result<&mut dyn Source, String>,
) -> anyhow::Result<u8> {
    let closings = match &mut source {
        Ok(source) => closings(*source)?,
        Err(_) => Closings::default(),
    };
    let mut found = Vec::new();
    for word in &options.bills {
        found.push(find(options, word, &closings, &mut source)?);
    }
    let given = found.iter().find_map(|one| match one {
        Found::Told(side) => Some(side.told.clone()),
        Found::Head(_) => None,
    });
    let mut sides = Vec::new();
    for (one, word) in found.into_iter().zip(&options.bills) {
        sides.push(match (one, &mut source) {
            (Found::Told(side), _) => *side,
            (Found::Head(head), Ok(source)) => {
                let told = at_head(options, head, (given.as_ref(), &closings), *source)?;
                Side { given: word.clone(), is: "head", told }
            }
            (Found::Head(_), Err(why)) => {
                return Err(DiffError::NoJournal(word.clone(), why.clone()).into());
            }
        });
    }
    let [a, b] = <[Side; 2]>::try_from(sides)
        .map_err(|_| anyhow::anyhow!("two bills are compared; this is a bug, please report it"))?;
    let answer = answer(options, (&a, &b), &closings, source)?;
    let page = if options.is_json { json(&answer)? } else { words(&answer, &options.zone)? };
    to_stdout(&page)?;
    Ok(if answer.entries_unknown.is_some() { STATUS_UNKNOWN } else { 0 })
}

/// Every closing of a journal.
fn closings(source: &mut dyn Source) -> anyhow::Result<Closings> {
    let mut closings = Closings::default();
    // They bear on every period.
    let any = Span::new(0, 1).unwrap_or(Span::at(0));
    source.visit_entries(any, Extent::default(), &mut |entry| {
        if let Figures::Closed(period) = &entry.figures {
            closings.take(entry.seq, entry.at, period);
        }
    })?;
    Ok(closings)
}

/// What a word means: a file goes before everything, and an id of sixteen digits before a number.
fn find(
    options: &DiffOptions,
    word: &str,
    closings: &Closings,
    source: &mut Result<&mut dyn Source, String>,
) -> anyhow::Result<Found> {
    let side = |is, told| Found::Told(Box::new(Side { given: word.to_owned(), is, told }));
    let path = Path::new(word);
    if path.is_file() {
        return Ok(side("file", read_file(path)?));
    }
    let source = match source {
        Ok(source) => source,
        Err(why) => return Err(DiffError::NoJournal(word.to_owned(), why.clone()).into()),
    };
    if word.len() == ID_DIGITS && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        for closing in closings.all() {
            let Some(digest) = closing.document("json") else { continue };
            let text = file(closing, "the bill as json, file", digest, *source)?;
            if let Ok(told) = Told::read(&text)
                && told.bill_id == word
            {
                return Ok(side("closed", told));
            }
        }
    }
    if let Ok(head) = word.parse::<u64>()
        && word.len() != 4
    {
        source.entry(head)?.ok_or(BillError::NoSuchEntry(head))?;
        return Ok(Found::Head(head));
    }
    let standpoint = standpoint(options);
    let moment = standpoint.past_moment("a bill's version", word);
    let moment = moment.map_err(|_| DiffError::NoSuchBill(word.to_owned()))?;
    let us = WallUs(u64::try_from(moment.as_microsecond()).unwrap_or(0));
    let head = source.head_at(us)?;
    Ok(Found::Head(head.ok_or_else(|| BillError::BeforeJournal(show(moment, &options.zone)))?))
}

fn standpoint(options: &DiffOptions) -> Standpoint {
    let now = moment_of(options.clock.now().wall.ms());
    Standpoint { now, latest_ms: None, zone: options.zone.clone() }
}

fn read_file(path: &Path) -> anyhow::Result<Told> {
    let refused = |why: String| DiffError::NoBill { path: path.display().to_string(), why };
    let bytes = read_bounded(path, FILE_BYTES_MAX).map_err(|error| refused(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| refused(error.to_string()))?;
    let told = Told::read(&text).map_err(|error| refused(error.to_string()))?;
    if (told.format.as_str(), told.version) == (BILL, BILL_VERSION) {
        return Ok(told);
    }
    let what =
        format!("it is {} version {}", crate::escape::escape(told.format.as_bytes()), told.version);
    Err(refused(what).into())
}

/// The period and the options of a bill at a head: as they were asked for, else as the other bill has them.
fn ask_of(
    options: &DiffOptions,
    (given, closings): (Option<&Told>, &Closings),
    source: &mut dyn Source,
) -> anyhow::Result<Ask> {
    let asked = match given {
        _ if options.asked != Asked::default() => options.asked.clone(),
        Some(told) => Asked {
            since: Some(told.period.since.clone()),
            until: Some(told.period.until.clone()),
            period: None,
        },
        None => return Err(DiffError::NoPeriod.into()),
    };
    let period = standpoint(options).period(&asked)?;
    let by = match (options.by, given) {
        (Some(by), _) => by,
        (None, Some(told)) => told.by.parse()?,
        (None, None) => By::default(),
    };
    let share = match (options.share, given) {
        (Some(share), _) => share,
        (None, Some(told)) => told.share.parse()?,
        (None, None) => SharePolicy::default(),
    };
    let prices = match (&options.prices, closings.of(period.span)) {
        (PricesAt::Named(_), _) | (_, None) => options.prices.read(&options.zone)?,
        (_, Some(closing)) => prices_of(closing, &options.zone, source)?,
    };
    // Of a bill without amounts there is none to be compared.
    let prices = prices.filter(|_| given.is_none_or(|told| told.priced.is_some()));
    // Both are of the same moments, however far the journal reached then.
    Ok(ask(period.span, (by, share), prices, options.zone.clone()))
}

fn at_head(
    options: &DiffOptions,
    head: u64,
    from: (Option<&Told>, &Closings),
    source: &mut dyn Source,
) -> anyhow::Result<Told> {
    let ask = ask_of(options, from, source)?;
    let mut ledger = Ledger::for_bill_by(ask.by);
    let head = source.read(ask.period.span, Extent::at(head), &mut ledger)?;
    let outside = outside(&ledger, source)?;
    Ok(Told::of(&report(&ledger, &ask, head, &outside)?))
}

fn answer(
    options: &DiffOptions,
    (a, b): (&Side, &Side),
    closings: &Closings,
    source: Result<&mut dyn Source, String>,
) -> anyhow::Result<Answer> {
    let lines = a.told.figures(None).differences(&b.told.figures(None));
    let made_otherwise = options_of(&a.told, &b.told);
    let (first, second) = (a.told.journal_head.seq, b.told.journal_head.seq);
    let later = match first.cmp(&second) {
        std::cmp::Ordering::Less => Some("b"),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some("a"),
    };
    let entries = match source {
        _ if made_otherwise.iter().any(|one| one.option == "period") => {
            Err("the bills are of different periods".to_owned())
        }
        _ if later.is_none() && a.told.journal_head == b.told.journal_head => Ok(Vec::new()),
        Err(why) => Err(format!("the journal cannot be read: {why}")),
        Ok(source) => entries(options, (&a.told, &b.told), closings, source)?,
    };
    let (entries, entries_unknown) = match entries {
        Ok(entries) => (Some(entries), None),
        Err(why) => (None, Some(why)),
    };
    Ok(Answer {
        format: FORMAT,
        version: VERSION,
        a: side_line(a),
        b: side_line(b),
        differ: !lines.is_empty(),
        options: made_otherwise,
        lines,
        later,
        entries,
        entries_unknown,
    })
}

/// What was entered between the two heads and changes a figure; why nobody can say, where that is so.
fn entries(
    options: &DiffOptions,
    (a, b): (&Told, &Told),
    closings: &Closings,
    source: &mut dyn Source,
) -> anyhow::Result<Result<Vec<Adjustment>, String>> {
    for told in [a, b] {
        let head = &told.journal_head;
        let entry = source.entry(head.seq)?;
        if entry.is_none_or(|entry| entry.hash.to_string() != head.hash) {
            return Ok(Err(format!(
                "entry {} of bill {} is not in this journal, or is another there",
                head.seq, told.bill_id
            )));
        }
    }
    let (before, after) = if a.journal_head.seq <= b.journal_head.seq { (a, b) } else { (b, a) };
    let of_later = DiffOptions {
        asked: Asked {
            since: Some(after.period.since.clone()),
            until: Some(after.period.until.clone()),
            period: None,
        },
        by: None,
        share: None,
        ..options.clone()
    };
    let ask = ask_of(&of_later, (Some(after), closings), source)?;
    let heads = (before.journal_head.seq, after.journal_head.seq);
    let late = late(ask.period.span, heads, source)?;
    let mut ledger = Ledger::for_bill_by(ask.by);
    source.read(ask.period.span, Extent::at(heads.1), &mut ledger)?;
    let outside: Outside = outside(&ledger, source)?;
    let between = Between { after: heads.0, to: heads.1, late: &late };
    Ok(Ok(between.adjusted(&ask, &outside, source)?))
}

fn options_of(a: &Told, b: &Told) -> Vec<OptionLine> {
    let period = |told: &Told| Some(format!("{} to {}", told.period.since, told.period.until));
    let prices = |told: &Told| told.priced.as_ref().map(|priced| priced.prices_sha256.clone());
    let all = [
        ("period", period(a), period(b)),
        ("by", Some(a.by.clone()), Some(b.by.clone())),
        ("share", Some(a.share.clone()), Some(b.share.clone())),
        ("prices", prices(a), prices(b)),
    ];
    let differ = all.into_iter().filter(|(_, a, b)| a != b);
    differ.map(|(option, a, b)| OptionLine { option, a, b }).collect()
}

fn side_line(side: &Side) -> SideLine {
    let Side { given, is, told } = side;
    SideLine {
        given: given.clone(),
        is,
        bill_id: told.bill_id.clone(),
        as_of: told.as_of.clone(),
        head: told.journal_head.seq,
        since: told.period.since.clone(),
        until: told.period.until.clone(),
        by: told.by.clone(),
        share: told.share.clone(),
        prices_sha256: told.priced.as_ref().map(|priced| priced.prices_sha256.clone()),
    }
}

/// The answer for people.
fn words(answer: &Answer, zone: &TimeZone) -> Result<String, std::fmt::Error> {
    let mut page = String::new();
    for (name, side) in [("a", &answer.a), ("b", &answer.b)] {
        let SideLine { bill_id, is, head, since, until, .. } = side;
        let as_of = side.as_of.as_deref().unwrap_or("unknown");
        writeln!(page, "{name}: bill {bill_id} ({is}), as of {as_of}, journal {head}")?;
        writeln!(page, "   {since} to {until}")?;
    }
    for OptionLine { option, a, b } in &answer.options {
        let told = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        writeln!(page, "made with another {option}: {}, and {}", told(a), told(b))?;
    }
    if answer.differ {
        writeln!(page, "\nfigures that differ: {}, from a to b", answer.lines.len())?;
        for line in &answer.lines {
            writeln!(page, "  {}", text::difference_words(line))?;
        }
    } else {
        writeln!(page, "the bills do not differ in any figure")?;
    }
    match (&answer.entries, &answer.entries_unknown) {
        (Some(entries), _) if entries.is_empty() => {
            writeln!(page, "\nno entry that one is made of and the other is not changes a figure")?;
        }
        (Some(entries), _) => {
            let later = answer.later.unwrap_or("b");
            writeln!(
                page,
                "\nentries that {later} is made of and the other is not: {}",
                entries.len()
            )?;
            for one in entries {
                writeln!(page, "  {}", text::adjustment_words(one, zone))?;
                for change in &one.changes {
                    writeln!(page, "    {}", text::difference_words(change))?;
                }
            }
        }
        (None, why) => {
            let why = why.as_deref().unwrap_or("nobody can say");
            writeln!(page, "\nUNKNOWN which entries made them differ: {why}")?;
        }
    }
    Ok(page)
}
