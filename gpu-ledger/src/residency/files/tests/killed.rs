//! kill -9 while rows are written.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use super::made::{self, Recipe};
use super::work;
use crate::residency::files::{Batch, FilesError, verify};
use crate::residency::verdict::VoidReason;

#[test]
fn a_killed_recorder_leaves_an_incomplete_batch_whose_id_is_not_used_again() {
    for after_ms in [0, 3, 20] {
        let folder = tempfile::tempdir().unwrap();
        let mut child =
            work::start("exec \"$@\"", &format!("for ever\n{}\n", folder.path().display()));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("SAID begun")));
        std::thread::sleep(Duration::from_millis(after_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let batch = folder.path().join(Recipe::default().id);
        let report = verify(&batch);
        assert_eq!(report.exit_status(), 4, "{report}");
        assert!(
            report.void_reasons.iter().any(|void| void.reason == VoidReason::Incomplete),
            "{report}"
        );
        assert!(report.to_string().contains("no summary.json"), "{report}");
        let again = Batch::create(folder.path(), made::manifest(&Recipe::default()));
        assert!(matches!(again, Err(FilesError::Exists { .. })));
    }
}
