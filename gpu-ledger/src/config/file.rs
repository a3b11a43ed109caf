//! A file of the operator's, read whole and bounded.

use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// The first `bytes_max` bytes of a file, and no more than that are read.
///
/// # Errors
/// It cannot be read, or is nothing that can be read again.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // A pipe that nobody writes to would keep the daemon waiting, and be empty when it is read again.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let kind = file.metadata()?.file_type();
    if std::os::unix::fs::FileTypeExt::is_fifo(&kind)
        || std::os::unix::fs::FileTypeExt::is_socket(&kind)
    {
        return Err(io::Error::other("it is a pipe, which cannot be read again"));
    }
    let mut bytes = Vec::new();
    // A device says that it has no length.
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}
