//! Pushes that are stored in the transaction of another write.
//!
//! # Where it sits
//! Turns of orchestrations and redrives commit with such pushes. The writing SQL function gets
//! [`PiggybackedPushes::params`], as `push_slots` does, and returns a row per slot; it stores
//! either all slots or none.
//!
//! # Invariants
//! * As in a transaction of the queue, the write is attempted until every slot can be stored.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use wakeline_core::Change;
use wakeline_store::{PushItem, PushOutcome, StoreError};

use super::QueueCore;
use super::push_answer::SlotAnswer;
use super::push_plan::{PushCall, PushPlan};
use crate::error;
use crate::rows::Columns;

/// The maximum number of attempts. As for pushes, each attempt resolves something permanently.
const ROUNDS_MAX: usize = 50;

/// The state of pushes that are stored with another write.
pub(crate) struct PiggybackedPushes {
    call: PushCall,
    plan: PushPlan,
    answers: Vec<SlotAnswer>,
    rounds: usize,
}

impl Default for PiggybackedPushes {
    /// Creates the state for a write without pushes.
    fn default() -> Self {
        let (call, plan) = (PushCall::new(Vec::new()), PushPlan::default());
        Self { call, plan, answers: Vec::new(), rounds: 0 }
    }
}

impl PiggybackedPushes {
    /// Returns the parameters of this attempt.
    pub(crate) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.plan.params()
    }
}

impl QueueCore {
    /// Prepares pushes that are stored with another write.
    pub(crate) fn piggyback(&self, pushes: Vec<PushItem>) -> PiggybackedPushes {
        let mut call = PushCall::new(pushes);
        call.producer = false;
        PiggybackedPushes { call, ..PiggybackedPushes::default() }
    }

    /// Prepares the next attempt.
    pub(crate) async fn plan_piggybacked(
        &self,
        pushes: &mut PiggybackedPushes,
    ) -> Result<(), StoreError> {
        pushes.rounds += 1;
        if pushes.rounds > ROUNDS_MAX {
            let source = "other nodes changed the same queues during every attempt".into();
            return Err(StoreError::Transient { operation: "push in a transaction", source });
        }
        let all: Vec<usize> = (0..pushes.call.slots.len()).collect();
        self.resolve_slots(&mut pushes.call, &all).await?;
        pushes.plan = PushPlan::new(&pushes.call, &all, &mut self.dedup.lock());
        Ok(())
    }

    /// Reads the rows of slots, whose columns begin at `first`. Returns false if nothing was stored
    /// and another attempt is necessary.
    pub(crate) async fn read_piggybacked<'a>(
        &self,
        pushes: &mut PiggybackedPushes,
        operation: &'static str,
        first: usize,
        rows: impl Iterator<Item = &'a Row>,
    ) -> Result<bool, StoreError> {
        let read = |row| SlotAnswer::read(&mut Columns::from(operation, row, first));
        let answers = rows.map(read).collect::<Result<Vec<_>, _>>()?;
        if answers.iter().all(|answer| answer.state == 0) {
            pushes.answers = answers;
            return Ok(true);
        }
        for answer in answers.into_iter().filter(|answer| answer.state != 0) {
            let planned = &pushes.plan.slots[answer.slot];
            self.apply_slot(&mut pushes.call, planned, answer).await?;
        }
        Ok(false)
    }

    /// Updates the caches with what was stored, and notifies other nodes.
    pub(crate) async fn finish_piggybacked(
        &self,
        mut pushes: PiggybackedPushes,
    ) -> Result<(Vec<PushOutcome>, Vec<Change>), StoreError> {
        for answer in std::mem::take(&mut pushes.answers) {
            let planned = &pushes.plan.slots[answer.slot];
            self.apply_slot(&mut pushes.call, planned, answer).await?;
        }
        let changes: Vec<Change> = pushes.call.changes.into_iter().flatten().collect();
        self.shared.notifier.notify(&changes);
        let outcomes: Option<Vec<PushOutcome>> = pushes.call.outcomes.into_iter().collect();
        let outcomes = outcomes.ok_or_else(|| error::unanswered("push in a transaction"))?;
        Ok((outcomes, changes))
    }
}
