//! The truth log: what really happened, for tests to compare with. The product never opens it.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use serde::Serialize;

use crate::model::Ended;

/// What a process was when it opened the GPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Image {
    /// Where its executable lay; null when it was dead before it could be read.
    pub(super) exe: Option<String>,
    /// Its arguments, bytes that are no UTF-8 replaced; null likewise.
    pub(super) argv: Option<Vec<String>>,
}

/// Another process that joined a span under the same pid, which a duplicate of the descriptor had
/// kept open.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Joined {
    pub(super) joined_us: u64,
    #[serde(flatten)]
    pub(super) image: Image,
}

/// One entry's life as the processes made it.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) image: Image,
    pub(super) joined: Vec<Joined>,
}

#[derive(Serialize)]
struct Line<'a> {
    gpu_uuid: &'a str,
    pid: u32,
    start_time_us: u64,
    end_time_us: u64,
    exe: Option<&'a str>,
    argv: Option<&'a [String]>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    joined: &'a [Joined],
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<&'static str>,
}

/// The log, or none.
#[derive(Debug)]
pub(super) struct Truth {
    file: Option<File>,
}

impl Truth {
    pub(super) fn create(path: Option<&Path>) -> io::Result<Self> {
        Ok(Self { file: path.map(File::create).transpose()? })
    }

    /// Writes one billable span in one piece, so that a reader sees whole lines only.
    pub(super) fn write(
        &mut self,
        gpu_uuid: &str,
        ended: &Ended,
        lost: Option<&'static str>,
        span: Option<&Span>,
    ) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let image = span.map(|span| &span.image);
        let line = Line {
            gpu_uuid,
            pid: ended.pid,
            start_time_us: ended.start_us,
            end_time_us: ended.end_us,
            exe: image.and_then(|image| image.exe.as_deref()),
            argv: image.and_then(|image| image.argv.as_deref()),
            joined: span.map_or(&[], |span| &span.joined),
            lost,
        };
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        file.write_all(&bytes)
    }
}
