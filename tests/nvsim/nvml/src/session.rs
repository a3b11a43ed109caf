//! The library's connections: as many as calls run at once, one process's own.
//!
//! A call takes a connection out of the pool and puts it back, so that a call that hangs blocks no
//! other thread. After a fork the child has a state of its own: an inherited connection would mix
//! two processes' answers.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};
use nvsim::client::{SOCKET_VARIABLE, Wire};
use nvsim::protocol::{Answer, NO_GPU, Request};

/// An `nvmlReturn_t` that is not success.
pub(crate) type Code = nvmlReturn_t;

pub(crate) const UNINITIALIZED: Code = 1;
pub(crate) const INVALID_ARGUMENT: Code = 2;
pub(crate) const NOT_FOUND: Code = 6;
pub(crate) const INSUFFICIENT_SIZE: Code = 7;
pub(crate) const DRIVER_NOT_LOADED: Code = 9;
pub(crate) const UNKNOWN: Code = 999;

struct State {
    pid: u32,
    /// How often `nvmlInit` succeeded without an `nvmlShutdown`.
    inits: AtomicU32,
    idle: Mutex<Vec<Wire>>,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());

/// This process's state, made at its first use, also after a fork.
fn state() -> &'static State {
    let pid = std::process::id();
    let mut current = STATE.load(Ordering::Acquire);
    loop {
        // SAFETY: a state is never freed once it is in `STATE`, and is only shared from there.
        let known = unsafe { current.as_ref() };
        if let Some(known) = known
            && known.pid == pid
        {
            return known;
        }
        // A forked child is as initialised as its parent was. The parent's lock is not touched:
        // another of its threads may have held it at the fork.
        let inits = known.map_or(0, |known| known.inits.load(Ordering::Relaxed));
        let fresh = Box::into_raw(Box::new(State {
            pid,
            inits: AtomicU32::new(inits),
            idle: Mutex::new(Vec::new()),
        }));
        match STATE.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => current = fresh,
            Err(other) => {
                // SAFETY: made by `Box::into_raw` just now, and never shared.
                drop(unsafe { Box::from_raw(fresh) });
                current = other;
            }
        }
    }
}

impl State {
    fn idle(&self) -> MutexGuard<'_, Vec<Wire>> {
        // A list of connections is whole at every moment, whoever panicked with it.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, request: &Request) -> Result<Answer, Code> {
        // A server that was started anew, as a driver that was loaded anew, has forgotten its
        // connections: then a fresh one is tried before anything is reported.
        let pooled = self.idle().pop();
        if let Some(wire) = pooled
            && let Ok(answer) = wire.ask(request)
        {
            self.idle().push(wire);
            return Ok(answer);
        }
        let wire = connect()?;
        let answer = wire.ask(request).map_err(|_| UNKNOWN)?;
        self.idle().push(wire);
        Ok(answer)
    }
}

fn connect() -> Result<Wire, Code> {
    let socket: OsString = std::env::var_os(SOCKET_VARIABLE).ok_or(DRIVER_NOT_LOADED)?;
    Wire::connect(Path::new(&socket)).map_err(|_| DRIVER_NOT_LOADED)
}

/// `nvmlInit` by whichever name.
pub(crate) fn initialise(symbol: &str, flags: u64) -> Result<(), Code> {
    let state = state();
    let answer = state.ask(&request(symbol, NO_GPU, &[flags], String::new()))?;
    if answer.code != 0 {
        return Err(answer.code);
    }
    state.inits.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// `nvmlShutdown`: the last one closes every connection.
pub(crate) fn shut_down() -> Result<(), Code> {
    let state = state();
    ask("nvmlShutdown", NO_GPU, &[])?;
    let fewer = |inits: u32| inits.checked_sub(1);
    let before = state.inits.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
    if before.map_err(|_| UNINITIALIZED)? == 1 {
        state.idle().clear();
    }
    Ok(())
}

fn request(symbol: &str, gpu: u32, arguments: &[u64], text: String) -> Request {
    Request::Call { symbol: symbol.to_owned(), gpu, arguments: arguments.to_vec(), text }
}

/// A call that has more to say than its code: [`INSUFFICIENT_SIZE`] comes with a number.
pub(crate) fn ask_raw(symbol: &str, gpu: u32, arguments: &[u64]) -> Result<Answer, Code> {
    let state = state();
    if state.inits.load(Ordering::Acquire) == 0 {
        return Err(UNINITIALIZED);
    }
    state.ask(&request(symbol, gpu, arguments, String::new()))
}

/// A call: what it answers, or its code.
pub(crate) fn ask(symbol: &str, gpu: u32, arguments: &[u64]) -> Result<Answer, Code> {
    let answer = ask_raw(symbol, gpu, arguments)?;
    if answer.code == 0 { Ok(answer) } else { Err(answer.code) }
}

/// A call with a text argument.
pub(crate) fn ask_text(symbol: &str, text: String) -> Result<Answer, Code> {
    let state = state();
    if state.inits.load(Ordering::Acquire) == 0 {
        return Err(UNINITIALIZED);
    }
    let answer = state.ask(&request(symbol, NO_GPU, &[], text))?;
    if answer.code == 0 { Ok(answer) } else { Err(answer.code) }
}

/// Handles are addresses that nobody can mistake for memory of his own.
const HANDLE_FIRST: usize = 0x4e56_0100;
const HANDLE_STEP: usize = 0x100;
const HANDLES_MAX: usize = 4_096;

/// The handle of a GPU.
pub(crate) fn handle(gpu: u64) -> Result<nvmlDevice_t, Code> {
    let index = usize::try_from(gpu).map_err(|_| INVALID_ARGUMENT)?;
    Ok(std::ptr::without_provenance_mut(HANDLE_FIRST + index * HANDLE_STEP))
}

/// The GPU of a handle.
pub(crate) fn gpu_of(device: nvmlDevice_t) -> Result<u32, Code> {
    let offset = device.addr().checked_sub(HANDLE_FIRST).ok_or(INVALID_ARGUMENT)?;
    let index = offset / HANDLE_STEP;
    if offset % HANDLE_STEP != 0 || index >= HANDLES_MAX {
        return Err(INVALID_ARGUMENT);
    }
    u32::try_from(index).map_err(|_| INVALID_ARGUMENT)
}

/// A call for a device.
pub(crate) fn ask_device(
    symbol: &str,
    device: nvmlDevice_t,
    arguments: &[u64],
) -> Result<Answer, Code> {
    ask(symbol, gpu_of(device)?, arguments)
}

/// The number at `place` of an answer, in the width of the caller's place.
pub(crate) fn number<T: TryFrom<u64>>(answer: &Answer, place: usize) -> Result<T, Code> {
    let number = answer.numbers.get(place).copied().ok_or(UNKNOWN)?;
    T::try_from(number).map_err(|_| UNKNOWN)
}

/// What a C function returns.
pub(crate) fn code(outcome: Result<(), Code>) -> nvmlReturn_t {
    outcome.err().unwrap_or(0)
}
