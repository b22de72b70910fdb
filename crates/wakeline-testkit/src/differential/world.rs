//! Runs one sequence on both sides.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{Change, MessageId, QueueLine, QueueName, QueueOptions, TransactionId};
use wakeline_store::{
    ClaimRequest, ConfigureQueue, LineClaim, PushItem, QueueAdmin as _, QueueGroups as _,
    QueueKeeper as _, QueueStore as _, Seek, SeekTo, Store, StoreError,
};

use super::compare::{Comparison, check_due_notifications, same, same_pushes, sweep_is_not_late};
use super::maintain::agreed;
use super::op::{Begin, MessageTarget, QueueOp};
use super::side::{QueueHold, QueueNames, QueueSkew, ago};
use crate::conformance::{StoreUnderTest, housekeep_all};
use crate::oracle::MemoryStore;

/// Leases that are remembered, most of them stale.
const HOLDS_MAX: usize = 24;

/// Both sides, and what is known of them.
pub(super) struct QueueWorld<'a> {
    fixture: &'a dyn StoreUnderTest,
    pub(super) store: Arc<dyn Store>,
    pub(super) oracle: MemoryStore,
    pub(super) names: QueueNames,
    pub(super) skew: QueueSkew,
    pub(super) holds: Vec<QueueHold>,
    lines: Vec<QueueLine>,
    pushed: u64,
}

/// Runs a sequence on the store and on a fresh oracle.
pub(super) async fn replay(
    fixture: &dyn StoreUnderTest,
    options: Vec<QueueOptions>,
    ops: &[QueueOp],
) -> Comparison {
    let mut world = QueueWorld::begin(fixture).await?;
    let outcome = world.run(options, ops).await;
    world.end().await;
    outcome
}

/// An error of the store, in words.
pub(super) fn failed(error: StoreError) -> String {
    format!("the store failed: {error:?}")
}

impl<'a> QueueWorld<'a> {
    async fn run(&mut self, options: Vec<QueueOptions>, ops: &[QueueOp]) -> Comparison {
        // Sweeps count as polls: without them the last group is idle at times.
        if options.iter().any(|options| options.group_idle_secs > 0) {
            let last = self.names.groups.last().cloned();
            self.lines.retain(|line| Some(&line.group) != last.as_ref());
        }
        for (queue, options) in options.into_iter().enumerate() {
            self.configure(queue, options).await?;
        }
        for (n, op) in ops.iter().enumerate() {
            self.step(op).await.map_err(|difference| format!("step {n}: {difference}"))?;
        }
        self.step(&QueueOp::Inspect).await.map_err(|difference| format!("at the end: {difference}"))
    }

    async fn begin(fixture: &'a dyn StoreUnderTest) -> Result<Self, String> {
        let (store, oracle, names) = (fixture.store(), MemoryStore::new(), QueueNames::fresh());
        let queue = clock_queue(&names);
        let item = push_item(&queue, &names, 0, "clock".to_owned());
        store.push(vec![item]).await.map_err(failed)?;
        let mut line = names.wide_line(Some(0), 0);
        line.selector = wakeline_core::Selector::Queue(queue);
        let request = ClaimRequest {
            token: wakeline_core::LeaseToken::generate(),
            batch_len_max: 1,
            bytes_max: u64::MAX,
            partitions_len_max: 1,
            auto_ack: true,
            worker: Some("a worker".to_owned()),
        };
        let claim = LineClaim {
            line,
            subscription: Default::default(),
            requests: vec![request],
            further: false,
        };
        let outcome = store.claim(vec![claim]).await.map_err(failed)?.remove(0);
        let result =
            outcome.results[0].as_ref().ok_or("the store does not give what was pushed")?;
        let skew = QueueSkew(result.partitions[0].messages[0].created_at.0 - oracle.now().0);
        let lines = names.all_lines();
        Ok(Self { fixture, store, oracle, names, skew, holds: Vec::new(), lines, pushed: 0 })
    }

    /// Leaves the store small for the next case. The results of the sequence have been compared
    /// before.
    async fn end(self) {
        self.reopen().await;
        for queue in [clock_queue(&self.names)].iter().chain(&self.names.queues) {
            self.store.delete_queue(queue).await.ok();
        }
    }

    /// Applies one operation. Afterwards no due time may be late, and no waiter may have missed a
    /// change.
    async fn step(&mut self, op: &QueueOp) -> Comparison {
        let lines = self.lines.clone();
        let before = self.oracle.sweep(lines.clone()).await.map_err(failed)?;
        let changes = self.apply(op).await?;
        let after = self.oracle.sweep(lines.clone()).await.map_err(failed)?;
        if let Some(changes) = changes {
            check_due_notifications(&lines, &before, &after, &changes)?;
        }
        let store = self.store.sweep(lines.clone()).await.map_err(failed)?;
        sweep_is_not_late(&lines, &after, &store)
    }

    /// Applies an operation and returns the changes that the store reported, where it can.
    async fn apply(&mut self, op: &QueueOp) -> Result<Option<Vec<Change>>, String> {
        // Stores and oracle pass over what is past its time when they come upon it. Where it
        // could be seen who came upon what, all of it is done before.
        let reported = match op {
            QueueOp::Configure { .. }
            | QueueOp::DeleteGroup { .. }
            | QueueOp::Seek { .. }
            | QueueOp::Redrive { .. }
            | QueueOp::Delete { .. }
            | QueueOp::Inspect => self.housekeep().await?,
            _ => Vec::new(),
        };
        let changes = self.apply_alone(op).await?;
        Ok(changes.map(|changes| [reported, changes].concat()))
    }

    async fn apply_alone(&mut self, op: &QueueOp) -> Result<Option<Vec<Change>>, String> {
        match op {
            QueueOp::PushFresh { place, count } => {
                let items = (0..*count).map(|_| self.fresh_item(*place)).collect();
                return self.push(items).await.map(Some);
            }
            QueueOp::PushRecurring(picks) => {
                let items = self.recurring_items(picks);
                return self.push(items).await.map(Some);
            }
            QueueOp::Claim { place, portion } => self.claim(*place, *portion).await?,
            QueueOp::ClaimAll { queue, partitions, portion } => {
                self.claim_all(*queue, *partitions, *portion).await?;
            }
            QueueOp::Settle(settlings) => return self.settle(settlings).await.map(Some),
            QueueOp::SettleAll { hold, verdict, backwards } => {
                return self.settle_all(*hold, *verdict, *backwards).await.map(Some);
            }
            QueueOp::Release(holds) => return self.release(holds).await.map(Some),
            QueueOp::Extend { hold, secs } => self.extend(*hold, *secs).await?,
            QueueOp::Transact { pushes, settles } => {
                return self.transact(pushes, settles).await.map(Some);
            }
            QueueOp::Schedule { picks, cancels } => {
                return self.schedule(picks, cancels).await.map(Some);
            }
            QueueOp::Configure { queue, options } => {
                return self.configure(*queue, options.clone()).await.map(Some);
            }
            QueueOp::DeleteQueue(queue) => self.delete_queue(*queue).await?,
            QueueOp::DeleteGroup { group, queue } => {
                return self.delete_group(*group, *queue).await.map(Some);
            }
            QueueOp::Seek { group, queue, partition, to } => {
                return self.seek(*group, *queue, *partition, *to).await.map(Some);
            }
            QueueOp::Redrive { queue, group } => {
                return self.redrive(*queue, *group).await.map(Some);
            }
            QueueOp::Intervene { hold, message, bury } => {
                return self.intervene(*hold, *message, *bury).await.map(Some);
            }
            QueueOp::Delete { place, picks } => {
                return self.delete_messages(*place, picks).await.map(Some);
            }
            QueueOp::Clear { queue, dead_letters } => self.clear(*queue, *dead_letters).await?,
            QueueOp::Purge { queue, group } => self.purge_dead_letters(*queue, *group).await?,
            QueueOp::Advance { ms } => self.advance(*ms).await,
            QueueOp::AdvanceToDue { place, group, beside_ms } => {
                self.advance_to_due(*place, *group, *beside_ms).await?;
            }
            QueueOp::Maintain(set) => self.maintain(*set).await?,
            QueueOp::Housekeep => return self.housekeep().await.map(Some),
            QueueOp::Inspect => self.inspect().await?,
        }
        Ok(None)
    }

    fn fresh_item(&mut self, place: MessageTarget) -> PushItem {
        self.pushed += 1;
        let id = format!("fresh-{}", self.pushed);
        push_item(&self.names.queues[place.queue], &self.names, place.partition, id)
    }

    pub(super) fn recurring_items(&self, picks: &[(MessageTarget, u8)]) -> Vec<PushItem> {
        let item = |(place, id): &(MessageTarget, u8)| {
            let queue = &self.names.queues[place.queue];
            push_item(queue, &self.names, place.partition, format!("recurring-{id}"))
        };
        picks.iter().map(item).collect()
    }

    async fn push(&mut self, mut items: Vec<PushItem>) -> Result<Vec<Change>, String> {
        for index in (0..items.len()).rev() {
            if !self.may_push(&items[index]).await? {
                items.remove(index);
            }
        }
        let (oracle, store) = (self.oracle.push(items.clone()).await, self.store.push(items).await);
        let Some((oracle, store)) = agreed(oracle, store)? else { return Ok(Vec::new()) };
        same_pushes(&oracle.outcomes, &store.outcomes)?;
        Ok(store.changes)
    }

    async fn configure(
        &mut self,
        queue: usize,
        options: QueueOptions,
    ) -> Result<Vec<Change>, String> {
        let queue = self.names.queues[queue].clone();
        let command = ConfigureQueue { queue, namespace: None, task: None, options };
        let (oracle, _) = self.oracle.configure(command.clone()).await.map_err(failed)?;
        let (store, changes) = self.store.configure(command).await.map_err(failed)?;
        same("options", oracle.options, store.options)?;
        same("namespace", oracle.namespace, store.namespace)?;
        same("task", oracle.task, store.task)?;
        Ok(changes)
    }

    /// Nothing that is to stay may go, and nothing that is to go may stay.
    async fn housekeep(&mut self) -> Result<Vec<Change>, String> {
        let oracle = housekeep_all(&self.oracle).await.map_err(failed)?;
        let store = housekeep_all(self.store.as_ref()).await.map_err(failed)?;
        same("number of removed messages", oracle.removed, store.removed)?;
        let mut reported = store.losses;
        reported.sort_by(|a, b| a.0.cmp(&b.0));
        same("reported losses", oracle.losses, reported)?;
        for queue in self.names.queues.clone() {
            let oracle = self.oracle.losses(&queue).await.map_err(failed)?;
            let store = self.store.losses(&queue).await.map_err(failed)?;
            same(&format!("losses of {queue}"), oracle, store)?;
        }
        Ok(store.changes)
    }

    async fn delete_queue(&mut self, queue: usize) -> Comparison {
        let queue = &self.names.queues[queue];
        let oracle = self.oracle.delete_queue(queue).await.map_err(failed)?;
        let store = self.store.delete_queue(queue).await.map_err(failed)?;
        same("deletion", oracle, store)
    }

    async fn delete_group(
        &mut self,
        group: usize,
        queue: Option<usize>,
    ) -> Result<Vec<Change>, String> {
        // Queue mode is shared by all cases of a run, so it is deleted by queue only.
        let queue = if group == 0 { Some(queue.unwrap_or(0)) } else { queue };
        let queue = queue.map(|queue| &self.names.queues[queue]);
        let group = &self.names.groups[group];
        let (oracle, _) = self.oracle.delete_group(group, queue).await.map_err(failed)?;
        let (store, changes) = self.store.delete_group(group, queue).await.map_err(failed)?;
        // A store may begin queue mode with its queue.
        if !group.is_queue_mode() || oracle > 0 {
            same("number of forgotten cursors", oracle, store)?;
        }
        Ok(changes)
    }

    async fn seek(
        &mut self,
        group: usize,
        queue: Option<usize>,
        partition: Option<usize>,
        to: Begin,
    ) -> Result<Vec<Change>, String> {
        let seek = |to| Seek {
            group: self.names.groups[group.max(1)].clone(),
            queue: queue.map(|queue| self.names.queues[queue].clone()),
            partition: partition.map(|partition| self.names.partitions[partition].clone()),
            to,
        };
        let (oracle, store) = match to {
            Begin::All => (SeekTo::Beginning, SeekTo::Beginning),
            Begin::New => (SeekTo::End, SeekTo::End),
            Begin::FromMsAgo(ms_ago) => {
                let from = ago(self.oracle.now(), ms_ago);
                (SeekTo::Since(from), SeekTo::Since(self.skew.to_store(from)))
            }
        };
        let oracle = self.oracle.seek(seek(oracle)).await.map_err(failed)?;
        let store = self.store.seek(seek(store)).await.map_err(failed)?;
        same("number of moved cursors", oracle.0, store.0)?;
        Ok(store.1)
    }

    async fn advance(&mut self, ms: u64) {
        let by = Duration::from_millis(ms);
        self.oracle.advance(by);
        self.fixture.advance(by).await;
    }

    async fn advance_to_due(
        &mut self,
        place: MessageTarget,
        group: usize,
        beside_ms: i64,
    ) -> Comparison {
        let line = self.names.line(place, group);
        let due = self.oracle.sweep(vec![line.clone()]).await.map_err(failed)?.remove(0);
        self.store.sweep(vec![line]).await.map_err(failed)?;
        let Some(due) = due.filter(|due| !due.is_zero()) else { return Ok(()) };
        let ms = u64::try_from(due.as_millis()).expect("a short time");
        self.advance(ms.saturating_add_signed(beside_ms)).await;
        Ok(())
    }

    pub(super) fn remember(&mut self, hold: QueueHold) {
        self.holds.push(hold);
        if self.holds.len() > HOLDS_MAX {
            self.holds.remove(0);
        }
    }

    /// The n-th newest lease; round and round if there are fewer.
    pub(super) fn hold(&self, n: usize) -> Option<&QueueHold> {
        self.holds.iter().rev().nth(n.checked_rem(self.holds.len())?)
    }
}

/// The queue that a case reads the store's clock from.
fn clock_queue(names: &QueueNames) -> QueueName {
    QueueName::new(format!("{}-clock", names.namespace)).expect("a short name")
}

fn push_item(queue: &QueueName, names: &QueueNames, partition: usize, id: String) -> PushItem {
    PushItem {
        queue: queue.clone(),
        partition: names.partitions[partition].clone(),
        id: MessageId::generate(),
        payload: Bytes::from(format!("{{\"of\": \"{id}\"}}")),
        producer: id.ends_with('1').then(|| format!("producer of {id}")),
        trace_id: id.ends_with('2').then(uuid::Uuid::new_v4),
        transaction_id: TransactionId::new(id).expect("a short id"),
    }
}
