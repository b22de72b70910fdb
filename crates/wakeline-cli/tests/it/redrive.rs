//! Dead letters from the command line, and redrives that outlast kill -9.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Client, Server, Store, eventually, output_of, wakeline};

async fn dlq(store: &Store, arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
    let mut command = wakeline();
    command.env("WAKELINE_STORE", store.url()).arg("dlq").args(arguments).arg("--json");
    let output = output_of(command).await;
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    (output.status.code(), lines)
}

/// Pushes messages and gives them all up.
async fn bury(client: &Client, queue: &str, ids: &[String]) {
    let messages: Vec<_> = ids.iter().map(|id| ("p", id.as_str())).collect();
    client.push(queue, &messages).await;
    let popped = client.get(&format!("/api/v1/pop/queue/{queue}?batch=10000")).await.json();
    let ack = |message: &Value| {
        json!({"transactionId": message["transactionId"], "partitionId": message["partitionId"],
            "leaseId": message["leaseId"], "status": "dlq", "error": "spoilt"})
    };
    let acks: Vec<_> = popped["messages"].as_array().expect("messages").iter().map(ack).collect();
    let settled = client.post("/api/v1/ack/batch", json!({"acknowledgments": acks})).await;
    assert_eq!(settled.status, 200, "{settled:?}");
}

async fn total(client: &Client) -> u64 {
    let listed = client.get("/api/v1/dlq?limit=1").await.json();
    listed["pagination"]["total"].as_u64().expect("a number")
}

#[tokio::test]
async fn dead_letters_are_handled_from_the_command_line() {
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        bury(&server.client, "q", &["a".into(), "b".into()]).await;
        bury(&server.client, "other", &["c".into()]).await;
        let (code, all) = dlq(&store, &["list"]).await;
        assert_eq!((code, all.len()), (Some(0), 3), "{}", store.name());
        let (_, found) = dlq(&store, &["list", "--queue", "q", "--error", "spoilt"]).await;
        assert_eq!(found.len(), 2);
        let (_, none) = dlq(&store, &["list", "--to", "2001-01-01T00:00:00Z"]).await;
        assert_eq!(none.len(), 0);
        let id = found[0]["deadLetterId"].as_str().expect("an id");
        let (_, shown) = dlq(&store, &["show", id]).await;
        assert_eq!((&shown[0]["data"], &shown[0]["queue"]), (&found[0]["data"], &json!("q")));
        assert_eq!(dlq(&store, &["show", "999999"]).await.0, Some(1));
        for wrong in [&["redrive"][..], &["purge"], &["list", "--from", "soon"]] {
            assert_eq!(dlq(&store, wrong).await.0, Some(2), "{wrong:?}");
        }
        let (_, started) = dlq(&store, &["redrive", id]).await;
        let job = started[0]["job"].as_str().expect("a job").to_owned();
        eventually("the servers carry it on", || async {
            dlq(&store, &["job", &job]).await.1[0]["state"] == "finished"
        })
        .await;
        let popped = server.client.get("/api/v1/pop/queue/q?autoAck=true").await;
        assert_eq!(popped.ids(), [found[0]["transactionId"].as_str().expect("an id")]);
        let (_, slow) = dlq(&store, &["redrive", "--queue", "other", "--rate", "1"]).await;
        let job = slow[0]["job"].as_str().expect("a job").to_owned();
        let (code, ended) = dlq(&store, &["job", &job, "--cancel"]).await;
        assert_eq!(code, Some(0));
        assert!(ended[0]["state"] != "running", "{ended:?}");
        assert_eq!(dlq(&store, &["purge", "--queue", "q"]).await.1[0]["purged"], 1);
        assert_eq!(dlq(&store, &["purge", "--all"]).await.0, Some(0));
        assert_eq!(dlq(&store, &["list"]).await.1.len(), 0);
    }
}

/// Redrives many, kills the server on the way, and expects each of them once.
async fn redriven_once(store: &Store, to_queue: Option<&str>) {
    const COUNT: usize = 120;
    let mut server = Server::start(store, &[]).await;
    let ids: Vec<String> = (0..COUNT).map(|n| n.to_string()).collect();
    bury(&server.client, "q", &ids).await;
    assert_eq!(total(&server.client).await, COUNT as u64);
    let body = json!({"filter": {"queue": "q"}, "toQueue": to_queue, "rate": 60});
    let job = server.client.post("/api/v1/dlq/redrive", body).await;
    assert_eq!(job.status, 202, "{job:?}");
    let path = format!("/api/v1/dlq/redrive/{}", job.json()["job"].as_str().expect("an id"));
    for part in [COUNT / 10, COUNT / 3] {
        eventually("it goes on", || async {
            let job = server.client.get(&path).await.json();
            job["done"].as_u64().is_some_and(|done| done as usize >= part)
        })
        .await;
        server.kill().await;
        server = Server::start(store, &[]).await;
    }
    eventually("it ends", || async {
        server.client.get(&path).await.json()["state"] == "finished"
    })
    .await;
    let ended = server.client.get(&path).await.json();
    assert_eq!((&ended["done"], &ended["failed"]), (&json!(COUNT), &json!(0)), "{ended}");
    assert_eq!(total(&server.client).await, 0, "{}", store.name());
    let queue = to_queue.unwrap_or("q");
    let mut came = Vec::new();
    loop {
        let pop = format!("/api/v1/pop/queue/{queue}?batch=1000&autoAck=true");
        let popped = server.client.get(&pop).await;
        if popped.status == 204 {
            break;
        }
        let popped = popped.json();
        let messages = popped["messages"].as_array().expect("messages");
        came.extend(
            messages.iter().map(|message| message["data"].as_str().expect("it").to_owned()),
        );
    }
    let once: BTreeSet<_> = came.iter().cloned().collect();
    assert_eq!((came.len(), once.len()), (COUNT, COUNT), "{}: none lost, none twice", store.name());
}

#[tokio::test]
async fn a_redrive_that_is_killed_goes_on_and_gives_each_message_back_once() {
    for store in Store::both().await {
        redriven_once(&store, None).await;
    }
}

#[tokio::test]
async fn a_redrive_to_another_queue_that_is_killed_pushes_each_message_once() {
    for store in Store::both().await {
        redriven_once(&store, Some("again")).await;
    }
}
