//! Independent clients of the C ABI, from PyPI: their own struct layouts against ours.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::python::output;
use crate::support::{Driver, library, library_without, skip, until};
use serde_json::Value;

/// Pinned: the versions whose symbols and layouts were looked at.
const PACKAGES: [&str; 3] = ["nvidia-ml-py==13.615.71", "gpustat==1.1.1", "nvitop==1.7.2"];

/// A throw-away virtual environment with the clients; the reason if there can be none.
fn environment() -> Result<&'static Path, String> {
    static ENVIRONMENT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = ENVIRONMENT.get_or_init(|| crate::python::environment("nvml-clients", &PACKAGES));
    made.as_deref().map_err(Clone::clone)
}

/// Runs a Python program against a driver; what it prints, as JSON.
fn python(driver: &Driver, library: &Path, arguments: &[&str], test: &str) -> Option<Value> {
    let python = match environment() {
        Ok(python) => python,
        Err(reason) => {
            skip(test, &reason);
            return None;
        }
    };
    let mut command = Command::new(python);
    command.args(arguments).env("NVSIM_SOCKET", driver.socket());
    command.env("LD_LIBRARY_PATH", library.parent().unwrap());
    let printed = output(&mut command).unwrap_or_else(|error| panic!("{error}"));
    Some(serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}")))
}

const ACCOUNTING: &str = r#"
import ctypes, json, pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
fields = ["gpuUtilization", "memoryUtilization", "maxMemoryUsage", "time", "startTime", "isRunning"]
pids = list(n.nvmlDeviceGetAccountingPids(h))
def v1(pid):
    s = n.nvmlDeviceGetAccountingStats(h, pid)
    return {f: getattr(s, f) for f in fields}
def v2(pid):
    s = n.c_nvmlAccountingStats_v2_t() if hasattr(n, "c_nvmlAccountingStats_v2_t") else None
    call = n.nvmlDeviceGetAccountingStats_v2
    try:
        s = call(h, pid)
    except TypeError:
        s.pid = pid
        call(h, ctypes.byref(s))
    return {f: getattr(s, f) for f in fields + ["pid", "sampleCount", "sumGpuUtil", "sumFbUtil"]}
def v2_or_why(pid):
    try:
        return v2(pid)
    except n.NVMLError as e:
        return type(e).__name__
memory = n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2)
print(json.dumps({
    "marker": ctypes.CDLL("libnvidia-ml.so.1").gpu_ledger_simulated(),
    "count": n.nvmlDeviceGetCount(),
    "uuid": n.nvmlDeviceGetUUID(h),
    "name": n.nvmlDeviceGetName(h),
    "bus": n.nvmlDeviceGetPciInfo(h).busId,
    "mode": n.nvmlDeviceGetAccountingMode(h),
    "size": n.nvmlDeviceGetAccountingBufferSize(h),
    "pids": pids,
    "v1": [v1(p) for p in pids],
    "v2": [v2_or_why(p) for p in pids],
    "running": [[p.pid, p.usedGpuMemory] for p in n.nvmlDeviceGetComputeRunningProcesses(h)],
    "used": memory.used,
    "total": memory.total,
    "temperature": n.nvmlDeviceGetTemperatureV(h, n.NVML_TEMPERATURE_GPU),
}))
n.nvmlShutdown()
"#;

#[test]
fn nvidia_ml_py_reads_what_the_model_holds() {
    let driver = Driver::start(&[]);
    for arguments in [["--ms", "3", "--mem-mib", "5"], ["--ms", "1200", "--mem-mib", "7"]] {
        assert!(driver.work(&arguments).status().unwrap().success());
    }
    let mut live = driver.work(&["--ms", "600000", "--mem-mib", "9"]).spawn().unwrap();
    until("all three are there", || driver.pids(0).len() == 3);
    let test = "nvidia_ml_py_reads_what_the_model_holds";
    let read = python(&driver, library(), &["-c", ACCOUNTING], test);
    let state = driver.state(0);
    live.kill().unwrap();
    live.wait().unwrap();
    let Some(read) = read else { return };
    assert_eq!(read["marker"], 1);
    assert_eq!(read["count"], 2);
    assert_eq!(read["size"], 4_000);
    assert_eq!(read["mode"], 1);
    assert_eq!(read["bus"], "00000000:01:00.0");
    for field in ["uuid", "name"] {
        assert_eq!(read[field], state[field]);
    }
    assert_eq!(read["pids"], state["accounting_pids"]);
    assert_eq!(read["used"], state["memory_used_bytes"]);
    assert_eq!(read["total"], 80_u64 << 30);
    assert_eq!(read["running"][0][0], live.id());
    assert_eq!(read["running"][0][1], 9 << 20);
    assert!(read["temperature"].as_i64().unwrap() >= 34);
    // The dead rows no longer change: compared field by field, in both versions.
    let names = [
        ("maxMemoryUsage", "memory_peak_bytes"),
        ("gpuUtilization", "gpu_percent"),
        ("memoryUtilization", "memory_percent"),
        ("time", "time_ms"),
        ("startTime", "start_us"),
    ];
    for row in 0..2 {
        for (theirs, ours) in names {
            assert_eq!(read["v1"][row][theirs], state["stats"][row][ours], "{theirs}");
            assert_eq!(read["v2"][row][theirs], state["stats"][row][ours], "{theirs}");
        }
        assert_eq!(read["v1"][row]["isRunning"], 0);
        assert_eq!(read["v2"][row]["pid"], state["stats"][row]["pid"]);
        assert_eq!(read["v2"][row]["sampleCount"], state["stats"][row]["samples"]);
        assert_eq!(read["v2"][row]["sumGpuUtil"], state["stats"][row]["gpu_util_sum"]);
        assert_eq!(read["v2"][row]["sumFbUtil"], state["stats"][row]["fb_util_sum"]);
    }
    assert!(state["stats"][1]["samples"].as_u64().unwrap() > 0, "long enough for a tick");
    assert_eq!(read["v1"][2]["isRunning"], 1);
    assert_eq!(read["v1"][2]["time"], 0);
}

#[test]
fn nvidia_ml_py_finds_no_function_where_a_symbol_is_missing() {
    let driver = Driver::start(&[]);
    assert!(driver.work(&["--ms", "1"]).status().unwrap().success());
    until("it is final", || !driver.truth().is_empty());
    let folder = tempfile::tempdir().unwrap();
    let older = library_without(folder.path(), &["nvmlDeviceGetAccountingStats_v2"]);
    let test = "nvidia_ml_py_finds_no_function_where_a_symbol_is_missing";
    let Some(read) = python(&driver, &older, &["-c", ACCOUNTING], test) else { return };
    assert_eq!(read["v2"][0], "NVMLError_FunctionNotFound");
    assert_eq!(read["v1"][0]["isRunning"], 0);
}

const VERSIONS: &str = r#"
import ctypes, json, pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
def code(word):
    memory = n.c_nvmlMemory_v2_t()
    memory.version = word
    call = n._nvmlGetFunctionPointer("nvmlDeviceGetMemoryInfo_v2")
    return call(h, ctypes.byref(memory))
null = n._nvmlGetFunctionPointer("nvmlDeviceGetIndex")(h, None)
wild = n._nvmlGetFunctionPointer("nvmlDeviceGetIndex")(ctypes.c_void_p(1234), ctypes.byref(ctypes.c_uint()))
print(json.dumps({"right": code(0x2000028), "wrong": code(2), "null": null, "wild": wild,
                  "text": n.nvmlErrorString(15).decode() if isinstance(n.nvmlErrorString(15), bytes) else n.nvmlErrorString(15)}))
"#;

#[test]
fn s18_a_wrong_version_word_a_null_and_a_wild_handle_are_refused() {
    let driver = Driver::start(&[]);
    let test = "s18_a_wrong_version_word_a_null_and_a_wild_handle_are_refused";
    for (fault, code) in [("25", 25), ("13", 13)] {
        driver.fault(&["struct-version", fault]);
        let Some(read) = python(&driver, library(), &["-c", VERSIONS], test) else { return };
        assert_eq!(read["right"], 0);
        assert_eq!(read["wrong"], code);
        assert_eq!((&read["null"], &read["wild"]), (&Value::from(2), &Value::from(2)));
        assert_eq!(read["text"], "GPU is lost");
    }
}

#[test]
fn gpustat_shows_the_processes_and_their_memory() {
    let driver = Driver::start(&[]);
    let mut live = driver.work(&["--ms", "600000", "--mem-mib", "512"]).spawn().unwrap();
    until("it holds the GPU", || driver.pids(0).len() == 1);
    let test = "gpustat_shows_the_processes_and_their_memory";
    let read = python(&driver, library(), &["-m", "gpustat", "--json"], test);
    let uuid = driver.state(0)["uuid"].clone();
    live.kill().unwrap();
    live.wait().unwrap();
    let Some(read) = read else { return };
    assert_eq!(read["gpus"].as_array().unwrap().len(), 2);
    let gpu = &read["gpus"][0];
    assert_eq!(gpu["uuid"], uuid);
    assert_eq!(gpu["name"], "NVIDIA Simulated GPU");
    assert_eq!(gpu["memory.used"], 512);
    assert_eq!(gpu["memory.total"], 80 << 10);
    assert_eq!(gpu["processes"][0]["pid"], live.id());
    assert_eq!(gpu["processes"][0]["gpu_memory_usage"], 512);
    assert_eq!(read["gpus"][1]["processes"], Value::Array(Vec::new()));
}

#[test]
fn nvitop_shows_the_devices() {
    let driver = Driver::start(&[]);
    let test = "nvitop_shows_the_devices";
    let program = "import json, nvitop\nd = nvitop.Device.all()\nprint(json.dumps([[x.name(), x.uuid(), x.memory_used(), x.index] for x in d]))";
    let Some(read) = python(&driver, library(), &["-c", program], test) else { return };
    for (index, row) in read.as_array().unwrap().iter().enumerate() {
        assert_eq!(row[0], "NVIDIA Simulated GPU");
        assert_eq!(row[1], driver.state(index)["uuid"]);
        assert_eq!(row[2], 0);
        assert_eq!(row[3], index);
    }
    assert_eq!(read.as_array().unwrap().len(), 2);
}
