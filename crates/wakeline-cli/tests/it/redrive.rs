//! Dead letters on the command line, and redrives that survive kill -9.

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

/// Pushes messages and moves all of them to the dead letters.
async fn push_dead_letters(client: &Client, queue: &str, ids: &[String]) {
    let messages: Vec<_> = ids.iter().map(|id| ("p", id.as_str())).collect();
    client.push(queue, &messages).await;
    let popped = client.get(&format!("/api/v1/pop/queue/{queue}?batch=10000")).await.json();
    let ack = |message: &Value| {
        json!({"transactionId": message["transactionId"], "partitionId": message["partitionId"],
            "leaseId": message["leaseId"], "status": "dlq", "error": "corrupt"})
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
        push_dead_letters(&server.client, "q", &["a".into(), "b".into()]).await;
        push_dead_letters(&server.client, "other", &["c".into()]).await;
        let (code, all) = dlq(&store, &["list"]).await;
        assert_eq!((code, all.len()), (Some(0), 3), "{}", store.name());
        let (_, found) = dlq(&store, &["list", "--queue", "q", "--error", "corrupt"]).await;
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
        eventually("a server finishes the job", || async {
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

/// Redrives many messages, kills the server meanwhile, and expects each message once.
async fn redriven_once(store: &Store, to_queue: Option<&str>) {
    const COUNT: usize = 120;
    let mut server = Server::start(store, &[]).await;
    let ids: Vec<String> = (0..COUNT).map(|n| n.to_string()).collect();
    push_dead_letters(&server.client, "q", &ids).await;
    assert_eq!(total(&server.client).await, COUNT as u64);
    let body = json!({"filter": {"queue": "q"}, "toQueue": to_queue, "rate": 60});
    let job = server.client.post("/api/v1/dlq/redrive", body).await;
    assert_eq!(job.status, 202, "{job:?}");
    let path = format!("/api/v1/dlq/redrive/{}", job.json()["job"].as_str().expect("an id"));
    for part in [COUNT / 10, COUNT / 3] {
        eventually("the job makes progress", || async {
            let job = server.client.get(&path).await.json();
            job["done"].as_u64().is_some_and(|done| done as usize >= part)
        })
        .await;
        server.kill().await;
        server = Server::start(store, &[]).await;
    }
    eventually("the job ends", || async {
        server.client.get(&path).await.json()["state"] == "finished"
    })
    .await;
    let ended = server.client.get(&path).await.json();
    assert_eq!((&ended["done"], &ended["failed"]), (&json!(COUNT), &json!(0)), "{ended}");
    assert_eq!(total(&server.client).await, 0, "{}", store.name());
    let queue = to_queue.unwrap_or("q");
    let mut received = Vec::new();
    loop {
        let pop = format!("/api/v1/pop/queue/{queue}?batch=1000&autoAck=true");
        let popped = server.client.get(&pop).await;
        if popped.status == 204 {
            break;
        }
        let popped = popped.json();
        let messages = popped["messages"].as_array().expect("messages");
        received.extend(
            messages.iter().map(|message| message["data"].as_str().expect("it").to_owned()),
        );
    }
    let once: BTreeSet<_> = received.iter().cloned().collect();
    assert_eq!(
        (received.len(), once.len()),
        (COUNT, COUNT),
        "{}: none lost, none twice",
        store.name()
    );
}

#[tokio::test]
async fn a_killed_redrive_continues_and_redelivers_each_message_once() {
    for store in Store::both().await {
        redriven_once(&store, None).await;
    }
}

#[tokio::test]
async fn a_killed_redrive_to_another_queue_pushes_each_message_once() {
    for store in Store::both().await {
        redriven_once(&store, Some("again")).await;
    }
}
