//! What lies in a batch's folder: the files that a batch holds, and nothing else.

use std::collections::BTreeSet;
use std::path::Path;

use super::error::FilesError;
use super::{
    ITERATION_FILES, ITERATIONS, ITERATIONS_MAX, MANIFEST, MARKS, SUMMARY, SUMS, iteration_folder,
};

/// So many strange names are told, the first of them by their order: a folder may hold any number.
const STRANGE_MAX: usize = 32;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Windows, in the order of their numbers.
    pub(super) numbers: Vec<u64>,
    /// What is no file of a batch: its path within it, and why.
    pub(super) strange: Vec<(String, String)>,
    /// What a writer that was cut off left of a file.
    pub(super) partial: Vec<String>,
}

const UNLISTED: &str =
    "a batch holds no such file, and nothing proves it: move it out of the batch's folder";
const LINK: &str = "this is no folder of the batch itself; a batch holds its windows itself: put the folder there, \
     not a link to it";

impl Held {
    /// Looks through the folder, and follows no link in it.
    pub(super) fn of(batch: &Path) -> Result<Self, FilesError> {
        let mut held = Self::default();
        let files = [MANIFEST, MARKS, SUMMARY, SUMS];
        held.look(batch, "", &files, Some(ITERATIONS))?;
        let windows = batch.join(ITERATIONS);
        if !is_folder(&windows)? {
            held.strange.push((ITERATIONS.to_owned(), LINK.to_owned()));
            return Ok(held);
        }
        for name in names(&windows)? {
            let path = format!("{ITERATIONS}/{name}");
            let number: Option<u64> = name.parse().ok();
            let number = number.filter(|number| {
                (1..=ITERATIONS_MAX).contains(number) && iteration_folder(*number) == path
            });
            match number {
                Some(number) if is_folder(&windows.join(&name))? => {
                    held.numbers.push(number);
                    held.look(&windows.join(&name), &format!("{path}/"), &ITERATION_FILES, None)?;
                }
                Some(_) => held.strange(path, LINK),
                None => held.strange(path, UNLISTED),
            }
        }
        held.numbers.sort_unstable();
        Ok(held)
    }

    fn look(
        &mut self,
        folder: &Path,
        inner: &str,
        files: &[&str],
        inside: Option<&str>,
    ) -> Result<(), FilesError> {
        for name in names(folder)? {
            let is_partial = name.strip_suffix(".partial").is_some_and(|of| files.contains(&of));
            let path = format!("{inner}{name}");
            if is_partial {
                self.partial.push(path);
            } else if !files.contains(&name.as_str()) && inside != Some(name.as_str()) {
                self.strange(path, UNLISTED);
            }
        }
        Ok(())
    }

    fn strange(&mut self, path: String, why: &str) {
        if self.strange.len() < STRANGE_MAX {
            self.strange.push((path, why.to_owned()));
        }
    }
}

/// The names in a folder, in their order, up to more than a batch has.
fn names(folder: &Path) -> Result<BTreeSet<String>, FilesError> {
    let most = usize::try_from(ITERATIONS_MAX).unwrap_or(usize::MAX).saturating_add(STRANGE_MAX);
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).map_err(FilesError::io("read", folder))? {
        let entry = entry.map_err(FilesError::io("read", folder))?;
        names.insert(entry.file_name().to_string_lossy().into_owned());
        if names.len() > most {
            names.pop_last();
        }
    }
    Ok(names)
}

/// Whether it is a folder itself, and no link to one.
fn is_folder(path: &Path) -> Result<bool, FilesError> {
    let found = std::fs::symlink_metadata(path).map_err(FilesError::io("read", path))?;
    Ok(found.is_dir())
}
