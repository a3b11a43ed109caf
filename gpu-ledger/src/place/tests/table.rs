//! Every row of the table of paths.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::place::{Place, Qos, Runtime, Scheduler, without_secrets};

#[derive(Deserialize)]
struct Table {
    path: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    path: String,
    #[expect(dead_code, reason = "for readers of the table")]
    hierarchy: Option<String>,
    host: String,
    #[serde(default)]
    none: bool,
    service: Option<String>,
    unit: Option<String>,
    user_unit: Option<String>,
    slice: Option<String>,
    owner_uid: Option<u32>,
    runtime: Option<String>,
    container: Option<String>,
    pod_uid: Option<String>,
    qos: Option<String>,
    scheduler: Option<String>,
    job: Option<String>,
    step: Option<String>,
    task: Option<String>,
    source: String,
}

fn rows() -> Vec<Row> {
    let table: Table =
        toml::from_str(include_str!("../../../../tests/data/cgroup-paths.toml")).unwrap();
    table.path
}

/// What a row says, and what was read, in the same words.
fn told(row: &Row) -> [(&'static str, Option<String>); 13] {
    [
        ("service", row.service.clone()),
        ("unit", row.unit.clone()),
        ("user_unit", row.user_unit.clone()),
        ("slice", row.slice.clone()),
        ("owner_uid", row.owner_uid.map(|uid| uid.to_string())),
        ("runtime", row.runtime.clone()),
        ("container", row.container.clone()),
        ("pod_uid", row.pod_uid.clone()),
        ("qos", row.qos.clone()),
        ("scheduler", row.scheduler.clone()),
        ("job", row.job.clone()),
        ("step", row.step.clone()),
        ("task", row.task.clone()),
    ]
}

fn read(place: &Place) -> [Option<String>; 13] {
    let (container, pod, job) = (place.container.as_ref(), place.pod.as_ref(), place.job.as_ref());
    let text = |text: &std::sync::Arc<str>| text.to_string();
    [
        place.service().as_ref().map(text),
        place.unit.as_ref().map(text),
        place.user_unit.as_ref().map(text),
        place.slice.as_ref().map(text),
        place.owner_uid.map(|uid| uid.to_string()),
        container.and_then(|it| it.runtime).map(|it| it.as_str().to_owned()),
        container.map(|it| text(&it.id)),
        pod.map(|it| text(&it.uid)),
        pod.and_then(|it| it.qos).map(|it| it.as_str().to_owned()),
        job.map(|it| it.scheduler.as_str().to_owned()),
        job.and_then(|it| it.id.as_ref()).map(text),
        job.and_then(|it| it.step.as_ref()).map(text),
        job.and_then(|it| it.task.as_ref()).map(text),
    ]
}

#[test]
fn every_path_of_the_table_is_read_as_it_says() {
    let mut wrong = Vec::new();
    for row in rows() {
        let place = Place::of_path(row.path.as_bytes());
        for ((field, wanted), found) in told(&row).into_iter().zip(read(&place)) {
            if found != wanted {
                let told = format!("{field}: {found:?}, the table says {wanted:?}");
                wrong.push(format!("{told}\n  {}\n  {} ({})", row.path, row.host, row.source));
            }
        }
        assert_eq!(place, Place::of([row.path.as_bytes()]), "{}", row.path);
        let is_inner = row.container.is_some() || row.pod_uid.is_some();
        assert_eq!(place.inner_owner_uid, row.owner_uid.filter(|_| is_inner), "{}", row.path);
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn ids_of_containers_pods_and_jobs_are_no_secrets() {
    for row in rows() {
        let path = String::from_utf8_lossy(&without_secrets(row.path.as_bytes())).into_owned();
        assert_eq!(path, row.path, "{}", row.host);
    }
}

/// A secret may stand in any part of any of them: nothing else changes, and what is read is the same but for it.
#[test]
fn a_secret_in_any_part_is_left_out_and_nothing_else() {
    const SECRET: &str = "hf_QQcdefghijKLMNOPQRSTuvwxyz01234567";
    for row in rows() {
        let places: Vec<usize> = row.path.match_indices('/').map(|(at, _)| at + 1).collect();
        for at in places {
            let with = |word: &str| format!("{}{word}-{}", &row.path[..at], &row.path[at..]);
            let (told, wanted) = (with(SECRET), with("[redacted]"));
            let safe = without_secrets(told.as_bytes()).into_owned();
            assert_eq!(String::from_utf8_lossy(&safe), wanted, "{told}");
            assert_eq!(without_secrets(&safe), safe, "{wanted}");
            // A name of as many letters, which is no secret.
            let place = Place::of_path(with("name").as_bytes());
            let named = format!("{:?}", Place::of_path(&safe)).replace("[redacted]", "name");
            assert_eq!(named, format!("{place:?}"), "{wanted}");
        }
    }
}

#[test]
fn a_unit_whose_name_is_a_secret_is_still_that_unit() {
    for (told, unit) in [
        ("hf_QQcdefghijKLMNOPQRSTuvwxyz01234567.service", "[redacted].service"),
        ("glpat-QQcdefghijKLMNOPQRST.service", "[redacted].service"),
        ("x-hf_QQcdefghijKLMNOPQRSTuvwxyz01234567.service", "x-[redacted].service"),
        (
            r"w@sk\x2dant\x2dapi03\x2dQQcdefghijKLMNOPQRSTuvwxyz01234567.service",
            "w@[redacted].service",
        ),
        ("w@hf_QQcdefghijKLMNOPQRSTuvwxyz01234567.service", "w@[redacted].service"),
    ] {
        let safe = without_secrets(format!("/system.slice/{told}").as_bytes()).into_owned();
        assert_eq!(String::from_utf8_lossy(&safe), format!("/system.slice/{unit}"), "{told}");
        assert_eq!(Place::of_path(&safe).unit.as_deref(), Some(unit), "{told}");
        assert!(Place::of_path(&safe).service().is_some(), "{told}");
    }
}

#[test]
fn the_table_is_as_wide_as_it_is_meant_to_be() {
    let rows = rows();
    assert!(rows.len() >= 200, "{} rows", rows.len());
    let paths: BTreeSet<_> = rows.iter().map(|row| &row.path).collect();
    assert_eq!(paths.len(), rows.len(), "a path stands there twice");
    let nothing = rows.iter().filter(|row| row.none);
    for row in nothing.clone() {
        let named = [&row.service, &row.container, &row.pod_uid, &row.scheduler, &row.job];
        assert!(named.iter().all(|name| name.is_none()), "none, and yet something: {}", row.path);
    }
    assert!(nothing.count() >= 20);
    let has = |of: fn(&Row) -> &Option<String>, word: &str| {
        rows.iter().any(|row| of(row).as_deref() == Some(word))
    };
    for runtime in Runtime::ALL {
        assert!(has(|row| &row.runtime, runtime.as_str()), "no row of {runtime:?}");
    }
    for scheduler in Scheduler::ALL {
        assert!(has(|row| &row.scheduler, scheduler.as_str()), "no row of {scheduler:?}");
    }
    for qos in [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort] {
        assert!(has(|row| &row.qos, qos.as_str()), "no row of {qos:?}");
    }
}
