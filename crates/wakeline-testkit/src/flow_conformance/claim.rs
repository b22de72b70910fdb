//! Rules of claiming turns.

use std::collections::BTreeSet;

use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::Capabilities;
use wakeline_store::flow::{
    EnqueueOutcome, Envelope, HistoryBatch, InlineHistory, InstanceState, TurnClaim, TurnCommit,
    TurnRequest,
};

use super::{
    FlowBench, LEASE, MAIN, after, batch, capabilities, capability, dispatcher, event, id,
    new_instance, secs, start, start_of, step, texts, turn_line,
};

/// Rule 1: lanes are served in the order in which they became due.
pub async fn lanes_that_became_due_first_come_first(bench: &FlowBench) {
    bench.send(vec![Envelope { visible: after(10), ..start("third") }]).await;
    bench.advance(1).await;
    bench.start("first").await;
    bench.advance(1).await;
    bench.start("second").await;
    bench.advance(10).await;
    let mut order = Vec::new();
    for _ in 0..3 {
        order.push(bench.turn().await.instance.to_string());
    }
    assert_eq!(order, ["first", "second", "third"]);
}

/// Rule 1: a lane that always has messages does not starve the others.
pub async fn a_busy_lane_does_not_starve_the_others(bench: &FlowBench) {
    bench.start("busy").await;
    bench.advance(1).await;
    bench.start("other").await;
    let mut turn = bench.turn().await;
    assert_eq!(turn.instance, id("busy"));
    for _ in 0..3 {
        bench.advance(1).await;
        bench.send(vec![event("busy", "more")]).await;
        bench.committed(step(&turn)).await;
        turn = bench.turn().await;
        if turn.instance == id("other") {
            return;
        }
    }
    panic!("the other lane, due for seconds, was passed over");
}

/// Rule 1: a lane has one lease at a time.
pub async fn a_leased_lane_is_not_claimed_again(bench: &FlowBench) {
    bench.start("a").await;
    bench.turn().await;
    assert_eq!(bench.no_turn().await, Some(LEASE));
    assert_eq!(bench.no_turn_of(&Capabilities::Any).await, Some(LEASE));
    bench.start("b").await;
    assert_eq!(bench.turn().await.instance, id("b"), "other lanes are free");
}

/// Rule 2: messages that arrive during a lease belong to the next turn.
pub async fn messages_that_arrive_during_the_lease_are_for_the_next_turn(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.send(vec![event("a", "during")]).await;
    assert_eq!(bench.no_turn().await, Some(LEASE), "the lane is still leased");
    bench.committed(step(&turn)).await;
    let next = bench.turn().await;
    assert_eq!(texts(&next), ["during"]);
    assert_eq!((next.execution, next.last_event), (1, 1));
}

/// Rule 2: a turn takes visible messages only.
pub async fn a_turn_takes_only_visible_messages(bench: &FlowBench) {
    bench.start("a").await;
    bench.send(vec![Envelope { visible: after(20), ..event("a", "timer") }]).await;
    let turn = bench.turn().await;
    assert_eq!(texts(&turn), ["start"]);
    bench.advance(20).await;
    bench.committed(step(&turn)).await;
    assert_eq!(texts(&bench.turn().await), ["timer"], "it became visible during the lease");
}

/// Rule 2: a turn takes all visible messages, in order.
pub async fn a_turn_takes_all_visible_messages(bench: &FlowBench) {
    bench.start("a").await;
    let events = (0..500).map(|n| event("a", &n.to_string())).collect();
    bench.send(events).await;
    let turn = bench.turn().await;
    let expected: Vec<_> =
        ["start".to_owned()].into_iter().chain((0..500).map(|n| n.to_string())).collect();
    assert_eq!(texts(&turn), expected);
}

/// Rule 3: a turn includes everything that a dispatcher needs.
pub async fn a_turn_has_the_state_of_its_instance(bench: &FlowBench) {
    bench.start("a").await;
    let first = bench.turn().await;
    assert_eq!(first.history, InlineHistory::Complete(Vec::new()));
    let parent = Some((id("parent"), 7));
    let new_instance =
        wakeline_store::flow::NewInstance { parent: parent.clone(), ..new_instance("ship") };
    let commit =
        TurnCommit { new_instance: Some(new_instance), history: Some(batch(1, 3)), ..step(&first) };
    bench.committed(commit).await;
    bench.advance(5).await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    assert_eq!(turn.name.as_ref().map(|name| name.as_str()), Some("ship"));
    assert_eq!(turn.parent, parent);
    assert_eq!(turn.capability, Some(capability(MAIN)));
    assert_eq!((turn.execution, turn.last_event), (1, 3));
    assert_eq!(turn.state, Some(InstanceState::Running));
    assert_eq!(turn.history, InlineHistory::Complete(vec![batch(1, 3)]));
    assert_eq!(turn.lease_for, LEASE);
    assert_eq!(turn.now, first.now.plus(secs(5)));
    assert!(turn.kv.is_empty());
}

/// Rule 3: a turn includes a short history; a long one is read separately.
pub async fn a_long_history_is_not_included(bench: &FlowBench) {
    bench.running("a").await;
    let large = |first: u64, len: usize| HistoryBatch {
        events: Bytes::from(vec![b'e'; len]),
        ..batch(first, first)
    };
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    bench.committed(TurnCommit { history: Some(large(2, 20_000)), ..step(&turn) }).await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    let InlineHistory::Complete(history) = &turn.history else { panic!("20 kB are included") };
    assert_eq!(history, &[batch(1, 1), large(2, 20_000)]);
    bench.committed(TurnCommit { history: Some(large(3, 20_000)), ..step(&turn) }).await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    assert_eq!(turn.history, InlineHistory::TooLong);
    assert_eq!(turn.last_event, 3);
}

/// Rule 5: the same key returns the same turn.
pub async fn a_claim_repeated_with_its_key_returns_the_same_turn(bench: &FlowBench) {
    bench.start("a").await;
    bench.advance(1).await;
    bench.start("b").await;
    let request = dispatcher(&[MAIN]);
    let line = turn_line(&capabilities(&[MAIN]), 0);
    let claim = || vec![TurnClaim { requests: vec![request.clone()], ..line.clone() }];
    let first = bench.claim_turns(claim()).await.remove(0).turns.remove(0).expect("a turn");
    bench.send(vec![event("a", "later")]).await;
    let again = bench.claim_turns(claim()).await.remove(0).turns.remove(0).expect("a turn");
    assert_eq!(again.token, first.token);
    assert_eq!(again.messages, first.messages, "nothing new, and no attempt was counted");
    assert_eq!(again.attempt, 1);
    assert_eq!(bench.turn().await.instance, id("b"), "nothing new was leased");
    bench.advance(30).await;
    let later = bench.claim_turns(claim()).await.remove(0).turns.remove(0).expect("a turn");
    assert_eq!(later.attempt, 2, "an expired lease is no longer held");
}

/// Rule 5: this holds within one line only.
pub async fn a_key_that_holds_a_turn_of_another_line_is_free(bench: &FlowBench) {
    bench.send(vec![start_of("a", "one"), start_of("b", "two")]).await;
    let key = Uuid::new_v4();
    let claim = |needed: &str| {
        let line = capabilities(&[needed]);
        let request = TurnRequest { key, lease: LEASE, capabilities: line.clone() };
        vec![TurnClaim { capabilities: line, requests: vec![request], further: false }]
    };
    let one = bench.claim_turns(claim("one")).await.remove(0).turns.remove(0).expect("a turn");
    let two = bench.claim_turns(claim("two")).await.remove(0).turns.remove(0).expect("a turn");
    assert_eq!((one.instance, two.instance), (id("a"), id("b")));
}

/// Rule 7: every request of a claim gets another lane.
pub async fn requests_of_one_claim_get_different_lanes(bench: &FlowBench) {
    bench.send(vec![start("a"), start("b"), start("c")]).await;
    let line = capabilities(&[MAIN]);
    let answer = bench.claim_turns(vec![turn_line(&line, 5)]).await.remove(0);
    let got: BTreeSet<_> = answer.turns.iter().flatten().map(|turn| &turn.instance).collect();
    assert_eq!(got.len(), 3);
    let served: Vec<_> = answer.turns.iter().map(Option::is_some).collect();
    assert_eq!(served, [true, true, true, false, false], "in order of arrival");
    assert_eq!(answer.next_due, Some(LEASE));
}

/// Rule 6: such a claim reports the next due time even if every request was served.
pub async fn a_claim_that_looks_further_says_what_is_next_though_all_were_served(
    bench: &FlowBench,
) {
    bench.send(vec![start("a"), start("b")]).await;
    let mut next = Vec::new();
    for further in [true, true, false] {
        let line = TurnClaim { further, ..turn_line(&capabilities(&[MAIN]), 1) };
        let answer = bench.claim_turns(vec![line]).await.remove(0);
        assert_eq!(answer.turns[0].is_some(), further);
        next.push(answer.next_due);
    }
    assert_eq!(next, [Some(secs(0)), Some(LEASE), Some(LEASE)]);
}

/// Rule 7: this also holds over several lines.
pub async fn several_lines_share_without_doubling(bench: &FlowBench) {
    bench.send(vec![start_of("a", "one"), start_of("b", "two")]).await;
    let lines = vec![
        turn_line(&capabilities(&["one"]), 1),
        turn_line(&capabilities(&["one", "two"]), 2),
        turn_line(&Capabilities::Any, 1),
    ];
    let answers = bench.claim_turns(lines).await;
    let turns = answers.iter().flat_map(|answer| &answer.turns).flatten();
    let got: Vec<_> = turns.map(|turn| turn.instance.to_string()).collect();
    assert_eq!(got, ["a", "b"]);
}

/// A token has the key of its request and the rows that it covers.
pub async fn a_token_carries_the_key_of_its_request(bench: &FlowBench) {
    bench.send(vec![start("a"), start("b")]).await;
    let mut claim = turn_line(&capabilities(&[MAIN]), 2);
    claim.requests[1].lease = secs(7);
    let keys: Vec<_> = claim.requests.iter().map(|request| request.key).collect();
    let answer = bench.claim_turns(vec![claim]).await.remove(0);
    let turns: Vec<_> = answer.turns.into_iter().flatten().collect();
    assert_eq!(turns.iter().map(|turn| turn.token.key).collect::<Vec<_>>(), keys);
    assert_ne!(turns[0].token.lane, turns[1].token.lane);
    assert!(turns.iter().all(|turn| turn.token.work.is_none()));
    assert_eq!((turns[0].lease_for, turns[1].lease_for), (LEASE, secs(7)));
    bench.advance(7).await;
    bench.committed(step(&turns[0])).await;
    bench.stale(step(&turns[1])).await;
}

/// A claim without requests leases nothing; it only reports the next due time.
pub async fn a_claim_without_requests_takes_nothing(bench: &FlowBench) {
    bench.start("a").await;
    let line = capabilities(&[MAIN]);
    assert!(bench.claim_turns(vec![turn_line(&line, 0)]).await[0].turns.is_empty());
    assert!(bench.claim_turns(Vec::new()).await.is_empty());
    assert_eq!(bench.turn().await.attempt, 1);
}

/// The capability is known from the start message on, and is checked before anything is locked.
pub async fn lanes_of_other_capabilities_are_not_touched(bench: &FlowBench) {
    bench.send(vec![start_of("old", "ship@1.0.0")]).await;
    bench.advance(1).await;
    bench.send(vec![start_of("new", "ship@2.0.0")]).await;
    let turn = bench.turn_of(&capabilities(&["ship@2.0.0", "other"])).await;
    assert_eq!(turn.instance, id("new"), "the older one is passed over");
    assert_eq!(bench.no_turn_of(&capabilities(&["ship@1.0", "ship"])).await, None);
    let turn = bench.turn_of(&capabilities(&["ship@1.0.0"])).await;
    assert_eq!((turn.instance.as_str(), turn.attempt), ("old", 1), "it was never leased");
}

/// A dispatcher without capabilities gets no turn.
pub async fn a_dispatcher_without_capabilities_gets_nothing(bench: &FlowBench) {
    bench.start("a").await;
    assert_eq!(bench.no_turn_of(&capabilities(&[])).await, None);
}

/// A dispatcher for any capability gets turns of all capabilities.
pub async fn any_capability_takes_whatever_there_is(bench: &FlowBench) {
    bench.send(vec![start_of("a", "one"), start_of("b", "two")]).await;
    bench.turn_of(&Capabilities::Any).await;
    bench.turn_of(&Capabilities::Any).await;
    assert_eq!(bench.no_turn_of(&Capabilities::Any).await, Some(LEASE));
}

/// A turn may pin the capability that the instance needs from then on.
pub async fn the_last_turn_that_pinned_says_what_a_lane_needs(bench: &FlowBench) {
    bench.send(vec![start_of("a", "ship")]).await;
    let pin = |to: &str| {
        let pinned =
            wakeline_store::flow::Pinned { capability: capability(to), version: Some(to.into()) };
        Some(pinned)
    };
    let turn = bench.turn_of(&capabilities(&["ship"])).await;
    bench.committed(TurnCommit { pinned: pin("ship@1"), ..step(&turn) }).await;
    let sent = bench.send(vec![event("a", "x"), Envelope { unique: false, ..start_of("a", "y") }]);
    assert_eq!(sent.await, [EnqueueOutcome::Queued; 2]);
    assert_eq!(bench.no_turn_of(&capabilities(&["ship", "y"])).await, None);
    let turn = bench.turn_of(&capabilities(&["ship@1"])).await;
    assert_eq!(turn.capability, Some(capability("ship@1")));
    bench.committed(step(&turn)).await;
    let detail = bench.detail("a").await;
    assert_eq!(detail.version.as_deref(), Some("ship@1"), "a turn without a pin keeps it");
    assert_eq!(detail.capability, Some(capability("ship@1")));
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn_of(&capabilities(&["ship@1"])).await;
    bench.committed(TurnCommit { pinned: pin("ship@2"), ..step(&turn) }).await;
    bench.send(vec![event("a", "x")]).await;
    assert_eq!(bench.no_turn_of(&capabilities(&["ship@1"])).await, None);
    bench.turn_of(&capabilities(&["ship@2"])).await;
}
