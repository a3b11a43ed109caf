//! What is linked in, as CycloneDX 1.6 JSON, from cargo's own metadata and the committed lock file.
//!
//! No further program is asked: cargo knows the graph, the lock file the checksums, and there is one target and one set
//! of features. The same tree makes the same bytes, so it has no serial number.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::read;
use super::tool::{told, tool};

/// The list of a program of this version.
pub(super) fn make(
    root: &Path,
    metadata: &Value,
    version: &str,
    epoch: &str,
) -> anyhow::Result<String> {
    let linked = linked(metadata)?;
    let checksums = checksums(&read(&root.join("Cargo.lock"))?);
    let at = format!("@{epoch}");
    let made = told(tool("date").args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date", &at]))?;
    let mut components = Vec::new();
    for package in linked.packages.values() {
        let (name, number) = (text(package, "name")?, text(package, "version")?);
        if name == "gpu-ledger" {
            continue;
        }
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(package)?,
            "name": name,
            "version": number,
            "purl": format!("pkg:cargo/{name}@{number}"),
            "licenses": [{"expression": text(package, "license")?.replace('/', " OR ")}],
        });
        let sum = checksums.get(&(name.to_owned(), number.to_owned()));
        ensure!(sum.is_some() || package["source"].is_null(), "Cargo.lock has no sum of {name}");
        if let Some(sum) = sum {
            put(&mut component, "hashes", json!([{"alg": "SHA-256", "content": sum}]));
        }
        if name == "libsqlite3-sys" {
            put(&mut component, "components", json!([sqlite(package)?]));
        }
        components.push(component);
    }
    let mut dependencies = Vec::new();
    for (id, below) in &linked.needs {
        let mut refs = Vec::new();
        for id in below {
            refs.push(reference(linked.packages.get(id).context("an edge to nothing")?)?);
        }
        refs.sort();
        let of = reference(linked.packages.get(id).context("an edge from nothing")?)?;
        dependencies.push(json!({"ref": of, "dependsOn": refs}));
    }
    let bom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": made.trim(),
            "component": {
                "type": "application",
                "bom-ref": format!("pkg:cargo/gpu-ledger@{version}"),
                "name": "gpu-ledger",
                "version": version,
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&bom)?))
}

/// The packages that reach the program: not those of tests, not what runs in builds alone.
pub(super) struct Linked<'a> {
    /// By cargo's id, which sorts by name.
    pub(super) packages: BTreeMap<&'a str, &'a Value>,
    needs: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

/// Follows the graph from the program by its normal edges, and stops at macros, which run in builds.
pub(super) fn linked(metadata: &Value) -> anyhow::Result<Linked<'_>> {
    let list = |value: &'static str, of: &Value| -> anyhow::Result<Vec<Value>> {
        Ok(of.get(value).and_then(Value::as_array).with_context(|| format!("no {value}"))?.clone())
    };
    let packages = metadata.get("packages").and_then(Value::as_array).context("no packages")?;
    let nodes = metadata
        .pointer("/resolve/nodes")
        .and_then(Value::as_array)
        .context("cargo resolved nothing")?;
    let mut by_id = BTreeMap::new();
    for package in packages {
        by_id.insert(text(package, "id")?, package);
    }
    let mut edges = BTreeMap::new();
    for node in nodes {
        edges.insert(text(node, "id")?, node);
    }
    let own = packages.iter().find(|package| package["name"] == "gpu-ledger");
    let own = text(own.context("no gpu-ledger among cargo's packages")?, "id")?;
    let mut linked = Linked { packages: BTreeMap::new(), needs: BTreeMap::new() };
    let mut next = vec![own];
    while let Some(id) = next.pop() {
        let package = by_id.get(id).copied().with_context(|| format!("no package {id}"))?;
        if linked.packages.insert(id, package).is_some() {
            continue;
        }
        let node = edges.get(id).with_context(|| format!("no edges of {id}"))?;
        let below = linked.needs.entry(id).or_default();
        for edge in node["deps"].as_array().context("a node without deps")? {
            if !list("dep_kinds", edge)?.iter().any(|kind| kind["kind"].is_null()) {
                continue;
            }
            let to = text(edge, "pkg")?;
            let target = by_id.get(to).with_context(|| format!("no package {to}"))?;
            let is_macro = list("targets", target)?.iter().any(|target| {
                target["kind"].as_array().is_some_and(|kinds| kinds.contains(&json!("proc-macro")))
            });
            if !is_macro {
                below.insert(to);
                next.push(to);
            }
        }
    }
    Ok(linked)
}

fn put(component: &mut Value, name: &str, value: Value) {
    if let Some(component) = component.as_object_mut() {
        component.insert(name.to_owned(), value);
    }
}

fn text<'a>(of: &'a Value, name: &str) -> anyhow::Result<&'a str> {
    of.get(name)
        .and_then(Value::as_str)
        .with_context(|| format!("cargo says no {name} of {of:.80}"))
}

fn reference(package: &Value) -> anyhow::Result<String> {
    Ok(format!("pkg:cargo/{}@{}", text(package, "name")?, text(package, "version")?))
}

/// The sums of the lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let mut lines = block.lines();
        let found = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        found.map(|text| text.trim_matches('"').to_owned())
    };
    let of = |block: &str| {
        Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

/// The C library that its crate has inside.
fn sqlite(package: &Value) -> anyhow::Result<Value> {
    let folder =
        Path::new(text(package, "manifest_path")?).parent().context("a crate in no folder")?;
    let header = read(&folder.join("sqlite3/sqlite3.h"))?;
    let version = header.lines().find_map(|line| line.strip_prefix("#define SQLITE_VERSION "));
    let version = version.context("sqlite3.h says no version")?.trim().trim_matches('"');
    Ok(json!({
        "type": "library",
        "bom-ref": format!("pkg:generic/sqlite@{version}"),
        "name": "sqlite",
        "version": version,
        "purl": format!("pkg:generic/sqlite@{version}"),
        "licenses": [{"license": {"id": "blessing"}}],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_with_its_sum_and_what_only_tests_need_is_not() {
        let metadata = crate::cargo::metadata(super::super::TARGET).unwrap();
        let root = super::super::root().unwrap();
        let made = make(&root, &metadata, "0.1.0", "1796126400").unwrap();
        assert_eq!(make(&root, &metadata, "0.1.0", "1796126400").unwrap(), made);
        let bom: Value = serde_json::from_str(&made).unwrap();
        let components = bom["components"].as_array().unwrap();
        let named = |name: &str| components.iter().find(|component| component["name"] == name);
        for linked in ["aya", "rusqlite", "nvml-wrapper", "libc", "gpu-ledger-ebpf"] {
            assert!(named(linked).is_some(), "{linked}");
        }
        for beside in ["proptest", "insta", "nvsim", "clap_mangen", "serde_derive", "cc", "xtask"] {
            assert!(named(beside).is_none(), "{beside}");
        }
        assert_eq!(named("aya").unwrap()["hashes"][0]["content"].as_str().unwrap().len(), 64);
        let sqlite = &named("libsqlite3-sys").unwrap()["components"][0];
        assert!(sqlite["version"].as_str().unwrap().starts_with("3."), "{sqlite}");
        // Every edge leads to something that is listed.
        let refs: BTreeSet<&str> =
            components.iter().map(|one| one["bom-ref"].as_str().unwrap()).collect();
        assert_eq!(refs.len(), components.len());
        for edges in bom["dependencies"].as_array().unwrap() {
            for to in edges["dependsOn"].as_array().unwrap() {
                assert!(refs.contains(to.as_str().unwrap()), "{to}");
            }
        }
    }
}
