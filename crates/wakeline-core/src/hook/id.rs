//! Ids with a prefix, and the references by which requests name things.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::IdError;
use crate::name::{NameError, check, name};

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Digits that hold any 128 bits.
const ID_LEN: usize = 22;

fn encode(prefix: &str, uuid: Uuid) -> String {
    let mut digits = [b'0'; ID_LEN];
    let mut rest = uuid.as_u128();
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[usize::try_from(rest % 62).expect("below 62")];
        rest /= 62;
    }
    let mut text = String::with_capacity(prefix.len() + ID_LEN);
    text.push_str(prefix);
    text.extend(digits.map(char::from));
    text
}

fn decode(prefix: &str, text: &str) -> Option<Uuid> {
    let digits = text.strip_prefix(prefix)?;
    if digits.len() != ID_LEN {
        return None;
    }
    let mut value: u128 = 0;
    for digit in digits.bytes() {
        let place = DIGITS.iter().position(|known| *known == digit)?;
        value = value.checked_mul(62)?.checked_add(u128::try_from(place).ok()?)?;
    }
    Some(Uuid::from_u128(value))
}

macro_rules! id {
    ($(#[$doc:meta])* $type:ident, $prefix:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(pub Uuid);

        impl $type {
            /// What its text begins with.
            pub const PREFIX: &'static str = $prefix;

            /// Makes a new id, ordered by time within this process.
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&encode($prefix, self.0))
            }
        }

        impl FromStr for $type {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                decode($prefix, text).map(Self).ok_or(IdError { kind: $kind })
            }
        }

        impl TryFrom<String> for $type {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(id: $type) -> Self {
                id.to_string()
            }
        }
    };
}

id!(
    /// Identifies an application: one tenant.
    ApplicationId, "app_", "application id"
);
id!(
    /// Identifies an endpoint.
    EndpointId, "ep_", "endpoint id"
);
id!(
    /// Identifies a message; sent to receivers as `webhook-id`, the same over all attempts.
    HookMessageId, "msg_", "message id"
);
id!(
    /// Identifies an attempt. It is the key of the lease under which the attempt is made.
    AttemptId, "atmpt_", "attempt id"
);
id!(
    /// Identifies a background job: a recovery, a replay, a change of many deliveries.
    JobId, "qtask_", "task id"
);

name!(
    /// A user's own id of an application or endpoint. See [`Uid::parse`].
    Uid, "uid"
);
name!(
    /// A user's own id of a message, unique within its application.
    EventId, "eventId"
);
name!(
    /// Names a request, so that repeating it makes one thing.
    IdempotencyKey, "idempotency-key"
);

const PREFIXES: [&str; 5] = [
    ApplicationId::PREFIX,
    EndpointId::PREFIX,
    HookMessageId::PREFIX,
    AttemptId::PREFIX,
    JobId::PREFIX,
];

/// Whether a text reads like an id that this server gave out.
fn looks_given(text: &str) -> bool {
    PREFIXES.iter().any(|prefix| decode(prefix, text).is_some())
}

/// Why a text cannot be a user's own id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UidError {
    /// It does not keep the rules of names.
    #[error(transparent)]
    Name(#[from] NameError),
    /// It has other characters than letters, digits, `-`, `_` and `.`.
    #[error("{kind} may only contain letters, digits, '-', '_' and '.', not {found:?}")]
    Character {
        /// What was being named.
        kind: &'static str,
        /// The first offending character.
        found: char,
    },
    /// It reads like an id of this server.
    #[error("{kind} must not have the form of an id of this server")]
    LooksGiven {
        /// What was being named.
        kind: &'static str,
    },
}

fn check_own(kind: &'static str, text: &str) -> Result<(), UidError> {
    check(kind, text)?;
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if let Some(found) = text.chars().find(|c| !plain(c)) {
        return Err(UidError::Character { kind, found });
    }
    if looks_given(text) {
        return Err(UidError::LooksGiven { kind });
    }
    Ok(())
}

impl Uid {
    /// Accepts a user's own id: letters, digits, `-`, `_`, `.`, and not one of ours.
    pub fn parse(text: &str) -> Result<Self, UidError> {
        check_own("uid", text)?;
        Ok(Self::new(text)?)
    }
}

impl EventId {
    /// Accepts a user's own id of a message, by the rules of [`Uid::parse`].
    pub fn parse(text: &str) -> Result<Self, UidError> {
        check_own("eventId", text)?;
        Ok(Self::new(text)?)
    }
}

macro_rules! reference {
    ($(#[$doc:meta])* $type:ident, $id:ty, $own:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum $type {
            /// By the id that this server gave.
            Id($id),
            /// By the user's own id.
            Own($own),
        }

        impl $type {
            /// Reads what stands in a path.
            pub fn parse(text: &str) -> Result<Self, UidError> {
                match text.parse() {
                    Ok(id) => Ok(Self::Id(id)),
                    Err(IdError { .. }) => Ok(Self::Own(<$own>::parse(text)?)),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::Id(id) => id.fmt(f),
                    Self::Own(own) => own.fmt(f),
                }
            }
        }
    };
}

reference!(
    /// Names an application in a request.
    ApplicationRef, ApplicationId, Uid
);
reference!(
    /// Names an endpoint of an application in a request.
    EndpointRef, EndpointId, Uid
);
reference!(
    /// Names a message of an application in a request.
    MessageRef, HookMessageId, EventId
);

/// The lease of a delivery: the right to make one attempt and to say how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeliveryToken {
    /// The delivery's row.
    pub delivery: i64,
    /// The attempt; made by the node that claimed.
    pub attempt: AttemptId,
}

impl fmt::Display for DeliveryToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{:x}-{}", self.delivery, self.attempt.0.simple())
    }
}

impl FromStr for DeliveryToken {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let read = || {
            let (row, key) = text.strip_prefix('d')?.split_once('-')?;
            let plain = !row.starts_with('+');
            let delivery = i64::from_str_radix(row, 16).ok().filter(|row| plain && *row >= 0)?;
            let attempt = AttemptId(Uuid::try_parse(key).ok()?);
            Some(Self { delivery, attempt })
        };
        read().ok_or(IdError { kind: "token" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back_and_sort_like_their_numbers() {
        let small = HookMessageId(Uuid::from_u128(61));
        let large = HookMessageId(Uuid::from_u128(62));
        assert!(small.to_string() < large.to_string());
        for id in [small, large, HookMessageId(Uuid::max()), HookMessageId::generate()] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let foreign = EndpointId::generate().to_string();
        for wrong in ["", "msg_", "msg_1", &foreign, "msg_zzzzzzzzzzzzzzzzzzzzzz"] {
            assert!(wrong.parse::<HookMessageId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn own_ids_cannot_be_mistaken_for_given_ones() {
        let given = ApplicationId::generate();
        assert_eq!(ApplicationRef::parse(&given.to_string()), Ok(ApplicationRef::Id(given)));
        let own = Uid::parse("customer-7.eu").expect("valid");
        assert_eq!(ApplicationRef::parse("customer-7.eu"), Ok(ApplicationRef::Own(own)));
        let endpoint = EndpointId::generate().to_string();
        assert!(matches!(Uid::parse(&endpoint), Err(UidError::LooksGiven { kind: "uid" })));
        assert!(matches!(Uid::parse("a b"), Err(UidError::Character { found: ' ', .. })));
    }

    #[test]
    fn tokens_are_read_back_from_their_text_and_nothing_else_is() {
        let token = DeliveryToken { delivery: 42, attempt: AttemptId::generate() };
        assert_eq!(token.to_string().parse(), Ok(token));
        for wrong in ["", "d", "d1", "d1-", "x1-00000000000000000000000000000007", "d-1-2"] {
            assert!(wrong.parse::<DeliveryToken>().is_err(), "{wrong}");
        }
    }
}
