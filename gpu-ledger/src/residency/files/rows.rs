//! Rows, one JSON document a line, read in a stream and hashed as they pass.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::ROW_BYTES_MAX;
use super::error::FilesError;
use super::whole::{CHUNK_BYTES, hex, open};
use crate::residency::events::Event;
use crate::residency::sample::Sample;
use crate::unit::BootNs;

/// A kind of row.
pub trait Row: Sized {
    /// The row of a line without its end.
    fn parse(line: &[u8]) -> serde_json::Result<Self>;
}

impl Row for Sample {
    fn parse(line: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(line)
    }
}

/// The row that comes once a point: read without the detour that an enum takes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuRow {
    #[serde(rename = "event")]
    _event: CpuWord,
    j: u64,
    at_ns: BootNs,
    busy_ticks: u64,
    total_ticks: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum CpuWord {
    Cpu,
}

/// How the row of a point begins.
const CPU_ROW: &[u8] = br#"{"event":"cpu","#;

/// A row of events that is no point's: those, which are nearly all, are not looked into.
pub(super) struct BesidePoints(pub(super) Option<Event>);

impl Row for BesidePoints {
    fn parse(line: &[u8]) -> serde_json::Result<Self> {
        if line.starts_with(CPU_ROW) {
            return Ok(Self(None));
        }
        serde_json::from_slice(line).map(|event| Self(Some(event)))
    }
}

impl Row for Event {
    fn parse(line: &[u8]) -> serde_json::Result<Self> {
        if !line.starts_with(CPU_ROW) {
            return serde_json::from_slice(line);
        }
        let CpuRow { j, at_ns, busy_ticks, total_ticks, .. } = serde_json::from_slice(line)?;
        Ok(Self::Cpu { j, at_ns, busy_ticks, total_ticks })
    }
}

/// A last row without an end: the writer was cut off in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Torn {
    /// The file.
    pub path: PathBuf,
    /// Which row, counted from 1.
    pub line: u64,
    /// What is there of it.
    pub bytes: u64,
}

/// What a file of rows was, when all of it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowsRead {
    /// Whole rows.
    pub rows: u64,
    /// Of all its bytes; empty where it was read again, without being hashed.
    pub sha256: String,
    /// A last row that is not whole. It is in the hash, and was not given out.
    pub torn: Option<Torn>,
}

/// The rows of a file, in their order. After an error no more come.
#[derive(Debug)]
pub struct Rows<T> {
    path: PathBuf,
    reader: BufReader<File>,
    /// `None`: what the file was is known, and nobody asks.
    hasher: Option<Sha256>,
    line: Vec<u8>,
    read: u64,
    torn: Option<Torn>,
    is_over: bool,
    kind: PhantomData<fn() -> T>,
}

impl<T: Row> Rows<T> {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, FilesError> {
        Self::opened(path, Some(Sha256::new()))
    }

    /// Opens a file of a batch that was proven, whose hash nobody asks for again: hashing it is a third of
    /// what reading it takes.
    pub(super) fn of_proven(path: &Path) -> Result<Self, FilesError> {
        Self::opened(path, None)
    }

    fn opened(path: &Path, hasher: Option<Sha256>) -> Result<Self, FilesError> {
        Ok(Self {
            path: path.to_path_buf(),
            reader: BufReader::with_capacity(CHUNK_BYTES, open(path)?),
            hasher,
            line: Vec::new(),
            read: 0,
            torn: None,
            is_over: false,
            kind: PhantomData,
        })
    }

    /// What is wrong with the row that came last.
    pub fn wrong(&self, why: &(impl ToString + ?Sized)) -> FilesError {
        FilesError::Row { path: self.path.clone(), line: self.read, why: why.to_string() }
    }

    /// The next row.
    pub fn row(&mut self) -> Result<Option<T>, FilesError> {
        if self.is_over {
            return Ok(None);
        }
        let row = self.next_row();
        self.is_over = !matches!(row, Ok(Some(_)));
        row
    }

    fn next_row(&mut self) -> Result<Option<T>, FilesError> {
        self.line.clear();
        let most = ROW_BYTES_MAX.saturating_add(1);
        let read = (&mut self.reader).take(most).read_until(b'\n', &mut self.line);
        read.map_err(FilesError::io("read", &self.path))?;
        if self.line.is_empty() {
            return Ok(None);
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&self.line);
        }
        let bytes = u64::try_from(self.line.len()).unwrap_or(u64::MAX);
        let Some(line) = self.line.strip_suffix(b"\n") else {
            if bytes >= most {
                self.read = self.read.saturating_add(1);
                return Err(self.wrong(&format!("a row of more than {ROW_BYTES_MAX} bytes")));
            }
            let line = self.read.saturating_add(1);
            self.torn = Some(Torn { path: self.path.clone(), line, bytes });
            return Ok(None);
        };
        let row = T::parse(line);
        self.read = self.read.saturating_add(1);
        row.map(Some).map_err(|error| self.wrong(&error))
    }

    /// Reads what is left, and says what it was.
    pub fn finish(mut self) -> Result<RowsRead, FilesError> {
        while self.row()?.is_some() {}
        let sha256 = self.hasher.map(|hasher| hex(&hasher.finalize())).unwrap_or_default();
        Ok(RowsRead { rows: self.read, sha256, torn: self.torn })
    }
}

impl<T: Row> Iterator for Rows<T> {
    type Item = Result<T, FilesError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.row().transpose()
    }
}

/// The last whole row of a file, without reading what comes before.
pub(super) fn last<T: Row>(path: &Path) -> Result<Option<T>, FilesError> {
    let mut file = open(path)?;
    let mut tail = Vec::new();
    let read = |file: &mut File, tail: &mut Vec<u8>| -> io::Result<()> {
        let length = file.metadata()?.len();
        // A last row that is torn may be as long as the one before it.
        let most = ROW_BYTES_MAX.saturating_mul(2).saturating_add(2);
        file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        file.take(most).read_to_end(tail)?;
        Ok(())
    };
    read(&mut file, &mut tail).map_err(FilesError::io("read", path))?;
    let mut lines = tail.rsplit(|byte| *byte == b'\n');
    // What comes after the last end of a line: nothing, or a torn row.
    lines.next();
    // Where it cannot be read, the reader of all rows says which it is.
    Ok(lines.next().and_then(|line| T::parse(line).ok()))
}
