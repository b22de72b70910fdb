//! The pushes and settlements of a transaction, which one call executes completely or not at all.
//!
//! # Where it sits
//! [`crate::transact`] makes the call, alone or as one of several statements of a transaction.
//!
//! # Invariants
//! * Nothing is written unless every settlement succeeds. A duplicate push is not a failure.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use wakeline_core::Change;
use wakeline_store::{PushItem, PushOutcome, SettleItem, SettleOutcome, StoreError};

use super::QueueCore;
use super::push_answer::SlotAnswer;
use super::push_plan::{PushCall, PushPlan};
use super::settle::{self, SettlePlan};
use crate::error;
use crate::rows::Columns;

const OPERATION: &str = "transact";

/// The index of the first column of a settlement.
const SETTLE_COLUMN: usize = 15;

/// The state of pushes and settlements that are executed together.
pub(crate) struct Exchange {
    settles: Vec<SettleItem>,
    settle_plan: SettlePlan,
    call: PushCall,
    plan: PushPlan,
}

/// The outcome of one attempt.
pub(crate) enum Exchanged {
    /// Nothing was written because some slots cannot be stored yet.
    Again(Vec<SlotAnswer>),
    /// Nothing was written because a settlement would fail.
    Refused {
        /// The index of the settlement.
        index: usize,
        /// The outcome of the settlement.
        outcome: SettleOutcome,
    },
    /// Everything was written; it takes effect if the transaction commits.
    Done(ExchangeResult),
}

/// The results of a successful attempt.
#[derive(Default)]
pub(crate) struct ExchangeResult {
    answers: Vec<SlotAnswer>,
    settles: Vec<SettleOutcome>,
    changes: Vec<Change>,
}

impl Exchange {
    pub(crate) fn new(pushes: Vec<PushItem>, settles: Vec<SettleItem>) -> Self {
        let settle_plan = SettlePlan::new(settles.iter());
        Self { settles, settle_plan, call: PushCall::new(pushes), plan: PushPlan::default() }
    }

    /// Returns whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.settles.is_empty() && self.call.items.is_empty()
    }

    /// Returns whether partitions may have been created for it.
    pub(crate) fn has_made_partitions(&self) -> bool {
        self.call.begun.made
    }

    /// Returns the partitions that it writes to.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = i64> {
        self.call.slots.iter().map(|slot| slot.partition)
    }

    /// Returns the parameters of this attempt.
    pub(crate) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params = self.plan.params();
        params.extend(self.settle_plan.params());
        params
    }

    /// Reads the outcome of an attempt.
    pub(crate) fn read(&self, rows: &[Row]) -> Result<Exchanged, StoreError> {
        let mut answers = Vec::new();
        for row in rows {
            let mut columns = Columns::new(OPERATION, row);
            if columns.take::<i16>()? == 0 {
                answers.push(SlotAnswer::read(&mut columns)?);
            }
        }
        if answers.iter().any(|answer| answer.state != 0) {
            return Ok(Exchanged::Again(answers));
        }
        let ours = rows.iter().filter(|row| row.get::<_, i16>(0) == 1);
        let mut ledger = settle::read_ledger(ours, OPERATION, SETTLE_COLUMN)?;
        let mut done = ExchangeResult { answers, ..ExchangeResult::default() };
        for (index, item) in self.settles.iter().enumerate() {
            let (outcome, change) = ledger.outcome(&self.settle_plan, index, item);
            if !matches!(outcome, SettleOutcome::Settled { .. }) {
                return Ok(Exchanged::Refused { index, outcome });
            }
            done.settles.push(outcome);
            done.changes.extend(change);
        }
        Ok(Exchanged::Done(done))
    }
}

impl QueueCore {
    /// Prepares the next attempt.
    pub(crate) async fn plan_exchange(&self, exchange: &mut Exchange) -> Result<(), StoreError> {
        let all: Vec<usize> = (0..exchange.call.slots.len()).collect();
        self.resolve_slots(&mut exchange.call, &all).await?;
        exchange.plan = PushPlan::new(&exchange.call, &all, &mut self.dedup.lock());
        Ok(())
    }

    /// Resolves what prevented slots from being stored.
    pub(crate) async fn prepare_exchange(
        &self,
        exchange: &mut Exchange,
        answers: Vec<SlotAnswer>,
    ) -> Result<(), StoreError> {
        for answer in answers.into_iter().filter(|answer| answer.state != 0) {
            let planned = &exchange.plan.slots[answer.slot];
            self.apply_slot(&mut exchange.call, planned, answer).await?;
        }
        Ok(())
    }

    /// Updates the caches after the commit. Returns the outcomes of the pushes and settlements, and
    /// the changes.
    pub(crate) async fn finish_exchange(
        &self,
        mut exchange: Exchange,
        done: ExchangeResult,
    ) -> Result<(Vec<PushOutcome>, Vec<SettleOutcome>, Vec<Change>), StoreError> {
        for answer in done.answers {
            let planned = &exchange.plan.slots[answer.slot];
            self.apply_slot(&mut exchange.call, planned, answer).await?;
        }
        let pushed = exchange.call.changes.into_iter().flatten();
        let changes = pushed.chain(done.changes).collect();
        let pushes: Option<Vec<PushOutcome>> = exchange.call.outcomes.into_iter().collect();
        let pushes = pushes.ok_or_else(|| error::unanswered(OPERATION))?;
        Ok((pushes, done.settles, changes))
    }
}
