//! One open connection, and the statements that were prepared on it.
//!
//! # Where it sits
//! [`crate::connect`] opens sessions and gives them up; nothing else does.
//!
//! # Invariants
//! * A statement is prepared once per session.
//! * The first poll of a query puts it on the wire.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;
use wakeline_store::StoreError;

use crate::connector::Connector;
use crate::error;
use crate::options::Schema;

/// Parameters of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// One SQL text of this store. Make it once and clone it: its identity is the key under which
/// connections keep the prepared statement.
#[derive(Debug, Clone)]
pub(crate) struct Sql {
    id: u64,
    text: Arc<str>,
}

impl Sql {
    /// Fills a template. See [`fill`].
    pub(crate) fn new(schema: &Schema, template: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), text: fill(schema, template).into() }
    }
}

/// Puts the schema's quoted name for `@schema@`, and its channel for `@channel@`. Where `@schema@`
/// is that of a function of a node's own set, it puts the name in that set.
pub(crate) fn fill(schema: &Schema, template: &str) -> String {
    const MARK: &str = "@schema@";
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once(MARK) {
        text.push_str(before);
        let name = after.strip_prefix('.').map_or("", identifier);
        match schema.function(name) {
            Some(function) => {
                text.push_str(&function);
                rest = &after[1 + name.len()..];
            }
            None => {
                text.push_str(&schema.quoted());
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text.replace("@channel@", &schema.channel())
}

/// The identifier at the beginning of a text.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// A statement that is sent right behind another. See `Link::query_then`.
pub(crate) struct Follower {
    pub(crate) sql: Sql,
    pub(crate) text: String,
    pub(crate) id: Uuid,
}

/// What becomes of a follower: how many rows it returned.
pub(crate) type Followed = BoxFuture<'static, Result<usize, tokio_postgres::Error>>;

impl Follower {
    /// Puts it on the wire when it is first polled.
    pub(crate) async fn run(
        self,
        session: Arc<Session>,
        statement: Statement,
    ) -> Result<usize, tokio_postgres::Error> {
        let rows = session.client.query(&statement, &[&self.text, &self.id]).await?;
        Ok(rows.len())
    }
}

/// One open connection.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) driver: AbortHandle,
    cut: AtomicBool,
    /// The losses of other sessions after which this one is known to be alive.
    outlived: AtomicU64,
    statements: Mutex<HashMap<u64, Statement>>,
}

/// How long a session may take to answer that it is alive.
const ALIVE_WITHIN: Duration = Duration::from_secs(1);

impl Session {
    /// Opens a connection and sets its session up.
    pub(crate) async fn open(
        connector: &Connector,
        operation: &'static str,
    ) -> Result<Self, StoreError> {
        let losses = connector.losses();
        let (client, wire) = connector.open_wire(operation).await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = wire.await {
                tracing::debug!(error = &error as &dyn std::error::Error, "connection lost");
            }
        });
        let session = Self {
            client,
            driver: driver.abort_handle(),
            cut: AtomicBool::new(false),
            outlived: AtomicU64::new(losses),
            statements: Mutex::new(HashMap::new()),
        };
        let set_up = session.client.batch_execute(connector.session());
        match timeout(connector.connect_timeout(), set_up).await {
            Ok(Ok(())) => Ok(session),
            Ok(Err(error)) => Err(error::connect_failed(operation, error)),
            Err(_) => {
                session.cut();
                Err(error::connect_failed(operation, "no session within the deadline"))
            }
        }
    }

    /// Closes the socket without a farewell, which a black hole would swallow.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Release);
        self.driver.abort();
    }

    /// Whether a statement may be sent. The driver notices a cut a little later than it happens.
    pub(crate) fn is_usable(&self) -> bool {
        !self.cut.load(Ordering::Acquire) && !self.client.is_closed() && !self.driver.is_finished()
    }

    /// Whether it is known to have outlived so many losses of other sessions.
    pub(crate) fn has_outlived(&self, losses: u64) -> bool {
        self.outlived.load(Ordering::Acquire) >= losses
    }

    /// Makes sure that it has: others that were open at the same time were lost, and this one may
    /// be lost without knowing it. Nothing else may be under way on it.
    pub(crate) async fn is_alive(&self, losses: u64) -> bool {
        // A Sync message: answered without a statement and without a transaction.
        let alive = timeout(ALIVE_WITHIN, self.client.check_connection()).await;
        let alive = matches!(alive, Ok(Ok(())));
        if alive {
            self.outlived.fetch_max(losses, Ordering::AcqRel);
        }
        alive
    }

    /// The prepared statement; makes it if this is its first use.
    pub(crate) async fn prepare(&self, sql: &Sql) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.prepared(sql) {
            return Ok(statement);
        }
        let statement = self.client.prepare(&sql.text).await?;
        self.statements.lock().insert(sql.id, statement.clone());
        Ok(statement)
    }

    /// The prepared statement, if it was made before.
    pub(crate) fn prepared(&self, sql: &Sql) -> Option<Statement> {
        self.statements.lock().get(&sql.id).cloned()
    }

    /// Runs a statement, preparing it if need be.
    pub(crate) async fn query(
        &self,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare(sql).await?;
        self.client.query(&statement, params).await
    }

    /// Runs a statement; if its plan went stale, once more with a new one.
    pub(crate) async fn query_fresh(
        &self,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        match self.query(sql, params).await {
            Err(error) if error::kind(&error) == error::Kind::StalePlan => {
                self.forget(sql);
                self.query(sql, params).await
            }
            other => other,
        }
    }

    /// Has a statement prepared anew.
    pub(crate) fn forget(&self, sql: &Sql) {
        self.statements.lock().remove(&sql.id);
    }
}
