//! Processes of the binary under test.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};

use super::client::Client;
use super::postgres::database;
use wakeline_testkit::database::TestDatabase;
use wakeline_testkit::timings::set_up;

/// Returns the command under test, without `WAKELINE_` variables of this process.
pub(crate) fn wakeline() -> Command {
    // `cargo xtask test` builds the server in release mode for all tests that start it.
    let built = std::env::var_os("WAKELINE_TEST_SERVER");
    let mut command = Command::new(built.unwrap_or(env!("CARGO_BIN_EXE_wakeline").into()));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("WAKELINE_") {
            command.env_remove(name);
        }
    }
    command.kill_on_drop(true);
    command
}

/// Runs a command that must end by itself, and returns its output.
pub(crate) async fn output_of(mut command: impl std::borrow::BorrowMut<Command>) -> Output {
    let ended = tokio::time::timeout(Duration::from_secs(30), command.borrow_mut().output()).await;
    ended.expect("it ends by itself").expect("it runs")
}

/// A store for one test: a SQLite file in a temporary folder, or a PostgreSQL database.
pub(crate) enum Store {
    Sqlite(tempfile::TempDir),
    Postgres(TestDatabase),
}

impl Store {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(database().await)
    }

    /// Returns a new store of each kind.
    pub(crate) async fn both() -> [Self; 2] {
        [Self::sqlite(), Self::postgres().await]
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("w.db").display()),
            Self::Postgres(database) => database.url(),
        }
    }
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) client: Client,
    /// The lines that the server printed when it was ready.
    pub(crate) greeting: Vec<String>,
}

impl Server {
    /// Starts a server on a store and waits until it is ready.
    pub(crate) async fn start(store: &Store, flags: &[&str]) -> Self {
        Self::start_url(&store.url(), flags).await
    }

    pub(crate) async fn start_url(url: &str, flags: &[&str]) -> Self {
        let mut command = wakeline();
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", url]).args(flags);
        Self::spawn(command).await
    }

    pub(crate) async fn spawn(command: Command) -> Self {
        set_up(Self::spawn_unmeasured(command)).await
    }

    async fn spawn_unmeasured(mut command: Command) -> Self {
        if !command.as_std().get_envs().any(|(name, _)| name == "WAKELINE_LOG") {
            let level = std::env::var("WAKELINE_TEST_LOG").unwrap_or("error".into());
            command.env("WAKELINE_LOG", level);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut greeting = Vec::new();
        let read = async {
            while let Some(line) = lines.next_line().await.expect("readable") {
                greeting.push(line);
                if greeting.last().is_some_and(|line| line.contains("/health")) {
                    break;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), read).await.expect("it greets in time");
        let url = greeting.iter().find_map(|line| line.strip_prefix("url     "));
        let url = url.and_then(|url| url.split_once("://")).map(|(_, rest)| rest);
        let address = url.expect("it prints its URL").split(' ').next().expect("an address");
        let client = Client::new(address.parse().expect("an address"));
        Self { child, client, greeting }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Returns the reading end of standard error, which must be a pipe.
    pub(crate) fn take_stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().expect("piped")
    }

    /// Sends SIGTERM and returns the exit code.
    pub(crate) async fn terminate(self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Waits until the process ends, and returns the exit code.
    pub(crate) async fn ended(mut self) -> Option<i32> {
        let waited = tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await;
        waited.expect("it stops").expect("waited").code()
    }

    /// Kills the process, like a failure of the machine.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("killed");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).expect("a pid");
        kill_process(Pid::from_raw(pid).expect("not zero"), signal).expect("signalled");
    }

    /// Returns the field `wake` of `/health`.
    pub(crate) async fn wake(&self) -> Value {
        self.client.get("/health").await.json()["wake"].clone()
    }

    /// Returns the value of a metric by its name with labels, or 0 if it does not exist.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let text = self.client.get("/metrics").await.body;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a whole number"))
    }

    /// Waits until this many pops are parked.
    pub(crate) async fn parked(&self, count: u64) {
        super::eventually(&format!("{count} pops parked"), || async {
            self.wake().await["waiters"] == count
        })
        .await;
    }

    /// Number of open file descriptors of the process.
    pub(crate) fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.pid());
        std::fs::read_dir(Path::new(&folder)).expect("it runs").count()
    }

    /// Resident memory of the process in bytes, without file pages.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a size");
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kilobytes * 1024
    }
}
