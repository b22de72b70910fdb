//! Malicious clients, and clients that violate HTTP: each request is answered with the right
//! status, nothing is stored, and the node keeps working.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Server, Store, wakeline};

const PUSH: &str = r#"{"items":[{"queue":"victim","payload":1}]}"#;

/// Sends bytes, and reads the statuses of all answers until the server closes the connection.
async fn raw(server: &Server, bytes: &[u8]) -> Vec<u16> {
    let mut stream = TcpStream::connect(server.client.address).await.expect("connected");
    // The server may answer and close the connection before it has read all bytes.
    let _ = stream.write_all(bytes).await;
    statuses(&mut stream).await
}

/// The same for an incomplete request: the client closes its side of the connection after it.
async fn send_and_close(server: &Server, bytes: &[u8]) -> Vec<u16> {
    let mut stream = TcpStream::connect(server.client.address).await.expect("connected");
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    statuses(&mut stream).await
}

async fn statuses(stream: &mut TcpStream) -> Vec<u16> {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer));
    // A reset after the answer is accepted like an orderly end.
    let _ = read.await.expect("the server closes the connection");
    let text = String::from_utf8_lossy(&answer);
    let heads = text.match_indices("HTTP/1.1 ").map(|(at, head)| at + head.len());
    heads.map(|at| text[at..at + 3].parse().expect("a status")).collect()
}

/// Returns a push with additional header lines.
fn push(head: &str) -> Vec<u8> {
    let length = PUSH.len();
    format!(
        "POST /api/v1/push HTTP/1.1\r\nhost: [::1]\r\nconnection: close\r\n\
         content-type: application/json\r\n{head}content-length: {length}\r\n\r\n{PUSH}"
    )
    .into_bytes()
}

/// Returns a request without a body.
fn bodiless(method: &str, path: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: [::1]\r\nconnection: close\r\n\r\n").into_bytes()
}

/// Returns a push with other headers that frame its body.
fn framed(framing: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /api/v1/push HTTP/1.1\r\nhost: [::1]\r\nconnection: close\r\n{framing}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A description, the bytes to send, and the expected statuses; none if the connection is closed
/// without an answer.
type Attempt = (&'static str, Vec<u8>, &'static [u16]);

fn broken_framing() -> Vec<Attempt> {
    let chunked = "transfer-encoding: chunked";
    let length = PUSH.len();
    let both = format!("{chunked}\r\ncontent-length: {length}");
    let two = format!("content-length: {length}\r\ncontent-length: 1");
    vec![
        ("a body shorter than it says", framed("content-length: 1000", PUSH), &[400]),
        ("a chunked body that breaks off", framed(chunked, "5\r\n{\"ite"), &[400]),
        ("a chunk without a size", framed(chunked, "zz\r\n{}\r\n0\r\n\r\n"), &[400]),
        ("a chunk of 2^68", framed(chunked, "FFFFFFFFFFFFFFFFF\r\n{}"), &[400]),
        ("two lengths", framed(&two, PUSH), &[400]),
        ("a length and chunks", framed(&both, &format!("0\r\n\r\n{PUSH}")), &[400]),
        ("a negative length", framed("content-length: -1", PUSH), &[400]),
        ("a length in words", framed("content-length: many", PUSH), &[400]),
        ("an unknown transfer", framed("transfer-encoding: frob", PUSH), &[400]),
        ("a folded header", push("x-a: b\r\n c: d\r\n"), &[400]),
        ("a carriage return in a header", push("x-a: b\rc\r\n"), &[400]),
        ("a zero in a header", push("x-a: b\0c\r\n"), &[400]),
        ("a space before the colon", push("x-a : b\r\n"), &[400]),
        ("a header of a megabyte", push(&format!("x-a: {}\r\n", "b".repeat(1 << 20))), &[431]),
        ("a thousand headers", push(&"x-a: b\r\n".repeat(1000)), &[431]),
        ("HTTP/2 without negotiation", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[]),
        ("HTTP/3.7", b"GET /healthz HTTP/3.7\r\n\r\n".to_vec(), &[400]),
        (
            "TLS where there is none",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
            &[400],
        ),
        ("noise", vec![0; 1000], &[400]),
        ("nothing", Vec::new(), &[]),
    ]
}

fn odd_requests() -> Vec<Attempt> {
    vec![
        ("a packed body", push("content-encoding: gzip\r\n"), &[415]),
        (
            "a body of another type",
            framed("content-type: text/xml\r\ncontent-length: 2", "{}"),
            &[415],
        ),
        ("an unknown method", bodiless("FROB", "/api/v1/push"), &[405]),
        ("TRACE", bodiless("TRACE", "/api/v1/push"), &[405]),
        ("HEAD where only POST is", bodiless("HEAD", "/api/v1/push"), &[405]),
        ("HEAD where GET is", bodiless("HEAD", "/healthz"), &[200]),
        ("OPTIONS", bodiless("OPTIONS", "/api/v1/push"), &[405]),
        ("CONNECT", bodiless("CONNECT", "example.com:443"), &[421]),
        ("dots in the path", bodiless("GET", "/api/v1/../../healthz"), &[404]),
        ("dots in disguise", bodiless("GET", "/api/v1/%2e%2e/%2e%2e/healthz"), &[404]),
        ("two slashes", bodiless("GET", "//healthz"), &[404]),
        ("a slash at the end", bodiless("GET", "/healthz/"), &[404]),
        ("capitals", bodiless("GET", "/HEALTHZ"), &[404]),
        ("a path that is not UTF-8", bodiless("GET", "/api/v1/pop/queue/%ff"), &[400]),
        ("a zero in a name", bodiless("GET", "/api/v1/pop/queue/a%00b"), &[400]),
        ("a path of 100 kB", bodiless("GET", &format!("/{}", "a".repeat(100_000))), &[414]),
        (
            "a health probe with another host",
            bodiless("GET", "http://evil.example/healthz"),
            &[200],
        ),
        ("the host of another server", bodiless("GET", "http://evil.example/health"), &[421]),
        ("an absurd batch", bodiless("GET", "/api/v1/pop/queue/q?batch=99999999999"), &[400]),
        (
            "an absurd wait",
            bodiless("GET", "/api/v1/pop/queue/q?timeout=18446744073709551616"),
            &[400],
        ),
    ]
}

#[tokio::test]
async fn invalid_requests_have_the_right_status_and_store_nothing() {
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        let mut wrong = Vec::new();
        let mut judge = |what: &str, answered: Vec<u16>, expected: &[u16]| {
            if answered != expected {
                wrong.push(format!("{what}: {answered:?}, not {expected:?}"));
            }
        };
        for (what, bytes, expected) in broken_framing() {
            judge(what, send_and_close(&server, &bytes).await, expected);
        }
        for (what, bytes, expected) in odd_requests() {
            judge(what, raw(&server, &bytes).await, expected);
        }
        assert!(wrong.is_empty(), "{}: {wrong:#?}", store.name());
        let stored = server.client.get("/api/v1/pop/queue/victim").await;
        assert_eq!(stored.status, 204, "{}: {stored:?}", store.name());
        let health = server.client.get("/health").await;
        assert_eq!(health.status, 200, "{}: {health:?}", store.name());
        assert_eq!(server.terminate().await, Some(0), "{}", store.name());
    }
}

#[tokio::test]
async fn a_body_that_never_ends_is_cut_off_at_the_limit() {
    let server = Server::start(&Store::sqlite(), &["--body-bytes-max", "100000"]).await;
    let mut stream = TcpStream::connect(server.client.address).await.expect("connected");
    let head = framed("transfer-encoding: chunked", "");
    stream.write_all(&head).await.expect("sent");
    let chunk = format!("2710\r\n{}\r\n", " ".repeat(10_000));
    for _ in 0..10_000 {
        if stream.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut late = TcpStream::connect(server.client.address).await.expect("connected");
    late.write_all(&head).await.expect("sent");
    for _ in 0..11 {
        late.write_all(chunk.as_bytes()).await.expect("within what a socket holds");
    }
    assert_eq!(statuses(&mut late).await, [413]);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        let mut bytes = Vec::new();
        for id in ["a", "b", "c"] {
            let item = json!({"queue": "line", "payload": id, "transactionId": id});
            let body = json!({"items": [item]}).to_string();
            let head = format!("content-type: application/json\r\ncontent-length: {}", body.len());
            let one = framed(&head, &body);
            let one = String::from_utf8(one).expect("UTF-8").replace("connection: close\r\n", "");
            bytes.extend_from_slice(one.as_bytes());
        }
        bytes.extend_from_slice(&bodiless("GET", "/api/v1/pop/queue/line?batch=10&autoAck=true"));
        assert_eq!(raw(&server, &bytes).await, [201, 201, 201, 200], "{}", store.name());
        let again = server.client.get("/api/v1/pop/queue/line").await;
        assert_eq!(again.status, 204, "all three messages were in the answer: {again:?}");
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_bypasses_the_key() {
    let mut command = wakeline();
    command.env("WAKELINE_API_KEY", "a-key-that-only-the-tests-know");
    let store = Store::sqlite();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store.url()]);
    let server = Server::spawn(command).await;
    for path in [
        "/api/v1/pop/queue/q",
        "//api/v1/pop/queue/q",
        "/healthz/../api/v1/pop/queue/q",
        "/healthz/%2e%2e/api/v1/pop/queue/q",
        "/api/v1/./pop/queue/q",
        "/api/v1/pop/queue/q/",
        "/api/v1/pop/queue/q;x=y",
        "/API/v1/pop/queue/q",
        "/api%2fv1%2fpop%2fqueue%2fq",
        "http://x/api/v1/pop/queue/q",
    ] {
        let answered = raw(&server, &bodiless("GET", path)).await;
        assert!(answered == [401] || answered == [404], "{path}: {answered:?}");
    }
}

#[tokio::test]
async fn special_characters_in_names_have_no_effect() {
    let names = [
        "'; DROP TABLE wakeline.queues; --",
        "\"quoted\"",
        "../../etc/passwd",
        "%00",
        "$1",
        "a\\b",
        "\u{202e}gnp.exe",
        "e\u{301}",
        "\u{e9}",
        "😀",
        "*",
        "null",
    ];
    let longest = "ü".repeat(127);
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        let names: Vec<&str> = names.into_iter().chain([longest.as_str()]).collect();
        for name in &names {
            server.client.push(name, &[(name, name)]).await;
        }
        for name in &names {
            let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let path = format!("/api/v1/pop/queue/{encoded}?consumerGroup={encoded}&autoAck=true");
            // Two spellings of one letter are two names.
            assert_eq!(server.client.get(&path).await.ids(), [*name], "{}", store.name());
        }
    }
}
