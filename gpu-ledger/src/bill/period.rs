//! Which period is meant: words of people become a half-open interval of milliseconds. Pure.
//!
//! Days, months and years begin and end where the time zone says so: a day on which the clock is
//! changed has 23 or 25 hours.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ZonedDateTime};

use crate::unit::Span;

/// What an instant can be, for every refusal.
const REMEDY: &str = "give a moment such as 2026-10-31T08:00:00Z, 2026-10-31, today, yesterday, \
                      24h, 7d (ago), 2026-10, 2026 or now";

/// The word for everything that a journal is about.
pub const ALL: &str = "all";

/// Why there is no such period.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PeriodError {
    /// The word means no moment.
    #[error("{option} {word:?} is no moment{}; {REMEDY}", because(why))]
    Word {
        /// Which option.
        option: &'static str,
        /// What was typed.
        word: String,
        /// What is wrong with it, where that can be said.
        why: String,
    },
    /// The word means no stretch of time.
    #[error(
        "--period {0:?} is no period; give today, yesterday, a day (2026-10-31), a month (2026-10), a year (2026) or all"
    )]
    Stretch(String),
    /// Its end is not after its beginning.
    #[error(
        "the period from {since} to {until} is {}; {remedy}",
        if since == until { "empty" } else { "reversed" }
    )]
    NoLength {
        /// Its beginning.
        since: String,
        /// Its end.
        until: String,
        /// What to do, by what was typed.
        remedy: &'static str,
    },
    /// It is over before the calendar of a journal begins.
    #[error(
        "the period ends before {}, where the calendar of a journal begins; give a later one",
        Timestamp::UNIX_EPOCH
    )]
    BeforeCalendar,
    /// It reaches into the future, and the journal does not.
    #[error("{option} {moment} lies in the future (it is {now}{}); {remedy}", reaching(latest.as_deref()))]
    Future {
        /// Which option.
        option: &'static str,
        /// What it means.
        moment: String,
        /// Now.
        now: String,
        /// The latest moment that the journal speaks of, where that is later than now.
        latest: Option<String>,
        /// What to do.
        remedy: &'static str,
    },
    /// `--period` beside the other two.
    #[error("--period is beginning and end in one word; leave --since and --until out beside it")]
    Both,
    /// A zone that is not known.
    #[error("no time zone: {0}; give --utc, or set TZ to a zone such as Europe/Berlin")]
    Zone(String),
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(" ({why})") }
}

fn reaching(latest: Option<&str>) -> String {
    latest.map_or_else(String::new, |latest| format!(", and the journal reaches to {latest}"))
}

/// A period as it was asked for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Asked {
    /// `--since`.
    pub since: Option<String>,
    /// `--until`.
    pub until: Option<String>,
    /// `--period`.
    pub period: Option<String>,
}

impl Asked {
    /// What to do where its end is not after its beginning.
    const fn remedy(&self) -> &'static str {
        match (&self.since, &self.until) {
            (None, Some(_)) => "give --since too: without it the period begins with today",
            (_, None) => "give --since an earlier moment, such as 1h or yesterday",
            (Some(_), Some(_)) => "give --until a moment after --since",
        }
    }
}

/// The moment of the asking, and the clock on the asker's wall.
#[derive(Clone, Debug)]
pub struct Standpoint {
    /// Now.
    pub now: Timestamp,
    /// The latest moment that the journal speaks of, in ms since 1970, where that is later than now: the clock
    /// was set back since it was written, or is behind the clock that it was written by. What was booked then is
    /// no less booked.
    pub latest_ms: Option<u64>,
    /// Where days begin.
    pub zone: TimeZone,
}

/// A period, with the zone it is told in.
#[derive(Clone, PartialEq, Debug)]
pub struct Period {
    /// The first millisecond, and the first after it.
    pub span: Span,
    /// Whether it begins with the first moment that the journal is about.
    pub begins_with_journal: bool,
    /// Whether its end was not asked for: it is then now, or the moment up to which the journal speaks.
    pub is_open_ended: bool,
    /// It ends later than now, as the journal does.
    pub beyond_now: Option<Beyond>,
    /// The zone.
    pub zone: TimeZone,
}

/// Why a period ends later than now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beyond {
    /// Now, by the clock of whoever asks, in ms since 1970.
    pub now_ms: u64,
    /// The latest moment that the journal speaks of.
    pub latest_ms: u64,
}

impl Standpoint {
    /// What has to be read of a journal to know the period: everything from its beginning on where it does not
    /// end before now, as only the journal says whether it speaks of later moments.
    ///
    /// # Errors
    /// Those of [`Self::period`] that no journal can lift.
    pub fn reading(&self, asked: &Asked) -> Result<Span, PeriodError> {
        let span = Self { latest_ms: Some(u64::MAX), ..self.clone() }.period(asked)?.span;
        let is_over = span.to_ms() <= milliseconds(self.now);
        let to_ms = if is_over { span.to_ms() } else { u64::MAX };
        Ok(Span::new(span.from_ms(), to_ms).unwrap_or(span))
    }

    /// The last moment at which a period may end.
    fn end(&self) -> Timestamp {
        let latest = self.latest_ms.map(|latest| moment_of(latest.saturating_add(1)));
        latest.map_or(self.now, |after| after.max(self.now))
    }

    /// The period that is meant; without any word, today.
    ///
    /// # Errors
    /// [`PeriodError`], with what to type instead.
    pub fn period(&self, asked: &Asked) -> Result<Period, PeriodError> {
        let (since, until) = match (&asked.period, &asked.since, &asked.until) {
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => return Err(PeriodError::Both),
            (Some(word), None, None) => self.stretch(word)?,
            (None, since, until) => {
                let since = since.as_deref().unwrap_or("today");
                let until =
                    until.as_deref().map(|word| self.moment("--until", word)).transpose()?;
                (self.moment("--since", since)?, until.map_or(Until::Open, Until::Asked))
            }
        };
        if asked.period.is_some() {
            self.refuse_future("the period from", since, "give one that has begun")?;
        }
        self.refuse_future("--since", since, "give a moment that has passed")?;
        let is_open_ended = !matches!(until, Until::Asked(_));
        let until = match until {
            Until::Asked(until) => {
                let remedy = "leave it out to bill everything up to now";
                self.refuse_future("--until", until, remedy)?;
                until
            }
            Until::Open => self.end(),
            Until::OpenBefore(limit) => self.end().min(limit),
        };
        // What begins earlier is cut there; what ends earlier is nothing, and not the wrong way round.
        if until <= Timestamp::UNIX_EPOCH && since < until {
            return Err(PeriodError::BeforeCalendar);
        }
        let span = Span::new(milliseconds(since), milliseconds(until));
        match span.filter(|span| span.from_ms() < span.to_ms()) {
            Some(span) => Ok(Period {
                span,
                begins_with_journal: asked.period.as_deref() == Some(ALL),
                is_open_ended,
                beyond_now: self
                    .latest_ms
                    .filter(|_| until > self.now)
                    .map(|latest_ms| Beyond { now_ms: milliseconds(self.now), latest_ms }),
                zone: self.zone.clone(),
            }),
            None => Err(PeriodError::NoLength {
                since: self.show(since),
                until: self.show(until),
                remedy: asked.remedy(),
            }),
        }
    }

    /// A day, a month or a year as a whole; of one that is not over, what has passed of it.
    fn stretch(&self, word: &str) -> Result<(Timestamp, Until), PeriodError> {
        let refused = || PeriodError::Stretch(word.to_owned());
        let today = self.now.to_zoned_datetime(self.zone.clone()).date();
        let bounds = match word {
            ALL => return Ok((Timestamp::UNIX_EPOCH, Until::Open)),
            "today" => Some((today, today.tomorrow())),
            "yesterday" => today.yesterday().ok().map(|day| (day, day.tomorrow())),
            _ => calendar(word).map(|(first, next)| (first, Ok(next))),
        };
        let (first, next) = bounds.ok_or_else(refused)?;
        let begins = self.start_of(first).map_err(|_| refused())?;
        let ends = next.and_then(|next| self.start_of(next)).map_err(|_| refused())?;
        let is_over = ends <= self.now;
        Ok((begins, if is_over { Until::Asked(ends) } else { Until::OpenBefore(ends) }))
    }

    /// The moment that a word means. `option` is named in refusals.
    ///
    /// # Errors
    /// [`PeriodError::Word`], with what to type instead.
    pub fn moment(&self, option: &'static str, word: &str) -> Result<Timestamp, PeriodError> {
        let refused = |why: String| PeriodError::Word { option, word: word.to_owned(), why };
        let today = self.now.to_zoned_datetime(self.zone.clone()).date();
        let day = |day: Result<Date, jiff::Error>| {
            day.and_then(|day| self.start_of(day)).map_err(|error| refused(error.to_string()))
        };
        match word {
            "now" => return Ok(self.now),
            "today" => return day(Ok(today)),
            "yesterday" => return day(today.yesterday()),
            _ => {}
        }
        if let Some((first, _)) = calendar(word) {
            return day(Ok(first));
        }
        // With a zone of its own (RFC 9557), which a plain timestamp and a plain time would pass over.
        if word.contains('[') {
            let zoned =
                word.parse::<ZonedDateTime>().map_err(|error| refused(error.to_string()))?;
            return Ok(zoned.timestamp());
        }
        if let Ok(moment) = word.parse::<Timestamp>() {
            return Ok(moment);
        }
        if let (true, Ok(civil)) = (word.contains(['T', ' ', ':']), word.parse::<DateTime>()) {
            let zoned = self.zone.to_ambiguous_zoned_datetime(civil).unambiguous();
            return zoned.map(|zoned| zoned.timestamp()).map_err(|_| {
                refused(format!(
                    "the clock of {} shows it twice or never; give its offset",
                    self.zone_name()
                ))
            });
        }
        self.ago(word).ok_or_else(|| refused(String::new()))
    }

    /// `24h`, `7d`, `1h30m`: so long before now. Days and weeks are those of the calendar.
    fn ago(&self, word: &str) -> Option<Timestamp> {
        let span: jiff::Span = word.parse().ok()?;
        if !word.starts_with(|c: char| c.is_ascii_digit()) || span.is_negative() {
            return None;
        }
        let now: ZonedDateTime = self.now.to_zoned_datetime(self.zone.clone());
        now.checked_sub(span).ok().map(|zoned| zoned.timestamp())
    }

    /// The moment that a word means, which must have passed.
    ///
    /// # Errors
    /// As [`Self::moment`]; [`PeriodError::Future`].
    pub fn past_moment(&self, option: &'static str, word: &str) -> Result<Timestamp, PeriodError> {
        let moment = self.moment(option, word)?;
        self.refuse_future(option, moment, "give a moment that has passed")?;
        Ok(moment)
    }

    fn start_of(&self, day: Date) -> Result<Timestamp, jiff::Error> {
        let midnight = day.to_datetime(Time::midnight());
        // Where midnight is skipped the day begins when the clock goes on.
        self.zone.to_zoned_datetime(midnight).map(|zoned| zoned.timestamp())
    }

    fn refuse_future(
        &self,
        option: &'static str,
        moment: Timestamp,
        remedy: &'static str,
    ) -> Result<(), PeriodError> {
        // A clock that is compared with itself: what was asked for as now is not in the future.
        if moment <= self.end() {
            return Ok(());
        }
        let (moment, now) = (self.show(moment), self.show(self.now));
        let latest = self.latest_ms.map(|latest| self.show(moment_of(latest)));
        Err(PeriodError::Future { option, moment, now, latest, remedy })
    }

    fn show(&self, moment: Timestamp) -> String {
        show(moment, &self.zone)
    }

    fn zone_name(&self) -> String {
        zone_name(&self.zone)
    }
}

/// Where a period ends.
#[derive(Clone, Copy, Debug)]
enum Until {
    /// There.
    Asked(Timestamp),
    /// Where time or the journal does.
    Open,
    /// The same, but there at the latest.
    OpenBefore(Timestamp),
}

/// The first day of what is written as a day, a month or a year, and the first day after it.
fn calendar(word: &str) -> Option<(Date, Date)> {
    let digits = |part: &str, length: usize| {
        (part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse::<i16>().ok())
            .flatten()
    };
    let mut parts = word.splitn(3, '-');
    let year = digits(parts.next()?, 4)?;
    let month = parts.next().map(|part| digits(part, 2));
    let day = parts.next().map(|part| digits(part, 2));
    let small = |number: i16| i8::try_from(number).ok();
    let first = match (month, day) {
        (None, _) => Date::new(year, 1, 1).ok()?,
        (Some(month), None) => Date::new(year, small(month?)?, 1).ok()?,
        (Some(month), Some(day)) => Date::new(year, small(month?)?, small(day?)?).ok()?,
    };
    let next = match (month, day) {
        (None, _) => first.checked_add(jiff::Span::new().years(1)),
        (Some(_), None) => first.checked_add(jiff::Span::new().months(1)),
        (Some(_), Some(_)) => first.tomorrow(),
    };
    Some((first, next.ok()?))
}

/// The millisecond a moment lies in, since 1970; what lies before is 1970.
#[must_use]
pub fn milliseconds(moment: Timestamp) -> u64 {
    let since_1970 = moment.duration_since(Timestamp::UNIX_EPOCH);
    u64::try_from(since_1970.as_millis()).unwrap_or(0)
}

/// A millisecond since 1970, as a moment.
#[must_use]
pub fn moment_of(ms: u64) -> Timestamp {
    let since_1970 = i64::try_from(ms).map_or(SignedDuration::MAX, SignedDuration::from_millis);
    Timestamp::UNIX_EPOCH.saturating_add(since_1970).unwrap_or(Timestamp::MAX)
}

/// A moment as people read it: `2026-10-31 08:00:00 CET`, with milliseconds only where there are any.
#[must_use]
pub fn show(moment: Timestamp, zone: &TimeZone) -> String {
    let zoned = moment.to_zoned_datetime(zone.clone());
    let text = if zoned.subsec_nanosecond() / 1_000_000 == 0 {
        zoned.strftime("%Y-%m-%d %H:%M:%S %Z")
    } else {
        zoned.strftime("%Y-%m-%d %H:%M:%S.%3f %Z")
    };
    text.to_string()
}

/// The zone's own name: `UTC`, `Europe/Berlin`, or its rule where it has no other.
#[must_use]
pub fn zone_name(zone: &TimeZone) -> String {
    if *zone == TimeZone::UTC {
        return "UTC".to_owned();
    }
    match zone.iana_name() {
        Some(name) => name.to_owned(),
        None => format!("{}", moment_of(0).to_zoned_datetime(zone.clone()).strftime("%Z")),
    }
}

#[cfg(test)]
#[path = "period_tests.rs"]
mod tests;
