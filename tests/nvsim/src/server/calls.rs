//! One NVML call: the faults that meet it first, then the driver's answer, then what that provokes.

use super::faults::{Action, Oddity};
use super::{Connection, Server, answers, complain};
use crate::protocol::{Answer, NO_GPU};

/// `NVML_ERROR_GPU_IS_LOST`.
const GPU_IS_LOST: u32 = 15;

/// A call as the library sent it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) symbol: String,
    pub(super) gpu: u32,
    pub(super) arguments: Vec<u64>,
    pub(super) text: String,
}

impl Call {
    /// The argument at `place`; the library sends as many as the function has.
    pub(super) fn argument(&self, place: usize) -> u64 {
        // A missing one is a fault of this crate's own library; 0 is what C would pass for none.
        self.arguments.get(place).copied().unwrap_or(0)
    }

    fn is_init(&self) -> bool {
        self.symbol.starts_with("nvmlInit")
    }
}

impl Server {
    pub(super) fn call(&mut self, token: u64, call: Call) {
        match self.faults.action(&call.symbol, call.gpu) {
            Some(Action::Hang) => self.waiting.hang(token, call),
            Some(Action::Delay(delay_ms)) => {
                let until_us = self.now().mono_us.saturating_add(delay_ms.saturating_mul(1_000));
                self.waiting.delay(until_us, token, call);
            }
            Some(Action::Code(code)) => self.send(token, &Answer::code(code)),
            None => self.answer_call(token, &call),
        }
    }

    /// Answers a call, and does what was to happen right after it.
    pub(super) fn answer_call(&mut self, token: u64, call: &Call) {
        if let Some(answer) = self.answer(token, call) {
            self.send(token, &answer);
        }
        for words in self.faults.take_after(&call.symbol) {
            if let Err(problem) = self.apply_words(&words) {
                complain(&format!("after {}: {problem}", call.symbol));
            }
        }
    }

    /// The driver's answer; none for a wait that is answered by its event.
    fn answer(&mut self, token: u64, call: &Call) -> Option<Answer> {
        if call.is_init() {
            return Some(self.initialise(token));
        }
        self.attach(token);
        if call.gpu == NO_GPU {
            return self.answer_system(token, call);
        }
        if self.faults.is_lost(call.gpu) {
            return Some(Answer::code(GPU_IS_LOST));
        }
        let index = usize::try_from(call.gpu).unwrap_or(usize::MAX);
        let now = self.now();
        let connection = self.connections.get(&token)?;
        let caller = self.caller(connection);
        let (Some(gpu), Some(board)) = (self.gpus.get_mut(index), self.boards.get_mut(index))
        else {
            return Some(Answer::code(answers::INVALID_ARGUMENT));
        };
        // Ticks that passed since anybody looked show in what is answered now.
        gpu.advance(now);
        let mut device =
            answers::Device { gpu, board, faults: &self.faults, caller, now, index: call.gpu };
        let answer = device.answer(call);
        // A mode that was switched off, or a store that was cleared, ends spans.
        self.log_ended(index, None);
        Some(answer)
    }

    fn caller(&self, connection: &Connection) -> answers::Caller {
        answers::Caller {
            is_root: connection.peer.is_root && !self.faults.has(Oddity::NotRoot),
            in_container: self.faults.has(Oddity::ContainerView)
                || connection.peer.is_in_container(),
            pid: connection.peer.pid,
            translate: connection.peer.is_in_container(),
        }
    }

    fn initialise(&mut self, token: u64) -> Answer {
        if let Some(code) = self.faults.init_code() {
            return Answer::code(code);
        }
        self.attach(token);
        Answer::default()
    }

    /// Counts the connection among the clients, once.
    fn attach(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if let std::collections::hash_map::Entry::Vacant(place) = self.clients.entry(token) {
            place.insert(connection.peer.pid);
            connection.peer.look_at_namespace();
        }
    }
}
