//! Refuses timestamps that are in the future by the database's clock.
//!
//! # Invariants
//! * Only the command with such a timestamp is refused; the other commands of its call are
//!   executed.

use std::sync::atomic::Ordering;

use wakeline_core::{Subscription, Timestamp};
use wakeline_store::{InvalidField, LineClaim, LineOutcome, StoreError};

use super::QueueCore;
use crate::rows::Columns;

const OPERATION: &str = "claim";

impl QueueCore {
    /// Removes the lines that subscribe from a time in the future. Returns the other lines, and the
    /// outcomes of the refused lines with their indexes, in order.
    pub(super) async fn refuse_future(
        &self,
        lines: Vec<LineClaim>,
    ) -> Result<(Vec<LineClaim>, Vec<(usize, LineOutcome)>), StoreError> {
        let from = |line: &LineClaim| match line.subscription {
            Subscription::From(from) => Some(from),
            Subscription::All | Subscription::New => None,
        };
        let latest = lines.iter().filter_map(from).max();
        let Some(latest) = latest else { return Ok((lines, Vec::new())) };
        let now = self.clock_at_least(latest).await?;
        let (mut allowed, mut refused) = (Vec::with_capacity(lines.len()), Vec::new());
        for (index, line) in lines.into_iter().enumerate() {
            if from(&line).is_some_and(|from| from > now) {
                let refusal = InvalidField::future("subscriptionFrom");
                refused.push((index, LineOutcome::refused(line.requests.len(), refusal)));
            } else {
                allowed.push(line);
            }
        }
        Ok((allowed, refused))
    }

    /// Reads the database's clock.
    pub(crate) async fn clock(&self, operation: &'static str) -> Result<Timestamp, StoreError> {
        let rows = self.general(operation, &self.sql.clock, &[]).await?;
        let now = rows.first().map(|row| Columns::new(operation, row).moment()).transpose()?;
        Ok(now.unwrap_or(Timestamp(0)))
    }

    /// Refuses a time that is in the future by the database's clock.
    pub(crate) async fn not_in_the_future(
        &self,
        field: &'static str,
        moment: Timestamp,
    ) -> Result<(), StoreError> {
        if moment > self.clock_at_least(moment).await? {
            return Err(InvalidField::future(field).into_error());
        }
        Ok(())
    }

    /// Returns a time that the database's clock has reached: the latest known one if it is not
    /// before `moment`, otherwise the current time.
    async fn clock_at_least(&self, moment: Timestamp) -> Result<Timestamp, StoreError> {
        let seen = Timestamp(self.clock_seen.load(Ordering::Relaxed));
        if moment <= seen {
            return Ok(seen);
        }
        let now = self.clock(OPERATION).await?;
        self.clock_seen.fetch_max(now.0, Ordering::Relaxed);
        Ok(now)
    }
}
