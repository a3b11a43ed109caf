//! The library through nvml-wrapper, as the product will use it: every fault and every rule that
//! shows in a return code.

use std::process::Child;
use std::time::{Duration, Instant};

use crate::support::{Client, in_own_process, library, library_without, skip, until};
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;

fn load() -> Nvml {
    Nvml::builder().lib_path(library().as_os_str()).init().unwrap()
}

fn running(client: &Client, arguments: &[&str]) -> Child {
    let child = client.work(arguments).spawn().unwrap();
    let pid = format!("\"pid\":{},\"running\":true", child.id());
    until("it holds the GPU", || client.fault(&["state"]).contains(&pid));
    child
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn devices_are_enumerated_and_named() {
    in_own_process("devices_are_enumerated_and_named", &[], |_| {
        let nvml = load();
        assert_eq!(nvml.device_count().unwrap(), 2);
        assert!(nvml.sys_driver_version().unwrap().starts_with("610."));
        for index in 0..2 {
            let device = nvml.device_by_index(index).unwrap();
            assert_eq!(device.index().unwrap(), index);
            assert_eq!(device.minor_number().unwrap(), index);
            assert_eq!(device.name().unwrap(), "NVIDIA Simulated GPU");
            let uuid = device.uuid().unwrap();
            assert_eq!(nvml.device_by_uuid(uuid.as_str()).unwrap().index().unwrap(), index);
            let pci = device.pci_info().unwrap();
            let by_bus = nvml.device_by_pci_bus_id(pci.bus_id.as_str()).unwrap();
            assert_eq!(by_bus.index().unwrap(), index);
            assert!(device.is_in_persistent_mode().unwrap());
            assert!(device.total_energy_consumption().is_ok());
            assert!(device.power_usage().unwrap() > 0);
        }
        assert!(matches!(nvml.device_by_index(2), Err(NvmlError::InvalidArg)));
        assert!(matches!(nvml.device_by_uuid("GPU-none"), Err(NvmlError::NotFound)));
    });
}

#[test]
fn accounting_reads_as_the_model_holds_it() {
    in_own_process("accounting_reads_as_the_model_holds_it", &[], |client| {
        let nvml = load();
        let device = nvml.device_by_index(0).unwrap();
        assert!(device.is_accounting_enabled().unwrap());
        assert_eq!(device.accounting_buffer_size().unwrap(), 4_000);
        assert!(device.accounting_pids().unwrap().is_empty());
        let pid = client.gone(&["--ms", "20", "--mem-mib", "8"]);
        assert_eq!(device.accounting_pids().unwrap(), [pid]);
        let stats = device.accounting_stats_for(pid).unwrap();
        assert!(!stats.is_running);
        assert!(stats.time >= 20, "{stats:?}");
        assert_eq!(stats.max_memory_usage, Some(8 << 20));
        assert!(stats.start_time > 1_700_000_000_000_000);
        let child = running(client, &["--ms", "600000"]);
        let stats = device.accounting_stats_for(child.id()).unwrap();
        assert!(stats.is_running && stats.time == 0 && stats.start_time > 0, "S2: {stats:?}");
        assert_eq!(device.accounting_pids().unwrap(), [pid, child.id()], "S3");
        assert!(matches!(device.accounting_stats_for(1), Err(NvmlError::NotFound)));
        end(child);
    });
}

#[test]
fn running_processes_and_memory_agree_with_the_model() {
    in_own_process("running_processes_and_memory_agree_with_the_model", &[], |client| {
        let nvml = load();
        let device = nvml.device_by_index(0).unwrap();
        let idle = device.memory_info().unwrap();
        assert_eq!((idle.used, idle.total), (0, 80 << 30));
        let child = running(client, &["--ms", "600000", "--mem-mib", "300"]);
        let list = device.running_compute_processes().unwrap();
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].pid, child.id());
        assert!(
            matches!(list[0].used_gpu_memory, UsedGpuMemory::Used(bytes) if bytes == 300 << 20)
        );
        assert!(list[0].gpu_instance_id.is_none());
        let held = device.memory_info().unwrap();
        assert_eq!(held.used, 300 << 20);
        assert_eq!(held.free, idle.free - (300 << 20));
        assert!(device.running_graphics_processes().unwrap().is_empty());
        assert!(nvml.device_by_index(1).unwrap().running_compute_processes().unwrap().is_empty());
        end(child);
    });
}

#[test]
fn utilization_is_sampled_and_idle_looks_like_an_error() {
    in_own_process("utilization_is_sampled_and_idle_looks_like_an_error", &[], |client| {
        let nvml = load();
        let device = nvml.device_by_index(0).unwrap();
        assert!(matches!(device.process_utilization_stats(0), Err(NvmlError::NotFound)), "S21");
        let child = running(client, &["--ms", "600000", "--busy", "60"]);
        until("a sample names it", || device.process_utilization_stats(0).is_ok());
        let rows = device.process_utilization_stats(0).unwrap();
        assert_eq!(rows[0].pid, child.id());
        assert!(rows[0].sm_util <= 60 && rows[0].timestamp > 0, "{rows:?}");
        until("the device's latest sample is full", || {
            device.utilization_rates().unwrap().gpu == 60
        });
        let samples = device.samples(Sampling::GpuUtilization, 0).unwrap();
        assert!(!samples.is_empty() && samples.len() <= 72);
        until("a tick has folded samples into the entry", || {
            device.accounting_stats_for(child.id()).unwrap().gpu_utilization > Some(30)
        });
        end(child);
    });
}

#[test]
fn s10_only_root_sets_the_mode_or_clears() {
    in_own_process("s10_only_root_sets_the_mode_or_clears", &[], |client| {
        let nvml = load();
        let mut device = nvml.device_by_index(0).unwrap();
        client.fault(&["not-root", "on"]);
        assert!(matches!(device.set_accounting(false), Err(NvmlError::NoPermission)));
        assert!(matches!(device.clear_accounting_pids(), Err(NvmlError::NoPermission)));
        assert!(device.is_accounting_enabled().unwrap());
        client.fault(&["not-root", "off"]);
        if !rustix::process::geteuid().is_root() {
            return skip("s10_only_root_sets_the_mode_or_clears", "the second half needs root");
        }
        client.gone(&["--ms", "1"]);
        device.clear_accounting_pids().unwrap();
        assert!(device.accounting_pids().unwrap().is_empty());
        device.set_accounting(false).unwrap();
        assert!(!device.is_accounting_enabled().unwrap());
    });
}

#[test]
fn s5_a_disabled_mode_answers_as_observed_or_as_documented() {
    in_own_process("s5_a_disabled_mode_answers_as_observed_or_as_documented", &[], |client| {
        let nvml = load();
        let device = nvml.device_by_index(0).unwrap();
        client.fault(&["accounting", "off"]);
        assert!(device.accounting_pids().unwrap().is_empty());
        assert!(matches!(device.accounting_stats_for(9), Err(NvmlError::NotFound)));
        assert_eq!(device.accounting_buffer_size().unwrap(), 4_000, "S3");
        client.fault(&["disabled", "documented"]);
        assert!(matches!(device.accounting_pids(), Err(NvmlError::NotSupported)));
        assert!(matches!(device.accounting_stats_for(9), Err(NvmlError::NotSupported)));
    });
}

#[test]
fn s1_an_empty_list_may_be_told_by_either_code() {
    in_own_process("s1_an_empty_list_may_be_told_by_either_code", &[], |client| {
        let nvml = load();
        let device = nvml.device_by_index(0).unwrap();
        for answer in ["success", "insufficient"] {
            client.fault(&["empty-list", answer]);
            assert!(device.accounting_pids().unwrap().is_empty(), "{answer}");
        }
    });
}

#[test]
fn s9_under_mig_the_mode_is_off_and_cannot_be_set() {
    in_own_process("s9_under_mig_the_mode_is_off_and_cannot_be_set", &[], |client| {
        let nvml = load();
        let mut device = nvml.device_by_index(0).unwrap();
        client.fault(&["mig", "on", "--gpu", "0"]);
        assert_eq!(device.mig_mode().unwrap().current, 1);
        assert!(!device.is_accounting_enabled().unwrap());
        if rustix::process::geteuid().is_root() {
            assert!(matches!(device.set_accounting(true), Err(NvmlError::NotSupported)));
        }
        assert!(matches!(device.utilization_rates(), Err(NvmlError::NotSupported)));
        assert!(matches!(device.process_utilization_stats(0), Err(NvmlError::NotSupported)));
        assert!(matches!(device.mig_device_by_index(0), Err(NvmlError::NotFound)));
        assert_eq!(nvml.device_by_index(1).unwrap().mig_mode().unwrap().current, 0);
    });
}

#[test]
fn rule_16_a_vgpu_host_is_on_and_answers_nothing() {
    in_own_process(
        "rule_16_a_vgpu_host_is_on_and_answers_nothing",
        &["--accounting", "off"],
        |client| {
            let nvml = load();
            let device = nvml.device_by_index(0).unwrap();
            assert!(!device.is_accounting_enabled().unwrap());
            client.fault(&["vgpu-host", "on"]);
            assert!(device.is_accounting_enabled().unwrap());
            assert!(matches!(device.accounting_pids(), Err(NvmlError::NotSupported)));
            assert!(matches!(device.accounting_stats_for(1), Err(NvmlError::NotSupported)));
            assert!(device.virtualization_mode().is_ok());
        },
    );
}

#[test]
fn s6_in_the_view_of_a_container_dead_rows_are_hidden() {
    in_own_process("s6_in_the_view_of_a_container_dead_rows_are_hidden", &[], |client| {
        let nvml = load();
        let device = nvml.device_by_index(0).unwrap();
        let dead = client.gone(&["--ms", "1"]);
        let live = running(client, &["--ms", "600000"]);
        client.fault(&["container-view", "on"]);
        assert_eq!(device.accounting_pids().unwrap(), [live.id()]);
        assert!(matches!(device.accounting_stats_for(dead), Err(NvmlError::NotFound)));
        client.fault(&["container-view", "off"]);
        assert_eq!(device.accounting_pids().unwrap(), [dead, live.id()]);
        end(live);
    });
}

#[test]
fn s11_a_list_that_changes_between_size_query_and_fill_trips_the_wrapper() {
    in_own_process(
        "s11_a_list_that_changes_between_size_query_and_fill_trips_the_wrapper",
        &[],
        |client| {
            let nvml = load();
            let device = nvml.device_by_index(0).unwrap();
            client.fault(&["evict", "3"]);
            client.fault(&["list-change", "shrink", "2"]);
            // The wrapper does not trim its list to the count that came back.
            let pids = device.accounting_pids().unwrap();
            assert_eq!(pids.len(), 3);
            assert_eq!(pids[1..], [0, 0]);
            assert_eq!(device.accounting_pids().unwrap().len(), 1);
            client.fault(&["list-change", "grow", "4"]);
            assert!(matches!(device.accounting_pids(), Err(NvmlError::InsufficientSize(_))));
            assert_eq!(device.accounting_pids().unwrap().len(), 5);
        },
    );
}

#[test]
fn s14_values_may_be_marked_not_available() {
    in_own_process("s14_values_may_be_marked_not_available", &[], |client| {
        let nvml = load();
        let device = nvml.device_by_index(0).unwrap();
        let pid = client.gone(&["--ms", "1"]);
        client.fault(&["sentinels", "on"]);
        let stats = device.accounting_stats_for(pid).unwrap();
        assert_eq!((stats.gpu_utilization, stats.memory_utilization), (None, None));
        assert_eq!(stats.max_memory_usage, None);
    });
}

#[test]
fn s15_calls_fail_by_script_with_any_code_and_so_many_times() {
    in_own_process("s15_calls_fail_by_script_with_any_code_and_so_many_times", &[], |client| {
        let nvml = load();
        let device = nvml.device_by_index(0).unwrap();
        client.fault(&["code", "nvmlDeviceGetAccounting*", "--code", "999", "--times", "2"]);
        assert!(matches!(device.accounting_pids(), Err(NvmlError::Unknown)));
        assert!(matches!(device.is_accounting_enabled(), Err(NvmlError::Unknown)));
        assert!(device.is_accounting_enabled().unwrap());
        client.fault(&["code", "nvmlDeviceGetAccountingMode", "--code", "27", "--after", "1"]);
        assert!(device.is_accounting_enabled().unwrap());
        assert!(matches!(device.is_accounting_enabled(), Err(NvmlError::UnexpectedVariant(27))));
        let other = nvml.device_by_index(1).unwrap();
        client.fault(&["heal"]);
        client.fault(&["code", "nvmlDeviceGetAccountingMode", "--code", "16", "--gpu", "1"]);
        assert!(device.is_accounting_enabled().unwrap());
        assert!(matches!(other.is_accounting_enabled(), Err(NvmlError::ResetRequired)));
    });
}

#[test]
fn s15_a_delayed_call_takes_as_long_and_blocks_no_other_thread() {
    in_own_process("s15_a_delayed_call_takes_as_long_and_blocks_no_other_thread", &[], |client| {
        let nvml = load();
        let device = nvml.device_by_index(0).unwrap();
        let call = "nvmlDeviceGetAccountingMode";
        client.fault(&["delay", call, "--ms", "300", "--times", "1"]);
        let from = Instant::now();
        assert!(device.is_accounting_enabled().unwrap());
        assert!(from.elapsed() >= Duration::from_millis(300));
        client.fault(&["hang", call]);
        std::thread::scope(|scope| {
            let hung = scope.spawn(|| device.is_accounting_enabled().unwrap());
            // Other calls of the same process are answered meanwhile, from this thread.
            assert_eq!(device.accounting_buffer_size().unwrap(), 4_000);
            assert!(!hung.is_finished());
            // What a hung call answers is what holds when it comes back.
            client.fault(&["accounting", "off"]);
            client.fault(&["heal"]);
            assert!(!hung.join().unwrap());
        });
    });
}

#[test]
fn s20_a_gpu_may_be_lost_in_the_middle_of_a_list() {
    in_own_process("s20_a_gpu_may_be_lost_in_the_middle_of_a_list", &[], |client| {
        let nvml = load();
        let device = nvml.device_by_index(0).unwrap();
        let pid = client.gone(&["--ms", "1"]);
        client.fault(&["after", "nvmlDeviceGetAccountingPids", "gpu-lost", "on", "--gpu", "0"]);
        assert!(
            matches!(device.accounting_pids(), Err(NvmlError::GpuLost)),
            "between its two calls"
        );
        assert!(matches!(device.accounting_stats_for(pid), Err(NvmlError::GpuLost)));
        assert!(nvml.device_by_index(1).unwrap().accounting_pids().unwrap().is_empty());
        client.fault(&["gpu-lost", "off"]);
        assert!(device.accounting_stats_for(pid).is_ok());
    });
}

#[test]
fn initialisation_fails_with_the_drivers_own_codes() {
    in_own_process("initialisation_fails_with_the_drivers_own_codes", &[], |client| {
        let init = || Nvml::builder().lib_path(library().as_os_str()).init();
        client.fault(&["driver-not-loaded", "on"]);
        assert!(matches!(init(), Err(NvmlError::DriverNotLoaded)));
        client.fault(&["heal"]);
        client.fault(&["no-gpu", "on"]);
        assert!(matches!(init(), Err(NvmlError::UnexpectedVariant(28))));
        client.fault(&["heal"]);
        client.fault(&["code", "nvmlInit_v2", "--code", "18", "--times", "1"]);
        assert!(matches!(init(), Err(NvmlError::LibRmVersionMismatch)));
        assert!(init().is_ok());
    });
}

#[test]
fn without_a_server_the_driver_is_not_loaded() {
    // This process was started without the variable; nothing else is needed.
    if std::env::var_os("NVSIM_SOCKET").is_none() {
        let loaded = Nvml::builder().lib_path(library().as_os_str()).init();
        assert!(matches!(loaded, Err(NvmlError::DriverNotLoaded)));
    }
}

#[test]
fn s16_an_older_librarys_missing_symbols_are_missing() {
    in_own_process("s16_an_older_librarys_missing_symbols_are_missing", &[], |_| {
        let folder = tempfile::tempdir().unwrap();
        let missing =
            ["nvmlDeviceGetAccountingStats_v2", "nvmlDeviceGetComputeRunningProcesses_v3"];
        let older = library_without(folder.path(), &missing);
        let nvml = Nvml::builder().lib_path(older.as_os_str()).init().unwrap();
        let device = nvml.device_by_index(0).unwrap();
        let refused = device.running_compute_processes();
        assert!(matches!(refused, Err(NvmlError::FailedToLoadSymbol(_))), "{refused:?}");
        assert!(device.running_graphics_processes().is_ok());
        assert!(device.accounting_pids().is_ok());
        let whole = load();
        assert!(whole.device_by_index(0).unwrap().running_compute_processes().is_ok());
    });
}

#[test]
fn s17_the_library_has_its_soname_and_always_exports_its_lifecycle() {
    let whole = std::fs::read(library()).unwrap();
    let soname = b"\0libnvidia-ml.so.1\0";
    assert!(whole.windows(soname.len()).any(|bytes| bytes == soname));
    for symbol in ["nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"] {
        // What is not exported cannot be taken out.
        assert!(nvsim::library::without(&whole, &[symbol]).is_ok(), "{symbol}");
    }
    assert!(nvsim::library::without(&whole, &["nvmlNoSuchCall"]).is_err());
}

#[test]
fn clients_are_counted_and_shutdown_leaves_none() {
    in_own_process("clients_are_counted_and_shutdown_leaves_none", &[], |client| {
        assert_eq!(client.fault(&["clients"]), "0");
        let nvml = load();
        assert_eq!(nvml.device_count().unwrap(), 2);
        assert_eq!(client.fault(&["clients"]), "1");
        nvml.shutdown().unwrap();
        until("the connection is closed", || client.fault(&["clients"]) == "0");
        let nvml = load();
        assert_eq!(nvml.device_count().unwrap(), 2);
        assert!(client.fault(&["state"]).contains("\"holders\":[]"), "a client is no GPU process");
    });
}

#[test]
fn a_forked_child_has_connections_of_its_own() {
    in_own_process("a_forked_child_has_connections_of_its_own", &[], |client| {
        let nvml = load();
        let device = nvml.device_by_index(0).unwrap();
        let child = match nvsim::sys::fork().unwrap() {
            nvsim::sys::Fork::Child => {
                let agrees = (0..50).all(|_| device.index().is_ok_and(|index| index == 0));
                nvsim::sys::exit_now(i32::from(!agrees));
            }
            nvsim::sys::Fork::Parent(child) => rustix::process::Pid::from_raw(child),
        };
        let other = nvml.device_by_index(1).unwrap();
        assert!((0..50).all(|_| other.index().is_ok_and(|index| index == 1)));
        let options = rustix::process::WaitOptions::empty();
        let (_, status) = rustix::process::waitpid(child, options).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0));
        until("only the parent is left", || client.fault(&["clients"]) == "1");
    });
}

#[test]
fn threads_call_at_once_and_get_their_own_answers() {
    in_own_process("threads_call_at_once_and_get_their_own_answers", &[], |_| {
        let nvml = load();
        std::thread::scope(|scope| {
            for index in [0_u32, 1, 0, 1] {
                let device = nvml.device_by_index(index).unwrap();
                scope.spawn(move || {
                    for _ in 0..200 {
                        assert_eq!(device.index().unwrap(), index);
                    }
                });
            }
        });
    });
}

#[test]
fn an_xid_reaches_whoever_waits_for_events() {
    in_own_process("an_xid_reaches_whoever_waits_for_events", &[], |client| {
        let nvml = load();
        let device = nvml.device_by_index(1).unwrap();
        let set = nvml.create_event_set().unwrap();
        let set = device.register_events(EventTypes::CRITICAL_XID_ERROR, set).unwrap();
        assert!(matches!(set.wait(1), Err(NvmlError::Timeout)));
        client.fault(&["xid", "79", "--gpu", "0"]);
        assert!(matches!(set.wait(1), Err(NvmlError::Timeout)), "not this GPU's");
        client.fault(&["xid", "79", "--gpu", "1"]);
        let event = set.wait(1_000).unwrap();
        assert_eq!(event.device.index().unwrap(), 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // While the wait below is under way, or just before it: both must work.
                std::thread::sleep(Duration::from_millis(20));
                client.fault(&["xid", "31"]);
            });
            set.wait(60_000).unwrap();
        });
    });
}
