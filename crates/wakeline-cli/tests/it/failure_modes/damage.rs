//! Damage around a node: a full disk, a database that does not answer, corrupt rows, a flood of
//! notifications, and a listener that is refused.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::{Server, Store, eventually};

/// A small file system that a test can fill, if the test may mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64m", "wakeline-test"]).arg(folder.path());
        let mounted = mount.stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
        assert!(
            unmounted.is_ok_and(|status| status.success()),
            "the disk of the test could not be unmounted"
        );
    }
}

#[tokio::test]
async fn a_full_disk_is_507_and_can_be_emptied_over_http() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("not allowed to mount a small disk: tested on the store alone");
        return;
    };
    let url = format!("sqlite:{}", disk.0.path().join("w.db").display());
    let server = Server::start_url(&url, &[]).await;
    let push = |n: usize| {
        let payload = "x".repeat(1_000_000);
        json!({"items": [{"queue": "q", "transactionId": n.to_string(), "payload": payload}]})
    };
    let mut stored = 0;
    let refused = loop {
        let answer = server.client.post("/api/v1/push", push(stored)).await;
        if answer.status != 201 {
            break answer;
        }
        stored += 1;
        assert!(stored < 60, "the disk is never full");
    };
    assert_eq!(refused.status, 507, "{refused:?}");
    assert_eq!(refused.json()["code"], "store_full");
    assert!(refused.head.contains("retry-after: "), "{refused:?}");
    for n in 0..stored {
        let popped = server.client.get("/api/v1/pop/queue/q").await;
        assert_eq!(popped.ids(), [n.to_string()], "what was acknowledged is there");
        assert_eq!(server.client.ack(&popped, None).await.json()[0]["success"], true);
    }
    let deleted = server.client.call("DELETE", "/api/v1/resources/queues/q", "").await;
    assert_eq!(deleted.expect("an answer").status, 200);
    eventually("a push is accepted again", || async {
        server.client.post("/api/v1/push", push(0)).await.status == 201
    })
    .await;
}

#[tokio::test]
async fn housekeeping_frees_space_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("not allowed to mount a small disk");
        return;
    };
    let url = format!("sqlite:{}", disk.0.path().join("w.db").display());
    let server = Server::start_url(&url, &["--housekeeping-interval-ms", "100"]).await;
    let options = json!({"retentionEnabled": true, "completedRetentionSeconds": 1,
        "dedupWindowSeconds": 1});
    let configured = json!({"queue": "q", "options": options});
    assert_eq!(server.client.post("/api/v1/configure", configured).await.status, 200);
    let push = |n: usize| {
        let payload = "x".repeat(1_000_000);
        json!({"items": [{"queue": "q", "transactionId": n.to_string(), "payload": payload}]})
    };
    let mut stored = 0;
    while server.client.post("/api/v1/push", push(stored)).await.status == 201 {
        stored += 1;
        assert!(stored < 60, "the disk is never full");
    }
    for n in 0..stored {
        let popped = server.client.get("/api/v1/pop/queue/q?autoAck=true").await;
        assert_eq!(popped.ids(), [n.to_string()], "what was acknowledged is there");
    }
    eventually("housekeeping has freed space", || async {
        server.client.post("/api/v1/push", push(60)).await.status == 201
    })
    .await;
}

#[tokio::test]
async fn what_is_dropped_is_counted_by_the_metrics() {
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        let options = json!({"retryLimit": 0, "deadLetterQueue": false});
        let configured = json!({"queue": "q", "options": options});
        assert_eq!(server.client.post("/api/v1/configure", configured).await.status, 200);
        server.client.push("q", &[("p", "x")]).await;
        let popped = server.client.get("/api/v1/pop/queue/q").await.json();
        let message = &popped["messages"][0];
        let ack = json!({"transactionId": "x", "partitionId": message["partitionId"],
            "leaseId": message["leaseId"], "status": "failed"});
        assert_eq!(server.client.post("/api/v1/ack", ack).await.json()[0]["success"], true);
        let metrics = server.client.get("/metrics").await.body;
        let counted = "wakeline_queue_messages_dropped_total{queue=\"q\"} 1";
        assert!(metrics.contains(counted), "{}: {metrics}", store.name());
    }
}

/// A proxy in front of PostgreSQL that can stop passing bytes on, without closing connections.
struct PausableProxy {
    url: String,
    open: Arc<watch::Sender<bool>>,
    connections: Arc<AtomicUsize>,
}

impl PausableProxy {
    /// Starts a proxy to a PostgreSQL database. Without `through` it closes connections at once.
    async fn start(database: &wakeline_testkit::database::TestDatabase, through: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = database.url_through(listener.local_addr().expect("bound"));
        let (open, connections) =
            (Arc::new(watch::Sender::new(true)), Arc::new(AtomicUsize::new(0)));
        let (watched, counted, server) = (open.clone(), connections.clone(), database.address());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                if through && let Ok(server) = TcpStream::connect(&server).await {
                    let ((from, to), (back, forth)) = (client.into_split(), server.into_split());
                    tokio::spawn(pass(from, forth, watched.subscribe()));
                    tokio::spawn(pass(back, to, watched.subscribe()));
                }
            }
        });
        Self { url, open, connections }
    }
}

/// Passes bytes on while the proxy is open. Bytes that arrive while it is closed wait.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = from.read(&mut bytes).await {
        if open.wait_for(|open| *open).await.is_err() || to.write_all(&bytes[..len]).await.is_err()
        {
            return;
        }
    }
}

#[tokio::test]
async fn a_database_that_does_not_answer_is_an_error_within_seconds() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let proxy = PausableProxy::start(database, true).await;
    let server = Server::start_url(&proxy.url, &[]).await;
    server.client.push("q", &[("p", "before")]).await;
    proxy.open.send_replace(false);
    let started = Instant::now();
    let body =
        json!({"items": [{"queue": "q", "payload": 1, "transactionId": "during"}]}).to_string();
    let (pushed, popped) = tokio::join!(
        server.client.call("POST", "/api/v1/push", &body),
        server.client.call("GET", "/api/v1/pop/queue/q", ""),
    );
    for answer in [pushed, popped] {
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 503, "{answer:?}");
        // The code depends on whether the statement was sent, or had no connection to be sent on.
        let code = answer.json()["code"].clone();
        assert!(code == "outcome_unknown" || code == "store_unavailable", "{answer:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
    eventually("the node knows that the database is unavailable", || async {
        let push = server.client.call("POST", "/api/v1/push", &body).await.expect("an answer");
        push.json()["code"] == "store_unavailable"
    })
    .await;
    let started = Instant::now();
    for _ in 0..20 {
        let answer = server.client.call("POST", "/api/v1/push", &body).await.expect("an answer");
        assert_eq!(answer.json()["code"], "store_unavailable", "requests are refused at once");
        assert!(answer.head.contains("retry-after: "), "{answer:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    proxy.open.send_replace(true);
    eventually("it works again", || async {
        let again = server.client.call("POST", "/api/v1/push", &body).await;
        again.is_ok_and(|answer| answer.status == 201)
    })
    .await;
}

#[tokio::test]
async fn corrupt_rows_are_an_error_that_names_them_and_block_no_other_message() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let server = Server::start(&store, &[]).await;
    let corruptions = [
        "body = ''",
        "ids = '{}'",
        "ids = '{NULL}'",
        "txn_ids = '{}'",
        "txn_ids = '{\"\"}'",
        "ends = '{}'",
        "ends = '{-1}'",
        "ends = '{0}'",
        "ends = '{NULL}'",
        "ends = '{2147483647}'",
        "len = 0",
    ];
    for corruption in corruptions {
        server.client.push("q", &[("corrupt", "x")]).await;
        server.client.push("q", &[("whole", "y")]).await;
        let sql = format!("UPDATE wakeline.segments SET {corruption} WHERE txn_ids = '{{x}}'");
        let user = database.client().await;
        user.batch_execute(&sql).await.expect("corrupted");
        for auto_ack in ["", "&autoAck=true"] {
            let pop = format!("/api/v1/pop/queue/q?consumerGroup=narrow{auto_ack}");
            let popped = server.client.get(&pop).await;
            assert_eq!(popped.status, 500, "{corruption}: {popped:?}");
            let error = popped.json()["error"].as_str().expect("a text").to_owned();
            assert!(
                error.contains("offset 0 of partition "),
                "{corruption}: the error does not name the row: {error}"
            );
            assert_eq!(
                server.client.get(&pop).await.ids(),
                ["y"],
                "{corruption}: other messages are delivered"
            );
            assert_eq!(
                server.client.get(&pop).await.status,
                204,
                "{corruption}: it is not delivered"
            );
            let forget = "/api/v1/consumer-groups/narrow/queues/q";
            server.client.call("DELETE", forget, "").await.expect("an answer");
        }
        let pop = "/api/v1/pop/queue/q?consumerGroup=wide&partitions=10&batch=10";
        assert_eq!(
            server.client.get(pop).await.ids(),
            ["y"],
            "{corruption}: delivered by the same claim"
        );
        let sql = "SELECT partition FROM wakeline.leases";
        let leased = user.query(sql, &[]).await.expect("read");
        let leased: Vec<&str> = leased.iter().map(|row| row.get(0)).collect();
        assert_eq!(leased, ["whole"], "{corruption}: the corrupt partition is not leased");
        let sql = "SELECT (SELECT count(*) FROM wakeline.segments),
                          (SELECT count(*) FROM wakeline.retries)";
        let row = user.query_one(sql, &[]).await.expect("read");
        assert_eq!(
            (row.get(0), row.get(1)),
            (2i64, 0i64),
            "{corruption}: the row stays, and no attempt is counted"
        );
        let delete = "/api/v1/resources/queues/q";
        server.client.call("DELETE", delete, "").await.expect("an answer");
    }
}

#[tokio::test]
async fn a_flood_of_notifications_does_not_hold_up_the_listener() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let flags = ["--fallback-poll-interval-ms", "3600000", "--notify-delivery-timeout-ms", "30000"];
    let a = Server::start(&store, &flags).await;
    let b = Server::start(&store, &flags).await;
    eventually("both listen", || async {
        a.wake().await["link"] == "up" && b.wake().await["link"] == "up"
    })
    .await;
    let parked = b.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    b.parked(1).await;
    let client = database.client().await;
    let sql = "SELECT substring(prosrc from 'wakeline_[0-9a-f]+') FROM pg_proc
               WHERE proname = 'notify_incoming'";
    let channel: String = client.query_one(sql, &[]).await.expect("a channel").get(0);
    for round in 0..10 {
        let flood = "SELECT count(pg_notify($1, $2 || '-' || n)) FROM generate_series(1, 1000) n";
        client.query(flood, &[&channel, &format!("noise {round}")]).await.expect("sent");
    }
    a.client.push("q", &[("p", "x")]).await;
    let answer = tokio::time::timeout(Duration::from_secs(20), parked.answer()).await;
    assert_eq!(answer.expect("in time").expect("an answer").ids(), ["x"]);
    assert_eq!(b.wake().await["link"], "up");
    eventually("everything was read", || async {
        let sql = "SELECT pg_notification_queue_usage()";
        client.query_one(sql, &[]).await.expect("read").get::<_, f64>(0) < 0.001
    })
    .await;
}

#[tokio::test]
async fn a_listener_that_is_refused_repeatedly_does_not_spin() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let proxy = PausableProxy::start(database, false).await;
    let server = Server::start(&store, &["--listen-url", &proxy.url]).await;
    eventually("health shows why the node polls", || async {
        server.wake().await["degraded"] != Value::Null
    })
    .await;
    let parked = server.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let connections = proxy.connections.load(Ordering::SeqCst);
    assert!((2..60).contains(&connections), "{connections} attempts in three seconds");
    let other = Server::start(&store, &[]).await;
    other.client.push("q", &[("p", "x")]).await;
    assert_eq!(parked.answer().await.expect("an answer").ids(), ["x"]);
}
