//! smoke
use gpu_ledger::kernel::{Tracer, TracerOptions};
#[test]
fn smoke() {
    let mut t = Tracer::attach(&TracerOptions {
        device_majors: Some(vec![1, 195]),
        ..TracerOptions::default()
    })
    .unwrap_or_else(|e| panic!("{e}"));
    println!("{:?}", t.device_touch());
    std::process::Command::new("/bin/true").arg("a b").status().unwrap();
    let n = t.drain(|e| println!("{e:?}"));
    println!("{n} {:?} {:?}", t.counts(), t.balance());
    println!("{:?}", t.program_statistics());
}
