//! Settlements, releases, extensions and transactions on both sides.

use std::time::Duration;

use wakeline_core::{Change, LeaseToken, TransactionId, Verdict};
use wakeline_store::{
    QueueStore as _, Refusal, SettleItem, TransactCommand, TransactOutcome, Transacted,
};

use super::compare::{Comparison, same, same_pushes, same_settlements};
use super::maintain::agreed;
use super::op::{Fence, MessageTarget, Settling};
use super::side::{Handle, QueueHold};
use super::world::{QueueWorld, failed};

impl QueueWorld<'_> {
    pub(super) async fn settle(&mut self, settlings: &[Settling]) -> Result<Vec<Change>, String> {
        let (oracle, store) = self.items(settlings);
        self.settle_items(oracle, store).await
    }

    pub(super) async fn settle_all(
        &mut self,
        hold: usize,
        verdict: Verdict,
        backwards: bool,
    ) -> Result<Vec<Change>, String> {
        let count = self.hold(hold).map_or(0, |hold| hold.messages.len());
        let settling =
            |message| Settling { hold, message, verdict, error: false, fence: Fence::Own };
        let mut settlings: Vec<_> = (0..count).map(settling).collect();
        if backwards {
            settlings.reverse();
        }
        self.settle(&settlings).await
    }

    async fn settle_items(
        &mut self,
        oracle_items: Vec<SettleItem>,
        store_items: Vec<SettleItem>,
    ) -> Result<Vec<Change>, String> {
        let oracle = self.oracle.settle(oracle_items.clone()).await.map_err(failed)?;
        let store = self.store.settle(store_items).await.map_err(failed)?;
        same_settlements(&oracle_items, &oracle.outcomes, &store.outcomes)?;
        Ok(store.changes)
    }

    pub(super) async fn release(&mut self, holds: &[usize]) -> Result<Vec<Change>, String> {
        let holds: Vec<&QueueHold> = holds.iter().filter_map(|hold| self.hold(*hold)).collect();
        let oracle = holds.iter().map(|hold| hold.oracle.lease.clone()).collect();
        let store = holds.iter().map(|hold| hold.store.lease.clone()).collect();
        self.oracle.release(oracle).await.map_err(failed)?;
        self.store.release(store).await.map_err(failed)
    }

    pub(super) async fn extend(&mut self, hold: usize, secs: u64) -> Comparison {
        let Some(hold) = self.hold(hold).cloned() else { return Ok(()) };
        let span = Duration::from_secs(secs);
        let oracle = self.oracle.extend(hold.oracle.lease, span).await.map_err(failed)?;
        let store = self.store.extend(hold.store.lease, span).await.map_err(failed)?;
        same("number of held partitions", oracle.held.len(), store.held.len())?;
        same("number of lost partitions", oracle.lost.len(), store.lost.len())?;
        let expires_at = store.expires_at.map(|at| self.skew.to_oracle(at));
        same("end of the extended lease", oracle.expires_at, expires_at)
    }

    pub(super) async fn transact(
        &mut self,
        pushes: &[(MessageTarget, u8)],
        settles: &[Settling],
    ) -> Result<Vec<Change>, String> {
        // A refused transaction may still have created partitions or moved due messages, so it
        // only pushes to partitions that exist and have no due message.
        let mut existing = Vec::new();
        for pick in pushes {
            if self.oracle.has_partition(
                &self.names.queues[pick.0.queue],
                &self.names.partitions[pick.0.partition],
            ) && !self.has_due(pick.0).await?
            {
                existing.push(*pick);
            }
        }
        let pushes = self.recurring_items(&existing);
        let (oracle_items, store_items) = self.items(settles);
        let command = |settles| TransactCommand {
            pushes: pushes.clone(),
            settles,
            ..TransactCommand::default()
        };
        let oracle = self.oracle.transact(command(oracle_items.clone())).await;
        let store = self.store.transact(command(store_items)).await;
        let Some((oracle, store)) = agreed(oracle, store)? else { return Ok(Vec::new()) };
        match (oracle.outcome, store.outcome) {
            (
                TransactOutcome::Committed(Transacted { pushes, settles, .. }),
                TransactOutcome::Committed(store),
            ) => {
                same_pushes(&pushes, &store.pushes)?;
                same_settlements(&oracle_items, &settles, &store.settles)?;
            }
            (
                TransactOutcome::Refused(Refusal::Settle { index: settle, outcome }),
                TransactOutcome::Refused(Refusal::Settle {
                    index: store_settle,
                    outcome: store_outcome,
                }),
            ) => {
                same("refused settlement", settle, store_settle)?;
                let repeats = |(a, b): (&SettleItem, &SettleItem)| {
                    (a.partition, &a.group) == (b.partition, &b.group)
                };
                let earlier = &oracle_items[..settle];
                let repeated = earlier.iter().any(|item| repeats((item, &oracle_items[settle])));
                if !repeated {
                    same("reason of the refusal", outcome, store_outcome)?;
                }
            }
            (oracle, store) => same("transaction", oracle, store)?,
        }
        Ok(store.changes)
    }

    /// Returns the settlements for each side, with the ids of that side.
    fn items(&self, settlings: &[Settling]) -> (Vec<SettleItem>, Vec<SettleItem>) {
        let known = |settling: &Settling| Some((*settling, self.hold(settling.hold)?));
        let settlings: Vec<_> = settlings.iter().filter_map(known).collect();
        let wrong = LeaseToken::generate();
        let item = |(settling, hold): &(Settling, &QueueHold), handle: &Handle| {
            let unknown = TransactionId::new("unknown").expect("a short id");
            SettleItem {
                partition: handle.partition,
                group: self.names.groups[hold.group].clone(),
                token: match settling.fence {
                    Fence::Own => Some(hold.token),
                    Fence::None => None,
                    Fence::OtherLease => Some(wrong),
                },
                transaction_id: hold.messages.get(settling.message).cloned().unwrap_or(unknown),
                verdict: settling.verdict,
                error: settling.error.then(|| format!("error of {:?}", settling.verdict)),
            }
        };
        let oracle = settlings.iter().map(|pair| item(pair, &pair.1.oracle)).collect();
        let store = settlings.iter().map(|pair| item(pair, &pair.1.store)).collect();
        (oracle, store)
    }
}
