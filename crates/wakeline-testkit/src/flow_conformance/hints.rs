//! What waiters are told.

use bytes::Bytes;
use wakeline_core::{FlowChange, FlowLine};
use wakeline_store::flow::{
    Envelope, InstanceState, KvChange, NewWork, StatusChange, Suspension, TerminateInstance,
    TurnCommit,
};

use super::{
    FlowBench, MAIN, Worker, after, capabilities, event, finish, id, kv_key, main_line, secs,
    start, start_of, step, tagged, told, work,
};

fn outcome(instance: &str) -> FlowLine {
    FlowLine::Outcome(id(instance))
}

fn line(needed: &str) -> FlowLine {
    FlowLine::Turns(capabilities(&[needed]))
}

/// Messages tell those who can run them, and when.
pub async fn a_message_tells_those_who_can_run_its_instance(bench: &FlowBench) {
    let envelopes = vec![
        Envelope { visible: after(9), ..start_of("a", "one") },
        start_of("b", "two"),
        event("c", "early"),
    ];
    let changes = bench.enqueue(envelopes).await.changes;
    assert_eq!(told(&changes, &line("one")), Some(secs(9)));
    assert_eq!(told(&changes, &line("two")), Some(secs(0)));
    assert_eq!(told(&changes, &line("three")), None);
    let changes = bench.enqueue(vec![event("b", "x")]).await.changes;
    assert_eq!(told(&changes, &line("one")), None);
}

/// A start tells of the events that waited for it.
pub async fn a_start_tells_of_what_waited_for_it(bench: &FlowBench) {
    bench.send(vec![event("a", "early")]).await;
    let delayed = Envelope { visible: after(60), ..start("a") };
    let changes = bench.enqueue(vec![delayed]).await.changes;
    assert_eq!(told(&changes, &main_line()), Some(secs(0)), "the lane is due with its event");
    bench.turn().await;
}

/// What a commit makes available.
pub async fn a_commit_tells_of_all_it_made_available(bench: &FlowBench) {
    bench.running("a").await;
    let commit = |turn: &wakeline_store::flow::TurnItem| TurnCommit {
        messages: vec![Envelope { visible: after(7), ..event("a", "timer") }, start_of("b", "b")],
        work: vec![tagged("a", 1, "gpu"), NewWork { visible: after(4), ..work("a", 2) }],
        ..step(turn)
    };
    let changes = bench.turned("a", commit).await.changes;
    assert_eq!(told(&changes, &main_line()), Some(secs(7)));
    assert_eq!(told(&changes, &line("b")), Some(secs(0)));
    assert_eq!(told(&changes, &Worker::of(false, &["gpu"]).line()), Some(secs(0)));
    assert_eq!(told(&changes, &Worker::plain().line()), Some(secs(4)));
    assert_eq!(told(&changes, &Worker::of(false, &["cpu"]).line()), None);
}

/// The end of a lease tells what came meanwhile.
pub async fn a_commit_tells_what_came_during_its_turn(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.send(vec![event("a", "meanwhile")]).await;
    let changes = bench.committed(step(&turn)).await.changes;
    assert_eq!(told(&changes, &main_line()), Some(secs(0)));
}

/// Giving back tells, with the delay.
pub async fn an_abandon_tells_when_it_is_available(bench: &FlowBench) {
    bench.start("a").await;
    let token = bench.turn().await.token;
    let abandoned = async |token, seconds| -> Vec<FlowChange> {
        bench.flow.abandon(token, secs(seconds), false).await.expect("it is given back").1
    };
    assert_eq!(told(&abandoned(token, 5).await, &main_line()), Some(secs(5)));
    bench.add_work(tagged("a", 1, "gpu")).await;
    let gpu = Worker::of(false, &["gpu"]);
    let token = bench.work(&gpu).await.token;
    assert_eq!(told(&abandoned(token, 0).await, &gpu.line()), Some(secs(0)));
    let token = bench.work(&gpu).await.token;
    assert_eq!(told(&abandoned(token, 3).await, &gpu.line()), Some(secs(3)));
}

/// Work outside of a turn tells too.
pub async fn new_work_tells_those_who_take_it(bench: &FlowBench) {
    let changes = bench.flow.enqueue_work(tagged("a", 1, "gpu")).await.expect("work is stored");
    assert_eq!(told(&changes, &Worker::of(true, &["gpu"]).line()), Some(secs(0)));
    assert_eq!(told(&changes, &Worker::plain().line()), None);
}

/// A completion tells the lane of its message.
pub async fn a_completion_tells_of_the_turn(bench: &FlowBench) {
    bench.running("a").await;
    bench.add_work(work("a", 1)).await;
    let item = bench.work(&Worker::plain()).await;
    let reply = bench.complete(item.token, Some(event("a", "done"))).await;
    assert_eq!(told(&reply.changes, &main_line()), Some(secs(0)));
}

/// Rule 13 of committing: waiters in this process are always told.
pub async fn waiters_of_an_outcome_are_told_of_state_status_and_values(bench: &FlowBench) {
    bench.running("a").await;
    let quiet = bench.turned("a", step).await.changes;
    assert_eq!(told(&quiet, &outcome("a")), None, "nothing changed");
    let status = vec![StatusChange::Set("s".into())];
    let kv = vec![KvChange::Set(kv_key("k"), Bytes::new())];
    let changes = bench.turned("a", |turn| TurnCommit { status, ..step(turn) }).await.changes;
    assert_eq!(told(&changes, &outcome("a")), Some(secs(0)), "the status");
    let changes = bench.turned("a", |turn| TurnCommit { kv, ..step(turn) }).await.changes;
    assert_eq!(told(&changes, &outcome("a")), Some(secs(0)), "a value");
    let changes = bench.turned("a", finish).await.changes;
    assert_eq!(told(&changes, &outcome("a")), Some(secs(0)), "the end");
    assert_eq!(told(&changes, &outcome("b")), None);
}

/// Terminating tells the waiters, and those whom it sends to.
pub async fn terminating_tells_waiters_and_receivers(bench: &FlowBench) {
    bench.running("parent").await;
    bench.running("a").await;
    let command = TerminateInstance {
        instance: id("a"),
        state: InstanceState::Terminated,
        output: Bytes::new(),
        messages: vec![event("parent", "it is over")],
        birth: None,
    };
    let (done, changes) = bench.flow.terminate(command).await.expect("it is terminated");
    assert!(done);
    assert_eq!(told(&changes, &outcome("a")), Some(secs(0)));
    assert_eq!(told(&changes, &main_line()), Some(secs(0)));
}

/// Resuming tells of what waited.
pub async fn resuming_tells_of_what_waited(bench: &FlowBench) {
    for name in ["a", "b"] {
        bench.start(name).await;
        let suspension = Suspension::Mismatch { reason: "changed".into() };
        assert!(bench.flow.suspend(&id(name), suspension).await.expect("suspended"));
    }
    let (resumed, changes) = bench.flow.resume(&id("a")).await.expect("resumed");
    assert!(resumed);
    assert_eq!(told(&changes, &main_line()), Some(secs(0)));
    bench.turn().await;
    let (resumed, changes) = bench.retry_mismatched(capabilities(&[MAIN])).await;
    assert_eq!(resumed, 1);
    assert_eq!(told(&changes, &main_line()), Some(secs(0)));
}

/// Watching reads like reading.
pub async fn watching_tells_the_same_as_reading(bench: &FlowBench) {
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
