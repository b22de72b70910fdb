//! Encryption keys as text: `id:base64,id:base64`, or one `id:base64` per line in a file.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};

use crate::{EncryptionError, EncryptionKeys, KEY_LEN};

/// The maximum length of a key's id.
const ID_LEN_MAX: usize = 64;

/// The reason why a text does not contain valid encryption keys. Its message never quotes a key.
#[derive(Debug, thiserror::Error)]
pub enum EncryptionKeysError {
    /// The text contains no key.
    #[error("there is no encryption key in it: `wakeline encryption-key` prints one")]
    Empty,
    /// A key has no valid id.
    #[error("encryption key {place} needs an id of 1 to {ID_LEN_MAX} letters, digits, '-' and '_'")]
    Id {
        /// The position of the key, counted from 1.
        place: usize,
    },
    /// A key is not valid.
    #[error(
        "encryption key {id:?} is not {KEY_LEN} bytes in base64: `wakeline encryption-key` prints \
         a valid one"
    )]
    Key {
        /// The key's id.
        id: String,
    },
    /// Two keys have the same id.
    #[error("the id {id:?} is used by two encryption keys: give each key its own id")]
    DuplicateId {
        /// The id.
        id: String,
    },
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    File(#[from] std::io::Error),
}

impl EncryptionKeys {
    /// Parses keys from text, separated by commas or line ends. The first key encrypts. Empty lines
    /// and lines that begin with `#` are skipped.
    pub fn parse(text: &str) -> Result<Self, EncryptionKeysError> {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let entries = lines.flat_map(|line| line.split(',')).map(str::trim);
        let mut keys: Vec<(String, [u8; KEY_LEN])> = Vec::new();
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let place = keys.len() + 1;
            let (id, key) = entry.split_once(':').ok_or(EncryptionKeysError::Id { place })?;
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if id.is_empty() || id.len() > ID_LEN_MAX || !id.chars().all(allowed) {
                return Err(EncryptionKeysError::Id { place });
            }
            if keys.iter().any(|(known, _)| known == id) {
                return Err(EncryptionKeysError::DuplicateId { id: id.to_owned() });
            }
            let bytes = STANDARD.decode(key.trim()).ok().and_then(|key| key.try_into().ok());
            let bytes = bytes.ok_or_else(|| EncryptionKeysError::Key { id: id.to_owned() })?;
            keys.push((id.to_owned(), bytes));
        }
        if keys.is_empty() {
            return Err(EncryptionKeysError::Empty);
        }
        Ok(Self::from_keys(keys))
    }

    /// Reads keys from a file.
    pub fn read(path: &Path) -> Result<Self, EncryptionKeysError> {
        Self::parse(&std::fs::read_to_string(path)?)
    }

    /// Generates a new key as text: `id:base64`.
    pub fn generate(id: &str) -> Result<String, EncryptionError> {
        let mut key = [0; KEY_LEN];
        SystemRandom::new().fill(&mut key).map_err(|_| EncryptionError::NoRandomness)?;
        Ok(format!("{id}:{}", STANDARD.encode(key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_keys_are_read_from_text_and_from_a_file() {
        let one = EncryptionKeys::generate("one").expect("random");
        let two = EncryptionKeys::generate("two").expect("random");
        assert_ne!(
            one.split_once(':').map(|(_, key)| key),
            two.split_once(':').map(|(_, key)| key)
        );
        let line = EncryptionKeys::parse(&format!("{one},{two}")).expect("two keys");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), format!("# keys\n\n{one}\n{two}\n")).expect("written");
        let read = EncryptionKeys::read(file.path()).expect("two keys");
        assert_eq!(read.active(), "one");
        let encrypted = line.encrypt(b"p", b"text").expect("encrypted");
        assert_eq!(read.decrypt(b"p", &encrypted).expect("decrypted"), b"text");
    }

    #[test]
    fn invalid_keys_are_refused_without_quoting_them() {
        let good = EncryptionKeys::generate("a").expect("random");
        let short = "a:c2hvcnQ=";
        for (text, says) in [
            ("", "no encryption key"),
            ("# nothing\n", "no encryption key"),
            ("c2VjcmV0", "needs an id"),
            (":c2VjcmV0", "needs an id"),
            ("a b:c2VjcmV0", "needs an id"),
            (short, "32 bytes"),
            ("a:!", "32 bytes"),
            (&format!("{good},{good}"), "two encryption keys"),
        ] {
            let error = EncryptionKeys::parse(text).expect_err(text).to_string();
            assert!(error.contains(says), "{text}: {error}");
            assert!(!error.contains("c2"), "{error}");
        }
    }
}
