//! Places that the caller of a C function passed: where `unsafe` meets the rest.

use std::ffi::CStr;
use std::os::raw::{c_char, c_uint};

use crate::session::{Code, INSUFFICIENT_SIZE, INVALID_ARGUMENT};

/// One value of the caller's.
pub(crate) struct Place<T>(*mut T);

// Derived, these would ask the same of `T`.
impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T> Place<T> {
    /// # Safety
    /// `at` is null, or valid for reads and writes of a `T` for as long as the place is used.
    pub(crate) const unsafe fn new(at: *mut T) -> Self {
        Self(at)
    }

    /// Refuses a null pointer before anything is asked.
    pub(crate) const fn check(self) -> Result<(), Code> {
        if self.0.is_null() { Err(INVALID_ARGUMENT) } else { Ok(()) }
    }

    pub(crate) fn set(self, value: T) -> Result<(), Code> {
        self.check()?;
        // SAFETY: not null, hence valid for writes by the contract of `new`.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }
}

impl<T: Copy> Place<T> {
    pub(crate) fn get(self) -> Result<T, Code> {
        self.check()?;
        // SAFETY: not null, hence valid for reads by the contract of `new`.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The version word that a versioned struct begins with. Only this word is read: the rest may
    /// be as long as another version has it.
    pub(crate) fn version(self) -> Result<u32, Code> {
        self.check()?;
        // SAFETY: not null, and every struct that is asked for its version begins with that word.
        Ok(unsafe { self.0.cast::<u32>().read_unaligned() })
    }
}

/// An array of the caller's.
pub(crate) struct Rows<T> {
    at: *mut T,
    capacity: usize,
}

impl<T> Clone for Rows<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Rows<T> {}

impl<T> Rows<T> {
    /// # Safety
    /// `at` is null, or valid for reads and writes of `capacity` `T`s for as long as it is used.
    pub(crate) const unsafe fn new(at: *mut T, capacity: usize) -> Self {
        Self { at, capacity: if at.is_null() { 0 } else { capacity } }
    }

    /// How many fit; 0 for a size query.
    pub(crate) fn capacity(self) -> u64 {
        u64::try_from(self.capacity).unwrap_or(u64::MAX)
    }

    pub(crate) fn set(self, index: usize, value: T) -> Result<(), Code> {
        if index >= self.capacity {
            return Err(INSUFFICIENT_SIZE);
        }
        // SAFETY: within the capacity, hence valid for writes by the contract of `new`.
        unsafe { self.at.wrapping_add(index).write_unaligned(value) };
        Ok(())
    }

    pub(crate) fn get(self, index: usize) -> Result<T, Code> {
        if index >= self.capacity {
            return Err(INSUFFICIENT_SIZE);
        }
        // SAFETY: within the capacity, hence valid for reads by the contract of `new`.
        Ok(unsafe { self.at.wrapping_add(index).read_unaligned() })
    }
}

impl Rows<c_char> {
    /// Writes a text with its NUL; one that does not fit is refused.
    pub(crate) fn set_text(self, text: &str) -> Result<(), Code> {
        if self.at.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        if text.len() >= self.capacity {
            return Err(INSUFFICIENT_SIZE);
        }
        for (index, byte) in text.bytes().chain([0]).enumerate() {
            self.set(index, c_char::from_ne_bytes([byte]))?;
        }
        Ok(())
    }
}

/// A text in a field of fixed size, cut where it does not fit.
pub(crate) fn fixed_text<const SIZE: usize>(text: &str) -> [c_char; SIZE] {
    let mut field = [0; SIZE];
    let room = SIZE.saturating_sub(1);
    for (place, byte) in field.iter_mut().zip(text.bytes()).take(room) {
        *place = c_char::from_ne_bytes([byte]);
    }
    field
}

/// A text argument.
///
/// # Safety
/// `text` is null or a NUL-terminated string.
pub(crate) unsafe fn text_argument(text: *const c_char) -> Result<String, Code> {
    if text.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, hence NUL-terminated by this function's contract.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(str::to_owned).map_err(|_| INVALID_ARGUMENT)
}

/// A length of C's as an index.
pub(crate) fn length(count: c_uint) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
