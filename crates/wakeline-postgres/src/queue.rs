//! The queue's main path on PostgreSQL: `QueueStore` over the functions in `sql/functions`.
//!
//! # Where it sits
//! [`crate::PostgresStore`] holds a [`QueueFusers`]: the fusers of push, claim and settle, and the
//! [`QueueCore`] that their calls share. Each operation has a module of its own.
//!
//! # Invariants
//! * Commands of one kind are fused per connection; commands of one partition or line go through
//!   the same connection, so that this node does not contend with itself.
//! * A call that was certainly rolled back is repeated. A call of unknown outcome is repeated only
//!   if it is idempotent: a push by its transaction ids, a claim by its tokens.
//! * A command with bad values fails alone: its call is repeated one command at a time.
//! * Hints go out after the commit, never with it.

mod claim;
mod claim_form;
mod claim_results;
mod directory;
mod exchange;
mod floors;
mod lease;
mod moments;
mod piggybacked;
mod push;
mod push_answer;
mod push_plan;
mod quarantine;
mod schedule;
mod settle;
mod sql;
mod sweep;
mod tokens;

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio_postgres::Row;
use wakeline_core::{Change, LeaseId, QueueLine};
use wakeline_store::{
    Extension, LineClaim, LineOutcome, PushItem, PushReply, QueueStore, SettleItem, SettleReply,
    StoreError, TransactCommand, TransactReply,
};

use crate::connect::{Params, PgLink, Sql};
use crate::dedup::DedupCache;
use crate::error;
use crate::fuse::{Fuser, FuserOptions};
use crate::{PostgresStore, Shared};

pub(crate) use self::exchange::{Exchange, ExchangeResult, Exchanged};
pub(crate) use self::piggybacked::PiggybackedPushes;
pub(crate) use self::push_answer::SlotAnswer;
pub(crate) use self::schedule::{Cancels, Schedule, ScheduleAttempt, ScheduleResult};
pub(crate) use self::sql::QueueStatements;
pub(crate) use self::tokens::ClaimedTokens;

/// The number of times that a rolled back call is repeated.
pub(crate) const ROLLBACKS_MAX: usize = 5;

/// The state that the calls of the queue share.
pub(crate) struct QueueCore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) sql: sql::QueueStatements,
    directory: directory::Directory,
    dedup: Mutex<DedupCache>,
    tokens: tokens::ClaimedTokens,
    /// The lower bounds of the due times of busy lines.
    floors: floors::Floors,
    /// The latest time that the database's clock is known to have reached.
    clock_seen: AtomicI64,
}

impl QueueCore {
    /// Runs one statement on a connection for general use; repeats it if it was rolled back.
    pub(crate) async fn general(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut tries = 0;
        loop {
            match self.shared.links.general.query(operation, sql, params).await {
                Err(error) if error::was_rolled_back(&error) && tries < ROLLBACKS_MAX => tries += 1,
                other => return other,
            }
        }
    }

    /// Runs one statement on the connection for authentication; repeats it if it was rolled back.
    pub(crate) async fn reserved(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.on_link(&self.shared.links.reserved, operation, sql, params).await
    }

    /// Runs one statement on behalf of waiters, on a connection for general use: one that only
    /// reads, or that can be repeated safely.
    pub(crate) async fn promptly(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut tries = 0;
        loop {
            match self.shared.links.general.query_promptly(operation, sql, params).await {
                Err(error) if error::was_rolled_back(&error) && tries < ROLLBACKS_MAX => tries += 1,
                other => return other,
            }
        }
    }

    /// Runs one statement on a link; repeats it if it was rolled back.
    pub(crate) async fn on_link(
        &self,
        link: &PgLink,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut tries = 0;
        loop {
            match link.query(operation, sql, params).await {
                Err(error) if error::was_rolled_back(&error) && tries < ROLLBACKS_MAX => tries += 1,
                other => return other,
            }
        }
    }
}

/// The fusers of one kind of call, one per connection.
pub(crate) struct FuserPool<C, R> {
    fusers: Vec<Fuser<C, R>>,
    hasher: BuildHasherDefault<DefaultHasher>,
}

impl<C: Send + 'static, R: Send + 'static> FuserPool<C, R> {
    /// Starts one fuser per connection. `flush` gets the connection's index.
    pub(crate) fn start(
        name: &'static str,
        link_count: usize,
        flush: impl Fn(usize, Vec<C>) -> BoxFuture<'static, Vec<Result<R, StoreError>>>
        + Clone
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let fusers = (0..link_count)
            .map(|link_index| {
                let flush = flush.clone();
                let call = move |commands| flush(link_index, commands);
                Fuser::start(FuserOptions::new(name, 1), Arc::new(call))
            })
            .collect();
        Self { fusers, hasher: BuildHasherDefault::default() }
    }

    /// Executes a command on the connection that `key` belongs to.
    pub(crate) async fn submit(
        &self,
        key: impl Hash,
        command: C,
        bytes: usize,
    ) -> Result<R, StoreError> {
        let link_count = self.fusers.len() as u64;
        let link_index =
            usize::try_from(self.hasher.hash_one(key) % link_count).expect("below the length");
        self.fusers[link_index].submit(command, bytes).await
    }

    pub(crate) async fn close(&self) {
        for fuser in &self.fusers {
            fuser.close().await;
        }
    }
}

/// The queue's fusers, and the state that their calls share.
pub(crate) struct QueueFusers {
    pub(crate) core: Arc<QueueCore>,
    push: FuserPool<Vec<PushItem>, push::PushPart>,
    claim: FuserPool<Vec<LineClaim>, Vec<claim::LineResult>>,
    settle: FuserPool<Vec<SettleItem>, SettleReply>,
}

impl QueueFusers {
    /// Starts the fusers.
    pub(crate) fn start(shared: &Arc<Shared>) -> Self {
        let core = Arc::new(QueueCore {
            shared: shared.clone(),
            sql: sql::QueueStatements::new(shared),
            directory: directory::Directory::default(),
            dedup: Mutex::default(),
            tokens: tokens::ClaimedTokens::default(),
            floors: floors::Floors::default(),
            clock_seen: AtomicI64::new(0),
        });
        let (pushing, claiming, settling) = (core.clone(), core.clone(), core.clone());
        Self {
            push: FuserPool::start("push", shared.links.push.len(), move |link_index, commands| {
                let core = pushing.clone();
                async move { core.flush_push(link_index, commands).await }.boxed()
            }),
            claim: FuserPool::start(
                "claim",
                shared.links.claim.len(),
                move |link_index, commands| {
                    let core = claiming.clone();
                    async move { core.flush_claim(link_index, commands).await }.boxed()
                },
            ),
            settle: FuserPool::start(
                "settle",
                shared.links.settle.len(),
                move |link_index, commands| {
                    let core = settling.clone();
                    async move { core.flush_settle(link_index, commands).await }.boxed()
                },
            ),
            core,
        }
    }

    /// Waits for the calls in flight.
    pub(crate) async fn close(&self) {
        self.push.close().await;
        self.claim.close().await;
        self.settle.close().await;
    }
}

#[async_trait]
impl QueueStore for PostgresStore {
    async fn push(&self, items: Vec<PushItem>) -> Result<PushReply, StoreError> {
        let Some(first) = items.first() else { return Ok(PushReply::default()) };
        let key = (first.queue.clone(), first.partition.clone());
        let bytes = items.iter().map(|item| item.payload.len() + 100).sum();
        let part = self.queue.push.submit(key, items, bytes).await?;
        self.queue.core.push_left(part).await
    }

    async fn transact(&self, command: TransactCommand) -> Result<TransactReply, StoreError> {
        self.transact_command(command).await
    }

    async fn claim(&self, lines: Vec<LineClaim>) -> Result<Vec<LineOutcome>, StoreError> {
        let core = &self.queue.core;
        let (lines, refused) = core.refuse_future(lines).await?;
        let mut outcomes = Vec::new();
        if let Some(first) = lines.first() {
            let key = first.line.clone();
            let bytes = lines.iter().map(|line| 200 + 40 * line.requests.len()).sum();
            let results = self.queue.claim.submit(key, lines, bytes).await?;
            // Messages of some lines may have been leased already.
            let finished = core.finish_claim(results).await;
            outcomes = finished.map_err(StoreError::after_write)?;
        }
        for (index, outcome) in refused {
            outcomes.insert(index, outcome);
        }
        Ok(outcomes)
    }

    async fn settle(&self, items: Vec<SettleItem>) -> Result<SettleReply, StoreError> {
        let Some(first) = items.first() else { return Ok(SettleReply::default()) };
        let key = (first.partition, first.group.clone());
        let bytes = items.len() * 100;
        self.queue.settle.submit(key, items, bytes).await
    }

    async fn extend(&self, lease: LeaseId, span: Duration) -> Result<Extension, StoreError> {
        self.queue.core.extend(lease, span).await
    }

    async fn release(&self, leases: Vec<LeaseId>) -> Result<Vec<Change>, StoreError> {
        self.queue.core.release(leases).await
    }

    async fn sweep(&self, lines: Vec<QueueLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        self.queue.core.sweep(lines).await
    }
}

/// A copy of the error, for another command of a fused call that failed.
pub(crate) fn same_error(error: &StoreError) -> StoreError {
    let cause = error::copy_of;
    match error {
        StoreError::Transient { operation, source } => {
            StoreError::Transient { operation, source: cause(source) }
        }
        StoreError::Unavailable { operation, source } => {
            StoreError::Unavailable { operation, source: cause(source) }
        }
        StoreError::Invalid { field, reason } => {
            StoreError::Invalid { field, reason: reason.clone() }
        }
        StoreError::Full { operation } => StoreError::Full { operation },
        StoreError::NoKeys { operation } => StoreError::NoKeys { operation },
        StoreError::Maintenance { operation } => StoreError::Maintenance { operation },
        StoreError::Corrupt { what, id, source } => {
            StoreError::Corrupt { what, id: id.clone(), source: cause(source) }
        }
        StoreError::Fatal { operation, source } => {
            StoreError::Fatal { operation, source: cause(source) }
        }
    }
}
