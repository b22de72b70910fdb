//! Opens connections to the configured servers, with TLS and timeouts.
//!
//! # Invariants
//! * Every connection has keepalives and a user timeout, so that a dead peer is noticed.
//! * A commit that was acknowledged is on disk, whatever the default of the database or the role
//!   is.
//! * A setting never reaches a session that other clients use as well (see
//!   [`PgConnector::set_up`]).
//! * Errors and [`PgConnector::location`] never show a password.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, SimpleQueryMessage, SimpleQueryRow, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use uuid::Uuid;
use wakeline_store::StoreError;

use crate::breaker::ConnectBreaker;
use crate::error;
use crate::options::{NotifyMode, PostgresOptions, PreparedStatements};
use crate::tls::{self, Target};

/// A connection is lost if its peer acknowledges nothing for this long. A longer time would double
/// the outage: the pauses between the system's own retransmissions double, so that the connection
/// could stay silent for as long again after the network is back.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(3);

/// The time limit for asking the server whether it executes a statement.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// A connection whose messages the caller has to read.
pub(crate) type RawConnection =
    Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Opens connections and applies the session settings.
pub(crate) struct PgConnector {
    target: Target,
    connect_timeout: Duration,
    statement_timeout: Duration,
    /// The statements that apply the settings to a session, or to a transaction of a shared one.
    settings: String,
    prepared: PreparedStatements,
    /// The target's configuration, with the mark that shows whether a session is this client's own.
    marked: Config,
    /// A pooler refused the mark, so it is not sent any more.
    mark_refused: AtomicBool,
    /// Whether the session that was set up last is shared with other clients.
    shared: AtomicBool,
    /// Whether the database is known to be unavailable.
    breaker: ConnectBreaker,
    /// The number of sessions that were lost.
    losses: AtomicU64,
}

impl PgConnector {
    /// Parses a URL. Notifications of its sessions carry `node`, so that a node recognises its own
    /// hints.
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
        let mark = Uuid::new_v4().simple().to_string();
        let mut marked = config.clone();
        let given = config.get_options().map(|given| format!("{given} ")).unwrap_or_default();
        marked.options(format!("{given}-c wakeline.session={mark}"));
        let statement_ms = options.statement_timeout.as_millis().max(1);
        // Without the comments, because transactions send the text again and again.
        let settings = include_str!("../sql/queries/session_set_up.sql").lines();
        let settings: Vec<&str> = settings.filter(|line| !line.starts_with("--")).collect();
        let settings = settings
            .join(" ")
            .replace("@statement_ms@", &statement_ms.to_string())
            .replace("@idle_ms@", &(statement_ms * 2).to_string())
            .replace("@node@", node)
            .replace("@hints@", if options.notify == NotifyMode::Off { "" } else { "on" })
            .replace("@mark@", &mark);
        Ok(Self {
            target,
            connect_timeout: options.timings.connect,
            statement_timeout: options.statement_timeout,
            settings,
            prepared: options.prepared_statements,
            marked,
            mark_refused: AtomicBool::new(options.prepared_statements == PreparedStatements::Off),
            shared: AtomicBool::new(false),
            breaker: ConnectBreaker::default(),
            losses: AtomicU64::new(0),
        })
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

    /// Opens a connection whose messages the caller reads, without applying session settings.
    pub(crate) async fn open_wire(
        &self,
        operation: &'static str,
    ) -> Result<(Client, RawConnection), StoreError> {
        // The driver's own timeout does not cover TLS and authentication.
        match timeout(self.connect_timeout, self.connect()).await {
            Ok(Ok(pair)) => Ok(pair),
            Ok(Err(error)) => Err(error::connect_failed(operation, error)),
            Err(_) => Err(error::connect_failed(
                operation,
                "PostgreSQL did not accept the connection within the time limit",
            )),
        }
    }

    async fn connect(&self) -> Result<(Client, RawConnection), tokio_postgres::Error> {
        if !self.mark_refused.load(Ordering::Acquire) {
            match self.marked.connect(self.target.tls.clone()).await {
                Err(error) if error::refuses_options(&error) => {
                    self.mark_refused.store(true, Ordering::Release);
                }
                other => return other,
            }
        }
        self.target.config.connect(self.target.tls.clone()).await
    }

    /// Applies the settings to a new session, if it is this client's own. Returns the id of its
    /// server process, or `None` if the session is shared with other clients: then
    /// [`Self::settings`] have to begin each transaction.
    ///
    /// A session is shared unless it has the mark that this client sent as a startup option. A
    /// pooler opens its sessions itself, and so refuses or ignores the option. Unlike a check of
    /// what survives a transaction, this does not depend on which session the pooler hands out
    /// next.
    pub(crate) async fn set_up(
        &self,
        client: &Client,
    ) -> Result<Option<i32>, tokio_postgres::Error> {
        let answer = client.simple_query(&self.settings).await?;
        let own = first_row(&answer).filter(|row| row.get("shared") == Some("f"));
        let process = own.and_then(|row| row.get("pid")?.parse().ok());
        self.shared.store(process.is_none(), Ordering::Release);
        Ok(process)
    }

    /// Whether the server executes a statement in one of its processes, determined on a separate
    /// connection; `None` if there is no answer soon, or the server does not report it.
    pub(crate) async fn works_on(&self, process: i32) -> Option<bool> {
        let sql = include_str!("../sql/queries/session_works.sql");
        let sql = sql.replace("@pid@", &process.to_string());
        let look = async {
            let (client, wire) = self.connect().await.ok()?;
            let answer = tokio::select! {
                _ = wire => return None,
                answer = client.simple_query(&sql) => answer.ok()?,
            };
            Some(first_row(&answer)?.get("works")? == "t")
        };
        timeout(LOOK_WITHIN, look).await.ok().flatten()
    }

    /// The statements that apply the settings to a transaction of a shared session.
    pub(crate) fn settings(&self) -> &str {
        &self.settings
    }

    /// Whether statements of a session are prepared under a name.
    pub(crate) fn prepares(&self, shared: bool) -> bool {
        match self.prepared {
            PreparedStatements::Auto => !shared,
            PreparedStatements::On => true,
            PreparedStatements::Off => false,
        }
    }

    /// Whether the session that was set up last is shared with other clients.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }

    /// Whether the database is known to be unavailable.
    pub(crate) fn breaker(&self) -> &ConnectBreaker {
        &self.breaker
    }

    /// The number of sessions that were lost. After a loss the others are checked before they are
    /// used.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// Counts the loss of a session.
    pub(crate) fn count_loss(&self) {
        self.losses.fetch_add(1, Ordering::Release);
    }

    /// The time limit for opening a connection.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// The time limit of a call: longer than that of the statement on the server.
    pub(crate) fn deadline(&self) -> Duration {
        self.statement_timeout + Duration::from_secs(2)
    }
}

fn first_row(answer: &[SimpleQueryMessage]) -> Option<&SimpleQueryRow> {
    answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })
}
