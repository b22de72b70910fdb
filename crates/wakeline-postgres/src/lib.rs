//! The PostgreSQL store: PostgreSQL 15 or later, any number of nodes.
//!
//! # Where it sits
//! Implements the traits of `wakeline-store`. [`connect`] runs statements, [`fuse`] puts commands
//! together, [`queue`] and [`admin`] know the queue's SQL, [`flow`] that of orchestrations,
//! [`hook`] that of webhooks, [`access`] keys and the audit, [`listener`] and [`notifier`] carry
//! hints between nodes, [`migrate`] keeps the schema.
//!
//! # Invariants
//! * All objects live in one schema, but for the functions that a release's own nodes call (see
//!   [`function_sets`]); all SQL lives under `sql/`.
//! * Hints never ride on a node's writing transaction.
//! * Dropping the last [`PostgresStore`] ends every task and connection of it.

mod access;
mod admin;
mod breaker;
mod clock;
mod commands;
mod connect;
mod connector;
mod dead;
mod dedup;
mod embedded;
mod error;
mod face_hints;
mod flow;
mod function_sets;
mod fuse;
mod grants;
mod groups;
mod hook;
mod incoming;
mod keep;
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
mod promptness;
mod queue;
mod queue_options;
mod remove;
mod room;
mod rows;
mod schema_dump;
mod session;
mod statements;
mod stats;
mod tally;
mod tls;
mod traces;
mod transact;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use wakeline_core::NodeId;
use wakeline_store::{Sealing, StoreAdmin, StoreError, StoreInfo};

use crate::clock::ClockWatch;
use crate::connect::{Link, Params, Sql};
use crate::connector::Connector;
pub use crate::error::is_refused;
use crate::migrate::Migrator;
pub use crate::migrate::{MigrationReport, MigrationStatus, migrate_status, migrate_up};
use crate::notifier::{Notifier, NotifierParts};
use crate::options::Schema;
pub use crate::options::{NotifyMode, PostgresOptions, PreparedStatements, Timings};
use crate::pool::Pool;
pub use crate::remove::remove_schema;
pub use crate::schema_dump::dump_schema;
pub use crate::statements::count_statements;

/// The connections by what they are for, so that one kind of call never waits behind another.
pub(crate) struct Links {
    /// For fused pushes.
    pub(crate) push: Vec<Link>,
    /// For fused claims.
    pub(crate) claim: Vec<Link>,
    /// For fused settlements.
    pub(crate) settle: Vec<Link>,
    /// For everything else.
    pub(crate) general: Pool,
    /// For saying who calls, and for probes of health; on top of the limit. What anybody may ask
    /// for, such as long lists, never keeps them waiting.
    pub(crate) reserved: Link,
    /// For taking over incoming rows; on top of the limit.
    /// It is held while their push runs, which may need any of the others.
    pub(crate) incoming: Link,
    /// For orchestrations; on top of the limit, opened by the first of them.
    pub(crate) flow: FlowLinks,
    /// For webhooks; on top of the limit, opened by the first of them.
    pub(crate) hook: HookLinks,
}

/// The connections of orchestrations. One of each kind: what waits meanwhile goes with the next
/// call, and calls that carry more cost less than calls side by side.
pub(crate) struct FlowLinks {
    /// For fused messages.
    pub(crate) enqueue: Link,
    /// For fused completions and renewals.
    pub(crate) complete: Link,
    /// For fused commits of turns.
    pub(crate) commit: Link,
    /// For fused claims of turns: claims of a line must not meet each other.
    pub(crate) claim_turns: Link,
    /// For fused claims of activities.
    pub(crate) claim_work: Link,
}

impl FlowLinks {
    fn new(connector: &Arc<Connector>) -> Self {
        let link = || Link::new(connector.clone());
        Self {
            enqueue: link(),
            complete: link(),
            commit: link(),
            claim_turns: link(),
            claim_work: link(),
        }
    }

    fn all(&self) -> [&Link; 5] {
        [&self.enqueue, &self.complete, &self.commit, &self.claim_turns, &self.claim_work]
    }
}

/// The connections of webhooks.
pub(crate) struct HookLinks {
    /// For fused events.
    pub(crate) emit: Vec<Link>,
    /// For fused claims: one, because claims of a line must not meet each other.
    pub(crate) claim: Link,
    /// For fused settlements.
    pub(crate) settle: Vec<Link>,
}

impl HookLinks {
    fn all(&self) -> impl Iterator<Item = &Link> {
        self.emit.iter().chain(std::iter::once(&self.claim)).chain(&self.settle)
    }
}

impl Links {
    /// Two connections per hot kind of call if the limit allows it, else one. One more belongs to
    /// the notifier; the rest is for general use.
    fn new(connector: &Arc<Connector>, pool_max: usize) -> Self {
        let each = if pool_max >= 8 { 2 } else { 1 };
        let links = || (0..each).map(|_| Link::new(connector.clone())).collect();
        let general = pool_max.saturating_sub(3 * each + 1);
        Self {
            push: links(),
            claim: links(),
            settle: links(),
            general: Pool::new(connector, general),
            reserved: Link::new(connector.clone()),
            incoming: Link::new(connector.clone()),
            flow: FlowLinks::new(connector),
            hook: HookLinks { emit: links(), claim: Link::new(connector.clone()), settle: links() },
        }
    }

    /// Opens the hot connections, with their statements prepared, all at once.
    async fn warm(&self, statements: &queue::Statements, lead: Sql) -> Result<(), StoreError> {
        let kinds = [
            (&self.push, vec![statements.push.clone(), lead]),
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

/// What the parts of the store share.
pub(crate) struct Shared {
    pub(crate) options: PostgresOptions,
    pub(crate) schema: Schema,
    pub(crate) node: NodeId,
    pub(crate) links: Links,
    pub(crate) notifier: Notifier,
    pub(crate) connector: Arc<Connector>,
    pub(crate) listen_connector: Connector,
    /// Ends the listener when the store is closed.
    pub(crate) closed: CancellationToken,
    /// Counts listeners that run.
    pub(crate) feeds: TaskTracker,
    /// Seals and opens the payloads of encrypted queues.
    pub(crate) sealing: Sealing,
    /// Notices when the clock of the database's machine is set.
    pub(crate) clock: ClockWatch,
    /// Ends what records that this node uses its functions.
    _functions_kept: DropGuard,
    location: String,
    ping: Sql,
}

impl Shared {
    /// An SQL text of this store's schema. Make it once, at the start.
    pub(crate) fn sql(&self, template: &str) -> Sql {
        Sql::new(&self.schema, template)
    }

    /// Makes the triggers fit `notify`, unless other nodes want them. If they do already, it is a
    /// read.
    pub(crate) async fn install_triggers(&self) -> Result<(), StoreError> {
        let wanted = self.options.notify == NotifyMode::Trigger;
        let install = self.sql(include_str!("../sql/queries/notify_install.sql"));
        let (lock, wanting) = (self.schema.migration_lock(), self.schema.triggers_lock());
        let params: Params<'_> = &[&wanted, &lock, &wanting];
        let mut tries = 5;
        let installed = loop {
            match self.links.general.query("install triggers", &install, params).await {
                // It locks whole tables, so it may meet other nodes at work in a deadlock.
                Err(error) if tries > 0 && error::was_rolled_back(&error) => tries -= 1,
                other => break other?,
            }
        };
        if installed.iter().any(|row| row.get("changed")) {
            let done = if wanted { "installed" } else { "removed" };
            tracing::info!("{done} the triggers that notify of rows which others write");
        }
        Ok(())
    }
}

/// A store on PostgreSQL. Cheap to clone.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<queue::Queue>,
    pub(crate) flow: Arc<flow::Flow>,
    pub(crate) hook: Arc<hook::Hook>,
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
        let open = |field, url: &str| Connector::new(field, url, &options, &node.to_string());
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
            link: Link::new(connector.clone()),
        };
        let shared = Arc::new(Shared {
            links: Links::new(&connector, options.pool_max),
            notifier: Notifier::start(parts, &schema),
            listen_connector,
            closed: CancellationToken::new(),
            feeds: TaskTracker::new(),
            sealing: Sealing::default(),
            clock: ClockWatch::new(&schema, options.timings.clock_step),
            _functions_kept: function_sets::keep_in_use(&options),
            location: format!("{} schema {}", connector.location(), schema.name()),
            connector,
            ping: Sql::new(&schema, include_str!("../sql/queries/ping.sql")),
            node,
            schema,
            options,
        });
        let queue = Arc::new(queue::Queue::start(&shared));
        let hook = Arc::new(hook::Hook::start(&shared, &queue.core));
        let flow = Arc::new(flow::Flow::start(&shared, &queue.core, hook.core()));
        let store = Self { shared, queue, flow, hook };
        store.shared.install_triggers().await?;
        let lead = store.shared.notifier.lead_sql();
        store.shared.links.warm(&store.queue.core.sql, lead).await?;
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
                "the store's URL leads through a pooler: each transaction begins with its settings"
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

    /// How many notifications this store has sent to other nodes.
    #[doc(hidden)]
    pub fn notifies_sent(&self) -> u64 {
        self.shared.notifier.sent()
    }

    /// How many other nodes listen; `None` while this one does not.
    #[doc(hidden)]
    pub fn peers(&self) -> Option<usize> {
        self.shared.notifier.peers()
    }

    /// Tells other nodes of changes, as a commit would.
    #[doc(hidden)]
    pub fn tell(&self, changes: &[wakeline_core::Change]) {
        self.shared.notifier.tell(changes);
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
        // A feed that nobody polls any more cannot end; it must not hold up the others.
        let _ = tokio::time::timeout(patience, self.shared.feeds.wait()).await;
        self.hook.close().await;
        self.flow.close().await;
        self.queue.close().await;
        self.shared.notifier.close().await;
        self.shared.links.close().await;
    }
}
