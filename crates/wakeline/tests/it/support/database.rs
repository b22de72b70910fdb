//! Databases of their own, for tests that count statements, and a proxy that can cut connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_postgres::Client as Session;
use wakeline::{LongPollConfig, PostgresOptions, PostgresProvider};

use super::{connect, in_a_thread, shared_url};

/// A database of its own, dropped at the end.
pub(crate) struct Database {
    name: String,
    base: String,
}

impl Database {
    pub(crate) async fn create() -> Self {
        let url = shared_url();
        let (base, _) = url.rsplit_once('/').expect("a database in the URL");
        let name = format!("wl_{}", uuid::Uuid::new_v4().simple());
        let database = Self { name, base: base.to_owned() };
        let create = format!("CREATE DATABASE {}", database.name);
        connect(&url).await.batch_execute(&create).await.expect("a database");
        database
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.base, self.name)
    }

    /// The same database, reached through a proxy.
    pub(crate) fn url_through(&self, proxy: &Proxy) -> String {
        let (user, _) = self.base.rsplit_once('@').expect("a user in the URL");
        format!("{user}@{}/{}", proxy.address, self.name)
    }

    pub(crate) async fn proxy(&self) -> Proxy {
        let (_, host) = self.base.rsplit_once('@').expect("a user in the URL");
        Proxy::start(host.to_owned()).await
    }

    /// Settings of a node, with few connections.
    pub(crate) fn options(&self) -> PostgresOptions {
        let pool_max = PostgresOptions::POOL_MIN;
        PostgresOptions { pool_max, ..PostgresOptions::new(self.url()) }
    }

    /// A node of its own.
    pub(crate) async fn node(&self, long_poll: LongPollConfig) -> PostgresProvider {
        PostgresProvider::connect(self.options(), long_poll).await.expect("connected")
    }

    /// A session of a user's own.
    pub(crate) async fn session(&self) -> Session {
        connect(&self.url()).await
    }

    /// Statements run in this database since the last time, with their calls.
    pub(crate) async fn statements(&self) -> Vec<(String, i64)> {
        let sql =
            "SELECT query, calls FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
             WHERE d.datname = $1 AND s.toplevel";
        let statistics = self.statistics().await;
        let rows = statistics.query(sql, &[&self.name]).await.expect("counted");
        let reset =
            "SELECT pg_stat_statements_reset(0, oid, 0) FROM pg_database WHERE datname = $1";
        statistics.execute(reset, &[&self.name]).await.expect("reset");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Waits until nothing has been asked of the database for a second; returns all calls of
    /// statements that speak of a word until then.
    pub(crate) async fn silent(&self, word: &str) -> i64 {
        let started = Instant::now();
        let mut calls = 0;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let statements = self.statements().await;
            if statements.is_empty() {
                return calls;
            }
            let spoken = statements.iter().filter(|(sql, _)| sql.contains(word));
            calls += spoken.map(|(_, calls)| calls).sum::<i64>();
            assert!(started.elapsed() < Duration::from_secs(60), "never silent: {statements:#?}");
        }
    }

    /// A connection to another database, so that looking is not counted here.
    async fn statistics(&self) -> Session {
        let client = connect(&shared_url()).await;
        // Several tests may make it at the same moment; one of them succeeds.
        let _ = client.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").await;
        client
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        in_a_thread(format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// Passes connections on to a server until it is cut.
pub(crate) struct Proxy {
    address: SocketAddr,
    open: Arc<watch::Sender<bool>>,
}

impl Proxy {
    async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let open = Arc::new(watch::Sender::new(true));
        let watched = Arc::clone(&open);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *watched.borrow() {
                    tokio::spawn(pass(client, server.clone(), watched.subscribe()));
                }
            }
        });
        Self { address, open }
    }

    /// Ends all connections and refuses new ones.
    pub(crate) fn cut(&self) {
        self.open.send_replace(false);
    }

    /// Lets connections through again.
    pub(crate) fn mend(&self) {
        self.open.send_replace(true);
    }
}

async fn pass(mut client: TcpStream, server: String, mut open: watch::Receiver<bool>) {
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        _ = open.wait_for(|open| !open) => {}
    }
}
