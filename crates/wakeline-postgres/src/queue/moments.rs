//! Moments that must not lie in the future by the database's clock.
//!
//! # Invariants
//! * Whoever names such a moment is refused alone: its neighbours in a call are not concerned.

use std::sync::atomic::Ordering;

use wakeline_core::{Subscription, Timestamp};
use wakeline_store::{InvalidField, LineClaim, LineOutcome, StoreError};

use super::Core;
use crate::rows::Columns;

const OPERATION: &str = "claim";

impl Core {
    /// Takes out the lines that subscribe from a moment that lies in the future; returns the
    /// others, and the outcomes of those with their places, in order.
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

    /// The time by the database's clock.
    pub(crate) async fn clock(&self, operation: &'static str) -> Result<Timestamp, StoreError> {
        let rows = self.general(operation, &self.sql.clock, &[]).await?;
        let now = rows.first().map(|row| Columns::new(operation, row).moment()).transpose()?;
        Ok(now.unwrap_or(Timestamp(0)))
    }

    /// Refuses a moment that lies in the future by the database's clock.
    pub(crate) async fn not_in_the_future(
        &self,
        field: &'static str,
        moment: Timestamp,
    ) -> Result<(), StoreError> {
        match moment > self.clock_at_least(moment).await? {
            true => Err(InvalidField::future(field).into_error()),
            false => Ok(()),
        }
    }

    /// A time that the database's clock has reached: what is known of it, if that is late enough
    /// for the moment in question.
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
