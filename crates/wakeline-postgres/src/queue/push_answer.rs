//! Reads the results of a push: one row per partition.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use uuid::Uuid;
use wakeline_core::Timestamp;
use wakeline_store::StoreError;

use crate::dedup::SegmentIds;
use crate::rows::{Columns, timestamp};

/// The result of one slot.
pub(crate) struct SlotAnswer {
    /// The index of the planned slot.
    pub(super) slot: usize,
    pub(super) state: i16,
    pub(super) first_offset: i64,
    pub(super) at: Timestamp,
    pub(super) window: Duration,
    pub(super) wait: Duration,
    pub(super) namespace: Option<wakeline_core::Namespace>,
    pub(super) task: Option<wakeline_core::TaskName>,
    /// The transaction ids that exist already, with the id of the message that has each.
    pub(super) ids: HashMap<String, Uuid>,
    /// The offset of the message that has a transaction id; `None` if the id is free.
    pub(super) offsets: Vec<(String, Option<i64>)>,
    pub(super) delta: Vec<SegmentIds>,
}

impl SlotAnswer {
    pub(super) fn read(columns: &mut Columns<'_>) -> Result<Self, StoreError> {
        let slot: i32 = columns.take()?;
        let state = columns.take()?;
        let first_offset: Option<i64> = columns.take()?;
        let at: Option<SystemTime> = columns.take()?;
        let window: Option<i64> = columns.take()?;
        let wait: Option<i64> = columns.take()?;
        let seconds =
            |span: Option<i64>| Duration::from_secs(span.unwrap_or(0).try_into().unwrap_or(0));
        let namespace = columns.name_if("namespace")?;
        let task = columns.name_if("task")?;
        let txns: Option<Vec<String>> = columns.take()?;
        let ids: Option<Vec<Option<Uuid>>> = columns.take()?;
        let offsets: Option<Vec<Option<i64>>> = columns.take()?;
        let (txns, ids) = (txns.unwrap_or_default(), ids.unwrap_or_default());
        let taken = txns.iter().cloned().zip(ids).filter_map(|(txn, id)| Some((txn, id?)));
        let firsts: Option<Vec<i64>> = columns.take()?;
        let ats: Option<Vec<SystemTime>> = columns.take()?;
        let delta: Option<Vec<String>> = columns.take()?;
        let delta = (firsts.unwrap_or_default().into_iter())
            .zip(ats.unwrap_or_default())
            .zip(delta.unwrap_or_default())
            .map(|((first, at), txns)| SegmentIds { first, at: timestamp(at), txns });
        Ok(Self {
            slot: usize::try_from(slot - 1).expect("slots count from 1"),
            state,
            first_offset: first_offset.unwrap_or(0),
            at: at.map_or(Timestamp(0), timestamp),
            window: seconds(window),
            wait: seconds(wait),
            namespace,
            task,
            ids: taken.collect(),
            offsets: txns.into_iter().zip(offsets.unwrap_or_default()).collect(),
            delta: delta.collect(),
        })
    }
}
