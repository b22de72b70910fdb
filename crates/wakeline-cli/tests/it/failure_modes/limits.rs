//! More clients than messages, and more clients than file descriptors.

use std::process::Stdio;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Parked, Server, Store, eventually, long, wakeline};

#[tokio::test]
async fn after_thousands_of_dropped_polls_beside_idle_connections_a_push_is_delivered() {
    let (idle, polls) = if long() { (10_000, 5_000) } else { (2_000, 2_000) };
    let store = Store::sqlite();
    let server = Server::start(&store, &["--fallback-poll-interval-ms", "3600000"]).await;
    let before = server.descriptors();
    let mut connections = Vec::with_capacity(idle);
    for _ in 0..idle {
        connections.push(TcpStream::connect(server.client.address).await.expect("connected"));
    }
    let mut parked: Vec<Parked> = Vec::with_capacity(polls);
    for _ in 0..polls {
        parked.push(server.client.park("/api/v1/pop/queue/q?wait=true&timeout=120000").await);
    }
    server.parked(polls as u64).await;
    drop(parked);
    server.parked(0).await;
    let last = server.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    server.parked(1).await;
    server.client.push("q", &[("p", "x")]).await;
    assert_eq!(last.answer().await.expect("an answer").ids(), ["x"]);
    drop(connections);
    eventually("the descriptors are closed", || async { server.descriptors() <= before + 2 }).await;
}

#[tokio::test]
async fn near_its_descriptor_limit_a_node_answers_503_and_works_on() {
    let store = Store::sqlite();
    let binary = wakeline();
    let binary = binary.as_std().get_program().to_string_lossy().into_owned();
    let mut shell = tokio::process::Command::new("sh");
    let run = "ulimit -n 400; exec \"$0\" serve --listen 127.0.0.1:0 --store \"$1\"";
    shell.args(["-c", run, &binary, &store.url()]).stderr(Stdio::inherit()).kill_on_drop(true);
    let server = Server::spawn(shell).await;
    let mut connections = Vec::new();
    let mut refused = 0;
    for _ in 0..500 {
        connections.push(TcpStream::connect(server.client.address).await.expect("connected"));
    }
    for connection in &mut connections {
        let mut answer = [0; 12];
        let read = connection.read_exact(&mut answer);
        let waited = tokio::time::timeout(std::time::Duration::from_millis(5), read).await;
        if waited.is_ok_and(|read| read.is_ok()) {
            assert_eq!(&answer, b"HTTP/1.1 503");
            refused += 1;
        }
    }
    assert!((100..500).contains(&refused), "{refused} of 500 were refused");
    drop(connections);
    eventually("requests are accepted again", || async {
        let pushed = r#"{"items":[{"queue":"q","payload":1,"transactionId":"x"}]}"#;
        let pushed = server.client.call("POST", "/api/v1/push", pushed).await;
        pushed.is_ok_and(|answer| answer.status == 201)
    })
    .await;
    assert_eq!(server.client.get("/api/v1/pop/queue/q").await.ids(), ["x"]);
}

#[tokio::test]
async fn a_client_that_never_reads_its_answer_is_disconnected_and_a_parked_one_is_not() {
    let store = Store::sqlite();
    let server = Server::start(&store, &["--write-timeout-ms", "500"]).await;
    let payload = "x".repeat(1_000_000);
    for n in 0..24 {
        let id = n.to_string();
        let item = json!({"queue": "much", "payload": payload, "transactionId": id});
        let pushed = server.client.post("/api/v1/push", json!({"items": [item]})).await;
        assert_eq!(pushed.status, 201, "{pushed:?}");
    }
    let parked = server.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    server.parked(1).await;
    let mut unread = TcpStream::connect(server.client.address).await.expect("connected");
    let request = "GET /api/v1/pop/queue/much?batch=24 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    unread.write_all(request.as_bytes()).await.expect("sent");
    unread.readable().await.expect("the answer has begun");
    let (during, mut taken) = (server.descriptors(), Vec::new());
    eventually("it is disconnected", || async { server.descriptors() < during }).await;
    unread.read_to_end(&mut taken).await.ok();
    assert!(taken.len() < 24_000_000, "its answer was cut off");
    server.client.push("q", &[("p", "x")]).await;
    assert_eq!(parked.answer().await.expect("an answer").ids(), ["x"]);
}
