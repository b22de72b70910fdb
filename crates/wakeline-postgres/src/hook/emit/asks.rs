//! Senders that come along with messages, as arrays.

use uuid::Uuid;
use wakeline_core::AttemptId;
use wakeline_store::hook::DeliveryAsk;

use crate::hook::wire::{length, micros};

/// Asks as arrays.
#[derive(Default)]
pub(super) struct Asks {
    pub(super) commands: Vec<i32>,
    /// Which of its command's asks each is.
    pub(super) numbers: Vec<usize>,
    pub(super) leases: Vec<Option<i64>>,
    pub(super) starts: Vec<i32>,
    pub(super) lengths: Vec<i32>,
    pub(super) keys: Vec<Uuid>,
}

impl Asks {
    /// Adds the asks of a command, without the ids that hold something already.
    pub(super) fn add(
        &mut self,
        command: usize,
        asks: &[DeliveryAsk],
        held: impl Fn(AttemptId) -> bool,
    ) {
        for (number, ask) in asks.iter().enumerate() {
            let begin = self.keys.len();
            let free = ask.attempts.iter().filter(|attempt| !held(**attempt));
            self.keys.extend(free.map(|attempt| attempt.0));
            self.commands.push(length(command + 1));
            self.numbers.push(number);
            self.leases.push(ask.lease.map(micros));
            self.starts.push(length(begin + 1));
            self.lengths.push(length(self.keys.len() - begin));
        }
    }
}
