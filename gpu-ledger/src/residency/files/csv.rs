//! `timeline.csv`: a row for each point.
//!
//! What may be used stands in the value columns, which are empty where the point is not available; what was
//! held there all the same stands under `raw_`, where nobody averages it by accident.

use std::fmt::Display;
use std::io::{self, Write};

use super::derive::CurvePoint;
use crate::residency::moment::Length;
use crate::residency::sample::{Fields, Reading};
use crate::unit::BootNs;

/// The columns. `t_ms` counts from T0, `held_sample` is the sample's `k`.
pub(super) const HEAD: &str = "j,t_ns,t_ms,available,held_sample,sample_age_ms,sample_age_lower_ms,\
mem_used_bytes,gpu_util_pct,power_mw,temp_c,cpu_valid,cpu_pct,invalid_reason,raw_mem_used_bytes,\
raw_gpu_util_pct,raw_power_mw,raw_temp_c,cpu_invalid_reason\n";

/// Writes the row of a point.
pub(super) fn row(out: &mut impl Write, t0: BootNs, at: &CurvePoint<'_>) -> io::Result<()> {
    let point = at.point;
    let is_available = point.missing.is_none();
    let from_t0 = Length(point.t.0.saturating_sub(t0.0));
    write!(out, "{},{},{from_t0},{is_available},", point.j, point.t.0)?;
    cell(out, point.held.map(|held| held.k))?;
    cell(out, point.age)?;
    cell(out, point.age_lower)?;
    let fields = point.held.map(|held| &held.fields);
    values(out, fields.filter(|_| is_available))?;
    let centipercent = at.cpu.centipercent;
    write!(out, "{},", centipercent.is_some())?;
    if let Some(share) = centipercent {
        write!(out, "{}.{:02}", share / 100, share % 100)?;
    }
    write!(out, ",{},", point.missing.map_or("", |missing| missing.as_str()))?;
    values(out, fields.filter(|_| !is_available))?;
    writeln!(out, "{}", at.cpu.invalid.map_or("", |invalid| invalid.as_str()))
}

fn values(out: &mut impl Write, fields: Option<&Fields>) -> io::Result<()> {
    let Some(fields) = fields else { return out.write_all(b",,,,") };
    cell(out, fields.memory.known().map(|memory| memory.used_bytes))?;
    cell(out, fields.utilization.as_ref().and_then(Reading::known))?;
    cell(out, fields.power.as_ref().and_then(Reading::known))?;
    cell(out, fields.temperature.as_ref().and_then(Reading::known))
}

/// A cell and the comma after it.
fn cell(out: &mut impl Write, value: Option<impl Display>) -> io::Result<()> {
    match value {
        Some(value) => write!(out, "{value},"),
        None => out.write_all(b","),
    }
}
