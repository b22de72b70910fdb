//! Connections to PostgreSQL: opened on demand, reopened after a loss, and used with deadlines.
//!
//! # Where it sits
//! Everything in this crate that runs a statement does so through a [`PgLink`]; only the listener
//! has a connection of its own kind, opened by the same [`PgConnector`].
//!
//! # Invariants
//! * Every call has a deadline. A connection that misses it is dropped with its socket: its packets
//!   may be lost silently, which would block it for ever. The server ends the statement by its own
//!   timeout a little earlier.
//! * Statements are prepared once per connection, unless a pooler shares it between clients. A
//!   statement whose cached plan is out of date (SQLSTATE 0A000, after a migration) is prepared
//!   again and repeated, because nothing of it was executed.
//! * `Unavailable` means that no statement was sent.
//! * A database that is known to be unavailable is an error at once (see [`crate::breaker`]).
//! * After a loss every session of the same connector is checked before it is used, because the
//!   others may have been lost silently as well.

mod watch;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::{RwLock, RwLockWriteGuard};
use tokio::time::timeout;
use tokio_postgres::Row;
use wakeline_core::error_chain;
use wakeline_store::StoreError;

use crate::breaker;
use crate::connector::PgConnector;
use crate::error::{self, PgErrorKind};
use crate::promptness::Promptness;
use crate::session::Session;
pub(crate) use crate::session::{FollowUp, FollowUpResult, Params, Sql, fill};

/// One PostgreSQL connection: opened on demand, reopened after loss. Concurrent queries are
/// pipelined in the order of their calls; a transaction has the connection to itself.
pub(crate) struct PgLink {
    connector: Arc<PgConnector>,
    session: Mutex<Option<Arc<Session>>>,
    opening: tokio::sync::Mutex<()>,
    /// Attempts to open that have ended. Callers that waited for the same attempt share its
    /// failure.
    attempts: AtomicU64,
    failure: Mutex<Option<String>>,
    /// Held shared by queries, exclusively by a transaction.
    turn: RwLock<()>,
    warmup: Mutex<Vec<Sql>>,
    promptness: Promptness,
}

impl PgLink {
    /// Creates a link without opening its connection.
    pub(crate) fn new(connector: Arc<PgConnector>) -> Self {
        Self {
            connector,
            session: Mutex::new(None),
            opening: tokio::sync::Mutex::new(()),
            attempts: AtomicU64::new(0),
            failure: Mutex::new(None),
            turn: RwLock::new(()),
            warmup: Mutex::new(Vec::new()),
            promptness: Promptness::default(),
        }
    }

    /// Sets the statements that each new connection prepares at once, so that the first call does
    /// not pay for it.
    pub(crate) fn warm_with(&self, statements: Vec<Sql>) {
        *self.warmup.lock() = statements;
    }

    /// Opens the connection now, if it is not open.
    pub(crate) async fn open(&self, operation: &'static str) -> Result<(), StoreError> {
        self.session(operation).await.map(|_| ())
    }

    /// Runs one statement.
    pub(crate) async fn query(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let _turn = self.turn.read().await;
        let session = self.session(operation).await?;
        self.run(operation, &session, sql, params).await
    }

    /// Runs one statement, and sends another right behind it: the database begins with the follower
    /// as soon as it has committed the first, while the answer is still on its way. The follower is
    /// a transaction of its own; its result is returned by the future that comes with the answer.
    /// There is no such future if the follower was not sent, or if it may have run before the
    /// commit because the first statement had to be repeated.
    pub(crate) async fn query_then(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
        follower: FollowUp,
    ) -> (Result<Vec<Row>, StoreError>, Option<FollowUpResult>) {
        let _turn = self.turn.read().await;
        let session = match self.session(operation).await {
            Ok(session) => session,
            Err(error) => return (Err(error), None),
        };
        let (Some(first), Some(second)) = (session.prepared(sql), session.prepared(&follower.sql))
        else {
            return (self.run(operation, &session, sql, params).await, None);
        };
        // The first poll of a query sends it, so these two are polled in this order.
        let mut call = pin!(session.client.query(&first, params));
        let called = futures_util::poll!(&mut call);
        let mut followed = follower.run(session.clone(), second).boxed();
        let mut followed = futures_util::poll!(&mut followed).is_pending().then_some(followed);
        let answer = self.within(operation, &session, async {
            let answer = match called {
                Poll::Ready(answer) => answer,
                Poll::Pending => call.await,
            };
            match answer {
                Err(error) if error::kind(&error) == PgErrorKind::StalePlan => {
                    followed = None;
                    session.forget(sql);
                    session.query_fresh(sql, params).await
                }
                other => other,
            }
        });
        let answer = answer.await;
        (answer, followed)
    }

    /// Begins a transaction, which has the connection to itself until it ends.
    pub(crate) async fn begin(
        &self,
        operation: &'static str,
    ) -> Result<PgTransaction<'_>, StoreError> {
        let turn = self.turn.write().await;
        let session = self.session(operation).await?;
        self.within(operation, &session, session.begin()).await?;
        Ok(PgTransaction { link: self, session, operation, open: true, _turn: turn })
    }

    /// Waits for the calls in flight, then closes the connection.
    pub(crate) async fn close(&self) {
        let _turn = self.turn.write().await;
        let Some(session) = self.session.lock().take() else { return };
        let driver = session.driver.clone();
        // Dropping the client lets the driver send its terminate message.
        drop(session);
        let gone = async {
            while !driver.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        if timeout(Duration::from_secs(1), gone).await.is_err() {
            driver.abort();
        }
    }

    async fn run(
        &self,
        operation: &'static str,
        session: &Session,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.within(operation, session, async { session.query_fresh(sql, params).await }).await
    }

    /// Waits for a call until its deadline, then cuts the connection.
    async fn within<T>(
        &self,
        operation: &'static str,
        session: &Session,
        call: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        let answer = timeout(self.connector.deadline(), call).await.ok();
        self.conclude(operation, session, answer)
    }

    /// Turns the answer of a call into its result; without an answer, cuts the connection.
    fn conclude<T>(
        &self,
        operation: &'static str,
        session: &Session,
        answer: Option<Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        let result = match answer {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(error::statement_failed(operation, error)),
            None => {
                session.cut();
                self.connector.count_loss();
                Err(error::timed_out(operation))
            }
        };
        count_call(operation, &result);
        result
    }

    async fn session(&self, operation: &'static str) -> Result<Arc<Session>, StoreError> {
        let sound = |session: &Arc<Session>| session.has_outlived(self.connector.losses());
        if let Some(session) = self.live().filter(sound) {
            return Ok(session);
        }
        let attempts = self.attempts.load(Ordering::Acquire);
        let _opening = self.opening.lock().await;
        if let Some(session) = self.live_and_checked().await {
            return Ok(session);
        }
        if self.attempts.load(Ordering::Acquire) != attempts
            && let Some(failure) = &*self.failure.lock()
        {
            return Err(error::connect_failed(operation, failure.clone()));
        }
        // Boxed: it is rare, and its future is larger than everything else here.
        let opened = Box::pin(breaker::open(&self.connector, operation)).await;
        *self.failure.lock() = opened.as_ref().err().map(|error| error_chain(error));
        self.attempts.fetch_add(1, Ordering::Release);
        let session = Arc::new(opened.inspect_err(|_| count_connect("failed"))?);
        count_connect("opened");
        self.warm(operation, &session).await;
        *self.session.lock() = Some(session.clone());
        Ok(session)
    }

    fn live(&self) -> Option<Arc<Session>> {
        let mut session = self.session.lock();
        if session.as_ref().is_some_and(|session| !session.is_usable()) {
            *session = None;
            self.connector.count_loss();
        }
        session.clone()
    }

    /// Returns the session if it is still alive after losses of others. One that is in use is not
    /// checked: the calls in flight will show whether it is.
    async fn live_and_checked(&self) -> Option<Arc<Session>> {
        let losses = self.connector.losses();
        let session = self.live()?;
        let in_use = Arc::strong_count(&session) > 2;
        if in_use || session.has_outlived(losses) || session.is_alive(losses).await {
            return Some(session);
        }
        session.cut();
        *self.session.lock() = None;
        None
    }

    async fn warm(&self, operation: &'static str, session: &Session) {
        let statements = self.warmup.lock().clone();
        for sql in statements {
            // It may fail, for example on a schema of another version; the real call then reports
            // it.
            let prepared = self.within(operation, session, session.prepare(&sql)).await;
            if let Err(error) = prepared {
                tracing::debug!(
                    error = error_chain(&error),
                    "statements could not be prepared in advance"
                );
                return;
            }
        }
    }
}

/// Several statements that succeed or fail together. If it is dropped without [`Self::commit`] or
/// [`Self::rollback`], the connection is cut, so that no later call runs inside the open
/// transaction.
pub(crate) struct PgTransaction<'a> {
    link: &'a PgLink,
    session: Arc<Session>,
    operation: &'static str,
    open: bool,
    _turn: RwLockWriteGuard<'a, ()>,
}

impl PgTransaction<'_> {
    /// Runs one statement.
    pub(crate) async fn query(
        &self,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        // No repetition on a stale plan: the transaction is aborted by then. The caller repeats it.
        let call = self.session.query(sql, params);
        let result = self.link.within(self.operation, &self.session, call).await;
        if result.is_err() {
            self.session.forget(sql);
        }
        result
    }

    /// Runs a text of several statements without parameters.
    pub(crate) async fn script(&self, text: &str) -> Result<(), StoreError> {
        let call = self.session.client.batch_execute(text);
        self.link.within(self.operation, &self.session, call).await
    }

    /// Commits the transaction. An error leaves the outcome unknown.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        self.end("COMMIT").await
    }

    /// Rolls the transaction back.
    pub(crate) async fn rollback(self) -> Result<(), StoreError> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, statement: &'static str) -> Result<(), StoreError> {
        let call = self.session.client.batch_execute(statement);
        let result = self.link.within(self.operation, &self.session, call).await;
        self.open = result.is_err();
        result
    }
}

impl Drop for PgTransaction<'_> {
    fn drop(&mut self) {
        if self.open {
            self.session.cut();
        }
    }
}

fn count_call<T>(operation: &'static str, result: &Result<T, StoreError>) {
    let outcome = match result {
        Ok(_) => "ok",
        Err(StoreError::Transient { .. }) => "transient",
        Err(StoreError::Unavailable { .. }) => "unavailable",
        Err(StoreError::Full { .. }) => "full",
        Err(StoreError::NoKeys { .. }) => "no_keys",
        Err(StoreError::Maintenance { .. }) => "maintenance",
        Err(_) => "failed",
    };
    metrics::counter!("wakeline_store_calls_total", "op" => operation, "outcome" => outcome)
        .increment(1);
}

fn count_connect(outcome: &'static str) {
    metrics::counter!("wakeline_store_connections_total", "outcome" => outcome).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use wakeline_testkit::database::server_url;

    use crate::options::{PostgresOptions, Schema};
    use crate::promptness;

    fn link_to(url: &str) -> PgLink {
        let options = PostgresOptions::new(url);
        PgLink::new(Arc::new(PgConnector::new("url", url, &options, "").expect("a connector")))
    }

    fn sql(text: &str) -> Sql {
        Sql::new(&Schema::new("link-test").expect("valid"), text)
    }

    #[tokio::test]
    async fn a_statement_with_a_stale_plan_is_prepared_again() {
        let link = link_to(&server_url());
        let read = sql("SELECT * FROM stale");
        link.query("test", &sql("CREATE TEMP TABLE stale AS SELECT 1 AS n"), &[])
            .await
            .expect("made");
        let first = link.query("test", &read, &[]).await.expect("read");
        assert_eq!(first[0].get::<_, i32>("n"), 1);
        link.query("test", &sql("ALTER TABLE stale ALTER n TYPE text"), &[])
            .await
            .expect("changed");
        let second = link.query("test", &read, &[]).await.expect("read after the change");
        assert_eq!(second[0].get::<_, &str>("n"), "1");
    }

    #[tokio::test]
    async fn a_transaction_has_its_connection_to_itself() {
        let link = link_to(&server_url());
        let count = sql("SELECT count(*) FROM alone");
        link.query("test", &sql("CREATE TEMP TABLE alone (n int)"), &[]).await.expect("made");
        let transaction = link.begin("test").await.expect("begun");
        transaction.query(&sql("INSERT INTO alone VALUES (1)"), &[]).await.expect("inserted");
        let mut other = Box::pin(link.query("test", &count, &[]));
        assert!(futures_util::poll!(&mut other).is_pending());
        transaction.rollback().await.expect("rolled back");
        assert_eq!(other.await.expect("read")[0].get::<_, i64>(0), 0);
    }

    #[tokio::test]
    async fn a_dropped_transaction_closes_its_connection() {
        let link = link_to(&server_url());
        let pid = sql("SELECT pg_backend_pid()");
        let backend = async |link: &PgLink| -> i32 {
            link.query("test", &pid, &[]).await.expect("read")[0].get(0)
        };
        let before = backend(&link).await;
        drop(link.begin("test").await.expect("begun"));
        assert_ne!(backend(&link).await, before);
    }

    #[tokio::test]
    async fn callers_that_wait_for_the_same_attempt_share_its_failure() {
        // A port without a listener.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let link = link_to(&format!("postgres://user@{address}/none"));
        let one = sql("SELECT 1");
        let calls = (0..20).map(|_| link.query("test", &one, &[]));
        for result in futures_util::future::join_all(calls).await {
            assert!(matches!(result, Err(StoreError::Unavailable { .. })), "{result:?}");
        }
        assert_eq!(link.attempts.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_slow_statement_that_the_server_executes_is_waited_for() {
        let link = link_to(&server_url());
        let slow = sql("SELECT 1 FROM pg_sleep(2)");
        let rows = link.query_promptly("test", &slow, &[]).await.expect("answered the first time");
        assert_eq!(rows.len(), 1);
        let span = link.promptness.span("test", Duration::from_secs(12));
        assert_eq!(span, promptness::SPAN_MIN, "it is known to be alive");
    }

    /// Forwards connections. While `mute` is set, the bytes that the first connection sends are
    /// dropped.
    async fn forward(listener: tokio::net::TcpListener, mute: Arc<AtomicBool>) {
        let mut first = true;
        loop {
            let (mut inner, _) = listener.accept().await.expect("accepts");
            let config: tokio_postgres::Config = server_url().parse().expect("a URL");
            let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else {
                panic!("the tests' PostgreSQL is reached by TCP");
            };
            let upstream = (host.clone(), config.get_ports()[0]);
            let mut outer = TcpStream::connect(upstream).await.expect("PostgreSQL answers");
            let mute = std::mem::take(&mut first).then(|| mute.clone());
            tokio::spawn(async move {
                let Some(mute) = mute else {
                    let _ = tokio::io::copy_bidirectional(&mut inner, &mut outer).await;
                    return;
                };
                let ((mut from, mut answers), (mut back, mut to)) = (inner.split(), outer.split());
                let send = async {
                    let mut buffer = [0; 4096];
                    while let Ok(len @ 1..) = from.read(&mut buffer).await {
                        if !mute.load(Ordering::SeqCst) {
                            to.write_all(&buffer[..len]).await.expect("sent");
                        }
                    }
                };
                tokio::join!(send, tokio::io::copy(&mut back, &mut answers)).1.ok();
            });
        }
    }

    #[tokio::test]
    async fn a_statement_that_the_server_does_not_execute_fails_before_its_deadline() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let mute = Arc::new(AtomicBool::new(false));
        let forwarding = tokio::spawn(forward(listener, mute.clone()));
        let (before, rest) = server_url()
            .split_once('@')
            .map(|(user, host)| (user.to_owned(), host.to_owned()))
            .expect("a user");
        let (_, database) = rest.split_once('/').expect("a database");
        let url = format!("{before}@{address}/{database}");
        let statement_timeout = Duration::from_secs(3_600);
        let options = PostgresOptions { statement_timeout, ..PostgresOptions::new(&url) };
        let link = PgLink::new(Arc::new(PgConnector::new("url", &url, &options, "").expect("one")));
        let one = sql("SELECT 1");
        link.query("test", &one, &[]).await.expect("read");
        mute.store(true, Ordering::SeqCst);
        let lost = tokio::time::timeout(Duration::from_secs(60), async {
            link.query_once("test", &one, &[]).await
        });
        let lost = lost.await.expect("it does not wait for its deadline");
        assert!(matches!(lost, Err(StoreError::Transient { .. })), "{lost:?}");
        forwarding.abort();
    }
}
