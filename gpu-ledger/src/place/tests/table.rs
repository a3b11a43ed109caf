//! Every row of the table of paths.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::place::{Place, Qos, Runtime, Scheduler};

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
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
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
