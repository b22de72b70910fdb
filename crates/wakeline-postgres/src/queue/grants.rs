//! Puts the rows of a claim together: slices of segments become messages, messages grants.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use tokio_postgres::Row;
use uuid::Uuid;
use wakeline_core::{
    Change, CursorId, GroupId, LeaseId, LeaseToken, MessageId, PartitionId, Timestamp,
    TransactionId,
};
use wakeline_store::{Delivered, Grant, GrantedPartition, LineClaim, StoreError};

use crate::rows::{self, Columns};

const OPERATION: &str = "claim";

/// The grants of a call, by line and request.
pub(super) struct Grants<'a> {
    claims: &'a [LineClaim],
    lines: Vec<Vec<Option<Pending>>>,
}

/// A grant that is being put together.
struct Pending {
    lease_us: i64,
    cursors: Vec<CursorId>,
    partitions: Vec<GrantedPartition>,
    /// Where the partitions belong.
    changes: Vec<Change>,
}

impl<'a> Grants<'a> {
    pub(super) fn new(
        claims: &'a [LineClaim],
        mut slices: Vec<Slice<'_>>,
    ) -> Result<Self, StoreError> {
        let lines =
            claims.iter().map(|claim| claim.requests.iter().map(|_| None).collect()).collect();
        let mut grants = Self { claims, lines };
        slices.sort_unstable_by_key(|slice| (slice.hand_over, slice.first_offset));
        for slice in slices {
            grants.add(slice)?;
        }
        Ok(grants)
    }

    /// Takes a slice in. Slices of a partition come one after another, in order of offset.
    fn add(&mut self, slice: Slice<'_>) -> Result<(), StoreError> {
        let cursor = CursorId { partition: slice.partition_id, group: slice.group_id };
        let (line, request) = slice.request;
        let pending = self.lines[line][request].get_or_insert_with(|| Pending {
            lease_us: i64::MAX,
            cursors: Vec::new(),
            partitions: Vec::new(),
            changes: Vec::new(),
        });
        pending.lease_us = pending.lease_us.min(slice.lease_us);
        if pending.cursors.last() != Some(&cursor) {
            pending.cursors.push(cursor);
            pending.partitions.push(GrantedPartition {
                queue: slice.change.queue.clone(),
                partition: slice.change.partition.clone().expect("it was read"),
                partition_id: slice.partition_id,
                messages: Vec::new(),
            });
            pending.changes.push(slice.change.clone());
        }
        let granted = pending.partitions.last_mut().expect("one was just added");
        slice.messages(&mut granted.messages)
    }

    /// What was leased: the token, and the end of the lease as a change.
    pub(super) fn leases(&self) -> Vec<(LeaseToken, Change)> {
        let mut leases = Vec::new();
        for (claim, grants) in self.claims.iter().zip(&self.lines) {
            for (request, pending) in claim.requests.iter().zip(grants) {
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

    /// The grants, one per request.
    pub(super) fn finish(self) -> Vec<Vec<Option<Grant>>> {
        let lines = self.claims.iter().zip(self.lines).map(|(claim, grants)| {
            let grants = claim.requests.iter().zip(grants).map(|(request, pending)| {
                pending.map(|Pending { lease_us, cursors, partitions, .. }| Grant {
                    lease: (!request.auto_ack).then_some(LeaseId { token: request.token, cursors }),
                    lease_for: match request.auto_ack {
                        true => Duration::ZERO,
                        false => rows::span(lease_us),
                    },
                    partitions,
                })
            });
            grants.collect()
        });
        lines.collect()
    }
}

/// A slice of a segment, as the function `claim` returns it.
pub(super) struct Slice<'a> {
    /// Index of the line, and of the request in it.
    request: (usize, usize),
    /// The place of the partition in the order of the claim.
    hand_over: i64,
    partition_id: PartitionId,
    group_id: GroupId,
    /// Queue, partition, namespace and task.
    change: Change,
    lease_us: i64,
    /// Failures of messages that were delivered before, by offset.
    failures: HashMap<i64, i32>,
    first_offset: i64,
    created_at: Timestamp,
    ids: Vec<Uuid>,
    txn_ids: Vec<&'a str>,
    trace_ids: Option<Vec<Option<Uuid>>>,
    producers: Option<Vec<Option<String>>>,
    body_start: i32,
    ends: Vec<i32>,
    body: &'a [u8],
}

impl<'a> Slice<'a> {
    /// Where the columns of a slice begin.
    const FIRST_COLUMN: usize = 5;

    pub(super) fn read(request: (usize, usize), row: &'a Row) -> Result<Self, StoreError> {
        let mut columns = Columns::from(OPERATION, row, Self::FIRST_COLUMN);
        let hand_over = columns.take()?;
        let partition_id = PartitionId(columns.take()?);
        let group_id = GroupId(columns.take()?);
        let change = rows::change(&mut columns)?;
        let lease_us = columns.take()?;
        let offsets: Option<Vec<i64>> = columns.take()?;
        let failures: Option<Vec<i32>> = columns.take()?;
        let failures = offsets.unwrap_or_default().into_iter().zip(failures.unwrap_or_default());
        Ok(Self {
            request,
            hand_over,
            partition_id,
            group_id,
            change,
            lease_us,
            failures: failures.collect(),
            first_offset: columns.take()?,
            created_at: columns.moment()?,
            ids: columns.take()?,
            txn_ids: columns.take()?,
            trace_ids: columns.take()?,
            producers: columns.take()?,
            body_start: columns.take()?,
            ends: columns.take()?,
            body: columns.take()?,
        })
    }

    /// Cuts the slice up. All payloads share one buffer.
    fn messages(self, into: &mut Vec<Delivered>) -> Result<(), StoreError> {
        let body = Bytes::copy_from_slice(self.body);
        let len = self.ids.len();
        if self.txn_ids.len() != len || self.ends.len() != len {
            return Err(self.corrupt("its arrays differ in length"));
        }
        let mut start = 0;
        for (index, (id, txn)) in self.ids.iter().zip(&self.txn_ids).enumerate() {
            let offset = self.first_offset + index as i64;
            let end = usize::try_from(self.ends[index] - self.body_start).unwrap_or(usize::MAX);
            if end < start || end > body.len() {
                return Err(self.corrupt("its payloads end outside of its body"));
            }
            let transaction_id =
                TransactionId::new(txn).map_err(|error| self.corrupt(&error.to_string()))?;
            let failures = self.failures.get(&offset).copied().unwrap_or(0);
            into.push(Delivered {
                id: MessageId(*id),
                transaction_id,
                trace_id: at(&self.trace_ids, index),
                payload: body.slice(start..end),
                created_at: self.created_at,
                offset,
                attempt: u32::try_from(failures).unwrap_or(0) + 1,
                producer: at(&self.producers, index),
            });
            start = end;
        }
        Ok(())
    }

    fn corrupt(&self, why: &str) -> StoreError {
        let id = format!("{} of partition {}", self.first_offset, self.partition_id.0);
        rows::corrupt("segment at offset", id, why)
    }
}

fn at<T: Clone>(values: &Option<Vec<Option<T>>>, index: usize) -> Option<T> {
    values.as_ref()?.get(index)?.clone()
}
