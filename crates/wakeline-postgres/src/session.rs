//! One open connection, and the execution of statements on it.
//!
//! # Where it sits
//! Only [`crate::connect`] opens and closes sessions.
//!
//! # Invariants
//! * A statement is prepared once per session, or sent without a name.
//! * The first poll of a query sends it.
//! * On a session that is shared with other clients, nothing outlives a transaction, and each
//!   transaction begins with its settings.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::{BoxFuture, join3};
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, SimpleQueryMessage, Statement};
use uuid::Uuid;
use wakeline_core::error_chain;
use wakeline_store::StoreError;

use crate::connector::PgConnector;
use crate::error;
use crate::options::Schema;

/// The parameters of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// One SQL text of this store. Create it once and clone it: its identity is the key under which
/// connections keep the prepared statement.
#[derive(Debug, Clone)]
pub(crate) struct Sql {
    id: u64,
    text: Arc<str>,
    /// The types of its parameters, known after it was first sent without a name.
    types: Arc<OnceLock<Vec<Type>>>,
}

impl Sql {
    /// Fills a template. See [`fill`].
    pub(crate) fn new(schema: &Schema, template: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id, text: fill(schema, template).into(), types: Arc::default() }
    }
}

/// Replaces `@schema@` by the schema's quoted name, and `@channel@` by its channel. Where
/// `@schema@` qualifies a function of the node's own set, the qualified name in that set is used.
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

/// A statement that is sent right behind another. See `PgLink::query_then`.
pub(crate) struct FollowUp {
    pub(crate) sql: Sql,
    pub(crate) text: String,
    pub(crate) id: Uuid,
}

/// The result of a follower: the number of rows that it returned.
pub(crate) type FollowUpResult = BoxFuture<'static, Result<usize, tokio_postgres::Error>>;

impl FollowUp {
    /// Runs the statement. It is sent when the future is first polled.
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
    /// The number of losses of other sessions after which this one is known to be alive.
    outlived: AtomicU64,
    statements: Mutex<HashMap<u64, Statement>>,
    /// Other clients use the session as well, between transactions.
    shared: bool,
    /// The server process of the session; `None` if it is shared.
    pub(crate) process: Option<i32>,
    /// Statements are prepared under a name.
    prepares: bool,
    /// The text that begins a transaction, with the settings on a shared session.
    begin: String,
    /// Held while messages that belong together are sent.
    sending: Mutex<()>,
    /// The warning about a pooler and prepared statements was logged.
    warned: AtomicBool,
}

/// How a statement is sent.
enum Form<'a> {
    Named(Statement),
    Unnamed(&'a [Type]),
}

/// The time limit for a session's answer to a liveness check.
const ALIVE_WITHIN: Duration = Duration::from_secs(1);

impl Session {
    /// Opens a connection and sets its session up.
    pub(crate) async fn open(
        connector: &PgConnector,
        operation: &'static str,
    ) -> Result<Self, StoreError> {
        let losses = connector.losses();
        let (client, wire) = connector.open_wire(operation).await?;
        let driver = tokio::spawn(async move {
            if let Err(error) = wire.await {
                tracing::debug!(error = error_chain(&error), "a connection to PostgreSQL was lost");
            }
        });
        let mut session = Self {
            client,
            driver: driver.abort_handle(),
            cut: AtomicBool::new(false),
            outlived: AtomicU64::new(losses),
            statements: Mutex::new(HashMap::new()),
            shared: false,
            process: None,
            prepares: false,
            begin: "BEGIN".to_owned(),
            sending: Mutex::new(()),
            warned: AtomicBool::new(false),
        };
        let set_up = connector.set_up(&session.client);
        let process = match timeout(connector.connect_timeout(), set_up).await {
            Ok(Ok(process)) => process,
            Ok(Err(error)) => return Err(error::connect_failed(operation, error)),
            Err(_) => {
                session.cut();
                return Err(error::connect_failed(
                    operation,
                    "no connection could be opened within the time limit",
                ));
            }
        };
        let shared = process.is_none();
        (session.process, session.shared) = (process, shared);
        session.prepares = connector.prepares(shared);
        if shared {
            session.begin = format!("BEGIN; {}", connector.settings());
        }
        Ok(session)
    }

    /// Closes the socket without a terminate message, which a dead connection would swallow.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Release);
        self.driver.abort();
    }

    /// Whether a statement may be sent. The driver notices a cut with a short delay.
    pub(crate) fn is_usable(&self) -> bool {
        !self.cut.load(Ordering::Acquire) && !self.client.is_closed() && !self.driver.is_finished()
    }

    /// Whether it is known to be alive after this many losses of other sessions.
    pub(crate) fn has_outlived(&self, losses: u64) -> bool {
        self.outlived.load(Ordering::Acquire) >= losses
    }

    /// Checks that it is alive after losses of other sessions that were open at the same time. No
    /// other call may be in flight on it.
    pub(crate) async fn is_alive(&self, losses: u64) -> bool {
        // A Sync message: answered without a statement and without a transaction.
        let alive = timeout(ALIVE_WITHIN, self.client.check_connection()).await;
        let alive = matches!(alive, Ok(Ok(())));
        if alive {
            self.outlived.fetch_max(losses, Ordering::AcqRel);
        }
        alive
    }

    /// Begins a transaction. No other call may be in flight on this session until it ends.
    pub(crate) async fn begin(&self) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(&self.begin).await
    }

    /// Prepares a statement, so that its first call does not pay for it.
    pub(crate) async fn prepare(&self, sql: &Sql) -> Result<(), tokio_postgres::Error> {
        self.form(sql).await.map(drop)
    }

    /// Returns the prepared statement, if it exists and needs no settings of its own.
    pub(crate) fn prepared(&self, sql: &Sql) -> Option<Statement> {
        if self.shared { None } else { self.statements.lock().get(&sql.id).cloned() }
    }

    /// Runs a statement in the open transaction, or on a session of its own.
    pub(crate) async fn query(
        &self,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let form = self.form(sql).await?;
        self.send(sql, &form, params).await.inspect_err(|error| self.warn_of_pooler(error))
    }

    /// Runs a statement as a transaction of its own.
    async fn query_whole(
        &self,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        if self.shared {
            // Boxed, so that calls on a session of their own do not carry this future.
            return Box::pin(self.query_with_settings(sql, params)).await;
        }
        self.query(sql, params).await
    }

    /// Runs a statement as a transaction that begins with its settings.
    async fn query_with_settings(
        &self,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let form = self.form(sql).await?;
        // The calls are polled, and so sent, in this order: one round trip. If one fails, those
        // after it do nothing.
        let call = join3(
            self.client.batch_execute(&self.begin),
            self.send(sql, &form, params),
            self.client.batch_execute("COMMIT"),
        );
        let (begun, rows, committed) = self.send_together(call).await;
        let rows = begun.and(rows).inspect_err(|error| self.warn_of_pooler(error))?;
        committed.map(|()| rows)
    }

    async fn send(
        &self,
        sql: &Sql,
        form: &Form<'_>,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        match form {
            Form::Named(statement) => self.client.query(statement, params).await,
            Form::Unnamed(types) => {
                let typed: Vec<_> = params.iter().copied().zip(types.iter().cloned()).collect();
                Box::pin(self.client.query_typed(&sql.text, &typed)).await
            }
        }
    }

    /// Sends all messages of a call without those of other calls in between, which on a shared
    /// session would run in this call's transaction.
    async fn send_together<F: Future>(&self, call: F) -> F::Output {
        let mut call = pin!(call);
        let mut sent = false;
        poll_fn(|context| {
            let _sending = (!sent).then(|| self.sending.lock());
            sent = true;
            call.as_mut().poll(context)
        })
        .await
    }

    async fn form<'a>(&self, sql: &'a Sql) -> Result<Form<'a>, tokio_postgres::Error> {
        if !self.prepares {
            return Box::pin(self.types(sql)).await.map(Form::Unnamed);
        }
        if let Some(statement) = self.statements.lock().get(&sql.id) {
            return Ok(Form::Named(statement.clone()));
        }
        let preparing = Box::pin(self.send_together(self.client.prepare(&sql.text))).await;
        let statement = preparing.inspect_err(|error| self.warn_of_pooler(error))?;
        self.statements.lock().insert(sql.id, statement.clone());
        Ok(Form::Named(statement))
    }

    /// Reads the types of a statement's parameters, as the driver does when it prepares one.
    async fn types<'a>(&self, sql: &'a Sql) -> Result<&'a [Type], tokio_postgres::Error> {
        if let Some(types) = sql.types.get() {
            return Ok(types);
        }
        let name = format!("wakeline_{}", Uuid::new_v4().simple());
        let script = include_str!("../sql/queries/statement_types.sql")
            .replace("@name@", &name)
            .replace("@statement@", &sql.text);
        let answer = self.send_together(self.client.simple_query(&script)).await?;
        let oids = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get("types"),
            _ => None,
        });
        let oids = oids.unwrap_or_default().trim_matches(['{', '}']).split(',');
        // The store uses built-in types only; with another one the driver refuses the value.
        let known = |oid: u32| Type::from_oid(oid).unwrap_or(Type::UNKNOWN);
        let types = oids.filter_map(|oid| oid.parse().ok()).map(known).collect();
        Ok(sql.types.get_or_init(|| types))
    }

    fn warn_of_pooler(&self, error: &tokio_postgres::Error) {
        if self.prepares
            && error::is_of_prepared_statements(error)
            && !self.warned.swap(true, Ordering::AcqRel)
        {
            let error = error_chain(error);
            tracing::warn!(
                error,
                "a prepared statement was created by another client, or is missing: the store's \
                 URL points to a pooler that uses another connection for each transaction and does \
                 not support prepared statements; set prepared_statements to auto or off"
            );
        }
    }

    /// Runs a statement as a transaction; if its plan is stale, prepares and runs it again.
    pub(crate) async fn query_fresh(
        &self,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        match self.query_whole(sql, params).await {
            Err(error) if error::kind(&error) == error::PgErrorKind::StalePlan => {
                self.forget(sql);
                self.query_whole(sql, params).await
            }
            other => other,
        }
    }

    /// Forgets a prepared statement, so that it is prepared again.
    pub(crate) fn forget(&self, sql: &Sql) {
        self.statements.lock().remove(&sql.id);
    }
}
