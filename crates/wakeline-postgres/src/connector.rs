//! Opens connections: where to, how encrypted, and with which timeouts.
//!
//! # Invariants
//! * Every connection has keepalives and a user timeout, so that a dead peer is noticed.
//! * A commit that was answered is on disk, whatever the default of the database or the role says.
//! * Errors and [`Connector::location`] never show a password.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use wakeline_store::StoreError;

use crate::breaker::Breaker;
use crate::error;
use crate::options::PostgresOptions;
use crate::tls::{self, Target};

/// Strengthens a default that would answer commits before they are on disk, or on the synchronous
/// standbys if there are any. A stronger one (`remote_apply`) stays. It is set in any case, so that
/// a default that is weakened later does not reach this session.
const DURABLE_COMMIT: &str = "SELECT set_config('synchronous_commit', \
    CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' \
    ELSE 'on' END, false)";

/// A connection whose peer acknowledges nothing for so long is lost. The pauses between the
/// system's own repetitions double, so that a longer one would go on for as long again after the
/// network is back.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(3);

/// A connection whose messages somebody has to read.
pub(crate) type Wire = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Opens connections.
pub(crate) struct Connector {
    target: Target,
    connect_timeout: Duration,
    statement_timeout: Duration,
    /// Statements that set a new session up.
    session: String,
    /// Whether the database is known to be away.
    breaker: Breaker,
    /// Sessions that were lost.
    losses: AtomicU64,
}

impl Connector {
    /// Reads a URL; `node` marks what its sessions notify, so that a node knows its own hints.
    pub(crate) fn new(
        field: &'static str,
        url: &str,
        options: &PostgresOptions,
        node: &str,
    ) -> Result<Self, StoreError> {
        let mut target = tls::target(field, url)?;
        let config = &mut target.config;
        if config.get_application_name().is_none() {
            config.application_name("wakeline");
        }
        config
            .connect_timeout(options.timings.connect)
            .keepalives(true)
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .tcp_user_timeout(UNACKNOWLEDGED_MAX);
        let session = format!(
            "SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
             SET wakeline.node = '{node}'; SET client_min_messages = warning; {DURABLE_COMMIT}",
            options.statement_timeout.as_millis().max(1),
            options.statement_timeout.as_millis().max(1) * 2,
        );
        Ok(Self {
            target,
            connect_timeout: options.timings.connect,
            statement_timeout: options.statement_timeout,
            session,
            breaker: Breaker::default(),
            losses: AtomicU64::new(0),
        })
    }

    /// Adds statements to what sets a session up.
    pub(crate) fn with_session(mut self, statements: &str) -> Self {
        self.session = format!("{}; {statements}", self.session);
        self
    }

    /// Host, port and database, without secrets.
    pub(crate) fn location(&self) -> String {
        let config = &self.target.config;
        let hosts: Vec<String> = config
            .get_hosts()
            .iter()
            .enumerate()
            .map(|(index, host)| {
                let port = config.get_ports().get(index).or(config.get_ports().first());
                let port = port.copied().unwrap_or(5432);
                match host {
                    Host::Tcp(name) => format!("{name}:{port}"),
                    #[cfg(unix)]
                    Host::Unix(path) => format!("{}:{port}", path.display()),
                }
            })
            .collect();
        format!("postgres://{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
    }

    /// Opens a connection whose messages the caller reads; its session is not set up yet.
    pub(crate) async fn open_wire(
        &self,
        operation: &'static str,
    ) -> Result<(Client, Wire), StoreError> {
        // The driver's own timeout does not cover TLS and authentication.
        let opening = self.target.config.connect(self.target.tls.clone());
        match timeout(self.connect_timeout, opening).await {
            Ok(Ok(pair)) => Ok(pair),
            Ok(Err(error)) => Err(error::connect_failed(operation, error)),
            Err(_) => Err(error::connect_failed(operation, "no connection within the deadline")),
        }
    }

    /// Whether the database is known to be away.
    pub(crate) fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// How many sessions were lost. After a loss the others are checked before they are used.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// A session was lost.
    pub(crate) fn count_loss(&self) {
        self.losses.fetch_add(1, Ordering::Release);
    }

    /// The statements that set a session up.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// How long opening may take.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// How long a caller waits for an answer: longer than the server gives the statement.
    pub(crate) fn deadline(&self) -> Duration {
        self.statement_timeout + Duration::from_secs(2)
    }
}
