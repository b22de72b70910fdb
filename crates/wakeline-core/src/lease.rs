//! Leases: the right to settle what was delivered, until a time by the database's clock.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use crate::id::{IdError, PartitionId};

/// The fencing token of one delivery. It is created by the node and passed in with the claim, so
/// that a claim whose answer was lost can be released by its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken(pub Uuid);

impl LeaseToken {
    /// Generates a token for a claim.
    pub fn generate() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies a consumer group of one queue within a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub i32);

/// Identifies a cursor: how far one group has read one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CursorId {
    /// The partition that is read.
    pub partition: PartitionId,
    /// The group that reads it.
    pub group: GroupId,
}

/// The client's handle of a delivery: the token and the cursors that it leased. It is opaque on the
/// wire. It is also self-describing, so no index over tokens is needed to find the rows again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseId {
    /// The fencing token.
    pub token: LeaseToken,
    /// The cursors that were leased with the token, at most [`LeaseId::CURSORS_MAX`].
    pub cursors: Vec<CursorId>,
}

impl LeaseId {
    /// The maximum number of partitions that one pop may lease.
    pub const CURSORS_MAX: usize = 100;
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::with_capacity(16 + self.cursors.len() * 12);
        bytes.extend_from_slice(self.token.0.as_bytes());
        for cursor in &self.cursors {
            bytes.extend_from_slice(&cursor.group.0.to_be_bytes());
            bytes.extend_from_slice(&cursor.partition.0.to_be_bytes());
        }
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for LeaseId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let unknown = IdError { kind: "leaseId" };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| unknown.clone())?;
        let (token, cursors) = bytes.split_first_chunk::<16>().ok_or(unknown.clone())?;
        if cursors.len() % 12 != 0 || cursors.len() / 12 > Self::CURSORS_MAX {
            return Err(unknown);
        }
        let cursors = cursors
            .chunks_exact(12)
            .map(|chunk| {
                let (group, partition) = chunk.split_at(4);
                CursorId {
                    group: GroupId(i32::from_be_bytes(group.try_into().expect("4 bytes"))),
                    partition: PartitionId(i64::from_be_bytes(
                        partition.try_into().expect("8 bytes"),
                    )),
                }
            })
            .collect();
        Ok(Self { token: LeaseToken(Uuid::from_bytes(*token)), cursors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lease_ids_describe_themselves(
            token in any::<u128>(),
            cursors in proptest::collection::vec((any::<i32>(), any::<i64>()), 0..100),
        ) {
            let lease = LeaseId {
                token: LeaseToken(Uuid::from_u128(token)),
                cursors: cursors
                    .into_iter()
                    .map(|(g, p)| CursorId { group: GroupId(g), partition: PartitionId(p) })
                    .collect(),
            };
            prop_assert_eq!(lease.to_string().parse::<LeaseId>(), Ok(lease));
        }

        #[test]
        fn other_texts_are_refused_and_not_misread(text in ".{0,80}") {
            if let Ok(lease) = text.parse::<LeaseId>() {
                prop_assert_eq!(lease.to_string(), text);
            }
        }
    }
}
