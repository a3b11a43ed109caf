//! What is aimed at, beside what was measured: met or not met, said plainly.

use super::super::paired::Paired;
use super::super::simulated::DriverCost;
use super::super::statistics::{ONE_PPM, Quartiles};
use super::super::text::{decimal, table};
use super::super::tracer::{EVENTS_PER_PROCESS, Tracer};
use super::{
    KIB_PER_MIB, LoadRows, LongRun, NS_PER_S, Report, Row, cells, core_ppm, mib, missed, percent,
};
use crate::number::grouped;

/// Time with the tracer to time without.
const AIM_RATIO_PPM: u64 = 1_020_000;
/// Resident memory net of the ring.
const AIM_NET_KIB: u64 = 16 * KIB_PER_MIB;
/// Driver calls: 1 % of a core per GPU.
const AIM_DRIVER_PPM: u64 = 10_000;

/// Whether the machine was quiet enough for the aim to mean anything: without the agent on either
/// side, half of all ratios must lie as near to 1 as the aim does.
fn is_decided(control: &Quartiles) -> bool {
    let margin_ppm = AIM_RATIO_PPM - ONE_PPM;
    control.lower >= ONE_PPM - margin_ppm && control.upper <= ONE_PPM + margin_ppm
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
            decimal(self.cost.median, ONE_PPM, 4),
            if is_decided(&self.control) {
                verdict(self.cost.median <= AIM_RATIO_PPM).to_owned()
            } else {
                "NOT DECIDED: the A/A control spreads wider than the aim".to_owned()
            },
        ]]
    }
}

#[cfg(test)]
mod tests {
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
    fn a_ratio_is_not_decided_where_the_control_spreads_wider_than_the_aim() {
        let spread = |lower, upper| Quartiles { lower, median: ONE_PPM, upper };
        let aim = |cost_ppm, control| {
            let cost = Quartiles { lower: cost_ppm, median: cost_ppm, upper: cost_ppm };
            let paired = Paired { rounds: 9, cost, control, process_ns: 1 };
            paired.aims().concat().pop().unwrap()
        };
        assert_eq!(aim(1_020_000, spread(985_000, 1_019_000)), "met");
        assert_eq!(aim(1_020_001, spread(985_000, 1_019_000)), "NOT MET");
        assert!(aim(900_000, spread(690_000, 900_000)).starts_with("NOT DECIDED"));
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
