//! Event sets: who waits for which GPU's Xids.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::calls::Call;
use crate::protocol::Answer;

/// `nvmlEventTypeXidCriticalError`.
pub(super) const XID: u64 = 8;
/// `NVML_ERROR_TIMEOUT`.
const TIMEOUT: u32 = 10;
/// `NVML_ERROR_INVALID_ARGUMENT`.
const INVALID_ARGUMENT: u32 = 2;
/// Xids that a set keeps for a client that does not fetch them; the oldest goes first.
const KEPT_MAX: usize = 64;

#[derive(Debug, Default)]
struct Set {
    owner: u32,
    /// GPUs whose Xids are asked for.
    gpus: BTreeSet<usize>,
    kept: VecDeque<(usize, u64)>,
    /// The connection that waits, and until when.
    waiting: Option<(u64, u64)>,
}

/// All event sets.
#[derive(Debug, Default)]
pub(super) struct Sets {
    sets: BTreeMap<u64, Set>,
    made: u64,
}

impl Sets {
    pub(super) fn create(&mut self, owner: u32) -> Answer {
        self.made += 1;
        self.sets.insert(self.made, Set { owner, ..Set::default() });
        Answer::of(vec![self.made])
    }

    pub(super) fn free(&mut self, set: u64) -> Answer {
        Answer::code(if self.sets.remove(&set).is_some() { 0 } else { INVALID_ARGUMENT })
    }

    pub(super) fn register(&mut self, set: u64, gpu: usize, types: u64) -> Answer {
        let Some(set) = self.sets.get_mut(&set) else { return Answer::code(INVALID_ARGUMENT) };
        if types & XID != 0 {
            set.gpus.insert(gpu);
        }
        Answer::default()
    }

    /// Waits: answers at once when something is kept or nothing is waited for.
    pub(super) fn wait(&mut self, token: u64, call: &Call, now_us: u64) -> Option<Answer> {
        let Some(set) = self.sets.get_mut(&call.argument(0)) else {
            return Some(Answer::code(INVALID_ARGUMENT));
        };
        if let Some((gpu, number)) = set.kept.pop_front() {
            return Some(event(gpu, number));
        }
        let timeout_ms = call.argument(1);
        if timeout_ms == 0 {
            return Some(Answer::code(TIMEOUT));
        }
        set.waiting = Some((token, now_us.saturating_add(timeout_ms.saturating_mul(1_000))));
        None
    }

    /// An Xid on a GPU: answers for those who wait, kept for the others.
    pub(super) fn xid(&mut self, gpu: usize, number: u64) -> Vec<(u64, Answer)> {
        let mut answers = Vec::new();
        for set in self.sets.values_mut().filter(|set| set.gpus.contains(&gpu)) {
            if let Some((token, _)) = set.waiting.take() {
                answers.push((token, event(gpu, number)));
                continue;
            }
            if set.kept.len() == KEPT_MAX {
                set.kept.pop_front();
            }
            set.kept.push_back((gpu, number));
        }
        answers
    }

    pub(super) fn next_us(&self) -> Option<u64> {
        self.sets.values().filter_map(|set| set.waiting).map(|(_, until_us)| until_us).min()
    }

    /// Those whose wait is over.
    pub(super) fn due(&mut self, now_us: u64) -> Vec<(u64, Answer)> {
        let mut answers = Vec::new();
        for set in self.sets.values_mut() {
            if let Some((token, until_us)) = set.waiting
                && until_us <= now_us
            {
                set.waiting = None;
                answers.push((token, Answer::code(TIMEOUT)));
            }
        }
        answers
    }

    pub(super) fn forget_connection(&mut self, token: u64) {
        for set in self.sets.values_mut() {
            if set.waiting.is_some_and(|(waiting, _)| waiting == token) {
                set.waiting = None;
            }
        }
    }

    /// The process's last connection is gone: its sets go too.
    pub(super) fn forget_process(&mut self, pid: u32) {
        self.sets.retain(|_, set| set.owner != pid);
    }
}

fn event(gpu: usize, number: u64) -> Answer {
    Answer::of(vec![u64::try_from(gpu).unwrap_or(u64::MAX), XID, number])
}
