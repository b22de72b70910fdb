//! Extends and releases leases.

use std::collections::HashMap;
use std::time::Duration;

use wakeline_core::{Change, CursorId, GroupId, LeaseId, PartitionId, Timestamp};
use wakeline_store::{Extension, StoreError};

use super::QueueCore;
use crate::rows::{self, Columns};

impl QueueCore {
    /// Extends a lease so that it lasts for `span` from now. A lease never ends earlier than
    /// before.
    pub(super) async fn extend(
        &self,
        lease: LeaseId,
        span: Duration,
    ) -> Result<Extension, StoreError> {
        const OPERATION: &str = "extend";
        /// A longer lease would end after the last timestamp that PostgreSQL supports.
        const SPAN_MAX: Duration = Duration::from_secs(3_155_760_000);
        let partitions: Vec<i64> = lease.cursors.iter().map(|cursor| cursor.partition.0).collect();
        let groups: Vec<i32> = lease.cursors.iter().map(|cursor| cursor.group.0).collect();
        let millis = span.min(SPAN_MAX).as_secs_f64() * 1000.0;
        let sql = &self.sql.extend;
        let rows =
            self.general(OPERATION, sql, &[&partitions, &groups, &lease.token.0, &millis]).await?;
        let mut ends: HashMap<CursorId, Timestamp> = HashMap::new();
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let partition = PartitionId(columns.take()?);
            let group = GroupId(columns.take()?);
            ends.insert(CursorId { partition, group }, columns.moment()?);
        }
        let mut extension = Extension {
            held: Vec::new(),
            lost: Vec::new(),
            expires_at: ends.values().min().copied(),
        };
        for cursor in lease.cursors {
            if ends.contains_key(&cursor) {
                extension.held.push(cursor.partition);
            } else {
                extension.lost.push(cursor.partition);
            }
        }
        Ok(extension)
    }

    /// Releases the unsettled messages of leases.
    pub(super) async fn release(&self, leases: Vec<LeaseId>) -> Result<Vec<Change>, StoreError> {
        const OPERATION: &str = "release";
        let mut partitions = Vec::new();
        let mut groups = Vec::new();
        let mut tokens = Vec::new();
        for lease in &leases {
            for cursor in &lease.cursors {
                partitions.push(cursor.partition.0);
                groups.push(cursor.group.0);
                tokens.push(lease.token.0);
            }
        }
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let sql = &self.sql.release;
        let rows = self.general(OPERATION, sql, &[&partitions, &groups, &tokens]).await?;
        let mut changes = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            let mut change = rows::change(&mut columns)?;
            change.group = Some(columns.name("group")?);
            change.due_in = rows::span(columns.take()?);
            changes.push(change);
        }
        self.shared.notifier.notify(&changes);
        Ok(changes)
    }
}
