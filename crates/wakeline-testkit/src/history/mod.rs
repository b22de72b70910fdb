//! Checks what clients saw of a store or server against the guarantees.
//!
//! # Where it sits
//! Crash and load tests record a [`ClientHistory`] while they push, pop and settle, and kill
//! processes meanwhile; [`check`] examines it afterwards. It does not depend on how the calls were
//! made.
//!
//! # Invariants
//! * Only what is certain is a violation. A call took effect between its request and its answer; a
//!   call without an answer may have taken effect later, or not at all.
//! * Times are durations on one clock of the recorder. They are compared with each other and with
//!   lease durations, never with the store's clock.
//! * The run time is linear in the number of events, except for sorting them.

mod cursors;
mod messages;

use std::fmt;
use std::time::Duration;

use wakeline_core::Verdict;

/// When a call was made and when its answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When the call was made.
    pub from: Duration,
    /// When its answer came.
    pub to: Duration,
}

/// The outcome of a call, as its client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The call took effect.
    Ok,
    /// The call had no effect.
    Refused,
    /// The call may have had an effect, then or later: there was no answer, or an unclear one.
    Unknown,
}

/// One attempt to push a message. All attempts for one message have the same name.
#[derive(Debug, Clone)]
pub struct Push {
    /// The partition, with its queue.
    pub partition: String,
    /// The name of the message: its transaction id, which is used for no other message.
    pub message: String,
    /// When the call was made and answered.
    pub span: Span,
    /// The outcome of the call.
    pub answer: CallOutcome,
}

/// A message of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMessage {
    /// The name of the message.
    pub message: String,
    /// The offset of the message.
    pub offset: i64,
}

/// The messages of one partition that a consumer received.
#[derive(Debug, Clone)]
pub struct SeenDelivery {
    /// The group.
    pub group: String,
    /// The partition, with its queue.
    pub partition: String,
    /// The lease, or `None` with autoAck, which settles at once.
    pub lease: Option<String>,
    /// The duration of the lease, counted from its claim.
    pub lease_for: Duration,
    /// When the messages were requested and received.
    pub span: Span,
    /// The delivered messages.
    pub messages: Vec<SeenMessage>,
}

/// A settlement of one message, or the release of a lease.
#[derive(Debug, Clone)]
pub struct Settle {
    /// The group.
    pub group: String,
    /// The partition, with its queue.
    pub partition: String,
    /// The lease of the call.
    pub lease: String,
    /// The message and the verdict; `None` releases the rest of the lease.
    pub what: Option<(String, Verdict)>,
    /// When the call was made and answered.
    pub span: Span,
    /// The outcome of the call.
    pub answer: CallOutcome,
}

/// An extension of a lease in one of its partitions.
#[derive(Debug, Clone)]
pub struct Extend {
    /// The partition, with its queue.
    pub partition: String,
    /// The lease.
    pub lease: String,
    /// The new duration, counted from the extension.
    pub lease_for: Duration,
    /// When the call was made and answered.
    pub span: Span,
    /// The outcome of the call.
    pub answer: CallOutcome,
}

/// All calls and answers that clients saw.
#[derive(Debug, Clone, Default)]
pub struct ClientHistory {
    /// All pushes.
    pub pushes: Vec<Push>,
    /// Deliveries with an answer. Leases whose answer was lost are unknown.
    pub deliveries: Vec<SeenDelivery>,
    /// All settlements and releases.
    pub settles: Vec<Settle>,
    /// All extensions.
    pub extends: Vec<Extend>,
    /// Dead letters found at the end: group, partition, message.
    pub dead_letters: Vec<(String, String, String)>,
    /// The groups that had to receive every message. If it is empty, the queue was not read to its
    /// end, and no message counts as lost.
    pub drained_by: Vec<String>,
}

/// A violated guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// An acknowledged message was neither completed nor made a dead letter (P1).
    Lost {
        /// The group that never completed the message.
        group: String,
        /// The partition.
        partition: String,
        /// The name of the message: its transaction id, which is used for no other message.
        message: String,
    },
    /// A message was delivered that was never pushed, or whose push was refused (P2).
    Unexpected {
        /// The partition.
        partition: String,
        /// The name of the message: its transaction id, which is used for no other message.
        message: String,
    },
    /// A message is in the log twice (P3), or an offset holds two messages.
    StoredTwice {
        /// The partition.
        partition: String,
        /// The name of the message: its transaction id, which is used for no other message.
        message: String,
    },
    /// A group completed a message twice, or got it again after it was completed (P6).
    DuplicateEffect {
        /// The group.
        group: String,
        /// The name of the message: its transaction id, which is used for no other message.
        message: String,
    },
    /// Two unexpired leases existed on one partition in one group (P4).
    TwoHolders {
        /// The partition.
        partition: String,
        /// The lease that held the partition.
        first: String,
        /// The lease that another consumer got meanwhile.
        second: String,
    },
    /// A first delivery came after that of a later message, or offsets are in another order than
    /// the acknowledged pushes (P4).
    OutOfOrder {
        /// The partition.
        partition: String,
        /// The name of the message: its transaction id, which is used for no other message.
        message: String,
    },
    /// A settlement with a stale lease succeeded (P5).
    ZombieSettle {
        /// The lease.
        lease: String,
        /// The partition.
        partition: String,
    },
}

/// The result of a check.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Number of acknowledged messages.
    pub acknowledged: usize,
    /// Number of messages that were delivered although the outcome of their push was unknown.
    pub recovered: usize,
    /// Number of deliveries of messages.
    pub delivered: usize,
    /// Number of deliveries of messages that had been delivered before.
    pub redelivered: usize,
    /// Number of settlements that succeeded.
    pub settled: usize,
    /// Number of settlements that were refused.
    pub refused: usize,
    /// The violated guarantees.
    pub violations: Vec<Violation>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "acknowledged {}, recovered {}, delivered {}, redelivered {}, settled {}, refused {}, \
             violations {}",
            self.acknowledged,
            self.recovered,
            self.delivered,
            self.redelivered,
            self.settled,
            self.refused,
            self.violations.len()
        )?;
        self.violations.iter().take(20).try_for_each(|violation| write!(f, "\n  {violation:?}"))
    }
}

impl Report {
    /// Checks that there is no violation.
    ///
    /// # Panics
    /// If there is a violation, with the whole report.
    pub fn assert_clean(&self) {
        assert!(self.violations.is_empty(), "{self}");
    }
}

/// Checks a history.
pub fn check(history: &ClientHistory) -> Report {
    let mut report = Report::default();
    messages::check(history, &mut report);
    cursors::check(history, &mut report);
    report
}
