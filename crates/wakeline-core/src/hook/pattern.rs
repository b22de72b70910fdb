//! Event types, the patterns that match them, and channels.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The maximum length of an event type or a pattern, in characters.
const EVENT_TYPE_LEN_MAX: usize = 256;
/// The maximum length of a channel, in characters.
const CHANNEL_LEN_MAX: usize = 128;

/// The reason why a text is not an event type, a pattern or a channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookTextError {
    /// The text is empty or too long.
    #[error("{kind} must have 1 to {max} characters, not {len}")]
    Length {
        /// The kind of text that was expected.
        kind: &'static str,
        /// The maximum number of characters.
        max: usize,
        /// The number of characters of the text.
        len: usize,
    },
    /// The text has a character that is not allowed.
    #[error("{kind} may only contain {allowed}, not {found:?}")]
    Character {
        /// The kind of text that was expected.
        kind: &'static str,
        /// The characters that are allowed.
        allowed: &'static str,
        /// The first invalid character.
        found: char,
    },
}

fn plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn check_len(kind: &'static str, text: &str, max: usize) -> Result<(), HookTextError> {
    let len = text.chars().count();
    if len == 0 || len > max {
        return Err(HookTextError::Length { kind, max, len });
    }
    Ok(())
}

macro_rules! text {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = HookTextError;
            fn try_from(text: String) -> Result<Self, HookTextError> {
                Self::new(text)
            }
        }

        impl From<$type> for String {
            fn from(text: $type) -> Self {
                text.0.as_ref().to_owned()
            }
        }
    };
}

text!(
    /// The type of the event that a message reports, for example `invoice.paid`.
    EventTypeName
);
text!(
    /// The event types that an endpoint receives: one of them, or all with the same beginning
    /// (`invoice.*`); `*` is all.
    EventPattern
);
text!(
    /// A second criterion for selecting messages, besides their type: a project, a customer's
    /// customer.
    Channel
);

impl EventTypeName {
    /// Accepts letters, digits, `-`, `_` and `.`.
    pub fn new(text: impl AsRef<str>) -> Result<Self, HookTextError> {
        let (kind, text) = ("eventType", text.as_ref());
        check_len(kind, text, EVENT_TYPE_LEN_MAX)?;
        if let Some(found) = text.chars().find(|c| !plain(*c)) {
            let allowed = "letters, digits, '-', '_' and '.'";
            return Err(HookTextError::Character { kind, allowed, found });
        }
        Ok(Self(text.into()))
    }

    /// Returns every pattern that matches this type: itself, and each beginning followed by `*`. A
    /// store finds the endpoints of a message by looking these up.
    pub fn patterns(&self) -> Vec<String> {
        let beginnings = (0..=self.0.len()).map(|end| format!("{}*", &self.0[..end]));
        std::iter::once(self.0.as_ref().to_owned()).chain(beginnings).collect()
    }
}

impl EventPattern {
    /// Accepts an event type, or the beginning of one followed by `*`.
    pub fn new(text: impl AsRef<str>) -> Result<Self, HookTextError> {
        let (kind, text) = ("eventTypes", text.as_ref());
        check_len(kind, text, EVENT_TYPE_LEN_MAX)?;
        let beginning = text.strip_suffix('*').unwrap_or(text);
        if let Some(found) = beginning.chars().find(|c| !plain(*c)) {
            let allowed = "letters, digits, '-', '_', '.' and a '*' at the end";
            return Err(HookTextError::Character { kind, allowed, found });
        }
        Ok(Self(text.into()))
    }

    /// Returns the pattern that matches every type.
    pub fn all() -> Self {
        Self("*".into())
    }

    /// Returns whether the pattern matches a type.
    pub fn matches(&self, event_type: &EventTypeName) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => event_type.as_str().starts_with(beginning),
            None => *self.0 == *event_type.0,
        }
    }
}

impl Channel {
    /// Accepts letters, digits, `-`, `_`, `.` and `:`.
    pub fn new(text: impl AsRef<str>) -> Result<Self, HookTextError> {
        let (kind, text) = ("channels", text.as_ref());
        check_len(kind, text, CHANNEL_LEN_MAX)?;
        if let Some(found) = text.chars().find(|c| !plain(*c) && *c != ':') {
            let allowed = "letters, digits, '-', '_', '.' and ':'";
            return Err(HookTextError::Character { kind, allowed, found });
        }
        Ok(Self(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_up_the_patterns_of_a_type_finds_exactly_what_matches() {
        let event = EventTypeName::new("order.paid").expect("valid");
        let found = event.patterns();
        for (pattern, matches) in [
            ("order.paid", true),
            ("*", true),
            ("order.*", true),
            ("order.paid*", true),
            ("ord*", true),
            ("order", false),
            ("orders.*", false),
            ("order.paid.*", false),
        ] {
            let pattern = EventPattern::new(pattern).expect("valid");
            assert_eq!(pattern.matches(&event), matches, "{pattern}");
            assert_eq!(found.iter().any(|text| text == pattern.as_str()), matches, "{pattern}");
        }
    }

    #[test]
    fn a_star_stands_at_the_end_or_nowhere() {
        for wrong in ["", "a.*.b", "**", "a b", "a/b", &"x".repeat(257)] {
            assert!(EventPattern::new(wrong).is_err(), "{wrong}");
        }
        assert!(EventTypeName::new("order.*").is_err());
        assert!(Channel::new("project:7").is_ok());
    }
}
