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
        "the period from {since} to {until} is {}; give --until a moment after --since",
        if since == until { "empty" } else { "reversed" }
    )]
    NoLength {
        /// Its beginning.
        since: String,
        /// Its end.
        until: String,
    },
    /// It is over before the calendar of a journal begins.
    #[error(
        "the period ends before {}, where the calendar of a journal begins; give a later one",
        Timestamp::UNIX_EPOCH
    )]
    BeforeCalendar,
    /// It reaches into the future.
    #[error("{option} {moment} lies in the future (it is {now}); {remedy}")]
    Future {
        /// Which option.
        option: &'static str,
        /// What it means.
        moment: String,
        /// Now.
        now: String,
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

/// The moment of the asking, and the clock on the asker's wall.
#[derive(Clone, Debug)]
pub struct Standpoint {
    /// Now.
    pub now: Timestamp,
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
    /// The zone.
    pub zone: TimeZone,
}

impl Standpoint {
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
                (self.moment("--since", since)?, until)
            }
        };
        let remedy = "give a moment that has passed";
        self.refuse_future("--since", since, remedy)?;
        let is_open_ended = until.is_none();
        let until = until.unwrap_or(self.now);
        self.refuse_future("--until", until, "leave it out to bill everything up to now")?;
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
                zone: self.zone.clone(),
            }),
            None => Err(PeriodError::NoLength { since: self.show(since), until: self.show(until) }),
        }
    }

    /// A day, a month or a year as a whole; of one that is not over, what has passed of it.
    fn stretch(&self, word: &str) -> Result<(Timestamp, Option<Timestamp>), PeriodError> {
        let refused = || PeriodError::Stretch(word.to_owned());
        let today = self.now.to_zoned_datetime(self.zone.clone()).date();
        let bounds = match word {
            ALL => return Ok((Timestamp::UNIX_EPOCH, None)),
            "today" => Some((today, today.tomorrow())),
            "yesterday" => today.yesterday().ok().map(|day| (day, day.tomorrow())),
            _ => calendar(word).map(|(first, next)| (first, Ok(next))),
        };
        let (first, next) = bounds.ok_or_else(refused)?;
        let begins = self.start_of(first).map_err(|_| refused())?;
        let ends = next.and_then(|next| self.start_of(next)).map_err(|_| refused())?;
        Ok((begins, (ends <= self.now).then_some(ends)))
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
            let zoned = word.parse::<ZonedDateTime>().map_err(|error| refused(error.to_string()))?;
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
        if moment <= self.now {
            return Ok(());
        }
        let (moment, now) = (self.show(moment), self.show(self.now));
        Err(PeriodError::Future { option, moment, now, remedy })
    }

    fn show(&self, moment: Timestamp) -> String {
        show(moment, &self.zone)
    }

    fn zone_name(&self) -> String {
        zone_name(&self.zone)
    }
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
fn milliseconds(moment: Timestamp) -> u64 {
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
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    /// The rule of central Europe, so that no zone file of this machine is needed.
    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn at(now: &str, zone: TimeZone) -> Standpoint {
        Standpoint { now: now.parse().unwrap(), zone }
    }

    fn asked(since: &str, until: &str) -> Asked {
        let word = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        Asked { since: word(since), until: word(until), period: None }
    }

    fn whole(word: &str) -> Asked {
        Asked { period: Some(word.to_owned()), ..Asked::default() }
    }

    fn shown(standpoint: &Standpoint, asked: &Asked) -> (String, String, u64) {
        let period = standpoint.period(asked).unwrap();
        let show = |ms| moment_of(ms).to_string();
        let span = period.span;
        (show(span.from_ms()), show(span.to_ms()), span.length().0)
    }

    #[test]
    fn without_a_word_it_is_today_until_now() {
        let here = at("2026-11-30T05:38:50Z", berlin());
        let (since, until, _) = shown(&here, &Asked::default());
        assert_eq!((&*since, &*until), ("2026-11-29T23:00:00Z", "2026-11-30T05:38:50Z"));
        assert!(here.period(&Asked::default()).unwrap().is_open_ended);
    }

    #[test]
    fn every_word_for_a_moment_is_understood() {
        let here = at("2026-11-30T05:38:50Z", berlin());
        let cases = [
            ("2026-10-01T12:00:00Z", "2026-10-01T12:00:00Z"),
            ("2026-10-01T12:00:00+02:00", "2026-10-01T10:00:00Z"),
            ("2026-10-01T12:00", "2026-10-01T10:00:00Z"),
            ("2026-10-01 12:00:30", "2026-10-01T10:00:30Z"),
            ("2026-10-01", "2026-09-30T22:00:00Z"),
            ("2026-10", "2026-09-30T22:00:00Z"),
            ("2026", "2025-12-31T23:00:00Z"),
            ("yesterday", "2026-11-28T23:00:00Z"),
            ("24h", "2026-11-29T05:38:50Z"),
            ("1h30m", "2026-11-30T04:08:50Z"),
            ("7d", "2026-11-23T05:38:50Z"),
        ];
        for (word, expected) in cases {
            assert_eq!(shown(&here, &asked(word, "")).0, expected, "{word}");
        }
        // Seven days of the calendar: one of them had 25 hours.
        let later = at("2026-10-28T05:00:00Z", berlin());
        assert_eq!(shown(&later, &asked("7d", "")).0, "2026-10-21T04:00:00Z");
    }

    #[test]
    fn a_day_on_which_the_clock_changes_has_its_true_length() {
        let here = at("2026-11-30T05:38:50Z", berlin());
        for (since, until, hours) in [
            ("2026-03-29", "2026-03-30", 23),
            ("2026-10-25", "2026-10-26", 25),
            ("2026-10-24", "2026-10-25", 24),
        ] {
            assert_eq!(shown(&here, &asked(since, until)).2, hours * HOUR_MS, "{since}");
            assert_eq!(shown(&here, &whole(since)).2, hours * HOUR_MS, "{since}");
        }
        assert_eq!(shown(&here, &whole("2026-10")).2, (31 * 24 + 1) * HOUR_MS);
        assert_eq!(shown(&here, &whole("2025")).2, 365 * 24 * HOUR_MS);
    }

    #[test]
    fn a_midnight_that_does_not_exist_begins_when_the_clock_goes_on() {
        // Springs forward at midnight on the last Sunday of March.
        let zone = TimeZone::posix("EET-2EEST,M3.5.0/0,M10.5.0/0").unwrap();
        let here = at("2026-11-30T05:38:50Z", zone);
        assert_eq!(shown(&here, &whole("2026-03-29")).2, 23 * HOUR_MS);
    }

    #[test]
    fn a_whole_that_is_not_over_ends_now() {
        let here = at("2026-11-30T05:38:50Z", TimeZone::UTC);
        let period = here.period(&whole("2026-11")).unwrap();
        assert!(period.is_open_ended);
        assert_eq!(period.span.to_ms(), milliseconds(here.now));
        assert!(!here.period(&whole("yesterday")).unwrap().is_open_ended);
        assert!(here.period(&whole("all")).unwrap().begins_with_journal);
    }

    #[test]
    fn what_is_no_period_is_refused_with_what_to_type() {
        let here = at("2026-11-30T05:38:50Z", TimeZone::UTC);
        let refused = |asked: &Asked| here.period(asked).unwrap_err().to_string();
        let cases = [
            (asked("soon", ""), "--since \"soon\" is no moment; give a moment such as"),
            (asked("2026-13", ""), "is no moment"),
            (asked("2026-02-30", ""), "is no moment"),
            (asked("-1h", ""), "is no moment"),
            (asked("", "tomorrow"), "--until \"tomorrow\" is no moment"),
            (asked("2026-10-02", "2026-10-01"), "is reversed; give --until a moment after --since"),
            (asked("2026-10-02", "2026-10-02"), "is empty"),
            (asked("now", ""), "is empty"),
            (
                asked("2027", ""),
                "lies in the future (it is 2026-11-30 05:38:50 UTC); give a moment",
            ),
            (asked("", "2026-12-01"), "leave it out to bill everything up to now"),
            (whole("7d"), "--period \"7d\" is no period"),
            (whole("0000"), "ends before 1970-01-01T00:00:00Z, where the calendar of a journal"),
            (whole("1969-12"), "where the calendar of a journal begins; give a later one"),
            (asked("1960", "1961"), "where the calendar of a journal begins"),
            (asked("1961", "1960"), "is reversed"),
            (whole("2026-12"), "--since 2026-12-01 00:00:00 UTC lies in the future"),
        ];
        for (asked, expected) in cases {
            let text = refused(&asked);
            assert!(text.contains(expected), "{asked:?}: {text}");
        }
        let both = Asked { period: Some("2026".to_owned()), ..asked("today", "") };
        assert_eq!(here.period(&both), Err(PeriodError::Both));
    }

    #[test]
    fn a_clock_that_shows_an_hour_twice_needs_its_offset() {
        let here = at("2026-11-30T05:38:50Z", berlin());
        let refused = here.period(&asked("2026-10-25T02:30", "")).unwrap_err().to_string();
        assert!(refused.contains("twice or never; give its offset"), "{refused}");
        assert!(here.period(&asked("2026-10-25T02:30+01:00", "")).is_ok());
    }

    #[test]
    fn a_moment_with_a_zone_of_its_own_is_in_that_zone_or_refused() {
        let here = at("2026-11-30T05:38:50Z", TimeZone::get("Asia/Tokyo").unwrap());
        let since = |word: &str| here.period(&asked(word, "")).map(|period| period.span.from_ms());
        let at_berlin = since("2026-11-29T23:00:00Z");
        assert!(at_berlin.is_ok());
        for word in ["2026-11-30T00:00:00[Europe/Berlin]", "2026-11-30T00:00+01:00[Europe/Berlin]"] {
            assert_eq!(since(word), at_berlin, "{word}");
        }
        for word in [
            "2026-11-30T00:00:00[Nonsense/Zone]",
            "2026-11-30T00:00:00[u-ca=hebrew]",
            "2026-11-30T00:00:00+01:00[America/New_York]",
        ] {
            let refused = since(word).unwrap_err().to_string();
            assert!(refused.contains("is no moment ("), "{refused}");
        }
    }

    #[test]
    fn the_zone_is_named() {
        assert_eq!(zone_name(&TimeZone::UTC), "UTC");
        assert_eq!(
            show("2026-07-01T00:00:00.25Z".parse().unwrap(), &berlin()),
            "2026-07-01 02:00:00.250 CEST"
        );
    }
}
