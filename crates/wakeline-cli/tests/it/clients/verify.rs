//! Verifies the signatures of webhooks with the published crate `standardwebhooks`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::json;
use standardwebhooks::{Webhook, WebhookError};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::serve;
use crate::support::{Server, Store, eventually};

const RECEIVE_SECS_MAX: u64 = 30;

struct Received {
    headers: HeaderMap,
    body: Bytes,
}

impl Received {
    fn verifies(&self, key: &str) -> bool {
        match Webhook::new(key).expect("a key").verify(&self.body, &self.headers) {
            Ok(()) => true,
            Err(WebhookError::InvalidSignature) => false,
            Err(other) => panic!("not only the signature is wrong: {other}"),
        }
    }
}

struct Receiver {
    address: SocketAddr,
    received: mpsc::UnboundedReceiver<Received>,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (received_sender, received) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receive(stream, received_sender.clone()));
            }
        });
        Self { address, received }
    }

    async fn next(&mut self) -> Received {
        let most = Duration::from_secs(RECEIVE_SECS_MAX);
        let received = tokio::time::timeout(most, self.received.recv()).await;
        received.expect("a request arrives in time").expect("the receiver runs")
    }
}

async fn receive(stream: TcpStream, received_sender: mpsc::UnboundedSender<Received>) {
    let service = service_fn(|request: Request<Incoming>| async {
        let (head, body) = request.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        let _ = received_sender.send(Received { headers: head.headers, body });
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let connection = hyper::server::conn::http1::Builder::new();
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

/// A server with an application whose endpoint is the receiver.
struct Sender {
    server: Server,
    receiver: Receiver,
}

impl Sender {
    async fn start(store: &Store) -> Self {
        let (server, receiver) = (serve(store, None).await, Receiver::start().await);
        let sender = Self { server, receiver };
        let url = format!("http://{}/", sender.receiver.address);
        sender.call("POST", "/api/v1/app", json!({"name": "A", "uid": "a"})).await;
        sender.call("POST", "/api/v1/app/a/endpoint", json!({"url": url, "uid": "e"})).await;
        sender
    }

    async fn call(&self, method: &str, path: &str, body: serde_json::Value) -> serde_json::Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.server.client.call(method, path, &body).await.expect("an answer");
        assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
        answer.json()
    }

    async fn key(&self) -> String {
        let secret = self.call("GET", "/api/v1/app/a/endpoint/e/secret", json!(null)).await;
        secret["key"].as_str().expect("a key").to_owned()
    }

    async fn rotate(&self, grace_secs: u64) -> String {
        let body = json!({"gracePeriodSeconds": grace_secs});
        self.call("POST", "/api/v1/app/a/endpoint/e/secret/rotate", body).await;
        self.key().await
    }

    async fn send(&mut self) -> Received {
        let body = json!({"eventType": "x", "payload": {"text": "grün"}});
        self.call("POST", "/api/v1/app/a/msg", body).await;
        self.receiver.next().await
    }
}

#[tokio::test]
async fn old_and_new_secrets_verify_during_a_rotation_and_only_the_new_one_afterwards() {
    for store in Store::both().await {
        let mut sender = Sender::start(&store).await;
        let first = sender.key().await;
        let received = sender.send().await;
        assert!(received.verifies(&first), "{}", store.name());
        let changed = Received { body: Bytes::from_static(b"{}"), ..received };
        assert!(!changed.verifies(&first), "{}", store.name());

        let second = sender.rotate(3600).await;
        let received = sender.send().await;
        assert!(received.verifies(&first) && received.verifies(&second), "{}", store.name());

        let third = sender.rotate(1).await;
        let sender = tokio::sync::Mutex::new(sender);
        eventually("the grace period of the second secret is over", || async {
            let received = sender.lock().await.send().await;
            assert!(received.verifies(&third) && received.verifies(&first), "{}", store.name());
            !received.verifies(&second)
        })
        .await;
        let mut sender = sender.into_inner();
        let fourth = sender.rotate(0).await;
        let received = sender.send().await;
        assert!(received.verifies(&fourth) && !received.verifies(&third), "{}", store.name());
    }
}
