//! Server processes: `wakeline serve`, and the bare handler and the receiver of this program.
//!
//! # Invariants
//! * A dropped node is killed, so that no run leaves a server behind.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// The store of a server.
#[derive(Debug, Clone)]
pub(crate) enum BenchStore {
    /// A schema of a PostgreSQL database.
    Postgres { url: String, schema: String },
    /// A SQLite file.
    Sqlite { path: PathBuf },
}

impl BenchStore {
    /// The store's name in tables.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Postgres { .. } => "PostgreSQL",
            Self::Sqlite { .. } => "SQLite",
        }
    }

    /// The flags that name the store.
    pub(crate) fn arguments(&self) -> Vec<String> {
        match self {
            Self::Postgres { url, schema } => {
                vec![format!("--store={url}"), format!("--schema={schema}")]
            }
            Self::Sqlite { path } => vec![format!("--store=sqlite:{}", path.display())],
        }
    }
}

/// A running server.
pub(crate) struct Node {
    child: Child,
    address: SocketAddr,
    /// Standard output stays open, so that the server can print.
    _stdout: BufReader<ChildStdout>,
}

impl Node {
    /// Starts `wakeline serve`.
    pub(crate) fn serve(server: &Path, store: &BenchStore, more: &[&str]) -> Result<Self> {
        let mut command = Command::new(server);
        command.arg("serve").args(store.arguments()).arg("--listen=127.0.0.1:0").args(more);
        Self::start(command)
    }

    /// Starts the bare handler.
    pub(crate) fn bare(store: &BenchStore) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bare").args(store.arguments());
        Self::start(command)
    }

    /// Starts the receiver of webhooks.
    pub(crate) fn sink() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("hook-sink");
        Self::start(command)
    }

    fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).env("WAKELINE_LOG", "error");
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let stdout = child.stdout.take().expect("it is piped");
        let mut stdout = BufReader::new(stdout);
        let address = read_address(&mut stdout);
        if address.is_err() {
            let _ = child.kill();
            let _ = child.wait();
        }
        Ok(Self { child, address: address?, _stdout: stdout })
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process id of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM, and waits until the server has ended. It releases its leases and stores its
    /// statistics.
    pub(crate) fn stop(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "a server ended with {status}");
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_address(stdout: &mut impl BufRead) -> Result<SocketAddr> {
    for line in stdout.lines() {
        let line = line?;
        if let Some(rest) = line.strip_prefix("url ") {
            let url = rest.split_whitespace().next().unwrap_or_default();
            let address = url.strip_prefix("http://").unwrap_or_default();
            return address.parse().with_context(|| format!("no address in {line:?}"));
        }
    }
    anyhow::bail!("a server ended before it printed its address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_what_the_server_prints() {
        let mut printed = "store   sqlite x\nurl     http://127.0.0.1:81   (docs)\n".as_bytes();
        assert_eq!(read_address(&mut printed).expect("an address").port(), 81);
        assert!(read_address(&mut "oops\n".as_bytes()).is_err());
    }
}
