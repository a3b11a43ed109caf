//! Arguments, committed to without being shown.
//!
//! An entry holds `HMAC-SHA256(host key, canonical bytes of (captured bytes, true length))`. With the
//! text at hand the host can prove that it is what was captured; without it nobody can guess the text
//! from the entry, as they could from a plain hash, and it can be deleted while the chain stays whole.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::Digest;
use super::canon::{CanonError, Canonical as _, Writer};
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
    ///
    /// # Errors
    /// [`CanonError::TooLong`].
    pub fn commit(&self, argv: &Argv) -> Result<Digest, CanonError> {
        // RFC 2104 pads a key with zeros to the hash's block.
        let mut block = [0; 64];
        if let Some(start) = block.first_chunk_mut() {
            *start = self.0;
        }
        let mut mac = Hmac::<Sha256>::new(&block.into());
        let mut writer = Writer::default();
        argv.bytes.put(&mut writer);
        argv.true_length.put(&mut writer);
        mac.update(&writer.finish()?);
        Ok(Digest(mac.finalize().into_bytes().into()))
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

    fn argv(bytes: &'static [u8], true_length: Option<u64>) -> Argv {
        Argv { bytes: Bytes::from_static(bytes), true_length, state: ArgvState::Whole }
    }

    #[test]
    fn the_commitment_binds_key_bytes_and_true_length() {
        let key = CommitmentKey::new([7; KEY_LENGTH]);
        let commit = |bytes, length| key.commit(&argv(bytes, length)).unwrap();
        let one = commit(b"a\0", Some(2));
        assert_eq!(one, commit(b"a\0", Some(2)));
        assert_ne!(one, commit(b"b\0", Some(2)));
        assert_ne!(one, commit(b"a\0", Some(3)));
        assert_ne!(one, commit(b"a\0", None));
        let other = CommitmentKey::new([8; KEY_LENGTH]);
        assert_ne!(one, other.commit(&argv(b"a\0", Some(2))).unwrap());
        assert_eq!(format!("{key:?}"), "CommitmentKey(..)");
    }

    #[test]
    fn the_commitment_is_hmac_sha256_over_the_documented_bytes() {
        // From another implementation of RFC 2104: python3 -c "import hmac;print(hmac.new(bytes([7]*32),
        // b'A\0\0\0\2a\0'+b'L\0\0\0\15A\0\0\0\10'+b'\0'*7+b'\2','sha256').hexdigest())"
        let key = CommitmentKey::new([7; KEY_LENGTH]);
        let commitment = key.commit(&argv(b"a\0", Some(2))).unwrap();
        assert_eq!(
            commitment.to_string(),
            "a1e7da8446a2494b401d4d710b0be35be666a111c595b97149c6657e53a08daf"
        );
    }
}
