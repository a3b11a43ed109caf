//! Any bytes, and any mixture of what paths are made of.

use proptest::prelude::*;

use crate::place::Place;

/// Parts that some reader looks for, whole and maimed.
const PARTS: &[&str] = &[
    "docker",
    "docker-",
    "2403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303d",
    "2403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303",
    "libpod-payload-2403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303d",
    "crio-2403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303d.scope",
    "a.slice:docker:2403ccfe427f1dc7b6120dccb9ac58c2f8456950380d587a9f33ea7f00dd303d",
    "::",
    "kubepods",
    "burstable",
    "pod2c48913c-b29f-11e7-9350-020968147796",
    "kubelet-kubepods-pod2c48913c_b29f_11e7_9350_020968147796.slice",
    "kubepods-pod.slice",
    "ecs",
    "34dc0b5e626f2c5c4c5170e34b10e765-1234567890",
    "garden",
    "6f265890-5165-7fab-6b52-18d1",
    "nomad.slice",
    "share.slice",
    "bcd3b184-b67f-f790-ed6f-1c2cbb4a55e8.sleep.scope",
    "bcd3b184-b67f-f790-ed6f-1c2cbb4a55e8.",
    "lxc",
    "lxc.payload.",
    "lxc.payload.größe_1",
    "machine.slice",
    r"machine-a\x2db.scope",
    r"machine-\xff\x1b.scope",
    r"systemd-nspawn@we\x62.service",
    "systemd-nspawn@.service",
    "slurmstepd.scope",
    "slurm",
    "uid_7",
    "job_12",
    "job_",
    "step_batch",
    "user",
    "task_3",
    "pbs_jobs.service",
    "jobid",
    "12[3].srv",
    "lsf",
    "job.12[3].4",
    "job.12[",
    "htcondor",
    "condor_x_slot1_2@h",
    "user.slice",
    "user-1000.slice",
    "user@1000.service",
    "session-3.scope",
    "_cpu.service",
    "a.service",
    "a@b.service",
    "@.service",
    ".service",
    ".slice",
    "..",
    " (deleted)",
];

fn path() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        8 => prop::sample::select(PARTS).prop_map(|part| part.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(part, 0..9)
        .prop_map(|parts| parts.iter().flat_map(|part| [b"/", part.as_slice()].concat()).collect())
}

/// The path with its escapes read and dashes for underscores: what every name that is told is a part of.
fn normal(path: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = path;
    while let Some((first, tail)) = rest.split_first() {
        let code = rest.strip_prefix(br"\x").and_then(|tail| tail.get(..2));
        let byte = code.and_then(|code| u8::from_str_radix(str::from_utf8(code).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &rest[4..] } else { tail };
    }
    bytes.iter_mut().filter(|byte| **byte == b'_').for_each(|byte| *byte = b'-');
    bytes
}

fn names(place: &Place) -> Vec<&str> {
    let job = place.job.as_ref();
    let job = job.map(|job| [job.id.as_deref(), job.step.as_deref(), job.task.as_deref()]);
    let mut names: Vec<&str> = job.into_iter().flatten().flatten().collect();
    names.extend(place.container.as_ref().map(|container| container.id.as_ref()));
    names.extend(place.pod.as_ref().map(|pod| pod.uid.as_ref()));
    names.extend([&place.unit, &place.user_unit, &place.slice].into_iter().flatten().map(|n| &**n));
    names
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let place = Place::of_path(&bytes);
        let _ = (place.service(), place.is_desktop());
        let rooted = [b"/", bytes.as_slice()].concat();
        let _ = Place::of([bytes.as_slice(), &rooted]).service();
    }

    #[test]
    fn every_name_stands_in_the_path(path in path()) {
        let place = Place::of_path(&path);
        for name in names(&place) {
            prop_assert!(!name.is_empty());
            let (name, path) = (normal(name.as_bytes()), normal(&path));
            prop_assert!(path.windows(name.len()).any(|part| part == name), "{place:?}");
        }
        prop_assert!(place.service().is_none_or(|service| !service.is_empty()));
    }

    #[test]
    fn of_many_paths_container_and_pod_are_of_one(paths in prop::collection::vec(path(), 0..4)) {
        let place = Place::of(paths.iter().map(Vec::as_slice));
        let inner = |place: &Place| (place.container.clone(), place.pod.clone(), place.job.clone());
        let units = |place: &Place| {
            (place.unit.clone(), place.user_unit.clone(), place.slice.clone(), place.owner_uid)
        };
        let none = Place::default();
        let places: Vec<Place> = paths.iter().map(|path| Place::of_path(path)).collect();
        let mut all = places.iter().chain([&none]);
        prop_assert!(all.clone().any(|one| inner(one) == inner(&place)));
        prop_assert!(all.any(|one| units(one) == units(&place)));
        // What some path names is not lost.
        prop_assert_eq!(place.unit.is_some(), places.iter().any(|one| one.unit.is_some()));
        let ran = |place: &Place| inner(place) != inner(&none);
        prop_assert_eq!(ran(&place), places.iter().any(ran));
    }
}
