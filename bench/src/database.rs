//! A separate database for each run, on an existing PostgreSQL.
//!
//! # Invariants
//! * Everything that a benchmark does on PostgreSQL happens in this database or in scratch
//!   databases with the same prefix, so that statements are counted separately, and nothing is left
//!   behind.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio_postgres::{Client, Connection, NoTls, Socket, tls::NoTlsStream};
use uuid::Uuid;

use crate::cpu;

/// Counts statements by kind, since the statistics were reset. The pings of health checks are not
/// counted.
const STATEMENTS: &str = "
    SELECT coalesce(sum(calls), 0)::bigint AS total,
        coalesce(sum(calls) FILTER (WHERE query ~ '\\mclaim\\('), 0)::bigint AS claims,
        coalesce(sum(rows) FILTER (WHERE query ~ '\\mpg_notify\\('), 0)::bigint AS notifies
    FROM pg_stat_statements
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = $1) AND toplevel
        AND query !~ '^(--.*\\n)*SELECT (\\$)?1$'";

/// The database of a run.
pub(crate) struct Database {
    admin: Client,
    name: String,
    url: String,
    /// The main process of PostgreSQL, if it runs on this machine.
    pub(crate) postmaster: Option<u32>,
    /// The version of PostgreSQL.
    pub(crate) version: String,
    /// The current date of PostgreSQL.
    pub(crate) date: String,
}

/// A scratch database, which is separate from the database of the run.
#[derive(Debug, Clone)]
pub(crate) struct ScratchDatabase {
    pub(crate) name: String,
    pub(crate) url: String,
}

/// Numbers of statements that were run in a database.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Statements {
    /// All statements.
    pub(crate) total: i64,
    /// Statements that claim messages.
    pub(crate) claims: i64,
    /// Notifications that were sent to other nodes.
    pub(crate) notifies: i64,
}

impl Statements {
    /// The difference from an earlier count.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            total: self.total - earlier.total,
            claims: self.claims - earlier.claims,
            notifies: self.notifies - earlier.notifies,
        }
    }
}

impl Database {
    /// Creates the database of a run.
    pub(crate) async fn create(url: &str) -> Result<Self> {
        let (admin, connection) = open(url).await?;
        tokio::spawn(connection);
        let statements = "CREATE EXTENSION IF NOT EXISTS pg_stat_statements";
        admin.batch_execute(statements).await.context("statements cannot be counted")?;
        let name = format!("wakeline_bench_{}", Uuid::now_v7().simple());
        admin
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await
            .context("cannot create a database for the run")?;
        let facts = "SELECT pg_backend_pid(), current_setting('server_version'), now()::date::text";
        let facts = admin.query_one(facts, &[]).await?;
        let backend: i32 = facts.get(0);
        Ok(Self {
            postmaster: u32::try_from(backend).ok().and_then(cpu::postmaster_of),
            version: facts.get(1),
            date: facts.get(2),
            url: with_database(url, &name).context("the URL of PostgreSQL names no host")?,
            admin,
            name,
        })
    }

    /// The URL of the database.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Opens a connection to the database.
    pub(crate) async fn connect(&self) -> Result<Client> {
        let (client, connection) = open(&self.url).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Opens a connection whose messages the caller reads.
    pub(crate) async fn connect_raw(&self) -> Result<(Client, Connection<Socket, NoTlsStream>)> {
        open(&self.url).await
    }

    /// Returns the numbers of statements in the database until now.
    pub(crate) async fn statements(&self) -> Result<Statements> {
        self.statements_in(&self.name).await
    }

    /// Returns the numbers of statements in a scratch database until now.
    pub(crate) async fn statements_in(&self, name: &str) -> Result<Statements> {
        let row = self.admin.query_one(STATEMENTS, &[&name]).await;
        let row = row.context("statements cannot be counted: is pg_stat_statements loaded?")?;
        Ok(Statements {
            total: row.get("total"),
            claims: row.get("claims"),
            notifies: row.get("notifies"),
        })
    }

    /// Creates a scratch database, whose statements are counted separately. It is a copy of
    /// `template` if that is given. It is removed with the database of the run, or before.
    pub(crate) async fn create_scratch(
        &self,
        suffix: &str,
        template: Option<&str>,
    ) -> Result<ScratchDatabase> {
        let name = format!("{}_{suffix}", self.name);
        let template = template.map_or_else(String::new, |name| format!(" TEMPLATE {name}"));
        let create = format!("CREATE DATABASE {name}{template}");
        self.admin.batch_execute(&create).await.context("cannot create another database")?;
        let url = with_database(&self.url, &name).context("the URL of PostgreSQL names no host")?;
        Ok(ScratchDatabase { name, url })
    }

    /// Removes a scratch database, and closes its connections.
    pub(crate) async fn remove_scratch(&self, name: &str) -> Result<()> {
        let drop = format!("DROP DATABASE {name} WITH (FORCE)");
        self.admin.batch_execute(&drop).await.context("cannot remove a database")
    }

    /// Returns the number of transactions that closed connections have committed.
    pub(crate) async fn commits(&self) -> Result<i64> {
        let count = "SELECT xact_commit FROM pg_stat_database WHERE datname = $1";
        Ok(self.admin.query_one(count, &[&self.name]).await?.get(0))
    }

    /// Waits until no connections to the database are open. A connection reports its statistics
    /// before it closes.
    pub(crate) async fn wait_until_unused(&self) -> Result<()> {
        self.wait_until_scratch_unused(&self.name).await
    }

    /// Waits until no connections to a scratch database are open.
    pub(crate) async fn wait_until_scratch_unused(&self, name: &str) -> Result<()> {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1";
        for _ in 0..500 {
            let connected: i64 = self.admin.query_one(count, &[&name]).await?.get(0);
            if connected == 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("connections to the database {name} stay open")
    }

    /// Removes the database and all scratch databases, and closes their connections.
    pub(crate) async fn remove(self) -> Result<()> {
        let scratches = "SELECT datname::text FROM pg_database WHERE starts_with(datname, $1)";
        for scratch in self.admin.query(scratches, &[&format!("{}_", self.name)]).await? {
            self.remove_scratch(scratch.get(0)).await?;
        }
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        self.admin.batch_execute(&drop).await.context("cannot remove the run's database")
    }
}

async fn open(url: &str) -> Result<(Client, Connection<Socket, NoTlsStream>)> {
    tokio_postgres::connect(url, NoTls).await.context("cannot connect to PostgreSQL")
}

/// Replaces the database in a URL.
fn with_database(url: &str, name: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (address, parameters) = match rest.split_once('?') {
        Some((address, parameters)) => (address, format!("?{parameters}")),
        None => (rest, String::new()),
    };
    let server = address.split_once('/').map_or(address, |(server, _)| server);
    Some(format!("{scheme}://{server}/{name}{parameters}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_a_url_is_replaced() {
        let replaced = |url| with_database(url, "b").expect("a URL");
        assert_eq!(replaced("postgres://u@h:1/a"), "postgres://u@h:1/b");
        assert_eq!(replaced("postgres://u:p@h/a?x=1/2"), "postgres://u:p@h/b?x=1/2");
        assert_eq!(replaced("postgresql://h"), "postgresql://h/b");
        assert_eq!(with_database("host=h dbname=a", "b"), None);
    }
}
