//! The log of a partition. A message that is deleted leaves a gap: its offset is not used again.
//!
//! # Invariants
//! * No cursor stands in a gap, and no gap is parked or under a lease. The first offset of a log is
//!   not a gap.

use wakeline_core::{Subscription, Timestamp};

use super::state::{OracleMessage, OraclePartition};

impl OraclePartition {
    /// Returns the offset that the next message gets.
    pub(super) fn end(&self) -> i64 {
        self.first + i64::try_from(self.log.len()).expect("a log in memory is short")
    }

    /// Appends a message. Its time is no earlier than that of the message before it.
    pub(super) fn append(&mut self, message: OracleMessage) {
        self.last_push_at = self.last_push_at.max(message.created_at);
        self.log.push(OracleMessage { created_at: self.last_push_at, ..message });
    }

    pub(super) fn message(&self, offset: i64) -> &OracleMessage {
        let index = usize::try_from(offset - self.first).expect("it is stored");
        &self.log[index]
    }

    /// Returns the offset of the first message that was pushed at or after a time.
    pub(super) fn first_since(&self, from: Timestamp) -> i64 {
        let before = self.log.iter().take_while(|message| message.created_at < from).count();
        self.beyond(self.first + i64::try_from(before).expect("a log in memory is short"))
    }

    pub(super) fn beginning(&self, subscription: Subscription) -> i64 {
        match subscription {
            Subscription::All => self.first,
            Subscription::New => self.end(),
            Subscription::From(from) => self.first_since(from),
        }
    }

    /// Returns whether the message at an offset was deleted.
    pub(super) fn is_gap(&self, offset: i64) -> bool {
        let index = usize::try_from(offset - self.first).ok();
        index.and_then(|index| self.log.get(index)).is_some_and(|message| message.deleted)
    }

    /// Returns the first offset at or after the given one that is not a gap.
    pub(super) fn beyond(&self, offset: i64) -> i64 {
        (offset..self.end()).find(|offset| !self.is_gap(*offset)).unwrap_or(offset.max(self.end()))
    }

    /// Counts the messages from one offset up to, but not including, another.
    pub(super) fn between(&self, from: i64, to: i64) -> u64 {
        (from..to).filter(|offset| !self.is_gap(*offset)).count() as u64
    }

    /// Counts all stored messages.
    pub(super) fn stored(&self) -> u64 {
        self.between(self.first, self.end())
    }

    /// Removes gaps at the beginning of the log.
    pub(super) fn trim(&mut self) {
        let first = self.beyond(self.first);
        self.log.drain(..usize::try_from(first - self.first).expect("it is in the log"));
        self.first = first;
    }
}
