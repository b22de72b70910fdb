//! The arguments of the SQL function `claim`: the requests as columns, and the mode of the claim.

use uuid::Uuid;
use wakeline_core::Subscription;
use wakeline_store::{ClaimRequest, LineClaim};

use super::QueueCore;

/// The mode of a claim.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ClaimMode {
    /// Waits for the lock of the first due cursor.
    pub(super) patient: bool,
    /// An attempt of unknown outcome may have leased messages under the tokens.
    pub(super) again: bool,
    /// Leases available messages without moving due scheduled messages first.
    pub(super) prompt: bool,
}

impl ClaimMode {
    /// The mode after scheduled messages were moved. Messages that became due meanwhile wait for
    /// the next claim; otherwise the claim might never end.
    pub(super) fn moved() -> Self {
        Self { prompt: true, ..Self::default() }
    }
}

impl QueueCore {
    /// Returns the requests of some claims as columns.
    pub(super) fn request_columns(&self, claims: &[LineClaim], again: bool) -> RequestColumns {
        let mut columns = RequestColumns::default();
        for claim in claims {
            let recorded = match claim.subscription {
                _ if claim.line.group.is_queue_mode() => 0,
                Subscription::All => 0,
                Subscription::New => 1,
                Subscription::From(_) => 2,
            };
            columns.modes.push(recorded);
            columns.firsts.push(to_i32(columns.tokens.len()) + 1);
            columns.counts.push(to_i32(claim.requests.len()));
            for request in &claim.requests {
                columns.tokens.push(request.token.0);
                columns.batches.push(i32::try_from(request.batch_len_max).unwrap_or(i32::MAX / 2));
                columns.partition_maxes.push(partitions_max(request));
                columns.auto_acks.push(request.auto_ack);
                columns.workers.push(request.worker.clone());
                // At least one, so that a request always gets a message.
                columns.bytes.push(i64::try_from(request.bytes_max.max(1)).unwrap_or(i64::MAX));
                columns.agains.push(again || self.tokens.contains(request.token));
            }
        }
        columns
    }
}

/// The requests of a call as columns.
#[derive(Default)]
pub(super) struct RequestColumns {
    pub(super) modes: Vec<i16>,
    pub(super) firsts: Vec<i32>,
    pub(super) counts: Vec<i32>,
    pub(super) tokens: Vec<Uuid>,
    pub(super) batches: Vec<i32>,
    pub(super) partition_maxes: Vec<i32>,
    pub(super) auto_acks: Vec<bool>,
    pub(super) agains: Vec<bool>,
    pub(super) workers: Vec<Option<String>>,
    pub(super) bytes: Vec<i64>,
}

fn partitions_max(request: &ClaimRequest) -> i32 {
    let most = to_i32(wakeline_core::LeaseId::CURSORS_MAX);
    i32::try_from(request.partitions_len_max).unwrap_or(most).min(most)
}

fn to_i32(n: usize) -> i32 {
    i32::try_from(n).expect("a call has few requests")
}

/// Converts a number that the database counts from 1 to an index.
pub(super) fn to_index(number: i32) -> usize {
    usize::try_from(number - 1).expect("numbers begin at 1")
}
