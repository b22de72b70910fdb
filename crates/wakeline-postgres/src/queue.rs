//! The queue's hot path on PostgreSQL: `QueueStore` over the functions in `sql/functions`.
//!
//! # Where it sits
//! [`crate::PostgresStore`] holds a [`Queue`]: the fusers of push, claim and settle, and the
//! [`Core`] that their calls share. Each operation has a module of its own.
//!
//! # Invariants
//! * Commands of one kind are fused per connection; what concerns one partition or line goes
//!   through the same connection, so that this node does not contend with itself.
//! * A call of which it is known that it was rolled back is repeated. One of unknown outcome is
//!   repeated only if it is idempotent: a push by its transaction ids, a claim by its tokens.
//! * A command with bad values fails alone: its call is repeated one command at a time.
//! * Hints go out after the commit, never with it.

mod along;
mod claim;
mod claim_form;
mod directory;
mod exchange;
mod floors;
mod grants;
mod lease;
mod moments;
mod push;
mod push_answer;
mod push_plan;
mod schedule;
mod set_aside;
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

use crate::connect::{Link, Params, Sql};
use crate::dedup::DedupCache;
use crate::error;
use crate::fuse::{Fuser, FuserOptions};
use crate::{PostgresStore, Shared};

pub(crate) use self::along::Along;
pub(crate) use self::exchange::{Done as ExchangeDone, Exchange, Exchanged};
pub(crate) use self::push_answer::SlotAnswer;
pub(crate) use self::schedule::{Cancels, Done as ScheduleDone, Schedule, ScheduleTried};
pub(crate) use self::sql::Statements;
pub(crate) use self::tokens::GrantedTokens;

/// How often a call is repeated that the database rolled back.
pub(crate) const ROLLBACKS_MAX: usize = 5;

/// What the calls of the queue share.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    pub(crate) sql: sql::Statements,
    directory: directory::Directory,
    dedup: Mutex<DedupCache>,
    tokens: tokens::GrantedTokens,
    /// Where the due times of busy lines begin.
    floors: floors::Floors,
    /// The latest moment that the database's clock is known to have reached.
    clock_seen: AtomicI64,
}

impl Core {
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

    /// Runs one statement on the connection of authentication; repeats it if it was rolled back.
    pub(crate) async fn reserved(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.on_link(&self.shared.links.reserved, operation, (sql, params)).await
    }

    /// Runs one statement for those who wait, on a connection for general use: one that only
    /// reads, or can be repeated without harm.
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
        link: &Link,
        operation: &'static str,
        (sql, params): (&Sql, Params<'_>),
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
pub(crate) struct Lanes<C, R> {
    fusers: Vec<Fuser<C, R>>,
    hasher: BuildHasherDefault<DefaultHasher>,
}

impl<C: Send + 'static, R: Send + 'static> Lanes<C, R> {
    /// One fuser per connection. `flush` gets the connection's index.
    pub(crate) fn start(
        name: &'static str,
        lanes: usize,
        flush: impl Fn(usize, Vec<C>) -> BoxFuture<'static, Vec<Result<R, StoreError>>>
        + Clone
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let fusers = (0..lanes)
            .map(|lane| {
                let flush = flush.clone();
                let call = move |commands| flush(lane, commands);
                Fuser::start(FuserOptions::new(name, 1), Arc::new(call))
            })
            .collect();
        Self { fusers, hasher: BuildHasherDefault::default() }
    }

    /// Has a command carried out on the connection that `key` belongs to.
    pub(crate) async fn submit(
        &self,
        key: impl Hash,
        command: C,
        bytes: usize,
    ) -> Result<R, StoreError> {
        let lanes = self.fusers.len() as u64;
        let lane = usize::try_from(self.hasher.hash_one(key) % lanes).expect("below the length");
        self.fusers[lane].submit(command, bytes).await
    }

    pub(crate) async fn close(&self) {
        for fuser in &self.fusers {
            fuser.close().await;
        }
    }
}

/// The queue's fusers, and what their calls share.
pub(crate) struct Queue {
    pub(crate) core: Arc<Core>,
    push: Lanes<Vec<PushItem>, push::PushPart>,
    claim: Lanes<Vec<LineClaim>, Vec<claim::LineResult>>,
    settle: Lanes<Vec<SettleItem>, SettleReply>,
}

impl Queue {
    /// Starts the fusers.
    pub(crate) fn start(shared: &Arc<Shared>) -> Self {
        let core = Arc::new(Core {
            shared: shared.clone(),
            sql: sql::Statements::new(shared),
            directory: directory::Directory::default(),
            dedup: Mutex::default(),
            tokens: tokens::GrantedTokens::default(),
            floors: floors::Floors::default(),
            clock_seen: AtomicI64::new(0),
        });
        let (pushing, claiming, settling) = (core.clone(), core.clone(), core.clone());
        Self {
            push: Lanes::start("push", shared.links.push.len(), move |lane, commands| {
                let core = pushing.clone();
                async move { core.flush_push(lane, commands).await }.boxed()
            }),
            claim: Lanes::start("claim", shared.links.claim.len(), move |lane, commands| {
                let core = claiming.clone();
                async move { core.flush_claim(lane, commands).await }.boxed()
            }),
            settle: Lanes::start("settle", shared.links.settle.len(), move |lane, commands| {
                let core = settling.clone();
                async move { core.flush_settle(lane, commands).await }.boxed()
            }),
            core,
        }
    }

    /// Finishes the calls under way.
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
        self.transact_whole(command).await
    }

    async fn claim(&self, lines: Vec<LineClaim>) -> Result<Vec<LineOutcome>, StoreError> {
        let core = &self.queue.core;
        let (lines, refused) = core.refuse_future(lines).await?;
        let mut outcomes = Vec::new();
        if let Some(first) = lines.first() {
            let key = first.line.clone();
            let bytes = lines.iter().map(|line| 200 + 40 * line.requests.len()).sum();
            let results = self.queue.claim.submit(key, lines, bytes).await?;
            // Some of the lines may have been leased from by now.
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

/// The same error once more, for another command of a fused call that failed.
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
