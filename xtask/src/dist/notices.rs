//! What the licences of linked crates want handed out with the program: their texts, each once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use super::{names, read, sbom};

/// Beginnings of the names of files with such texts.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "copyright"];

/// All texts, each after the names of the crates that it is of.
pub(super) fn make(root: &Path, metadata: &Value) -> anyhow::Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut without = String::new();
    for package in sbom::linked(metadata)?.packages.values() {
        let text = |name: &str| package[name].as_str().with_context(|| format!("no {name}"));
        let named = format!("{} {}", text("name")?, text("version")?);
        let folder = Path::new(text("manifest_path")?).parent().context("in no folder")?;
        let mut found = false;
        for file in names(folder)? {
            let lower = file.to_lowercase();
            let path = folder.join(&file);
            if NAMES.iter().any(|name| lower.starts_with(name)) && path.is_file() {
                let notice = read(&path)?.replace("\r\n", "\n");
                texts.entry(notice.trim().to_owned()).or_default().push(named.clone());
                found = true;
            }
        }
        if !found && !package["source"].is_null() {
            writeln!(without, "{named}: {}", text("license")?)?;
        }
    }
    let font = read(&root.join("gpu-ledger/src/residency/plot/assets/OFL.txt"))?;
    texts.entry(font.trim().to_owned()).or_default().push("Noto Sans, embedded".to_owned());
    let mut all = String::from("What gpu-ledger is linked with, and the texts of its licences.\n");
    let mut sorted: Vec<_> = texts.into_iter().map(|(text, of)| (of, text)).collect();
    sorted.sort();
    for (of, text) in sorted {
        write!(all, "\n{}\n{}\n\n{text}\n", "=".repeat(78), of.join(", "))?;
    }
    write!(
        all,
        "\n{}\nCrates without such a file, and the licence that each names:\n",
        "=".repeat(78)
    )?;
    all.push_str(&without);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_linked_crate_is_named_with_a_text_or_a_licence() {
        let root = super::super::root().unwrap();
        let metadata = crate::cargo::metadata(super::super::TARGET).unwrap();
        let made = make(&root, &metadata).unwrap();
        for package in sbom::linked(&metadata).unwrap().packages.values() {
            let (name, version) = (package["name"].as_str(), package["version"].as_str());
            let named = format!("{} {}", name.unwrap(), version.unwrap());
            let is_own = package["source"].is_null();
            assert!(is_own || made.contains(&named), "{named}");
        }
        assert!(made.contains("SIL OPEN FONT LICENSE") || made.contains("SIL Open Font License"));
    }
}
