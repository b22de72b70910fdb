//! The options of a PostgreSQL store: how to connect, and how it behaves.

use std::time::Duration;

use sha2::{Digest, Sha256};
use wakeline_store::StoreError;

use crate::function_sets::{self, FunctionSet};

/// How other nodes are notified of what this one committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NotifyMode {
    /// By a separate NOTIFY after the commit, while other nodes listen. It costs writers nothing.
    #[default]
    AfterCommit,
    /// As `AfterCommit`, and by triggers for rows that sessions other than nodes write. Those
    /// notifications are part of the sessions' commits, which then cannot share an fsync with other
    /// commits that notify.
    Trigger,
    /// No notifications: other nodes notice changes by their sweeps and polls.
    Off,
}

/// Whether statements are prepared under a name, once per connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PreparedStatements {
    /// Prepared if connections lead to PostgreSQL itself, not behind a pooler.
    #[default]
    Auto,
    /// Always prepared: for a pooler that gives each client its own connection, or that supports
    /// prepared statements.
    On,
    /// Never prepared, and each transaction begins with the session settings.
    Off,
}

/// The time limits and intervals of the store. The defaults suit production; tests shorten them.
#[derive(Debug, Clone)]
pub struct Timings {
    /// The time limit for opening a connection.
    pub connect: Duration,
    /// The first pause before the listener reconnects; it doubles up to `reconnect_max`.
    pub reconnect_min: Duration,
    /// The longest pause before the listener reconnects, and before hints are sent again.
    pub reconnect_max: Duration,
    /// The pause before the listener tries again after LISTEN was found not to work.
    pub listen_again: Duration,
    /// Hints that follow each other faster than this are sent together.
    pub coalesce: Duration,
    /// How often the listener checks, without a statement, that its server still answers.
    pub listener_check: Duration,
    /// The time limit for that check (at most two seconds), and for the echo when the listener
    /// joins.
    pub listener_patience: Duration,
    /// How often rows of dead nodes are searched for while other nodes are known.
    pub reap: Duration,
    /// The smallest step of the database's clock that is noticed. Smaller steps cannot be
    /// distinguished from slow answers and slewed clocks.
    pub clock_step: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            reconnect_min: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(1),
            listen_again: Duration::from_secs(10),
            coalesce: Duration::from_millis(5),
            listener_check: Duration::from_secs(2),
            listener_patience: Duration::from_secs(5),
            reap: Duration::from_secs(60),
            clock_step: Duration::from_secs(10),
        }
    }
}

/// The options of a PostgreSQL store.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// `postgres://user@host/database`, or a list of `key=value`.
    pub url: String,
    /// Where to LISTEN, if `url` leads through a transaction pooler.
    pub listen_url: Option<String>,
    /// The schema of all objects. Different schemas are independent stores.
    pub schema: String,
    /// The maximum number of connections without the LISTEN connection; at least
    /// [`Self::POOL_MIN`].
    pub pool_max: usize,
    /// The time limit of a statement, enforced by the server.
    pub statement_timeout: Duration,
    /// How other nodes are notified of what this one committed.
    pub notify: NotifyMode,
    /// Whether statements are prepared under a name.
    pub prepared_statements: PreparedStatements,
    /// Whether to bring the schema up to date when connecting.
    pub migrate: bool,
    /// Gives a new schema a clock that tests can advance. Refused for a schema with a real clock.
    pub test_clock: bool,
    /// Makes this program act as another release, with a function set of its own, in tests.
    #[doc(hidden)]
    pub test_release: Option<i32>,
    /// Time limits and intervals.
    pub timings: Timings,
}

impl PostgresOptions {
    /// The minimum number of connections: one each for push, claim, settle and notify, and one for
    /// the rest.
    pub const POOL_MIN: usize = 5;

    /// The default options for a database URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            listen_url: None,
            schema: "wakeline".to_owned(),
            pool_max: 10,
            statement_timeout: Duration::from_secs(10),
            notify: NotifyMode::default(),
            prepared_statements: PreparedStatements::default(),
            migrate: true,
            test_clock: false,
            test_release: None,
            timings: Timings::default(),
        }
    }
}

/// The main schema, and the location of the functions that this node calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schema {
    name: String,
    /// `None` until they are installed.
    functions: Option<FunctionSet>,
}

impl Schema {
    /// Accepts ASCII letters, digits, `_` and `-`, so that quoting the name is always safe.
    pub(crate) fn new(name: &str) -> Result<Self, StoreError> {
        let refuse = |reason: &str| {
            Err(StoreError::Invalid { field: "schema", reason: format!("{name:?} {reason}") })
        };
        if name.is_empty() || name.len() > 63 {
            return refuse("must have 1 to 63 bytes");
        }
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
            return refuse("may only contain ASCII letters, digits, _ and -");
        }
        if name.to_ascii_lowercase().starts_with("pg_") || name == "information_schema" {
            return refuse("is reserved by PostgreSQL");
        }
        Ok(Self { name: name.to_owned(), functions: None })
    }

    /// Returns the schema with the location of its functions.
    pub(crate) fn with_functions(&self, functions: FunctionSet) -> Self {
        Self { functions: Some(functions), ..self.clone() }
    }

    /// The qualified SQL name of a function of this node's set.
    pub(crate) fn function(&self, name: &str) -> Option<String> {
        let functions = self.functions.as_ref()?;
        function_sets::is_in_set(name).then(|| functions.function(&self.name, name))
    }

    /// The unquoted name, for parameters and catalog queries.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The name as an SQL identifier.
    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\"", self.name)
    }

    /// The channel of the store's hints. It has a fixed length, because a channel name over 63
    /// bytes is an error. Channels belong to one database, so the schema alone distinguishes
    /// stores.
    pub(crate) fn channel(&self) -> String {
        let digest = Sha256::digest(self.name.as_bytes());
        let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("wakeline_{hash}")
    }

    /// The key of the advisory lock under which the schema is migrated.
    pub(crate) fn migration_lock(&self) -> i64 {
        self.lock_key("migrate")
    }

    /// The key of the advisory lock that nodes which need triggers share.
    pub(crate) fn triggers_lock(&self) -> i64 {
        self.lock_key("triggers")
    }

    /// The key of the advisory lock under which incoming rows are taken over.
    pub(crate) fn incoming_lock(&self) -> i64 {
        self.lock_key("incoming")
    }

    fn lock_key(&self, purpose: &str) -> i64 {
        let digest = Sha256::digest(format!("wakeline {purpose} {}", self.name).as_bytes());
        i64::from_be_bytes(digest[..8].try_into().expect("a digest has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_names_cannot_escape_their_quotes() {
        for name in ["wakeline", "Team-7_x", "_a", &"s".repeat(63)] {
            assert_eq!(Schema::new(name).expect("valid").quoted(), format!("\"{name}\""));
        }
        for name in ["", "a\"b", "a'b", "a b", "a.b", "ä", "pg_x", "PG_X", "a$b", &"s".repeat(64)]
        {
            assert!(Schema::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn channel_names_fit_for_every_schema_name() {
        let long = Schema::new(&"s".repeat(63)).expect("valid");
        assert!(long.channel().len() <= 63);
        assert_ne!(long.channel(), Schema::new("s").expect("valid").channel());
    }
}
