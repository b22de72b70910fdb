//! Converts duroxide's identifiers to names of the store and back.
//!
//! # Invariants
//! * The conversion is reversible: `unescape(escape(text)) == text` for every text.
//! * Ordinary identifiers do not change: only control characters and `%` are escaped, and the empty
//!   text becomes a single `%`.

use std::borrow::Cow;
use std::fmt::Write as _;

use duroxide::providers::ProviderError;
use wakeline_core::{InstanceId, KvKey, NameError, OrchestrationName, OwnerId, SessionId, Tag};

use crate::error::permanent;

fn escape(text: &str) -> Cow<'_, str> {
    if text.is_empty() {
        return Cow::Borrowed("%");
    }
    if !text.contains(is_special) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        if is_special(char) {
            for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                write!(escaped, "%{byte:02X}").expect("writing to a string cannot fail");
            }
        } else {
            escaped.push(char);
        }
    }
    Cow::Owned(escaped)
}

fn is_special(char: char) -> bool {
    char == '%' || char.is_control()
}

/// Reverses [`escape`]. A text that was not escaped is returned unchanged.
pub(crate) fn unescape(text: &str) -> String {
    if text == "%" {
        return String::new();
    }
    if !text.contains('%') {
        return text.to_owned();
    }
    decode(text.as_bytes()).unwrap_or_else(|| text.to_owned())
}

fn decode(mut escaped: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(escaped.len());
    while let Some((first, rest)) = escaped.split_first() {
        escaped = rest;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, rest) = escaped.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        escaped = rest;
    }
    String::from_utf8(bytes).ok()
}

fn name<T>(
    operation: &'static str,
    text: &str,
    new: impl Fn(&str) -> Result<T, NameError>,
) -> Result<T, ProviderError> {
    new(&escape(text)).map_err(|error| permanent(operation, error))
}

/// Converts the id of an instance.
pub(crate) fn instance(operation: &'static str, text: &str) -> Result<InstanceId, ProviderError> {
    name(operation, text, |text| InstanceId::new(text))
}

/// Converts the name of an orchestration.
pub(crate) fn orchestration(
    operation: &'static str,
    text: &str,
) -> Result<OrchestrationName, ProviderError> {
    name(operation, text, |text| OrchestrationName::new(text))
}

/// Converts a key of the key-value state.
pub(crate) fn key(operation: &'static str, text: &str) -> Result<KvKey, ProviderError> {
    name(operation, text, |text| KvKey::new(text))
}

/// Converts the tag of an activity.
pub(crate) fn tag(operation: &'static str, text: &str) -> Result<Tag, ProviderError> {
    name(operation, text, |text| Tag::new(text))
}

/// Converts the id of a session.
pub(crate) fn session(operation: &'static str, text: &str) -> Result<SessionId, ProviderError> {
    name(operation, text, |text| SessionId::new(text))
}

/// Converts the owner of sessions.
pub(crate) fn owner(operation: &'static str, text: &str) -> Result<OwnerId, ProviderError> {
    name(operation, text, |text| OwnerId::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_stay_as_they_are() {
        for text in ["order-1", "a::b", "naïve/ключ", "with space", "emoji 🎉"] {
            assert_eq!(escape(text), text);
            assert_eq!(unescape(text), text);
        }
    }

    #[test]
    fn escaping_is_reversible() {
        for text in ["", "%", "%%", "50%", "%41", "a\nb\t\0", "\u{85}x", "%\u{9f}ü"] {
            let escaped = escape(text);
            assert!(KvKey::new(&escaped).is_ok(), "{escaped} is not a name");
            assert_eq!(unescape(&escaped), text);
        }
    }

    #[test]
    fn escaping_is_injective() {
        let texts = ["", "%", "%25", "%2525", "\n", "%0A"];
        let escaped: std::collections::BTreeSet<_> = texts.iter().map(|t| escape(t)).collect();
        assert_eq!(escaped.len(), texts.len());
    }
}
