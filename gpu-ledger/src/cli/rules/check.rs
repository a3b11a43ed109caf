//! `gpu-ledger rules check`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::argv::CmdlineMode;
use crate::attribution::rules::{Fault, Shadowed};
use crate::cli::{STATUS_FAILED, STATUS_UNKNOWN, print};
use crate::config::{Config, RULES_DEFAULT, Rules, RulesError};
use crate::rendering::json;

const AFTER_HELP: &str = "Every fault stands on a line of its own, FILE:LINE:COLUMN: what is wrong. That a rule never matches is said \
where one earlier rule is certain to take everything that it would; several that do so together are not \
found. What hardly anything is called (a program's name with arguments, a shell's pattern, a user that this host does \
not have) is said too; where it is meant, { regex = '…' } says so.\n\
Exit status: 0 nothing is wrong, 1 it cannot be read or is no file of rules, 2 it is, but a rule in it never or hardly \
matches, or it would take too long to find out, 64 usage.";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Check {
    /// The file of rules (default: the configured one, else /etc/gpu-ledger/rules.toml)
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Configuration file that names it, and says how much of arguments is stored (default:
    /// /etc/gpu-ledger/config.toml)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One JSON object (format gpu-ledger-rules-check) instead of text
    #[arg(long)]
    json: bool,
}

/// What is said of a file.
#[derive(Serialize)]
struct Report {
    format: &'static str,
    version: u32,
    file: PathBuf,
    /// How many rules it has; null where it is no file of rules.
    rules: Option<usize>,
    /// Of its bytes, as it stands in settlements; null as above.
    sha256: Option<String>,
    faults: Vec<Fault>,
    faults_more: usize,
    /// There may be others: the file was not looked into any further.
    faults_cut: bool,
    shadowed: Vec<Shadowed>,
    shadowed_more: usize,
    /// Rules of which it was not found out whether they ever match.
    shadowed_unlooked: usize,
    /// What is hardly meant as it is written.
    doubts: Vec<Fault>,
    doubts_more: usize,
}

impl Check {
    pub(super) fn run(self) -> anyhow::Result<u8> {
        // A file by itself may be another machine's, of which nothing is known here.
        let is_alone = self.file.is_some() && self.config.is_none();
        let (configured, cmdline) = if is_alone {
            (None, CmdlineMode::Full)
        } else {
            let config = Config::read_or_default(self.config.as_deref())?;
            (config.rules, config.cmdline)
        };
        let is_typed = self.file.is_some();
        let file = self.file.or(configured).unwrap_or_else(|| PathBuf::from(RULES_DEFAULT));
        let mut report = Report {
            format: "gpu-ledger-rules-check",
            version: 1,
            file: file.clone(),
            rules: None,
            sha256: None,
            faults: Vec::new(),
            faults_more: 0,
            faults_cut: false,
            shadowed: Vec::new(),
            shadowed_more: 0,
            shadowed_unlooked: 0,
            doubts: Vec::new(),
            doubts_more: 0,
        };
        match Rules::read(&file).and_then(|rules| rules.fit(cmdline)) {
            Ok(rules) => {
                let shadows = rules.set.shadows();
                report.rules = Some(rules.set.len());
                report.sha256 = Some(rules.set.digest().to_string());
                report.shadowed_unlooked = shadows.unlooked;
                (report.shadowed, report.shadowed_more) = (shadows.shadowed, shadows.more);
                let doubts = rules.set.doubts(|user| is_alone || is_user(user));
                (report.doubts, report.doubts_more) = (doubts.doubts, doubts.more);
            }
            Err(RulesError::Wrong { faults, .. } | RulesError::NotStored { faults, .. }) => {
                report.faults_cut = faults.is_cut;
                (report.faults, report.faults_more) = (faults.faults, faults.more);
            }
            Err(error) => return Err(if is_typed { error } else { error.configured() }.into()),
        }
        print(&if self.json { json(&report)? } else { report.text()? })?;
        Ok(if report.rules.is_none() {
            STATUS_FAILED
        } else if report.shadowed.is_empty()
            && report.shadowed_unlooked == 0
            && report.doubts.is_empty()
        {
            0
        } else {
            STATUS_UNKNOWN
        })
    }
}

/// Whether this host knows the user; also where it cannot be found out.
fn is_user(name: &str) -> bool {
    !matches!(nix::unistd::User::from_name(name), Ok(None))
}

impl Report {
    fn text(&self) -> Result<String, std::fmt::Error> {
        let (mut page, file) = (String::new(), self.file.display());
        for fault in &self.faults {
            writeln!(page, "{file}:{fault}")?;
        }
        if self.faults_more > 0 {
            writeln!(page, "{file}: {} more faults", self.faults_more)?;
        }
        if self.faults_cut {
            writeln!(page, "{file}: what comes after them was not looked at; correct these first")?;
        }
        for one in &self.shadowed {
            let Shadowed { rule, line, by, by_line } = one;
            writeln!(
                page,
                "{file}:{line}: rule {} never matches: rule {} (line {by_line}) takes everything that it would; \
                 put it before that one, or leave it out",
                rule.0, by.0
            )?;
        }
        if self.shadowed_more > 0 {
            writeln!(page, "{file}: {} more rules never match", self.shadowed_more)?;
        }
        if self.shadowed_unlooked > 0 {
            writeln!(
                page,
                "{file}: of the last {} rules it is not known whether they ever match: there is too much to compare; a \
                 regex with some text in it that few others have is compared with those alone",
                self.shadowed_unlooked
            )?;
        }
        for doubt in &self.doubts {
            writeln!(page, "{file}:{doubt}")?;
        }
        if self.doubts_more > 0 {
            writeln!(page, "{file}: {} more of the kind", self.doubts_more)?;
        }
        if let (Some(rules), Some(sha256)) = (self.rules, &self.sha256) {
            writeln!(page, "{file}: {rules} rules, sha256 {sha256}")?;
        }
        Ok(page)
    }
}
