//! Signatures by Standard Webhooks: `v1` (HMAC-SHA256) and `v1a` (ed25519).
//!
//! # Invariants
//! * The signed content is `id.timestamp.body`, byte for byte as it is sent.
//! * `Debug` never shows a key.

use std::fmt;

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};

const SYMMETRIC: &str = "whsec_";
const PRIVATE: &str = "whsk_";
const PUBLIC: &str = "whpk_";
/// The length of a generated symmetric key in bytes.
const GENERATED_LEN: usize = 24;
/// The lengths that a symmetric key may have, in bytes.
const SYMMETRIC_LEN: std::ops::RangeInclusive<usize> = 24..=75;
/// The length of the private half of an ed25519 key in bytes; its public half may follow.
const SEED_LEN: usize = 32;

/// Base64 with or without padding, because keys are found in both forms.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why a text is not a signing key. The error never contains the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SigningKeyError {
    /// The text is not base64.
    #[error("must be base64 after the prefix {SYMMETRIC} or {PRIVATE}")]
    NotBase64,
    /// The key has the wrong length.
    #[error("must have {min} to {max} bytes after its prefix, not {len}")]
    Length {
        /// The minimum length in bytes.
        min: usize,
        /// The maximum length in bytes.
        max: usize,
        /// The actual length in bytes.
        len: usize,
    },
    /// The public half does not belong to the private half.
    #[error("has a public key that does not belong to its private key")]
    Halves,
    /// The operating system returned no random bytes.
    #[error("cannot be generated: the operating system returned no random bytes")]
    NoRandomness,
}

/// A key that signs requests.
pub struct SigningKey {
    text: String,
    kind: SigningKeyKind,
}

enum SigningKeyKind {
    Symmetric(hmac::Key),
    Asymmetric(Box<Ed25519KeyPair>),
}

impl SigningKey {
    /// Parses `whsec_...` (the prefix is optional) or `whsk_...`.
    pub fn parse(text: &str) -> Result<Self, SigningKeyError> {
        let decode = |part: &str| LENIENT.decode(part).map_err(|_| SigningKeyError::NotBase64);
        if let Some(private) = text.strip_prefix(PRIVATE) {
            return Self::asymmetric(&decode(private)?);
        }
        let part = text.strip_prefix(SYMMETRIC).unwrap_or(text);
        let bytes = decode(part)?;
        if !SYMMETRIC_LEN.contains(&bytes.len()) {
            let (min, max) = (*SYMMETRIC_LEN.start(), *SYMMETRIC_LEN.end());
            return Err(SigningKeyError::Length { min, max, len: bytes.len() });
        }
        let kind = SigningKeyKind::Symmetric(hmac::Key::new(hmac::HMAC_SHA256, &bytes));
        Ok(Self { text: format!("{SYMMETRIC}{part}"), kind })
    }

    /// Generates a symmetric key.
    pub fn generate() -> Result<Self, SigningKeyError> {
        let bytes: [u8; GENERATED_LEN] = random()?;
        Self::parse(&format!("{SYMMETRIC}{}", STANDARD.encode(bytes)))
    }

    /// Generates an ed25519 key.
    pub fn generate_asymmetric() -> Result<Self, SigningKeyError> {
        Self::asymmetric(&random::<SEED_LEN>()?)
    }

    fn asymmetric(bytes: &[u8]) -> Result<Self, SigningKeyError> {
        let len = bytes.len();
        let wrong = SigningKeyError::Length { min: SEED_LEN, max: 2 * SEED_LEN, len };
        let (seed, public) = bytes.split_at_checked(SEED_LEN).ok_or(wrong.clone())?;
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| wrong)?;
        if !public.is_empty() && public != pair.public_key().as_ref() {
            return Err(SigningKeyError::Halves);
        }
        let whole = [seed, pair.public_key().as_ref()].concat();
        let text = format!("{PRIVATE}{}", STANDARD.encode(whole));
        Ok(Self { text, kind: SigningKeyKind::Asymmetric(Box::new(pair)) })
    }

    /// The key as text, as it is encrypted and stored.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The key that a receiver needs for verification: the key itself, or the public half as
    /// `whpk_...`.
    pub fn verifying_text(&self) -> String {
        match &self.kind {
            SigningKeyKind::Symmetric(_) => self.text.clone(),
            SigningKeyKind::Asymmetric(pair) => {
                format!("{PUBLIC}{}", STANDARD.encode(pair.public_key()))
            }
        }
    }

    /// The signature of a request, prefixed with its version.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let head = format!("{id}.{timestamp}.");
        match &self.kind {
            SigningKeyKind::Symmetric(key) => {
                let mut context = hmac::Context::with_key(key);
                context.update(head.as_bytes());
                context.update(body);
                format!("v1,{}", STANDARD.encode(context.sign()))
            }
            SigningKeyKind::Asymmetric(pair) => {
                let signature = pair.sign(&[head.as_bytes(), body].concat());
                format!("v1a,{}", STANDARD.encode(signature))
            }
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            SigningKeyKind::Symmetric(_) => "SigningKey(v1)",
            SigningKeyKind::Asymmetric(_) => "SigningKey(v1a)",
        })
    }
}

/// The signatures of several keys, as the value of one header.
pub(crate) fn signatures(keys: &[SigningKey], id: &str, timestamp: i64, body: &[u8]) -> String {
    let each = keys.iter().map(|key| key.sign(id, timestamp, body));
    each.collect::<Vec<_>>().join(" ")
}

fn random<const LEN: usize>() -> Result<[u8; LEN], SigningKeyError> {
    let mut bytes = [0; LEN];
    SystemRandom::new().fill(&mut bytes).map_err(|_| SigningKeyError::NoRandomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{"email":"test@example.com","username":"test_user"}"#;

    #[test]
    fn published_test_vectors_are_matched() {
        let key = SigningKey::parse("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").expect("a key");
        assert_eq!(
            key.sign("msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", 1_649_367_553, SAMPLE.as_bytes()),
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="
        );
        let bare = SigningKey::parse("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a key");
        assert_eq!(
            bare.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
        let private = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4\
                       AJ6p9lMicMFs6Kvg==";
        let key = SigningKey::parse(private).expect("a key");
        assert_eq!(
            key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#),
            "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7\
             TBAg=="
        );
        assert_eq!(key.text(), private);
        assert_eq!(key.verifying_text(), "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=");
    }

    #[test]
    fn an_asymmetric_signature_verifies_with_the_public_half() {
        let key = SigningKey::generate_asymmetric().expect("random");
        let signature = key.sign("msg_1", 7, b"{}");
        let signature = STANDARD.decode(&signature["v1a,".len()..]).expect("base64");
        let public = STANDARD.decode(&key.verifying_text()[PUBLIC.len()..]).expect("base64");
        let public = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, &public);
        assert!(public.verify(b"msg_1.7.{}", &signature).is_ok());
        assert!(public.verify(b"msg_1.8.{}", &signature).is_err());
    }

    #[test]
    fn generated_keys_differ_and_can_be_parsed() {
        for make in [SigningKey::generate, SigningKey::generate_asymmetric] {
            let (one, two) = (make().expect("random"), make().expect("random"));
            assert_ne!(one.text(), two.text());
            let read = SigningKey::parse(one.text()).expect("a key");
            assert_eq!(read.sign("m", 1, b"x"), one.sign("m", 1, b"x"));
        }
    }

    #[test]
    fn invalid_keys_are_refused_and_keys_are_never_shown() {
        let halves = format!("{PRIVATE}{}", STANDARD.encode([7; 64]));
        for wrong in ["", "whsec_", "whsec_!!", "whsec_c2hvcnQ=", "whsk_c2hvcnQ=", &halves] {
            assert!(SigningKey::parse(wrong).is_err(), "{wrong}");
        }
        let key = SigningKey::generate().expect("random");
        assert_eq!(format!("{key:?}"), "SigningKey(v1)");
    }

    #[test]
    fn during_a_rotation_every_key_signs() {
        let keys = [SigningKey::generate(), SigningKey::generate_asymmetric()];
        let keys = keys.map(|key| key.expect("random"));
        let both = signatures(&keys, "m", 1, b"x");
        let parts: Vec<_> = both.split(' ').collect();
        assert_eq!(parts, [keys[0].sign("m", 1, b"x"), keys[1].sign("m", 1, b"x")]);
    }
}
