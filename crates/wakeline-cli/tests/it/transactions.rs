//! Transactions over all APIs, interrupted at every call of the store: a transaction happens as a
//! whole or not at all, and repeating it completes it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wakeline_access::AccessOptions;
use wakeline_store::Backend;
use wakeline_testkit::faults::{Fault, FaultingStore};

use crate::support::{Answer, Client, Node, Store};

/// More calls than any transaction makes.
const CALLS_MAX: u64 = 20;

/// One transaction with an operation of every kind. All names in it contain its number.
struct Transaction {
    number: u64,
    popped: Value,
}

impl Transaction {
    async fn prepare(client: Client, number: u64) -> Self {
        client.push(&format!("from-{number}"), &[("p", "m")]).await;
        let timer = json!({"operations": [{"op": "schedule", "queue": format!("to-{number}"),
                                           "timerKey": "old", "delayMs": 3_600_000}]});
        assert_eq!(client.post("/api/v1/timers", timer).await.status, 200);
        let popped = client.get(&format!("/api/v1/pop/queue/from-{number}")).await;
        Self { number, popped: popped.json() }
    }

    fn body(&self) -> Value {
        let (n, message) = (self.number, &self.popped["messages"][0]);
        json!({
            "operations": [
                {"type": "ack", "transactionId": "m", "partitionId": message["partitionId"],
                 "status": "completed"},
                {"type": "push", "items": [{"queue": format!("to-{n}"),
                    "payload": 1, "transactionId": "p"}]},
                {"type": "start", "name": "greet", "instance": format!("i-{n}")},
                {"type": "signal", "instance": format!("i-{n}"), "event": "go"},
                {"type": "emit", "application": "shop", "eventType": "a.b",
                 "eventId": format!("e-{n}"), "payload": {}},
                {"type": "schedule", "queue": format!("to-{n}"), "timerKey": "new",
                 "delayMs": 3_600_000},
                {"type": "cancel", "queue": format!("to-{n}"), "timerKey": "old"},
            ],
            "requiredLeases": [self.popped["leaseId"]],
        })
    }

    async fn commit(&self, client: Client) -> Answer {
        client.post("/api/v1/transaction", self.body()).await
    }

    /// Returns for each part of the transaction whether it has happened.
    async fn happened(&self, client: Client) -> Vec<(&'static str, bool)> {
        let n = self.number;
        let lease = self.popped["leaseId"].as_str().expect("a lease");
        let extended = client.post(&format!("/api/v1/lease/{lease}/extend"), json!({})).await;
        let settled = extended.status != 200 || extended.json()["success"] == false;
        let there = client.get(&format!("/api/v1/messages?queue=to-{n}")).await.json();
        let there = there["messages"].as_array().expect("messages").len();
        let instance = client.get(&format!("/api/v1/orchestrations/i-{n}")).await.status == 200;
        let events = client.get("/api/v1/app/shop/msg?limit=250").await.json();
        let ours = |event: &&Value| event["eventId"] == format!("e-{n}");
        let emitted = events["data"].as_array().expect("messages").iter().filter(ours).count();
        let timers = client.get(&format!("/api/v1/timers/to-{n}")).await.json();
        let timer = |key: &str| {
            timers["rows"].as_array().expect("rows").iter().any(|row| row["timerKey"] == key)
        };
        assert!(there <= 1 && emitted <= 1, "an operation happened twice: {there}, {emitted}");
        vec![
            ("settled", settled),
            ("pushed", there == 1),
            ("started", instance),
            ("emitted", emitted == 1),
            ("scheduled", timer("new")),
            ("cancelled", !timer("old")),
        ]
    }
}

/// Interrupts a transaction at the call of the store with this number. Returns whether there was
/// such a call.
async fn interrupt(store: &Arc<dyn Backend>, healthy: &Node, call: u64, fault: Fault) -> bool {
    let number = call * 10 + Fault::ALL.iter().position(|one| *one == fault).expect("one") as u64;
    let transaction = Transaction::prepare(healthy.client, number).await;
    let faulting = Arc::new(FaultingStore::new(store.clone()));
    let node = Node::start(faulting.clone(), AccessOptions::default()).await;
    faulting.fail(call, fault);
    // A client that receives no answer gives up.
    let timeout = Duration::from_secs(if fault == Fault::HangAfter { 3 } else { 1 });
    let answer = tokio::time::timeout(timeout, transaction.commit(node.client)).await;
    let interrupted = faulting.pending() == 0;
    let what = format!("{fault:?} at call {call} ({:?})", faulting.calls());
    let happened = transaction.happened(healthy.client).await;
    let all = happened.iter().all(|(_, done)| *done);
    assert!(all || happened.iter().all(|(_, done)| !done), "{what}: {happened:?}");
    if let Ok(answer) = &answer {
        assert!(answer.status != 200 || all, "{what}: {answer:?}");
        assert!(!interrupted || answer.status >= 500 || answer.status == 200, "{what}: {answer:?}");
    }
    let again = transaction.commit(healthy.client).await;
    let expected = if all { 409 } else { 200 };
    assert_eq!(again.status, expected, "{what}, repeated: {again:?}");
    let happened = transaction.happened(healthy.client).await;
    assert!(happened.iter().all(|(_, done)| *done), "{what}, repeated: {happened:?}");
    interrupted
}

#[tokio::test]
async fn an_interrupted_transaction_happens_as_a_whole_or_not_at_all() {
    for store in Store::both().await {
        let name = store.name();
        let store = store.open().await;
        let healthy = Node::start(store.clone(), AccessOptions::default()).await;
        let app = json!({"name": "shop", "uid": "shop"});
        assert_eq!(healthy.client.post("/api/v1/app", app).await.status, 201);
        let mut calls = 0;
        for call in 1..=CALLS_MAX {
            let mut interrupted = false;
            for fault in Fault::ALL {
                interrupted = interrupt(&store, &healthy, call, fault).await;
            }
            if !interrupted {
                break;
            }
            calls = call;
        }
        eprintln!("{name}: interrupted at {calls} calls");
        assert!((1..CALLS_MAX).contains(&calls), "{name}: {calls}");
    }
}
