//! Webhooks from the binary: sent, drained, kept secret, fetched to a developer's machine.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::{Server, Store, eventually, wakeline};

/// A receiver: tells what comes, waits, and answers.
struct Receiver {
    address: SocketAddr,
    came: mpsc::UnboundedReceiver<String>,
}

impl Receiver {
    async fn start(status: u16, pause: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (tell, came) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move { receive(stream, status, pause, &tell).await });
            }
        });
        Self { address, came }
    }

    fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    async fn next(&mut self) -> String {
        let came = tokio::time::timeout(Duration::from_secs(30), self.came.recv()).await;
        came.expect("something comes in time").expect("the receiver runs")
    }
}

async fn receive(
    mut stream: TcpStream,
    status: u16,
    pause: Duration,
    tell: &mpsc::UnboundedSender<String>,
) {
    let mut text = String::new();
    let mut bytes = [0; 4096];
    while let Ok(1..) = stream.read(&mut bytes).await.inspect(|len| {
        text.push_str(&String::from_utf8_lossy(&bytes[..*len]));
    }) {
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        if body.len() >= length.unwrap_or(0) {
            break;
        }
    }
    let _ = tell.send(text);
    tokio::time::sleep(pause).await;
    let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// A key ring of the environment, as `wakeline encryption-key` prints it.
async fn new_key() -> String {
    let output = wakeline().arg("encryption-key").output().await.expect("runs");
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

async fn serve(store: &Store, keys: Option<&str>) -> Server {
    let mut command = wakeline();
    if let Some(keys) = keys {
        command.env("WAKELINE_ENCRYPTION_KEYS", keys);
    }
    command.args(["serve", "--listen", "127.0.0.1:0", "--hook-allow", "127.0.0.0/8"]);
    command.args(["--store", &store.url()]);
    Server::spawn(command).await
}

async fn post(server: &Server, path: &str, body: Value) -> Value {
    let answer = server.client.post(path, body).await;
    assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
    answer.json()
}

async fn with_endpoint(server: &Server, url: &str) {
    post(server, "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    post(server, "/api/v1/app/a/endpoint", json!({"url": url, "uid": "e"})).await;
}

#[tokio::test]
async fn a_delivery_under_way_at_sigterm_ends_in_the_log() {
    for store in Store::both().await {
        let key = new_key().await;
        let server = serve(&store, Some(&key)).await;
        let mut receiver = Receiver::start(204, Duration::from_millis(700)).await;
        with_endpoint(&server, &receiver.url()).await;
        let body = json!({"eventType": "x", "eventId": "m", "payload": {"n": 1}});
        post(&server, "/api/v1/app/a/msg", body).await;
        let came = receiver.next().await;
        assert!(came.contains("webhook-signature: v1,") && came.ends_with(r#"{"n":1}"#), "{came}");
        assert_eq!(server.terminate().await, Some(0), "{}", store.name());

        let again = serve(&store, Some(&key)).await;
        let log = again.client.get("/api/v1/app/a/attempt/msg/m").await.json();
        assert_eq!(log["data"].as_array().map(Vec::len), Some(1), "{log}");
        assert_eq!(log["data"][0]["responseStatusCode"], 204, "{log}");
        let secret = again.client.get("/api/v1/app/a/endpoint/e/secret").await;
        assert_eq!(secret.status, 200, "the same keys open it");
    }
}

#[tokio::test]
async fn sqlite_makes_a_key_beside_its_file_and_postgres_asks_for_one() {
    let store = Store::sqlite();
    let server = serve(&store, None).await;
    assert!(server.greeting.iter().any(|line| line.starts_with("keys    made")));
    with_endpoint(&server, "http://127.0.0.1:9/").await;
    let secret = server.client.get("/api/v1/app/a/endpoint/e/secret").await.json();
    let path = format!("{}.key", store.url().trim_start_matches("sqlite:"));
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    server.kill().await;
    let again = serve(&store, None).await;
    assert!(!again.greeting.iter().any(|line| line.starts_with("keys")));
    let same = again.client.get("/api/v1/app/a/endpoint/e/secret").await.json();
    assert_eq!(same, secret);

    let store = Store::postgres().await;
    let server = serve(&store, None).await;
    post(&server, "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
    let body = json!({"url": "http://127.0.0.1:9/"});
    let refused = server.client.post("/api/v1/app/a/endpoint", body).await;
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("WAKELINE_ENCRYPTION_KEYS"), "{refused:?}");
}

#[tokio::test]
async fn keys_are_printed_and_mistakes_in_them_are_named() {
    let (one, two) = (new_key().await, new_key().await);
    assert_ne!(one, two);
    let output = wakeline().args(["encryption-key", "--id", "a b"]).output().await.expect("runs");
    assert_eq!(output.status.code(), Some(2));
    let store = Store::sqlite();
    let mut command = wakeline();
    command.env("WAKELINE_ENCRYPTION_KEYS", "broken").args(["serve", "--listen", "127.0.0.1:0"]);
    let output = command.args(["--store", &store.url()]).output().await.expect("runs");
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("encryption_keys") && !error.contains("broken"), "{error}");
}

#[tokio::test]
async fn listening_forwards_events_and_removes_its_endpoint() {
    for store in Store::both().await {
        let server = serve(&store, Some(&new_key().await)).await;
        let mut receiver = Receiver::start(204, Duration::ZERO).await;
        let mut command = wakeline();
        let url = format!("http://{}", server.client.address);
        command.args(["hook", "listen", "--server", &url, "--forward", &receiver.url()]);
        command.args(["--app", "dev", "--event-types", "invoice.*"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let line = lines.next_line().await.expect("readable").expect("a line");
        assert!(line.contains("events of dev"), "{line}");

        for kind in ["order.made", "invoice.paid"] {
            let body = json!({"eventType": kind, "eventId": kind, "payload": {"n": 7}});
            post(&server, "/api/v1/app/dev/msg", body).await;
        }
        let came = receiver.next().await;
        assert!(came.starts_with("POST /hook HTTP/1.1"), "{came}");
        assert!(came.contains("webhook-signature: v1,") && came.ends_with(r#"{"n":7}"#), "{came}");
        let line = lines.next_line().await.expect("readable").expect("a line");
        assert!(line.contains("invoice.paid -> 204"), "{line}");
        eventually("it is acked", || async {
            let path = "/api/v1/app/dev/msg/invoice.paid/delivery";
            server.client.get(path).await.json()["data"][0]["state"] == "delivered"
        })
        .await;

        let pid = i32::try_from(child.id().expect("it runs")).expect("a pid");
        kill_process(Pid::from_raw(pid).expect("not zero"), Signal::INT).expect("signalled");
        assert_eq!(child.wait().await.expect("waited").code(), Some(0));
        let left = server.client.get("/api/v1/app/dev/endpoint").await.json();
        assert_eq!(left["data"], json!([]), "{}", store.name());
    }
}
