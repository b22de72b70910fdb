//! The accept loop, over real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wakeline_http::{HttpSettings, Server, ServerOptions};

use crate::support::Node;

struct Running {
    address: SocketAddr,
    shutdown: CancellationToken,
    server: JoinHandle<bool>,
}

async fn run(node: &Node, options: ServerOptions) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let shutdown = CancellationToken::new();
    let server = Server::new(listener, node.state.clone(), options).run(shutdown.clone());
    Running { address, shutdown, server: tokio::spawn(server) }
}

async fn send(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream
}

/// Reads everything that the server sends until it closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_string(&mut text));
    read.await.expect("the server closes the connection").expect("readable");
    text
}

const PARK: &str = "GET /api/v1/pop/queue/q?wait=true HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[tokio::test]
async fn headers_that_do_not_arrive_in_time_end_the_connection() {
    let node = Node::start().await;
    let header_timeout = Duration::from_millis(50);
    let running = run(&node, ServerOptions { header_timeout, ..Default::default() }).await;
    let slow = send(running.address, "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-drip: ").await;
    rest(slow).await;
}

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_is_answered_408() {
    let body_timeout = Duration::from_millis(50);
    let node = Node::with(HttpSettings { body_timeout, ..HttpSettings::default() }).await;
    let running = run(&node, ServerOptions::default()).await;
    let head = "POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                content-length: 1000\r\n\r\n{";
    let answer = rest(send(running.address, head).await).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("body_timeout"), "{answer}");
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_no_waiter_and_no_lease() {
    let node = Node::start().await;
    let running = run(&node, ServerOptions::default()).await;
    let parked = send(running.address, PARK).await;
    node.parked(1).await;
    drop(parked);
    node.parked(0).await;
    node.push("q", &["a"]).await;
    let popped = node.get("/api/v1/pop/queue/q").await.json();
    assert_eq!(popped["messages"][0]["attempt"], 1);
}

#[tokio::test]
async fn a_connection_beyond_the_limit_is_answered_503() {
    let node = Node::start().await;
    let running = run(&node, ServerOptions { connections_max: 1, ..Default::default() }).await;
    let _held = send(running.address, PARK).await;
    node.parked(1).await;
    let refused = rest(TcpStream::connect(running.address).await.expect("connected")).await;
    assert!(refused.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{refused}");
    assert!(refused.contains("retry-after: 1"));
}

#[tokio::test]
async fn shutdown_answers_parked_pops_and_closes() {
    let node = Node::start().await;
    let running = run(&node, ServerOptions::default()).await;
    let parked = send(running.address, PARK).await;
    node.parked(1).await;
    running.shutdown.cancel();
    let answer = rest(parked).await;
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    assert!(running.server.await.expect("no panic"), "everything finished in time");
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn during_the_drain_probes_get_503_and_requests_in_flight_finish() {
    let node = Node::start().await;
    let running = run(&node, ServerOptions::default()).await;
    let body = r#"{"items":[{"queue":"q","payload":1}]}"#;
    let head = format!(
        "POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let mut slow = send(running.address, &head).await;
    let parked = send(running.address, PARK).await;
    node.parked(1).await;
    running.shutdown.cancel();
    rest(parked).await;
    let probe = send(running.address, "GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let probe = rest(probe).await;
    assert!(probe.starts_with("HTTP/1.1 503 "), "{probe}");
    slow.write_all(body.as_bytes()).await.expect("sent");
    let pushed = rest(slow).await;
    assert!(pushed.starts_with("HTTP/1.1 201 "), "{pushed}");
    assert!(running.server.await.expect("no panic"), "everything finished in time");
}
