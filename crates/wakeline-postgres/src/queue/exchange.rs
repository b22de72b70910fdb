//! Pushes and settlements of a transaction: all of them in one call, or nothing.
//!
//! # Where it sits
//! [`crate::transact`] makes the call, by itself or within a transaction of several statements.
//!
//! # Invariants
//! * Nothing happens unless every settlement succeeds; a duplicate push does not stand in the way.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use wakeline_core::Change;
use wakeline_store::{PushItem, PushOutcome, SettleItem, SettleOutcome, StoreError};

use super::Core;
use super::push_answer::SlotAnswer;
use super::push_plan::{PushCall, PushPlan};
use super::settle::{self, SettlePlan};
use crate::error;
use crate::rows::Columns;

const OPERATION: &str = "transact";

/// Where the columns of a settlement begin.
const SETTLE_COLUMN: usize = 15;

/// Pushes and settlements on their way.
pub(crate) struct Exchange {
    settles: Vec<SettleItem>,
    settle_plan: SettlePlan,
    call: PushCall,
    plan: PushPlan,
}

/// How a try ended.
pub(crate) enum Exchanged {
    /// Nothing happened: some slots cannot be stored yet.
    Again(Vec<SlotAnswer>),
    /// Nothing happened: a settlement would not succeed.
    Refused {
        /// Its index.
        index: usize,
        /// Why.
        outcome: SettleOutcome,
    },
    /// It stands, if the transaction does.
    Done(Done),
}

/// What a try did.
#[derive(Default)]
pub(crate) struct Done {
    answers: Vec<SlotAnswer>,
    settles: Vec<SettleOutcome>,
    changes: Vec<Change>,
}

impl Exchange {
    pub(crate) fn new(pushes: Vec<PushItem>, settles: Vec<SettleItem>) -> Self {
        let settle_plan = SettlePlan::new(settles.iter());
        Self { settles, settle_plan, call: PushCall::new(pushes), plan: PushPlan::default() }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.settles.is_empty() && self.call.items.is_empty()
    }

    /// Whether partitions that it writes to may have been made for it.
    pub(crate) fn has_made_partitions(&self) -> bool {
        self.call.begun.made
    }

    /// The partitions that it writes to.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = i64> {
        self.call.slots.iter().map(|slot| slot.partition)
    }

    /// The parameters of this try.
    pub(crate) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params = self.plan.params();
        params.extend(self.settle_plan.params());
        params
    }

    /// Reads how a try ended.
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
        let mut done = Done { answers, ..Done::default() };
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

impl Core {
    /// Prepares the next try.
    pub(crate) async fn plan_exchange(&self, exchange: &mut Exchange) -> Result<(), StoreError> {
        let all: Vec<usize> = (0..exchange.call.slots.len()).collect();
        self.resolve_slots(&mut exchange.call, &all).await?;
        exchange.plan = PushPlan::new(&exchange.call, &all, &mut self.dedup.lock());
        Ok(())
    }

    /// Acts on what keeps slots from being stored.
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

    /// Acts on what was committed: outcomes of pushes and settlements, and what became available.
    pub(crate) async fn finish_exchange(
        &self,
        mut exchange: Exchange,
        done: Done,
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
