//! The participants of the hook benchmark: servers, the receiver and applications with endpoints.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::sink::payload;
use crate::client::{BenchConnection, get, post};
use crate::node::{BenchStore, Node};
use crate::setup::Setup;

/// How long to wait for deliveries in flight.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// A webhook server on one store, which can be started and stopped repeatedly.
pub(crate) struct WebhookServer {
    /// The store of the server.
    pub(crate) store: BenchStore,
    server: std::path::PathBuf,
    key_file: String,
}

impl WebhookServer {
    /// Creates a server with a new encryption key.
    pub(crate) fn create(setup: &Setup, store: BenchStore, name: &str) -> Result<Self> {
        let made = Command::new(&setup.server).arg("encryption-key").output()?;
        ensure!(made.status.success(), "no encryption key was created");
        let path = setup.file(&format!("{name}.key"));
        std::fs::write(&path, made.stdout)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let key_file = format!("--encryption-key-file={}", path.display());
        Ok(Self { store, server: setup.server.clone(), key_file })
    }

    /// Starts the server, which may call receivers on this machine.
    pub(crate) fn start(&self, more: &[&str]) -> Result<Node> {
        let flags = [more, &["--hook-allow=127.0.0.0/8", &self.key_file]].concat();
        Node::serve(&self.server, &self.store, &flags)
    }
}

/// Creates an application with these endpoints.
pub(crate) async fn subscribe(node: &Node, uid: &str, urls: &[String]) -> Result<()> {
    let mut connection = BenchConnection::open(node.address()).await?;
    let body = format!(r#"{{"name":"{uid}","uid":"{uid}"}}"#);
    connection.call(&post("/api/v1/app", &body)).await?.expect(201)?;
    for url in urls {
        let request =
            post(&format!("/api/v1/app/{uid}/endpoint"), &format!(r#"{{"url":"{url}"}}"#));
        connection.call(&request).await?.expect(201)?;
    }
    Ok(())
}

/// Returns the bytes of a request that creates a message.
pub(crate) fn create_message_request(uid: &str) -> Vec<u8> {
    let body = format!(r#"{{"eventType":"order.paid","payload":{}}}"#, payload());
    post(&format!("/api/v1/app/{uid}/msg"), &body)
}

/// A client of the receiver.
pub(crate) struct Sink {
    address: SocketAddr,
    connection: BenchConnection,
    /// The process of the receiver, if this client started it.
    _node: Option<Node>,
}

impl Sink {
    /// Starts the receiver.
    pub(crate) async fn start() -> Result<Self> {
        let node = Node::sink()?;
        let (address, connection) = (node.address(), BenchConnection::open(node.address()).await?);
        Ok(Self { address, connection, _node: Some(node) })
    }

    /// Creates another client of the same receiver.
    pub(crate) async fn join(&self) -> Result<Self> {
        let connection = BenchConnection::open(self.address).await?;
        Ok(Self { address: self.address, connection, _node: None })
    }

    /// The address of the receiver.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL of the receiver.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address())
    }

    /// URLs of fast endpoints of one kind.
    pub(crate) fn urls(&self, kind: &str, count: usize) -> Vec<String> {
        (0..count).map(|n| self.url(&format!("fast/{kind}/{n}"))).collect()
    }

    /// Returns the number of requests that were received.
    pub(crate) async fn count(&mut self) -> Result<u64> {
        let answer = self.connection.call(&get("/count")).await?;
        Ok(std::str::from_utf8(answer.expect(200)?)?.parse()?)
    }

    /// Waits until this many requests were received.
    pub(crate) async fn until(&mut self, count: u64) -> Result<()> {
        let began = Instant::now();
        while self.count().await? < count {
            if began.elapsed() > DELIVERY_TIMEOUT {
                bail!("deliveries are missing");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Returns the latencies of deliveries of a kind, in microseconds and sorted, and removes them.
    pub(crate) async fn take(&mut self, kind: &str) -> Result<Vec<u64>> {
        let answer = self.connection.call(&get(&format!("/take/{kind}"))).await?;
        serde_json::from_slice(answer.expect(200)?).context("no latencies")
    }
}
