//! Identities: messages, partitions, nodes, and the transaction ids that producers choose.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::name::{self, NameError};

/// The reason why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} is not a valid id: use one that this server returned")]
pub struct IdError {
    /// The kind of id that was expected.
    pub kind: &'static str,
}

/// Identifies a message. It is a UUIDv7, created by the node that accepted the push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub Uuid);

impl MessageId {
    /// Generates a new id, ordered by time within this process.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies a partition within one store.
///
/// Stores number their partitions; clients expect a UUID. The wire form is a UUIDv8 that contains
/// the number, so no table is needed to translate between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub i64);

const PARTITION_UUID_HIGH: u64 = 0x7761_6b65_6c6e_8000;
const PARTITION_UUID_VARIANT: u64 = 0x8000_0000_0000_0000;

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let low = PARTITION_UUID_VARIANT | self.0.unsigned_abs();
        Uuid::from_u64_pair(PARTITION_UUID_HIGH, low).fmt(f)
    }
}

impl FromStr for PartitionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let unknown = IdError { kind: "partitionId" };
        let uuid = Uuid::parse_str(text).map_err(|_| unknown.clone())?;
        let (high, low) = uuid.as_u64_pair();
        let number = low & !(0b11 << 62);
        if high != PARTITION_UUID_HIGH || low >> 62 != 0b10 {
            return Err(unknown);
        }
        i64::try_from(number).map(Self).map_err(|_| unknown)
    }
}

/// Identifies a dead letter within one store. The numbers increase and are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeadLetterId(pub i64);

impl fmt::Display for DeadLetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for DeadLetterId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.parse().map(Self).map_err(|_| IdError { kind: "deadLetterId" })
    }
}

/// Identifies a job that redrives dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RedriveId(pub Uuid);

impl RedriveId {
    /// Generates a new id.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for RedriveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RedriveId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Uuid::parse_str(text).map(Self).map_err(|_| IdError { kind: "job" })
    }
}

/// Identifies a running process among those that share a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId(pub Uuid);

impl NodeId {
    /// Generates the id of a process that starts.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a push, so that repeating it creates only one message. It is unique per partition within
/// the queue's dedup window, and follows the rules of names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TransactionId(Box<str>);

impl TransactionId {
    /// Accepts a producer's own id.
    pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
        let text = text.as_ref();
        name::check("transactionId", text)?;
        Ok(Self(text.into()))
    }

    /// Generates an id that was never used before.
    pub fn generate() -> Self {
        Self(Uuid::now_v7().to_string().into())
    }

    /// Returns the id of a push whose producer named none, derived from its message.
    pub fn of_message(id: MessageId) -> Self {
        Self(id.0.to_string().into())
    }

    /// Returns whether this is [`TransactionId::of_message`]. Then no other message can have it.
    pub fn names_message(&self, id: MessageId) -> bool {
        let mut text = uuid::Uuid::encode_buffer();
        *self.0 == *id.0.hyphenated().encode_lower(&mut text)
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for TransactionId {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl From<TransactionId> for String {
    fn from(id: TransactionId) -> Self {
        id.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_without_a_name_is_named_by_its_message() {
        let (id, other) = (MessageId::generate(), MessageId::generate());
        let name = TransactionId::of_message(id);
        assert!(name.names_message(id) && !name.names_message(other));
        assert_eq!(name.as_str(), id.to_string());
        assert!(!TransactionId::generate().names_message(id));
    }

    #[test]
    fn partition_ids_travel_as_uuids() {
        for number in [0, 1, 77, i64::from(u32::MAX), (1 << 62) - 1] {
            let text = PartitionId(number).to_string();
            assert_eq!(Uuid::parse_str(&text).expect("a UUID").get_version_num(), 8);
            assert_eq!(text.parse(), Ok(PartitionId(number)));
        }
        for invalid in ["", "x", "00000000-0000-0000-0000-000000000001"] {
            assert!(invalid.parse::<PartitionId>().is_err(), "{invalid}");
        }
    }
}
