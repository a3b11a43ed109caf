//! `gpu-ledger bill close`.

use std::path::PathBuf;

use clap::Args;

use super::{prices, zone};
use crate::bill::period::Asked;
use crate::bill::{By, SharePolicy};
use crate::billing::{CloseOptions, close};
use crate::clock::Clock;
use crate::journal::store::StateDir;

use super::super::place::Place;

const AFTER_HELP: &str = "PERIOD is a day, month or year that is over (yesterday, 2026-10-31, 2026-10, 2026). Its bill \
is made in every form, with its prices, kept in files/ beside the journal, and entered: through the daemon where one runs \
(as root, or as the daemon's user), else by whoever the journal belongs to. What was not seen, or is unknown, is closed as such. A period that is closed \
already is told, and stays as it is; one that has time of a closed one is refused.\n\
Exit status: 0 closed, or it was, 1 failed, or the journal does not speak up to its end yet, 64 usage: it is not over, \
or is closed with other options.";

/// What is closed.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Close {
    /// The period
    #[arg(value_name = "PERIOD", required_unless_present = "since", conflicts_with_all = ["since", "until"])]
    period: Option<String>,
    /// The period's first moment, of one that is no day, month or year
    #[arg(long, value_name = "MOMENT", requires = "until")]
    since: Option<String>,
    /// The first moment after it
    #[arg(long, value_name = "MOMENT", requires = "since")]
    until: Option<String>,
    /// What a line stands for
    #[arg(long, value_name = "WHAT", default_value = "account")]
    by: By,
    /// How shared time is divided between accounts: none, equal, busy or memory
    #[arg(long, value_name = "POLICY", default_value = "none")]
    share: SharePolicy,
    /// What hours cost (default: the configured file, else /etc/gpu-ledger/prices.toml where it exists); the file is
    /// kept with the bill
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Days and months of UTC instead of those of TZ or of the system's time zone
    #[arg(long)]
    utc: bool,
    #[command(flatten)]
    place: Place,
}

impl Close {
    pub(super) fn run(self, clock: Clock) -> anyhow::Result<u8> {
        close(&CloseOptions {
            asked: Asked { since: self.since, until: self.until, period: self.period },
            by: self.by,
            share: self.share,
            prices: prices(&self.place, self.prices.as_ref())?,
            zone: zone(self.utc)?,
            clock,
            dir: StateDir::at(self.place.state_dir()?),
            socket: self.place.socket()?,
        })
    }
}
