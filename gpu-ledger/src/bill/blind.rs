//! When the holders of a GPU could not be seen.

use crate::coverage::{Coverage, Gap, hides_rows};
use crate::unit::{GpuUuid, Span};

/// The parts of `period` in which a holder of this GPU may have gone unseen: outside coverage, and in
/// gaps of driver rows. They may overlap, as [`super::statement()`] allows.
///
/// A loss of process events alone is none of them: it costs names, while the driver's rows
/// still say that the GPU was held, and by how many.
#[must_use]
pub fn blind_spans(period: Span, coverage: &Coverage, gpu: &GpuUuid) -> Vec<Span> {
    let before = Span::new(period.from_ms(), coverage.start.wall.ms());
    let after = Span::new(coverage.end.wall.ms(), period.to_ms());
    let outside = [before, after].into_iter().flatten();
    let outside = outside.filter_map(|span| span.overlap(period));
    outside.chain(gap_spans(period, &coverage.gaps, gpu)).collect()
}

/// The parts of `period` that lie in gaps of this GPU's rows.
pub fn gap_spans<'a>(
    period: Span,
    gaps: &'a [Gap],
    gpu: &'a GpuUuid,
) -> impl Iterator<Item = Span> + use<'a> {
    let of_this = move |gap: &&Gap| gap.gpu.as_ref().is_none_or(|of| of == gpu);
    let hiding = gaps.iter().filter(|gap| hides_rows(gap.cause)).filter(of_this);
    hiding.filter_map(move |gap| {
        let (from, to) = (gap.from.wall.ms(), gap.to.wall.ms());
        // A clock that was stepped back inside the gap swaps its edges; a millisecond that is
        // only touched was not wholly seen either.
        Span::new(from.min(to), from.max(to).saturating_add(1))?.overlap(period)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::Stamp;
    use crate::unit::{BootNs, WallUs};
    use crate::unknown::GapCause;

    fn stamp(ms: u64) -> Stamp {
        let ns = ms.saturating_mul(1_000_000);
        Stamp { boot: BootNs(ns), mono_ns: ns, wall: WallUs(ms.saturating_mul(1_000)) }
    }

    fn gpu(uuid: &str) -> GpuUuid {
        GpuUuid(Arc::from(uuid))
    }

    fn gap(cause: GapCause, of: Option<&str>, from_ms: u64, to_ms: u64) -> Gap {
        Gap { cause, gpu: of.map(gpu), from: stamp(from_ms), to: stamp(to_ms), size: None }
    }

    #[test]
    fn a_gpu_is_blind_outside_coverage_and_in_gaps_of_its_own_rows() {
        let gaps = vec![
            gap(GapCause::NvmlCallTimeout, Some("GPU-a"), 300, 399),
            gap(GapCause::RowsPossiblyEvicted, Some("GPU-b"), 500, 599),
            gap(GapCause::AgentDown, None, 710, 700),
            gap(GapCause::EventLost, None, 800, 900),
        ];
        let coverage = Coverage { start: stamp(100), end: stamp(1_000), gaps };
        let span = |from, to| Span::new(from, to).unwrap();
        let blind = |uuid| blind_spans(span(50, 1_100), &coverage, &gpu(uuid));
        let outside = [span(50, 100), span(1_000, 1_100)];
        assert_eq!(blind("GPU-a"), [&outside[..], &[span(300, 400), span(700, 711)]].concat());
        assert_eq!(blind("GPU-b"), [&outside[..], &[span(500, 600), span(700, 711)]].concat());
        assert_eq!(blind_spans(span(150, 250), &coverage, &gpu("GPU-a")), []);
    }
}
