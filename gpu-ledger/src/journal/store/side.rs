//! The two files beside the database: up to where it was acknowledged, and what is kept in reserve.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use super::error::StoreError;
use super::place::{Place, io};
use crate::journal::Digest;
use crate::journal::chain::sha256;

const WITNESS: &str = "ledger.head";
const BALLAST: &str = "ledger.ballast";
/// What is kept in reserve. `reliability`: on a full disk SQLite cannot even delete; what is written
/// to say so is a few pages of the write-ahead log, and this is a hundred times that.
const BALLAST_BYTES: u64 = 8 << 20;
/// Number, hash, and the SHA-256 of both.
const SLOT_BYTES: usize = 72;

/// The end that was acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Acknowledged {
    pub(super) seq: u64,
    pub(super) hash: Digest,
}

/// `ledger.head`: two slots that are written in turn, so that one is always whole. It is written after
/// the commit is on the disk and never synced itself: after a crash of the machine it may be behind the
/// database, never before it.
#[derive(Debug)]
pub(super) struct Witness {
    file: File,
    next_slot: u64,
}

impl Witness {
    /// What it says. `None` where there is no such file.
    pub(super) fn read(place: &Place) -> Result<Option<Acknowledged>, StoreError> {
        let Some(file) = place.open(WITNESS, OFlags::RDONLY)? else { return Ok(None) };
        match newest(&file) {
            Ok(Some((acknowledged, _))) => Ok(Some(acknowledged)),
            // An empty file: its maker died before the first commit.
            Ok(None) if file.metadata().is_ok_and(|found| found.len() == 0) => Ok(None),
            Ok(None) => Err(StoreError::Damaged {
                path: place.file(WITNESS),
                what: "neither of its slots is whole".to_owned(),
            }),
            Err(cause) => Err(StoreError::Io { doing: "read", path: place.file(WITNESS), cause }),
        }
    }

    /// Opens it for writing.
    pub(super) fn make(place: &Place) -> Result<Self, StoreError> {
        let file = place.make(WITNESS)?;
        let slot = newest(&file);
        let slot = slot.map_err(|cause| StoreError::Io {
            doing: "read",
            path: place.file(WITNESS),
            cause,
        })?;
        Ok(Self { file, next_slot: slot.map_or(0, |(_, slot)| 1_u64.saturating_sub(slot)) })
    }

    /// Says that everything up to `end` is on the disk.
    pub(super) fn write(&mut self, end: Acknowledged) -> Result<(), Errno> {
        let offset = self.next_slot.saturating_mul(u64::try_from(SLOT_BYTES).unwrap_or(0));
        let slot = slot_of(end);
        if rustix::io::pwrite(&self.file, &slot, offset)? != slot.len() {
            return Err(Errno::IO);
        }
        self.next_slot = 1_u64.saturating_sub(self.next_slot);
        Ok(())
    }
}

fn slot_of(end: Acknowledged) -> Vec<u8> {
    let mut bytes = end.seq.to_be_bytes().to_vec();
    bytes.extend_from_slice(&end.hash.0);
    let digest = sha256(&bytes);
    bytes.extend_from_slice(&digest.0);
    bytes
}

/// The newest whole slot, and which of the two it is.
fn newest(file: &File) -> std::io::Result<Option<(Acknowledged, u64)>> {
    let mut best: Option<(Acknowledged, u64)> = None;
    for slot in [0, 1_u64] {
        let mut bytes = [0; SLOT_BYTES];
        let offset = slot.saturating_mul(u64::try_from(SLOT_BYTES).unwrap_or(0));
        match file.read_exact_at(&mut bytes, offset) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => continue,
            Err(error) => return Err(error),
        }
        let (Some(seq), Some(hash)) = (bytes.first_chunk::<8>(), bytes.get(8..40)) else {
            continue;
        };
        let Ok(hash) = <[u8; 32]>::try_from(hash) else { continue };
        let end = Acknowledged { seq: u64::from_be_bytes(*seq), hash: Digest(hash) };
        if slot_of(end) == bytes && best.is_none_or(|(known, _)| known.seq < end.seq) {
            best = Some((end, slot));
        }
    }
    Ok(best)
}

/// `ledger.ballast`: space to say that there is none left.
#[derive(Debug)]
pub(super) struct Ballast {
    is_kept: bool,
}

impl Ballast {
    /// Makes it where it is missing; the reason where that cannot be.
    pub(super) fn make(place: &Place) -> (Self, Option<String>) {
        let mut ballast = Self { is_kept: false };
        let cause = ballast.fill(place).err().map(|error| error.to_string());
        (ballast, cause)
    }

    /// Gives the space back to the file system.
    pub(super) fn free(&mut self, place: &Place) -> Result<(), StoreError> {
        self.is_kept = false;
        place.remove(BALLAST)
    }

    /// Makes it again once there is plenty of room: never at the cost of an entry.
    pub(super) fn restore(&mut self, place: &Place) -> Result<(), StoreError> {
        if self.is_kept || place.available()? < BALLAST_BYTES.saturating_mul(2) {
            return Ok(());
        }
        self.fill(place)
    }

    fn fill(&mut self, place: &Place) -> Result<(), StoreError> {
        let path = place.file(BALLAST);
        let file = place.make(BALLAST)?;
        let kept = match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, BALLAST_BYTES) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP) => write_out(&file).map_err(io("fill", &path)),
            Err(errno) => Err(io("fill", &path)(errno)),
        };
        self.is_kept = kept.is_ok();
        if kept.is_err() {
            // A part of it would be taken for the whole.
            place.remove(BALLAST)?;
        }
        kept
    }
}

/// For file systems that cannot set space aside (ZFS).
fn write_out(file: &File) -> Result<(), Errno> {
    let block = vec![0x5a; 1 << 16];
    let mut offset = 0;
    while offset < BALLAST_BYTES {
        let written = rustix::io::pwrite(file, &block, offset)?;
        offset = offset.saturating_add(u64::try_from(written).map_err(|_| Errno::OVERFLOW)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::store::StateDir;

    #[test]
    fn the_witness_survives_a_torn_slot_and_says_the_newest_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let (place, _) = Place::prepare(&StateDir::at(folder.path())).unwrap();
        assert_eq!(Witness::read(&place).unwrap(), None);
        let mut witness = Witness::make(&place).unwrap();
        assert_eq!(Witness::read(&place).unwrap(), None, "nothing was acknowledged yet");
        let end = |seq| Acknowledged { seq, hash: Digest([u8::try_from(seq).unwrap(); 32]) };
        for seq in 1..=9 {
            witness.write(end(seq)).unwrap();
            assert_eq!(Witness::read(&place).unwrap(), Some(end(seq)));
            // A writer that begins anew goes on in the other slot.
            if seq == 5 {
                witness = Witness::make(&place).unwrap();
            }
        }
        let path = place.file(WITNESS);
        let whole = std::fs::read(&path).unwrap();
        for place_of_flip in 0..whole.len() {
            let mut torn = whole.clone();
            torn[place_of_flip] ^= 0x10;
            std::fs::write(&path, torn).unwrap();
            let read = Witness::read(&place).unwrap();
            assert!(read == Some(end(9)) || read == Some(end(8)), "{place_of_flip} {read:?}");
        }
        std::fs::write(&path, vec![0; whole.len()]).unwrap();
        assert!(matches!(Witness::read(&place), Err(StoreError::Damaged { .. })));
    }
}
