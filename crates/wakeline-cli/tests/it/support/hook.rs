//! An application with webhook endpoints on a running server.

use serde_json::{Value, json};

use super::client::Client;
use super::receiver::{Receiver, SECRET};
use super::server::{Server, wakeline};
use crate::hook_history::{Ended, Logged};

/// Encryption keys. All servers of a test must have the same.
pub(crate) const KEYS: &str = "a:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// Calls a server, with requests about the application `a`.
#[derive(Clone, Copy)]
pub(crate) struct Hook(pub(crate) Client);

impl Hook {
    /// Starts a server that may call receivers on this machine.
    pub(crate) async fn serve(url: &str, flags: &[&str]) -> Server {
        Self::serve_with(Some(KEYS), url, flags).await
    }

    /// Like [`Self::serve`], with other keys or without keys.
    pub(crate) async fn serve_with(keys: Option<&str>, url: &str, flags: &[&str]) -> Server {
        let mut command = wakeline();
        if let Some(keys) = keys {
            command.env("WAKELINE_ENCRYPTION_KEYS", keys);
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", url]);
        command.args(["--hook-allow", "127.0.0.0/8"]).args(flags);
        Server::spawn(command).await
    }

    /// Creates the application.
    pub(crate) async fn open(server: &Server) -> Self {
        let hook = Self(server.client);
        hook.post("/api/v1/app", json!({"name": "A", "uid": "a"})).await;
        hook
    }

    /// Creates an endpoint for a receiver, with the name of the receiver as uid. Returns its id.
    pub(crate) async fn endpoint(&self, receiver: &Receiver, more: Value) -> String {
        let mut body = json!({"url": receiver.url(), "uid": receiver.name, "secret": SECRET});
        let more = more.as_object().expect("an object").clone();
        body.as_object_mut().expect("an object").extend(more);
        let made = self.post("/api/v1/app/a/endpoint", body).await;
        made["id"].as_str().expect("an id").to_owned()
    }

    /// Sends a message that must be accepted. Returns its id.
    pub(crate) async fn send(&self, mark: &str) -> String {
        let body = json!({"eventType": "plain", "eventId": mark, "payload": {"mark": mark}});
        let made = self.post("/api/v1/app/a/msg", body).await;
        made["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.0.post(path, body).await;
        assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
        answer.json()
    }

    /// Sends a request, and checks the status of the answer.
    pub(crate) async fn expect(&self, status: u16, method: &str, path: &str, body: Value) -> Value {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.0.call(method, path, &text).await.expect("an answer");
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        if answer.body.is_empty() { Value::Null } else { answer.json() }
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.0.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Returns the number of deliveries of an endpoint that have not ended.
    pub(crate) async fn open_deliveries(&self, endpoint: &str) -> u64 {
        let stats = self.get(&format!("/api/v1/app/a/endpoint/{endpoint}/stats")).await;
        let count = |name: &str| stats[name].as_u64().expect("a count");
        count("pending") + count("sending")
    }

    /// Returns all attempts to deliver to an endpoint.
    pub(crate) async fn attempts(&self, endpoint: &str) -> Vec<Logged> {
        let mut all = Vec::new();
        let mut iterator = String::new();
        loop {
            let path = format!("/api/v1/app/a/attempt/endpoint/{endpoint}?limit=250{iterator}");
            let page = self.get(&path).await;
            let items = page["data"].as_array().expect("a list");
            all.extend(items.iter().map(|item| logged(endpoint, item)));
            if page["done"] == true {
                return all;
            }
            iterator = format!("&iterator={}", page["iterator"].as_str().expect("more follows"));
        }
    }

    /// Returns the deliveries of a message.
    pub(crate) async fn deliveries(&self, message: &str) -> Vec<Value> {
        let page = self.get(&format!("/api/v1/app/a/msg/{message}/delivery")).await;
        page["data"].as_array().expect("a list").clone()
    }
}

fn text(item: &Value, field: &str) -> String {
    item[field].as_str().unwrap_or_else(|| panic!("no {field} in {item}")).to_owned()
}

fn logged(endpoint: &str, item: &Value) -> Logged {
    let status = item["responseStatusCode"].as_u64().expect("a status");
    let status = u16::try_from(status).expect("a status");
    Logged {
        endpoint: endpoint.to_owned(),
        message: text(item, "msgId"),
        number: item["attemptNumber"].as_u64().expect("a number"),
        outcome: text(item, "outcome"),
        began_at: parse_time(&item["timestamp"]).expect("a time"),
        answer: (status > 0).then(|| (status, text(item, "response"))),
    }
}

/// Reads the state of a delivery.
pub(crate) fn ended(endpoint: &str, delivery: &Value) -> Ended {
    Ended {
        endpoint: endpoint.to_owned(),
        message: text(delivery, "msgId"),
        state: text(delivery, "state"),
        attempts: delivery["attempts"].as_u64().expect("a count"),
    }
}

/// Reads a time as microseconds. Returns `None` if the value is not a text.
pub(crate) fn parse_time(text: &Value) -> Option<i64> {
    let at: jiff::Timestamp = text.as_str()?.parse().expect("a time");
    Some(at.as_microsecond())
}
