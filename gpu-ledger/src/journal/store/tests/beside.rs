//! Files beside the journal that its entries name.

use super::{Folder, settlement};
use crate::journal::entry::Evidence;
use crate::journal::store::{Files, check, check_file};

#[test]
fn a_check_names_every_file_that_is_missing_or_changed_and_the_entry_that_names_it() {
    let folder = Folder::new();
    let mut store = folder.store();
    let files = Files::of_writer(&folder.dir()).unwrap();
    let mut ruled = settlement(1, None);
    let file = files.keep(b"[[rule]]").unwrap();
    let Evidence::Settlement(evidence) = &mut ruled.evidence else { panic!() };
    evidence.provenance.as_mut().unwrap().rules = Some(file);
    store.append(vec![ruled, settlement(2, None)]).unwrap();
    store.close().unwrap();
    let report = check(&folder.dir()).unwrap();
    assert!(report.is_whole() && report.files == 1, "{:?}", report.faults);
    let path = folder.path().join("files").join(file.to_string());
    for (damage, told) in
        [(Some("[[rule]] "), "not those that its name says"), (None, "is missing")]
    {
        match damage {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let report = check(&folder.dir()).unwrap();
        let [fault] = &report.faults[..] else { panic!("{:?}", report.faults) };
        assert!(fault.seq == Some(1) && fault.what.contains(told), "{fault:?}");
    }
    assert!(check_file(&folder.dir().journal()).unwrap().is_whole(), "by itself it is whole");
}
