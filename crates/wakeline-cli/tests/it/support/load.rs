//! Producers and consumers that record a history for the history checker.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;
use wakeline_core::Verdict;
use wakeline_testkit::history::{
    CallOutcome, ClientHistory, Push, SeenDelivery, SeenMessage, Settle, Span,
};

use super::{Client, Dice, Server, eventually};

const WRITERS: usize = 4;
const GROUPS: [&str; 2] = ["one", "two"];
const CONSUMERS_PER_GROUP: usize = 3;
const LEASE: Duration = Duration::from_secs(2);

/// Running producers and consumers.
pub(crate) struct Load {
    shared: Arc<Shared>,
    producers: JoinSet<()>,
    consumers: JoinSet<()>,
}

impl Load {
    /// Starts producers and consumers of a queue whose messages are retried without a limit.
    pub(crate) async fn begin(servers: &[&Server], seed: u64) -> Self {
        let options = json!({"queue": "q", "options": {"leaseTime": LEASE.as_secs(),
                                                       "retryLimit": 1_000_000, "retryDelay": 0}});
        assert_eq!(servers[0].client.post("/api/v1/configure", options).await.status, 200);
        let shared = Arc::new(Shared {
            started: Instant::now(),
            addresses: Mutex::default(),
            calls: AtomicUsize::new(0),
            history: Mutex::default(),
            producing: true.into(),
            consuming: true.into(),
        });
        let mut load = Self { shared, producers: JoinSet::new(), consumers: JoinSet::new() };
        load.set_servers(servers);
        for writer in 0..WRITERS {
            load.producers.spawn(Arc::clone(&load.shared).produce(writer));
        }
        for (index, group) in GROUPS.iter().cycle().take(CONSUMERS_PER_GROUP * 2).enumerate() {
            let consumer = Arc::clone(&load.shared).consume(group, seed + index as u64 + 1);
            load.consumers.spawn(consumer);
        }
        load
    }

    /// Makes the clients call these servers from now on, one after the other.
    pub(crate) fn set_servers(&self, servers: &[&Server]) {
        let addresses = servers.iter().map(|server| server.client.address).collect();
        *self.shared.addresses.lock().expect("not poisoned") = addresses;
    }

    /// Waits until all messages are consumed, and returns the history.
    pub(crate) async fn end(mut self, server: &Server) -> ClientHistory {
        self.shared.producing.store(false, Ordering::SeqCst);
        while self.producers.join_next().await.transpose().expect("no panic").is_some() {}
        eventually("all is consumed", || async {
            let groups = server.client.get("/api/v1/consumer-groups").await.json();
            let lag = |group: &Value| group["totalLag"].as_u64().expect("a number");
            groups.as_array().expect("groups").iter().map(lag).sum::<u64>() == 0
        })
        .await;
        self.shared.consuming.store(false, Ordering::SeqCst);
        while self.consumers.join_next().await.transpose().expect("no panic").is_some() {}
        let mut history = std::mem::take(&mut *self.shared.history.lock().expect("not poisoned"));
        history.drained_by = GROUPS.map(str::to_owned).to_vec();
        history
    }
}

/// The state that all clients share.
struct Shared {
    started: Instant,
    addresses: Mutex<Vec<SocketAddr>>,
    calls: AtomicUsize,
    history: Mutex<ClientHistory>,
    producing: AtomicBool,
    consuming: AtomicBool,
}

impl Shared {
    fn client(&self) -> Client {
        let addresses = self.addresses.lock().expect("not poisoned");
        let turn = self.calls.fetch_add(1, Ordering::Relaxed);
        Client::new(addresses[turn % addresses.len()])
    }

    fn record(&self, event: impl FnOnce(&mut ClientHistory)) {
        event(&mut self.history.lock().expect("not poisoned"));
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sends a request. Returns its span and the answer; `None` if there was no complete answer.
    async fn call(&self, method: &str, path: &str, body: &Value) -> (Span, Option<(u16, Value)>) {
        let from = self.now();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let calling = self.client();
        let call = calling.call(method, path, &body);
        let answer = tokio::time::timeout(Duration::from_secs(20), call).await;
        let span = Span { from, to: self.now() };
        let answer = answer.ok().and_then(Result::ok).map(|answer| {
            let json = if answer.body.is_empty() { Value::Null } else { answer.json() };
            (answer.status, json)
        });
        (span, answer)
    }

    /// Pushes numbered messages to the partition of this writer. Repeats each push until it
    /// succeeds.
    async fn produce(self: Arc<Self>, writer: usize) {
        let partition = format!("w{writer}");
        for number in 0.. {
            if !self.producing.load(Ordering::SeqCst) {
                return;
            }
            let message = format!("{writer}-{number}");
            let body = json!({"items": [{"queue": "q", "partition": partition,
                                         "transactionId": message, "payload": number}]});
            loop {
                let (span, answer) = self.call("POST", "/api/v1/push", &body).await;
                let ok = answer.is_some_and(|(status, _)| status == 201);
                let answer = if ok { CallOutcome::Ok } else { CallOutcome::Unknown };
                let (partition, message) = (partition.clone(), message.clone());
                self.record(|h| h.pushes.push(Push { partition, message, span, answer }));
                if ok {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    /// Pops and settles messages. Sometimes it omits to settle them like a consumer that crashes,
    /// or settles them after its lease has expired.
    async fn consume(self: Arc<Self>, group: &'static str, seed: u64) {
        let mut dice = Dice::new(seed);
        while self.consuming.load(Ordering::SeqCst) {
            let wait = dice.below(2) == 0;
            let path = format!(
                "/api/v1/pop/queue/q?batch=7&partitions=2&timeout=500\
                 &consumerGroup={group}&wait={wait}"
            );
            let (span, answer) = self.call("GET", &path, &Value::Null).await;
            let Some((200, popped)) = answer else {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            };
            let messages = popped["messages"].as_array().expect("messages").clone();
            self.record(|h| h.deliveries.extend(deliveries(group, span, &messages)));
            let may_fail = self.producing.load(Ordering::SeqCst);
            match dice.below(100) {
                0 if may_fail => continue,
                1 if may_fail => tokio::time::sleep(LEASE + Duration::from_millis(300)).await,
                _ => {}
            }
            self.settle(group, &messages).await;
        }
    }

    async fn settle(&self, group: &str, messages: &[Value]) {
        let ack = |message: &Value| {
            json!({"transactionId": message["transactionId"], "leaseId": message["leaseId"],
                   "partitionId": message["partitionId"], "status": "completed"})
        };
        let acks: Vec<_> = messages.iter().map(ack).collect();
        let body = json!({"acknowledgments": acks, "consumerGroup": group});
        let (span, answer) = self.call("POST", "/api/v1/ack/batch", &body).await;
        for (index, message) in messages.iter().enumerate() {
            let answer = match &answer {
                Some((200, results)) if results[index]["success"] == true => CallOutcome::Ok,
                Some((200, _)) => CallOutcome::Refused,
                _ => CallOutcome::Unknown,
            };
            let settle = Settle {
                group: group.to_owned(),
                partition: text(message, "partition"),
                lease: text(message, "leaseId"),
                what: Some((text(message, "transactionId"), Verdict::Completed)),
                span,
                answer,
            };
            self.record(|h| h.settles.push(settle));
        }
    }
}

fn text(message: &Value, field: &str) -> String {
    message[field].as_str().expect("a text").to_owned()
}

/// Returns one delivery for each partition of a pop.
fn deliveries(group: &str, span: Span, messages: &[Value]) -> Vec<SeenDelivery> {
    let mut all: Vec<SeenDelivery> = Vec::new();
    for message in messages {
        let partition = text(message, "partition");
        let offset = message["offset"].as_i64().expect("an offset");
        let seen = SeenMessage { message: text(message, "transactionId"), offset };
        match all.iter_mut().find(|delivery| delivery.partition == partition) {
            Some(delivery) => delivery.messages.push(seen),
            None => all.push(SeenDelivery {
                group: group.to_owned(),
                partition,
                lease: Some(text(message, "leaseId")),
                lease_for: LEASE,
                span,
                messages: vec![seen],
            }),
        }
    }
    all
}
