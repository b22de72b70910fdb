//! Orchestrations on PostgreSQL: `FlowStore` over the functions `flow_*` in `sql/functions`.
//!
//! # Where it sits
//! [`crate::PostgresStore`] holds [`FlowFusers`]: the fusers of the frequent calls, and the
//! [`FlowCore`] that they share. Each operation has a module of its own.
//!
//! # Invariants
//! * Commands of one kind are fused and have one connection: commands that arrive during a call go
//!   with the next one, and calls of a kind do not contend with each other.
//! * Names of capabilities and tags are turned into numbers before a command is fused.
//! * A call that was certainly rolled back is repeated. A call of unknown outcome is repeated only
//!   if it is idempotent: a claim, by its keys.
//! * A command with bad values fails alone: its call is repeated one command at a time.
//! * Hints go out after the commit, never with it.

mod admin;
mod claim;
mod commit;
mod commit_form;
mod commit_plain;
mod delete;
mod enqueue;
mod items;
mod lease;
mod mailbox;
mod names;
mod piggybacked;
mod read;
mod retries;
mod slow;
mod sql;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tokio_postgres::Row;
use uuid::Uuid;
use wakeline_core::{FlowChange, FlowLine, FlowToken, LeaseToken, OwnerId};
use wakeline_store::flow::{
    AbandonOutcome, Completion, CompletionReply, EnqueueReply, Envelope, FlowStore, NewWork,
    RenewOutcome, TurnClaim, TurnClaimed, TurnCommit, TurnItem, TurnReply, TurnRequest, WorkClaim,
    WorkClaimed, WorkItem,
};
use wakeline_store::{AuditAction, StoreError};

pub(crate) use self::piggybacked::Enqueue;

use self::claim::{ClaimedItems, TurnLine, WorkLine};
use self::commit::SeparateCommit;
use self::commit_form::CommitForm;
use self::enqueue::{CompleteForm, EnqueueForm};
use self::lease::RenewForm;
use self::wire::MessageForm;
use crate::access::Act;
use crate::api_hints::ApiHints;
use crate::connect::{Params, PgLink, Sql};
use crate::fuse::{Fuser, FuserOptions};
use crate::hook;
use crate::queue::{self, ClaimedTokens};
use crate::{PostgresStore, Shared};

/// The state that the calls of orchestrations share.
pub(crate) struct FlowCore {
    shared: Arc<Shared>,
    queue: Arc<queue::QueueCore>,
    hook: Arc<hook::HookCore>,
    sql: sql::FlowStatements,
    names: names::NumberCache,
    hints: ApiHints<FlowChange>,
    /// Keys under which this node may hold leases already.
    keys: ClaimedTokens,
    slow: slow::SlowLanes,
}

impl FlowCore {
    /// Runs one statement on a connection for general use; repeats it if it was rolled back.
    async fn general(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.queue.general(operation, sql, params).await
    }

    /// Runs an administrative write, and records the current audit action.
    async fn act(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
        changed: fn(&[Row]) -> bool,
    ) -> Result<Vec<Row>, StoreError> {
        self.queue.recorded(Act { operation, sql, params, changed }).await
    }

    /// Runs one statement on a link; repeats it if it was rolled back.
    async fn on_link(
        &self,
        link: &PgLink,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.queue.on_link(link, operation, sql, params).await
    }

    /// Remembers keys under which something is, or may be, leased.
    fn remember(&self, keys: impl Iterator<Item = Uuid>) {
        self.keys.remember(keys.map(LeaseToken));
    }

    fn remembers(&self, key: Uuid) -> bool {
        self.keys.contains(LeaseToken(key))
    }
}

/// The fusers of orchestrations, and the state that their calls share.
pub(crate) struct FlowFusers {
    core: Arc<FlowCore>,
    enqueue: Fuser<EnqueueForm, EnqueueReply>,
    complete: Fuser<CompleteForm, CompletionReply>,
    renew: Fuser<RenewForm, Vec<RenewOutcome>>,
    commit: Fuser<CommitForm, TurnReply>,
    claim_turns: Fuser<Vec<TurnLine>, Vec<ClaimedItems<TurnItem>>>,
    claim_work: Fuser<Vec<WorkLine>, Vec<ClaimedItems<WorkItem>>>,
}

/// Starts a fuser of one kind of call, with a connection of its own.
macro_rules! fuser {
    ($core:expr, $name:literal, $flush:ident) => {{
        let core = $core.clone();
        let call = move |commands| {
            let core = core.clone();
            async move { core.$flush(commands).await }.boxed()
        };
        Fuser::start(FuserOptions::new($name, 1), Arc::new(call))
    }};
}

impl FlowFusers {
    /// Starts the fusers.
    pub(crate) fn start(
        shared: &Arc<Shared>,
        queue: &Arc<queue::QueueCore>,
        hook: &Arc<hook::HookCore>,
    ) -> Self {
        let core = Arc::new(FlowCore {
            shared: shared.clone(),
            queue: queue.clone(),
            hook: hook.clone(),
            sql: sql::FlowStatements::new(shared),
            names: names::NumberCache::default(),
            hints: ApiHints::default(),
            keys: ClaimedTokens::default(),
            slow: slow::SlowLanes::default(),
        });
        Self {
            enqueue: fuser!(core, "flow_enqueue", flush_enqueue),
            complete: fuser!(core, "flow_complete", flush_complete),
            renew: fuser!(core, "flow_renew", flush_renew),
            commit: fuser!(core, "flow_commit", flush_commit),
            claim_turns: fuser!(core, "flow_claim_turns", flush_claim_turns),
            claim_work: fuser!(core, "flow_claim_work", flush_claim_work),
            core,
        }
    }

    /// The state that the calls share.
    pub(crate) fn core(&self) -> &Arc<FlowCore> {
        &self.core
    }

    /// Waits for the calls in flight.
    pub(crate) async fn close(&self) {
        self.enqueue.close().await;
        self.complete.close().await;
        self.renew.close().await;
        self.commit.close().await;
        self.claim_turns.close().await;
        self.claim_work.close().await;
        self.core.hints.close().await;
    }
}

#[async_trait]
impl FlowStore for PostgresStore {
    async fn enqueue(
        &self,
        envelopes: Vec<Envelope>,
        requests: Vec<TurnRequest>,
    ) -> Result<EnqueueReply, StoreError> {
        if envelopes.is_empty() {
            return Ok(EnqueueReply::default());
        }
        let core = &self.flow.core;
        let messages = core.messages(envelopes).await?;
        let bytes = messages.iter().map(MessageForm::bytes).sum();
        let requests = core.turn_requests(&requests).await?;
        let form = EnqueueForm { messages, requests };
        let reply = match AuditAction::current() {
            Some(_) => core.enqueue_recorded(&form).await?,
            None => self.flow.enqueue.submit(form, bytes).await?,
        };
        if !reply.changes.is_empty() {
            core.hints.sent().await;
        }
        Ok(reply)
    }

    async fn claim_turns(&self, lines: Vec<TurnClaim>) -> Result<Vec<TurnClaimed>, StoreError> {
        let forms = self.flow.core.turn_lines(&lines).await?;
        let bytes = lines.iter().map(|line| 200 + 80 * line.requests.len()).sum();
        let claimed = self.flow.claim_turns.submit(forms.clone(), bytes).await?;
        self.flow.core.finish_turns(forms, claimed).await
    }

    async fn commit_turn(&self, mut commit: TurnCommit) -> Result<TurnReply, StoreError> {
        let pushes = std::mem::take(&mut commit.pushes);
        let emits = std::mem::take(&mut commit.emits);
        let form = self.flow.core.commit_form(commit).await?;
        let slow = self.flow.core.slow.contains(form.token.lane);
        if slow || !pushes.is_empty() || !emits.is_empty() {
            return self
                .flow
                .core
                .commit_separately(form, SeparateCommit { pushes, emits, slow })
                .await;
        }
        let bytes = form.bytes();
        self.flow.commit.submit(form, bytes).await
    }

    async fn enqueue_work(&self, work: NewWork) -> Result<Vec<FlowChange>, StoreError> {
        self.flow.core.enqueue_work(work).await
    }

    async fn claim_work(&self, lines: Vec<WorkClaim>) -> Result<Vec<WorkClaimed>, StoreError> {
        let forms = self.flow.core.work_lines(&lines).await?;
        let bytes = lines.iter().map(|line| 200 + 80 * line.requests.len()).sum();
        let claimed = self.flow.claim_work.submit(forms.clone(), bytes).await?;
        self.flow.core.finish_work(forms, claimed).await
    }

    async fn complete_work(
        &self,
        completion: Completion,
        requests: Vec<TurnRequest>,
    ) -> Result<CompletionReply, StoreError> {
        let core = &self.flow.core;
        let token = completion.token;
        let mut messages = core.messages(completion.message.into_iter().collect()).await?;
        let bytes = 200 + messages.iter().map(MessageForm::bytes).sum::<usize>();
        let requests = core.turn_requests(&requests).await?;
        let form = CompleteForm { token, message: messages.pop(), requests };
        self.flow.complete.submit(form, bytes).await
    }

    async fn renew(
        &self,
        tokens: Vec<FlowToken>,
        span: Duration,
    ) -> Result<Vec<RenewOutcome>, StoreError> {
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = tokens.len() * 50;
        self.flow.renew.submit(RenewForm { tokens, span }, bytes).await
    }

    async fn abandon(
        &self,
        token: FlowToken,
        delay: Duration,
        uncounted: bool,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError> {
        self.flow.core.abandon(token, delay, uncounted).await
    }

    async fn keep_sessions(
        &self,
        owners: Vec<OwnerId>,
        span: Duration,
        idle: Duration,
    ) -> Result<u64, StoreError> {
        self.flow.core.keep_sessions(owners, span, idle).await
    }

    async fn sweep_flow(&self, lines: Vec<FlowLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        self.flow.core.sweep(lines).await
    }
}
