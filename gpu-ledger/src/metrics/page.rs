//! The page of a scraper, family after family: exact values, and nothing where nothing is known.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeMetric, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::accounting::calls::{CallCost, LATENCY_BOUNDS_NS};
use crate::memory::ByteMs;
use crate::unit::{Ms, WallUs};
use crate::unknown::{Observed, UnknownReason};

/// What every name begins with.
pub(super) const PREFIX: &str = "gpu_ledger";

/// Labels of one series.
pub(super) type Labels = Vec<(&'static str, String)>;

/// Seconds, exactly: the nearest double is the one that a scraper makes of the decimal number. A
/// division would be a rounding of its own.
fn seconds(whole: u64, fraction: u64, digits: usize) -> f64 {
    format!("{whole}.{fraction:0digits$}").parse().unwrap_or(f64::NAN)
}

pub(super) fn seconds_of(ms: Ms) -> f64 {
    seconds(ms.0 / 1_000, ms.0 % 1_000, 3)
}

/// Since 1970: a double tells quarters of a microsecond apart until 2100.
pub(super) fn seconds_of_us(at: WallUs) -> f64 {
    seconds(at.0 / 1_000_000, at.0 % 1_000_000, 6)
}

/// GiB·s, cut to three digits.
pub(super) fn gib_seconds_of(memory: ByteMs) -> f64 {
    memory.to_string().parse().unwrap_or(f64::NAN)
}

pub(super) fn seconds_of_ns(ns: u64) -> f64 {
    seconds(ns / 1_000_000_000, ns % 1_000_000_000, 9)
}

/// The page as it is written, family after family. A family without series is left out.
pub(super) struct Page<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl<'a> Page<'a> {
    pub(super) const fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self { encoder }
    }
}

impl Page<'_> {
    pub(super) fn counters<V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels, V)>,
    ) -> fmt::Result {
        let series = series.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value)));
        self.family(name, help, MetricType::Counter, series)
    }

    pub(super) fn gauges<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels, V)>,
    ) -> fmt::Result {
        let series = series.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value)));
        self.family(name, help, MetricType::Gauge, series)
    }

    pub(super) fn observed_counters<V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels, Observed<V>)>,
    ) -> fmt::Result {
        let (known, unknown) = split(series);
        self.counters(name, help, known)?;
        self.unknowns(&format!("{name}_total"), unknown)
    }

    pub(super) fn observed_gauges<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels, Observed<V>)>,
    ) -> fmt::Result {
        let (known, unknown) = split(series);
        self.gauges(name, help, known)?;
        self.unknowns(name, unknown)
    }

    /// The absent value's stand-in: why it is absent.
    fn unknowns(&mut self, name: &str, unknown: Vec<(Labels, UnknownReason)>) -> fmt::Result {
        let series = unknown.into_iter().map(|(mut labels, reason)| {
            labels.push(("reason", reason.to_string()));
            (labels, 1_u64)
        });
        let help = format!("1 where {PREFIX}_{name} is not known.");
        self.gauges(&format!("{name}_unknown"), &help, series)
    }

    fn family<M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        series: impl Iterator<Item = (Labels, M)>,
    ) -> fmt::Result {
        let mut series = series.peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        for (labels, metric) in series {
            metric.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    pub(super) fn latencies<'c>(
        &mut self,
        series: impl Iterator<Item = (Labels, &'c CallCost)>,
    ) -> fmt::Result {
        let mut series = series.peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let mut family = self.encoder.encode_descriptor(
            "driver_call_seconds",
            "How long driver calls took.",
            None,
            MetricType::Histogram,
        )?;
        for (labels, cost) in series {
            let bounds = LATENCY_BOUNDS_NS.map(seconds_of_ns);
            let buckets: Vec<(f64, u64)> = bounds.into_iter().zip(cost.latency_counts).collect();
            let sum = seconds_of_ns(cost.latency_total_ns);
            let mut one = family.encode_family(&labels)?;
            one.encode_histogram::<NoLabelSet>(sum, cost.count, &buckets, None)?;
        }
        Ok(())
    }
}

/// Series whose value is known, and those whose value is not.
type Split<V> = (Vec<(Labels, V)>, Vec<(Labels, UnknownReason)>);

fn split<V>(series: impl IntoIterator<Item = (Labels, Observed<V>)>) -> Split<V> {
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for (labels, value) in series {
        match value {
            Observed::Known(value) => known.push((labels, value)),
            Observed::Unknown(reason) => unknown.push((labels, reason)),
        }
    }
    (known, unknown)
}
