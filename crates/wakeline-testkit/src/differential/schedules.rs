//! Scheduled messages and timers on both sides.

use std::collections::HashSet;
use std::time::Duration;

use wakeline_core::{Change, TimerKey};
use wakeline_store::flow::Visible;
use wakeline_store::{
    CancelItem, CancelOutcome, QueueSchedule as _, QueueStore as _, ScheduleItem, ScheduleOutcome,
    ScheduledFilter, ScheduledMessage, TransactCommand, TransactOutcome, Transacted,
};

use super::compare::{Comparison, same};
use super::maintain::agreed;
use super::op::{MessageTarget, Scheduling};
use super::world::{QueueWorld, failed};

impl QueueWorld<'_> {
    /// Schedules and cancels in one transaction.
    pub(super) async fn schedule(
        &mut self,
        picks: &[Scheduling],
        cancels: &[(usize, u8)],
    ) -> Result<Vec<Change>, String> {
        let messages = picks.iter().map(|pick| (pick.place, pick.id)).collect::<Vec<_>>();
        let messages = self.recurring_items(&messages);
        let mut named = HashSet::new();
        let mut schedules = Vec::new();
        for (pick, message) in picks.iter().zip(messages) {
            if !self.may_push(&message).await? {
                continue;
            }
            let key = pick.key.filter(|key| named.insert((pick.place.queue, *key)));
            let due = Visible::After(Duration::from_millis(pick.ms));
            schedules.push(ScheduleItem { message, due, key: key.map(timer_key) });
        }
        let cancels = cancels.iter().filter(|timer| named.insert(**timer));
        let cancels = cancels.map(|(queue, key)| CancelItem {
            queue: self.names.queues[*queue].clone(),
            key: timer_key(*key),
        });
        let cancels = cancels.collect();
        let command = TransactCommand { schedules, cancels, ..TransactCommand::default() };
        let (oracle, store) =
            (self.oracle.transact(command.clone()).await, self.store.transact(command).await);
        let Some((oracle, store)) = agreed(oracle, store)? else { return Ok(Vec::new()) };
        let (TransactOutcome::Committed(oracle), TransactOutcome::Committed(done)) =
            (oracle.outcome, store.outcome)
        else {
            return Err("scheduling was refused".to_owned());
        };
        self.same_schedules(&oracle, &done)?;
        Ok(store.changes)
    }

    fn same_schedules(&self, oracle: &Transacted, store: &Transacted) -> Comparison {
        same("number of schedules", oracle.schedules.len(), store.schedules.len())?;
        for (oracle, store) in oracle.schedules.iter().zip(&store.schedules) {
            let plain = |outcome: &ScheduleOutcome| match *outcome {
                ScheduleOutcome::Duplicate { id, .. } => (id, None),
                ScheduleOutcome::Scheduled { id, deliver_at, replaced, .. } => {
                    (id, Some((deliver_at, replaced)))
                }
            };
            let (id, when) = plain(store);
            let when = when.map(|(at, replaced)| (self.skew.to_oracle(at), replaced));
            same("what was scheduled", plain(oracle), (id, when))?;
        }
        same("number of cancellations", oracle.cancels.len(), store.cancels.len())?;
        for (oracle, store) in oracle.cancels.iter().zip(&store.cancels) {
            let plain = |outcome: &CancelOutcome| match outcome {
                CancelOutcome::Cancelled(named) => (0, Some(named.id)),
                CancelOutcome::TooLate(named) => (1, Some(named.id)),
                CancelOutcome::Absent => (2, None),
            };
            same("what was cancelled", plain(oracle), plain(store))?;
        }
        Ok(())
    }

    /// Returns whether a partition has a scheduled message that is due but not in the log yet.
    pub(super) async fn has_due(&self, place: MessageTarget) -> Result<bool, String> {
        let queue = &self.names.queues[place.queue];
        let partition = &self.names.partitions[place.partition];
        let now = self.oracle.now();
        if self.holds_back().await? {
            return Ok(false);
        }
        let found = self.oracle.scheduled(all_of(queue)).await.map_err(failed)?;
        Ok(found.iter().any(|one| one.partition == *partition && one.deliver_at <= now))
    }

    /// Compares the scheduled messages, which have the same order in each partition.
    pub(super) async fn inspect_scheduled(&self) -> Comparison {
        for queue in &self.names.queues {
            let plain = |one: &ScheduledMessage| {
                (one.key.clone(), one.id, one.transaction_id.clone(), one.partition.clone())
            };
            let times = |one: &ScheduledMessage| (one.scheduled_at, one.deliver_at);
            let mut oracle = self.oracle.scheduled(all_of(queue)).await.map_err(failed)?;
            let mut store = self.store.scheduled(all_of(queue)).await.map_err(failed)?;
            oracle.sort_by(|a, b| a.partition.cmp(&b.partition));
            store.sort_by(|a, b| a.partition.cmp(&b.partition));
            let by_oracle: Vec<_> = oracle.iter().map(|one| (plain(one), times(one))).collect();
            let by_store = store.iter().map(|one| {
                let (scheduled_at, deliver_at) = times(one);
                let at = (self.skew.to_oracle(scheduled_at), self.skew.to_oracle(deliver_at));
                (plain(one), at)
            });
            same("what is scheduled", by_oracle, by_store.collect())?;
        }
        Ok(())
    }
}

fn all_of(queue: &wakeline_core::QueueName) -> ScheduledFilter {
    ScheduledFilter { queue: queue.clone(), key: None, after: None, limit: 10_000 }
}

fn timer_key(n: u8) -> TimerKey {
    TimerKey::new(format!("key-{n}")).expect("a short name")
}
