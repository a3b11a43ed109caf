//! What clients ask of the loop.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::Daemon;
use super::request::{Call, NOTE_MAX, Peer, RELEASE_DEFAULT, RELEASE_MAX, Reply, Request, VERSION};
use super::status::{NOTES_SHOWN_MAX, NoteStatus, notes_of, rfc3339};
use crate::escape::escape;
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
            Request::Status => self.status_answer(peer),
            Request::Live => Ok(self.live_answer(peer)),
            Request::Mark { note } => self.mark_answer(&note),
            Request::Release { gpu, end: true, .. } => self.regain_answer(gpu.as_ref()).await,
            Request::Release { gpu, for_ms, end: false } => {
                let time = for_ms.map_or(RELEASE_DEFAULT, Duration::from_millis).min(RELEASE_MAX);
                self.release_answer(gpu, time).await
            }
            // A thread of its own answers it.
            Request::Rows { .. } => Err("rows are not asked of the loop".to_owned()),
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

    async fn release_answer(&mut self, gpu: Option<GpuUuid>, time: Duration) -> Reply {
        let deadline = self.config.call_deadline * 2;
        let released = self.observer.release(gpu.as_ref(), deadline).await;
        self.reopens |= released.is_err();
        released.map_err(|error| error.to_string())?;
        let until = Instant::now() + time;
        self.desk.releases.retain(|release| gpu.is_some() && release.gpu != gpu);
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

    async fn regain(&mut self, gpu: Option<&GpuUuid>) -> Result<(), String> {
        self.desk.releases.retain(|release| gpu.is_some() && release.gpu.as_ref() != gpu);
        let regained = self.observer.regain(gpu, self.config.call_deadline * 2).await;
        self.reopens |= regained.is_err();
        regained.map_err(|error| error.to_string())?;
        tracing::info!(?gpu, "handles are taken up again");
        self.driver_opened();
        self.observer.want_reads(true, true);
        Ok(())
    }

    /// Handles that were given back for a time come back alone.
    pub(super) async fn see_to_releases(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        let Some(due) = self.desk.releases.iter().find(|release| release.until <= now).cloned()
        else {
            return Ok(());
        };
        if let Err(error) = self.regain(due.gpu.as_ref()).await {
            // The driver is tried again like one that was never there.
            tracing::error!("{error}");
        }
        self.turn(None)
    }
}
