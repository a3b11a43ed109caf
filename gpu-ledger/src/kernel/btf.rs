//! A small reader of BTF, the kernel's own description of its types.
//!
//! Purpose: where a member of a structure lies, the value of an enumerator, how many arguments a
//! tracepoint has. The format is `Documentation/bpf/btf.rst`. Total: any bytes give an answer or a
//! named error, in bounded time.

/// What is wrong with type information, or missing in it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BtfError {
    /// Not BTF of this machine's byte order, or of an unknown version.
    #[error("no BTF of version 1 in this machine's byte order")]
    NotBtf,
    /// Ends inside something.
    #[error("BTF is cut short at byte {at}")]
    Short {
        /// Where.
        at: usize,
    },
    /// A kind of type that did not exist when this was written.
    #[error("BTF type {id} is of unknown kind {kind}")]
    UnknownKind {
        /// Which type.
        id: u32,
        /// Its kind.
        kind: u32,
    },
    /// No such type.
    #[error("this kernel has no type `{name}`, which gpu-ledger reads")]
    NoType {
        /// Which.
        name: String,
    },
    /// No such member, under any of its names.
    #[error("this kernel's `{structure}` has no member `{members}`, which gpu-ledger reads")]
    NoMember {
        /// Of which structure.
        structure: String,
        /// The names it has borne, newest first.
        members: String,
    },
    /// The member is a bitfield, which has no address.
    #[error("this kernel's `{structure}.{member}` is a bitfield, which gpu-ledger cannot read")]
    Bitfield {
        /// Of which structure.
        structure: String,
        /// Which.
        member: String,
    },
    /// Types that contain themselves, or more members than any kernel has.
    #[error("BTF type {id} nests too deeply")]
    Tangled {
        /// Where the reader gave up.
        id: u32,
    },
}

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;
/// Typedefs and qualifiers around one type, and anonymous members in one another: the deepest in
/// Linux 6.18 is 5.
const DEPTH_MAX: usize = 32;
/// Members looked at in one lookup; `task_struct` of Linux 6.18 has about 300.
const MEMBERS_MAX: usize = 1 << 16;

/// Kinds (`include/uapi/linux/btf.h`).
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const PTR: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

/// A parsed BTF blob.
pub struct Btf {
    bytes: Vec<u8>,
    /// Where type `id` begins in `bytes`; id 0 is void and stands for nothing.
    starts: Vec<usize>,
    strings: usize,
}

/// The fixed part of a type.
#[derive(Clone, Copy)]
struct Type {
    id: u32,
    start: usize,
    name: u32,
    info: u32,
    /// Size in bytes, or the type this one is about.
    other: u32,
}

impl Type {
    const fn kind(self) -> u32 {
        self.info >> 24 & 0x1f
    }

    const fn entries(self) -> u32 {
        self.info & 0xffff
    }

    const fn has_bitfields(self) -> bool {
        self.info >> 31 == 1
    }
}

/// Where a member lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Bytes from the start of the outermost structure.
    pub offset: u32,
    /// Its type.
    type_id: u32,
}

/// A member as one entry of its structure says it.
struct Entry {
    name: u32,
    type_id: u32,
    bit_offset: u32,
    bit_width: u32,
}

impl Btf {
    /// Reads the table of types.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, BtfError> {
        if read_u16(&bytes, 0)? != MAGIC || bytes.get(2) != Some(&1) {
            return Err(BtfError::NotBtf);
        }
        let header = index(read_u32(&bytes, 4)?);
        if header < HEADER_BYTES {
            return Err(BtfError::NotBtf);
        }
        let section = |at| Ok::<_, BtfError>(header.saturating_add(index(read_u32(&bytes, at)?)));
        let (types, strings) = (section(8)?, section(16)?);
        let types_end = types.saturating_add(index(read_u32(&bytes, 12)?));
        if types_end > bytes.len() || strings > bytes.len() {
            return Err(BtfError::Short { at: bytes.len() });
        }
        let mut btf = Self { bytes, starts: vec![0], strings };
        let mut at = types;
        while at < types_end {
            let id = u32::try_from(btf.starts.len()).map_err(|_| BtfError::Short { at })?;
            let found = btf.type_at(id, at)?;
            btf.starts.push(at);
            at = at.saturating_add(TYPE_BYTES).saturating_add(extra_bytes(found)?);
        }
        if at == types_end { Ok(btf) } else { Err(BtfError::Short { at: types_end }) }
    }

    /// Where `member` lies in the structure or union `structure`, also inside members without a
    /// name. `members` are the names it has borne, newest first.
    pub fn member(&self, structure: &str, members: &[&str]) -> Result<Member, BtfError> {
        let outer = self.composite(structure)?;
        for name in members {
            let mut budget = MEMBERS_MAX;
            if let Some((member, width)) = self.find(outer, name, 0, &mut budget)? {
                if width == 0 && member.offset % 8 == 0 {
                    return Ok(Member { offset: member.offset / 8, ..member });
                }
                let (structure, member) = (structure.to_owned(), (*name).to_owned());
                return Err(BtfError::Bitfield { structure, member });
            }
        }
        let (structure, members) = (structure.to_owned(), members.join("` or `"));
        Err(BtfError::NoMember { structure, members })
    }

    /// Elements of a member that is an array; `None` where it is none.
    pub fn array_length(&self, member: Member) -> Result<Option<u32>, BtfError> {
        match self.bare(member.type_id)? {
            Some(array) if array.kind() == kind::ARRAY => {
                read_u32(&self.bytes, array.start.saturating_add(TYPE_BYTES + 8)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The value of an enumerator; `None` where the enumeration does not have it.
    pub fn enumerator(&self, enumeration: &str, name: &str) -> Result<Option<u32>, BtfError> {
        let found = self.named(enumeration, |kind| kind == kind::ENUM)?;
        for entry in 0..found.entries() {
            let at = entry_start(found, entry, 8);
            if self.is_named(read_u32(&self.bytes, at)?, name) {
                return read_u32(&self.bytes, at.saturating_add(4)).map(Some);
            }
        }
        Ok(None)
    }

    /// Arguments of a tracepoint, the probe's own cookie in front not counted.
    pub fn tracepoint_arguments(&self, tracepoint: &str) -> Result<u32, BtfError> {
        let name = format!("btf_trace_{tracepoint}");
        let missing = || BtfError::NoType { name: name.clone() };
        let typedef = self.named(&name, |kind| kind == kind::TYPEDEF)?;
        let pointer = self.bare(typedef.other)?.ok_or_else(missing)?;
        if pointer.kind() != kind::PTR {
            return Err(missing());
        }
        let prototype = self.bare(pointer.other)?.ok_or_else(missing)?;
        if prototype.kind() != kind::FUNC_PROTO {
            return Err(missing());
        }
        prototype.entries().checked_sub(1).ok_or_else(missing)
    }

    fn composite(&self, name: &str) -> Result<Type, BtfError> {
        self.named(name, |kind| matches!(kind, kind::STRUCT | kind::UNION))
    }

    fn named(&self, name: &str, wanted: impl Fn(u32) -> bool) -> Result<Type, BtfError> {
        for id in 1..self.starts.len() {
            let found = self.type_of(u32::try_from(id).unwrap_or(u32::MAX))?;
            if wanted(found.kind()) && self.is_named(found.name, name) {
                return Ok(found);
            }
        }
        Err(BtfError::NoType { name: name.to_owned() })
    }

    /// Looks for a member; its offset is in **bits** here, with the width of a bitfield or 0.
    fn find(
        &self,
        outer: Type,
        name: &str,
        depth: usize,
        budget: &mut usize,
    ) -> Result<Option<(Member, u32)>, BtfError> {
        let tangled = BtfError::Tangled { id: outer.id };
        if depth > DEPTH_MAX {
            return Err(tangled);
        }
        for number in 0..outer.entries() {
            *budget = budget.checked_sub(1).ok_or_else(|| tangled.clone())?;
            let entry = self.entry(outer, number)?;
            let here = |offset: u32| entry.bit_offset.checked_add(offset).ok_or(tangled.clone());
            if entry.name != 0 {
                if self.is_named(entry.name, name) {
                    let member = Member { offset: here(0)?, type_id: entry.type_id };
                    return Ok(Some((member, entry.bit_width)));
                }
                continue;
            }
            let Some(inner) = self.bare(entry.type_id)? else { continue };
            if matches!(inner.kind(), kind::STRUCT | kind::UNION)
                && let Some((member, width)) = self.find(inner, name, depth + 1, budget)?
            {
                return Ok(Some((Member { offset: here(member.offset)?, ..member }, width)));
            }
        }
        Ok(None)
    }

    fn entry(&self, outer: Type, number: u32) -> Result<Entry, BtfError> {
        let at = entry_start(outer, number, 12);
        let place = read_u32(&self.bytes, at.saturating_add(8))?;
        // With the kind flag the width of a bitfield stands in the offset's upper byte.
        let (bit_offset, bit_width) =
            if outer.has_bitfields() { (place & 0xff_ffff, place >> 24) } else { (place, 0) };
        Ok(Entry {
            name: read_u32(&self.bytes, at)?,
            type_id: read_u32(&self.bytes, at.saturating_add(4))?,
            bit_offset,
            bit_width,
        })
    }

    /// The type under typedefs, qualifiers and tags; `None` for void.
    fn bare(&self, mut id: u32) -> Result<Option<Type>, BtfError> {
        for _ in 0..DEPTH_MAX {
            if id == 0 {
                return Ok(None);
            }
            let found = self.type_of(id)?;
            match found.kind() {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    id = found.other;
                }
                _ => return Ok(Some(found)),
            }
        }
        Err(BtfError::Tangled { id })
    }

    fn type_of(&self, id: u32) -> Result<Type, BtfError> {
        let start = self.starts.get(index(id)).copied().filter(|_| id != 0);
        self.type_at(id, start.ok_or(BtfError::Short { at: self.bytes.len() })?)
    }

    fn type_at(&self, id: u32, start: usize) -> Result<Type, BtfError> {
        Ok(Type {
            id,
            start,
            name: read_u32(&self.bytes, start)?,
            info: read_u32(&self.bytes, start.saturating_add(4))?,
            other: read_u32(&self.bytes, start.saturating_add(8))?,
        })
    }

    fn is_named(&self, at: u32, name: &str) -> bool {
        self.string(at) == name.as_bytes()
    }

    /// A string of the string section; empty where there is none.
    fn string(&self, at: u32) -> &[u8] {
        let rest = self.bytes.get(self.strings.saturating_add(index(at))..).unwrap_or(&[]);
        rest.split(|byte| *byte == 0).next().unwrap_or(&[])
    }
}

/// Bytes of a type behind its fixed part.
fn extra_bytes(found: Type) -> Result<usize, BtfError> {
    let entries = index(found.entries());
    Ok(match found.kind() {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => entries.saturating_mul(12),
        kind::ENUM | kind::FUNC_PROTO => entries.saturating_mul(8),
        // Pointers, forwards, typedefs, qualifiers, functions, floats and type tags.
        2 | 7..=12 | 16 | kind::TYPE_TAG => 0,
        other => return Err(BtfError::UnknownKind { id: found.id, kind: other }),
    })
}

fn entry_start(found: Type, number: u32, entry_bytes: usize) -> usize {
    let before = index(number).saturating_mul(entry_bytes);
    found.start.saturating_add(TYPE_BYTES).saturating_add(before)
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn read_u16(bytes: &[u8], at: usize) -> Result<u16, BtfError> {
    array(bytes, at).map(u16::from_ne_bytes)
}

fn read_u32(bytes: &[u8], at: usize) -> Result<u32, BtfError> {
    array(bytes, at).map(u32::from_ne_bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], BtfError> {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().ok_or(BtfError::Short { at })
}

#[cfg(test)]
#[path = "btf_tests.rs"]
mod tests;
