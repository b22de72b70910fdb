//! Counts messages that were dropped because their attempts were used up and their queue keeps no
//! dead letters. Each is logged with its queue, partition and offset or transaction id.

use std::collections::HashSet;

use parking_lot::Mutex;
use wakeline_core::QueueName;
use wakeline_store::{Dropped, SettleItem, SettleOutcome};

/// The number of queues that are counted by name; the others are counted together.
const LABELS_MAX: usize = 100;

/// Counts messages that were dropped, by queue.
#[derive(Default)]
pub(crate) struct Drops {
    labels: Mutex<HashSet<QueueName>>,
}

impl Drops {
    /// Counts the messages that settlements dropped.
    pub(crate) fn settled(&self, items: &[SettleItem], outcomes: &[SettleOutcome]) {
        for (item, outcome) in items.iter().zip(outcomes) {
            if let SettleOutcome::Settled { queue, partition, dropped: true, .. } = outcome {
                tracing::info!(%queue, %partition, transaction_id = %item.transaction_id,
                    group = %item.group,
                    "a message was dropped after its last attempt, because the queue keeps no \
                     dead letters");
                self.count(queue);
            }
        }
    }

    /// Counts the messages that a claim dropped.
    pub(crate) fn expired(&self, all: &[Dropped]) {
        for Dropped { queue, partition, offset } in all {
            tracing::info!(%queue, %partition, offset,
                "a message was dropped: the lease of its last attempt expired, and the queue \
                 keeps no dead letters");
            self.count(queue);
        }
    }

    fn count(&self, queue: &QueueName) {
        let mut labels = self.labels.lock();
        let known =
            labels.contains(queue) || (labels.len() < LABELS_MAX && labels.insert(queue.clone()));
        let label = if known { queue.to_string() } else { "other".to_owned() };
        metrics::counter!("wakeline_queue_messages_dropped_total", "queue" => label).increment(1);
    }
}
