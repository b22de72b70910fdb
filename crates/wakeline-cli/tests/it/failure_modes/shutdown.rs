//! SIGTERM under load, repeatedly: no message is left under a lease without a holder.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{Answer, Client, Server, Store, eventually, long};

/// What producers and consumers share. They follow the server to its next address.
struct Load {
    address: Mutex<SocketAddr>,
    producing: AtomicBool,
    consuming: AtomicBool,
}

impl Load {
    fn client(&self) -> Client {
        Client::new(*self.address.lock().expect("not poisoned"))
    }

    /// Repeats a call until there is a whole answer whose status is below 500.
    async fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        loop {
            match self.client().call(method, path, body).await {
                Ok(answer) if answer.status < 500 => return answer,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    async fn produce(self: Arc<Self>, writer: usize) {
        for number in 0.. {
            if !self.producing.load(Ordering::SeqCst) {
                return;
            }
            let item = |n: usize| {
                json!({"queue": "q", "partition": format!("p{}", n % 20), "payload": n,
                       "transactionId": format!("{writer}-{number}-{n}")})
            };
            let items: Vec<_> = (0..5).map(|n| item(number * 5 + n)).collect();
            let body = json!({"items": items}).to_string();
            assert_eq!(self.call("POST", "/api/v1/push", &body).await.status, 201);
        }
    }

    async fn consume(self: Arc<Self>) {
        while self.consuming.load(Ordering::SeqCst) {
            let path = "/api/v1/pop/queue/q?wait=true&timeout=300&batch=10&partitions=3";
            let popped = self.call("GET", path, "").await;
            if popped.status == 204 {
                continue;
            }
            let ack = |message: &Value| {
                json!({"transactionId": message["transactionId"], "leaseId": message["leaseId"],
                       "partitionId": message["partitionId"], "status": "completed"})
            };
            let popped = popped.json();
            let acks: Vec<_> =
                popped["messages"].as_array().expect("messages").iter().map(ack).collect();
            let body = json!({"acknowledgments": acks}).to_string();
            assert_eq!(self.call("POST", "/api/v1/ack/batch", &body).await.status, 200);
        }
    }
}

async fn lag(client: Client) -> u64 {
    let groups = client.get("/api/v1/consumer-groups").await.json();
    let lag = |group: &Value| group["totalLag"].as_u64().expect("a number");
    groups.as_array().expect("groups").iter().map(lag).sum()
}

#[tokio::test]
async fn a_node_that_is_stopped_under_load_leaves_no_lease_behind() {
    let rounds = if long() { 50 } else { 6 };
    for store in Store::both().await {
        let mut server = Server::start(&store, &[]).await;
        // A lease that a stopped node leaves behind lasts ten times longer than the test waits.
        let options = json!({"queue": "q", "options": {"leaseTime": 300}});
        assert_eq!(server.client.post("/api/v1/configure", options).await.status, 200);
        let load = Arc::new(Load {
            address: Mutex::new(server.client.address),
            producing: true.into(),
            consuming: true.into(),
        });
        let (mut producers, mut consumers) = (JoinSet::new(), JoinSet::new());
        (0..3).for_each(|writer| drop(producers.spawn(Arc::clone(&load).produce(writer))));
        (0..8).for_each(|_| drop(consumers.spawn(Arc::clone(&load).consume())));
        for round in 0..rounds {
            tokio::time::sleep(Duration::from_millis(200 + 37 * (round % 7))).await;
            assert_eq!(server.terminate().await, Some(0), "{}", store.name());
            server = Server::start(&store, &[]).await;
            *load.address.lock().expect("not poisoned") = server.client.address;
        }
        load.producing.store(false, Ordering::SeqCst);
        while producers.join_next().await.transpose().expect("no panic").is_some() {}
        let client = server.client;
        eventually("all is consumed", || async { lag(client).await == 0 }).await;
        load.consuming.store(false, Ordering::SeqCst);
        while consumers.join_next().await.transpose().expect("no panic").is_some() {}
    }
}

#[tokio::test]
async fn messages_claimed_slowly_for_drained_pops_are_released() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let server = Server::start(&store, &[]).await;
    server.client.push("q", &[("p", "x")]).await;
    assert_eq!(server.client.get("/api/v1/pop/queue/other").await.status, 204);
    let rival = database.client().await;
    let lock = "BEGIN; LOCK TABLE wakeline.cursors IN ACCESS EXCLUSIVE MODE";
    rival.batch_execute(lock).await.expect("locked");
    let parked = server.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    eventually("the claim waits for the lock", || async {
        rival.query_one(waits, &[]).await.expect("read").get::<_, i64>(0) > 0
    })
    .await;
    let stopping = tokio::spawn(server.terminate());
    let drained = parked.answer().await.expect("an answer");
    assert_eq!(drained.status, 204, "{drained:?}");
    rival.batch_execute("ROLLBACK").await.expect("unlocked");
    assert_eq!(stopping.await.expect("no panic"), Some(0));
    let again = Server::start(&store, &[]).await;
    let popped = again.client.get("/api/v1/pop/queue/q").await;
    assert_eq!(popped.ids(), ["x"], "the message is still leased");
    assert_eq!(
        popped.json()["messages"][0]["attempt"],
        1,
        "the released claim is not counted as an attempt"
    );
}
