//! The price file's text: every fault in it, or its prices. Pure.

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use rust_decimal::Decimal;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::amount::PRICE_MAX;
use super::fault::{Fault, Faults};
use super::overlap::overlaps;
use super::{Meter, PRICE_DECIMALS_MAX, Price, PriceList, Rate, WhichGpu};
use crate::calling::no_gpu_name;
use crate::escape::escape;
use crate::journal::chain::sha256;
use crate::likeness::nearest;

/// A file larger than this is no list of prices.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// A line longer than this is none that a person wrote.
pub const LINE_BYTES_MAX: usize = 4_096;
/// Prices in one file.
pub const PRICES_MAX: usize = 1_000;
/// Hex digits that a UUID is known by, as everywhere that the product shortens one.
const UUID_DIGITS_MIN: usize = 8;
/// Bytes of a value that a fault shows.
const SHOWN_MAX: usize = 60;

/// The keys above all prices, and those of a price.
const ROOT_KEYS: [&str; 2] = ["currency", "price"];
const PRICE_KEYS: [&str; 5] = ["gpu", "meter", "per_hour", "from", "until"];

const GIVE_CURRENCY: &str = "write the currency once above all prices: currency = \"EUR\"";
const GIVE_PRICE: &str = "write the price as text: per_hour = \"1.25\"";
const GIVE_DAY: &str = "give a day (2026-01-01, from its first moment in the bill's time zone) or a moment with its \
                        offset (2026-01-01T00:00:00+01:00)";
const GIVE_GPU: &str = "give a UUID or its beginning (\"GPU-4a1b2c3d\") or the model as the driver \
                        names it (\"NVIDIA H200\")";

/// The prices of a text; days in it begin where `zone` says.
///
/// # Errors
/// Every fault of the file, each with its place and what to do.
pub fn parse(text: &str, zone: &TimeZone) -> Result<PriceList, Faults> {
    let mut reading = Reading { text, zone, faults: Vec::new() };
    let found = reading.prices();
    match (Faults::of(reading.faults), found) {
        (Some(faults), _) => Err(faults),
        (None, (currency, prices)) => {
            Ok(PriceList { currency, prices, text: text.into(), digest: sha256(text.as_bytes()) })
        }
    }
}

struct Reading<'a> {
    text: &'a str,
    zone: &'a TimeZone,
    faults: Vec<Fault>,
}

type Value<'i> = Spanned<DeValue<'i>>;

impl Reading<'_> {
    /// Currency and prices: worth nothing where there is a fault.
    fn prices(&mut self) -> (String, Vec<Price>) {
        let long = self.text.lines().enumerate().filter(|(_, line)| line.len() > LINE_BYTES_MAX);
        let long: Vec<Fault> = long.map(|(index, line)| long_line(index, line.len())).collect();
        if !long.is_empty() {
            self.faults.extend(long);
            return Default::default();
        }
        let (root, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let what = shown(&error.message().trim().replace('\n', ", "));
            let at = error.span().map_or(0, |span| span.start);
            self.fault(at, what, "write `key = value`, texts in quotation marks");
        }
        if !errors.is_empty() {
            return Default::default();
        }
        self.refuse_unknown(root.get_ref(), &ROOT_KEYS);
        let currency = self.currency(root.get_ref());
        let tables = self.tables(root.get_ref());
        let mut prices = Vec::new();
        let mut places = Vec::new();
        for table in tables {
            if let Some(price) = self.price(table) {
                places.push((price.line, column(self.text, table.span().start)));
                prices.push(price);
            }
        }
        self.faults.extend(overlaps(&prices, &places));
        (currency, prices)
    }

    fn fault(&mut self, at: usize, what: impl Into<String>, remedy: impl Into<String>) {
        let (line, column) = (line(self.text, at), column(self.text, at));
        self.faults.push(Fault { line, column, what: what.into(), remedy: remedy.into() });
    }

    fn refuse_unknown(&mut self, table: &DeTable<'_>, known: &[&str]) {
        for (key, _) in table {
            let word = key.get_ref();
            if known.contains(&&**word) {
                continue;
            }
            let what = format!("unknown key `{}`", shown(word));
            let remedy = if word == "currency" {
                "a bill has one currency, and a file too: write it once above all prices, and other \
                 currencies into files of their own"
                    .to_owned()
            } else if let Some(meant) = nearest(word, known.iter().copied()) {
                format!("did you mean `{meant}`?")
            } else {
                format!("the known ones here are {}", known.join(", "))
            };
            self.fault(key.span().start, what, remedy);
        }
    }

    fn currency(&mut self, root: &DeTable<'_>) -> String {
        let Some(value) = root.get("currency") else {
            self.fault(0, "no currency", GIVE_CURRENCY);
            return String::new();
        };
        let code = value.get_ref().as_str();
        let is_code = |code: &&str| code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase());
        let Some(code) = code.filter(is_code) else {
            let what = format!("{} is no currency", self.written(value));
            self.fault(value.span().start, what, "give its three capital letters: \"EUR\"");
            return String::new();
        };
        code.to_owned()
    }

    fn tables<'v, 'i>(&mut self, root: &'v DeTable<'i>) -> Vec<&'v Value<'i>> {
        let Some(value) = root.get("price") else {
            self.fault(0, "no prices", "write [[price]], and gpu, meter and per_hour below it");
            return Vec::new();
        };
        let Some(list) = value.get_ref().as_array() else {
            self.fault(
                value.span().start,
                "`price` is no list",
                "write [[price]] above each price",
            );
            return Vec::new();
        };
        if let Some(first) = list.get(PRICES_MAX) {
            let what = format!("more than {PRICES_MAX} prices");
            self.fault(first.span().start, what, "leave those out that are no longer asked for");
        }
        list.iter().take(PRICES_MAX).collect()
    }

    fn price(&mut self, value: &Value<'_>) -> Option<Price> {
        let at = value.span().start;
        let Some(table) = value.get_ref().as_table() else {
            self.fault(at, "a price is no table", "write [[price]] above each price");
            return None;
        };
        self.refuse_unknown(table, &PRICE_KEYS);
        let gpu = self.wanted(table, at, "gpu", GIVE_GPU).and_then(|value| self.gpu(value));
        let meter = "give held, alone, busy or memory: meter = \"held\"";
        let meter = self.wanted(table, at, "meter", meter).and_then(|value| self.meter(value));
        let per_hour =
            self.wanted(table, at, "per_hour", GIVE_PRICE).and_then(|value| self.rate(value));
        let from = table.get("from").map(|value| self.moment(value));
        let until = table.get("until").map(|value| (value.span().start, self.moment(value)));
        let from_ms = from.unwrap_or(Some(0))?;
        let until_ms = match until {
            None => u64::MAX,
            Some((at, until)) => {
                let until_ms = until?;
                if until_ms <= from_ms {
                    let what = "the price ends before it begins, or as it begins";
                    let remedy = "give `until` a later day: it is the first on which the price is not in force";
                    self.fault(at, what, remedy);
                    return None;
                }
                until_ms
            }
        };
        let line = line(self.text, at);
        Some(Price { gpu: gpu?, meter: meter?, per_hour: per_hour?, from_ms, until_ms, line })
    }

    fn wanted<'v, 'i>(
        &mut self,
        table: &'v DeTable<'i>,
        at: usize,
        key: &str,
        remedy: &str,
    ) -> Option<&'v Value<'i>> {
        let found = table.get(key);
        if found.is_none() {
            self.fault(at, format!("a price without `{key}`"), remedy);
        }
        found
    }

    fn gpu(&mut self, value: &Value<'_>) -> Option<WhichGpu> {
        let text = value.get_ref().as_str().map(str::trim).unwrap_or_default();
        let refused = if text.is_empty() {
            format!("{} is no GPU", self.written(value))
        } else if text.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("{} is an index, and may be another GPU tomorrow", self.written(value))
        } else if let Some(digits) = text.strip_prefix("GPU-") {
            let is_uuid = digits.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
            if is_uuid && digits.len() >= UUID_DIGITS_MIN {
                return Some(WhichGpu::Uuid(text.to_owned()));
            }
            format!("{} is no UUID with its first {UUID_DIGITS_MIN} digits", self.written(value))
        } else if text.starts_with("MIG-") {
            format!(
                "{} is part of a GPU, and the driver keeps no accounts of such",
                self.written(value)
            )
        } else if let Some(why) = no_gpu_name(text) {
            let what = format!("{} is no product's name", self.written(value));
            self.fault(value.span().start, what, format!("a GPU {why}"));
            return None;
        } else {
            return Some(WhichGpu::Model(text.to_owned()));
        };
        self.fault(value.span().start, refused, GIVE_GPU);
        None
    }

    fn meter(&mut self, value: &Value<'_>) -> Option<Meter> {
        let word = value.get_ref().as_str().unwrap_or_default();
        let known = Meter::ALL.into_iter().find(|meter| meter.as_str() == word);
        if known.is_none() {
            let what = format!("{} is no meter", self.written(value));
            let remedy = match nearest(word, Meter::ALL.into_iter().map(Meter::as_str)) {
                Some(meant) => format!("did you mean \"{meant}\"?"),
                None => "give \"held\", \"alone\", \"busy\" or \"memory\"".to_owned(),
            };
            self.fault(value.span().start, what, remedy);
        }
        known
    }

    fn rate(&mut self, value: &Value<'_>) -> Option<Rate> {
        let read = match value.get_ref() {
            DeValue::String(text) => rate(text),
            DeValue::Integer(number) if number.radix() == 10 => rate(number.as_str()),
            // 1.25 in TOML is a binary fraction, which 0.1 is not.
            DeValue::Float(number) => match rate(number.as_str()) {
                Ok(_) => Err(("is a floating-point number", GIVE_PRICE.to_owned())),
                refused => refused,
            },
            _ => Err(("is no price", GIVE_PRICE.to_owned())),
        };
        match read {
            Ok(rate) => Some(rate),
            Err((what, remedy)) => {
                let what = format!("{} {what}", self.written(value));
                self.fault(value.span().start, what, remedy);
                None
            }
        }
    }

    fn moment(&mut self, value: &Value<'_>) -> Option<u64> {
        let text = match value.get_ref() {
            DeValue::Datetime(moment) => moment.to_string(),
            DeValue::String(text) => text.to_string(),
            _ => String::new(),
        };
        let read = match text.len() {
            10 => text.parse::<Date>().ok().and_then(|day| {
                let zoned = self.zone.to_zoned_datetime(day.to_datetime(Time::midnight()));
                zoned.ok().map(|zoned| zoned.timestamp())
            }),
            _ => text.parse::<Timestamp>().ok(),
        };
        if read.is_none() {
            let what = format!("{} is no day and no moment with its offset", self.written(value));
            self.fault(value.span().start, what, GIVE_DAY);
        }
        let since_1970 = read?.duration_since(Timestamp::UNIX_EPOCH);
        // No journal speaks of what was before 1970.
        Some(u64::try_from(since_1970.as_millis()).unwrap_or(0))
    }

    /// A value as it stands in the file.
    fn written(&self, value: &Value<'_>) -> String {
        shown(self.text.get(value.span()).unwrap_or_default())
    }
}

/// A price as text: digits, and at most one point among them.
fn rate(text: &str) -> Result<Rate, (&'static str, String)> {
    let give = || GIVE_PRICE.to_owned();
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    if ["nan", "inf", "infinity"].iter().any(|word| bare.eq_ignore_ascii_case(word)) {
        return Err(("is no number", give()));
    }
    let begins = bare.starts_with(|first: char| first.is_ascii_digit());
    if begins && text.starts_with('-') {
        return Err(("is negative", "give 0 or more; a discount is a lower price".to_owned()));
    }
    let is_exponent = |c: char| c.is_ascii_digit() || ".eE+-".contains(c);
    if begins && bare.contains(['e', 'E']) && bare.chars().all(is_exponent) {
        return Err(("has an exponent", "write all of its digits, such as \"0.00125\"".to_owned()));
    }
    if begins && bare.contains(',') {
        return Err(("has a comma", "write a point before the decimals: \"1.25\"".to_owned()));
    }
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !are_digits(whole) || !are_digits(decimals) {
        return Err(("is no decimal number", give()));
    }
    let most = usize::try_from(PRICE_DECIMALS_MAX).unwrap_or(usize::MAX);
    if decimals.len() > most {
        let remedy = format!("give at most {PRICE_DECIMALS_MAX} digits after the point");
        return Err(("has too many digits", remedy));
    }
    let too_large = || ("is too large", format!("give at most {PRICE_MAX} an hour"));
    let number = Decimal::from_str_exact(text).map_err(|_| too_large())?;
    Rate::new(number).ok_or_else(too_large)
}

/// That a line is too long, with its place.
fn long_line(index: usize, bytes: usize) -> Fault {
    Fault {
        line: index.saturating_add(1),
        column: LINE_BYTES_MAX.saturating_add(1),
        what: format!("a line of {bytes} bytes"),
        remedy: format!("break it: no line of prices is longer than {LINE_BYTES_MAX} bytes"),
    }
}

fn line(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count().saturating_add(1)
}

fn column(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or(before);
    line.chars().count().saturating_add(1)
}

/// A stranger's text, safe to print and short.
fn shown(text: &str) -> String {
    let mut escaped = escape(text.as_bytes()).to_string();
    if escaped.len() > SHOWN_MAX {
        escaped = escaped.chars().take(SHOWN_MAX).collect();
        escaped.push('…');
    }
    escaped
}
