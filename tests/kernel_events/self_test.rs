//! The start-up self-test on this kernel, and that it can fail.

use std::path::{Path, PathBuf};

use gpu_ledger::kernel::selftest::{self, KnownChild};
use gpu_ledger::kernel::{Event, TracerOptions};

use crate::support::watch;

fn cat(arguments: &[&str]) -> KnownChild {
    let program = PathBuf::from("/bin/cat");
    KnownChild { program, arguments: arguments.iter().map(Into::into).collect() }
}

#[test]
fn every_field_of_a_known_child_agrees_with_procfs() {
    let name = "every_field_of_a_known_child_agrees_with_procfs";
    let Some(mut watch) = watch(name, &TracerOptions::default()) else { return };
    let mut handed_on = 0;
    let known = cat(&["-u", "-"]);
    let result = selftest::run(&mut watch.tracer, &known, Path::new("/proc"), |record| {
        handed_on += usize::from(matches!(record, Ok(Event::Exec(_))));
    });
    let result = result.unwrap();
    assert!(result.passed(), "{result:#?}");
    assert_eq!(result.unconfirmed, []);
    assert!(handed_on >= 1, "the child's own records are handed on");
}

#[test]
fn a_procfs_that_does_not_show_the_child_is_an_error_that_names_it() {
    let name = "a_procfs_that_does_not_show_the_child_is_an_error_that_names_it";
    let Some(mut watch) = watch(name, &TracerOptions::default()) else { return };
    let result = selftest::run(&mut watch.tracer, &cat(&["-u"]), Path::new("/nowhere"), drop);
    let error = result.expect_err("there is no procfs at /nowhere");
    assert!(error.to_string().contains("/nowhere"), "{error}");
}
