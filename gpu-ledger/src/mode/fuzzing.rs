//! What fuzzing asks of the reader of a holder's names (`fuzz/README.md`).

use std::path::Path;

use crate::fuzzing::input::is_printable;
use crate::unit::Pid;

/// Names that anybody may have made are safe to print.
pub(crate) fn name_of(proc_root: &Path, pid: Pid) {
    let name = super::holders::name_of(proc_root, pid);
    assert!(
        is_printable(&name.program) && name.unit.as_deref().is_none_or(is_printable),
        "{name:?}"
    );
}
