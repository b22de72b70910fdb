//! Webhooks of several processes on one store, and of several endpoints in one process.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Behaviour, Hook, Receiver, Store, eventually, now};

/// Flags for a fallback that is too rare to let a test pass, and for tolerating late hints.
const NO_FALLBACK: [&str; 4] =
    ["--fallback-poll-interval-ms", "3600000", "--notify-delivery-timeout-ms", "30000"];

#[tokio::test]
async fn a_node_delivers_what_another_has_no_slots_for() {
    for store in Store::both().await {
        let small = [&NO_FALLBACK[..], &["--hook-slots", "1"]].concat();
        let a = Hook::serve(&store.url(), &small).await;
        let b = Hook::serve(&store.url(), &NO_FALLBACK).await;
        let hook = Hook::open(&a).await;
        let mut receiver = Receiver::start("r", Behaviour::Holds).await;
        hook.endpoint(&receiver, json!({"delivery": {"timeoutSeconds": 60}})).await;
        for number in 0..10 {
            hook.send(&format!("w-{number}")).await;
        }
        eventually("all are in flight at once", || async { receiver.held() == 10 }).await;
        receiver.set_behaviour(Behaviour::Answers(200)).await;
        eventually("all results are recorded", || async { hook.open_deliveries("r").await == 0 })
            .await;
        assert_eq!(receiver.count(), 10, "{}", store.name());
        let log = Hook(b.client).attempts("r").await;
        assert!(log.iter().all(|one| one.outcome == "succeeded" && one.number == 1), "{log:?}");
    }
}

/// Kills a node with deliveries in flight, while another node waits.
async fn kill_a_sender(store: &Store) {
    let a = Hook::serve(&store.url(), &NO_FALLBACK).await;
    let hook = Hook::open(&a).await;
    let mut receiver = Receiver::start("r", Behaviour::Holds).await;
    let timeout = Duration::from_secs(5);
    let lease = i64::try_from((timeout + Duration::from_secs(10)).as_micros()).expect("short");
    hook.endpoint(&receiver, json!({"delivery": {"timeoutSeconds": 5}})).await;
    for number in 0..5 {
        hook.send(&format!("w-{number}")).await;
    }
    eventually("all are in flight", || async { receiver.held() == 5 }).await;
    let b = Hook::serve(&store.url(), &NO_FALLBACK).await;
    let hook = Hook(b.client);
    a.kill().await;
    eventually("its connections end", || async { receiver.held() == 0 }).await;
    receiver.set_behaviour(Behaviour::Answers(200)).await;
    receiver.got(10).await;
    eventually("all results are recorded", || async { hook.open_deliveries("r").await == 0 }).await;

    let mut arrivals = receiver.log();
    assert_eq!(arrivals.len(), 10, "one request for each lease");
    arrivals.sort_by_key(|arrival| (arrival.message.clone(), arrival.at));
    let mut log = hook.attempts("r").await;
    log.sort_by_key(|one| (one.message.clone(), one.number));
    for (requests, attempts) in arrivals.chunks(2).zip(log.chunks(2)) {
        let outcomes = [attempts[0].outcome.as_str(), attempts[1].outcome.as_str()];
        assert_eq!(outcomes, ["unknown", "succeeded"], "{}", store.name());
        assert_eq!([attempts[0].number, attempts[1].number], [1, 2]);
        let after = requests[1].at - attempts[0].began_at;
        assert!(after >= lease, "sent before the lease ended: {after} us");
        assert!(
            after < lease + 10_000_000,
            "sent by the end of the lease, not by the fallback: {after} us"
        );
    }
}

#[tokio::test]
async fn another_node_sends_the_deliveries_of_a_killed_node_when_the_lease_ends() {
    let [sqlite, postgres] = Store::both().await;
    tokio::join!(kill_a_sender(&sqlite), kill_a_sender(&postgres));
}

#[tokio::test]
async fn a_draining_node_finishes_its_deliveries_and_leaves_the_rest_to_others() {
    for store in Store::both().await {
        let small = [&NO_FALLBACK[..], &["--hook-slots", "4"]].concat();
        let b = Hook::serve(&store.url(), &small).await;
        let hook = Hook::open(&b).await;
        let mut receiver = Receiver::start("r", Behaviour::Holds).await;
        hook.endpoint(&receiver, json!({"delivery": {"timeoutSeconds": 60}})).await;
        let began = now();
        for number in 0..4 {
            hook.send(&format!("w-{number}")).await;
        }
        eventually("B is full", || async { receiver.held() == 4 }).await;
        let a = Hook::serve(&store.url(), &NO_FALLBACK).await;
        for number in 4..20 {
            hook.send(&format!("w-{number}")).await;
        }
        eventually("all are in flight", || async { receiver.held() == 20 }).await;
        // Sixteen are in flight on A, which gets SIGTERM meanwhile.
        a.signal(Signal::TERM);
        eventually("A drains", || async {
            let answer = a.client.call("GET", "/readyz", "").await;
            !answer.is_ok_and(|answer| answer.status == 200)
        })
        .await;
        for number in 20..40 {
            hook.send(&format!("w-{number}")).await;
        }
        assert_eq!(receiver.count(), 20, "a draining node starts no delivery, and B is full");
        receiver.set_behaviour(Behaviour::Answers(200)).await;
        assert_eq!(a.ended().await, Some(0), "{}", store.name());
        eventually("all results are recorded", || async { hook.open_deliveries("r").await == 0 })
            .await;
        assert!(now() - began < 60_000_000, "no delivery waited for the end of a lease");
        let log = hook.attempts("r").await;
        assert_eq!((log.len(), receiver.count()), (40, 40), "{}", store.name());
        assert!(log.iter().all(|one| one.outcome == "succeeded" && one.number == 1), "{log:?}");
    }
}

#[tokio::test]
async fn nodes_that_come_and_go_leave_no_attempt_without_an_end() {
    for store in Store::both().await {
        let stays = Hook::serve(&store.url(), &NO_FALLBACK).await;
        let hook = Hook::open(&stays).await;
        let receiver = Receiver::start("r", Behaviour::Answers(200)).await;
        hook.endpoint(&receiver, json!({})).await;
        let sending = tokio::spawn(async move {
            for number in 0..300 {
                hook.send(&format!("w-{number}")).await;
            }
        });
        while !sending.is_finished() {
            let other = Hook::serve(&store.url(), &NO_FALLBACK).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(other.terminate().await, Some(0), "{}", store.name());
        }
        sending.await.expect("no panic");
        eventually("all results are recorded", || async { hook.open_deliveries("r").await == 0 })
            .await;
        let log = hook.attempts("r").await;
        assert_eq!((log.len(), receiver.count()), (300, 300), "{}", store.name());
        assert!(log.iter().all(|one| one.outcome == "succeeded" && one.number == 1), "{log:?}");
    }
}

#[tokio::test]
async fn a_slow_endpoint_delays_no_other() {
    for store in Store::both().await {
        let server = Hook::serve(&store.url(), &NO_FALLBACK).await;
        let hook = Hook::open(&server).await;
        let slow = Receiver::start("slow", Behaviour::Holds).await;
        let dripping = Receiver::start("dripping", Behaviour::Drips).await;
        let fast = Receiver::start("fast", Behaviour::Answers(200)).await;
        let delivery = json!({"timeoutSeconds": 100, "inFlightMax": 30});
        hook.endpoint(&slow, json!({"delivery": delivery})).await;
        hook.endpoint(&dripping, json!({"delivery": delivery})).await;
        hook.endpoint(&fast, json!({})).await;
        for number in 0..200 {
            hook.send(&format!("w-{number}")).await;
        }
        fast.got(200).await;
        eventually("all results are recorded", || async {
            hook.open_deliveries("fast").await == 0
        })
        .await;
        eventually("the slow endpoint has its maximum in flight", || async { slow.held() == 30 })
            .await;
        assert_eq!((slow.count(), dripping.count()), (30, 30), "{}", store.name());
        assert_eq!(fast.count(), 200);
        assert!(
            hook.attempts("slow").await.is_empty(),
            "no delivery to the slow endpoint has ended"
        );
    }
}
