//! Where a daemon and its journal are: from the command line, or as configured.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Config, ConfigError};

#[derive(Args, Clone, Debug)]
pub(super) struct Place {
    /// Configuration file that names the places (default: /etc/gpu-ledger/config.toml)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The daemon's socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The journal's folder
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl Place {
    pub(super) fn socket(&self) -> Result<PathBuf, ConfigError> {
        match &self.socket {
            Some(path) => Ok(path.clone()),
            None => Ok(Config::read_or_default(self.config.as_deref())?.socket.path),
        }
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
        match &self.state_dir {
            Some(path) => Ok(path.clone()),
            None => Ok(Config::read_or_default(self.config.as_deref())?.state_dir),
        }
    }
}
