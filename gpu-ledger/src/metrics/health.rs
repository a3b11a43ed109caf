//! Whether all is well, and why not. Pure.

use std::fmt;

use crate::unit::{GpuUuid, Ms};
use crate::unknown::Observed;

/// Reads of a GPU that may fail one after another before health turns red.
pub const READS_MISSED_MAX: u64 = 6;
/// A GPU on which anything runs is swept this often; an idle one as well.
const READ_INTERVAL_MS: u64 = 5_000;

/// Why something is not well: a closed list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HealthReason {
    /// The daemon has ended in order: this is its last word, and nothing is watched.
    Stopped,
    /// A GPU was not read for longer than [`READS_MISSED_MAX`] intervals.
    ReaderStale,
    /// No driver can be read at all.
    DriverUnavailable,
    /// Process events cannot be had: nobody is named.
    EventsUnavailable,
    /// The journal's disk is full.
    DiskFull,
    /// The journal cannot be written.
    JournalNotWritable,
    /// Checkpoints are not signed: the journal does not continue what was signed, or its key is another.
    CheckpointRefused,
}

impl HealthReason {
    /// Every reason.
    pub const ALL: &'static [Self] = &[
        Self::Stopped,
        Self::ReaderStale,
        Self::DriverUnavailable,
        Self::EventsUnavailable,
        Self::DiskFull,
        Self::JournalNotWritable,
        Self::CheckpointRefused,
    ];

    /// The word in every format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::ReaderStale => "reader-stale",
            Self::DriverUnavailable => "driver-unavailable",
            Self::EventsUnavailable => "events-unavailable",
            Self::DiskFull => "disk-full",
            Self::JournalNotWritable => "journal-not-writable",
            Self::CheckpointRefused => "checkpoint-refused",
        }
    }
}

impl fmt::Display for HealthReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What health depends on.
#[derive(Clone, Debug)]
pub struct Vitals {
    /// The daemon has ended.
    pub has_stopped: bool,
    /// How long ago each GPU's last good read ended. One that was released on request is left out: it
    /// is not read on purpose.
    pub read_ages: Vec<(GpuUuid, Observed<Ms>)>,
    /// Why no driver can be read; `None` where one can.
    pub driver_lacks: Option<String>,
    /// Why there are no process events; `None` where there are.
    pub events_lack: Option<String>,
    /// What keeps the journal from being written; `None` where nothing does.
    pub journal_lacks: Option<JournalLack>,
    /// Why no checkpoint may be signed; `None` where nothing speaks against it.
    pub checkpoint_lack: Option<String>,
}

/// What keeps the journal from being written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JournalLack {
    /// No room on its disk.
    DiskFull(String),
    /// Anything else.
    NotWritable(String),
}

/// Well, or the reasons why not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// What is wrong, each with what is known of it, without line ends.
    pub reasons: Vec<(HealthReason, String)>,
}

impl Health {
    /// Judges.
    #[must_use]
    pub fn of(vitals: &Vitals) -> Self {
        let mut reasons = Vec::new();
        if vitals.has_stopped {
            reasons.push((HealthReason::Stopped, "the daemon was told to end, and did".to_owned()));
        }
        for (gpu, age) in &vitals.read_ages {
            let limit = READ_INTERVAL_MS.saturating_mul(READS_MISSED_MAX);
            match age {
                Observed::Known(age) if age.0 <= limit => {}
                Observed::Known(age) => {
                    reasons.push((HealthReason::ReaderStale, format!("{gpu} not read for {age}")));
                }
                Observed::Unknown(reason) => {
                    reasons.push((HealthReason::ReaderStale, format!("{gpu} not read: {reason}")));
                }
            }
        }
        let lacks = [
            (HealthReason::DriverUnavailable, &vitals.driver_lacks),
            (HealthReason::EventsUnavailable, &vitals.events_lack),
        ];
        for (reason, why) in lacks {
            reasons.extend(why.iter().map(|why| (reason, why.clone())));
        }
        match &vitals.journal_lacks {
            Some(JournalLack::DiskFull(why)) => reasons.push((HealthReason::DiskFull, why.clone())),
            Some(JournalLack::NotWritable(why)) => {
                reasons.push((HealthReason::JournalNotWritable, why.clone()));
            }
            None => {}
        }
        let refused = vitals.checkpoint_lack.iter();
        reasons.extend(refused.map(|why| (HealthReason::CheckpointRefused, why.clone())));
        Self { reasons }
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.reasons.is_empty()
    }
}

impl fmt::Display for Health {
    /// `healthy`, or a line a reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_well() {
            return f.write_str("healthy\n");
        }
        self.reasons.iter().try_for_each(|(reason, why)| {
            writeln!(f, "{reason}: {}", crate::escape::escape(why.as_bytes()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unknown::UnknownReason;

    fn well() -> Vitals {
        Vitals {
            has_stopped: false,
            read_ages: vec![(GpuUuid("GPU-a".into()), Observed::Known(Ms(30_000)))],
            driver_lacks: None,
            events_lack: None,
            journal_lacks: None,
            checkpoint_lack: None,
        }
    }

    #[test]
    fn a_stale_reader_turns_health_red() {
        assert!(Health::of(&well()).is_well());
        assert_eq!(Health::of(&well()).to_string(), "healthy\n");
        let mut stale = well();
        stale.read_ages[0].1 = Observed::Known(Ms(30_001));
        let health = Health::of(&stale);
        assert_eq!(health.to_string(), "reader-stale: GPU-a not read for 30.001 s\n");
        // Never read at all is no better.
        stale.read_ages[0].1 = Observed::Unknown(UnknownReason::NvmlCallTimeout);
        let text = Health::of(&stale).to_string();
        assert_eq!(text, "reader-stale: GPU-a not read: nvml-call-timeout\n");
    }

    #[test]
    fn every_reason_can_occur_and_has_its_own_word() {
        let ill = Vitals {
            has_stopped: true,
            read_ages: vec![(GpuUuid("GPU-a".into()), Observed::Unknown(UnknownReason::GpuLost))],
            driver_lacks: Some("no library".to_owned()),
            events_lack: Some("no\nBTF".to_owned()),
            journal_lacks: Some(JournalLack::DiskFull("0 bytes free".to_owned())),
            checkpoint_lack: None,
        };
        let read_only = Vitals {
            journal_lacks: Some(JournalLack::NotWritable("read-only".to_owned())),
            checkpoint_lack: Some("a tree of 7 entries".to_owned()),
            ..well()
        };
        let (ill, read_only) = (Health::of(&ill), Health::of(&read_only));
        let seen: Vec<HealthReason> =
            ill.reasons.iter().chain(&read_only.reasons).map(|(reason, _)| *reason).collect();
        assert_eq!(seen, HealthReason::ALL);
        assert_eq!(ill.to_string().lines().count(), 5, "one line a reason");
    }
}
