//! Reads the TOML file and explains errors in it without showing secrets.
//!
//! # Invariants
//! * An error names the line and the key. The line itself is never shown, because it may contain an
//!   encryption key.

use std::path::Path;

use serde::Deserialize as _;

use super::names::explain_unknown_key;
use super::words::explain_value;
use super::{ServeArgs, UsageError};

/// Maximum length of a setting's name.
const NAME_LEN_MAX: usize = 40;

pub(super) fn read(path: &Path) -> Result<ServeArgs, UsageError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| UsageError(format!("config: cannot read {shown}: {error}")))?;
    let mistake = |error: toml::de::Error| {
        let place = error.span().map(|span| place(&text, span.start)).unwrap_or_default();
        let why =
            explain_value(error.message()).unwrap_or_else(|| explain_unknown_key(error.message()));
        UsageError(format!("config: {shown}: {place}{why}"))
    };
    toml::from_str(&text).map_err(mistake)
}

/// The number of the line at an offset, and the name of the setting if the line begins with one.
fn place(text: &str, at: usize) -> String {
    let before = &text.as_bytes()[..at.min(text.len())];
    let number = before.iter().filter(|byte| **byte == b'\n').count();
    let line = text.lines().nth(number).unwrap_or_default();
    let name = line.split_once('=').map_or("", |(name, _)| name.trim());
    let plain = |c: char| c.is_ascii_lowercase() || c == '_';
    let is_name = !name.is_empty() && name.len() <= NAME_LEN_MAX && name.chars().all(plain);
    if is_name {
        format!("line {}, {name}: ", number + 1)
    } else {
        format!("line {}: ", number + 1)
    }
}

/// Deserializes a text that error messages must not show.
pub(super) fn secret<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<String>, D::Error> {
    match toml::Value::deserialize(from) {
        Ok(toml::Value::String(text)) => Ok(Some(text)),
        _ => Err(serde::de::Error::custom("must be a string in quotes")),
    }
}
