//! Who takes part in the hook benchmark: servers, the receiver, applications with endpoints.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::sink::payload;
use crate::client::{Connection, get, post};
use crate::node::{Node, StoreAt};
use crate::setup::Setup;

/// How long to wait for deliveries that are under way.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of webhooks on one store, to be started and stopped at will.
pub(crate) struct Place {
    /// Where it keeps everything.
    pub(crate) store: StoreAt,
    server: std::path::PathBuf,
    key_file: String,
}

impl Place {
    /// A place with a key of its own.
    pub(crate) fn make(setup: &Setup, store: StoreAt, name: &str) -> Result<Self> {
        let made = Command::new(&setup.server).arg("encryption-key").output()?;
        ensure!(made.status.success(), "no key was made");
        let path = setup.file(&format!("{name}.key"));
        std::fs::write(&path, made.stdout)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let key_file = format!("--encryption-key-file={}", path.display());
        Ok(Self { store, server: setup.server.clone(), key_file })
    }

    /// Starts a server that may call this machine.
    pub(crate) fn start(&self, more: &[&str]) -> Result<Node> {
        let flags = [more, &["--hook-allow=127.0.0.0/8", &self.key_file]].concat();
        Node::serve(&self.server, &self.store, &flags)
    }
}

/// Makes an application whose endpoints are these.
pub(crate) async fn subscribe(node: &Node, uid: &str, urls: &[String]) -> Result<()> {
    let mut connection = Connection::open(node.address()).await?;
    let body = format!(r#"{{"name":"{uid}","uid":"{uid}"}}"#);
    connection.call(&post("/api/v1/app", &body)).await?.expect(201)?;
    for url in urls {
        let request =
            post(&format!("/api/v1/app/{uid}/endpoint"), &format!(r#"{{"url":"{url}"}}"#));
        connection.call(&request).await?.expect(201)?;
    }
    Ok(())
}

/// The bytes of a request that creates a message now.
pub(crate) fn creation(uid: &str) -> Vec<u8> {
    let body = format!(r#"{{"eventType":"order.paid","payload":{}}}"#, payload());
    post(&format!("/api/v1/app/{uid}/msg"), &body)
}

/// The receiver.
pub(crate) struct Sink {
    address: SocketAddr,
    line: Connection,
    /// Its process, for the one who started it.
    _node: Option<Node>,
}

impl Sink {
    /// Starts it.
    pub(crate) async fn start() -> Result<Self> {
        let node = Node::sink()?;
        let (address, line) = (node.address(), Connection::open(node.address()).await?);
        Ok(Self { address, line, _node: Some(node) })
    }

    /// The same receiver, for another one to use.
    pub(crate) async fn join(&self) -> Result<Self> {
        let line = Connection::open(self.address).await?;
        Ok(Self { address: self.address, line, _node: None })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL of it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address())
    }

    /// URLs of some fast endpoints of one kind.
    pub(crate) fn urls(&self, kind: &str, count: usize) -> Vec<String> {
        (0..count).map(|n| self.url(&format!("fast/{kind}/{n}"))).collect()
    }

    /// How many it has received.
    pub(crate) async fn count(&mut self) -> Result<u64> {
        let answer = self.line.call(&get("/count")).await?;
        Ok(std::str::from_utf8(answer.expect(200)?)?.parse()?)
    }

    /// Waits until it has received so many.
    pub(crate) async fn until(&mut self, count: u64) -> Result<()> {
        let began = Instant::now();
        while self.count().await? < count {
            if began.elapsed() > PATIENCE {
                bail!("deliveries are missing");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// How long deliveries of a kind were on their way, in microseconds and in order; they are
    /// forgotten.
    pub(crate) async fn take(&mut self, kind: &str) -> Result<Vec<u64>> {
        let answer = self.line.call(&get(&format!("/take/{kind}"))).await?;
        serde_json::from_slice(answer.expect(200)?).context("no latencies")
    }
}
