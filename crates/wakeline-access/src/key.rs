//! API keys: `wk_<id>_<secret>`.
//!
//! # Invariants
//! * A secret has 256 random bits, so it is sufficient to store a plain SHA-256 of it.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use wakeline_store::SecretDigest;

const PREFIX: &str = "wk_";
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 32;

/// A key that was just created. Its secret is available only here.
#[derive(Clone)]
pub struct MintedKey {
    /// The key's id.
    pub id: String,
    /// The complete key, as requests send it.
    pub text: String,
    /// The digest of the secret, which is stored.
    pub digest: SecretDigest,
}

impl MintedKey {
    /// Generates a key with a new id.
    pub(crate) fn new() -> Self {
        Self::with_id(hex(&random::<ID_BYTES>()))
    }

    /// Generates a new secret for the key with this id.
    pub(crate) fn with_id(id: String) -> Self {
        let secret = hex(&random::<SECRET_BYTES>());
        let digest = digest_of(&secret);
        Self { text: format!("{PREFIX}{id}_{secret}"), id, digest }
    }
}

/// Returns the id and the secret's digest of a text that has the form of a key.
pub(crate) fn parse(text: &str) -> Option<(&str, SecretDigest)> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let plain = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_key = plain(id, 2 * ID_BYTES) && plain(secret, 2 * SECRET_BYTES);
    is_key.then(|| (id, digest_of(secret)))
}

fn digest_of(secret: &str) -> SecretDigest {
    let digest = digest(&SHA256, secret.as_bytes());
    digest.as_ref().try_into().expect("a SHA-256 has 32 bytes")
}

fn random<const LEN: usize>() -> [u8; LEN] {
    let mut bytes = [0; LEN];
    SystemRandom::new().fill(&mut bytes).expect("the system has random numbers");
    bytes
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_made() {
        let key = MintedKey::new();
        assert_eq!(parse(&key.text), Some((key.id.as_str(), key.digest)));
        let other = MintedKey::with_id(key.id.clone());
        assert_eq!(other.id, key.id);
        assert_ne!(other.digest, key.digest);
        assert!(!other.text.contains(&hex(&other.digest)));
    }

    #[test]
    fn invalid_keys_are_not_looked_up() {
        let key = MintedKey::new().text;
        let short = &key[..key.len() - 1];
        let wide = format!("{key}0");
        let odd = key.replacen("wk_", "wk_%_", 1);
        for text in ["", "wk_", "wk_a_b", "wk__", short, &wide, &odd, &key[1..]] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
