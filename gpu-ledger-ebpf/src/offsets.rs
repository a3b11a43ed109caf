//! Where the members of kernel structures lie: found in the running kernel's BTF by the loader,
//! read by the programs as constants.

/// Stands for a member or array place that this kernel does not have.
pub const ABSENT: u32 = u32::MAX;

macro_rules! offsets {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Byte offsets, one read-only global of the object. The verifier sees the numbers as
        /// constants and checks each access against the kernel's own types.
        #[repr(C)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Offsets { $($(#[$doc])* pub $field: u32,)* }

        /// Members in [`Offsets`].
        pub const OFFSET_COUNT: usize = [$(stringify!($field)),*].len();

        impl Offsets {
            /// Nothing known.
            pub const NONE: Self = Self { $($field: ABSENT,)* };

            /// The members in order: the bytes of the global, without a cast.
            #[must_use]
            pub const fn words(&self) -> [u32; OFFSET_COUNT] {
                [$(self.$field,)*]
            }
        }
    };
}

offsets! {
    /// `task_struct.pid`
    task_pid,
    /// `task_struct.tgid`
    task_tgid,
    /// `task_struct.group_leader`
    task_group_leader,
    /// `task_struct.real_parent`
    task_real_parent,
    /// `task_struct.start_boottime` (`real_start_time` before 5.5)
    task_start_boottime,
    /// `task_struct.real_cred`
    task_real_cred,
    /// `task_struct.loginuid`; absent without CONFIG_AUDIT
    task_loginuid,
    /// `task_struct.cgroups`
    task_cgroups,
    /// `task_struct.signal`
    task_signal,
    /// `task_struct.exit_code`
    task_exit_code,
    /// `task_struct.mm`
    task_mm,
    /// `signal_struct.live`
    signal_live,
    /// `signal_struct.flags`
    signal_flags,
    /// `signal_struct.group_exit_code`
    signal_group_exit_code,
    /// `cred.uid`
    cred_uid,
    /// `cred.euid`
    cred_euid,
    /// `css_set.dfl_cgrp`
    css_set_dfl_cgrp,
    /// `css_set.subsys[cpuset_cgrp_id]`; absent without the controller
    css_set_cpuset,
    /// `css_set.subsys[devices_cgrp_id]`; absent without the controller
    css_set_devices,
    /// `css_set.subsys[freezer_cgrp_id]`; absent without the controller
    css_set_freezer,
    /// `css_set.subsys[memory_cgrp_id]`; absent without the controller
    css_set_memory,
    /// `css_set.subsys[pids_cgrp_id]`; absent without the controller
    css_set_pids,
    /// `cgroup_subsys_state.cgroup`
    css_cgroup,
    /// `cgroup.kn`
    cgroup_kn,
    /// `cgroup.root`
    cgroup_root,
    /// `cgroup_root.hierarchy_id`
    cgroup_root_hierarchy_id,
    /// `kernfs_node.id`
    kernfs_node_id,
    /// `mm_struct.arg_start`
    mm_arg_start,
    /// `mm_struct.arg_end`
    mm_arg_end,
    /// `mm_struct.exe_file`
    mm_exe_file,
    /// `file.f_inode`
    file_f_inode,
    /// `inode.i_ino`
    inode_i_ino,
    /// `inode.i_sb`
    inode_i_sb,
    /// `super_block.s_dev`
    super_block_s_dev,
    /// `linux_binprm.filename`
    binprm_filename,
}
