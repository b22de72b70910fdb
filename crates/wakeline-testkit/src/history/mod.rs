//! Checks what clients saw of a store or server against what was promised to them.
//!
//! # Where it sits
//! Crash tests and torture record a [`History`] while they push, pop and settle, and kill things
//! meanwhile; [`check`] reads it afterwards. It knows nothing of how the calls were made.
//!
//! # Invariants
//! * Only what is certain is a violation. A call took effect somewhere between its being made and
//!   its being answered; one that was never answered, perhaps later, perhaps not at all.
//! * Times are spans on one clock of the recorder's. They are compared with each other and with
//!   lease times, never with the store's clock.
//! * Linear in the number of events, but for sorting them.

mod cursors;
mod messages;

use std::fmt;
use std::time::Duration;

use wakeline_core::Verdict;

/// When a call was made and when it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When the call was made.
    pub from: Duration,
    /// When its answer came.
    pub to: Duration,
}

/// How a call ended, as its client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It took effect.
    Ok,
    /// It had no effect.
    Refused,
    /// It may have had an effect, then or later: no answer came, or an unclear one.
    Unknown,
}

/// A push, or one try of it. Tries of one message carry the same name.
#[derive(Debug, Clone)]
pub struct Push {
    /// The partition, with its queue.
    pub partition: String,
    /// The message's name: its transaction id, never used for another one.
    pub message: String,
    /// When.
    pub span: Span,
    /// How it ended.
    pub answer: Answer,
}

/// A message of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub message: String,
    /// Its offset.
    pub offset: i64,
}

/// What a consumer got of one partition.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The group.
    pub group: String,
    /// The partition, with its queue.
    pub partition: String,
    /// The lease, or `None` with autoAck, which settles at once.
    pub lease: Option<String>,
    /// How long the lease lasts from the moment of the grant.
    pub lease_for: Duration,
    /// When it was asked for and given.
    pub span: Span,
    /// The messages.
    pub messages: Vec<Seen>,
}

/// What a consumer said of one message, or of what was left of a lease.
#[derive(Debug, Clone)]
pub struct Settle {
    /// The group.
    pub group: String,
    /// The partition, with its queue.
    pub partition: String,
    /// The lease that it named.
    pub lease: String,
    /// The message and the verdict; `None` gives back what is left.
    pub what: Option<(String, Verdict)>,
    /// When.
    pub span: Span,
    /// How it ended.
    pub answer: Answer,
}

/// A lease that was extended in one of its partitions.
#[derive(Debug, Clone)]
pub struct Extend {
    /// The partition, with its queue.
    pub partition: String,
    /// The lease.
    pub lease: String,
    /// For how long from the moment of the extension.
    pub lease_for: Duration,
    /// When.
    pub span: Span,
    /// How it ended.
    pub answer: Answer,
}

/// All that clients saw.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Pushes.
    pub pushes: Vec<Push>,
    /// Deliveries that were answered. Leases whose answer was lost are not known.
    pub deliveries: Vec<Delivery>,
    /// Settlements and releases.
    pub settles: Vec<Settle>,
    /// Extensions.
    pub extends: Vec<Extend>,
    /// Dead letters found at the end: group, partition, message.
    pub dead_letters: Vec<(String, String, String)>,
    /// The groups that were to see every message. Empty: the queue was not read to its end, and
    /// nothing can be called lost.
    pub drained_by: Vec<String>,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// An acknowledged message was neither completed nor is it a dead letter (P1).
    Lost {
        /// The group that never finished it.
        group: String,
        /// The partition.
        partition: String,
        /// The message.
        message: String,
    },
    /// A message was delivered that nobody pushed, or whose push was refused (P2).
    Unexpected {
        /// The partition.
        partition: String,
        /// The message.
        message: String,
    },
    /// A message is in the log twice (P3), or an offset holds two messages.
    StoredTwice {
        /// The partition.
        partition: String,
        /// The message.
        message: String,
    },
    /// A group completed a message twice, or got it again after it was completed (P6).
    DuplicateEffect {
        /// The group.
        group: String,
        /// The message.
        message: String,
    },
    /// Two live leases on one partition in one group (P4).
    TwoHolders {
        /// The partition.
        partition: String,
        /// Who held it.
        first: String,
        /// Who got it meanwhile.
        second: String,
    },
    /// A first delivery came after that of a later message, or the log has another order than the
    /// acknowledged pushes (P4).
    OutOfOrder {
        /// The partition.
        partition: String,
        /// The message that came too late.
        message: String,
    },
    /// A stale lease settled something (P5).
    ZombieSettle {
        /// The lease.
        lease: String,
        /// The partition.
        partition: String,
    },
}

/// What a check found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Acknowledged messages.
    pub acknowledged: usize,
    /// Messages of unknown outcome that were delivered all the same.
    pub recovered: usize,
    /// Deliveries of messages.
    pub delivered: usize,
    /// Deliveries of messages that had been delivered before.
    pub redelivered: usize,
    /// Settlements that counted.
    pub settled: usize,
    /// Settlements that were refused.
    pub refused: usize,
    /// Broken promises.
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
    /// Panics with all that was found if a promise was broken.
    ///
    /// # Panics
    /// If there is a violation.
    pub fn assert_clean(&self) {
        assert!(self.violations.is_empty(), "{self}");
    }
}

/// Checks a history.
pub fn check(history: &History) -> Report {
    let mut report = Report::default();
    messages::check(history, &mut report);
    cursors::check(history, &mut report);
    report
}
