//! Signals and standard error: a server stops on a signal, even if its logs are not read.

use std::io::Write as _;
use std::process::Stdio;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{Server, Store, wakeline};

/// Capacity of a pipe on Linux.
const PIPE_BYTES: usize = 65_536;

/// Starts a server that logs at the level trace.
async fn verbose_server(store: &Store, stderr: impl Into<Stdio>) -> Server {
    let mut command = wakeline();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store.url()]);
    command.env("WAKELINE_LOG", "trace").stderr(stderr);
    Server::spawn(command).await
}

#[tokio::test]
async fn sigterm_drains_although_the_reader_of_the_logs_is_gone() {
    for store in Store::both().await {
        let mut server = verbose_server(&store, Stdio::piped()).await;
        drop(server.take_stderr());
        server.client.push("q", &[("p", "a")]).await;
        let parked = server.client.park("/api/v1/pop/queue/none?wait=true").await;
        server.parked(1).await;
        let (code, answer) = tokio::join!(server.terminate(), parked.answer());
        assert_eq!(answer.expect("an answer").status, 204, "{}", store.name());
        assert_eq!(code, Some(0), "{}", store.name());
    }
}

/// The process must handle the signal: the first process of a container ignores signals that it
/// does not handle.
#[tokio::test]
async fn sigterm_ends_a_start_that_waits_for_its_database() {
    let mut command = wakeline();
    command.args(["serve", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
    command.args(["--store", "postgres://user@127.0.0.1:1/none", "--store-wait-ms", "600000"]);
    let mut child = command.env("WAKELINE_LOG", "info").spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let waits = lines.next_line().await.expect("readable").expect("it runs");
    assert!(waits.contains("cannot connect to PostgreSQL yet"), "{waits}");
    let pid = i32::try_from(child.id().expect("it runs")).expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid).expect("not zero");
    rustix::process::kill_process(pid, Signal::TERM).expect("signalled");
    // An exit code instead of the signal shows that the process handled it.
    assert_eq!(child.wait().await.expect("it ends").code(), Some(0));
}

#[tokio::test]
async fn logs_that_are_not_read_block_nothing() {
    for store in Store::both().await {
        let (unread, mut full) = std::io::pipe().expect("a pipe");
        full.write_all(&[b'.'; PIPE_BYTES]).expect("as much as fits");
        let server = verbose_server(&store, full).await;
        server.client.push("q", &[("p", "a")]).await;
        assert_eq!(server.client.get("/health").await.status, 200, "{}", store.name());
        assert_eq!(server.terminate().await, Some(0), "{}", store.name());
        drop(unread);
    }
}

#[tokio::test]
async fn sighup_without_a_certificate_changes_nothing() {
    for store in Store::both().await {
        let mut server = verbose_server(&store, Stdio::piped()).await;
        let mut lines = BufReader::new(server.take_stderr()).lines();
        server.signal(Signal::HUP);
        loop {
            let line = lines.next_line().await.expect("readable").expect("it runs on");
            if line.contains("SIGHUP") {
                break;
            }
        }
        server.client.push("q", &[("p", "a")]).await;
        assert_eq!(server.terminate().await, Some(0), "{}", store.name());
    }
}
