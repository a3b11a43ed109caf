//! Values as people write them, checked: for the file and the command line alike.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Span, SpanRelativeTo};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Shortest time after which the same is done again: below that a daemon does little else, and its journal
/// grows by nothing but marks.
pub const INTERVAL_MIN: Duration = Duration::from_millis(50);
/// Entries that may wait for the disk: at least this many …
pub const QUEUE_LENGTH_MIN: usize = 64;
/// … and at most this many: some hundred MiB.
pub const QUEUE_LENGTH_MAX: usize = 1 << 20;

/// `60s`, `5m`, `1h30m`, `7d`, or ISO 8601. A day is 24 hours here.
///
/// # Errors
/// What is wrong, and what a time looks like.
pub fn duration(text: &str) -> Result<Duration, String> {
    let remedy = "give a time such as 500ms, 60s, 5m, 1h30m or 7d";
    // The library's own words are about its types.
    let no_time = |_| format!("no time of a known length; {remedy}");
    let span: Span = text.parse().map_err(no_time)?;
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(no_time)?;
    Duration::try_from(signed).map_err(|_| format!("a time cannot be negative; {remedy}"))
}

/// As [`duration`], for what a time of 0 would never let happen.
///
/// # Errors
/// What is wrong, and what a time looks like.
pub fn duration_not_zero(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("nothing can be done in a time of 0; give one such as 2s".to_owned()),
        time => Ok(time),
    }
}

/// A power of two between 64 KiB and 1 GiB, with `KiB`, `MiB` or `GiB`.
///
/// # Errors
/// What is wrong, and what a size looks like.
pub fn ring_size(text: &str) -> Result<u32, String> {
    let remedy = "give a power of two from 64KiB to 1GiB, such as 4MiB";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u32 = match text.get(digits.len()..) {
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some("GiB") => 1 << 30,
        _ => return Err(format!("no unit; {remedy}")),
    };
    let number: u32 = digits.parse().map_err(|error| format!("{error}; {remedy}"))?;
    match number.checked_mul(unit) {
        Some(bytes) if bytes.is_power_of_two() && (64 << 10..=1 << 30).contains(&bytes) => {
            Ok(bytes)
        }
        _ => Err(format!("not a size of a ring; {remedy}")),
    }
}

/// So many bytes: a number, or one with `KiB`, `MiB`, `GiB` or `TiB` in any case.
///
/// # Errors
/// What is wrong, and what a size looks like.
pub fn bytes(text: &str) -> Result<i64, String> {
    let remedy = "give bytes, or a size such as 512MiB or 8GiB";
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: i64 = match text.get(number.len()..).unwrap_or_default().to_ascii_lowercase().as_str()
    {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        other => return Err(format!("{other:?} is no unit of a size; {remedy}")),
    };
    let digits = number.trim_end();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<i64> = digits.parse().ok().filter(|_| is_number);
    let number = number.ok_or_else(|| format!("no whole number of bytes; {remedy}"))?;
    number.checked_mul(unit).ok_or_else(|| format!("more than any memory; {remedy}"))
}

/// A time as people write it.
pub(crate) fn time_text(time: Duration) -> String {
    SignedDuration::try_from(time).map_or_else(|_| format!("{time:?}"), |time| format!("{time:#}"))
}

/// A size as people write it.
pub(super) fn size_text(bytes: u32) -> String {
    match bytes.trailing_zeros() {
        30.. => format!("{}GiB", bytes >> 30),
        20.. => format!("{}MiB", bytes >> 20),
        _ => format!("{}KiB", bytes >> 10),
    }
}

pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let time = duration(&text).map_err(|_| D::Error::custom(format!("{text:?} is no time")))?;
    if time.is_zero() { Err(D::Error::custom("a time of 0 would never end")) } else { Ok(time) }
}

pub(super) fn interval<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let interval = time(from)?;
    if interval < INTERVAL_MIN {
        let (wanted, least) = (time_text(interval), time_text(INTERVAL_MIN));
        return Err(D::Error::custom(format!("{wanted} is shorter than {least}")));
    }
    Ok(interval)
}

/// A period of memory's samples; `off`, or a time of 0, for none.
pub(super) fn memory_period<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    if text == "off" || text == "0" {
        return Ok(None);
    }
    let period = duration(&text).map_err(|_| D::Error::custom(format!("{text:?} is no time")))?;
    match period {
        Duration::ZERO => Ok(None),
        period if (INTERVAL_MIN..=crate::memory::PERIOD_MAX).contains(&period) => Ok(Some(period)),
        _ => Err(D::Error::custom(format!("{} is out of range", time_text(period)))),
    }
}

pub(super) fn ring<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let text = String::deserialize(from)?;
    ring_size(&text).map_err(|_| D::Error::custom(format!("{text:?} is no size of a ring")))
}

pub(super) fn absolute<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(from)?;
    // A daemon runs in no particular folder.
    if path.is_absolute() { Ok(path) } else { Err(D::Error::custom("the path is not absolute")) }
}

/// The one kind of name that the textfile collector reads, and that no journal and no configuration has.
pub(super) fn textfile<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    let path = absolute(from)?;
    if path.extension() == Some("prom".as_ref()) {
        Ok(Some(path))
    } else {
        Err(D::Error::custom("the collector reads files whose names end in .prom only"))
    }
}

pub(super) fn absolute_or_none<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<PathBuf>, D::Error> {
    absolute(from).map(Some)
}

/// An absolute path, or an empty text for none.
pub(super) fn absolute_or_off<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<PathBuf>, D::Error> {
    let path = PathBuf::deserialize(from)?;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    if path.is_absolute() {
        Ok(Some(path))
    } else {
        Err(D::Error::custom("the path is not absolute"))
    }
}

pub(super) fn log_filter<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if text.trim().is_empty() {
        return Err(D::Error::custom("the filter is empty"));
    }
    // A word alone is taken as the name of a part of the program, of which everything is logged, and nothing of
    // any other part: a misspelt level would silence even errors.
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let alone =
        text.split(',').map(str::trim).find(|part| !part.contains(['=', '[']) && !is_level(part));
    if let Some(word) = alone {
        return Err(D::Error::custom(format!("{word:?} is no level")));
    }
    match EnvFilter::try_new(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(D::Error::custom(error)),
    }
}

pub(super) fn queue_length<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    let length = usize::deserialize(from)?;
    if (QUEUE_LENGTH_MIN..=QUEUE_LENGTH_MAX).contains(&length) {
        Ok(length)
    } else {
        Err(D::Error::custom(format!("{length} is out of range")))
    }
}

pub(super) fn loopback<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    let address: SocketAddr = text
        .parse()
        .map_err(|_| D::Error::custom(format!("{text:?} is no address with a port")))?;
    if address.ip().is_loopback() {
        Ok(Some(address))
    } else {
        Err(D::Error::custom(format!(
            "{} is no loopback address, and whoever reaches the listener reads everything",
            address.ip()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_sizes_are_powers_of_two_with_a_unit() {
        assert_eq!(ring_size("64KiB"), Ok(65_536));
        assert_eq!(ring_size("1GiB"), Ok(1 << 30));
        for wrong in ["4", "3MiB", "32KiB", "2GiB", "MiB", "", "99999GiB", "-4MiB", "4mib"] {
            assert!(ring_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_are_told_with_and_without_a_unit() {
        for (text, told) in
            [("0", 0), ("17", 17), ("1GiB", 1 << 30), ("512 mib", 512 << 20), ("2b", 2)]
        {
            assert_eq!(bytes(text), Ok(told), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5GiB", "1GB", "1e3", "9999999TiB", "+1"] {
            assert!(
                bytes(text).unwrap_err().ends_with("give bytes, or a size such as 512MiB or 8GiB"),
                "{text}"
            );
        }
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for text in ["64KiB", "512KiB", "1MiB", "4MiB", "1GiB"] {
            assert_eq!(size_text(ring_size(text).unwrap()), text);
        }
    }

    #[test]
    fn times_are_written_as_they_are_read() {
        for text in ["500ms", "2s", "1m", "1h30m"] {
            let time = duration(text).unwrap();
            assert_eq!(duration(&time_text(time)), Ok(time), "{}", time_text(time));
        }
        assert_eq!(duration("2d"), Ok(Duration::from_hours(48)));
        assert_eq!(duration("1d 1h"), Ok(Duration::from_hours(25)));
        for wrong in ["-1s", "soon", "", "5", "1mo", "1y", "99999999999d"] {
            let why = duration(wrong).unwrap_err();
            assert!(why.contains("give a time such as") && !why.contains("jiff"), "{wrong}: {why}");
        }
        assert_eq!(duration_not_zero("1ms"), Ok(Duration::from_millis(1)));
        for wrong in ["0s", "0ms", "-1s", "soon"] {
            assert!(duration_not_zero(wrong).is_err(), "{wrong}");
        }
    }
}
