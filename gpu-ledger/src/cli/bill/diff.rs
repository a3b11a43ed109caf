//! `gpu-ledger bill diff`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::super::place::Place;
use super::super::source::with_source;
use super::{prices, zone};
use crate::bill::period::Asked;
use crate::bill::{By, SharePolicy};
use crate::billing::{DiffOptions, diff};
use crate::clock::Clock;

const AFTER_HELP: &str = "A and B are each a file that --format json wrote, the id of a closed period's bill, the number \
of the journal's last entry then (of other than four digits), or a moment: 2026-11-03, 24h, now. Of two versions of the journal the period is \
--period, else that of the other bill. Which entries made the bills differ is told where the journal can be read \
that both are of.\n\
Exit status: 0 compared, whether they differ or not, 1 failed, 2 compared, and which entries made them differ is \
UNKNOWN, 64 usage.";

/// What is compared.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Diff {
    /// The one bill
    #[arg(value_name = "A")]
    a: String,
    /// The other
    #[arg(value_name = "B")]
    b: String,
    /// The period's first moment
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    since: Option<String>,
    /// The first moment after it
    #[arg(long, value_name = "MOMENT", allow_hyphen_values = true)]
    until: Option<String>,
    /// The whole of a day, month or year
    #[arg(long, value_name = "WHOLE", allow_hyphen_values = true)]
    period: Option<String>,
    /// What a line stands for (default: as on the other bill, else account)
    #[arg(long, value_name = "WHAT")]
    by: Option<By>,
    /// How shared time is divided (default: as on the other bill, else none)
    #[arg(long, value_name = "POLICY")]
    share: Option<SharePolicy>,
    /// What hours cost (default: as a closed period was, else the configured file)
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// One JSON object instead of words
    #[arg(long)]
    json: bool,
    /// Days and months of UTC instead of those of TZ or of the system's time zone
    #[arg(long)]
    utc: bool,
    #[command(flatten)]
    place: Place,
}

impl Diff {
    pub(super) fn run(self, clock: Clock) -> anyhow::Result<u8> {
        let options = DiffOptions {
            prices: prices(&self.place, self.prices.as_ref())?,
            zone: zone(self.utc)?,
            asked: Asked { since: self.since, until: self.until, period: self.period },
            bills: [self.a, self.b],
            by: self.by,
            share: self.share,
            is_json: self.json,
            clock,
        };
        let mut is_opened = false;
        let compared = with_source(&self.place, "bill diff", |source| {
            is_opened = true;
            diff(&options, Ok(source))
        });
        match compared {
            // Files need no journal, and say so where they would.
            Err(error)
                if !is_opened && options.bills.iter().all(|one| Path::new(one).is_file()) =>
            {
                diff(&options, Err(format!("{error:#}")))
            }
            compared => compared,
        }
    }
}
