//! A key ring for what must not be stored in the clear: signing keys and headers of webhooks,
//! payloads of messages.
//!
//! # Where it sits
//! Webhooks seal before they call a store and open what it returns. Payloads are sealed by the
//! stores, where all ways into a queue meet (`Sealing` of `wakeline-store`).
//!
//! # Invariants
//! * Nothing is sealed without a key: there is no empty ring, and no plain form of sealed bytes.
//! * Sealed bytes open only in the place that they were sealed for (`place` is authenticated), and
//!   only unchanged.
//! * Any key of the ring opens; the first one seals. So keys are changed by putting a new one in
//!   front, and dropping the old one when nothing is sealed with it any more.
//!
//! # Form
//! `1 | length of the key's id | the key's id | 12 bytes nonce | ciphertext and tag`, AES-256-GCM.

mod ring_text;

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

pub use ring_text::KeyRingError;

/// The form of sealed bytes that is written.
const FORM: u8 = 1;
/// Bytes of a key.
const KEY_LEN: usize = 32;

/// Why sealed bytes cannot be opened, or nothing can be sealed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The key that sealed them is not in the ring. Add it behind the others.
    #[error(
        "it was encrypted with the key {0:?}, which is not among the configured encryption \
         keys: add it to them"
    )]
    UnknownKey(String),
    /// They were changed, cut, or sealed for another place.
    #[error("the encrypted data is damaged, or belongs to another row: restore it from a backup")]
    Tampered,
    /// They have a form that this version does not know.
    #[error(
        "the encrypted data has the format {0}, which this release does not know: use a newer one"
    )]
    UnknownForm(u8),
    /// The system gave no random bytes.
    #[error("the operating system returned no random bytes")]
    NoRandomness,
}

/// Keys with ids: the first one seals, all of them open.
pub struct KeyRing {
    keys: Vec<Key>,
}

struct Key {
    id: String,
    key: LessSafeKey,
}

/// Whether bytes were sealed, if they are sealed bytes or JSON text: none begins so.
pub fn is_sealed(bytes: &[u8]) -> bool {
    bytes.first() == Some(&FORM)
}

impl KeyRing {
    /// Whether sealed bytes were sealed with the key that seals now.
    pub fn is_current(&self, sealed: &[u8]) -> bool {
        let id = self.active().as_bytes();
        let begins = sealed.strip_prefix(&[FORM, id.len() as u8]);
        begins.is_some_and(|rest| rest.starts_with(id))
    }

    /// Seals anew, with the key that seals now; `None` if that was the one.
    pub fn reseal(&self, place: &[u8], sealed: &[u8]) -> Result<Option<Vec<u8>>, SealError> {
        if self.is_current(sealed) {
            return Ok(None);
        }
        self.seal(place, &self.open(place, sealed)?).map(Some)
    }

    /// The id of the key that seals.
    pub fn active(&self) -> &str {
        &self.keys[0].id
    }

    /// Seals for a place: a row's id, say. The same place must be named to open it.
    pub fn seal(&self, place: &[u8], plain: &[u8]) -> Result<Vec<u8>, SealError> {
        let key = &self.keys[0];
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
        let id_len = u8::try_from(key.id.len()).expect("ids were measured when they were read");
        let mut sealed = vec![FORM, id_len];
        sealed.extend_from_slice(key.id.as_bytes());
        sealed.extend_from_slice(&nonce);
        let begin = sealed.len();
        sealed.extend_from_slice(plain);
        let tag = key
            .key
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(place),
                &mut sealed[begin..],
            )
            .expect("only texts of many gigabytes are too long");
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed)
    }

    /// Opens what was sealed for a place.
    pub fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (&form, rest) = sealed.split_first().ok_or(SealError::Tampered)?;
        if form != FORM {
            return Err(SealError::UnknownForm(form));
        }
        let (&id_len, rest) = rest.split_first().ok_or(SealError::Tampered)?;
        let (id, rest) = rest.split_at_checked(id_len.into()).ok_or(SealError::Tampered)?;
        let (nonce, ciphertext) = rest.split_first_chunk().ok_or(SealError::Tampered)?;
        let Some(key) = self.keys.iter().find(|key| key.id.as_bytes() == id) else {
            return Err(SealError::UnknownKey(String::from_utf8_lossy(id).into_owned()));
        };
        let mut opened = ciphertext.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = key
            .key
            .open_in_place(nonce, Aad::from(place), &mut opened)
            .map_err(|_| SealError::Tampered)?
            .len();
        opened.truncate(plain);
        Ok(opened)
    }

    fn from_keys(keys: Vec<(String, [u8; KEY_LEN])>) -> Self {
        let key = |(id, bytes): (String, [u8; KEY_LEN])| {
            let key = UnboundKey::new(&AES_256_GCM, &bytes).expect("a key of the right length");
            Key { id, key: LessSafeKey::new(key) }
        };
        Self { keys: keys.into_iter().map(key).collect() }
    }
}

/// Shows the ids only.
impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(ids: &[(&str, u8)]) -> KeyRing {
        KeyRing::from_keys(ids.iter().map(|(id, fill)| ((*id).to_owned(), [*fill; 32])).collect())
    }

    #[test]
    fn what_was_sealed_opens_in_its_place_only() {
        let ring = ring(&[("a", 1)]);
        let sealed = ring.seal(b"ep_1", b"secret").expect("sealed");
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        assert_eq!(ring.open(b"ep_1", &sealed).expect("opened"), b"secret");
        assert_eq!(ring.open(b"ep_2", &sealed), Err(SealError::Tampered));
    }

    #[test]
    fn two_seals_of_one_text_differ() {
        let ring = ring(&[("a", 1)]);
        assert_ne!(ring.seal(b"", b"x"), ring.seal(b"", b"x"));
    }

    #[test]
    fn any_changed_or_missing_byte_is_noticed() {
        let ring = ring(&[("a", 1)]);
        let sealed = ring.seal(b"p", b"text").expect("sealed");
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(ring.open(b"p", &changed).is_err(), "byte {place}");
            assert!(ring.open(b"p", &sealed[..place]).is_err(), "cut at {place}");
        }
    }

    #[test]
    fn an_old_key_opens_and_the_new_one_seals() {
        let old = ring(&[("a", 1)]).seal(b"p", b"text").expect("sealed");
        let both = ring(&[("b", 2), ("a", 1)]);
        assert_eq!(both.open(b"p", &old).expect("opened"), b"text");
        let new = both.seal(b"p", b"text").expect("sealed");
        assert_eq!(both.active(), "b");
        let lost = ring(&[("a", 1)]).open(b"p", &new);
        assert_eq!(lost, Err(SealError::UnknownKey("b".to_owned())));
    }

    #[test]
    fn only_what_another_key_sealed_is_sealed_anew() {
        let old = ring(&[("a", 1)]).seal(b"p", b"text").expect("sealed");
        let both = ring(&[("ab", 2), ("a", 1)]);
        assert!(is_sealed(&old) && !both.is_current(&old));
        let new = both.reseal(b"p", &old).expect("opened").expect("sealed anew");
        assert!(both.is_current(&new));
        assert_eq!(ring(&[("ab", 2)]).open(b"p", &new).expect("opened"), b"text");
        assert_eq!(both.reseal(b"p", &new), Ok(None));
        assert!(!is_sealed(b"{}") && !is_sealed(b""));
    }

    #[test]
    fn a_ring_shows_its_ids_and_no_key() {
        assert_eq!(format!("{:?}", ring(&[("b", 2), ("a", 1)])), r#"["b", "a"]"#);
    }
}
