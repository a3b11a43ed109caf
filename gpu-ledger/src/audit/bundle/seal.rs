//! Who signs a bundle.

use crate::audit::error::BundleError;
use crate::journal::note::VerifyingKey;
#[cfg(test)]
use crate::journal::note::{Checkpoint, SigningKey};
use crate::journal::store::{Signer, Tree};

/// Who signs a bundle: for the journal that it is of, and the same text always in the same way.
pub trait Seal {
    /// Whoever checks needs this.
    fn public(&self) -> &VerifyingKey;

    /// The signed checkpoint of the tree of the first `size` entries.
    ///
    /// # Errors
    /// Where the tree is not known, or nobody may sign it.
    fn checkpoint(&self, tree: &mut Tree<'_>, size: u64) -> Result<String, BundleError>;

    /// A signed note of this text.
    ///
    /// # Errors
    /// Where no note can have that text.
    fn note(&self, text: &str) -> Result<String, BundleError>;
}

impl Seal for Signer {
    fn public(&self) -> &VerifyingKey {
        self.public()
    }

    fn checkpoint(&self, tree: &mut Tree<'_>, size: u64) -> Result<String, BundleError> {
        Ok(self.sign(tree, size)?.note.to_string())
    }

    fn note(&self, text: &str) -> Result<String, BundleError> {
        Ok(self.sign_note(text)?)
    }
}

#[cfg(test)]
impl Seal for SigningKey {
    fn public(&self) -> &VerifyingKey {
        self.public()
    }

    fn checkpoint(&self, tree: &mut Tree<'_>, size: u64) -> Result<String, BundleError> {
        let origin = self.public().name().into();
        let checkpoint = Checkpoint { origin, size, root: tree.root_at(size)? };
        Ok(checkpoint.sign(self)?)
    }

    fn note(&self, text: &str) -> Result<String, BundleError> {
        Ok(self.sign_note(text)?)
    }
}
