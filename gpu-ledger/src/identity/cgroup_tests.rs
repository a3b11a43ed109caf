use super::*;

const HYBRID: &[u8] = b"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw shared:3 - cgroup cgroup rw,cpu
34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset,devices
36 31 0:33 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
37 31 0:31 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,cpuset,devices
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime shared:9 master:2 - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw - cgroup2 cgroup2 rw
42 31 0:38 / /elsewhere rw - cgroup2 cgroup2 rw
43 31 0:38 /../../x /inside rw - cgroup2 cgroup2 rw
";
const OWN: &[u8] =
    b"9:name=systemd:/\n8:pids:/\n6:freezer:/\n4:memory:/api/d0\n3:cpuset,devices:/\n\
    1:cpu:/\n0::/\n";

fn made(hierarchy: u32, id: u64, path: &[u8]) -> CgroupMade {
    CgroupMade {
        cgroup: CgroupId { hierarchy, id },
        path: Some(Bytes::copy_from_slice(path)),
        at: crate::unit::BootNs(1),
        cpu: 0,
        seq: 0,
    }
}

/// A host with its watched hierarchies as folders.
fn hybrid_host() -> (tempfile::TempDir, CgroupMounts) {
    let root = tempfile::tempdir().unwrap();
    let v2 = "uni fied/system.slice/ollama.service";
    for folder in ["memory/api/d0", "pids", "freezer/slurm/uid_7/job_9", "cpuset/one", v2] {
        std::fs::create_dir_all(root.path().join("sys/fs/cgroup").join(folder)).unwrap();
    }
    let mounts = CgroupMounts::parse(HYBRID, OWN, root.path());
    (root, mounts)
}

#[test]
fn of_a_hybrid_host_v2_and_each_hierarchy_of_a_watched_controller_are_watched_once() {
    let mounts = CgroupMounts::parse(HYBRID, OWN, Path::new("/"));
    let found: Vec<_> = mounts
        .mounts
        .iter()
        .map(|mount| (mount.hierarchy, mount.folder.to_str().unwrap()))
        .collect();
    assert_eq!(
        found,
        [
            (3, "/sys/fs/cgroup/cpuset"),
            (6, "/sys/fs/cgroup/freezer"),
            (4, "/sys/fs/cgroup/memory"),
            (8, "/sys/fs/cgroup/pids"),
            (0, "/sys/fs/cgroup/uni fied"),
        ]
    );
}

#[test]
fn a_pure_v2_and_a_pure_v1_host_are_read() {
    let v2 = b"25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
    let mounts = CgroupMounts::parse(v2, b"0::/user.slice\n", Path::new("/"));
    assert_eq!(mounts.mounts.len(), 1);
    assert_eq!(mounts.mounts[0].hierarchy, 0);
    let v1 = b"35 31 0:32 / /cg/mem rw - cgroup cgroup rw,memory,hugetlb\n";
    let mounts = CgroupMounts::parse(v1, b"6:hugetlb,memory:/\n", Path::new("/"));
    assert_eq!(mounts.mounts[0].hierarchy, 6);
    assert_eq!(CgroupMounts::parse(b"", b"", Path::new("/")), CgroupMounts::default());
}

#[test]
fn a_scan_names_every_group_and_a_name_outlives_its_group() {
    let (root, mounts) = hybrid_host();
    let mut paths = CgroupPaths::default();
    let scan = paths.scan(&mounts);
    assert_eq!((scan.found, scan.unreadable, scan.stopped_at_limit), (13, 0, false));
    let service = root.path().join("sys/fs/cgroup/uni fied/system.slice/ollama.service");
    let id = CgroupId { hierarchy: 0, id: std::fs::metadata(&service).unwrap().ino() };
    std::fs::remove_dir(&service).unwrap();
    assert_eq!(paths.path_of(id), Some(b"/system.slice/ollama.service".as_slice()));
    paths.scan(&mounts);
    assert_eq!(paths.path_of(id), Some(b"/system.slice/ollama.service".as_slice()));
    let top = CgroupId { hierarchy: 8, id: mounts.id_of(8, b"/").unwrap().id };
    assert_eq!(paths.path_of(top), Some(b"/".as_slice()));
}

#[test]
fn the_groups_of_a_process_are_the_watched_ones_that_exist() {
    let (_root, mounts) = hybrid_host();
    let lines =
        b"9:name=systemd:/x\n8:pids:/gone\n6:freezer:/slurm/uid_7/job_9\n4:memory:/api/d0\n\
        3:cpuset,devices:/one\n1:cpu:/\n0::/system.slice\nnonsense\n";
    let groups = mounts.groups_of(lines);
    let found: Vec<_> =
        groups.iter().map(|(group, path)| (group.hierarchy, path.as_ref())).collect();
    // In the order of a record, whatever numbers the hierarchies have.
    assert_eq!(
        found,
        [
            (0, b"/system.slice".as_slice()),
            (3, b"/one"),
            (6, b"/slurm/uid_7/job_9"),
            (4, b"/api/d0")
        ]
    );
}

#[test]
fn the_root_of_a_hierarchy_has_its_name_where_that_is_not_even_mounted() {
    let paths = CgroupPaths::default();
    let in_v2 = |id| paths.path_of(CgroupId { hierarchy: 0, id }).map(<[u8]>::to_vec);
    assert_eq!(in_v2(ROOT_GROUP_ID), Some(b"/".to_vec()));
    assert_eq!(in_v2(ROOT_GROUP_ID + 1), None);
}

#[test]
fn an_event_names_a_group_and_a_newer_name_replaces_it() {
    let mut paths = CgroupPaths::default();
    paths.apply(&made(0, 77, b"/docker/\xffabc"));
    paths.apply(&made(4, 77, b"/other"));
    let of = |paths: &CgroupPaths, hierarchy| {
        paths.path_of(CgroupId { hierarchy, id: 77 }).map(<[u8]>::to_vec)
    };
    assert_eq!(of(&paths, 0), Some(b"/docker/\xffabc".to_vec()));
    assert_eq!(of(&paths, 4), Some(b"/other".to_vec()));
    assert_eq!(of(&paths, 8), None);
    paths.apply(&made(0, 77, b"/new"));
    assert_eq!(of(&paths, 0), Some(b"/new".to_vec()));
}

#[test]
fn names_are_bounded_and_the_forgotten_counted() {
    let mut paths = CgroupPaths::default();
    let more: u64 = 100;
    let all = u64::try_from(CGROUP_NAMES_MAX).unwrap() + more;
    for id in 0..all {
        paths.apply(&made(0, id, format!("/pod/{id}").as_bytes()));
    }
    assert_eq!(paths.forgotten(), more);
    assert_eq!(paths.paths.len(), CGROUP_NAMES_MAX);
    assert_eq!(paths.path_of(CgroupId { hierarchy: 0, id: 0 }), None);
    assert!(paths.path_of(CgroupId { hierarchy: 0, id: all - 1 }).is_some());
}

#[test]
fn on_this_host_the_own_group_has_a_name_and_the_inode_of_its_folder_for_an_id() {
    let mounts = CgroupMounts::read(Path::new("/proc"), Path::new("/")).unwrap();
    let mut paths = CgroupPaths::default();
    let scan = paths.scan(&mounts);
    if mounts.mounts.is_empty() {
        // A host without a watched hierarchy names none, and says nothing else.
        assert_eq!(scan, CgroupScan::default());
        return;
    }
    let own = mounts.groups_of(&std::fs::read("/proc/self/cgroup").unwrap());
    for (group, path) in own {
        assert_eq!(paths.path_of(group), Some(path.as_ref()));
    }
    assert!(scan.found > 0);
}

#[test]
fn a_path_that_may_have_been_cut_is_none() {
    let mut paths = CgroupPaths::default();
    let long = |length: usize| format!("/{}", "y".repeat(length - 1)).into_bytes();
    paths.apply(&made(0, 7, &long(CGROUP_PATH_MAX - 2)));
    for length in [CGROUP_PATH_MAX - 1, CGROUP_PATH_MAX] {
        paths.apply(&made(0, 8, &long(length)));
    }
    assert!(paths.path_of(CgroupId { hierarchy: 0, id: 7 }).is_some());
    assert_eq!(paths.path_of(CgroupId { hierarchy: 0, id: 8 }), None);
}

#[test]
fn no_secret_of_a_path_is_known_to_anybody() {
    let mut paths = CgroupPaths::default();
    let secret = "hf_QQcdefghijKLMNOPQRSTuvwxyz01234567";
    paths.apply(&made(0, 7, format!("/foo/{secret}/x").as_bytes()));
    paths.learn(CgroupId { hierarchy: 0, id: 8 }, format!("/a.slice/{secret}.scope").as_bytes());
    let known: Vec<&[u8]> = paths.iter().map(|(_, path)| path).collect();
    assert_eq!(known, [b"/foo/[redacted]/x".as_slice(), b"/a.slice/[redacted].scope"]);
    let (root, mounts) = hybrid_host();
    let folder = mounts.mounts.iter().find(|mount| mount.hierarchy == 0).unwrap();
    std::fs::create_dir(folder.folder.join(secret)).unwrap();
    let groups = mounts.groups_of(format!("0::/{secret}\n").as_bytes());
    assert_eq!(groups.first().unwrap().1, b"/[redacted]".as_slice());
    drop(root);
}
