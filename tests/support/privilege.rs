//! What a test that traces needs of the machine and of its user.

use std::path::Path;

use crate::support::skip;

/// Words before a program that is to heed signals, whatever the caller of the tests ignores (under nohup,
/// or as a job in the background): what is ignored at its start the product leaves ignored.
pub(crate) const UNDISTURBED: [&str; 2] = ["env", "--default-signal=HUP,INT,QUIT,TERM"];

/// Says whether processes can be traced here; where not, loudly.
pub(crate) fn can_trace(test: &str) -> bool {
    use gpu_ledger::kernel::preflight::{Need, Outcome, findings};
    for finding in findings(Path::new("/proc"), Path::new("/sys")) {
        if let (Need::Tracing, Outcome::Missing { cause, .. }) = (finding.need, finding.outcome) {
            skip(test, &cause);
            return false;
        }
    }
    true
}
