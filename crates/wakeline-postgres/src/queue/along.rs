//! Pushes that go along with another write, in its transaction.
//!
//! # Where it sits
//! A turn of an orchestration commits with them. The writing function is given [`Along::params`]
//! as `push_slots` is, and returns a row per slot; it stores either all of them or none.
//!
//! # Invariants
//! * Like a transaction of the queue: tried until every slot can be stored.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use wakeline_core::Change;
use wakeline_store::{PushItem, PushOutcome, StoreError};

use super::Core;
use super::push_answer::SlotAnswer;
use super::push_plan::{PushCall, PushPlan};
use crate::error;
use crate::rows::Columns;

/// As for pushes: each round settles something for good.
const ROUNDS_MAX: usize = 50;

/// Pushes on their way.
pub(crate) struct Along {
    call: PushCall,
    plan: PushPlan,
    answers: Vec<SlotAnswer>,
    rounds: usize,
}

impl Default for Along {
    /// No pushes.
    fn default() -> Self {
        let (call, plan) = (PushCall::new(Vec::new()), PushPlan::default());
        Self { call, plan, answers: Vec::new(), rounds: 0 }
    }
}

impl Along {
    /// The parameters of this try.
    pub(crate) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.plan.params()
    }
}

impl Core {
    /// Begins with some pushes.
    pub(crate) fn along(&self, pushes: Vec<PushItem>) -> Along {
        let mut call = PushCall::new(pushes);
        call.producer = false;
        Along { call, ..Along::default() }
    }

    /// Prepares the next try.
    pub(crate) async fn plan_along(&self, along: &mut Along) -> Result<(), StoreError> {
        along.rounds += 1;
        if along.rounds > ROUNDS_MAX {
            let source = "other nodes changed the same queues during every try".into();
            return Err(StoreError::Transient { operation: "push in a transaction", source });
        }
        let all: Vec<usize> = (0..along.call.slots.len()).collect();
        self.resolve_slots(&mut along.call, &all).await?;
        along.plan = PushPlan::new(&along.call, &all, &mut self.dedup.lock());
        Ok(())
    }

    /// Reads the rows of slots, whose columns begin at an index. False if nothing was stored and
    /// another try has to follow.
    pub(crate) async fn read_along<'a>(
        &self,
        along: &mut Along,
        (operation, first): (&'static str, usize),
        rows: impl Iterator<Item = &'a Row>,
    ) -> Result<bool, StoreError> {
        let read = |row| SlotAnswer::read(&mut Columns::from(operation, row, first));
        let answers = rows.map(read).collect::<Result<Vec<_>, _>>()?;
        if answers.iter().all(|answer| answer.state == 0) {
            along.answers = answers;
            return Ok(true);
        }
        for answer in answers.into_iter().filter(|answer| answer.state != 0) {
            let planned = &along.plan.slots[answer.slot];
            self.apply_slot(&mut along.call, planned, answer).await?;
        }
        Ok(false)
    }

    /// Acts on what was stored, and tells other nodes.
    pub(crate) async fn finish_along(
        &self,
        mut along: Along,
    ) -> Result<(Vec<PushOutcome>, Vec<Change>), StoreError> {
        for answer in std::mem::take(&mut along.answers) {
            let planned = &along.plan.slots[answer.slot];
            self.apply_slot(&mut along.call, planned, answer).await?;
        }
        let changes: Vec<Change> = along.call.changes.into_iter().flatten().collect();
        self.shared.notifier.tell(&changes);
        let outcomes: Option<Vec<PushOutcome>> = along.call.outcomes.into_iter().collect();
        let outcomes = outcomes.ok_or_else(|| error::unanswered("push in a transaction"))?;
        Ok((outcomes, changes))
    }
}
