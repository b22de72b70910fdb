//! Transact: pushes and settlements, all or nothing, in one call and commit.
//!
//! # Invariants
//! * Nothing happens unless every settlement succeeds; a duplicate push does not stand in the way.
//! * A call of unknown outcome is not repeated: its settlements could not tell their own first try
//!   from another's.

use tokio_postgres::Row;
use wakeline_core::Change;
use wakeline_store::{
    PushOutcome, SettleItem, SettleOutcome, StoreError, TransactCommand, TransactOutcome,
    TransactReply,
};

use super::Core;
use super::push::SlotAnswer;
use super::push_plan::{PushCall, PushPlan};
use super::settle::{self, SettlePlan};
use crate::rows::Columns;

const OPERATION: &str = "transact";

/// As for pushes: each round settles something for good.
const ROUNDS_MAX: usize = 50;

/// Where the columns of a settlement begin.
const SETTLE_COLUMN: usize = 15;

impl Core {
    /// Pushes and settles, all or nothing.
    pub(super) async fn transact(
        &self,
        command: TransactCommand,
    ) -> Result<TransactReply, StoreError> {
        let settles = command.settles;
        let settle_plan = SettlePlan::new(settles.iter());
        let mut call = PushCall::new(command.pushes);
        let all: Vec<usize> = (0..call.slots.len()).collect();
        for _ in 0..ROUNDS_MAX {
            self.resolve_slots(&mut call, &all).await?;
            let plan = PushPlan::new(&call, &all, &mut self.dedup.lock());
            let mut params = plan.params();
            params.extend(settle_plan.params());
            let rows = self.general(OPERATION, &self.sql.transact, &params).await?;
            let Some(answers) = self.slot_answers(&mut call, &plan, &rows).await? else { continue };
            let reply = settled(&settles, &settle_plan, &rows)?;
            let (outcomes, mut changes) = match reply {
                Ok(settled) => settled,
                Err(refused) => {
                    return Ok(TransactReply { outcome: refused, changes: Vec::new() });
                }
            };
            for answer in answers {
                let planned = &plan.slots[answer.slot];
                self.apply_slot(&mut call, planned, answer).await?;
            }
            let pushed = call.changes.iter().flatten().cloned().collect();
            changes = [pushed, changes].concat();
            self.shared.notifier.tell(&changes);
            let pushes: Option<Vec<PushOutcome>> = call.outcomes.into_iter().collect();
            let pushes = pushes.ok_or_else(|| StoreError::Fatal {
                operation: OPERATION,
                source: "an item was not answered".into(),
            })?;
            let outcome = TransactOutcome::Committed { pushes, settles: outcomes };
            return Ok(TransactReply { outcome, changes });
        }
        Err(StoreError::Transient { operation: OPERATION, source: "no end of changes".into() })
    }

    /// The answers of all slots if all can be stored; else acts on them, for another try.
    async fn slot_answers(
        &self,
        call: &mut PushCall,
        plan: &PushPlan,
        rows: &[Row],
    ) -> Result<Option<Vec<SlotAnswer>>, StoreError> {
        let mut answers = Vec::new();
        for row in rows {
            let mut columns = Columns::new(OPERATION, row);
            if columns.take::<i16>()? == 0 {
                answers.push(SlotAnswer::read(&mut columns)?);
            }
        }
        if answers.iter().all(|answer| answer.state == 0) {
            return Ok(Some(answers));
        }
        for answer in answers {
            if answer.state != 0 {
                let planned = &plan.slots[answer.slot];
                self.apply_slot(call, planned, answer).await?;
            }
        }
        Ok(None)
    }
}

type Settled = (Vec<SettleOutcome>, Vec<Change>);

/// The outcomes of the settlements, or which of them was refused.
fn settled(
    items: &[SettleItem],
    plan: &SettlePlan,
    rows: &[Row],
) -> Result<Result<Settled, TransactOutcome>, StoreError> {
    let ours = rows.iter().filter(|row| row.get::<_, i16>(0) == 1);
    let mut ledger = settle::read_ledger(ours, OPERATION, SETTLE_COLUMN)?;
    let mut outcomes = Vec::with_capacity(items.len());
    let mut changes = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let (outcome, change) = ledger.outcome(plan, index, item);
        if !matches!(outcome, SettleOutcome::Settled { .. }) {
            return Ok(Err(TransactOutcome::Refused { settle: index, outcome }));
        }
        outcomes.push(outcome);
        changes.extend(change);
    }
    Ok(Ok((outcomes, changes)))
}
