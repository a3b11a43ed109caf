//! The price file, read.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

use crate::config::read_bounded;
use crate::prices::{FILE_BYTES_MAX, Fault, Faults, LINE_BYTES_MAX, PriceList, parse};

/// Where prices lie unless another file is named.
pub const PRICES_DEFAULT: &str = "/etc/gpu-ledger/prices.toml";

/// Where a bill finds its prices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PricesAt {
    /// There, as the command line says.
    Named(PathBuf),
    /// There, as the configuration says.
    Configured(PathBuf),
    /// In [`PRICES_DEFAULT`], where that exists.
    Default,
}

/// Why a file is no list of prices.
#[derive(Debug, thiserror::Error)]
pub enum PriceFileError {
    /// It cannot be read.
    #[error("{path}: {cause}; name another file of prices with --prices", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// It is too large to be meant.
    #[error("{path}: larger than {FILE_BYTES_MAX} bytes; this is no list of prices", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Something in it is wrong.
    #[error("{}", faults.told(&path.display().to_string()))]
    Faults {
        /// The file.
        path: PathBuf,
        /// All that is.
        faults: Faults,
    },
}

impl PricesAt {
    /// The prices; `None` where no file was named and there is none in the usual place. Days in it begin where
    /// `zone` says.
    ///
    /// # Errors
    /// A file that was named and is not there; one that is not right.
    pub fn read(&self, zone: &TimeZone) -> Result<Option<PriceList>, PriceFileError> {
        Ok(self.read_with_text(zone)?.map(|(prices, _)| prices))
    }

    /// As [`Self::read`], with the text that they are from.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn read_with_text(
        &self,
        zone: &TimeZone,
    ) -> Result<Option<(PriceList, String)>, PriceFileError> {
        match self {
            Self::Named(path) | Self::Configured(path) => read(path, zone).map(Some),
            Self::Default => match read(Path::new(PRICES_DEFAULT), zone) {
                Err(PriceFileError::Read { cause, .. })
                    if cause.kind() == std::io::ErrorKind::NotFound =>
                {
                    Ok(None)
                }
                read => read.map(Some),
            },
        }
    }
}

fn read(path: &Path, zone: &TimeZone) -> Result<(PriceList, String), PriceFileError> {
    let owned = || path.to_path_buf();
    let bytes = read_bounded(path, FILE_BYTES_MAX.saturating_add(1))
        .map_err(|cause| PriceFileError::Read { path: owned(), cause })?;
    let faults = |faults| PriceFileError::Faults { path: owned(), faults };
    if u64::try_from(bytes.len()).map_or(true, |length| length > FILE_BYTES_MAX) {
        return Err(match Faults::of(endless_line(&bytes).into_iter().collect()) {
            Some(found) => faults(found),
            None => PriceFileError::TooLarge { path: owned() },
        });
    }
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = error.utf8_error().valid_up_to();
            let before = error.as_bytes().get(..good).unwrap_or_default();
            let fault = Fault {
                line: lines(before),
                column: column(before),
                what: "a byte that is no text".to_owned(),
                remedy: "save the file as UTF-8".to_owned(),
            };
            let cause = || std::io::Error::from(std::io::ErrorKind::InvalidData);
            return Err(Faults::of(vec![fault])
                .map_or_else(|| PriceFileError::Read { path: owned(), cause: cause() }, faults));
        }
    };
    let prices = parse(&text, zone).map_err(faults)?;
    Ok((prices, text))
}

/// The first line that no person wrote, of a file that was not read to its end.
fn endless_line(bytes: &[u8]) -> Option<Fault> {
    let (index, _) = bytes
        .split(|byte| *byte == b'\n')
        .enumerate()
        .find(|(_, line)| line.len() > LINE_BYTES_MAX)?;
    Some(Fault {
        line: index.saturating_add(1),
        column: LINE_BYTES_MAX.saturating_add(1),
        what: format!("a line of more than {LINE_BYTES_MAX} bytes"),
        remedy: "break it, or name the file that was meant".to_owned(),
    })
}

fn lines(before: &[u8]) -> usize {
    before.split(|byte| *byte == b'\n').count()
}

fn column(before: &[u8]) -> usize {
    let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    String::from_utf8_lossy(line).chars().count().saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.toml");
        std::fs::write(&path, bytes).unwrap();
        let error = PricesAt::Named(path.clone()).read(&TimeZone::UTC).unwrap_err().to_string();
        error.replace(&path.display().to_string(), "P")
    }

    #[test]
    fn a_named_file_must_be_there_and_the_usual_one_need_not() {
        let missing = PricesAt::Named("/nonexistent/prices.toml".into());
        let error = missing.read(&TimeZone::UTC).unwrap_err().to_string();
        assert!(
            error.contains("/nonexistent/prices.toml") && error.contains("--prices"),
            "{error}"
        );
        if !Path::new(PRICES_DEFAULT).exists() {
            assert_eq!(PricesAt::Default.read(&TimeZone::UTC).unwrap(), None);
        }
    }

    #[test]
    fn every_fault_stands_behind_its_file_and_place() {
        let told = refused(
            b"currency = \"EUR\"\n[[price]]\ngpu = \"H\"\nmeter = \"helt\"\nper_hour = -1\n",
        );
        assert_eq!(
            told,
            "P:4:9: \"helt\" is no meter; did you mean \"held\"?\n\
             P:5:12: -1 is negative; give 0 or more; a discount is a lower price"
        );
    }

    #[test]
    fn what_no_person_wrote_is_refused_without_being_read_to_its_end() {
        let mut long = b"currency = \"EUR\"\n# ".to_vec();
        long.resize(2 << 20, b'x');
        assert!(refused(&long).starts_with("P:2:4097: a line of more than 4096 bytes; break it"));
        let many = b"# x\n".repeat(1 << 19);
        assert_eq!(refused(&many), "P: larger than 1048576 bytes; this is no list of prices");
        assert_eq!(
            refused(b"currency = \"EUR\"\n# \xff"),
            "P:2:3: a byte that is no text; save the file as UTF-8"
        );
        let folder = tempfile::tempdir().unwrap();
        let folder = PricesAt::Named(folder.path().to_path_buf());
        assert!(folder.read(&TimeZone::UTC).unwrap_err().to_string().contains("--prices"));
    }
}
