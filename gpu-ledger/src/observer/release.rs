//! Giving the driver back for a while, and taking it up again.
//!
//! NVML has no way to close one device: what was opened stays open until the library is shut down. So
//! whatever is released, everything is closed first, and what is not released is opened again, each
//! GPU by its PCI address, which looks at no other one.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::{DRAIN_INTERVAL, Observer};
use crate::accounting::driver::{Driver, GpuFacts};
use crate::host::HostError;
use crate::unit::GpuUuid;
use crate::unknown::{Unknown, UnknownReason};

/// Why handles could not be given back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseError {
    /// A call hangs, and holds the library as long as it does.
    #[error(
        "{0}: the call still hangs, and with it the driver stays open; release again, or end gpu-ledger"
    )]
    Hangs(Unknown),
    /// Nothing can be opened.
    #[error("{0}: the driver cannot be opened again; it is closed until the next try")]
    Unopened(Unknown),
    /// The GPU is none of those that are watched.
    #[error("no GPU {0} is watched here; `gpu-ledger status` lists those that are")]
    NoSuchGpu(GpuUuid),
    /// What was read on the way out could not be settled.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Observer {
    /// Closes every NVML and device handle, and returns when that is proven: the library was shut down, and no
    /// thread holds it. With `gpu` the others are read on, opened anew without it.
    ///
    /// # Errors
    /// [`ReleaseError::Hangs`] with the call that keeps the driver open after `deadline`: nothing is
    /// read then, and the driver is closed as soon as the call returns. May be called again to wait on.
    pub(crate) async fn release(
        &mut self,
        gpu: Option<&GpuUuid>,
        deadline: Duration,
    ) -> Result<(), ReleaseError> {
        let watched: BTreeSet<GpuUuid> = self.host().gpus().keys().cloned().collect();
        let wanted = match gpu {
            Some(gpu) if !watched.contains(gpu) => {
                return Err(ReleaseError::NoSuchGpu(gpu.clone()));
            }
            Some(gpu) => BTreeSet::from([gpu.clone()]),
            None => watched.clone(),
        };
        self.close(deadline).await?;
        self.released.extend(wanted);
        let now = self.clock().now();
        for uuid in self.released.clone() {
            self.host_mut().released(&uuid, now);
        }
        if watched.is_subset(&self.released) {
            return Ok(());
        }
        // Where the others cannot be opened they are unread as well; the next `regain` tries again.
        match self.open().await {
            Ok(()) => Ok(()),
            Err(unknown) => {
                self.host_mut().note_unknown(&unknown);
                Ok(())
            }
        }
    }

    /// Opens again what was released, but for `held`; where that is none, everything, GPUs that came new included.
    ///
    /// # Errors
    /// Why nothing can be read. What was known is kept for the next try.
    pub(crate) async fn regain(
        &mut self,
        held: &BTreeSet<GpuUuid>,
        deadline: Duration,
    ) -> Result<(), ReleaseError> {
        self.released.retain(|gpu| held.contains(gpu));
        // What is open now was opened without what comes back.
        self.close(deadline).await?;
        self.open().await.map_err(ReleaseError::Unopened)
    }

    /// GPUs that were given back on request and not asked for again.
    pub(crate) const fn released(&self) -> &BTreeSet<GpuUuid> {
        &self.released
    }

    /// Opens what is not released. What cannot be opened is out of reach, and its time a gap.
    pub(super) async fn open(&mut self) -> Result<(), Unknown> {
        let Some(options) = self.driver_options.clone() else {
            return Err(Unknown::of(UnknownReason::NvmlUninitialized));
        };
        self.before.only = (!self.released.is_empty()).then(|| {
            let known = self.host.gpus().values().map(|gpu| &gpu.facts);
            let kept = known.filter(|facts| !self.released.contains(&facts.uuid));
            kept.cloned().collect::<Vec<GpuFacts>>()
        });
        let mut before = std::mem::take(&mut self.before);
        let opened = self.while_draining(Driver::reopen(options, &mut before)).await;
        self.before = before;
        let now = self.clock().now();
        let known: Vec<GpuUuid> = self.host().gpus().keys().cloned().collect();
        let out_of_reach = known.iter().filter(|uuid| match &opened {
            Ok((_, gpus, _)) => !gpus.iter().any(|gpu| gpu.uuid == **uuid),
            Err(_) => true,
        });
        for uuid in out_of_reach {
            self.host_mut().released(uuid, now);
        }
        let (facts, gpus, driver) = opened?;
        self.opened(facts, gpus, driver);
        self.ask();
        Ok(())
    }

    /// Closes the driver, and acts on what was read until then.
    pub(super) async fn close(&mut self, deadline: Duration) -> Result<(), ReleaseError> {
        let Some(mut driver) = self.driver.take() else { return Ok(()) };
        let mut left = std::mem::take(&mut self.left);
        let closed = self.while_draining(driver.close(deadline, &mut left)).await;
        self.left = left;
        match closed {
            Ok(harvests) => self.before.harvests.extend(harvests),
            Err(hangs) => {
                self.driver = Some(driver);
                return Err(ReleaseError::Hangs(hangs));
            }
        }
        self.advance(None)?;
        Ok(())
    }

    /// Waits for the driver, which may take seconds to open or to close, and empties the ring meanwhile.
    async fn while_draining<T>(&mut self, driver: impl Future<Output = T>) -> T {
        let mut driver = pin!(driver);
        let mut tick = interval(DRAIN_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                done = &mut driver => return done,
                _ = tick.tick() => self.drain(),
            }
        }
    }
}
