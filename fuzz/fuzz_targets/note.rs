#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gpu_ledger::fuzzing::note(bytes));
