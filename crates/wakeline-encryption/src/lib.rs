//! Encryption of values that must not be stored in the clear: signing keys and headers of webhooks,
//! and payloads of messages.
//!
//! # Where it sits
//! Webhooks encrypt before they call a store and decrypt what it returns. Payloads are encrypted by
//! the stores, where all ways into a queue meet (`PayloadEncryption` of `wakeline-store`).
//!
//! # Invariants
//! * Nothing is encrypted without a key: there is no empty [`EncryptionKeys`], and encrypted bytes
//!   have no plain form.
//! * Encrypted bytes can be decrypted only with the associated data that they were encrypted with
//!   (it is authenticated), and only if they are unchanged.
//! * Every key decrypts; the first one encrypts. So keys are changed by putting a new one in front,
//!   and removing the old one when nothing is encrypted with it any more.
//!
//! # Format
//! `1 | length of the key's id | the key's id | 12 bytes nonce | ciphertext and tag`, AES-256-GCM.

mod keys_text;

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

pub use keys_text::EncryptionKeysError;

/// The format of encrypted bytes that is written.
const FORMAT: u8 = 1;
/// The length of a key in bytes.
const KEY_LEN: usize = 32;

/// The reason why a value cannot be encrypted or decrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncryptionError {
    /// The key that encrypted the value is not among the keys. Add it after the others.
    #[error(
        "it was encrypted with the key {0:?}, which is not among the configured encryption \
         keys: add it to them"
    )]
    UnknownKey(String),
    /// The value was changed, truncated, or encrypted with other associated data.
    #[error("the encrypted data is damaged, or belongs to another row: restore it from a backup")]
    Tampered,
    /// The value has a format that this version does not know.
    #[error(
        "the encrypted data has the format {0}, which this release does not know: use a newer \
         release"
    )]
    UnknownFormat(u8),
    /// The system returned no random bytes.
    #[error("the operating system returned no random bytes")]
    NoRandomness,
}

/// Encryption keys with ids: the first one encrypts, all of them decrypt.
pub struct EncryptionKeys {
    keys: Vec<EncryptionKey>,
}

struct EncryptionKey {
    id: String,
    key: LessSafeKey,
}

/// Returns whether bytes are encrypted, provided that they are either encrypted bytes or JSON text,
/// which never begins with the format's byte.
pub fn looks_encrypted(bytes: &[u8]) -> bool {
    bytes.first() == Some(&FORMAT)
}

impl EncryptionKeys {
    /// Returns whether the bytes were encrypted with the key that encrypts now.
    pub fn is_current(&self, encrypted: &[u8]) -> bool {
        let id = self.active().as_bytes();
        let begins = encrypted.strip_prefix(&[FORMAT, id.len() as u8]);
        begins.is_some_and(|rest| rest.starts_with(id))
    }

    /// Encrypts a value again with the key that encrypts now. Returns `None` if it was encrypted
    /// with this key.
    pub fn reencrypt(
        &self,
        associated_data: &[u8],
        encrypted: &[u8],
    ) -> Result<Option<Vec<u8>>, EncryptionError> {
        if self.is_current(encrypted) {
            return Ok(None);
        }
        self.encrypt(associated_data, &self.decrypt(associated_data, encrypted)?).map(Some)
    }

    /// Returns the id of the key that encrypts.
    pub fn active(&self) -> &str {
        &self.keys[0].id
    }

    /// Encrypts a value. The associated data, for example a row's id, binds it to its place: the
    /// same data are required to decrypt it.
    pub fn encrypt(
        &self,
        associated_data: &[u8],
        plain: &[u8],
    ) -> Result<Vec<u8>, EncryptionError> {
        let key = &self.keys[0];
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| EncryptionError::NoRandomness)?;
        let id_len = u8::try_from(key.id.len()).expect("ids were measured when they were read");
        let mut encrypted = vec![FORMAT, id_len];
        encrypted.extend_from_slice(key.id.as_bytes());
        encrypted.extend_from_slice(&nonce);
        let begin = encrypted.len();
        encrypted.extend_from_slice(plain);
        let tag = key
            .key
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(associated_data),
                &mut encrypted[begin..],
            )
            .expect("only texts of many gigabytes are too long");
        encrypted.extend_from_slice(tag.as_ref());
        Ok(encrypted)
    }

    /// Decrypts a value that was encrypted with this associated data.
    pub fn decrypt(
        &self,
        associated_data: &[u8],
        encrypted: &[u8],
    ) -> Result<Vec<u8>, EncryptionError> {
        let (&format, rest) = encrypted.split_first().ok_or(EncryptionError::Tampered)?;
        if format != FORMAT {
            return Err(EncryptionError::UnknownFormat(format));
        }
        let (&id_len, rest) = rest.split_first().ok_or(EncryptionError::Tampered)?;
        let (id, rest) = rest.split_at_checked(id_len.into()).ok_or(EncryptionError::Tampered)?;
        let (nonce, ciphertext) = rest.split_first_chunk().ok_or(EncryptionError::Tampered)?;
        let Some(key) = self.keys.iter().find(|key| key.id.as_bytes() == id) else {
            return Err(EncryptionError::UnknownKey(String::from_utf8_lossy(id).into_owned()));
        };
        let mut decrypted = ciphertext.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain_len = key
            .key
            .open_in_place(nonce, Aad::from(associated_data), &mut decrypted)
            .map_err(|_| EncryptionError::Tampered)?
            .len();
        decrypted.truncate(plain_len);
        Ok(decrypted)
    }

    fn from_keys(keys: Vec<(String, [u8; KEY_LEN])>) -> Self {
        let key = |(id, bytes): (String, [u8; KEY_LEN])| {
            let key = UnboundKey::new(&AES_256_GCM, &bytes).expect("a key of the right length");
            EncryptionKey { id, key: LessSafeKey::new(key) }
        };
        Self { keys: keys.into_iter().map(key).collect() }
    }
}

/// Prints the ids only.
impl fmt::Debug for EncryptionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(ids: &[(&str, u8)]) -> EncryptionKeys {
        EncryptionKeys::from_keys(
            ids.iter().map(|(id, fill)| ((*id).to_owned(), [*fill; 32])).collect(),
        )
    }

    #[test]
    fn a_value_is_decrypted_only_with_its_associated_data() {
        let keys_a = keys(&[("a", 1)]);
        let encrypted = keys_a.encrypt(b"ep_1", b"secret").expect("encrypted");
        assert!(!encrypted.windows(6).any(|window| window == b"secret"));
        assert_eq!(keys_a.decrypt(b"ep_1", &encrypted).expect("decrypted"), b"secret");
        assert_eq!(keys_a.decrypt(b"ep_2", &encrypted), Err(EncryptionError::Tampered));
    }

    #[test]
    fn two_encryptions_of_one_text_differ() {
        let keys_a = keys(&[("a", 1)]);
        assert_ne!(keys_a.encrypt(b"", b"x"), keys_a.encrypt(b"", b"x"));
    }

    #[test]
    fn any_changed_or_missing_byte_is_detected() {
        let keys_a = keys(&[("a", 1)]);
        let encrypted = keys_a.encrypt(b"p", b"text").expect("encrypted");
        for place in 0..encrypted.len() {
            let mut changed = encrypted.clone();
            changed[place] ^= 1;
            assert!(keys_a.decrypt(b"p", &changed).is_err(), "byte {place}");
            assert!(keys_a.decrypt(b"p", &encrypted[..place]).is_err(), "cut at {place}");
        }
    }

    #[test]
    fn an_old_key_decrypts_and_the_new_one_encrypts() {
        let old = keys(&[("a", 1)]).encrypt(b"p", b"text").expect("encrypted");
        let both = keys(&[("b", 2), ("a", 1)]);
        assert_eq!(both.decrypt(b"p", &old).expect("decrypted"), b"text");
        let new = both.encrypt(b"p", b"text").expect("encrypted");
        assert_eq!(both.active(), "b");
        let lost = keys(&[("a", 1)]).decrypt(b"p", &new);
        assert_eq!(lost, Err(EncryptionError::UnknownKey("b".to_owned())));
    }

    #[test]
    fn only_values_encrypted_with_another_key_are_encrypted_again() {
        let old = keys(&[("a", 1)]).encrypt(b"p", b"text").expect("encrypted");
        let both = keys(&[("ab", 2), ("a", 1)]);
        assert!(looks_encrypted(&old) && !both.is_current(&old));
        let new = both.reencrypt(b"p", &old).expect("decrypted").expect("encrypted again");
        assert!(both.is_current(&new));
        assert_eq!(keys(&[("ab", 2)]).decrypt(b"p", &new).expect("decrypted"), b"text");
        assert_eq!(both.reencrypt(b"p", &new), Ok(None));
        assert!(!looks_encrypted(b"{}") && !looks_encrypted(b""));
    }

    #[test]
    fn debug_output_shows_ids_and_no_key() {
        assert_eq!(format!("{:?}", keys(&[("b", 2), ("a", 1)])), r#"["b", "a"]"#);
    }
}
