//! Which members of kernel structures the programs read, under the names they have borne.
//!
//! Purpose: [`Offsets`] from the running kernel's BTF. A member that is missing is an error that
//! names it, unless the programs can do without it.

use gpu_ledger_ebpf::{ABSENT, Offsets};

use super::btf::{Btf, BtfError};

/// Bytes of a pointer: the object is built for 64 bits.
const POINTER_BYTES: u32 = 8;

/// Looks up every offset.
pub fn resolve(btf: &Btf) -> Result<Offsets, BtfError> {
    let at = |structure, members: &[&str]| btf.member(structure, members).map(|it| it.offset);
    Ok(Offsets {
        task_pid: at("task_struct", &["pid"])?,
        task_tgid: at("task_struct", &["tgid"])?,
        task_group_leader: at("task_struct", &["group_leader"])?,
        task_real_parent: at("task_struct", &["real_parent"])?,
        // Renamed in Linux 5.5.
        task_start_boottime: at("task_struct", &["start_boottime", "real_start_time"])?,
        task_real_cred: at("task_struct", &["real_cred"])?,
        // Only with CONFIG_AUDIT; without it the login uid is not known.
        task_loginuid: optional(at("task_struct", &["loginuid"]))?,
        task_cgroups: at("task_struct", &["cgroups"])?,
        task_signal: at("task_struct", &["signal"])?,
        task_exit_code: at("task_struct", &["exit_code"])?,
        task_mm: at("task_struct", &["mm"])?,
        signal_live: at("signal_struct", &["live"])?,
        signal_flags: at("signal_struct", &["flags"])?,
        signal_group_exit_code: at("signal_struct", &["group_exit_code"])?,
        cred_uid: at("cred", &["uid"])?,
        cred_euid: at("cred", &["euid"])?,
        css_set_dfl_cgrp: at("css_set", &["dfl_cgrp"])?,
        css_set_cpuset: controller(btf, "cpuset_cgrp_id")?,
        css_set_devices: controller(btf, "devices_cgrp_id")?,
        css_set_freezer: controller(btf, "freezer_cgrp_id")?,
        css_set_memory: controller(btf, "memory_cgrp_id")?,
        css_set_pids: controller(btf, "pids_cgrp_id")?,
        css_cgroup: at("cgroup_subsys_state", &["cgroup"])?,
        cgroup_kn: at("cgroup", &["kn"])?,
        cgroup_root: at("cgroup", &["root"])?,
        cgroup_root_hierarchy_id: at("cgroup_root", &["hierarchy_id"])?,
        kernfs_node_id: at("kernfs_node", &["id"])?,
        mm_arg_start: at("mm_struct", &["arg_start"])?,
        mm_arg_end: at("mm_struct", &["arg_end"])?,
        mm_exe_file: at("mm_struct", &["exe_file"])?,
        file_f_inode: at("file", &["f_inode"])?,
        inode_i_ino: at("inode", &["i_ino"])?,
        inode_i_sb: at("inode", &["i_sb"])?,
        super_block_s_dev: at("super_block", &["s_dev"])?,
        binprm_filename: at("linux_binprm", &["filename"])?,
    })
}

/// A member that the programs can do without.
fn optional(found: Result<u32, BtfError>) -> Result<u32, BtfError> {
    match found {
        Err(BtfError::NoMember { .. }) => Ok(ABSENT),
        other => other,
    }
}

/// The place of a controller's pointer in a task's set; absent where the kernel is built without it.
fn controller(btf: &Btf, enumerator: &str) -> Result<u32, BtfError> {
    let Some(number) = btf.enumerator("cgroup_subsys_id", enumerator)? else { return Ok(ABSENT) };
    let array = btf.member("css_set", &["subsys"])?;
    let inside = btf.array_length(array)?.is_some_and(|length| number < length);
    if !inside {
        let (structure, members) = ("css_set".to_owned(), format!("subsys[{enumerator}]"));
        return Err(BtfError::NoMember { structure, members });
    }
    Ok(array.offset.saturating_add(number.saturating_mul(POINTER_BYTES)))
}
