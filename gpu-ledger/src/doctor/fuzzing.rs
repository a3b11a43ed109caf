//! What fuzzing asks of the doctor (`fuzz/README.md`).

use std::path::Path;

/// Whether procfs hides processes, of any `mountinfo`.
pub(crate) fn hidden_pids(proc_root: &Path) {
    drop(super::host::hidden_pids(proc_root));
}
