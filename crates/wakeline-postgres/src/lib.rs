//! The PostgreSQL store: PostgreSQL 15 or later, any number of nodes.
//!
//! # Where it sits
//! Implements the traits of `wakeline-store`. [`connect`] runs statements, [`fuse`] puts commands
//! together, [`queue`] and [`admin`] know the queue's SQL, [`listener`] and [`notifier`] carry
//! hints between nodes, [`migrate`] keeps the schema.
//!
//! # Invariants
//! * All objects live in one schema; all SQL lives under `sql/`.
//! * Hints never ride on a writing transaction (unless asked for by `notify = trigger`).
//! * Dropping the last [`PostgresStore`] ends every task and connection of it.

mod connect;
mod embedded;
mod error;
mod fuse;
mod notifier;
mod options;
mod queue;
mod tls;

use std::sync::Arc;

use async_trait::async_trait;
use wakeline_core::NodeId;
use wakeline_store::{StoreAdmin, StoreError, StoreInfo};

use crate::connect::{Connector, Link, Pool, Sql};
use crate::notifier::Notifier;
use crate::options::Schema;
pub use crate::options::{NotifyMode, PostgresOptions, Timings};

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
        }
    }

    async fn close(&self) {
        for link in self.push.iter().chain(&self.claim).chain(&self.settle) {
            link.close().await;
        }
        self.general.close().await;
    }
}

/// What the parts of the store share.
pub(crate) struct Shared {
    pub(crate) options: PostgresOptions,
    pub(crate) schema: Schema,
    pub(crate) node: NodeId,
    pub(crate) links: Links,
    pub(crate) notifier: Notifier,
    location: String,
    ping: Sql,
}

impl Shared {
    /// An SQL text of this store's schema. Make it once, at the start.
    pub(crate) fn sql(&self, template: &str) -> Sql {
        Sql::new(&self.schema, template)
    }
}

/// A store on PostgreSQL. Cheap to clone.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<queue::Queue>,
}

impl PostgresStore {
    /// Connects, and brings the schema up to date if the options say so.
    pub async fn connect(options: PostgresOptions) -> Result<Self, StoreError> {
        let schema = Schema::new(&options.schema)?;
        if options.pool_max < PostgresOptions::POOL_MIN {
            let reason = format!("must be at least {}", PostgresOptions::POOL_MIN);
            return Err(StoreError::Invalid { field: "pg_pool_max", reason });
        }
        let node = NodeId::generate();
        let connector = Arc::new(Connector::new("url", &options.url, &options, &node.to_string())?);
        let shared = Arc::new(Shared {
            links: Links::new(&connector, options.pool_max),
            notifier: Notifier {},
            location: format!("{} schema {}", connector.location(), schema.name()),
            ping: Sql::new(&schema, "SELECT 1"),
            node,
            schema,
            options,
        });
        let queue = Arc::new(queue::Queue::start(&shared));
        let store = Self { shared, queue };
        store.ping().await?;
        Ok(store)
    }
}

#[async_trait]
impl StoreAdmin for PostgresStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { kind: "postgres", location: self.shared.location.clone() }
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.shared.links.general.query("ping", &self.shared.ping, &[]).await.map(|_| ())
    }

    async fn close(&self) {
        self.queue.close().await;
        self.shared.links.close().await;
    }
}
