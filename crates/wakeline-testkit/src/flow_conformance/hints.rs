//! Rules of the changes that calls report for waiters.

use bytes::Bytes;
use wakeline_core::{FlowChange, FlowLine};
use wakeline_store::flow::{
    Envelope, InstanceState, KvChange, NewWork, StatusChange, Suspension, TerminateInstance,
    TurnCommit,
};

use super::{
    FlowBench, MAIN, Worker, after, capabilities, earliest_due, event, finish, id, kv_key,
    main_line, secs, start, start_of, step, tagged, work,
};

fn outcome(instance: &str) -> FlowLine {
    FlowLine::Outcome(id(instance))
}

fn line(needed: &str) -> FlowLine {
    FlowLine::Turns(capabilities(&[needed]))
}

/// A message notifies the dispatchers that can run its instance, with the time it is due.
pub async fn a_message_notifies_dispatchers_that_can_run_its_instance(bench: &FlowBench) {
    let envelopes = vec![
        Envelope { visible: after(9), ..start_of("a", "one") },
        start_of("b", "two"),
        event("c", "early"),
    ];
    let changes = bench.enqueue(envelopes).await.changes;
    assert_eq!(earliest_due(&changes, &line("one")), Some(secs(9)));
    assert_eq!(earliest_due(&changes, &line("two")), Some(secs(0)));
    assert_eq!(earliest_due(&changes, &line("three")), None);
    let changes = bench.enqueue(vec![event("b", "x")]).await.changes;
    assert_eq!(earliest_due(&changes, &line("one")), None);
}

/// A start reports the events that waited for it.
pub async fn a_start_reports_the_events_that_waited_for_it(bench: &FlowBench) {
    bench.send(vec![event("a", "early")]).await;
    let delayed = Envelope { visible: after(60), ..start("a") };
    let changes = bench.enqueue(vec![delayed]).await.changes;
    assert_eq!(
        earliest_due(&changes, &main_line()),
        Some(secs(0)),
        "the lane is due with its event"
    );
    bench.turn().await;
}

/// A commit reports every turn and activity that it makes available.
pub async fn a_commit_reports_all_that_it_made_available(bench: &FlowBench) {
    bench.running("a").await;
    let commit = |turn: &wakeline_store::flow::TurnItem| TurnCommit {
        messages: vec![Envelope { visible: after(7), ..event("a", "timer") }, start_of("b", "b")],
        work: vec![tagged("a", 1, "gpu"), NewWork { visible: after(4), ..work("a", 2) }],
        ..step(turn)
    };
    let changes = bench.turned("a", commit).await.changes;
    assert_eq!(earliest_due(&changes, &main_line()), Some(secs(7)));
    assert_eq!(earliest_due(&changes, &line("b")), Some(secs(0)));
    assert_eq!(earliest_due(&changes, &Worker::of(false, &["gpu"]).line()), Some(secs(0)));
    assert_eq!(earliest_due(&changes, &Worker::plain().line()), Some(secs(4)));
    assert_eq!(earliest_due(&changes, &Worker::of(false, &["cpu"]).line()), None);
}

/// The end of a lease reports messages that came during the lease.
pub async fn a_commit_reports_messages_that_came_during_its_turn(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.send(vec![event("a", "meanwhile")]).await;
    let changes = bench.committed(step(&turn)).await.changes;
    assert_eq!(earliest_due(&changes, &main_line()), Some(secs(0)));
}

/// An abandon reports the item with its delay.
pub async fn an_abandon_reports_when_the_item_is_available(bench: &FlowBench) {
    bench.start("a").await;
    let token = bench.turn().await.token;
    let abandoned = async |token, seconds| -> Vec<FlowChange> {
        bench.flow.abandon(token, secs(seconds), false).await.expect("it is given back").1
    };
    assert_eq!(earliest_due(&abandoned(token, 5).await, &main_line()), Some(secs(5)));
    bench.add_work(tagged("a", 1, "gpu")).await;
    let gpu = Worker::of(false, &["gpu"]);
    let token = bench.work(&gpu).await.token;
    assert_eq!(earliest_due(&abandoned(token, 0).await, &gpu.line()), Some(secs(0)));
    let token = bench.work(&gpu).await.token;
    assert_eq!(earliest_due(&abandoned(token, 3).await, &gpu.line()), Some(secs(3)));
}

/// Work that is inserted outside of a turn is reported too.
pub async fn new_work_notifies_workers_that_can_run_it(bench: &FlowBench) {
    let changes = bench.flow.enqueue_work(tagged("a", 1, "gpu")).await.expect("work is stored");
    assert_eq!(earliest_due(&changes, &Worker::of(true, &["gpu"]).line()), Some(secs(0)));
    assert_eq!(earliest_due(&changes, &Worker::plain().line()), None);
}

/// A completion reports the turn of its message.
pub async fn a_completion_notifies_dispatchers_of_the_turn(bench: &FlowBench) {
    bench.running("a").await;
    bench.add_work(work("a", 1)).await;
    let item = bench.work(&Worker::plain()).await;
    let reply = bench.complete(item.token, Some(event("a", "done"))).await;
    assert_eq!(earliest_due(&reply.changes, &main_line()), Some(secs(0)));
}

/// Rule 13 of committing: waiters in this process are always notified.
pub async fn waiters_of_an_outcome_are_notified_of_state_status_and_values(bench: &FlowBench) {
    bench.running("a").await;
    let quiet = bench.turned("a", step).await.changes;
    assert_eq!(earliest_due(&quiet, &outcome("a")), None, "nothing changed");
    let status = vec![StatusChange::Set("s".into())];
    let kv = vec![KvChange::Set(kv_key("k"), Bytes::new())];
    let changes = bench.turned("a", |turn| TurnCommit { status, ..step(turn) }).await.changes;
    assert_eq!(earliest_due(&changes, &outcome("a")), Some(secs(0)), "the status");
    let changes = bench.turned("a", |turn| TurnCommit { kv, ..step(turn) }).await.changes;
    assert_eq!(earliest_due(&changes, &outcome("a")), Some(secs(0)), "a value");
    let changes = bench.turned("a", finish).await.changes;
    assert_eq!(earliest_due(&changes, &outcome("a")), Some(secs(0)), "the end");
    assert_eq!(earliest_due(&changes, &outcome("b")), None);
}

/// A termination notifies waiters of the outcome and the receivers of its messages.
pub async fn terminating_notifies_waiters_and_receivers(bench: &FlowBench) {
    bench.running("parent").await;
    bench.running("a").await;
    let command = TerminateInstance {
        instance: id("a"),
        state: InstanceState::Terminated,
        output: Bytes::new(),
        messages: vec![event("parent", "it is over")],
        new_instance: None,
    };
    let (done, changes) = bench.flow.terminate(command).await.expect("it is terminated");
    assert!(done);
    assert_eq!(earliest_due(&changes, &outcome("a")), Some(secs(0)));
    assert_eq!(earliest_due(&changes, &main_line()), Some(secs(0)));
}

/// Resuming reports the messages that waited.
pub async fn resuming_reports_the_messages_that_waited(bench: &FlowBench) {
    for name in ["a", "b"] {
        bench.start(name).await;
        let suspension = Suspension::Mismatch { reason: "changed".into() };
        assert!(bench.flow.suspend(&id(name), suspension).await.expect("suspended"));
    }
    let (resumed, changes) = bench.flow.resume(&id("a")).await.expect("resumed");
    assert!(resumed);
    assert_eq!(earliest_due(&changes, &main_line()), Some(secs(0)));
    bench.turn().await;
    let (resumed, changes) = bench.retry_mismatched(capabilities(&[MAIN])).await;
    assert_eq!(resumed, 1);
    assert_eq!(earliest_due(&changes, &main_line()), Some(secs(0)));
}

/// Watching returns the same as reading.
pub async fn watching_returns_the_same_as_reading(bench: &FlowBench) {
    bench.completed("ended").await;
    bench.running("running").await;
    bench.start("pending").await;
    let names = ["ended", "missing", "running", "pending", "ended"];
    let watched = bench.flow.watch(names.iter().map(|name| id(name)).collect()).await;
    let watched = watched.expect("instances are watched");
    assert_eq!(watched.len(), names.len());
    for (name, watched) in names.iter().zip(watched) {
        assert_eq!(watched, bench.watched(name).await, "{name}");
    }
    assert!(bench.flow.watch(Vec::new()).await.expect("answered").is_empty());
}
