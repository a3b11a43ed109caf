//! What the agent keeps of its start.

use crate::traced::Trace;

/// The most resident memory an agent at work may have net of its ring, which is not anonymous.
const ANONYMOUS_KIB_MAX: u64 = 16 * 1024;

#[test]
fn once_attached_the_agent_keeps_none_of_the_memory_that_the_kernels_types_took() {
    const NAME: &str =
        "once_attached_the_agent_keeps_none_of_the_memory_that_the_kernels_types_took";
    if !crate::privilege::can_trace(NAME) {
        return;
    }
    // The command's parent is the agent.
    let command = ["sh", "-c", "grep '^RssAnon:' /proc/$PPID/status"];
    let ended = Trace::with_library("/nonexistent/libnvidia-ml.so.1").command(command).run();
    ended.exited(0);
    let kib = ended.out.strip_prefix("RssAnon:").unwrap().trim().strip_suffix(" kB").unwrap();
    assert!(kib.parse::<u64>().unwrap() <= ANONYMOUS_KIB_MAX, "{}", ended.out);
}
