//! Where a daemon and its journal are: from the command line, or as configured.
//!
//! Each command takes the options that mean something to it; another is refused, and not passed over.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Config, ConfigError};

/// The configuration file that names what the command line does not.
#[derive(Args, Clone, Debug)]
pub(super) struct ConfigPlace {
    /// Configuration file that names the places (default: /etc/gpu-ledger/config.toml)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigPlace {
    /// What was typed, else what the file says. A file that was named is read in any case: one that is wrong is
    /// no less wrong for being beside other options.
    fn or<T>(
        &self,
        typed: Option<&T>,
        configured: impl FnOnce(Config) -> T,
    ) -> Result<T, ConfigError>
    where
        T: Clone,
    {
        match typed {
            Some(typed) if self.config.is_none() => Ok(typed.clone()),
            _ => {
                let config = Config::read_or_default(self.config.as_deref())?;
                Ok(typed.cloned().unwrap_or_else(|| configured(config)))
            }
        }
    }
}

/// Of what is asked of a daemon.
#[derive(Args, Clone, Debug)]
pub(super) struct SocketPlace {
    #[command(flatten)]
    file: ConfigPlace,
    /// The daemon's socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl SocketPlace {
    pub(super) fn socket(&self) -> Result<PathBuf, ConfigError> {
        self.file.or(self.socket.as_ref(), |config| config.socket.path)
    }
}

/// Of what reads or writes a journal's files.
#[derive(Args, Clone, Debug)]
pub(super) struct JournalPlace {
    #[command(flatten)]
    file: ConfigPlace,
    /// The journal's folder
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl JournalPlace {
    pub(super) fn state_dir(&self) -> Result<PathBuf, ConfigError> {
        self.file.or(self.state_dir.as_ref(), |config| config.state_dir)
    }

    /// The file that checkpoints are kept in, of the journal that is configured; `None` of one that was named beside it.
    pub(super) fn checkpoint_file(&self) -> Result<Option<PathBuf>, ConfigError> {
        if self.state_dir.is_some() && self.file.config.is_none() {
            return Ok(None);
        }
        let config = Config::read_or_default(self.file.config.as_deref())?;
        Ok(config.audit.checkpoint_file)
    }

    /// The file of prices: from the command line, else as configured; `None` where neither names one.
    pub(super) fn prices(&self, typed: Option<&PathBuf>) -> Result<Option<PathBuf>, ConfigError> {
        self.file.or(typed.map(|typed| Some(typed.clone())).as_ref(), |config| config.prices)
    }
}

/// Of what does the one or the other.
#[derive(Args, Clone, Debug)]
pub(super) struct Place {
    #[command(flatten)]
    file: ConfigPlace,
    /// The daemon's socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The journal's folder
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl Place {
    pub(super) fn socket(&self) -> Result<PathBuf, ConfigError> {
        self.file.or(self.socket.as_ref(), |config| config.socket.path)
    }

    /// Whether the command line names the socket.
    pub(super) const fn names_socket(&self) -> bool {
        self.socket.is_some()
    }

    /// Whether it names the journal's folder.
    pub(super) const fn names_state_dir(&self) -> bool {
        self.state_dir.is_some()
    }

    pub(super) fn state_dir(&self) -> Result<PathBuf, ConfigError> {
        self.file.or(self.state_dir.as_ref(), |config| config.state_dir)
    }

    /// The configured file of rules.
    pub(super) fn rules(&self) -> Result<Option<PathBuf>, ConfigError> {
        Config::read_or_default(self.file.config.as_deref()).map(|config| config.rules)
    }

    /// The file of prices: from the command line, else as configured; `None` where neither names one.
    pub(super) fn prices(&self, typed: Option<&PathBuf>) -> Result<Option<PathBuf>, ConfigError> {
        self.file.or(typed.map(|typed| Some(typed.clone())).as_ref(), |config| config.prices)
    }
}
