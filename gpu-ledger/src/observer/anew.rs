//! Reading the driver's store anew, and opening a driver that was not there.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Observer;
use super::release::ReleaseError;
use crate::accounting::harvest::Again;
use crate::unit::GpuUuid;
use crate::unknown::{Unknown, UnknownReason};

impl Observer {
    /// Has rows that the driver still keeps told once more: what was told before did not get to where it
    /// is kept.
    ///
    /// # Errors
    /// As [`Observer::regain`]. Of [`ReleaseError::Unopened`] the rows are told when the driver is opened
    /// the next time; of the others nothing is asked again.
    pub(crate) async fn read_anew(
        &mut self,
        rows: &BTreeMap<GpuUuid, Again>,
        deadline: Duration,
    ) -> Result<(), ReleaseError> {
        self.close(deadline).await?;
        for (gpu, again) in rows {
            if let Some(harvest) = self.before.harvests.get_mut(gpu) {
                harvest.hand_out_again(again.clone());
            }
        }
        self.open().await.map_err(ReleaseError::Unopened)
    }

    /// Opens the driver where it is closed and nobody asked for that, or where it went away: released GPUs
    /// stay released.
    ///
    /// # Errors
    /// Why nothing can be read.
    pub(crate) async fn try_again(&mut self, deadline: Duration) -> Result<(), ReleaseError> {
        self.close(deadline).await?;
        self.open().await.map_err(ReleaseError::Unopened)
    }

    /// Whether a try to open the driver is due: it is closed, though something is to be read, or every
    /// read says that it was unloaded.
    pub(crate) fn needs_driver(&self) -> bool {
        let gpus = self.host().gpus();
        let all_released = !gpus.is_empty() && gpus.keys().all(|gpu| self.released.contains(gpu));
        if self.driver.is_none() {
            return !all_released;
        }
        let unloaded = |unknown: &Unknown| {
            let reason = unknown.reason;
            reason == UnknownReason::DriverNotLoaded || reason == UnknownReason::NvmlUninitialized
        };
        let mut read = gpus.values().filter(|gpu| !self.released.contains(&gpu.facts.uuid));
        !gpus.is_empty() && read.all(|gpu| gpu.unknowns.iter().any(unloaded))
    }
}
