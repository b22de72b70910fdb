//! Nodes behind PgBouncer in transaction mode, without support for prepared statements: everything
//! works as with a direct connection, and a node leaves no session state in a shared connection.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use wakeline_flow::Client as FlowClient;
use wakeline_flow::provider::{StoreProvider, StoreProviderOptions};
use wakeline_flow::{ActivityContext, FlowError, OrchestrationContext, Registry, Runtime};
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_testkit::database::{TestDatabase, connect};
use wakeline_testkit::history::{self, CallOutcome};

use crate::support::{
    Behaviour, Hook, Load, Pooler, Receiver, Server, Store, eventually, wakeline,
};

/// Number of connections: fewer than clients, so that the clients share connections.
const CONNECTIONS: u32 = 6;
const INSTANCES: u32 = 40;
const MESSAGES: u32 = 100;

async fn double(_: ActivityContext, n: u32) -> Result<u32, FlowError> {
    Ok(2 * n)
}

async fn twice(ctx: OrchestrationContext, n: u32) -> Result<u32, FlowError> {
    let doubled = ctx.call(double, n).await?;
    ctx.sleep(Duration::from_millis(50)).await;
    ctx.call(double, doubled).await
}

/// Runs orchestrations on two more nodes, and checks that all of them end with their result.
async fn orchestrate(options: PostgresOptions) {
    let mut runtimes = Vec::new();
    for _ in 0..2 {
        let store = PostgresStore::connect(options.clone()).await.expect("connected");
        let provider = StoreProvider::new(Arc::new(store), StoreProviderOptions::default());
        let provider = Arc::new(provider);
        let registry = Registry::builder().orchestration("twice", twice).activity("double", double);
        let registry = registry.build().expect("a registry");
        let runtime = Runtime::start(provider.clone(), registry).await.expect("started");
        runtimes.push((runtime, FlowClient::new(provider)));
    }
    for n in 0..INSTANCES {
        let (_, client) = &runtimes[n as usize % 2];
        client.start(&format!("i-{n}"), "twice", &n).await.expect("started");
    }
    for n in 0..INSTANCES {
        let (_, client) = &runtimes[(n as usize + 1) % 2];
        let ended: Result<u32, _> = client.wait(&format!("i-{n}"), Duration::from_secs(60)).await;
        assert_eq!(ended.expect("ended"), 4 * n);
    }
}

/// Sends webhooks with both nodes, and checks that each arrives once.
async fn deliver(nodes: [&Server; 2]) {
    let hook = Hook::open(nodes[0]).await;
    let receiver = Receiver::start("r", Behaviour::Answers(200)).await;
    hook.endpoint(&receiver, json!({})).await;
    for number in 0..MESSAGES {
        Hook(nodes[number as usize % 2].client).send(&format!("w-{number}")).await;
    }
    eventually("all results are recorded", || async { hook.open_deliveries("r").await == 0 }).await;
    let log = hook.attempts("r").await;
    assert_eq!((log.len(), receiver.count()), (MESSAGES as usize, MESSAGES as usize));
    assert!(log.iter().all(|one| one.outcome == "succeeded" && one.number == 1), "{log:?}");
}

/// Checks that no request to this node failed, and no call to the database except because of locks.
async fn assert_no_failure(node: &Server) {
    let metrics = node.client.get("/metrics").await.body;
    let failed: Vec<&str> = metrics
        .lines()
        .filter(|line| {
            line.starts_with("wakeline_http_requests_total") && line.contains("status=\"5")
                || line.starts_with("wakeline_store_calls_total")
                    && !line.contains("outcome=\"ok\"")
                    && !line.contains("outcome=\"transient\"")
        })
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Checks that the connections of the pooler contain no session state of the nodes.
async fn assert_no_session_state(url: &str) {
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = connect(url).await;
        // The transaction stays open, so that the next client gets another connection.
        client.batch_execute("BEGIN").await.expect("begun");
        let found = client
            .query_typed(
                "SELECT current_setting('statement_timeout'), \
                    coalesce(current_setting('wakeline.node', true), ''), \
                    (SELECT count(*) FROM pg_prepared_statements WHERE name <> ''), \
                    (SELECT count(*) FROM pg_listening_channels()), \
                    (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() \
                     AND locktype = 'advisory')",
                &[],
            )
            .await
            .expect("read");
        let found = &found[0];
        assert_eq!((found.get::<_, &str>(0), found.get::<_, &str>(1)), ("0", ""));
        let left: [i64; 3] = [found.get(2), found.get(3), found.get(4)];
        assert_eq!(left, [0; 3], "prepared statements, channels, locks");
        held.push(client);
    }
}

/// Runs queues, orchestrations and webhooks behind a pooler with more lines in its configuration.
async fn work_behind(database: &TestDatabase, more: &str) {
    let pooler = Pooler::start(database, CONNECTIONS, more);
    let (url, listen) = (pooler.url(database), database.url());
    let flags = ["--listen-url", &listen];
    let a = Hook::serve(&url, &flags).await;
    let b = Hook::serve(&url, &flags).await;
    let load = Load::begin(&[&a, &b], 11).await;
    let options =
        PostgresOptions { listen_url: Some(listen.clone()), ..PostgresOptions::new(&url) };
    tokio::join!(orchestrate(options), deliver([&a, &b]));
    let history = load.end(&a).await;
    let unclear = history.pushes.iter().filter(|push| push.answer != CallOutcome::Ok).count();
    assert_eq!(unclear, 0, "of {} pushes", history.pushes.len());
    let report = history::check(&history);
    assert!(report.acknowledged > 0 && report.settled > 0, "{report}");
    report.assert_clean();
    assert_no_failure(&a).await;
    assert_no_failure(&b).await;
    assert_eq!((a.terminate().await, b.terminate().await), (Some(0), Some(0)));
    assert_no_session_state(&url).await;
}

#[tokio::test]
async fn nodes_behind_a_transaction_pooler_fail_no_request_and_leave_nothing_in_its_connections() {
    // In the configuration of Debian, PgBouncer refuses the option by which a node recognizes its
    // own session. In a configuration that is common for other drivers, it ignores the option.
    for more in ["", "ignore_startup_parameters = options"] {
        let Store::Postgres(database) = Store::postgres().await else { unreachable!("just made") };
        work_behind(&database, more).await;
    }
}

#[tokio::test]
async fn prepared_statements_that_a_pooler_mixes_up_are_reported_with_what_to_set() {
    let Store::Postgres(database) = Store::postgres().await else { unreachable!("just made") };
    // There is one connection, so that the second node meets the statements of the first.
    let pooler = Pooler::start(&database, 1, "");
    let serve = || {
        let mut command = wakeline();
        let url = pooler.url(&database);
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", &url]);
        command.args(["--prepared-statements", "on", "--listen-url", &database.url()]);
        command.env("WAKELINE_LOG", "warn").stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    let mut nodes = [serve(), serve()];
    let lines = nodes.each_mut().map(|node| node.stderr.take().expect("piped"));
    let [one, two] = lines.map(|errors| async {
        let mut lines = BufReader::new(errors).lines();
        while let Some(line) = lines.next_line().await.expect("readable") {
            if line.contains("set prepared_statements to auto or off") {
                return line;
            }
        }
        std::future::pending().await
    });
    let said = tokio::time::timeout(Duration::from_secs(60), async {
        tokio::select! { line = one => line, line = two => line }
    });
    let line = said.await.expect("the error is logged");
    assert!(line.contains("ERROR: prepared statement"), "the log line names the cause: {line}");
}
