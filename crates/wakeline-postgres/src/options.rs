//! How to reach a PostgreSQL store, and how it behaves.

use std::time::Duration;

use sha2::{Digest, Sha256};
use wakeline_store::StoreError;

use crate::function_sets::{self, FunctionSet};

/// How other nodes learn of what this one committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NotifyMode {
    /// By a NOTIFY of its own after the commit, while other nodes listen. Costs writers nothing.
    #[default]
    AfterCommit,
    /// The same, and by triggers for what sessions that are not a node's write themselves: for rows
    /// that arrive by other means. Their notifications are part of their commits, which then cannot
    /// share an fsync with other commits that notify.
    Trigger,
    /// Not at all: other nodes notice by their sweeps and polls.
    Off,
}

/// Whether statements are prepared under a name, once per connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PreparedStatements {
    /// If connections lead to PostgreSQL itself. Behind a pooler none are.
    #[default]
    Auto,
    /// Always: for a pooler that gives each client a connection of its own, or that supports
    /// prepared statements.
    On,
    /// Never, and each transaction begins with its settings.
    Off,
}

/// How long the store waits for what. The defaults suit production; tests shorten them.
#[derive(Debug, Clone)]
pub struct Timings {
    /// Longest wait for a connection to open.
    pub connect: Duration,
    /// First wait before the listener connects again; doubles up to `reconnect_max`.
    pub reconnect_min: Duration,
    /// Longest wait before the listener connects again, and before hints are sent again.
    pub reconnect_max: Duration,
    /// How long until the listener tries again where LISTEN cannot work.
    pub listen_again: Duration,
    /// While hints follow each other faster than this, they are sent together.
    pub coalesce: Duration,
    /// How often the listener makes sure, without a statement, that its server is still there.
    pub listener_check: Duration,
    /// How long the listener waits for the answer to that, but at most two seconds, and for its
    /// own echo when it joins.
    pub listener_patience: Duration,
    /// How often rows of dead nodes are looked for while other nodes are known.
    pub reap: Duration,
    /// The least step of the database's clock that is noticed. A smaller one is not told from slow
    /// answers and from clocks that are slewed.
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

/// How to reach a PostgreSQL store, and how it behaves.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// `postgres://user@host/database`, or a list of `key=value`.
    pub url: String,
    /// Where to LISTEN, if `url` leads through a transaction pooler.
    pub listen_url: Option<String>,
    /// The schema that holds everything. Several schemas are several independent stores.
    pub schema: String,
    /// Most connections, the LISTEN connection not counted; at least [`Self::POOL_MIN`].
    pub pool_max: usize,
    /// Longest time that a statement may take; the server ends it then.
    pub statement_timeout: Duration,
    /// How other nodes learn of what this one committed.
    pub notify: NotifyMode,
    /// Whether statements are prepared under a name.
    pub prepared_statements: PreparedStatements,
    /// Whether to bring the schema up to date when connecting.
    pub migrate: bool,
    /// Gives a new schema a clock that tests can advance. Refused for a schema that has a true one.
    pub test_clock: bool,
    /// Makes this program pass for another release, with a function set of its own, in tests.
    #[doc(hidden)]
    pub test_release: Option<i32>,
    /// How long to wait for what.
    pub timings: Timings,
}

impl PostgresOptions {
    /// Fewest connections: one each to push, claim, settle, notify, and for the rest.
    pub const POOL_MIN: usize = 5;

    /// The defaults, for a database.
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

/// The main schema, and where the functions are that this node calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schema {
    name: String,
    /// Known once they are installed.
    functions: Option<FunctionSet>,
}

impl Schema {
    /// Accepts ASCII letters, digits, `_` and `-`, so that no quoting rule can be got wrong.
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

    /// The same, with its functions.
    pub(crate) fn with_functions(&self, functions: FunctionSet) -> Self {
        Self { functions: Some(functions), ..self.clone() }
    }

    /// The SQL name of a function of this node's set.
    pub(crate) fn function(&self, name: &str) -> Option<String> {
        let functions = self.functions.as_ref()?;
        function_sets::is_in_set(name).then(|| functions.function(&self.name, name))
    }

    /// The bare name, for parameters and catalog look-ups.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The name as an SQL identifier.
    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\"", self.name)
    }

    /// The channel of its hints: short whatever the schema's name (trap 19). Channels belong to
    /// one database, so the schema alone tells stores apart.
    pub(crate) fn channel(&self) -> String {
        let digest = Sha256::digest(self.name.as_bytes());
        let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("wakeline_{hash}")
    }

    /// The key of the advisory lock under which the schema is migrated.
    pub(crate) fn migration_lock(&self) -> i64 {
        self.lock_key("migrate")
    }

    /// The key of the advisory lock that nodes which want triggers share.
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
    fn schema_names_cannot_break_out_of_their_quotes() {
        for name in ["wakeline", "Team-7_x", "_a", &"s".repeat(63)] {
            assert_eq!(Schema::new(name).expect("valid").quoted(), format!("\"{name}\""));
        }
        for name in ["", "a\"b", "a'b", "a b", "a.b", "ä", "pg_x", "PG_X", "a$b", &"s".repeat(64)]
        {
            assert!(Schema::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn channels_fit_whatever_the_schema_is_called() {
        let long = Schema::new(&"s".repeat(63)).expect("valid");
        assert!(long.channel().len() <= 63);
        assert_ne!(long.channel(), Schema::new("s").expect("valid").channel());
    }
}
