//! What the words of a verdict mean, with the figures of the batch at hand and what to do about it.

use super::facts::{Extremes, in_flight_said};
use super::settings::{AgeGate, Settings};
use super::verdict::{BackendReason, Verdict, Void, VoidReason, or_unknown};

/// What makes a harness verified; stands wherever one is called unverified.
pub const VERIFIES: &str = "`gpu-ledger residency record --out DIR --acceptance` with the same settings on this \
                             machine verifies it";

/// That nobody has shown this recorder to keep its deadlines where the batch was made, and what would.
#[must_use]
pub fn unverified_said() -> String {
    format!("UNVERIFIED HARNESS: no acceptance run passed in these surroundings; {VERIFIES}")
}

/// A sentence for each reason of a verdict: the word, what it means, what to do. And one of a probe that never
/// came back, which may be no reason.
#[must_use]
pub fn explained(verdict: &Verdict, settings: &Settings, worst: &Extremes) -> Vec<String> {
    let backend = verdict.backend.iter().map(|reason| format!("{reason}: {}", of_backend(*reason)));
    let data = verdict.data.iter().map(|void| of_data(void, settings, worst));
    backend.chain(data).chain(worst.in_flight_at_end.map(in_flight_said)).collect()
}

const fn of_backend(reason: BackendReason) -> &'static str {
    match reason {
        BackendReason::KeyMissing => {
            "a file of the batch does not say who was asked, or whether a program was run for it; record \
             it again"
        }
        BackendReason::Mismatch => {
            "files of the batch contradict each other about who was asked; record it again"
        }
        BackendReason::CliSubprocessUsed => {
            "a program was run while the driver was asked; what it said may be as old as it likes"
        }
        BackendReason::Simulated => {
            "a simulated driver was asked; its numbers are of no GPU and cannot be cited"
        }
        BackendReason::Unavailable => {
            "no driver could be asked; `gpu-ledger doctor` says what is missing"
        }
    }
}

fn of_data(void: &Void, settings: &Settings, worst: &Extremes) -> String {
    let (cap, budget) = (settings.cap, settings.stall_budget());
    let meaning = match void.reason {
        VoidReason::AgeOverCap => format!(
            "at a point the newest sample was up to {} ms old, and the cap is {cap} ms; a lone stall of the \
             driver or of the machine may last {budget} ms. A shorter --period leaves more, a higher \
             --max-age claims less",
            or_unknown(worst.max_sample_age)
        ),
        VoidReason::AgeSupOverCap => {
            let gate = match settings.age_gate {
                AgeGate::Both => "",
                AgeGate::Points => " (held against points alone by --gate points)",
            };
            format!(
                "between two samples the age grew to {} ms, and the cap is {cap} ms{gate}; a lone stall may \
                 last {budget} ms",
                or_unknown(worst.supremum)
            )
        }
        VoidReason::AllSamplesStale => {
            "no point had a sample younger than the cap: the driver answers too slowly for it".to_owned()
        }
        VoidReason::PointsMissing => "that many points have no number that may be used".to_owned(),
        VoidReason::NoFirstSample => format!(
            "no sample landed within {} ms (--start-timeout); `gpu-ledger doctor` says whether the driver \
             answers",
            settings.start_timeout
        ),
        VoidReason::ProbeStuck => format!(
            "a call of the driver had not come back {} ms (--hard-timeout) after it was made; the kernel \
             log may have an Xid",
            settings.hard_timeout
        ),
        VoidReason::DeviceLost => {
            "the driver said that the GPU is lost, wants a reset, or that the driver itself is gone; \
             nothing after that is of the same device"
                .to_owned()
        }
        VoidReason::RequiredFieldMissing => {
            let required: Vec<&str> =
                settings.required_fields.iter().map(|field| field.as_str()).collect();
            format!(
                "that many points lack a field that was required ({}); not every GPU has every field",
                required.join(", ")
            )
        }
        VoidReason::SuspendDetected => "the machine slept while it was recorded".to_owned(),
        VoidReason::ClockUnusable => {
            "CLOCK_BOOTTIME went backwards, which a virtual machine that was restored may do; no age can \
             be told"
                .to_owned()
        }
        VoidReason::SampleAccountingMismatch => {
            "the deadlines that were missed and made up for do not follow from the raw rows, or the manifest is \
             not the one that the batch was opened with: something was changed or left out"
                .to_owned()
        }
        VoidReason::TimelineLate => {
            "the processor's share was required and read too late at that many points".to_owned()
        }
        VoidReason::Incomplete => {
            "the recorder was cut off, rows of it could not be written, or windows of it are missing"
                .to_owned()
        }
    };
    let first = void.first_point.map(|point| format!(", first at point {point}"));
    format!("{} ({} in all{}): {meaning}", void.reason, void.count, first.unwrap_or_default())
}

/// The driver's own name of a code (nvml.h of 595.45.04, `nvmlReturn_t`), of those that a call which reads
/// may give.
#[must_use]
pub const fn name_of_code(code: u32) -> Option<&'static str> {
    Some(match code {
        1 => "NVML_ERROR_UNINITIALIZED",
        2 => "NVML_ERROR_INVALID_ARGUMENT",
        3 => "NVML_ERROR_NOT_SUPPORTED",
        4 => "NVML_ERROR_NO_PERMISSION",
        6 => "NVML_ERROR_NOT_FOUND",
        7 => "NVML_ERROR_INSUFFICIENT_SIZE",
        9 => "NVML_ERROR_DRIVER_NOT_LOADED",
        10 => "NVML_ERROR_TIMEOUT",
        12 => "NVML_ERROR_LIBRARY_NOT_FOUND",
        13 => "NVML_ERROR_FUNCTION_NOT_FOUND",
        15 => "NVML_ERROR_GPU_IS_LOST",
        16 => "NVML_ERROR_RESET_REQUIRED",
        17 => "NVML_ERROR_OPERATING_SYSTEM",
        18 => "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
        19 => "NVML_ERROR_IN_USE",
        20 => "NVML_ERROR_MEMORY",
        21 => "NVML_ERROR_NO_DATA",
        999 => "NVML_ERROR_UNKNOWN",
        _ => return None,
    })
}

/// `memory:gpu-lost/15 (NVML_ERROR_GPU_IS_LOST)` of a word of `gpu_query_error_count`.
#[must_use]
pub fn named(word: &str) -> String {
    let code = word.rsplit_once('/').and_then(|(_, code)| code.parse().ok());
    match code.and_then(name_of_code) {
        Some(name) => format!("{word} ({name})"),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residency::moment::Length;

    #[test]
    fn every_reason_is_explained_with_the_figures_of_the_batch() {
        let void = |reason| Void { reason, count: 3, first_point: Some(7) };
        let verdict = Verdict {
            backend: BackendReason::ALL.to_vec(),
            data: VoidReason::ALL.iter().copied().map(void).collect(),
        };
        let worst = Extremes {
            max_sample_age: Some(Length::of_ms(812)),
            supremum: Some(Length::of_ms(821)),
            ..Extremes::default()
        };
        let told = explained(&verdict, &Settings::default(), &worst);
        assert_eq!(told.len(), BackendReason::ALL.len() + VoidReason::ALL.len());
        for (told, word) in told.iter().zip(
            BackendReason::ALL
                .iter()
                .map(|one| one.as_str())
                .chain(VoidReason::ALL.iter().map(|one| one.as_str())),
        ) {
            assert!(told.starts_with(word), "{told}");
            assert!(told.len() > word.len() + 30, "{told}");
        }
        let over = told.iter().find(|told| told.starts_with("age_over_cap")).unwrap();
        assert!(over.starts_with("age_over_cap (3 in all, first at point 7): at a point the newest sample was up to 812.000 ms old, and the cap is 750.000 ms; a lone stall of the driver or of the machine may last 550.000 ms."), "{over}");
    }

    #[test]
    fn a_code_has_the_drivers_name() {
        assert_eq!(named("memory:gpu-lost/15"), "memory:gpu-lost/15 (NVML_ERROR_GPU_IS_LOST)");
        assert_eq!(named("power:invalid_value"), "power:invalid_value");
        assert_eq!(named("power:driver-error/77"), "power:driver-error/77");
    }
}
