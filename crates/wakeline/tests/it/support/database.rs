//! Separate databases for tests that count statements, and a proxy that can cut connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use wakeline::{LongPollConfig, PostgresOptions, PostgresProvider};
use wakeline_testkit::database::TestDatabase;

/// A separate, migrated database.
pub(crate) struct Database(pub(crate) TestDatabase);

impl Database {
    pub(crate) async fn create() -> Self {
        let database = TestDatabase::copy_of("wl_migrated", async |url| {
            wakeline_postgres::migrate_up(&PostgresOptions::new(url)).await.expect("migrated");
        });
        Self(database.await)
    }

    /// Returns the URL of the database through a proxy.
    pub(crate) fn url_through(&self, proxy: &Proxy) -> String {
        self.0.url_through(proxy.address)
    }

    pub(crate) async fn proxy(&self) -> Proxy {
        Proxy::start(self.0.address()).await
    }

    /// The options of a node, with few connections.
    pub(crate) fn options(&self) -> PostgresOptions {
        let pool_max = PostgresOptions::POOL_MIN;
        PostgresOptions { pool_max, ..PostgresOptions::new(self.0.url()) }
    }

    /// Connects another node.
    pub(crate) async fn node(&self, long_poll: LongPollConfig) -> PostgresProvider {
        PostgresProvider::connect(self.options(), long_poll).await.expect("connected")
    }

    /// Returns the statements of this database since the last call, with their numbers of calls.
    pub(crate) async fn statements(&self) -> Vec<(String, i64)> {
        let statements = self.0.statements().await;
        self.0.reset_statements().await;
        statements
    }

    /// Waits until no statement has been sent for a second. Returns the number of calls until then
    /// of statements that contain a word.
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
}

/// Forwards connections to a server until it is cut.
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

    /// Forwards connections again.
    pub(crate) fn restore(&self) {
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
