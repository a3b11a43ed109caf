//! That what proves a bill shares nothing with what makes it.

use std::path::Path;

/// A mistake in the arithmetic of bills must not vouch for itself.
#[test]
fn verification_shares_no_arithmetic_with_bills() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/audit/verify");
    let mut looked_at = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            for room in
                ["bill::", "billing::", "audit::bill", "super::super::bill", "settlement::Balance"]
            {
                assert!(!source.contains(room), "{} names {room}", path.display());
            }
            looked_at += 1;
        }
    }
    assert!(looked_at >= 10, "{looked_at} files");
}
