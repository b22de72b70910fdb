//! The PostgreSQL store: PostgreSQL 15 or later, any number of nodes.
//!
//! # Where it sits
//! Implements the traits of `wakeline-store`. [`connect`] runs statements, [`fuse`] groups commands
//! into calls, [`queue`] and [`admin`] contain the SQL of queues, [`flow`] that of orchestrations,
//! [`hook`] that of webhooks, [`access`] that of keys and the audit; [`listener`] and [`notifier`]
//! exchange hints between nodes, and [`migrate`] updates the schema.
//!
//! # Invariants
//! * All objects are in one schema, except the functions that a release's own nodes call (see
//!   [`function_sets`]); all SQL is under `sql/`.
//! * Hints are never part of a node's writing transaction.
//! * Dropping the last [`PostgresStore`] ends all of its tasks and connections.

mod access;
mod admin;
mod api_hints;
mod breaker;
mod capacity;
mod clock;
mod commands;
mod connect;
mod connector;
mod counts;
mod dead;
mod dedup;
mod embedded;
mod error;
mod flow;
mod function_sets;
mod fuse;
mod groups;
mod hook;
mod housekeeping;
mod incoming;
mod keyed;
mod lease_hints;
mod listener;
mod maintenance;
mod messages;
mod migrate;
mod notifier;
mod options;
mod payload;
mod pool;
mod privileges;
mod promptness;
mod queue;
mod queue_options;
mod remove;
mod rows;
mod schema_dump;
mod session;
mod statements;
mod stats;
mod tls;
mod traces;
mod transact;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use wakeline_core::NodeId;
use wakeline_store::{PayloadEncryption, StoreAdmin, StoreError, StoreInfo};

use crate::clock::ClockWatch;
use crate::connect::{Params, PgLink, Sql};
use crate::connector::PgConnector;
pub use crate::error::is_refused;
use crate::migrate::Migrator;
pub use crate::migrate::{MigrationReport, PostgresMigrationStatus, migrate_status, migrate_up};
use crate::notifier::{Notifier, NotifierParts};
use crate::options::Schema;
pub use crate::options::{NotifyMode, PostgresOptions, PreparedStatements, Timings};
use crate::pool::Pool;
pub use crate::remove::remove_schema;
pub use crate::schema_dump::dump_schema;
pub use crate::statements::count_statements;

/// The connections by purpose, so that one kind of call never waits behind another.
pub(crate) struct Links {
    /// For fused pushes.
    pub(crate) push: Vec<PgLink>,
    /// For fused claims.
    pub(crate) claim: Vec<PgLink>,
    /// For fused settlements.
    pub(crate) settle: Vec<PgLink>,
    /// For everything else.
    pub(crate) general: Pool,
    /// For authentication and health probes; on top of the limit. Other requests, such as long
    /// lists, never delay them.
    pub(crate) reserved: PgLink,
    /// For taking over incoming rows; on top of the limit, because it is held during their push,
    /// which may need any of the other connections.
    pub(crate) incoming: PgLink,
    /// For orchestrations; on top of the limit, opened when first used.
    pub(crate) flow: FlowLinks,
    /// For webhooks; on top of the limit, opened when first used.
    pub(crate) hook: HookLinks,
}

/// The connections of orchestrations, one for each kind of call: commands that arrive during a call
/// go with the next one, and a large call costs less than concurrent ones.
pub(crate) struct FlowLinks {
    /// For fused messages.
    pub(crate) enqueue: PgLink,
    /// For fused completions and renewals.
    pub(crate) complete: PgLink,
    /// For fused commits of turns.
    pub(crate) commit: PgLink,
    /// For fused claims of turns: one, because concurrent claims of a line would conflict.
    pub(crate) claim_turns: PgLink,
    /// For fused claims of activities.
    pub(crate) claim_work: PgLink,
}

impl FlowLinks {
    fn new(connector: &Arc<PgConnector>) -> Self {
        let link = || PgLink::new(connector.clone());
        Self {
            enqueue: link(),
            complete: link(),
            commit: link(),
            claim_turns: link(),
            claim_work: link(),
        }
    }

    fn all(&self) -> [&PgLink; 5] {
        [&self.enqueue, &self.complete, &self.commit, &self.claim_turns, &self.claim_work]
    }
}

/// The connections of webhooks.
pub(crate) struct HookLinks {
    /// For fused events.
    pub(crate) emit: Vec<PgLink>,
    /// For fused claims: one, because concurrent claims of a line would conflict.
    pub(crate) claim: PgLink,
    /// For fused settlements.
    pub(crate) settle: Vec<PgLink>,
}

impl HookLinks {
    fn all(&self) -> impl Iterator<Item = &PgLink> {
        self.emit.iter().chain(std::iter::once(&self.claim)).chain(&self.settle)
    }
}

impl Links {
    /// Opens two connections per hot kind of call if the limit allows it, else one. One more
    /// belongs to the notifier; the rest is for general use.
    fn new(connector: &Arc<PgConnector>, pool_max: usize) -> Self {
        let each = if pool_max >= 8 { 2 } else { 1 };
        let links = || (0..each).map(|_| PgLink::new(connector.clone())).collect();
        let general = pool_max.saturating_sub(3 * each + 1);
        Self {
            push: links(),
            claim: links(),
            settle: links(),
            general: Pool::new(connector, general),
            reserved: PgLink::new(connector.clone()),
            incoming: PgLink::new(connector.clone()),
            flow: FlowLinks::new(connector),
            hook: HookLinks {
                emit: links(),
                claim: PgLink::new(connector.clone()),
                settle: links(),
            },
        }
    }

    /// Opens the hot connections concurrently, with their statements prepared.
    async fn warm(
        &self,
        statements: &queue::QueueStatements,
        hint_sql: Sql,
    ) -> Result<(), StoreError> {
        let kinds = [
            (&self.push, vec![statements.push.clone(), hint_sql]),
            (&self.claim, vec![statements.claim.clone()]),
            (&self.settle, vec![statements.settle.clone()]),
        ];
        let opening = kinds.into_iter().flat_map(|(links, sql)| {
            links.iter().map(move |link| {
                link.warm_with(sql.clone());
                link.open("connect")
            })
        });
        try_join_all(opening).await.map(|_| ())
    }

    async fn close(&self) {
        let queue = self.push.iter().chain(&self.claim).chain(&self.settle);
        for link in queue.chain(self.flow.all()).chain(self.hook.all()) {
            link.close().await;
        }
        self.general.close().await;
        self.reserved.close().await;
        self.incoming.close().await;
    }
}

/// The state that the parts of the store share.
pub(crate) struct Shared {
    pub(crate) options: PostgresOptions,
    pub(crate) schema: Schema,
    pub(crate) node: NodeId,
    pub(crate) links: Links,
    pub(crate) notifier: Notifier,
    pub(crate) connector: Arc<PgConnector>,
    pub(crate) listen_connector: PgConnector,
    /// Ends the listener when the store is closed.
    pub(crate) closed: CancellationToken,
    /// Tracks the running listeners.
    pub(crate) feeds: TaskTracker,
    /// Encrypts and decrypts the payloads of encrypted queues.
    pub(crate) encryption: PayloadEncryption,
    /// Notices when the clock of the database's machine is set.
    pub(crate) clock: ClockWatch,
    /// Ends the task that records that this node uses its functions.
    _functions_kept: DropGuard,
    location: String,
    ping: Sql,
}

impl Shared {
    /// Creates an SQL text for this store's schema. Call it once per text, at the start.
    pub(crate) fn sql(&self, template: &str) -> Sql {
        Sql::new(&self.schema, template)
    }

    /// Installs or removes the triggers as `notify` requires, unless other nodes need them. It only
    /// reads if nothing is to be changed.
    pub(crate) async fn install_triggers(&self) -> Result<(), StoreError> {
        let wanted = self.options.notify == NotifyMode::Trigger;
        let install = self.sql(include_str!("../sql/queries/notify_install.sql"));
        let (lock, wanting) = (self.schema.migration_lock(), self.schema.triggers_lock());
        let params: Params<'_> = &[&wanted, &lock, &wanting];
        let mut tries = 5;
        let installed = loop {
            match self.links.general.query("install triggers", &install, params).await {
                // It locks whole tables, so it may deadlock with the work of other nodes.
                Err(error) if tries > 0 && error::was_rolled_back(&error) => tries -= 1,
                other => break other?,
            }
        };
        if installed.iter().any(|row| row.get("changed")) {
            let done = if wanted { "installed" } else { "removed" };
            tracing::info!(
                "{done} the triggers that send notifications for rows written by other sessions"
            );
        }
        Ok(())
    }
}

/// A store on PostgreSQL. It is cheap to clone.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<queue::QueueFusers>,
    pub(crate) flow: Arc<flow::FlowFusers>,
    pub(crate) hook: Arc<hook::HookFusers>,
}

impl PostgresStore {
    /// Connects, and brings the schema up to date if the options say so.
    pub async fn connect(options: PostgresOptions) -> Result<Self, StoreError> {
        if options.pool_max < PostgresOptions::POOL_MIN {
            let reason =
                format!("must be at least {}, not {}", PostgresOptions::POOL_MIN, options.pool_max);
            return Err(StoreError::Invalid { field: "pg_pool_max", reason });
        }
        let node = NodeId::generate();
        let open = |field, url: &str| PgConnector::new(field, url, &options, &node.to_string());
        let connector = Arc::new(open("url", &options.url)?);
        let listen_connector = match &options.listen_url {
            Some(url) => open("listen_url", url)?,
            None => open("url", &options.url)?,
        };
        let schema = Migrator::prepare(&options).await?;
        let parts = NotifierParts {
            mode: options.notify,
            node,
            timings: options.timings.clone(),
            link: PgLink::new(connector.clone()),
        };
        let shared = Arc::new(Shared {
            links: Links::new(&connector, options.pool_max),
            notifier: Notifier::start(parts, &schema),
            listen_connector,
            closed: CancellationToken::new(),
            feeds: TaskTracker::new(),
            encryption: PayloadEncryption::default(),
            clock: ClockWatch::new(&schema, options.timings.clock_step),
            _functions_kept: function_sets::keep_in_use(&options),
            location: format!("{} schema {}", connector.location(), schema.name()),
            connector,
            ping: Sql::new(&schema, include_str!("../sql/queries/ping.sql")),
            node,
            schema,
            options,
        });
        let queue = Arc::new(queue::QueueFusers::start(&shared));
        let hook = Arc::new(hook::HookFusers::start(&shared, &queue.core));
        let flow = Arc::new(flow::FlowFusers::start(&shared, &queue.core, hook.core()));
        let store = Self { shared, queue, flow, hook };
        store.shared.install_triggers().await?;
        let hint_sql = store.shared.notifier.hint_after_push_sql();
        store.shared.links.warm(&store.queue.core.sql, hint_sql).await?;
        store.shared.clock.start(&store.shared).await?;
        store.report_pooler();
        Ok(store)
    }

    fn report_pooler(&self) {
        let connector = &self.shared.connector;
        if connector.is_shared() {
            let prepares = connector.prepares(true);
            tracing::info!(
                prepared_statements = prepares,
                "the store's URL points to a connection pooler: session settings are sent with \
                 each transaction"
            );
        }
    }

    /// Moves the clock of a schema that was made with `test_clock` forward.
    #[doc(hidden)]
    pub async fn advance_clock(&self, span: std::time::Duration) -> Result<(), StoreError> {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let advance = self.shared.sql(include_str!("../sql/test/advance.sql"));
        self.shared.links.general.query("advance clock", &advance, &[&micros]).await.map(|_| ())
    }

    /// Returns the number of notifications that this store has sent to other nodes.
    #[doc(hidden)]
    pub fn notifies_sent(&self) -> u64 {
        self.shared.notifier.sent()
    }

    /// Returns the number of other nodes that listen; `None` while this one does not.
    #[doc(hidden)]
    pub fn peers(&self) -> Option<usize> {
        self.shared.notifier.peers()
    }

    /// Notifies other nodes of changes, as a commit would.
    #[doc(hidden)]
    pub fn notify(&self, changes: &[wakeline_core::Change]) {
        self.shared.notifier.notify(changes);
    }
}

#[async_trait]
impl StoreAdmin for PostgresStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { kind: "postgres", location: self.shared.location.clone() }
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.shared.links.reserved.query("ping", &self.shared.ping, &[]).await.map(|_| ())
    }

    async fn close(&self) {
        self.shared.closed.cancel();
        self.shared.feeds.close();
        let patience = self.shared.options.timings.listener_patience;
        // A feed that is not polled any more cannot end; it must not block the shutdown of the
        // others.
        let _ = tokio::time::timeout(patience, self.shared.feeds.wait()).await;
        self.hook.close().await;
        self.flow.close().await;
        self.queue.close().await;
        self.shared.notifier.close().await;
        self.shared.links.close().await;
    }
}
