//! Whether two batches may be compared at all.

use std::fmt;

use serde::Serialize;

use super::Refusal;
use crate::escape::escape;
use crate::residency::facts::BatchFacts;
use crate::residency::settings::AgeGate;
use crate::residency::statistics::Sound;
use crate::residency::verdict::{BackendReason, Verdict};

/// A batch that asks to be compared.
#[derive(Clone, Copy, Debug)]
pub struct Side<'batch> {
    /// What it was recorded with.
    pub facts: &'batch BatchFacts,
    /// Both its verdicts, computed again from its raw rows.
    pub verdict: &'batch Verdict,
}

/// In what two batches were not recorded alike.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Mismatch {
    /// What differs.
    pub what: &'static str,
    /// What it is of A; `UNKNOWN` where nobody knows.
    pub a: String,
    /// And of B.
    pub b: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = (escape(self.a.as_bytes()), escape(self.b.as_bytes()));
        write!(f, "{} {a} / {b}", self.what)
    }
}

/// `period 200.000 ms / 250.000 ms; driver 595.45.04 / 610.11`.
pub(super) fn listed(mismatches: &[Mismatch]) -> String {
    mismatches.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Two batches that may be compared: both are valid, and whatever differs was allowed to.
#[derive(Debug)]
pub struct Admitted<'batch> {
    pub(super) a: &'batch BatchFacts,
    pub(super) b: &'batch BatchFacts,
    sound_a: Sound,
    sound_b: Sound,
    backend_a: &'batch [BackendReason],
    backend_b: &'batch [BackendReason],
    pub(super) mismatches: Vec<Mismatch>,
    pub(super) unknown_of_both: Vec<&'static str>,
}

impl Admitted<'_> {
    /// Of both together.
    pub(super) fn verdict(&self) -> Verdict {
        let mut backend = [self.backend_a, self.backend_b].concat();
        backend.sort_unstable();
        backend.dedup();
        Verdict { backend, data: Vec::new() }
    }

    /// The proofs with which the statistics of A and of B are folded.
    #[must_use]
    pub const fn sound(&self) -> (Sound, Sound) {
        (self.sound_a, self.sound_b)
    }

    /// One line: what is compared, every backend that fails, every mismatch that was allowed.
    #[must_use]
    pub fn title(&self) -> String {
        let (a, b) = (escape(self.a.batch_id.as_bytes()), escape(self.b.batch_id.as_bytes()));
        let mut title = format!("residency: A {a} compared with B {b}");
        for (side, reasons) in [("A", self.backend_a), ("B", self.backend_b)] {
            if !reasons.is_empty() {
                let reasons: Vec<&str> = reasons.iter().map(|reason| reason.as_str()).collect();
                title = format!("{title}; BACKEND FAIL of {side}: {}", reasons.join(", "));
            }
        }
        if !self.mismatches.is_empty() {
            title = format!("{title}; MISMATCH ALLOWED: {}", listed(&self.mismatches));
        }
        title
    }
}

/// Admits two batches: neither may be void, and they must have been recorded alike unless that is allowed.
pub fn admit<'batch>(
    a: Side<'batch>,
    b: Side<'batch>,
    allow_mismatch: bool,
) -> Result<Admitted<'batch>, Refusal> {
    let sound =
        |side, verdict| Sound::of_batch(verdict).map_err(|void| Refusal::Void { side, void });
    let (sound_a, sound_b) = (sound('A', a.verdict)?, sound('B', b.verdict)?);
    let mut differing = Differing::default();
    differing.all(a.facts, b.facts);
    let Differing { mismatches, unknown_of_both } = differing;
    if !mismatches.is_empty() && !allow_mismatch {
        return Err(Refusal::Mismatch(mismatches));
    }
    Ok(Admitted {
        a: a.facts,
        b: b.facts,
        sound_a,
        sound_b,
        backend_a: &a.verdict.backend,
        backend_b: &b.verdict.backend,
        mismatches,
        unknown_of_both,
    })
}

#[derive(Debug, Default)]
struct Differing {
    mismatches: Vec<Mismatch>,
    unknown_of_both: Vec<&'static str>,
}

impl Differing {
    fn all(&mut self, a: &BatchFacts, b: &BatchFacts) {
        let (with_a, with_b) = (&a.settings, &b.settings);
        let ms = |length: crate::residency::moment::Length| Some(format!("{length} ms"));
        self.compare("schema", Some(a.schema_version), Some(b.schema_version));
        self.compare("backend", Some(a.backend.as_str()), Some(b.backend.as_str()));
        self.compare("period", ms(with_a.period), ms(with_b.period));
        let (q_a, q_b) = (with_a.timeline_period, with_b.timeline_period);
        self.compare("timeline period", ms(q_a), ms(q_b));
        self.compare("cap", ms(with_a.cap), ms(with_b.cap));
        self.compare("age gate", Some(gate(with_a.age_gate)), Some(gate(with_b.age_gate)));
        let order = |facts: &BatchFacts| {
            let order: Vec<&str> = facts.field_order.iter().map(|name| name.as_str()).collect();
            Some(order.join(","))
        };
        self.compare("field order", order(a), order(b));
        self.compare("driver", a.driver.as_deref(), b.driver.as_deref());
        self.compare("GPU", Some(&a.gpu_uuid), Some(&b.gpu_uuid));
        let watts = |facts: &BatchFacts| facts.power_limit_mw.map(|mw| format!("{mw} mW"));
        self.compare("power limit", watts(a), watts(b));
    }

    /// What is unknown of one side alone is a mismatch; of both, nobody can tell.
    fn compare<T: PartialEq + fmt::Display>(
        &mut self,
        what: &'static str,
        a: Option<T>,
        b: Option<T>,
    ) {
        if a.is_none() && b.is_none() {
            self.unknown_of_both.push(what);
        } else if a != b {
            let said =
                |one: Option<T>| one.map_or_else(|| "UNKNOWN".to_owned(), |one| one.to_string());
            self.mismatches.push(Mismatch { what, a: said(a), b: said(b) });
        }
    }
}

/// The word in files.
pub(in crate::residency) const fn gate(gate: AgeGate) -> &'static str {
    match gate {
        AgeGate::Both => "both",
        AgeGate::Points => "points",
    }
}
