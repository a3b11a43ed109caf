//! A database and its write-ahead log, made one (sqlite.org/fileformat2.html, sections 1.3 and 4).

/// Bytes of the log's header.
const HEADER: usize = 32;
/// Bytes before each page in the log.
const FRAME_HEADER: usize = 24;
/// Where a database's header says how it is written and read: 1 is without a log, 2 with one.
const VERSIONS: std::ops::Range<usize> = 18..20;

/// The database with everything that was committed to its log, and set to be read without one. `None` where it
/// would be larger than `bytes_max`, or is no database. A log that is not of this database, or was reset, adds
/// nothing.
pub(super) fn written_back(mut database: Vec<u8>, log: &[u8], bytes_max: u64) -> Option<Vec<u8>> {
    if let Some(log) = Log::read(log) {
        log.write_back(&mut database, usize::try_from(bytes_max).ok()?)?;
    }
    database.get_mut(VERSIONS)?.fill(1);
    Some(database)
}

/// A log whose header is whole.
struct Log<'a> {
    page_size: usize,
    salts: &'a [u8],
    order: fn([u8; 4]) -> u32,
    /// Of everything before `frames`.
    sum: Sum,
    frames: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Sum(u32, u32);

impl Sum {
    /// Goes on over bytes whose number is a multiple of 8.
    fn over(mut self, bytes: &[u8], order: fn([u8; 4]) -> u32) -> Self {
        for pair in bytes.chunks_exact(8) {
            let (one, other) = pair.split_at(4);
            self.0 = self.0.wrapping_add(word(one, order)).wrapping_add(self.1);
            self.1 = self.1.wrapping_add(word(other, order)).wrapping_add(self.0);
        }
        self
    }

    /// As it is written.
    fn of(bytes: &[u8]) -> Self {
        let (one, other) = bytes.split_at(bytes.len() / 2);
        Self(word(one, u32::from_be_bytes), word(other, u32::from_be_bytes))
    }
}

/// A word of four bytes; 0 of anything else, which no caller has.
fn word(bytes: &[u8], order: fn([u8; 4]) -> u32) -> u32 {
    bytes.try_into().map_or(0, order)
}

impl<'a> Log<'a> {
    fn read(log: &'a [u8]) -> Option<Self> {
        let (header, frames) = log.split_at_checked(HEADER)?;
        let order = match word(header.get(..4)?, u32::from_be_bytes) {
            0x377f_0682 => u32::from_le_bytes,
            0x377f_0683 => u32::from_be_bytes,
            _ => return None,
        };
        let page_size = word(header.get(8..12)?, u32::from_be_bytes);
        let is_size = (512..=65_536).contains(&page_size) && page_size.is_power_of_two();
        let sum = Sum(0, 0).over(header.get(..24)?, order);
        let is_whole = is_size && sum == Sum::of(header.get(24..)?);
        let page_size = usize::try_from(page_size).ok()?;
        is_whole.then_some(Self { page_size, salts: header.get(16..24)?, order, sum, frames })
    }

    /// `None` where the database would be too large.
    fn write_back(mut self, database: &mut Vec<u8>, bytes_max: usize) -> Option<()> {
        // Frames since the last one that ends a transaction.
        let mut open: Vec<(usize, &[u8])> = Vec::new();
        let frame_size = self.page_size.checked_add(FRAME_HEADER)?;
        for frame in self.frames.chunks_exact(frame_size) {
            let (header, page) = frame.split_at(FRAME_HEADER);
            // Left over from before the log was begun anew.
            if header.get(8..16)? != self.salts {
                break;
            }
            self.sum = self.sum.over(header.get(..8)?, self.order).over(page, self.order);
            if self.sum != Sum::of(header.get(16..)?) {
                break;
            }
            let number = |bytes| usize::try_from(word(bytes, u32::from_be_bytes)).ok();
            open.push((number(header.get(..4)?)?.checked_sub(1)?, page));
            let pages = number(header.get(4..8)?)?;
            if pages > 0 {
                let length = pages.checked_mul(self.page_size).filter(|all| *all <= bytes_max)?;
                database.resize(length, 0);
                for (place, page) in open.drain(..) {
                    let from = place.checked_mul(self.page_size)?;
                    // A page that the end of the transaction cut off.
                    if let Some(into) = database.get_mut(from..from.checked_add(self.page_size)?) {
                        into.copy_from_slice(page);
                    }
                }
            }
        }
        Some(())
    }
}
