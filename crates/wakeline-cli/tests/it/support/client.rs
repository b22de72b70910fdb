//! A small HTTP client over plain sockets, so that thousands of parked pops cost little.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Calls one server, with one connection per call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }

    /// The transaction ids of popped messages.
    pub(crate) fn ids(&self) -> Vec<String> {
        if self.status == 204 {
            return Vec::new();
        }
        let messages = self.json()["messages"].as_array().expect("messages").clone();
        let id = |message: Value| message["transactionId"].as_str().expect("an id").to_owned();
        messages.into_iter().map(id).collect()
    }
}

/// A request whose answer was not read yet.
pub(crate) struct Parked {
    stream: TcpStream,
}

impl Parked {
    /// Waits for the answer.
    pub(crate) async fn answer(mut self) -> std::io::Result<Answer> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).await?;
        let text = String::from_utf8(bytes).map_err(std::io::Error::other)?;
        let cut = || std::io::Error::other("the answer was cut off");
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(cut)?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(cut)?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        });
        if length.is_some_and(|length| length != Ok(body.len())) {
            return Err(cut());
        }
        Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Sends a request without waiting for its answer.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> std::io::Result<Parked> {
        self.send_with(method, path, "", body).await
    }

    /// Sends a request with additional header lines.
    pub(crate) async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> std::io::Result<Parked> {
        let mut stream = TcpStream::connect(self.address).await?;
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await?;
        Ok(Parked { stream })
    }

    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> std::io::Result<Answer> {
        self.send(method, path, body).await?.answer().await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "").await.expect("an answer")
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path, &body.to_string()).await.expect("an answer")
    }

    /// Sends a pop that waits.
    pub(crate) async fn park(&self, path: &str) -> Parked {
        self.send("GET", path, "").await.expect("sent")
    }

    /// Pushes messages whose payloads are their transaction ids.
    pub(crate) async fn push(&self, queue: &str, messages: &[(&str, &str)]) {
        let item = |(partition, id): &(&str, &str)| {
            let id = json!(id);
            json!({"queue": queue, "partition": partition, "payload": id, "transactionId": id})
        };
        let items: Vec<_> = messages.iter().map(item).collect();
        let answer = self.post("/api/v1/push", json!({"items": items})).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// Settles all messages of a pop.
    pub(crate) async fn ack(&self, popped: &Answer, group: Option<&str>) -> Answer {
        let popped = popped.json()["messages"].clone();
        let ack = |message: &Value| {
            json!({"transactionId": message["transactionId"], "leaseId": message["leaseId"],
                   "partitionId": message["partitionId"], "status": "completed"})
        };
        let popped = popped.as_array().expect("messages");
        let acks: Vec<_> = popped.iter().map(ack).collect();
        let body = json!({"acknowledgments": acks, "consumerGroup": group});
        self.post("/api/v1/ack/batch", body).await
    }
}
