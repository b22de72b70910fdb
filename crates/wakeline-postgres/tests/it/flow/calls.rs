//! Fused calls, and hints to other nodes.

use std::collections::HashSet;

use futures_util::future::join_all;
use wakeline_core::{ActivityRoute, FlowChange, FlowChangeKind, Timestamp};
use wakeline_store::StoreAdmin as _;
use wakeline_store::StoreError;
use wakeline_store::flow::{
    EnqueueOutcome, Envelope, FlowReader as _, FlowStore as _, InstanceState, StatusChange,
    TurnCommit, TurnOutcome, Visible, Watched,
};
use wakeline_testkit::flow_conformance::{
    MAIN, Worker, capabilities, capability, event, finish, id, start, step, turn_line, work,
};

use crate::support::{Node, ReceivedHint, TestSchema, eventually};

#[tokio::test]
async fn a_bad_message_fails_alone_and_the_others_are_stored_once() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    let send = |n: usize| {
        // After the last timestamp that PostgreSQL supports.
        let visible = if n == 5 { Visible::At(Timestamp(i64::MAX)) } else { Visible::Now };
        let store = &store;
        async move { store.enqueue(vec![Envelope { visible, ..event("i", "e") }], vec![]).await }
    };
    let results = join_all((0..10).map(send)).await;
    for (n, result) in results.iter().enumerate() {
        match result {
            Ok(reply) => assert_eq!(
                (reply.outcomes.as_slice(), n != 5),
                ([EnqueueOutcome::Queued].as_slice(), true)
            ),
            Err(error) => assert_eq!((n, error.is_transient()), (5, false), "{error}"),
        }
    }
    store.enqueue(vec![start("i")], vec![]).await.expect("started");
    let line = turn_line(&capabilities(&[MAIN]), 1);
    let claimed = store.claim_turns(vec![line]).await.expect("claimed").remove(0);
    let turn = claimed.turns[0].as_ref().expect("a turn");
    assert_eq!(turn.messages.len(), 10, "nine events and the start");
    store.close().await;
}

#[tokio::test]
async fn a_bad_commit_fails_alone_and_the_others_are_written_once() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    let starts = (0..8).map(|n| start(&format!("i{n}"))).collect();
    store.enqueue(starts, vec![]).await.expect("started");
    let line = turn_line(&capabilities(&[MAIN]), 8);
    let turns = store.claim_turns(vec![line]).await.expect("claimed").remove(0).turns;
    let commits = turns.iter().flatten().map(|turn| {
        let commit = match turn.instance.as_str() {
            // PostgreSQL cannot store this text.
            "i4" => vec![StatusChange::Set("a\0b".to_owned())],
            _ => vec![StatusChange::Set("fine".to_owned())],
        };
        store.commit_turn(TurnCommit { status: commit, ..step(turn) })
    });
    for (n, result) in join_all(commits).await.into_iter().enumerate() {
        match result {
            Ok(reply) => assert!(matches!(reply.outcome, TurnOutcome::Committed { .. })),
            Err(error) => assert_eq!((n, error.is_transient()), (4, false), "{error}"),
        }
        let there = store.instance(&id(&format!("i{n}"))).await.expect("read");
        match there {
            Watched::Found(detail) if n == 4 => assert_eq!(detail.state, InstanceState::Pending),
            Watched::Found(detail) => assert_eq!(detail.status_version, 1),
            Watched::Missing => panic!("i{n} is missing"),
        }
    }
    store.close().await;
}

#[tokio::test]
async fn a_commit_without_a_birth_fails_alone() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    store.enqueue(vec![start("a"), start("b"), start("c")], vec![]).await.expect("started");
    let line = turn_line(&capabilities(&[MAIN]), 3);
    let turns = store.claim_turns(vec![line]).await.expect("claimed").remove(0).turns;
    let commits = turns.iter().flatten().enumerate().map(|(n, turn)| {
        let whole = step(turn);
        let new_instance = whole.new_instance.clone().filter(|_| n != 1);
        store.commit_turn(TurnCommit { new_instance, ..whole })
    });
    let results = join_all(commits).await;
    assert!(
        matches!(results[1], Err(StoreError::Invalid { field: "new_instance", .. })),
        "{results:?}"
    );
    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
    store.close().await;
}

#[tokio::test]
async fn two_concurrent_commits_of_one_turn_count_once() {
    let schema = TestSchema::new().await;
    let store = schema.store().await;
    store.enqueue(vec![start("a")], vec![]).await.expect("started");
    let line = turn_line(&capabilities(&[MAIN]), 1);
    let turns = store.claim_turns(vec![line]).await.expect("claimed").remove(0).turns;
    let turn = turns[0].as_ref().expect("a turn");
    let results = join_all((0..6).map(|_| store.commit_turn(step(turn)))).await;
    let outcomes = results.into_iter().map(|result| result.expect("answered").outcome);
    let committed = outcomes.filter(|outcome| matches!(outcome, TurnOutcome::Committed { .. }));
    assert_eq!(committed.count(), 1);
    store.close().await;
}

#[tokio::test]
async fn rival_nodes_never_get_the_same_turn() {
    let schema = TestSchema::new().await;
    let nodes = [schema.store().await, schema.store().await];
    let line = capabilities(&[MAIN]);
    for round in 0..5 {
        let starts = (0..20).map(|n| start(&format!("r{round}-{n}"))).collect();
        nodes[0].enqueue(starts, vec![]).await.expect("started");
        let claims = (0..10).map(|n| nodes[n % 2].claim_turns(vec![turn_line(&line, 2)]));
        let mut seen = HashSet::new();
        for claimed in join_all(claims).await {
            for turn in claimed.expect("claimed").remove(0).turns.into_iter().flatten() {
                assert!(seen.insert(turn.instance.clone()), "{} twice", turn.instance);
            }
        }
        // Turns that were locked by other claims are found by the next claim.
        while seen.len() < 20 {
            let claimed = nodes[1].claim_turns(vec![turn_line(&line, 20)]).await;
            let turns = claimed.expect("claimed").remove(0).turns;
            let before = seen.len();
            seen.extend(turns.into_iter().flatten().map(|turn| turn.instance));
            assert!(seen.len() > before, "a claim finds what is free");
        }
    }
    for node in nodes {
        node.close().await;
    }
}

fn received(node: &Node, wanted: &FlowChangeKind) -> bool {
    node.sink.all().iter().any(|received| match received {
        ReceivedHint::Flow(changes) => changes.iter().any(|change| change.what == *wanted),
        _ => false,
    })
}

#[tokio::test]
async fn other_nodes_get_hints_of_what_a_node_makes_available() {
    let schema = TestSchema::new().await;
    let (a, b) = (Node::start(schema.options()).await, Node::start(schema.options()).await);
    eventually("it knows the other", async || a.store.peers() == Some(1)).await;
    a.store.enqueue(vec![start("i")], vec![]).await.expect("started");
    let turn_hint = FlowChangeKind::Turn(capability(MAIN));
    eventually("a turn is hinted", async || received(&b, &turn_hint)).await;
    let line = turn_line(&capabilities(&[MAIN]), 1);
    let turns = b.store.claim_turns(vec![line]).await.expect("claimed").remove(0).turns;
    let turn = turns[0].as_ref().expect("a turn");
    let commit = TurnCommit { work: vec![work("i", 1)], ..step(turn) };
    b.store.commit_turn(commit).await.expect("committed");
    eventually("work is hinted", async || {
        received(&a, &FlowChangeKind::Work(ActivityRoute::default()))
    })
    .await;
    let own = received(&b, &FlowChangeKind::Work(ActivityRoute::default()));
    assert!(!own, "a node does not receive its own hints");
    for node in [a, b] {
        node.stop().await;
    }
}

#[tokio::test]
async fn an_outcome_is_hinted_to_other_nodes_only_if_it_is_watched() {
    let schema = TestSchema::new().await;
    let (a, b) = (Node::start(schema.options()).await, Node::start(schema.options()).await);
    eventually("it knows the other", async || a.store.peers() == Some(1)).await;
    a.store.enqueue(vec![start("seen"), start("unseen")], vec![]).await.expect("started");
    b.store.watch(vec![id("seen")]).await.expect("watched");
    let line = turn_line(&capabilities(&[MAIN]), 2);
    let turns = a.store.claim_turns(vec![line]).await.expect("claimed").remove(0).turns;
    for turn in turns.iter().flatten().rev() {
        let reply = a.store.commit_turn(finish(turn)).await.expect("committed");
        let outcome = FlowChange::now(FlowChangeKind::Outcome(turn.instance.clone()));
        assert!(reply.changes.contains(&outcome), "its own process is always notified");
    }
    eventually("the outcome", async || received(&b, &FlowChangeKind::Outcome(id("seen")))).await;
    assert!(!received(&b, &FlowChangeKind::Outcome(id("unseen"))));
    for node in [a, b] {
        node.stop().await;
    }
}

#[tokio::test]
async fn activities_go_to_one_worker_each_over_two_nodes() {
    let schema = TestSchema::new().await;
    let nodes = [schema.store().await, schema.store().await];
    for n in 0..30 {
        nodes[0].enqueue_work(work("i", n)).await.expect("stored");
    }
    let worker = Worker::plain();
    let claims = (0..10).map(|n| nodes[n % 2].claim_work(vec![worker.claim(3)]));
    let mut seen = HashSet::new();
    for claimed in join_all(claims).await {
        for item in claimed.expect("claimed").remove(0).work.into_iter().flatten() {
            assert!(seen.insert(item.key), "{:?} twice", item.key);
        }
    }
    for node in nodes {
        node.close().await;
    }
}
