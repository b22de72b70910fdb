//! Webhooks on PostgreSQL: `HookStore` over the functions `hook_*` in `sql/functions`.
//!
//! # Where it sits
//! [`crate::PostgresStore`] holds [`HookFusers`]: the fusers of the frequent calls, and the
//! [`HookCore`] that they share. Each operation has a module of its own.
//!
//! # Invariants
//! * Commands of one kind are fused per connection; messages of one application go through the same
//!   connection, so that this node does not contend with itself.
//! * A call that was certainly rolled back is repeated. A call of unknown outcome is repeated only
//!   if it is idempotent: a claim, by its keys, and an emit, by its message's id.
//! * A command with bad values fails alone: its call is repeated one command at a time.
//! * Hints go out after the commit, never with it.
//! * A corrupt row delays no other row, and costs no other row an attempt.

mod admin;
mod catalog;
mod claim;
mod emit;
mod endpoints;
mod event_types;
mod items;
mod lease;
mod quarantine;
mod read;
mod settle;
mod sql;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio_postgres::Row;
use uuid::Uuid;
use wakeline_core::{AttemptId, DeliveryToken, HookChange, HookLine, LeaseToken};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    DeliveryClaim, DeliveryClaimed, DeliveryRequest, EmitReply, HookStore, NewMessage,
    SettleDelivery, SettledDelivery,
};

use self::claim::{ClaimedLine, LineForm};
use self::emit::EmitForm;
pub(crate) use self::emit::{PiggybackedEmits, check};
use crate::access::Act;
use crate::api_hints::ApiHints;
use crate::connect::{Params, PgLink, Sql};
use crate::error;
use crate::queue::{self, ClaimedTokens, FuserPool};
use crate::{PostgresStore, Shared};

/// The state that the calls of webhooks share.
pub(crate) struct HookCore {
    shared: Arc<Shared>,
    queue: Arc<queue::QueueCore>,
    sql: sql::HookStatements,
    hints: ApiHints<HookChange>,
    /// Attempts under which this node may hold leases already.
    keys: ClaimedTokens,
    /// The application whose fan-out this node continued last; the next one is after it.
    fan_out_after: Mutex<Option<Uuid>>,
}

impl HookCore {
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

    /// Runs a change that may give something a name; repeats it once if another transaction took
    /// the name concurrently, so that it sees who has it.
    async fn naming(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        match self.act(operation, sql, params, Act::coded).await {
            Err(error) if error::lost_a_name(&error) => {
                self.act(operation, sql, params, Act::coded).await
            }
            other => other,
        }
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

    /// Remembers attempts under which something is, or may be, leased.
    fn remember(&self, attempts: impl Iterator<Item = AttemptId>) {
        self.keys.remember(attempts.map(|attempt| LeaseToken(attempt.0)));
    }

    fn remembers(&self, attempt: AttemptId) -> bool {
        self.keys.contains(LeaseToken(attempt.0))
    }

    /// Notifies other nodes of changes, except of payloads that expire later: their sweeps find
    /// those.
    pub(crate) fn notify(&self, changes: &[HookChange]) {
        self.hints.notify(&self.shared, changes.iter().filter(|change| is_news(change)).cloned());
    }
}

fn is_news(change: &HookChange) -> bool {
    change.what != wakeline_core::HookChangeKind::Background || change.due_in.is_zero()
}

/// The fusers of webhooks, and the state that their calls share.
pub(crate) struct HookFusers {
    core: Arc<HookCore>,
    emit: FuserPool<EmitForm, EmitReply>,
    claim: FuserPool<Vec<LineForm>, Vec<ClaimedLine>>,
    settle: FuserPool<Vec<SettleDelivery>, Vec<SettledDelivery>>,
}

/// Starts the fusers of one kind of call, one per connection.
macro_rules! fuser_pool {
    ($core:expr, $links:expr, $name:literal, $flush:ident) => {{
        let core = $core.clone();
        FuserPool::start($name, $links, move |link, commands| {
            let core = core.clone();
            async move { core.$flush(link, commands).await }.boxed()
        })
    }};
}

impl HookFusers {
    /// Starts the fusers.
    pub(crate) fn start(shared: &Arc<Shared>, queue: &Arc<queue::QueueCore>) -> Self {
        let core = Arc::new(HookCore {
            shared: shared.clone(),
            queue: queue.clone(),
            sql: sql::HookStatements::new(shared),
            hints: ApiHints::default(),
            keys: ClaimedTokens::default(),
            fan_out_after: Mutex::default(),
        });
        let links = &shared.links.hook;
        Self {
            emit: fuser_pool!(core, links.emit.len(), "hook_emit", flush_emit),
            claim: fuser_pool!(core, 1, "hook_claim", flush_claim),
            settle: fuser_pool!(core, links.settle.len(), "hook_settle", flush_settle),
            core,
        }
    }

    /// The state that the calls share.
    pub(crate) fn core(&self) -> &Arc<HookCore> {
        &self.core
    }

    /// Waits for the calls in flight.
    pub(crate) async fn close(&self) {
        self.emit.close().await;
        self.claim.close().await;
        self.settle.close().await;
        self.core.hints.close().await;
    }
}

#[async_trait]
impl HookStore for PostgresStore {
    async fn emit(
        &self,
        message: NewMessage,
        requests: Vec<DeliveryRequest>,
    ) -> Result<EmitReply, StoreError> {
        let key = message.application.clone();
        let form = EmitForm::new(message, requests)?;
        let bytes = form.bytes();
        self.hook.emit.submit(key, form, bytes).await
    }

    async fn claim_deliveries(
        &self,
        lines: Vec<DeliveryClaim>,
    ) -> Result<Vec<DeliveryClaimed>, StoreError> {
        let forms = self.hook.core.lines(&lines);
        let bytes = forms.iter().map(LineForm::bytes).sum();
        let claimed = self.hook.claim.submit((), forms.clone(), bytes).await?;
        self.hook.core.finish_claim(forms, claimed).await
    }

    async fn settle_deliveries(
        &self,
        ends: Vec<SettleDelivery>,
    ) -> Result<Vec<SettledDelivery>, StoreError> {
        let Some(first) = ends.first() else { return Ok(Vec::new()) };
        let key = first.token.delivery;
        let bytes = ends.iter().map(settle::bytes).sum();
        self.hook.settle.submit(key, ends, bytes).await
    }

    async fn release_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
    ) -> Result<Vec<HookChange>, StoreError> {
        self.hook.core.release(tokens).await
    }

    async fn extend_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
        span: Duration,
    ) -> Result<Vec<bool>, StoreError> {
        self.hook.core.extend(tokens, span).await
    }

    async fn sweep_hook(&self, lines: Vec<HookLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        self.hook.core.sweep(lines).await
    }
}
