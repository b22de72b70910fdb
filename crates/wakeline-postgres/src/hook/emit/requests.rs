//! The requests of senders that are passed with messages, as arrays.

use uuid::Uuid;
use wakeline_core::AttemptId;
use wakeline_store::hook::DeliveryRequest;

use crate::hook::wire::{length, micros};

/// The requests of a call as arrays.
#[derive(Default)]
pub(super) struct RequestArrays {
    pub(super) commands: Vec<i32>,
    /// Which of its command's requests each is.
    pub(super) numbers: Vec<usize>,
    pub(super) leases: Vec<Option<i64>>,
    pub(super) starts: Vec<i32>,
    pub(super) lengths: Vec<i32>,
    pub(super) keys: Vec<Uuid>,
}

impl RequestArrays {
    /// Adds the requests of a command, without the ids that hold something already.
    pub(super) fn add(
        &mut self,
        command: usize,
        requests: &[DeliveryRequest],
        held: impl Fn(AttemptId) -> bool,
    ) {
        for (number, request) in requests.iter().enumerate() {
            let begin = self.keys.len();
            let free = request.attempts.iter().filter(|attempt| !held(**attempt));
            self.keys.extend(free.map(|attempt| attempt.0));
            self.commands.push(length(command + 1));
            self.numbers.push(number);
            self.leases.push(request.lease.map(micros));
            self.starts.push(length(begin + 1));
            self.lengths.push(length(self.keys.len() - begin));
        }
    }
}
