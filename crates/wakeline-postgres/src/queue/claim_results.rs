//! Assembles the rows of a claim: slices of segments become messages, and messages become the
//! results of requests.
//!
//! # Invariants
//! * A corrupt slice is an error that names its position, and affects only its partition.
//!   Everything else that the call has leased is returned.
//! * The messages of a partition are returned completely, or they are quarantined with their lease.
//!   Only messages that autoAck has already settled are returned as far as they are readable.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;
use wakeline_core::{
    Change, CursorId, GroupId, LeaseId, LeaseToken, MessageId, PartitionId, Timestamp,
    TransactionId,
};
use wakeline_store::{
    BoxError, ClaimedPartition, Delivered, LineClaim, PayloadEncryption, QueueClaimResult,
    StoreError,
};

use crate::rows::{self, Columns};

const OPERATION: &str = "claim";

/// The results of a call by line and request.
pub(super) struct ClaimResults<'a> {
    claims: &'a [LineClaim],
    lines: Vec<Vec<Option<PendingResult>>>,
    corrupt: Vec<CorruptSlice>,
}

/// A slice that was leased, or settled by autoAck, and is corrupt.
pub(super) struct CorruptSlice {
    /// The index of the line.
    pub(super) line: usize,
    /// The lease on its partition, unless it was settled by autoAck.
    pub(super) lease: Option<LeaseId>,
    pub(super) error: StoreError,
}

/// The result of a request while it is being assembled.
struct PendingResult {
    lease_us: i64,
    cursors: Vec<CursorId>,
    partitions: Vec<ClaimedPartition>,
    /// The queue and the partition of each entry of `partitions`.
    changes: Vec<Change>,
}

impl<'a> ClaimResults<'a> {
    pub(super) fn new(claims: &'a [LineClaim], mut slices: Vec<Slice>) -> Self {
        let lines =
            claims.iter().map(|claim| claim.requests.iter().map(|_| None).collect()).collect();
        let mut results = Self { claims, lines, corrupt: Vec::new() };
        slices.sort_unstable_by_key(|slice| (slice.hand_over, slice.first_offset));
        let corrupt = slices.iter().filter(|slice| slice.messages.is_err());
        let corrupt: HashSet<i64> = corrupt.map(|slice| slice.hand_over).collect();
        for slice in slices {
            let (line, request) = slice.request;
            let settled = claims[line].requests[request].auto_ack;
            if settled || !corrupt.contains(&slice.hand_over) || slice.messages.is_err() {
                results.add(slice);
            }
        }
        results
    }

    /// Adds a slice. Slices of a partition come one after another, in order of offset.
    fn add(&mut self, slice: Slice) {
        let cursor = CursorId { partition: slice.partition_id, group: slice.group_id };
        let (line, request) = slice.request;
        let messages = match slice.messages {
            Ok(messages) => messages,
            Err(error) => {
                let request = &self.claims[line].requests[request];
                let lease = LeaseId { token: request.token, cursors: vec![cursor] };
                let lease = (!request.auto_ack).then_some(lease);
                self.corrupt.push(CorruptSlice { line, lease, error });
                return;
            }
        };
        let pending = self.lines[line][request].get_or_insert_with(|| PendingResult {
            lease_us: i64::MAX,
            cursors: Vec::new(),
            partitions: Vec::new(),
            changes: Vec::new(),
        });
        pending.lease_us = pending.lease_us.min(slice.lease_us);
        if pending.cursors.last() != Some(&cursor) {
            pending.cursors.push(cursor);
            pending.partitions.push(ClaimedPartition {
                queue: slice.change.queue.clone(),
                partition: slice.change.partition.clone().expect("it was read"),
                partition_id: slice.partition_id,
                messages: Vec::new(),
            });
            pending.changes.push(slice.change.clone());
        }
        let claimed = pending.partitions.last_mut().expect("one was just added");
        claimed.messages.extend(messages);
    }

    /// Takes out the corrupt slices.
    pub(super) fn take_corrupt(&mut self) -> Vec<CorruptSlice> {
        std::mem::take(&mut self.corrupt)
    }

    /// Returns the token of each lease, and the end of the lease as a change.
    pub(super) fn leases(&self) -> Vec<(LeaseToken, Change)> {
        let mut leases = Vec::new();
        for (claim, results) in self.claims.iter().zip(&self.lines) {
            for (request, pending) in claim.requests.iter().zip(results) {
                let Some(pending) = pending.as_ref().filter(|_| !request.auto_ack) else {
                    continue;
                };
                let due_in = rows::span(pending.lease_us);
                leases.extend(pending.changes.iter().map(|change| {
                    let group = Some(claim.line.group.clone());
                    (request.token, Change { group, due_in, ..change.clone() })
                }));
            }
        }
        leases
    }

    /// Returns the results by line, one per request.
    pub(super) fn finish(self) -> Vec<Vec<Option<QueueClaimResult>>> {
        let lines = self.claims.iter().zip(self.lines).map(|(claim, results)| {
            let results = claim.requests.iter().zip(results).map(|(request, pending)| {
                pending.map(|PendingResult { lease_us, cursors, partitions, .. }| {
                    QueueClaimResult {
                        lease: (!request.auto_ack)
                            .then_some(LeaseId { token: request.token, cursors }),
                        lease_for: if request.auto_ack {
                            Duration::ZERO
                        } else {
                            rows::span(lease_us)
                        },
                        partitions,
                    }
                })
            });
            results.collect()
        });
        lines.collect()
    }
}

/// A slice of a segment as the SQL function `claim` returns it.
pub(super) struct Slice {
    /// The index of the line, and the index of the request in it.
    request: (usize, usize),
    /// The position of the partition in the order in which the claim leased them.
    hand_over: i64,
    partition_id: PartitionId,
    group_id: GroupId,
    /// The queue, partition, namespace and task.
    change: Change,
    lease_us: i64,
    first_offset: i64,
    /// At least one message, or the reason why they are corrupt.
    messages: Result<Vec<Delivered>, StoreError>,
}

impl Slice {
    /// The index of the first column of a slice.
    const FIRST_COLUMN: usize = 5;

    pub(super) fn read(
        request: (usize, usize),
        row: &Row,
        encryption: &PayloadEncryption,
    ) -> Result<Self, StoreError> {
        let mut columns = Columns::from(OPERATION, row, Self::FIRST_COLUMN);
        let hand_over = columns.take()?;
        let partition_id = PartitionId(columns.take()?);
        let group_id = GroupId(columns.take()?);
        let change = rows::change(&mut columns)?;
        let lease_us = columns.take()?;
        let offsets: Option<Vec<i64>> = columns.take()?;
        let failures: Option<Vec<i32>> = columns.take()?;
        let failures = offsets.unwrap_or_default().into_iter().zip(failures.unwrap_or_default());
        let first_offset: i64 = columns.take()?;
        let messages = SliceContent::read(&mut columns)
            .and_then(|content| content.messages(first_offset, &failures.collect(), encryption))
            .map_err(|why| {
                let id = format!("{first_offset} of partition {}", partition_id.0);
                rows::corrupt("segment at offset", id, why)
            });
        Ok(Self {
            request,
            hand_over,
            partition_id,
            group_id,
            change,
            lease_us,
            first_offset,
            messages,
        })
    }
}

/// The columns with the messages of a slice. An error in them means that the stored row is corrupt.
struct SliceContent<'a> {
    created_at: Timestamp,
    ids: Vec<Uuid>,
    txn_ids: Vec<&'a str>,
    trace_ids: Option<Vec<Option<Uuid>>>,
    producers: Option<Vec<Option<String>>>,
    body_start: i32,
    ends: Vec<i32>,
    body: &'a [u8],
}

impl<'a> SliceContent<'a> {
    fn read(columns: &mut Columns<'a>) -> Result<Self, BoxError> {
        let content = Self {
            created_at: columns.moment()?,
            ids: columns.take()?,
            txn_ids: columns.take()?,
            trace_ids: columns.take()?,
            producers: columns.take()?,
            body_start: columns.take::<Option<i32>>()?.ok_or("its payloads have no end")?,
            ends: columns.take()?,
            body: columns.take::<Option<&[u8]>>()?.ok_or("its payloads have no end")?,
        };
        Ok(content)
    }

    /// Splits the slice into messages. All payloads share one buffer.
    fn messages(
        self,
        first_offset: i64,
        failures: &HashMap<i64, i32>,
        encryption: &PayloadEncryption,
    ) -> Result<Vec<Delivered>, BoxError> {
        let body = Bytes::copy_from_slice(self.body);
        let len = self.ids.len();
        if len == 0 || self.txn_ids.len() != len || self.ends.len() != len {
            return Err("its arrays differ in length".into());
        }
        let mut messages = Vec::with_capacity(len);
        let mut start = 0;
        for (index, (id, txn)) in self.ids.iter().zip(&self.txn_ids).enumerate() {
            let offset = first_offset + index as i64;
            let end = i64::from(self.ends[index]) - i64::from(self.body_start);
            let end = usize::try_from(end).unwrap_or(usize::MAX);
            if end < start || end > body.len() {
                return Err("its payloads end outside of its body".into());
            }
            let failures = failures.get(&offset).copied().unwrap_or(0);
            messages.push(Delivered {
                id: MessageId(*id),
                transaction_id: TransactionId::new(txn)?,
                trace_id: at(&self.trace_ids, index),
                payload: encryption.decrypt(MessageId(*id), body.slice(start..end))?,
                created_at: self.created_at,
                offset,
                attempt: u32::try_from(failures).unwrap_or(0) + 1,
                producer: at(&self.producers, index),
            });
            start = end;
        }
        Ok(messages)
    }
}

fn at<T: Clone>(values: &Option<Vec<Option<T>>>, index: usize) -> Option<T> {
    values.as_ref()?.get(index)?.clone()
}
