//! A store that injects faults: it fails before a call, after its commit, or never answers.
//!
//! # Where it sits
//! Around any store, in tests of its callers. Failing the k-th call, for every k, shows that a
//! caller survives a failure anywhere. Calls of all traits are counted together.

/// Implements a trait of the store: every call is passed on, unless it is planned to fail. An
/// argument that is named after `as` may be changed before the call.
macro_rules! passes {
    ($interface:ident: $(
        fn $name:ident($($arg:ident: $kind:ty),* $(,)?) -> $answer:ty
        $(as $write:ident($changed:ident))?;
    )*) => {
        #[async_trait]
        impl $interface for FaultingStore {
            $(
                async fn $name(&self, $($arg: $kind),*) -> Result<$answer, StoreError> {
                    $(
                        let mut $changed = $changed;
                        self.mutated(FlowWrite::$write(&mut $changed));
                    )?
                    let call = <dyn Backend as $interface>::$name(&*self.inner, $($arg),*);
                    self.call(stringify!($name), call).await
                }
            )*
        }
    };
}

mod access;
mod capacity;
mod counts;
mod dead;
mod flow;
mod hook;
mod maintenance;
mod messages;
mod stats;
mod traces;

pub use flow::{FlowMutation, FlowWrite};

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use wakeline_core::{Change, GroupName, LeaseId, PartitionId, QueueLine, QueueName, TransactionId};
use wakeline_encryption::EncryptionKeys;
use wakeline_store::{
    Backend, ConfigureQueue, EncryptedKind, Extension, GroupDetail, GroupPartition,
    GroupPartitionFilter, HintFeed, HintSink, Housekeeping, HousekeepingReport, KeyedStore,
    KeysNeeded, LineClaim, LineOutcome, Losses, MessageDetail, PatchQueue, PushItem, PushReply,
    QueueAdmin, QueueDetail, QueueGroups, QueueKeeper, QueueSchedule, QueueStore, Rekeyed,
    ScheduledFilter, ScheduledMessage, Seek, SettleItem, SettleReply, StoreAdmin, StoreError,
    StoreInfo, TimeLimit, TransactCommand, TransactReply,
};

/// The way in which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call has no effect; the caller gets the error that the database is unavailable.
    Before,
    /// The call takes effect; the caller gets a transient error.
    After,
    /// The call has no effect, and it never returns.
    HangBefore,
    /// The call takes effect, but it never returns.
    HangAfter,
    /// The call has no effect, because it exceeded a time limit of the database.
    TooLong,
}

impl Fault {
    /// All faults of a database that is unavailable or becomes unavailable.
    pub const ALL: [Self; 4] = [Self::Before, Self::After, Self::HangBefore, Self::HangAfter];
}

impl Outage {
    /// Counts a call and returns the fault that is planned for it, if any.
    fn next(&mut self) -> Option<Fault> {
        match self {
            Self::None => None,
            Self::Away => Some(Fault::Before),
            Self::Planned { passes: 0, fault } => {
                let fault = *fault;
                *self = Self::Away;
                Some(fault)
            }
            Self::Planned { passes, .. } => {
                *passes -= 1;
                None
            }
        }
    }
}

/// A call that will fail.
struct Planned {
    operation: Option<&'static str>,
    /// The number of calls that succeed before it.
    passes: u64,
    fault: Fault,
}

/// Whether the database becomes unavailable at some call and stays so.
#[derive(Default)]
enum Outage {
    #[default]
    None,
    /// The database becomes unavailable after this number of successful calls.
    Planned {
        passes: u64,
        fault: Fault,
    },
    Away,
}

/// Passes calls to a store, except for those that are planned to fail.
pub struct FaultingStore {
    delays: Mutex<HashMap<&'static str, Duration>>,
    inner: Arc<dyn Backend>,
    plan: Mutex<Vec<Planned>>,
    outage: Mutex<Outage>,
    calls: Mutex<Vec<&'static str>>,
    mutation: Mutex<Option<FlowMutation>>,
}

impl FaultingStore {
    /// A store without planned faults.
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        let (plan, outage, delays, calls, mutation) = Default::default();
        Self { inner, plan, outage, delays, calls, mutation }
    }

    /// Fails the k-th call from now on, counted from 1.
    pub fn fail(&self, nth: u64, fault: Fault) {
        self.plan_fault(None, nth, fault);
    }

    /// Fails the k-th call of an operation (`push`, `claim`, ...) from now on, counted from 1.
    pub fn fail_operation(&self, operation: &'static str, nth: u64, fault: Fault) {
        self.plan_fault(Some(operation), nth, fault);
    }

    /// Fails the k-th call from now on, counted from 1, and all later ones as [`Fault::Before`]:
    /// the database is unavailable until [`Self::end_outage`].
    pub fn fail_from(&self, nth: u64, fault: Fault) {
        let passes = nth.checked_sub(1).expect("calls are counted from 1");
        *self.outage.lock() = Outage::Planned { passes, fault };
    }

    /// Ends an outage or cancels a planned one. Returns whether the outage had begun.
    pub fn end_outage(&self) -> bool {
        matches!(std::mem::take(&mut *self.outage.lock()), Outage::Away)
    }

    /// Delays every call of an operation from now on by this time.
    pub fn delay(&self, operation: &'static str, span: Duration) {
        self.delays.lock().insert(operation, span);
    }

    /// The operations that were called, in order.
    pub fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().clone()
    }

    /// The number of planned faults that have not occurred yet.
    pub fn pending(&self) -> usize {
        self.plan.lock().len()
    }

    fn plan_fault(&self, operation: Option<&'static str>, nth: u64, fault: Fault) {
        let passes = nth.checked_sub(1).expect("calls are counted from 1");
        self.plan.lock().push(Planned { operation, passes, fault });
    }

    /// Counts a call and returns the fault that is planned for it, if any.
    fn next(&self, operation: &'static str) -> Option<Fault> {
        self.calls.lock().push(operation);
        if let Some(fault) = self.outage.lock().next() {
            return Some(fault);
        }
        let mut plan = self.plan.lock();
        let concerned = |planned: &Planned| planned.operation.is_none_or(|op| op == operation);
        let hit = plan.iter().position(|planned| concerned(planned) && planned.passes == 0);
        for planned in plan.iter_mut().filter(|planned| concerned(planned)) {
            planned.passes = planned.passes.saturating_sub(1);
        }
        hit.map(|index| plan.remove(index).fault)
    }

    async fn call<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let (fault, delay) = (self.next(operation), self.delays.lock().get(operation).copied());
        if let Some(span) = delay {
            tokio::time::sleep(span).await;
        }
        match fault {
            None => call.await,
            Some(Fault::Before) => {
                Err(StoreError::Unavailable { operation, source: "a planned fault".into() })
            }
            Some(Fault::After) => {
                call.await?;
                Err(StoreError::Transient { operation, source: "a planned fault".into() })
            }
            Some(Fault::TooLong) => {
                let source = Box::new(TimeLimit("a planned fault".into()));
                Err(StoreError::Transient { operation, source })
            }
            Some(Fault::HangBefore) => pending().await,
            Some(Fault::HangAfter) => {
                call.await?;
                pending().await
            }
        }
    }
}

#[async_trait]
impl QueueStore for FaultingStore {
    async fn push(&self, items: Vec<PushItem>) -> Result<PushReply, StoreError> {
        self.call("push", self.inner.push(items)).await
    }

    async fn transact(&self, command: TransactCommand) -> Result<TransactReply, StoreError> {
        self.call("transact", self.inner.transact(command)).await
    }

    async fn claim(&self, lines: Vec<LineClaim>) -> Result<Vec<LineOutcome>, StoreError> {
        self.call("claim", self.inner.claim(lines)).await
    }

    async fn settle(&self, items: Vec<SettleItem>) -> Result<SettleReply, StoreError> {
        self.call("settle", self.inner.settle(items)).await
    }

    async fn extend(&self, lease: LeaseId, span: Duration) -> Result<Extension, StoreError> {
        self.call("extend", self.inner.extend(lease, span)).await
    }

    async fn release(&self, leases: Vec<LeaseId>) -> Result<Vec<Change>, StoreError> {
        self.call("release", self.inner.release(leases)).await
    }

    async fn sweep(&self, lines: Vec<QueueLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        self.call("sweep", self.inner.sweep(lines)).await
    }
}

#[async_trait]
impl QueueSchedule for FaultingStore {
    async fn scheduled(
        &self,
        filter: ScheduledFilter,
    ) -> Result<Vec<ScheduledMessage>, StoreError> {
        self.call("scheduled", self.inner.scheduled(filter)).await
    }
}

#[async_trait]
impl QueueAdmin for FaultingStore {
    async fn configure(
        &self,
        command: ConfigureQueue,
    ) -> Result<(QueueDetail, Vec<Change>), StoreError> {
        self.call("configure", self.inner.configure(command)).await
    }

    async fn patch(
        &self,
        command: PatchQueue,
    ) -> Result<Option<(QueueDetail, Vec<Change>)>, StoreError> {
        self.call("patch", self.inner.patch(command)).await
    }

    async fn queue(&self, queue: &QueueName) -> Result<Option<QueueDetail>, StoreError> {
        self.call("queue", self.inner.queue(queue)).await
    }

    async fn delete_queue(&self, queue: &QueueName) -> Result<bool, StoreError> {
        self.call("delete_queue", self.inner.delete_queue(queue)).await
    }

    async fn message(
        &self,
        partition: PartitionId,
        transaction_id: &TransactionId,
    ) -> Result<Option<MessageDetail>, StoreError> {
        let found = QueueAdmin::message(&*self.inner, partition, transaction_id);
        self.call("message", found).await
    }
}

#[async_trait]
impl QueueGroups for FaultingStore {
    async fn groups(&self, group: Option<&GroupName>) -> Result<Vec<GroupDetail>, StoreError> {
        self.call("groups", self.inner.groups(group)).await
    }

    async fn group_partitions(
        &self,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError> {
        self.call("group_partitions", self.inner.group_partitions(filter)).await
    }

    async fn lagging(
        &self,
        behind: Duration,
        filter: GroupPartitionFilter,
    ) -> Result<Vec<GroupPartition>, StoreError> {
        self.call("lagging", self.inner.lagging(behind, filter)).await
    }

    async fn delete_group(
        &self,
        group: &GroupName,
        queue: Option<&QueueName>,
    ) -> Result<(u64, Vec<Change>), StoreError> {
        self.call("delete_group", self.inner.delete_group(group, queue)).await
    }

    async fn seek(&self, seek: Seek) -> Result<(u64, Vec<Change>), StoreError> {
        self.call("seek", self.inner.seek(seek)).await
    }
}

#[async_trait]
impl QueueKeeper for FaultingStore {
    async fn housekeep(&self, options: Housekeeping) -> Result<HousekeepingReport, StoreError> {
        self.call("housekeep", self.inner.housekeep(options)).await
    }

    async fn losses(&self, queue: &QueueName) -> Result<Losses, StoreError> {
        self.call("losses", self.inner.losses(queue)).await
    }
}

#[async_trait]
impl HintFeed for FaultingStore {
    async fn feed(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
        self.inner.feed(sink, shutdown).await;
    }
}

#[async_trait]
impl StoreAdmin for FaultingStore {
    fn info(&self) -> StoreInfo {
        self.inner.info()
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.call("ping", self.inner.ping()).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[async_trait]
impl KeyedStore for FaultingStore {
    fn use_keys(&self, keys: Arc<EncryptionKeys>) {
        self.inner.use_keys(keys);
    }

    async fn keys_needed(&self) -> Result<KeysNeeded, StoreError> {
        self.call("keys needed", self.inner.keys_needed()).await
    }

    async fn rekey(
        &self,
        kind: EncryptedKind,
        after: Option<Vec<u8>>,
    ) -> Result<Rekeyed, StoreError> {
        self.call("rekey", self.inner.rekey(kind, after)).await
    }
}
