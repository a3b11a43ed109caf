//! Names as small consecutive numbers.

use std::collections::HashMap;
use std::hash::Hash;

/// A map that a bill of a million settlements asks a million times. The seed is of this process: names are
/// made by those who are billed.
pub(super) type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Every name once, numbered in the order of first appearance.
#[derive(Clone, Debug)]
pub(super) struct Names<T> {
    numbers: Map<T, u32>,
    names: Vec<T>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { numbers: Map::default(), names: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Names<T> {
    /// The number of a name.
    pub(super) fn number(&mut self, name: &T) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        // A journal of 2³² names would need 100 GB for them alone.
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.numbers.insert(name.clone(), number);
        self.names.push(name.clone());
        number
    }

    /// Every name.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.names.iter()
    }

    /// The name of a number.
    pub(super) fn name(&self, number: u32) -> Option<&T> {
        self.names.get(usize::try_from(number).ok()?)
    }
}
