//! Housekeeping of queues: each call removes a limited number of expired rows.
//!
//! # Where it sits
//! Implements `QueueKeeper` over `sql/functions/housekeep.sql`, on a connection for general use.

use async_trait::async_trait;
use wakeline_core::QueueName;
use wakeline_store::{Housekeeping, HousekeepingReport, Losses, QueueKeeper, StoreError};

use crate::PostgresStore;
use crate::admin::count;
use crate::connect::Params;
use crate::rows::{self, Columns};

/// A row with the summary of the call.
const SUMMARY: i16 = 0;
/// A row with the messages that the groups of a queue lost.
const LOST: i16 = 1;

#[async_trait]
impl QueueKeeper for PostgresStore {
    async fn housekeep(&self, options: Housekeeping) -> Result<HousekeepingReport, StoreError> {
        const OPERATION: &str = "housekeep";
        let core = &self.queue.core;
        let rows_max = i32::try_from(options.rows_max.max(1)).unwrap_or(i32::MAX);
        let interval = i64::try_from(options.interval.as_micros()).unwrap_or(i64::MAX);
        let sql = &core.sql.housekeep;
        let keep =
            options.stats_keep.map(|keep| i64::try_from(keep.as_micros()).unwrap_or(i64::MAX));
        let params: Params<'_> = &[&rows_max, &interval, &options.restart, &keep];
        let rows = core.general(OPERATION, sql, params).await?;
        let mut report = HousekeepingReport::default();
        for row in &rows {
            let mut columns = Columns::new(OPERATION, row);
            match columns.take::<i16>()? {
                SUMMARY => {
                    columns.skip(4);
                    report.removed = count(columns.take()?);
                    columns.skip(1);
                    report.next_due = columns.take::<Option<i64>>()?.map(rows::span);
                }
                LOST => {
                    let queue = columns.name("queue")?;
                    columns.skip(3);
                    let (expired, evicted) = (count(columns.take()?), count(columns.take()?));
                    columns.skip(1);
                    let dropped = count(columns.take()?);
                    report.losses.push((queue, Losses { expired, evicted, dropped }));
                }
                _ => report.changes.push(rows::change(&mut columns)?),
            }
        }
        self.shared.notifier.notify(&report.changes);
        Ok(report)
    }

    async fn losses(&self, queue: &QueueName) -> Result<Losses, StoreError> {
        const OPERATION: &str = "read losses";
        let core = &self.queue.core;
        let rows = core.general(OPERATION, &core.sql.queue_losses, &[&queue.as_str()]).await?;
        let Some(row) = rows.first() else { return Ok(Losses::default()) };
        let mut columns = Columns::new(OPERATION, row);
        Ok(Losses {
            expired: count(columns.take()?),
            evicted: count(columns.take()?),
            dropped: count(columns.take()?),
        })
    }
}
