//! The oracle: a store in memory that follows `docs/reference/queue.md`, `docs/reference/flow.md`
//! and `docs/reference/hook.md` literally.
//!
//! # Where it sits
//! Random sequences run on it and on a real store side by side; tests of the server may use it
//! instead of a database. It is written to be compared with the rules, not to be fast.
//!
//! # Invariants
//! * One lock protects everything, so each call happens at one instant of the clock.
//! * The state holds only what the rules mention.

mod access;
mod admin;
mod capacity;
mod claim;
mod clock;
mod counts;
mod dead;
mod delete;
mod flow;
mod groups;
mod hook;
mod idle;
mod keep;
mod ledger;
mod maintenance;
mod messages;
mod partition;
mod schedule;
mod settle;
mod state;
mod stats;
mod take;
mod traces;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wakeline_core::{
    Change, GroupName, LeaseId, LeaseToken, PartitionId, PartitionName, QueueLine, QueueName,
    Timestamp, TransactionId,
};
use wakeline_encryption::EncryptionKeys;
use wakeline_store::{
    ConfigureQueue, EncryptedKind, Extension, GroupDetail, GroupPartition, GroupPartitionFilter,
    HintFeed, HintSink, Housekeeping, HousekeepingReport, KeyedStore, KeysNeeded, LineClaim,
    LineOutcome, LinkState, Losses, MessageDetail, PatchQueue, PayloadEncryption, PushItem,
    PushReply, QueueAdmin, QueueDetail, QueueGroups, QueueKeeper, QueueSchedule, QueueStore,
    Rekeyed, ScheduledFilter, ScheduledMessage, Seek, SeekTo, SettleItem, SettleReply, StoreAdmin,
    StoreError, StoreInfo, TransactCommand, TransactReply,
};

pub use clock::TEST_EPOCH;

use clock::OracleClock;
use state::OracleState;

/// A store that keeps everything in memory, as the reference documents describe it.
#[derive(Debug)]
pub struct MemoryStore {
    clock: OracleClock,
    state: Mutex<OracleState>,
    /// Counts how often the clock was advanced.
    moved: watch::Sender<u64>,
    encryption: PayloadEncryption,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// Creates an empty store whose clock stands at [`TEST_EPOCH`] until it is advanced.
    pub fn new() -> Self {
        Self::on(OracleClock::test())
    }

    /// Creates an empty store that uses the system's clock, to run a server on it.
    pub fn with_real_clock() -> Self {
        Self::on(OracleClock::real())
    }

    /// Creates an empty store that uses tokio's clock, starting at [`TEST_EPOCH`]: under paused
    /// time it moves with the timers of the code under test.
    pub fn with_tokio_clock() -> Self {
        Self::on(OracleClock::tokio())
    }

    fn on(clock: OracleClock) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            moved: watch::Sender::new(0),
            encryption: PayloadEncryption::default(),
        }
    }

    /// Returns the time of the store's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Advances the clock, and sends the hint that anything may be due.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.moved.send_modify(|moved| *moved += 1);
    }

    /// Returns the token of the live lease on a cursor.
    pub fn live_token(&self, partition: PartitionId, group: &GroupName) -> Option<LeaseToken> {
        let mut state = self.state.lock();
        state.live_token(partition, group, self.now())
    }

    /// Returns whether a partition has been created.
    pub(crate) fn has_partition(&self, queue: &QueueName, partition: &PartitionName) -> bool {
        let state = self.state.lock();
        state.queues.get(queue).is_some_and(|queue| queue.partitions.contains_key(partition))
    }

    fn not_in_the_future(&self, field: &'static str, from: Timestamp) -> Result<(), StoreError> {
        if from > self.now() {
            let reason = "must not be in the future".to_owned();
            return Err(StoreError::Invalid { field, reason });
        }
        Ok(())
    }
}

#[async_trait]
impl QueueStore for MemoryStore {
    async fn push(&self, items: Vec<PushItem>) -> Result<PushReply, StoreError> {
        let mut state = self.state.lock();
        state.admit("push", items.is_empty())?;
        Ok(state.push(items, self.now()))
    }

    async fn transact(&self, command: TransactCommand) -> Result<TransactReply, StoreError> {
        command.check()?;
        let mut state = self.state.lock();
        state.admit("transact", command.pushes.is_empty() && command.schedules.is_empty())?;
        Ok(state.transact(command, self.now()))
    }

    async fn claim(&self, lines: Vec<LineClaim>) -> Result<Vec<LineOutcome>, StoreError> {
        Ok(self.state.lock().claim(lines, self.now()))
    }

    async fn settle(&self, items: Vec<SettleItem>) -> Result<SettleReply, StoreError> {
        let mut state = self.state.lock();
        Ok(state.settle(&items, self.now()))
    }

    async fn extend(&self, lease: LeaseId, span: Duration) -> Result<Extension, StoreError> {
        let mut state = self.state.lock();
        Ok(state.extend(&lease, span, self.now()))
    }

    async fn release(&self, leases: Vec<LeaseId>) -> Result<Vec<Change>, StoreError> {
        let mut state = self.state.lock();
        Ok(state.release(&leases, self.now()))
    }

    async fn sweep(&self, lines: Vec<QueueLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        let mut state = self.state.lock();
        for line in &lines {
            state.poll(line, self.now());
        }
        Ok(lines.iter().map(|line| state.next_due(line, self.now())).collect())
    }
}

#[async_trait]
impl QueueSchedule for MemoryStore {
    async fn scheduled(
        &self,
        filter: ScheduledFilter,
    ) -> Result<Vec<ScheduledMessage>, StoreError> {
        Ok(self.state.lock().scheduled(&filter))
    }
}

#[async_trait]
impl QueueAdmin for MemoryStore {
    async fn configure(
        &self,
        command: ConfigureQueue,
    ) -> Result<(QueueDetail, Vec<Change>), StoreError> {
        if command.options.encrypted {
            self.encryption.keys("configure")?;
        }
        Ok(self.recorded(|state, now| state.configure(command, now)))
    }

    async fn patch(
        &self,
        command: PatchQueue,
    ) -> Result<Option<(QueueDetail, Vec<Change>)>, StoreError> {
        if command.options.encrypted == Some(true) {
            self.encryption.keys("patch queue")?;
        }
        Ok(self.recorded(|state, now| state.patch(command, now)))
    }

    async fn queue(&self, queue: &QueueName) -> Result<Option<QueueDetail>, StoreError> {
        Ok(self.state.lock().queue(queue))
    }

    async fn delete_queue(&self, queue: &QueueName) -> Result<bool, StoreError> {
        Ok(self.recorded(|state, _| state.delete_queue(queue)))
    }

    async fn message(
        &self,
        partition: PartitionId,
        transaction_id: &TransactionId,
    ) -> Result<Option<MessageDetail>, StoreError> {
        let state = self.state.lock();
        Ok(state.message(partition, transaction_id, self.now()))
    }
}

#[async_trait]
impl QueueGroups for MemoryStore {
    async fn groups(&self, group: Option<&GroupName>) -> Result<Vec<GroupDetail>, StoreError> {
        let state = self.state.lock();
        Ok(state.groups(group, self.now()))
    }

    async fn group_partitions(
        &self,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError> {
        let state = self.state.lock();
        Ok(state.group_partitions(&filter, self.now()))
    }

    async fn lagging(
        &self,
        behind: Duration,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError> {
        let state = self.state.lock();
        Ok(state.lagging(behind, &filter, self.now()))
    }

    async fn delete_group(
        &self,
        group: &GroupName,
        queue: Option<&QueueName>,
    ) -> Result<(u64, Vec<Change>), StoreError> {
        Ok(self.recorded(|state, _| state.delete_group(group, queue)))
    }

    async fn seek(&self, seek: Seek) -> Result<(u64, Vec<Change>), StoreError> {
        if let SeekTo::Since(from) = seek.to {
            self.not_in_the_future("subscriptionTimestamp", from)?;
        }
        Ok(self.recorded(|state, now| state.seek(&seek, now)))
    }
}

#[async_trait]
impl QueueKeeper for MemoryStore {
    /// Does all maintenance in one call, whether it is due or not.
    async fn housekeep(&self, options: Housekeeping) -> Result<HousekeepingReport, StoreError> {
        let mut state = self.state.lock();
        if let Some(keep) = options.stats_keep {
            state.stats.forget(keep, self.now());
        }
        Ok(state.housekeep(self.now()))
    }

    async fn losses(&self, queue: &QueueName) -> Result<Losses, StoreError> {
        Ok(self.state.lock().losses(queue))
    }
}

#[async_trait]
impl HintFeed for MemoryStore {
    async fn feed(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
        let mut moved = self.moved.subscribe();
        sink.link(LinkState::Up);
        sink.everything();
        while shutdown.run_until_cancelled(moved.changed()).await.is_some() {
            sink.everything();
        }
    }
}

#[async_trait]
impl StoreAdmin for MemoryStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { kind: "memory", location: "this process".to_owned() }
    }

    async fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close(&self) {}
}

/// Nothing is encrypted in memory; a queue with the option `encrypted` still requires keys.
#[async_trait]
impl KeyedStore for MemoryStore {
    fn use_keys(&self, keys: Arc<EncryptionKeys>) {
        self.encryption.use_keys(keys);
    }

    async fn keys_needed(&self) -> Result<KeysNeeded, StoreError> {
        let queues = self.state.lock().queues.values().any(|queue| queue.options.encrypted);
        Ok(KeysNeeded { queues, endpoints: false })
    }

    async fn rekey(&self, _: EncryptedKind, _: Option<Vec<u8>>) -> Result<Rekeyed, StoreError> {
        self.encryption.keys("rekey").map(|_| Rekeyed::default())
    }
}
