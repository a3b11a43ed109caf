//! The `unsafe` task and its test: UNSAFE.md lists every file with `unsafe` in it, how often, and why.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

const LIST: &str = "UNSAFE.md";
/// In the place of a reason that nobody has given yet; the test refuses it.
const NO_REASON: &str = "?";

/// Counts anew, and keeps the reasons.
pub(crate) fn run() -> anyhow::Result<()> {
    let path = root()?.join(LIST);
    let text = std::fs::read_to_string(&path).context(LIST)?;
    let listed = listed(&text);
    let head = text.lines().take_while(|line| !line.starts_with("| `"));
    let mut fresh: String = head.flat_map(|line| [line, "\n"]).collect();
    for (file, count) in found()? {
        let reason = listed.get(&file).map_or(NO_REASON, |(_, reason)| reason);
        writeln!(fresh, "| `{file}` | {count} | {reason} |")?;
    }
    std::fs::write(&path, fresh).context(LIST)
}

/// Counts and reasons by the list.
fn listed(text: &str) -> BTreeMap<String, (usize, String)> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.strip_suffix(" |")?.splitn(3, " | ");
        let file = cells.next()?.strip_suffix('`')?.to_owned();
        Some((file, (cells.next()?.parse().ok()?, cells.next()?.to_owned())))
    };
    text.lines().filter_map(row).collect()
}

/// Counts of the source, by file.
fn found() -> anyhow::Result<BTreeMap<String, usize>> {
    let root = root()?;
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_symlink() || name.starts_with('.') || name == "target" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let count = count(&std::fs::read_to_string(&path)?);
                let file = path.strip_prefix(&root)?.to_string_lossy().into_owned();
                if count > 0 {
                    found.insert(file, count);
                }
            }
        }
    }
    ensure!(!found.is_empty(), "no source below {}", root.display());
    Ok(found)
}

fn root() -> anyhow::Result<PathBuf> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    Ok(root.canonicalize()?)
}

/// How often the word stands in code: not in comments, texts or longer names.
fn count(source: &str) -> usize {
    let code = code(source);
    let is_name = |byte: char| byte.is_alphanumeric() || byte == '_';
    code.split(|byte: char| !is_name(byte)).filter(|word| *word == "unsafe").count()
}

/// Source without comments and texts, each of which becomes a blank.
fn code(source: &str) -> String {
    let mut rest = source;
    let mut code = String::with_capacity(source.len());
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            comment(rest)
        } else if first == '"' {
            quoted(rest)
        } else if first == 'r' && !ends_in_name(&code) {
            raw(rest)
        } else if first == '\'' {
            character(rest)
        } else {
            0
        };
        let (taken, next) = if skipped == 0 { (true, first.len_utf8()) } else { (false, skipped) };
        code.push(if taken { first } else { ' ' });
        rest = rest.get(next..).unwrap_or_default();
    }
    code
}

fn ends_in_name(code: &str) -> bool {
    // `br"…"` is a raw text as well.
    let mut last = code.chars().rev();
    match last.next() {
        Some('b') => last.next().is_some_and(|before| before.is_alphanumeric() || before == '_'),
        Some(before) => before.is_alphanumeric() || before == '_',
        None => false,
    }
}

/// The length of a comment that may hold others.
fn comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth = depth.saturating_sub(1);
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of a text that begins here.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, one) in text.char_indices().skip(1) {
        match one {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a raw text that begins here; 0 where none does.
fn raw(text: &str) -> usize {
    let hashes = text.chars().skip(1).take_while(|one| *one == '#').count();
    let Some(inside) = text.get(hashes + 1..).and_then(|rest| rest.strip_prefix('"')) else {
        return 0;
    };
    let end = format!("\"{}", "#".repeat(hashes));
    inside.find(&end).map_or(text.len(), |at| hashes + 2 + at + end.len())
}

/// The length of a character that begins here; 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            chars.next();
            chars.find(|(_, one)| *one == '\'').map_or(0, |(at, _)| at + 1)
        }
        Some(_) => chars.next().filter(|(_, one)| *one == '\'').map_or(0, |(at, _)| at + 1),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unsafe_is_listed_with_its_reason_and_nothing_that_is_gone() {
        let text = std::fs::read_to_string(root().unwrap().join(LIST)).unwrap();
        let listed = listed(&text);
        let counts: BTreeMap<String, usize> =
            listed.iter().map(|(file, (count, _))| (file.clone(), *count)).collect();
        let found = found().unwrap();
        assert_eq!(counts, found, "run `cargo xtask unsafe` and say in {LIST} why it is needed");
        for (file, (_, reason)) in listed {
            assert!(reason.len() > 20, "{LIST} does not say why {file} needs it");
        }
    }

    #[test]
    fn the_word_counts_in_code_alone() {
        let source = r##"
            // unsafe
            /* unsafe /* unsafe */ unsafe */
            fn a<'a>(b: &'a str) { unsafe { c("unsafe \" unsafe", 'u', '"', '\'', '\u{1}') } }
            unsafe extern "C" fn d() { r#"unsafe " unsafe"#; br"unsafe"; unsafe_code(); }
            #[unsafe(no_mangle)] fn r() {}
        "##;
        assert_eq!(count(source), 3, "{}", code(source));
        assert_eq!(count("let r = 1; for r in unsafe { x } {}"), 1);
    }
}
