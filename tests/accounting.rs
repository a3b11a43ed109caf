//! The accounting room against a library behind NVML's C ABI: the simulated driver's, and a real
//! one without a driver.

// The attribute says to the lints what cargo already knows.
#[cfg(test)]
mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use gpu_ledger::accounting::BusySource;
use gpu_ledger::accounting::driver::{DriverOptions, Report};
use gpu_ledger::accounting::nvml::{DriverKind, MigState};
use gpu_ledger::accounting::reading::Finding;
use gpu_ledger::accounting::worker::ReadRequest;
use gpu_ledger::unit::Pid;
use gpu_ledger::unknown::{GapCause, Observed, UnknownReason};
use support::opened::{Opened, SWEEP, gaps, options, refused};
use support::{PATIENCE, with_simulator};

#[test]
fn the_simulated_library_says_that_it_is_and_what_it_drives() {
    with_simulator(
        "the_simulated_library_says_that_it_is_and_what_it_drives",
        &["--gpus", "2"],
        |sim| {
            let opened = Opened::of(sim);
            assert_eq!(opened.facts.kind, DriverKind::Simulated);
            assert!(opened.facts.version.is_ok() && opened.facts.stats_v2);
            let [first, second] = opened.gpus.as_slice() else { panic!("{:?}", opened.gpus) };
            assert_eq!((first.index, second.index), (0, 1));
            assert_ne!(first.uuid, second.uuid);
            assert_eq!(first.name, Observed::Known("NVIDIA Simulated GPU".to_owned()));
            assert_eq!(first.minor, Observed::Known(0));
            assert!(first.pci_bus_id.known().is_some());
            assert_eq!(first.persistence, Observed::Known(true));
            assert_eq!(first.mig, Observed::Known(MigState::Off));
            assert_eq!(first.vgpu_host, Observed::Known(false));
            assert_eq!(first.accounting, Ok(true));
            assert_eq!(first.buffer_size, Observed::Known(4_000));
            assert!(opened.facts.cost.calls["nvmlInit_v2"].count == 1);
        },
    );
}

#[test]
fn a_library_that_is_not_there_is_named() {
    let unknown = refused(options(PathBuf::from("/nonexistent/libnvidia-ml.so.1")));
    assert_eq!(unknown.word(), "nvml-library-not-found:/nonexistent/libnvidia-ml.so.1");
    assert_eq!((unknown.call, unknown.code), (None, None));
}

#[test]
fn a_real_library_without_a_driver_says_so() {
    let test = "a_real_library_without_a_driver_says_so";
    if std::path::Path::new("/proc/driver/nvidia/version").exists() {
        return support::skip(test, "this machine has an NVIDIA driver");
    }
    match support::real_library() {
        Err(reason) => support::skip(test, &reason),
        Ok(library) => {
            let unknown = refused(options(library));
            assert_eq!(unknown.reason, UnknownReason::DriverNotLoaded);
            assert_eq!((unknown.call, unknown.code), (Some("nvmlInit_v2"), Some(9)));
        }
    }
}

#[test]
fn no_driver_and_no_gpu_are_told_apart() {
    with_simulator("no_driver_and_no_gpu_are_told_apart", &["--gpus", "1"], |sim| {
        sim.fault("driver-not-loaded on");
        let unknown = refused(options(sim.library()));
        assert_eq!((unknown.word().as_str(), unknown.code), ("driver-not-loaded", Some(9)));
        sim.fault("driver-not-loaded off");
        sim.fault("no-gpu on");
        assert_eq!(refused(options(sim.library())).reason, UnknownReason::NoGpuFound);
        sim.fault("no-gpu off");
        sim.fault("code nvmlInit_v2 --code 18");
        let unknown = refused(options(sim.library()));
        assert_eq!(unknown.reason, UnknownReason::DriverLibraryVersionMismatch);
        sim.fault("heal");
        assert!(Opened::of(sim).facts.unknowns.is_empty());
    });
}

#[test]
fn every_return_code_of_the_list_call_has_its_word() {
    with_simulator("every_return_code_of_the_list_call_has_its_word", &["--gpus", "1"], |sim| {
        let mut opened = Opened::of(sim);
        let words = [
            (1, "nvml-uninitialized"),
            (2, "nvml-invalid-argument"),
            (3, "accounting-not-supported-or-disabled"),
            (4, "no-permission"),
            (7, "pid-list-raced"),
            (9, "driver-not-loaded"),
            (12, "nvml-library-not-found"),
            (13, "nvml-function-missing"),
            (15, "gpu-lost"),
            (16, "gpu-reset-required"),
            (17, "os-error-or-cgroup-denied"),
            (18, "driver-library-version-mismatch"),
            (20, "driver-out-of-resources"),
            (23, "driver-out-of-resources"),
            (25, "nvml-struct-version-mismatch"),
            (26, "nvml-deprecated"),
            (27, "driver-not-ready"),
            (28, "no-gpu-found"),
            (29, "invalid-state"),
            (99, "nvml-unmapped-code:99"),
            (999, "nvml-unknown-error"),
        ];
        for (code, word) in words {
            sim.fault(&format!("code nvmlDeviceGetAccountingPids --code {code}"));
            let unknown = opened.until_unknown(word);
            assert_eq!(unknown.call, Some("nvmlDeviceGetAccountingPids"));
            assert_eq!(unknown.code, Some(code));
            assert_eq!(unknown.gpu.as_ref(), Some(&opened.gpus[0].uuid));
            sim.fault("heal");
            opened.until_well();
        }
    });
}

#[test]
fn the_same_code_means_what_the_call_makes_of_it() {
    with_simulator("the_same_code_means_what_the_call_makes_of_it", &["--gpus", "1"], |sim| {
        let mut opened = Opened::of(sim);
        let cases = [
            ("nvmlDeviceGetAccountingMode --code 3", "accounting-not-supported"),
            ("nvmlDeviceGetComputeRunningProcesses_v3 --code 3", "process-list-not-supported"),
            ("nvmlDeviceGetComputeRunningProcesses_v3 --code 4", "mig-needs-privilege"),
        ];
        for (fault, word) in cases {
            sim.fault(&format!("code {fault}"));
            opened.until_unknown(word);
            sim.fault("heal");
            opened.until_well();
        }
    });
}

#[test]
fn rows_that_cannot_be_found_are_vanished_and_never_zero() {
    with_simulator(
        "rows_that_cannot_be_found_are_vanished_and_never_zero",
        &["--gpus", "1"],
        |sim| {
            let mut opened = Opened::of(sim);
            sim.fault("code nvmlDeviceGetAccountingStats_v2 --code 6");
            let job = sim.work("--gpu 0 --ms 100000");
            opened.until_unknown("accounting-mode-reset");
            sim.fault("heal");
            sim.fault("code nvmlDeviceGetAccountingStats_v2 --code 999");
            opened.until_unknown("nvml-unknown-error");
            assert!(opened.finals.is_empty());
            sim.fault("heal");
            let seen = opened.until("the open row", |seen| seen.open.len() == 1);
            assert_eq!(seen.open[0].pid, Pid(job.pid()));
            job.end();
            opened.until_finals(1);
        },
    );
}

#[test]
fn every_job_is_handed_out_once_with_its_span() {
    with_simulator(
        "every_job_is_handed_out_once_with_its_span",
        &["--gpus", "1", "--teardown-ms", "0..300"],
        |sim| {
            let mut opened = Opened::of(sim);
            let mut pids = BTreeSet::new();
            for _ in 0..12 {
                let job = sim.work("--gpu 0 --ms 40 --mem-mib 32");
                pids.insert(Pid(job.pid()));
                job.wait();
            }
            opened.until_finals(12);
            let seen: BTreeSet<Pid> = opened.finals.iter().map(|row| row.row.pid).collect();
            assert_eq!(seen, pids);
            for row in &opened.finals {
                assert!(row.row.held.0 >= 40 && !row.row.running, "{row:?}");
                assert!(row.row.memory_peak.known().is_some_and(|bytes| bytes.0 >= 32 << 20));
            }
            let outcome = opened.until("another read", |_| true);
            assert_eq!((opened.finals.len(), gaps(&outcome)), (12, vec![]));
            assert_eq!(outcome.dead_rows, Some(12));
            assert!(outcome.cost.calls.contains_key("nvmlDeviceGetAccountingPids"));
        },
    );
}

#[test]
fn a_running_job_is_open_holds_memory_and_is_never_final() {
    with_simulator(
        "a_running_job_is_open_holds_memory_and_is_never_final",
        &["--gpus", "1"],
        |sim| {
            let mut opened = Opened::of(sim);
            let job = sim.work("--gpu 0 --ms 100000 --mem-mib 32");
            let seen = opened.until("the open row and its holder", |seen| {
                let holders = seen.holders.as_ref();
                !seen.open.is_empty() && holders.is_some_and(|holders| !holders.is_empty())
            });
            let pid = Pid(job.pid());
            assert_eq!(seen.open[0].pid, pid);
            assert!(seen.open[0].start.is_some() && opened.finals.is_empty());
            let holders = seen.holders.unwrap();
            assert_eq!(holders[0].pid, pid);
            assert!(holders[0].memory.known().is_some_and(|bytes| bytes.0 >= 32 << 20));
            job.end();
            opened.until_finals(1);
            assert_eq!(opened.finals[0].row.pid, pid);
        },
    );
}

#[test]
fn a_hanging_call_is_told_by_name_and_ends_as_a_gap() {
    with_simulator("a_hanging_call_is_told_by_name_and_ends_as_a_gap", &["--gpus", "1"], |sim| {
        let mut opened = Opened::with(DriverOptions {
            call_deadline: Duration::from_millis(300),
            ..options(sim.library())
        });
        sim.fault("hang nvmlDeviceGetAccountingPids");
        let stall = loop {
            opened.request(SWEEP);
            if let Report::Stalled(stall) = opened.report() {
                break stall;
            }
        };
        assert_eq!(stall.call, "nvmlDeviceGetAccountingPids");
        assert_eq!(stall.unknown().word(), "nvml-call-timeout");
        assert_eq!(opened.driver.stalls().len(), 1);
        sim.fault("heal");
        let outcome =
            opened.until("the gap", |seen| gaps(seen).contains(&GapCause::NvmlCallTimeout));
        assert!(outcome.unknowns.iter().any(|u| u.reason == UnknownReason::NvmlCallTimeout));
        assert!(opened.driver.stalls().is_empty());
    });
}

#[test]
fn a_gpu_that_hangs_leaves_the_others_read() {
    with_simulator("a_gpu_that_hangs_leaves_the_others_read", &["--gpus", "2"], |sim| {
        let mut opened = Opened::with(DriverOptions {
            call_deadline: Duration::from_millis(300),
            ..options(sim.library())
        });
        sim.fault("hang nvmlDeviceGetAccountingPids --gpu 1");
        let hangs = opened.gpus[1].uuid.clone();
        opened.driver.worker(&hangs).unwrap().request(SWEEP);
        let mut stalled = false;
        while !stalled {
            stalled = matches!(opened.report(), Report::Stalled(stall) if stall.gpu == hangs);
        }
        sim.work("--gpu 0 --ms 5").wait();
        opened.until_finals(1);
        assert_eq!(opened.driver.stalls().len(), 1);
    });
}

#[test]
fn a_hanging_init_is_an_unknown_and_blocks_nobodys_end() {
    with_simulator(
        "a_hanging_init_is_an_unknown_and_blocks_nobodys_end",
        &["--gpus", "1"],
        |sim| {
            sim.fault("hang nvmlInit*");
            let unknown = refused(DriverOptions {
                call_deadline: Duration::from_millis(300),
                ..options(sim.library())
            });
            assert_eq!(unknown.reason, UnknownReason::NvmlCallTimeout);
            assert_eq!(unknown.call, Some("nvmlInit_v2"));
            // That this process ends with the thread still in the call is the rest of the test.
        },
    );
}

#[test]
fn a_list_that_changes_between_two_calls_gives_no_phantom() {
    with_simulator(
        "a_list_that_changes_between_two_calls_gives_no_phantom",
        &["--gpus", "1"],
        |sim| {
            let mut opened = Opened::of(sim);
            sim.work("--gpu 0 --ms 5").wait();
            opened.until_finals(1);
            sim.fault("list-change grow 3");
            opened.until("the grown list", |seen| seen.open.len() == 3);
            sim.fault("list-change shrink 2");
            opened.until("a read of the list that shrinks", |_| true);
            opened.until("a read of the shrunken list", |_| true);
            assert!(opened.finals.iter().all(|row| row.row.pid.0 != 0));
        },
    );
}

#[test]
fn strangers_that_push_rows_out_are_a_gap_with_a_size() {
    with_simulator("strangers_that_push_rows_out_are_a_gap_with_a_size", &["--gpus", "1"], |sim| {
        let mut opened = Opened::of(sim);
        sim.work("--gpu 0 --ms 5").wait();
        opened.until_finals(1);
        // 200 die, 128 are kept: the one known row and 72 unknown ones are gone. Whether the
        // read falls before or after them all, the store turns over.
        sim.fault("evict 200");
        let exits = ReadRequest { touching_exits: Some(200), ..SWEEP };
        let seen = opened.until_by(exits, "the eviction", |seen| !gaps(seen).is_empty());
        assert_eq!(gaps(&seen), [GapCause::RowsPossiblyEvicted]);
        assert_eq!(seen.dead_rows_max, 128);
    });
}

#[test]
fn a_clear_by_another_reader_is_found() {
    with_simulator("a_clear_by_another_reader_is_found", &["--gpus", "1"], |sim| {
        let mut opened = Opened::of(sim);
        sim.work("--gpu 0 --ms 5").wait();
        opened.until_finals(1);
        sim.fault("clear");
        let seen = opened.until("the clear", |seen| !gaps(seen).is_empty());
        assert_eq!(gaps(&seen), [GapCause::ClearedOrReset]);
    });
}

#[test]
fn accounting_off_mig_and_vgpu_host_are_told_apart() {
    with_simulator("accounting_off_mig_and_vgpu_host_are_told_apart", &["--gpus", "1"], |sim| {
        let mut opened = Opened::of(sim);
        opened.until_well();
        sim.fault("accounting off");
        opened.until_unknown("accounting-mode-disabled");
        sim.fault("accounting on");
        let seen = opened.until("accounting on again", |seen| !gaps(seen).is_empty());
        assert_eq!(gaps(&seen), [GapCause::AccountingOff]);
        sim.fault("mig on");
        opened.until_unknown("accounting-unavailable-mig");
        sim.fault("mig off");
        sim.fault("vgpu-host on");
        opened.until_unknown("accounting-unavailable-vgpu-host");
    });
}

#[test]
fn a_mode_that_changes_within_a_read_discards_the_list() {
    with_simulator(
        "a_mode_that_changes_within_a_read_discards_the_list",
        &["--gpus", "1"],
        |sim| {
            let mut opened = Opened::of(sim);
            sim.work("--gpu 0 --ms 5").wait();
            sim.fault("after nvmlDeviceGetAccountingPids accounting off");
            opened.until_unknown("accounting-mode-changed-during-read");
        },
    );
}

#[test]
fn the_mode_is_set_on_command_and_read_back() {
    with_simulator("the_mode_is_set_on_command_and_read_back", &["--gpus", "1"], |sim| {
        let opened = Opened::of(sim);
        let gpu = opened.gpus[0].uuid.clone();
        let set = |on| opened.runtime.block_on(opened.driver.set_accounting(&gpu, on));
        assert_eq!(set(false), Ok(false));
        assert_eq!(set(true), Ok(true));
        sim.fault("not-root on");
        assert_eq!(set(false).map_err(|u| u.reason), Err(UnknownReason::NoPermission));
        sim.fault("not-root off");
        sim.fault("mig on");
        let reason = UnknownReason::AccountingUnavailableMig;
        assert_eq!(set(true).map_err(|u| u.reason), Err(reason));
    });
}

#[test]
fn a_gpu_lost_in_the_middle_comes_back_with_its_rows() {
    with_simulator("a_gpu_lost_in_the_middle_comes_back_with_its_rows", &["--gpus", "1"], |sim| {
        let mut opened = Opened::of(sim);
        let job = sim.work("--gpu 0 --ms 100000");
        opened.until("the open row", |seen| seen.open.len() == 1);
        sim.fault("gpu-lost on");
        let unknown = opened.until_unknown("gpu-lost");
        assert_eq!(unknown.code, Some(15));
        sim.fault("gpu-lost off");
        opened.until("the GPU is back", |seen| gaps(seen).contains(&GapCause::EpochBroken));
        job.end();
    });
}

#[test]
fn a_reset_throws_open_rows_away_and_says_so() {
    with_simulator("a_reset_throws_open_rows_away_and_says_so", &["--gpus", "1"], |sim| {
        let mut opened = Opened::of(sim);
        let job = sim.work("--gpu 0 --ms 100000");
        opened.until("the open row", |seen| seen.open.len() == 1);
        sim.fault("reset");
        opened.until_unknown("accounting-mode-disabled");
        sim.fault("accounting on");
        let seen = opened.until("accounting on again", |seen| !gaps(seen).is_empty());
        let lost = seen.findings.iter().any(|f| matches!(f, Finding::OpenLost { .. }));
        assert!(lost, "{:?}", seen.findings);
        job.end();
    });
}

#[test]
fn outside_the_initial_namespace_the_hidden_rows_are_said() {
    with_simulator(
        "outside_the_initial_namespace_the_hidden_rows_are_said",
        &["--gpus", "1"],
        |sim| {
            sim.fault("container-view on");
            let mut opened =
                Opened::with(DriverOptions { dead_rows_hidden: true, ..options(sim.library()) });
            sim.work("--gpu 0 --ms 5").wait();
            opened.until_unknown("dead-rows-hidden-by-pid-namespace");
            assert!(opened.finals.is_empty());
        },
    );
}

#[test]
fn values_that_are_not_available_are_unknown_and_never_zero() {
    with_simulator(
        "values_that_are_not_available_are_unknown_and_never_zero",
        &["--gpus", "1"],
        |sim| {
            sim.fault("sentinels on");
            let mut opened = Opened::of(sim);
            sim.work("--gpu 0 --ms 5").wait();
            opened.until_finals(1);
            let row = &opened.finals[0].row;
            let unavailable = UnknownReason::ValueNotAvailable;
            assert_eq!(row.memory_peak, Observed::Unknown(unavailable));
            assert_eq!(row.utilization, Observed::Unknown(unavailable));
        },
    );
}

#[test]
fn a_library_without_the_newer_row_call_serves_the_older_one() {
    with_simulator(
        "a_library_without_the_newer_row_call_serves_the_older_one",
        &["--gpus", "1"],
        |sim| {
            let older = sim.library_without("nvmlDeviceGetAccountingStats_v2");
            let mut opened = Opened::with(options(older));
            assert!(!opened.facts.stats_v2);
            opened.until_well();
            sim.work("--gpu 0 --ms 1500").wait();
            opened.until_finals(1);
            let final_row = &opened.finals[0];
            assert_eq!(final_row.row.sums, None);
            let busy = final_row.busy.as_ref().unwrap();
            assert_eq!(busy.source, BusySource::ProcessSamples, "{busy:?}");
            assert!(busy.high <= final_row.row.held && busy.low <= busy.high, "{busy:?}");
        },
    );
}

#[test]
fn the_newer_row_call_gives_a_busy_range() {
    with_simulator("the_newer_row_call_gives_a_busy_range", &["--gpus", "1"], |sim| {
        let mut opened = Opened::of(sim);
        sim.work("--gpu 0 --ms 2500 --busy 100").wait();
        opened.until_finals(1);
        let long = opened.finals[0].busy.clone().unwrap();
        assert_eq!(long.source, BusySource::StatsV2);
        assert!(long.samples.is_some_and(|count| count > 0), "{long:?}");
        assert!(long.high <= opened.finals[0].row.held && long.low.0 > 0, "{long:?}");
    });
}

#[test]
fn missing_symbols_are_named_and_a_missing_shutdown_is_survived() {
    with_simulator(
        "missing_symbols_are_named_and_a_missing_shutdown_is_survived",
        &["--gpus", "1"],
        |sim| {
            let older = sim.library_without("nvmlShutdown,nvmlDeviceGetAccountingMode");
            let mut opened = Opened::with(options(older));
            let word = "nvml-symbol-missing:nvmlDeviceGetAccountingMode";
            assert_eq!(opened.until_unknown(word).code, None);
            let worker = opened.driver.worker(&opened.gpus[0].uuid).unwrap().clone();
            worker.finish();
            let ended = opened.runtime.block_on(async {
                tokio::time::timeout(PATIENCE, async {
                    while opened.driver.next().await.is_some() {}
                })
                .await
            });
            assert!(ended.is_ok(), "the worker did not end");
        },
    );
}
