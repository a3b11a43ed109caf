//! Lines of a file of any length, proven by several threads and handed on in their order, in little memory.

use std::io::Read;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::Wrong;
use super::line::{Brings, Line, Prover};

/// Bytes of a line at most.
pub(super) const LINE_MAX: usize = 16 << 20;
/// Bytes that are read at once.
const BLOCK: usize = 1 << 19;
/// Threads that prove lines.
const PROVERS_MAX: usize = 4;

/// Whole lines, or why there are none.
type Block = Result<Vec<u8>, Wrong>;
/// Lines that are proven, and why no further one is.
type Proven = (Vec<Line>, Option<Wrong>);

/// Hands every line to `take`, until it has enough.
///
/// # Errors
/// What is wrong with the first line that is no entry, after `take` had those before it.
pub(super) fn each_line(
    file: Box<dyn Read + Send + '_>,
    brings: Brings,
    mut take: impl FnMut(Line) -> ControlFlow<()>,
) -> Result<(), Wrong> {
    let provers = thread::available_parallelism().map_or(1, usize::from).min(PROVERS_MAX);
    thread::scope(|scope| {
        // A prover's blocks are every so-many-th: what it is handed and hands on stays in its order.
        let (mut blocks, mut proven) = (Vec::new(), Vec::new());
        for _ in 0..provers {
            let (to_prover, from_reader) = sync_channel::<Block>(1);
            let (to_caller, from_prover) = sync_channel::<Proven>(1);
            scope.spawn(move || prove(&from_reader, &to_caller, brings));
            blocks.push(to_prover);
            proven.push(from_prover);
        }
        scope.spawn(move || read(file, &blocks));
        // Whoever is no longer listened to ends: the receivers go before the threads are waited for.
        for prover in proven.iter().cycle() {
            let Ok((lines, wrong)) = prover.recv() else { break };
            for line in lines {
                if take(line).is_break() {
                    return Ok(());
                }
            }
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
        }
        Ok(())
    })
}

fn read(mut file: Box<dyn Read + Send + '_>, provers: &[SyncSender<Block>]) {
    let mut next = provers.iter().cycle();
    let mut send = |block| next.next().is_some_and(|prover| prover.send(block).is_ok());
    let mut rest = Vec::new();
    loop {
        let mut block = Vec::with_capacity(BLOCK.saturating_add(rest.len()));
        block.append(&mut rest);
        let kept = block.len();
        let limit = u64::try_from(BLOCK).unwrap_or(u64::MAX);
        match file.by_ref().take(limit).read_to_end(&mut block) {
            Ok(0) if kept == 0 => return,
            Ok(0) => {
                send(Err("the file ends inside a line".into()));
                return;
            }
            Ok(_) => {}
            Err(error) => {
                send(Err(error.into()));
                return;
            }
        }
        let fresh = block.get(kept..).unwrap_or_default();
        let end = fresh.iter().rposition(|byte| *byte == b'\n');
        rest = match end {
            Some(end) => block.split_off(kept.saturating_add(end).saturating_add(1)),
            None => std::mem::take(&mut block),
        };
        if !block.is_empty() && !send(Ok(block)) {
            return;
        }
        if rest.len() > LINE_MAX {
            send(Err("a line is longer than 16 MiB".into()));
            return;
        }
    }
}

fn prove(blocks: &Receiver<Block>, caller: &SyncSender<Proven>, brings: Brings) {
    let mut prover = Prover::default();
    while let Ok(block) = blocks.recv() {
        let lines = match block {
            Ok(block) => prove_block(&mut prover, &block, brings),
            Err(wrong) => (Vec::new(), Some(wrong)),
        };
        let is_over = lines.1.is_some();
        if caller.send(lines).is_err() || is_over {
            return;
        }
    }
}

fn prove_block(prover: &mut Prover, block: &[u8], brings: Brings) -> Proven {
    let mut lines = Vec::new();
    let block = block.strip_suffix(b"\n").unwrap_or(block);
    for line in block.split(|byte| *byte == b'\n') {
        let outcome = if line.len() > LINE_MAX {
            Err("a line is longer than 16 MiB".into())
        } else {
            prover.prove(line, brings)
        };
        match outcome {
            Ok(line) => lines.push(line),
            Err(wrong) => return (lines, Some(wrong)),
        }
    }
    (lines, None)
}
