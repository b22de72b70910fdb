//! Databases for tests, on the PostgreSQL that `cargo xtask test` starts.
//!
//! # Where it sits
//! Tests of the PostgreSQL store, and tests of whatever runs on it, create a [`TestDatabase`] each.
//! Migrating a schema takes most of a second; copying a migrated database takes a fraction of that.
//! So the first test that needs a kind of database migrates a template, and all others copy it.
//!
//! # Invariants
//! * Every test has a database of its own, which is dropped at the end: tests run side by side, and
//!   statements, locks, notifications and statistics of one are not seen by another.
//! * A template is complete as soon as it is visible under its name.
//! * What a test runs connects as [`APP_ROLE`], an ordinary role that owns only what it created in
//!   the test's database. Only this module, and tests that say why, connect as the superuser.

use std::net::SocketAddr;

use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::timings::set_up;

/// Held while a template is made, so that concurrent tests make it once.
const TEMPLATE_LOCK: i64 = 0x7761_6b65_6c69_6e65;

/// The ordinary role of the tests. `cargo xtask test` creates it; it may connect and, in the
/// database of a test, create schemas.
pub const APP_ROLE: &str = "wakeline_app";

/// The PostgreSQL of the tests, as its superuser.
///
/// # Panics
/// If the tests were not started by `cargo xtask test`.
pub fn server_url() -> String {
    std::env::var("WAKELINE_TEST_POSTGRES")
        .expect("run `cargo xtask test`, which starts a PostgreSQL")
}

/// Opens a connection.
///
/// # Panics
/// If the server does not answer.
pub async fn connect(url: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.expect("the tests' PostgreSQL answers");
    tokio::spawn(connection);
    client
}

/// The database of one test, which is dropped at its end.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
}

impl TestDatabase {
    /// Creates an empty database.
    pub async fn empty() -> Self {
        set_up(async { Self::create(&connect(&server_url()).await, "template1").await }).await
    }

    /// Creates a copy of a template. The first test that needs the template creates it: `migrate`
    /// gets the URL of an empty database and must have closed its connections when it returns.
    pub async fn copy_of(template: &str, migrate: impl AsyncFnOnce(String)) -> Self {
        set_up(async {
            let server = connect(&server_url()).await;
            if !exists(&server, template).await {
                make_template(&server, template, migrate).await;
            }
            Self::create(&server, template).await
        })
        .await
    }

    async fn create(server: &Client, template: &str) -> Self {
        let name = format!("wl_{}", Uuid::new_v4().simple());
        // Copying files bypasses the write-ahead log of the server. This takes a fraction of the
        // time in memory, where `cargo xtask test` puts the files if it can.
        let create = format!("CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY");
        execute(server, &create).await;
        execute(server, &grant_create_privilege(&name)).await;
        Self { name }
    }

    /// The name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL of the database, with the role [`APP_ROLE`].
    pub fn url(&self) -> String {
        app_url_of(&self.name)
    }

    /// The same database, reached through another address.
    ///
    /// # Panics
    /// If the server's URL names no user.
    pub fn url_through(&self, address: SocketAddr) -> String {
        let url = self.url();
        let (scheme_and_user, _) = url.rsplit_once('@').expect("a user in the URL");
        format!("{scheme_and_user}@{address}/{}", self.name)
    }

    /// Host and port of the server.
    ///
    /// # Panics
    /// If the server's URL names no user.
    pub fn address(&self) -> String {
        let url = server_url();
        let (_, rest) = url.rsplit_once('@').expect("a user in the URL");
        rest.split('/').next().expect("a host").to_owned()
    }

    /// Opens a connection to the database, as [`APP_ROLE`].
    pub async fn client(&self) -> Client {
        connect(&self.url()).await
    }

    /// Opens a connection to the database as the superuser, for what no other role may do: creating
    /// roles, changing settings of the database, reading rows of other roles in catalog tables.
    pub async fn superuser(&self) -> Client {
        connect(&url_of(&self.name)).await
    }

    /// Resets the statistics of statements.
    pub async fn reset_statements(&self) {
        let sql = "SELECT pg_stat_statements_reset(0, oid, 0) FROM pg_database WHERE datname = $1";
        self.statistics().await.execute(sql, &[&self.name]).await.expect("reset");
    }

    /// Returns the statements that were run in this database since the last reset, with their
    /// numbers of calls.
    pub async fn statements(&self) -> Vec<(String, i64)> {
        let sql =
            "SELECT query, calls FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
             WHERE d.datname = $1 AND s.toplevel";
        let rows = self.statistics().await.query(sql, &[&self.name]).await.expect("counted");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Counts the calls of statements that contain a word.
    pub async fn calls(&self, word: &str) -> i64 {
        self.buffers(word).await.0
    }

    /// Counts the calls of statements that contain a word, and the buffers that they accessed.
    pub async fn buffers(&self, word: &str) -> (i64, i64) {
        let sql = "SELECT coalesce(sum(calls), 0)::bigint,
                coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint
            FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
            WHERE d.datname = $1 AND s.toplevel AND s.query LIKE '%' || $2 || '%'";
        let row = self.statistics().await.query_one(sql, &[&self.name, &word]).await;
        let row = row.expect("counted");
        (row.get(0), row.get(1))
    }

    /// Opens a connection to another database, so that reading statistics is not counted here.
    async fn statistics(&self) -> Client {
        connect(&server_url()).await
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // This needs its own thread: drop cannot await, and the test's runtime may be shutting
        // down.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(set_up(async {
                execute(&connect(&server_url()).await, &sql).await;
            }));
        });
        let dropped = dropping.join();
        if !std::thread::panicking() {
            dropped.expect("the database can be dropped");
        }
    }
}

fn url_of(database: &str) -> String {
    let url = server_url();
    let (server, _) = url.rsplit_once('/').expect("a database in the URL");
    format!("{server}/{database}")
}

fn app_url_of(database: &str) -> String {
    let url = url_of(database);
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (_, place) = rest.rsplit_once('@').expect("a user in the URL");
    format!("{scheme}://{APP_ROLE}@{place}")
}

fn grant_create_privilege(database: &str) -> String {
    format!("GRANT CREATE ON DATABASE {database} TO {APP_ROLE}")
}

async fn exists(server: &Client, database: &str) -> bool {
    let sql = "SELECT FROM pg_database WHERE datname = $1";
    server.query_opt(sql, &[&database]).await.expect("read").is_some()
}

async fn make_template(server: &Client, template: &str, migrate: impl AsyncFnOnce(String)) {
    server.execute("SELECT pg_advisory_lock($1)", &[&TEMPLATE_LOCK]).await.expect("locked");
    if !exists(server, template).await {
        // The template is renamed once it is complete. A test that was killed may have left an
        // unfinished one behind.
        let unfinished = format!("{template}_unfinished");
        execute(server, &format!("DROP DATABASE IF EXISTS {unfinished} WITH (FORCE)")).await;
        execute(server, &format!("CREATE DATABASE {unfinished}")).await;
        execute(server, &grant_create_privilege(&unfinished)).await;
        migrate(app_url_of(&unfinished)).await;
        execute(server, &format!("ALTER DATABASE {unfinished} RENAME TO {template}")).await;
    }
    server.execute("SELECT pg_advisory_unlock($1)", &[&TEMPLATE_LOCK]).await.expect("unlocked");
}

async fn execute(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}
