//! Arguments, committed to without being shown.
//!
//! An entry holds `HMAC-SHA256(host key, captured bytes with their length, true length)`. With the
//! text at hand the host can prove that it is what was captured; without it nobody can guess the text
//! from the entry, as they could from a plain hash, and it can be deleted while the chain stays whole.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::Digest;
use crate::kernel::Argv;

/// Bytes of a key.
pub const KEY_LENGTH: usize = 32;

/// The host's key of its commitments. Made once, kept beside the journal, never printed.
#[derive(Clone)]
pub struct CommitmentKey([u8; KEY_LENGTH]);

impl CommitmentKey {
    /// A key of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; KEY_LENGTH]) -> Self {
        Self(bytes)
    }

    /// The bytes, to be kept.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; KEY_LENGTH] {
        &self.0
    }

    /// The commitment to captured arguments.
    #[must_use]
    pub fn commit(&self, argv: &Argv) -> Digest {
        // RFC 2104 pads a key with zeros to the hash's block.
        let mut block = [0; 64];
        if let Some(start) = block.first_chunk_mut() {
            *start = self.0;
        }
        let mut mac = Hmac::<Sha256>::new(&block.into());
        // A `usize` is at most 64 bits wide wherever this runs.
        mac.update(&u64::try_from(argv.bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        mac.update(&argv.bytes);
        mac.update(&argv.true_length.to_be_bytes());
        Digest(mac.finalize().into_bytes().into())
    }
}

impl std::fmt::Debug for CommitmentKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CommitmentKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::kernel::ArgvState;

    fn argv(bytes: &'static [u8], true_length: u64) -> Argv {
        Argv { bytes: Bytes::from_static(bytes), true_length, state: ArgvState::Whole }
    }

    #[test]
    fn the_commitment_binds_key_bytes_and_true_length() {
        let key = CommitmentKey::new([7; KEY_LENGTH]);
        let one = key.commit(&argv(b"a\0", 2));
        assert_eq!(one, key.commit(&argv(b"a\0", 2)));
        assert_ne!(one, key.commit(&argv(b"b\0", 2)));
        assert_ne!(one, key.commit(&argv(b"a\0", 3)));
        assert_ne!(one, CommitmentKey::new([8; KEY_LENGTH]).commit(&argv(b"a\0", 2)));
        assert_eq!(format!("{key:?}"), "CommitmentKey(..)");
    }

    #[test]
    fn the_commitment_is_hmac_sha256_over_the_documented_bytes() {
        // From another implementation of RFC 2104:
        // python3 -c "import hmac;print(hmac.new(bytes([7]*32),b'\0'*7+b'\2a\0'+b'\0'*7+b'\2','sha256').hexdigest())"
        let key = CommitmentKey::new([7; KEY_LENGTH]);
        assert_eq!(
            key.commit(&argv(b"a\0", 2)).to_string(),
            "156ffdd50b0eaab96f063dec93e330fbd87f8f66c6a22151467334f979dfd948"
        );
    }
}
