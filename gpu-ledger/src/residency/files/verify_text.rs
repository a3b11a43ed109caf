//! A verification for people.

use std::fmt;

use super::verify::{VerifiedIteration, VerifyReport};
use crate::escape::escape;
use crate::residency::facts::{fingerprint_said, in_flight_said, iterations_said};
use crate::residency::verdict::{DataVerdict, or_unknown};

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::os::unix::ffi::OsStrExt as _;
        writeln!(f, "{}", escape(self.folder.as_os_str().as_bytes()))?;
        let files = self.files_checked;
        match self.as_recorded {
            Some(true) => writeln!(
                f,
                "  {files} files, every one as it was recorded; all figures made again from the raw rows, byte for byte"
            )?,
            Some(false) => writeln!(f, "  {files} files, NOT AS RECORDED:")?,
            None => writeln!(f, "  {files} files; nothing recorded what they were")?,
        }
        for finding in &self.findings {
            let (file, problem) = (finding.file.as_bytes(), finding.problem.as_bytes());
            writeln!(f, "  ! {}: {}", escape(file), escape(problem))?;
        }
        for note in &self.notes {
            writeln!(f, "  {}", escape(note.as_bytes()))?;
        }
        if let Some(planned) = self.iterations_planned {
            let recorded = u64::try_from(self.iterations.len()).unwrap_or(u64::MAX);
            writeln!(f, "  {}", iterations_said(recorded, planned))?;
        }
        self.iterations.iter().try_for_each(|iteration| line(f, iteration))?;
        for explained in &self.explained {
            writeln!(f, "  {explained}")?;
        }
        if let Some(claims) = &self.claims {
            write!(f, "{claims}")?;
        }
        writeln!(f, "  {}", fingerprint_said(self.fingerprint.as_deref()))?;
        writeln!(f, "{}", self.line())
    }
}

fn line(f: &mut fmt::Formatter<'_>, iteration: &VerifiedIteration) -> fmt::Result {
    write!(f, "  iteration {:04}", iteration.iteration)?;
    if let Some(labels) = &iteration.labels {
        let texts =
            [("config", &labels.config), ("context", &labels.context), ("round", &labels.round)];
        for (name, label) in texts {
            if let Some(label) = label {
                write!(f, " {name}={}", escape(label.as_bytes()))?;
            }
        }
    }
    let count = |count: Option<u64>| or_unknown_count(count);
    write!(
        f,
        ": points {}/{}, samples {}, recoveries {}, max age {} ms, sup {} ms: {}",
        count(iteration.points_available),
        count(iteration.points_required),
        count(iteration.gpu_sample_count),
        count(iteration.gpu_deadline_recovery_count),
        or_unknown(iteration.max_sample_age_ms),
        or_unknown(iteration.max_sample_age_sup_ms),
        iteration.data_verdict.as_str(),
    )?;
    if iteration.data_verdict == DataVerdict::Void {
        let reason = |void: &crate::residency::verdict::Void| match void.first_point {
            Some(point) => format!("{}:{} from point {point}", void.reason, void.count),
            None => format!("{}:{}", void.reason, void.count),
        };
        let reasons: Vec<String> = iteration.void_reasons.iter().map(reason).collect();
        write!(f, " ({})", reasons.join(", "))?;
    }
    if let Some(flight) = iteration.probe_in_flight_at_end_ms {
        write!(f, "; {}", in_flight_said(flight))?;
    }
    for note in &iteration.notes {
        write!(f, "; {note}")?;
    }
    writeln!(f)
}

fn or_unknown_count(count: Option<u64>) -> String {
    count.map_or_else(|| "UNKNOWN".to_owned(), |count| count.to_string())
}
