//! Copies of the NVML library that lack symbols, as older drivers' libraries do.
//!
//! An exported symbol cannot vanish at run time, so a copy of the file is patched: the symbol's
//! name in the dynamic string table gets another first letter. The hash table still leads to the
//! entry, the comparison of names then fails, and `dlsym` answers as for a name that never was.

/// Why a library cannot be patched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is no 64-bit little-endian ELF file with a dynamic symbol table.
    #[error("not a 64-bit little-endian shared library: {0}")]
    NotALibrary(&'static str),
    /// It does not export what is to go.
    #[error("the library exports no {0}")]
    NoSuchSymbol(String),
}

/// `SHT_DYNSYM` of the ELF specification.
const DYNAMIC_SYMBOLS: u32 = 11;
const SECTION_HEADER_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;

/// The library without the symbols.
pub fn without(library: &[u8], symbols: &[&str]) -> Result<Vec<u8>, PatchError> {
    let (symbol_table, strings_at) = dynamic_symbols(library)?;
    let mut patched = library.to_vec();
    for &symbol in symbols {
        let mut wanted = symbol.as_bytes().to_vec();
        wanted.push(0);
        let named = symbol_table.iter().map(|name| strings_at + name);
        let place = named
            .into_iter()
            .find(|&at| library.get(at..at + wanted.len()) == Some(wanted.as_slice()))
            .ok_or_else(|| PatchError::NoSuchSymbol(symbol.to_owned()))?;
        let first = patched.get_mut(place).ok_or(PatchError::NotALibrary("its names end early"))?;
        *first = b'~';
    }
    Ok(patched)
}

/// Where each dynamic symbol's name begins in the string table, and where that table is.
fn dynamic_symbols(library: &[u8]) -> Result<(Vec<usize>, usize), PatchError> {
    if library.get(..6) != Some(b"\x7fELF\x02\x01".as_slice()) {
        return Err(PatchError::NotALibrary("its first bytes"));
    }
    let sections_at = long(library, 40)?;
    let count = usize::from(u16::from_le_bytes(bytes(library, 60)?));
    let section = |index: usize| sections_at + index * SECTION_HEADER_BYTES;
    for index in 0..count {
        if word(library, section(index) + 4)? != DYNAMIC_SYMBOLS {
            continue;
        }
        let (at, size) = (long(library, section(index) + 24)?, long(library, section(index) + 32)?);
        let strings = usize::try_from(word(library, section(index) + 40)?)
            .map_err(|_| PatchError::NotALibrary("its section table"))?;
        let strings_at = long(library, section(strings) + 24)?;
        let names = (at..at + size).step_by(SYMBOL_BYTES).map(|symbol| {
            let name = word(library, symbol)?;
            usize::try_from(name).map_err(|_| PatchError::NotALibrary("its symbols"))
        });
        return Ok((names.collect::<Result<_, _>>()?, strings_at));
    }
    Err(PatchError::NotALibrary("it has no dynamic symbols"))
}

fn bytes<const COUNT: usize>(library: &[u8], at: usize) -> Result<[u8; COUNT], PatchError> {
    let end = at.checked_add(COUNT).ok_or(PatchError::NotALibrary("an offset"))?;
    let part = library.get(at..end).ok_or(PatchError::NotALibrary("it ends early"))?;
    part.try_into().map_err(|_| PatchError::NotALibrary("it ends early"))
}

fn word(library: &[u8], at: usize) -> Result<u32, PatchError> {
    bytes(library, at).map(u32::from_le_bytes)
}

fn long(library: &[u8], at: usize) -> Result<usize, PatchError> {
    let value = bytes(library, at).map(u64::from_le_bytes)?;
    usize::try_from(value).map_err(|_| PatchError::NotALibrary("an offset"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_is_refused_by_name() {
        assert_eq!(without(b"text", &[]), Err(PatchError::NotALibrary("its first bytes")));
        assert!(matches!(without(b"\x7fELF\x02\x01", &[]), Err(PatchError::NotALibrary(_))));
    }
}
