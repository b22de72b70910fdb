//! The log of a partition. Messages that were deleted one by one leave gaps in it: their offsets
//! stay.
//!
//! # Invariants
//! * No cursor stands in a gap, and none is parked or under a lease. The first message of a log is
//!   stored.

use wakeline_core::{Subscription, Timestamp};

use super::state::{Message, Partition};

impl Partition {
    /// The offset that the next message gets.
    pub(super) fn end(&self) -> i64 {
        self.first + i64::try_from(self.log.len()).expect("a log in memory is short")
    }

    /// Gives a message the next offset; its time is no earlier than that of the last.
    pub(super) fn append(&mut self, message: Message) {
        self.last_push_at = self.last_push_at.max(message.created_at);
        self.log.push(Message { created_at: self.last_push_at, ..message });
    }

    pub(super) fn message(&self, offset: i64) -> &Message {
        let index = usize::try_from(offset - self.first).expect("it is stored");
        &self.log[index]
    }

    /// The first offset whose message was pushed at or after a moment.
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

    /// Whether the message at an offset was deleted.
    pub(super) fn is_gap(&self, offset: i64) -> bool {
        let index = usize::try_from(offset - self.first).ok();
        index.and_then(|index| self.log.get(index)).is_some_and(|message| message.deleted)
    }

    /// The first offset from one on that is in no gap.
    pub(super) fn beyond(&self, offset: i64) -> i64 {
        (offset..self.end()).find(|offset| !self.is_gap(*offset)).unwrap_or(offset.max(self.end()))
    }

    /// Messages from an offset on, before another one.
    pub(super) fn between(&self, from: i64, to: i64) -> u64 {
        (from..to).filter(|offset| !self.is_gap(*offset)).count() as u64
    }

    /// All messages that are stored.
    pub(super) fn stored(&self) -> u64 {
        self.between(self.first, self.end())
    }

    /// Forgets gaps at the beginning of the log.
    pub(super) fn trim(&mut self) {
        let first = self.beyond(self.first);
        self.log.drain(..usize::try_from(first - self.first).expect("it is in the log"));
        self.first = first;
    }
}
