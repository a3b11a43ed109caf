//! What clients ask of the loop.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Daemon;
use super::queue::{Forget, Rotate};
use super::request::{
    Call, NOTE_MAX, Peer, REDACT_MAX, RELEASE_DEFAULT, RELEASE_MAX, Reply, Request, VERSION,
};
use super::status::{NOTES_SHOWN_MAX, NoteStatus, notes_of, rfc3339};
use crate::escape::escape;
use crate::journal::Digest;
use crate::journal::store::{Reader, StateDir, StoreError};
use crate::unit::GpuUuid;

/// Handles that are given back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Release {
    /// Of one GPU, or of all.
    gpu: Option<GpuUuid>,
    until: Instant,
}

/// What clients asked for and is in force.
#[derive(Debug, Default)]
pub(super) struct Desk {
    releases: Vec<Release>,
    /// The last ones, newest first.
    pub(super) notes: Vec<NoteStatus>,
}

impl Daemon {
    /// The last notes of earlier runs.
    pub(super) fn take_over_notes(&mut self) -> Result<(), StoreError> {
        let dir = StateDir::at(&self.config.state_dir);
        self.desk.notes = notes_of(&Reader::open_beside_writer(&dir)?)?;
        Ok(())
    }

    pub(super) async fn serve(&mut self, call: Call) -> anyhow::Result<()> {
        let Call { request, peer, reply } = call;
        let answer = match request {
            Request::Freshen { to_ms } => {
                self.freshen(to_ms, reply);
                return self.turn(None);
            }
            Request::Redact { commitments } => {
                self.redact(&commitments, reply);
                return self.turn(None);
            }
            Request::RotateKey { lost: is_lost } => {
                self.queue.rotate(Rotate { is_lost, reply });
                return self.turn(None);
            }
            Request::Status => self.status_answer(peer),
            Request::Live => Ok(self.live_answer(peer)),
            Request::Mark { note } => self.mark_answer(&note),
            Request::Enter { closed } => {
                let pending = self.drafter.closed(*closed, self.clock.now());
                self.keep(vec![pending]);
                Ok(json!({ "version": VERSION, "closing": true }))
            }
            Request::Release { gpu, end: true, .. } => self.regain_answer(gpu.as_ref()).await,
            Request::Release { gpu, for_ms, end: false } => {
                let time = for_ms.map_or(RELEASE_DEFAULT, Duration::from_millis).min(RELEASE_MAX);
                self.release_answer(gpu, time).await
            }
            // A thread of its own answers it.
            Request::Rows { .. }
            | Request::Why { .. }
            | Request::HeadAt { .. }
            | Request::File { .. }
            | Request::Close { .. }
            | Request::Entry { .. } => Err("the journal is not read by the loop".to_owned()),
        };
        // Whoever asked may have gone.
        let _ = reply.send(answer);
        self.turn(None)
    }

    fn status_answer(&self, peer: Peer) -> Reply {
        let status = serde_json::to_value(self.status(peer)).map_err(|error| error.to_string())?;
        Ok(json!({ "version": VERSION, "status": status }))
    }

    fn live_answer(&self, peer: Peer) -> serde_json::Value {
        let status = self.status(peer);
        let live = json!({
            "as_of": status.as_of,
            "gpus": status.gpus,
            "open": status.open,
            "no_driver_row": status.no_driver_row,
        });
        json!({ "version": VERSION, "live": live })
    }

    fn mark_answer(&mut self, note: &str) -> Reply {
        if note.trim().is_empty() {
            return Err("a note without words is none".to_owned());
        }
        if note.len() > NOTE_MAX {
            return Err(format!("a note has at most {NOTE_MAX} bytes"));
        }
        let note = escape(note.as_bytes()).to_string();
        let note: Arc<str> = note.into();
        self.mark(Some(Arc::clone(&note)));
        self.desk.notes.insert(0, NoteStatus { at: rfc3339(self.clock.now().wall), note });
        self.desk.notes.truncate(usize::try_from(NOTES_SHOWN_MAX).unwrap_or(usize::MAX));
        Ok(json!({ "version": VERSION, "marked": true }))
    }

    /// Has the journal's writer delete texts, which answers when they are gone.
    fn redact(&self, commitments: &[String], reply: oneshot::Sender<Reply>) {
        let parsed =
            commitments.iter().map(|word| Digest::of_hex(word)).collect::<Option<Vec<_>>>();
        match parsed {
            Some(commitments) if commitments.len() <= REDACT_MAX => {
                self.queue.forget(Forget { commitments, reply });
            }
            _ => {
                let what =
                    format!("`commitments` are at most {REDACT_MAX} digests of 64 hex digits");
                let _ = reply.send(Err(what));
            }
        }
    }

    async fn release_answer(&mut self, gpu: Option<GpuUuid>, time: Duration) -> Reply {
        let deadline = self.config.call_deadline * 2;
        let released = self.observer.release(gpu.as_ref(), deadline).await;
        self.reopens |= released.is_err();
        released.map_err(|error| error.to_string())?;
        let until = Instant::now() + time;
        // The same once more is another end of it; what else was promised stands.
        self.desk.releases.retain(|release| release.gpu != gpu);
        self.desk.releases.push(Release { gpu, until });
        let released: Vec<&GpuUuid> = self.observer.released().iter().collect();
        tracing::info!(?released, ?time, "handles are given back");
        let for_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(json!({ "version": VERSION, "released": released, "for_ms": for_ms }))
    }

    async fn regain_answer(&mut self, gpu: Option<&GpuUuid>) -> Reply {
        self.regain(gpu).await?;
        Ok(json!({ "version": VERSION, "released": self.observer.released() }))
    }

    /// Whether everything is given back: then nothing is opened, whatever comes.
    pub(super) fn is_all_released(&self) -> bool {
        self.desk.releases.iter().any(|release| release.gpu.is_none())
    }

    /// Takes up what somebody wants back: one GPU, whatever it was released with, or everything.
    async fn regain(&mut self, gpu: Option<&GpuUuid>) -> Result<(), String> {
        match gpu {
            None => self.desk.releases.clear(),
            Some(gpu) => {
                let watched: Vec<GpuUuid> = self.observer.released().iter().cloned().collect();
                let releases = std::mem::take(&mut self.desk.releases);
                self.desk.releases = without(releases, gpu, &watched);
            }
        }
        self.take_up().await
    }

    /// Opens what no release holds any more.
    async fn take_up(&mut self) -> Result<(), String> {
        // One of all GPUs holds whatever is there.
        let held = self.desk.releases.iter().map(|release| release.gpu.clone());
        let Some(held) = held.collect::<Option<BTreeSet<GpuUuid>>>() else { return Ok(()) };
        if self.observer.released().is_subset(&held) {
            return Ok(());
        }
        let regained = self.observer.regain(&held, self.config.call_deadline * 2).await;
        self.reopens |= regained.is_err();
        regained.map_err(|error| error.to_string())?;
        tracing::info!(still_released = ?held, "handles are taken up again");
        self.driver_opened();
        self.observer.want_reads(true, true);
        Ok(())
    }

    /// Handles that were given back for a time come back alone.
    pub(super) async fn see_to_releases(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        let before = self.desk.releases.len();
        self.desk.releases.retain(|release| release.until > now);
        if self.desk.releases.len() == before {
            return Ok(());
        }
        if let Err(error) = self.take_up().await {
            // The driver is tried again like one that was never there.
            tracing::error!("{error}");
        }
        self.turn(None)
    }
}

/// The releases without one GPU: one of all becomes one of each other GPU.
fn without(releases: Vec<Release>, gpu: &GpuUuid, watched: &[GpuUuid]) -> Vec<Release> {
    let others = |until| {
        let others = watched.iter().filter(|other| *other != gpu).cloned();
        others.map(|other| Release { gpu: Some(other), until }).collect::<Vec<_>>()
    };
    let kept = releases.into_iter().flat_map(|release| match &release.gpu {
        None => others(release.until),
        Some(of) if of == gpu => Vec::new(),
        Some(_) => vec![release],
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(name: &str) -> GpuUuid {
        GpuUuid(name.into())
    }

    #[test]
    fn one_gpu_that_is_wanted_back_leaves_the_others_released() {
        let until = Instant::now();
        let of = |name: Option<&str>| Release { gpu: name.map(gpu), until };
        let watched = [gpu("a"), gpu("b"), gpu("c")];
        let left = without(vec![of(None), of(Some("a")), of(Some("b"))], &gpu("a"), &watched);
        assert_eq!(left, [of(Some("b")), of(Some("c")), of(Some("b"))]);
        assert_eq!(without(vec![of(Some("a"))], &gpu("a"), &watched), []);
    }
}
