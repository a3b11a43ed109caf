//! What is aimed at, beside what was measured: met or not met, said plainly.

use super::super::paired::{Paired, Ratios};
use super::super::simulated::DriverCost;
use super::super::statistics::ONE_PPM;
use super::super::tracer::{EVENTS_PER_PROCESS, Tracer};
use super::{
    KIB_PER_MIB, LoadRows, LongRun, NS_PER_S, Report, Row, cells, core_ppm, mib, missed, percent,
};
use crate::number::grouped;
use crate::text::{decimal, table};

/// Time with the tracer to time without.
const AIM_RATIO_PPM: u64 = 1_020_000;
/// Resident memory net of the ring.
const AIM_NET_KIB: u64 = 16 * KIB_PER_MIB;
/// Driver calls: 1 % of a core per GPU.
const AIM_DRIVER_PPM: u64 = 10_000;

/// What the bounds decide. Without the agent on either side they must lie as near to 1 as the aim
/// does, or the machine alone makes as much of a difference; with it they must lie on one side.
fn verdict_of_ratios(ratios: &Ratios) -> &'static str {
    let (Some((below, above)), Some(control)) = (ratios.cost.bounds, ratios.control.bounds) else {
        return "NOT DECIDED: too few rounds";
    };
    let margin_ppm = AIM_RATIO_PPM - ONE_PPM;
    if control.0 < ONE_PPM - margin_ppm || control.1 > ONE_PPM + margin_ppm {
        "NOT DECIDED: the A/A control's bounds are wider than the aim"
    } else if above <= AIM_RATIO_PPM {
        "met"
    } else if below > AIM_RATIO_PPM {
        "NOT MET"
    } else {
        "NOT DECIDED: the aim lies within the ratio's bounds"
    }
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "NOT MET" }
}

/// Every aim that could be measured.
pub(super) fn render(report: &Report) -> String {
    let mut rows = vec![cells(["aim", "", "measured", ""])];
    let paired = report.paired.as_ref().map(Paired::aims);
    rows.extend(paired.unwrap_or_default());
    rows.extend(report.loads.iter().flat_map(LoadRows::aims));
    rows.extend(report.long_run.aims());
    rows.extend(report.driver.as_ref().map(DriverCost::aims).unwrap_or_default());
    if rows.len() == 1 {
        return "Aims: not measured, since gpu-ledger did not run\n".to_owned();
    }
    table(&rows)
}

impl LoadRows {
    fn row(&self, wanted: Tracer) -> Option<&Row> {
        let found = self.rows.iter().find(|(tracer, _)| *tracer == wanted)?;
        found.1.as_ref().ok()
    }

    /// The peer with the least CPU.
    fn best_peer(&self) -> Option<(Tracer, &Row)> {
        let peers = Tracer::PEERS.into_iter().filter_map(|peer| Some((peer, self.row(peer)?)));
        peers.min_by_key(|(_, row)| row.cpu_ns)
    }

    fn aims(&self) -> Vec<Vec<String>> {
        let Some(ours) = self.row(Tracer::GpuLedger) else { return Vec::new() };
        let none_missed = verdict(ours.missed.absent == 0);
        let mut lines = vec![vec![
            format!("missed, {}", self.title),
            "0".to_owned(),
            missed(Tracer::GpuLedger, &ours.missed),
            none_missed.to_owned(),
        ]];
        if let Some((peer, best)) = self.best_peer() {
            lines.push(vec![
                format!("CPU, {}", self.title),
                format!("≤ {} s, half of {}", decimal(best.cpu_ns / 2, NS_PER_S, 4), peer.name()),
                format!("{} s", decimal(ours.cpu_ns, NS_PER_S, 4)),
                verdict(ours.cpu_ns <= best.cpu_ns / 2).to_owned(),
            ]);
        }
        lines
    }
}

impl LongRun {
    fn aims(&self) -> Vec<Vec<String>> {
        let Ok(row) = &self.row else { return Vec::new() };
        let events = self.processes * EVENTS_PER_PROCESS;
        let of = format!("{} events", grouped(events));
        vec![
            vec![
                format!("RSS net of the ring, after {of}"),
                format!("≤ {} MiB", mib(AIM_NET_KIB)),
                format!("{} MiB", mib(row.net_kib())),
                verdict(row.net_kib() <= AIM_NET_KIB).to_owned(),
            ],
            vec![
                format!("missed, of {of}"),
                "0".to_owned(),
                grouped(row.missed.absent),
                verdict(row.missed.absent == 0).to_owned(),
            ],
        ]
    }
}

impl DriverCost {
    fn aims(&self) -> Vec<Vec<String>> {
        // The product's own count is of the calls alone, which is what the aim is about; the
        // threads' time holds also what the product does with the answers.
        let ppm = core_ppm(self.reported_ns, self.elapsed_ns, self.gpus);
        vec![vec![
            // The aim is for 10,000 a second, which not every machine can start.
            format!("driver calls' CPU, of a core per GPU, at {}", self.exits_per_s()),
            format!("≤ {}", percent(Some(AIM_DRIVER_PPM))),
            percent(ppm),
            verdict(ppm.is_some_and(|ppm| ppm <= AIM_DRIVER_PPM)).to_owned(),
        ]]
    }
}

impl Paired {
    fn aims(&self) -> Vec<Vec<String>> {
        vec![vec![
            "time of fork, exec, exit with / without".to_owned(),
            format!("≤ {}", decimal(AIM_RATIO_PPM, ONE_PPM, 2)),
            decimal(self.elapsed.cost.median, ONE_PPM, 4),
            verdict_of_ratios(&self.elapsed).to_owned(),
        ]]
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::statistics::Estimate;
    use super::super::super::tracer::Missed;
    use super::*;

    fn row(cpu_ns: u64, missed: u64) -> Row {
        Row {
            missed: Missed { expected: 300, absent: missed, nameless: 0 },
            cpu_ns,
            elapsed_ns: NS_PER_S,
            rss_kib: 20 * KIB_PER_MIB,
            peak_kib: 30 * KIB_PER_MIB,
            ring_bytes: 4 << 20,
        }
    }

    fn load(ours_ns: u64, missed: u64) -> LoadRows {
        LoadRows {
            title: "100 processes".to_owned(),
            processes: 100,
            rounds: 3,
            bare_ns: NS_PER_S,
            rows: vec![
                (Tracer::GpuLedger, Ok(row(ours_ns, missed))),
                (Tracer::Execsnoop, Ok(row(100_000_000, 0))),
                (Tracer::Bpftrace, Ok(row(60_000_000, 0))),
                (Tracer::Forkstat, Err("not installed: apt-get install forkstat".to_owned())),
            ],
        }
    }

    #[test]
    fn the_aim_is_half_of_the_best_peer_and_a_peer_that_is_not_there_is_named() {
        let aims = load(30_000_000, 0).aims();
        let said: Vec<&str> = aims.iter().filter_map(|aim| Some(aim.last()?.as_str())).collect();
        assert_eq!(said, ["met", "met"]);
        assert!(aims.iter().flatten().any(|cell| cell == "≤ 0.0300 s, half of bpftrace"));
        let text = load(1, 0).render();
        assert!(text.contains("not installed: apt-get install forkstat"), "{text}");
    }

    #[test]
    fn an_aim_that_is_not_met_is_said_so() {
        let aims = load(30_000_001, 1).aims();
        let said: Vec<&str> = aims.iter().filter_map(|aim| Some(aim.last()?.as_str())).collect();
        assert_eq!(said, ["NOT MET", "NOT MET"]);
    }

    #[test]
    fn a_ratio_is_decided_only_by_bounds_on_one_side_of_the_aim() {
        let estimate = |bounds| Estimate { median: ONE_PPM, bounds };
        let said = |cost, control| {
            verdict_of_ratios(&Ratios { cost: estimate(cost), control: estimate(control) })
        };
        let quiet = Some((985_000, 1_019_000));
        assert_eq!(said(Some((1_010_000, 1_020_000)), quiet), "met");
        assert_eq!(said(Some((1_020_001, 1_030_000)), quiet), "NOT MET");
        let open = said(Some((1_020_000, 1_020_001)), quiet);
        assert_eq!(open, "NOT DECIDED: the aim lies within the ratio's bounds");
        // Half as fast without any agent on the other side: whatever the ratio is, it says nothing.
        let noisy = Some((690_000, 1_010_000));
        assert!(said(Some((900_000, 910_000)), noisy).starts_with("NOT DECIDED: the A/A"));
        assert!(said(None, quiet).starts_with("NOT DECIDED: too few"));
        assert!(said(Some((1_000_000, 1_001_000)), None).starts_with("NOT DECIDED: too few"));
    }

    #[test]
    fn a_ring_is_taken_off_twice() {
        assert_eq!(row(1, 0).net_kib(), 12 * KIB_PER_MIB);
    }

    #[test]
    fn a_share_of_a_core_is_per_gpu() {
        assert_eq!(core_ppm(20_000_000, NS_PER_S, 2), Some(10_000));
        assert_eq!(percent(Some(10_000)), "1.000 %");
        assert_eq!(core_ppm(1, 0, 2), None);
    }
}
