//! What holds of the blind spots of every report: each is a gap with a cause, and no loss is called a
//! number that nobody could count.

use std::collections::BTreeMap;

use serde_json::Value;

/// In what a report's gaps and its figures contradict each other.
pub(crate) fn contradictions(report: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for gpu in report["gpus"].as_array().unwrap() {
        let uncovered_ms = gpu["uncovered_ms"].as_u64().unwrap();
        // A stepped wall clock does not print how long a gap was.
        let hidden_ms = hidden_ms(report, &gpu["gpu_uuid"]);
        if report["test_clock"] == false && uncovered_ms > hidden_ms {
            wrong.push(format!("{uncovered_ms} ms uncovered, {hidden_ms} ms in gaps: {gpu}"));
        }
        let lost = &gpu["possibly_lost"];
        let hiding = || gaps_of(report, &gpu["gpu_uuid"]);
        if !lost.is_null() && report["device_touch"]["on"] == false {
            wrong.push(format!("{lost} lost, and opens were not watched: {gpu}"));
        }
        let open_ended =
            |gap: &&Value| gap["size"].is_null() && gap["cause"] != "nvml-call-timeout";
        if !lost.is_null() && hiding().any(|gap| open_ended(&gap)) {
            wrong.push(format!("{lost} lost, and a gap has no size: {gpu}"));
        }
    }
    wrong
}

fn gaps_of<'a>(report: &'a Value, gpu: &'a Value) -> impl Iterator<Item = &'a Value> {
    let gaps = report["coverage"]["gaps"].as_array().unwrap();
    gaps.iter().filter(move |gap| gap["gpu"] == *gpu)
}

/// How long a GPU's gaps are together, a millisecond that is only touched included.
fn hidden_ms(report: &Value, gpu: &Value) -> u64 {
    let us = |moment: &Value| {
        let moment: jiff::Timestamp = moment.as_str().unwrap().parse().unwrap();
        u64::try_from(moment.as_microsecond()).unwrap()
    };
    let mut spans = BTreeMap::new();
    for gap in gaps_of(report, gpu) {
        let to = spans.entry(us(&gap["from"])).or_insert(0);
        *to = us(&gap["to"]).max(*to);
    }
    let (mut hidden_ms, mut reached) = (0, 0);
    for (from, to) in spans {
        hidden_ms += to.saturating_sub(from.max(reached)).div_ceil(1_000) + 2;
        reached = reached.max(to);
    }
    hidden_ms
}
