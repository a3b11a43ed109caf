//! The file of rules: where it lies, and that it is right as a whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::file::read_bounded;
use crate::argv::CmdlineMode;
use crate::attribution::rules::{FILE_BYTES_MAX, Faults, RuleSet};

/// Where the rules lie unless the configuration names another file.
pub const RULES_DEFAULT: &str = "/etc/gpu-ledger/rules.toml";

/// The rules in force, and where they are from.
#[derive(Clone, Default, Debug)]
pub struct Rules {
    /// Their file; `None` where there is none, and so no rule.
    pub path: Option<PathBuf>,
    /// The rules.
    pub set: Arc<RuleSet>,
    /// The file's bytes, for whoever has to keep them.
    pub bytes: Bytes,
}

/// Why a file is no file of rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// It cannot be read.
    #[error("{path}: {cause}; {who}", path = path.display(), who = who(*.is_configured))]
    Read {
        /// The file.
        path: PathBuf,
        /// The configuration names it, or it is the default one; else it was typed.
        is_configured: bool,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Something is wrong with it.
    #[error("{path}:{faults}", path = path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What.
        faults: Faults,
    },
    /// It looks at what is not stored.
    #[error("{path}:{faults}", path = path.display())]
    NotStored {
        /// The file.
        path: PathBuf,
        /// Where.
        faults: Faults,
    },
}

fn who(is_configured: bool) -> &'static str {
    if is_configured {
        "it is what `rules` in the configuration names, or the default; put a file of rules there, or name another one"
    } else {
        "it was named on the command line; name a file of rules that is there"
    }
}

impl RulesError {
    /// The same, of the file that is configured.
    #[must_use]
    pub fn configured(self) -> Self {
        match self {
            Self::Read { path, cause, .. } => Self::Read { path, is_configured: true, cause },
            other => other,
        }
    }
}

impl Rules {
    /// The rules in a file.
    ///
    /// # Errors
    /// It cannot be read, or something is wrong with it.
    pub fn read(path: &Path) -> Result<Self, RulesError> {
        // A little more than it may have: what is too large is refused with its line.
        let bytes_max = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(8);
        let bytes = read_bounded(path, bytes_max);
        let is_configured = false;
        let bytes = bytes.map_err(|cause| {
            let path = path.to_path_buf();
            RulesError::Read { path, is_configured, cause }
        })?;
        let set = RuleSet::parse(&bytes);
        let set = set.map_err(|faults| RulesError::Wrong { path: path.to_path_buf(), faults })?;
        let (path, set) = (Some(path.to_path_buf()), Arc::new(set));
        Ok(Self { path, set, bytes: bytes.into() })
    }

    /// The same; without `path`, the default file where it exists and no rules where it does not.
    ///
    /// # Errors
    /// As above; of a missing file only where it was named.
    pub fn read_or_default(path: Option<&Path>) -> Result<Self, RulesError> {
        match path {
            Some(path) => Self::read(path).map_err(RulesError::configured),
            None => match Self::read(Path::new(RULES_DEFAULT)) {
                Err(RulesError::Read { cause, .. })
                    if cause.kind() == std::io::ErrorKind::NotFound =>
                {
                    Ok(Self::default())
                }
                read => read.map_err(RulesError::configured),
            },
        }
    }

    /// Refuses rules that look at arguments, where this mode stores none.
    ///
    /// # Errors
    /// Every such condition.
    pub fn fit(self, mode: CmdlineMode) -> Result<Self, RulesError> {
        let path = || self.path.clone().unwrap_or_default();
        match self.set.fits(mode) {
            Ok(()) => Ok(self),
            Err(faults) => Err(RulesError::NotStored { path: path(), faults }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_an_error_where_it_was_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("rules.toml");
        let error = Rules::read_or_default(Some(&missing)).unwrap_err().to_string();
        let named = "it is what `rules` in the configuration names";
        assert!(error.contains("rules.toml: No such file") && error.contains(named), "{error}");
        let error = Rules::read(&missing).unwrap_err().to_string();
        assert!(error.contains("rules.toml: No such file"), "{error}");
        assert!(error.contains("named on the command line") && !error.contains(named), "{error}");
    }

    #[test]
    fn an_error_names_the_file_the_line_and_the_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.toml");
        std::fs::write(&path, "[[rule]]\naccount = \"a\"\nargv = \"x\"\n").unwrap();
        let rules = Rules::read(&path).unwrap();
        assert_eq!((rules.set.len(), rules.path.as_deref()), (1, Some(&*path)));
        for mode in [CmdlineMode::None, CmdlineMode::Exe] {
            let error = rules.clone().fit(mode).unwrap_err().to_string();
            assert!(error.contains("rules.toml:3:1: rule 1 looks at `argv`"), "{error}");
        }
        assert!(rules.clone().fit(CmdlineMode::Redacted).is_ok());
        // A model is read off the arguments, and every condition that can never hold is told of.
        let text =
            "[[rule]]\naccount = \"a\"\nmodel = \"m\"\n\n[[rule]]\naccount = \"b\"\nargv = \"x\"\n";
        std::fs::write(&path, text).unwrap();
        let error = Rules::read(&path).unwrap().fit(CmdlineMode::None).unwrap_err().to_string();
        assert!(error.contains("rules.toml:3:1: rule 1 looks at `model`"), "{error}");
        assert!(error.ends_with("(and 1 more: gpu-ledger rules check)"), "{error}");
        std::fs::write(&path, "[[rule]]\naccount = \"a\"\nexe = \"/x\"\n").unwrap();
        let of_file = Rules::read(&path).unwrap();
        let error = of_file.clone().fit(CmdlineMode::None).unwrap_err().to_string();
        assert!(
            error.contains("rules.toml:3:1: rule 1 looks at `exe`")
                && error.contains("no file names; look at program"),
            "{error}"
        );
        assert!(of_file.fit(CmdlineMode::Exe).is_ok());
        std::fs::write(&path, "[[rule]]\naccount = \"a\"\nexe = { regex = '(' }\n").unwrap();
        let error = Rules::read(&path).unwrap_err().to_string();
        assert!(error.contains("rules.toml:3:18: `exe`: bad regular expression"), "{error}");
    }

    #[test]
    fn what_has_no_end_is_refused_with_its_line() {
        let error = Rules::read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.starts_with("/dev/zero:1:1: a line of 83886"), "{error}");
        // Cut in the middle of a character.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.toml");
        std::fs::write(&path, "# ää€\n".repeat(1 << 20)).unwrap();
        let error = Rules::read(&path).unwrap_err().to_string();
        assert!(error.contains("larger than 8388608 bytes, which are used up here"), "{error}");
    }
}
