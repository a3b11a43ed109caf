//! What the daemon is asked to do.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::config::{Config, ConfigError};

/// What the daemon is asked to do.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The configuration file; the default one, where there is one, if none is named.
    pub config: Option<PathBuf>,
    /// Goes before what the file says, as all that follow.
    pub state_dir: Option<PathBuf>,
    /// Where readers ask.
    pub socket: Option<PathBuf>,
    /// The NVML library.
    pub nvml_library: Option<PathBuf>,
    /// The clocks.
    pub clock: Clock,
    /// Changes what is logged.
    pub log: LogFilter,
    /// `NOTIFY_SOCKET` of the environment.
    pub notify_socket: Option<OsString>,
    /// `WATCHDOG_USEC` of the environment.
    pub watchdog: Option<Duration>,
}

/// Changes what is logged, to a filter as `tracing_subscriber::EnvFilter` reads it.
#[derive(Clone)]
pub struct LogFilter(Arc<Change>);

type Change = dyn Fn(&str) -> Result<(), String> + Send + Sync;

impl LogFilter {
    /// Done by this.
    pub fn new(change: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(change))
    }

    pub(super) fn change(&self, filter: &str) {
        if let Err(error) = (self.0)(filter) {
            tracing::error!(filter, "what is logged stays as it was: {error}");
        }
    }
}

impl fmt::Debug for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogFilter(..)")
    }
}

impl DaemonOptions {
    /// The file's values, with those of the command line before them.
    pub(super) fn config(&self) -> Result<Config, ConfigError> {
        let mut config = Config::read_or_default(self.config.as_deref())?;
        if let Some(state_dir) = &self.state_dir {
            config.state_dir.clone_from(state_dir);
        }
        if let Some(socket) = &self.socket {
            config.socket.path.clone_from(socket);
        }
        if self.nvml_library.is_some() {
            config.nvml_library.clone_from(&self.nvml_library);
        }
        Ok(config)
    }
}
