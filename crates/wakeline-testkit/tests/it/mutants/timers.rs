//! Mutations of scheduled messages and timers.

use std::time::Duration;

use wakeline_store::flow::Visible;
use wakeline_store::{
    CancelItem, PushItem, QueueSchedule as _, QueueStore as _, ScheduleItem, ScheduleOutcome,
    ScheduledFilter, StoreError, TransactCommand, TransactOutcome, TransactReply,
};

use super::MutantQueueStore;

impl MutantQueueStore {
    /// Cancels timers, but schedules their messages again without a key.
    pub(super) async fn keep_cancelled(
        &self,
        command: TransactCommand,
    ) -> Result<TransactReply, StoreError> {
        let mut waiting = Vec::new();
        for CancelItem { queue, key } in &command.cancels {
            let (queue, key) = (queue.clone(), Some(key.clone()));
            let filter = ScheduledFilter { queue: queue.clone(), key, after: None, limit: 1 };
            let found = self.inner.scheduled(filter).await?;
            waiting.extend(found.into_iter().map(|one| (queue.clone(), one)));
        }
        let reply = self.inner.transact(command).await?;
        for (queue, one) in waiting {
            let message = PushItem {
                queue,
                partition: one.partition,
                id: one.id,
                transaction_id: one.transaction_id,
                trace_id: one.trace_id,
                payload: one.payload,
                producer: one.producer,
            };
            let due = Visible::At(one.deliver_at);
            let schedules = vec![ScheduleItem { message, due, key: None }];
            let again = TransactCommand { schedules, ..TransactCommand::default() };
            self.inner.transact(again).await?;
        }
        Ok(reply)
    }

    pub(super) async fn schedule_late(
        &self,
        mut command: TransactCommand,
    ) -> Result<TransactReply, StoreError> {
        let late = Duration::from_secs(1);
        for item in &mut command.schedules {
            if let Visible::After(span) = &mut item.due {
                *span += late;
            }
        }
        let mut reply = self.inner.transact(command).await?;
        if let TransactOutcome::Committed(done) = &mut reply.outcome {
            for outcome in &mut done.schedules {
                if let ScheduleOutcome::Scheduled { deliver_at, .. } = outcome {
                    deliver_at.0 -= 1_000_000;
                }
            }
        }
        Ok(reply)
    }
}
