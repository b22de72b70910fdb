//! `wakeline hook listen`: the answer of the developer's receiver decides about each event.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::support::{
    Behaviour, Hook, Receiver, SECRET, Server, Store, eventually, output_of, wakeline,
};

fn listen(server: &Server, receiver: &Receiver) -> Command {
    let mut command = wakeline();
    let url = format!("http://{}", server.client.address);
    command.args(["hook", "listen", "--server", &url, "--forward", &receiver.url()]);
    command.args(["--app", "a"]).stdout(Stdio::piped());
    command
}

/// Starts the command, and waits until it listens and has printed the signing secret.
async fn started(mut command: Command) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = command.spawn().expect("the binary starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let line = lines.next_line().await.expect("readable").expect("a line");
    assert!(line.contains("forwarding the events of application a to"), "{line}");
    let line = lines.next_line().await.expect("readable").expect("a line");
    assert!(line.contains("signed with the secret whsec_"), "{line}");
    (child, lines)
}

async fn stopped(mut child: Child, signal: Signal) -> Option<i32> {
    let pid = i32::try_from(child.id().expect("it runs")).expect("a pid");
    kill_process(Pid::from_raw(pid).expect("not zero"), signal).expect("signalled");
    child.wait().await.expect("waited").code()
}

#[tokio::test]
async fn listening_forwards_events_and_removes_its_endpoint() {
    for store in Store::both().await {
        let server = Hook::serve(&store.url(), &[]).await;
        let receiver = Receiver::start("local", Behaviour::Answers(204)).await;
        let mut command = listen(&server, &receiver);
        command.args(["--event-types", "invoice.*"]);
        let (child, mut lines) = started(command).await;
        let hook = Hook(server.client);
        for kind in ["order.made", "invoice.paid"] {
            let body = json!({"eventType": kind, "eventId": kind, "payload": {"mark": kind}});
            hook.post("/api/v1/app/a/msg", body).await;
        }
        receiver.got(1).await;
        let line = lines.next_line().await.expect("readable").expect("a line");
        assert!(line.contains("invoice.paid -> 204"), "{line}");
        eventually("it is acked", || async {
            hook.deliveries("invoice.paid").await[0]["state"] == "delivered"
        })
        .await;
        assert_eq!(stopped(child, Signal::INT).await, Some(0));
        let marks: Vec<_> = receiver.log().into_iter().map(|arrival| arrival.mark).collect();
        assert_eq!(marks, ["invoice.paid"], "{}", store.name());
        let left = hook.get("/api/v1/app/a/endpoint").await;
        assert_eq!(left["data"], json!([]), "{}", store.name());
    }
}

#[tokio::test]
async fn every_signal_that_ends_it_removes_its_endpoint() {
    let store = Store::sqlite();
    let server = Hook::serve(&store.url(), &[]).await;
    let receiver = Receiver::start("local", Behaviour::Answers(204)).await;
    for signal in [Signal::TERM, Signal::HUP] {
        let (child, _lines) = started(listen(&server, &receiver)).await;
        let hook = Hook(server.client);
        let there = hook.get("/api/v1/app/a/endpoint").await;
        assert_eq!(there["data"].as_array().map(Vec::len), Some(1), "{there}");
        assert_eq!(stopped(child, signal).await, Some(0), "{signal:?}");
        let left = hook.get("/api/v1/app/a/endpoint").await;
        assert_eq!(left["data"], json!([]), "{signal:?}");
    }
}

#[tokio::test]
async fn an_event_that_the_local_receiver_refuses_is_delivered_again() {
    for store in Store::both().await {
        let server = Hook::serve(&store.url(), &[]).await;
        let hook = Hook::open(&server).await;
        let mut receiver = Receiver::start("local", Behaviour::Answers(500)).await;
        // Events that are sent before the command runs wait in a named endpoint.
        let delivery = json!({"pull": true, "scheduleSeconds": [0.5, 0.5, 0.5, 0.5, 0.5]});
        let body = json!({"uid": "local", "secret": SECRET, "delivery": delivery});
        hook.post("/api/v1/app/a/endpoint", body).await;
        hook.send("w-0").await;

        let mut command = listen(&server, &receiver);
        command.args(["--endpoint", "local"]);
        let (child, _lines) = started(command).await;
        receiver.got(1).await;
        eventually("the refusal is in the log", || async {
            !hook.attempts("local").await.is_empty()
        })
        .await;
        receiver.set_behaviour(Behaviour::Answers(200)).await;
        eventually("it arrives", || async {
            hook.deliveries("w-0").await[0]["state"] == "delivered"
        })
        .await;
        let log = hook.attempts("local").await;
        assert_eq!(log.len(), receiver.count(), "{}", store.name());
        assert!(log.len() >= 2, "the event was delivered again");
        assert!(receiver.log().iter().all(|arrival| arrival.verified), "signed like a webhook");
        assert_eq!(stopped(child, Signal::INT).await, Some(0));
        hook.get("/api/v1/app/a/endpoint/local").await;
    }
}

#[tokio::test]
async fn no_event_is_held_while_another_is_forwarded() {
    for store in Store::both().await {
        let server = Hook::serve(&store.url(), &[]).await;
        let hook = Hook::open(&server).await;
        let mut receiver = Receiver::start("local", Behaviour::Holds).await;
        let body = json!({"uid": "local", "delivery": {"pull": true}});
        hook.post("/api/v1/app/a/endpoint", body).await;
        for mark in ["first", "second"] {
            hook.send(mark).await;
        }
        let mut command = listen(&server, &receiver);
        command.args(["--endpoint", "local"]);
        let (child, _lines) = started(command).await;
        receiver.got(1).await;
        assert_eq!(hook.deliveries("first").await[0]["state"], "in_flight");
        assert_eq!(hook.deliveries("second").await[0]["state"], "pending", "{}", store.name());
        receiver.set_behaviour(Behaviour::Answers(200)).await;
        eventually("both arrive", || async {
            hook.deliveries("second").await[0]["state"] == "delivered"
        })
        .await;
        assert_eq!(receiver.count(), 2);
        assert_eq!(stopped(child, Signal::INT).await, Some(0));
    }
}

#[tokio::test]
async fn a_named_endpoint_is_used_unchanged_and_only_if_it_is_a_pull_endpoint() {
    for store in Store::both().await {
        let server = Hook::serve(&store.url(), &[]).await;
        let hook = Hook::open(&server).await;
        let receiver = Receiver::start("local", Behaviour::Answers(200)).await;
        let body = json!({"uid": "live", "url": "http://127.0.0.1:9/", "description": "billing",
                          "eventTypes": ["invoice.paid"], "metadata": {"team": "blue"}});
        let live = hook.post("/api/v1/app/a/endpoint", body).await;
        let mut command = listen(&server, &receiver);
        command.args(["--endpoint", "live"]);
        let output = output_of(command).await;
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("live") && error.contains("is not a pull endpoint"), "{error}");
        assert_eq!(hook.get("/api/v1/app/a/endpoint/live").await, live, "{}", store.name());

        let body = json!({"uid": "mine", "description": "kept", "metadata": {"team": "blue"},
                          "eventTypes": ["a", "b"], "delivery": {"pull": true, "inFlightMax": 3}});
        let mine = hook.post("/api/v1/app/a/endpoint", body).await;
        let named = |types: Option<&str>| {
            let mut command = listen(&server, &receiver);
            command.args(["--endpoint", "mine"]);
            types.map(|types| command.args(["--event-types", types]));
            command
        };
        let (child, _lines) = started(named(None)).await;
        assert_eq!(stopped(child, Signal::INT).await, Some(0));
        assert_eq!(hook.get("/api/v1/app/a/endpoint/mine").await, mine, "{}", store.name());
        let (child, _lines) = started(named(Some("c"))).await;
        assert_eq!(stopped(child, Signal::INT).await, Some(0));
        let changed = hook.get("/api/v1/app/a/endpoint/mine").await;
        assert_eq!(changed["eventTypes"], json!(["c"]));
        for field in ["description", "metadata", "delivery", "url"] {
            assert_eq!(changed[field], mine[field], "{field}");
        }
    }
}
