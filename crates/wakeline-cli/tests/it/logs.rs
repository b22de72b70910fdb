//! The log of a server while it starts and while its database is unavailable.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader, Lines};
use tokio::process::Command;

use crate::support::{OwnPostgres, Server, Store, eventually, output_of, wakeline};

fn serve(url: &str) -> Command {
    let mut command = wakeline();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", url]);
    command.env("WAKELINE_LOG", "info").stderr(Stdio::piped());
    command
}

/// Reads lines until one contains the text.
async fn line_with(lines: &mut Lines<BufReader<impl AsyncRead + Unpin>>, text: &str) -> String {
    let read = async {
        loop {
            let line = lines.next_line().await.expect("readable").expect("it runs");
            if line.contains(text) {
                return line;
            }
        }
    };
    let read = tokio::time::timeout(Duration::from_secs(30), read).await;
    read.unwrap_or_else(|_| panic!("no line with {text:?}"))
}

#[tokio::test]
async fn logs_for_machines_are_json_and_nothing_else_is_printed() {
    for store in Store::both().await {
        let mut command = serve(&store.url());
        let child = command.args(["--log-format", "json"]).stdout(Stdio::piped());
        let mut child = child.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let serving = line_with(&mut lines, "serving").await;
        let serving: serde_json::Value = serde_json::from_str(&serving).expect("JSON");
        assert!(serving["fields"]["url"].as_str().is_some_and(|url| url.starts_with("http://")));
        let pid = i32::try_from(child.id().expect("it runs")).expect("a pid");
        let pid = rustix::process::Pid::from_raw(pid).expect("not zero");
        rustix::process::kill_process(pid, Signal::TERM).expect("signalled");
        while let Some(line) = lines.next_line().await.expect("readable") {
            serde_json::from_str::<serde_json::Value>(&line).expect("JSON");
        }
        let output = child.wait_with_output().await.expect("it ends");
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{}", store.name());
    }
}

#[tokio::test]
async fn a_node_that_sends_no_webhooks_reports_it() {
    for store in Store::both().await {
        let mut server = Server::spawn(serve(&store.url())).await;
        let webhooks = server.client.get("/health").await.json()["webhooks"].clone();
        match &store {
            Store::Sqlite(_) => assert_eq!(webhooks, "on"),
            Store::Postgres(_) => {
                assert_eq!(webhooks, "off: no encryption key");
                let mut lines = BufReader::new(server.take_stderr()).lines();
                line_with(&mut lines, "this node sends no webhooks").await;
            }
        }
    }
}

#[tokio::test]
async fn variables_of_queen_are_logged_and_take_effect() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let mut command = serve(&store.url());
    command.args(["--wake-mode", "poll", "--poll-grouping", "waiter"]);
    command.env("POLL_WORKER_COUNT", "3").env("POLL_INTERVAL_MS", "3600000");
    command.env("USE_PRIORITY_DISPATCH", "false");
    let mut server = Server::spawn(command).await;
    let mut lines = BufReader::new(server.take_stderr()).lines();
    for name in ["POLL_WORKER_COUNT", "POLL_INTERVAL_MS", "USE_PRIORITY_DISPATCH"] {
        line_with(&mut lines, &format!("{name} is used as WAKELINE_")).await;
    }
    let mut session = database.client().await;
    let holding = session.transaction().await.expect("begun");
    holding.batch_execute("LOCK TABLE wakeline.queues").await.expect("held");
    let mut parked = Vec::new();
    for _ in 0..5 {
        parked.push(server.client.park("/api/v1/pop/queue/q?wait=true&timeout=30000").await);
    }
    let claims = "wakeline_wake_claims_in_flight{api=\"queue\"}";
    eventually("three claims at a time", || async { server.metric(claims).await == 3 }).await;
    holding.rollback().await.expect("let go");
    let empty = "wakeline_wake_claims_total{api=\"queue\",outcome=\"empty\"}";
    eventually("all pops have claimed", || async { server.metric(empty).await == 5 }).await;
    // By default the pops would claim ten more times.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.metric(empty).await, 5, "the next claims are an hour away");
}

#[tokio::test]
async fn a_start_waits_for_the_database_and_logs_it() {
    let postgres = OwnPostgres::start();
    postgres.stop();
    let mut command = serve(&postgres.url());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    line_with(&mut lines, "cannot connect to PostgreSQL yet").await;
    postgres.restart();
    let mut greeting = BufReader::new(child.stdout.take().expect("piped")).lines();
    line_with(&mut greeting, "url     http://").await;
}

#[tokio::test]
async fn a_start_fails_after_a_timeout_and_at_once_if_waiting_does_not_help() {
    let mut command = serve("postgres://user@127.0.0.1:1/none");
    command.args(["--store-wait-ms", "300"]);
    let output = output_of(command).await;
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("store_wait_ms") && error.contains("refused"), "{error}");

    let mut command = serve("postgres://user@127.0.0.1:1/none");
    command.args(["--store-wait-ms", "0", "--log-format", "json"]);
    let output = output_of(command).await;
    assert_eq!(output.status.code(), Some(1));
    let error: serde_json::Value =
        serde_json::from_slice(&output.stderr).expect("one line of JSON");
    assert!(error["fields"]["error"].as_str().is_some_and(|text| text.contains("refused")));

    let postgres = OwnPostgres::start();
    let missing =
        postgres.url().replace("/postgres", "/missing").replace("//missing", "//postgres");
    let output = output_of(serve(&missing)).await;
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("\"missing\"") && !error.contains("yet"), "{error}");
}

#[tokio::test]
async fn a_lost_listener_is_logged_with_its_cause() {
    let store = Store::postgres().await;
    let mut server = Server::spawn(serve(&store.url())).await;
    let mut lines = BufReader::new(server.take_stderr()).lines();
    line_with(&mut lines, "receiving notifications from other nodes").await;
    let (client, connection) =
        tokio_postgres::connect(&store.url(), tokio_postgres::NoTls).await.expect("connected");
    tokio::spawn(connection);
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    client.query(end, &[]).await.expect("ended");
    let lost = line_with(&mut lines, "lost the connection that receives notifications").await;
    assert!(lost.contains("administrator command"), "{lost}");
}

#[tokio::test]
async fn repeated_errors_are_counted_instead_of_written() {
    let postgres = OwnPostgres::start();
    let mut server = Server::spawn(serve(&postgres.url())).await;
    let mut lines = BufReader::new(server.take_stderr()).lines();
    line_with(&mut lines, "receiving notifications from other nodes").await;
    let reading = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().await.expect("readable") {
            all.push(line);
        }
        all
    });
    postgres.stop();
    for _ in 0..300 {
        assert_eq!(server.client.get("/api/v1/resources/queues").await.status, 503);
    }
    // Errors of background tasks are logged in this time, too.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(server.terminate().await, Some(0));
    let all = reading.await.expect("no panic");
    assert!(all.len() < 60, "{} lines:\n{}", all.len(), all.join("\n"));
    assert!(all.iter().any(|line| line.contains("store unavailable")), "{all:#?}");
}
