//! When the holders of a GPU could not be seen.

use crate::clock::{Stamp, Timeline};
use crate::coverage::{Coverage, Gap};
use crate::unit::{GpuUuid, Span};

/// The parts of `period` in which a holder of this GPU may have gone unseen: outside coverage, and in
/// gaps of driver rows; everything by the boot clock. They may overlap, as [`super::statement()`] allows.
///
/// A loss of process events alone is none of them: it costs names, while the driver's rows
/// still say that the GPU was held, and by how many.
#[must_use]
pub fn blind_spans(
    period: Span,
    timeline: Timeline,
    coverage: &Coverage,
    gpu: &GpuUuid,
) -> Vec<Span> {
    let ms_of = |stamp: Stamp| timeline.ms_of(stamp.boot);
    let before = Span::new(period.from_ms(), ms_of(coverage.start));
    let after = Span::new(ms_of(coverage.end), period.to_ms());
    let outside = [before, after].into_iter().flatten();
    let outside = outside.filter_map(|span| span.overlap(period));
    outside.chain(gap_spans(period, &coverage.gaps, gpu, ms_of)).collect()
}

/// The parts of `period` that lie in gaps of this GPU's rows. `ms_of` places a moment on the bill's grid.
pub fn gap_spans(
    period: Span,
    gaps: &[Gap],
    gpu: &GpuUuid,
    ms_of: impl Fn(Stamp) -> u64,
) -> impl Iterator<Item = Span> {
    let of_this = move |gap: &&Gap| gap.gpu.as_ref().is_none_or(|of| of == gpu);
    let hiding = gaps.iter().filter(|gap| gap.hides_rows()).filter(of_this);
    hiding.filter_map(move |gap| {
        let (from, to) = (ms_of(gap.from), ms_of(gap.to));
        // On a wall clock that was stepped back inside the gap its edges are swapped; a millisecond
        // that is only touched was not wholly seen either.
        Span::new(from.min(to), from.max(to).saturating_add(1))?.overlap(period)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::ClockHistory;
    use crate::unit::{BootNs, WallUs};
    use crate::unknown::GapCause;

    fn stamp(ms: u64) -> Stamp {
        let ns = ms.saturating_mul(1_000_000);
        Stamp { boot: BootNs(ns), mono_ns: ns, wall: WallUs(ms.saturating_mul(1_000)) }
    }

    fn gpu(uuid: &str) -> GpuUuid {
        GpuUuid(Arc::from(uuid))
    }

    fn timeline() -> Timeline {
        let mut history = ClockHistory::default();
        history.observe(stamp(0));
        history.timeline().unwrap()
    }

    fn gap(cause: GapCause, of: Option<&str>, from_ms: u64, to_ms: u64) -> Gap {
        Gap { cause, gpu: of.map(gpu), from: stamp(from_ms), to: stamp(to_ms), size: None }
    }

    #[test]
    fn a_gpu_is_blind_outside_coverage_and_in_gaps_of_its_own_rows() {
        let gaps = vec![
            gap(GapCause::NvmlCallTimeout, Some("GPU-a"), 300, 399),
            gap(GapCause::RowsPossiblyEvicted, Some("GPU-b"), 500, 599),
            gap(GapCause::AgentDown, None, 700, 710),
            gap(GapCause::EventLost, None, 800, 900),
            // Rows of one GPU that had no room and never came again; names of none.
            gap(GapCause::QueueOverflow, Some("GPU-b"), 910, 919),
            gap(GapCause::QueueOverflow, None, 930, 939),
        ];
        let coverage = Coverage { start: stamp(100), end: stamp(1_000), gaps };
        let span = |from, to| Span::new(from, to).unwrap();
        let blind = |uuid| blind_spans(span(50, 1_100), timeline(), &coverage, &gpu(uuid));
        let outside = [span(50, 100), span(1_000, 1_100)];
        assert_eq!(blind("GPU-a"), [&outside[..], &[span(300, 400), span(700, 711)]].concat());
        let of_b = [span(500, 600), span(700, 711), span(910, 920)];
        assert_eq!(blind("GPU-b"), [&outside[..], &of_b].concat());
        assert_eq!(blind_spans(span(150, 250), timeline(), &coverage, &gpu("GPU-a")), []);
    }

    #[test]
    fn a_gap_lies_where_the_boot_clock_has_it_however_the_wall_clock_was_stepped() {
        let mut gap = gap(GapCause::EpochBroken, Some("GPU-a"), 300, 399);
        gap.from.wall = WallUs(9_000_000);
        gap.to.wall = WallUs(1);
        let coverage = Coverage { start: stamp(0), end: stamp(1_000), gaps: vec![gap] };
        let period = Span::new(0, 1_000).unwrap();
        let blind = blind_spans(period, timeline(), &coverage, &gpu("GPU-a"));
        assert_eq!(blind, [Span::new(300, 400).unwrap()]);
    }
}
