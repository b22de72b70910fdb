//! Rules of committing a turn: fencing, history, executions, status.

use bytes::Bytes;
use wakeline_store::StoreError;
use wakeline_store::flow::{
    ExecutionEnd, InstanceState, Pinned, StatusChange, TurnCommit, TurnOutcome, Watched,
};

use super::{
    FlowBench, MAIN, batch, capabilities, capability, continues, ends, event, finish, id, kv_key,
    new_instance, nothing, start_of, step, texts, work,
};

/// A commit with everything that a stale or conflicting turn could have written.
fn everything(turn: &wakeline_store::flow::TurnItem) -> TurnCommit {
    TurnCommit {
        status: vec![StatusChange::Set("status".into())],
        kv: vec![wakeline_store::flow::KvChange::Set(kv_key("k"), Bytes::from_static(b"v"))],
        work: vec![work("a", 1)],
        messages: vec![super::start("b")],
        pinned: Some(Pinned { capability: capability("pinned"), version: None }),
        pushes: vec![super::push("q", "m")],
        ..finish(turn)
    }
}

async fn expect_nothing_was_written(bench: &FlowBench) {
    let detail = bench.detail("a").await;
    assert_eq!((detail.state, detail.output), (InstanceState::Running, None));
    assert_eq!((detail.status_version, detail.kv_version), (0, 0));
    assert_eq!(detail.capability, Some(capability(MAIN)));
    assert!(bench.kv("a").await.is_empty());
    assert_eq!(bench.no_work(&super::Worker::plain()).await, None);
    assert_eq!(bench.watched("b").await, Watched::Missing);
    let page = bench.flow.history(&id("a"), None, 1, 1_000).await.expect("a history is read");
    assert_eq!(page.batches, [batch(1, 1)]);
    assert!(bench.popped("q").await.is_empty());
}

/// Rule 1: a stale turn writes nothing.
pub async fn a_stale_turn_writes_nothing(bench: &FlowBench) {
    bench.running("a").await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    bench.advance(30).await;
    bench.stale(everything(&turn)).await;
    expect_nothing_was_written(bench).await;
    assert_eq!(texts(&bench.turn().await), ["x"]);
}

/// Rule 2: a conflicting turn writes nothing, and its lease does not change.
pub async fn a_conflict_writes_nothing_and_keeps_the_lease(bench: &FlowBench) {
    bench.running("a").await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    for (first, last) in [(1, 1), (3, 3), (1, 2)] {
        let commit = TurnCommit { history: Some(batch(first, last)), ..everything(&turn) };
        assert_eq!(bench.commit(commit).await, TurnOutcome::Conflict { last_event: 1 });
    }
    expect_nothing_was_written(bench).await;
    assert_eq!(bench.no_turn().await, Some(super::LEASE));
    bench.committed(step(&turn)).await;
}

/// Rule 2: the first event of an execution has number 1.
pub async fn a_history_begins_at_one(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    for first in [0, 2] {
        let commit = TurnCommit { history: Some(batch(first, 2)), ..step(&turn) };
        assert_eq!(bench.commit(commit).await, TurnOutcome::Conflict { last_event: 0 });
    }
    assert!(bench.is_pending("a").await);
    bench.committed(TurnCommit { history: Some(batch(1, 2)), ..step(&turn) }).await;
    assert_eq!(bench.detail("a").await.execution, 1);
}

/// Rule 2: a turn appends one batch of events.
pub async fn histories_grow_by_a_batch_per_turn(bench: &FlowBench) {
    bench.running("a").await;
    for (first, last) in [(2, 4), (5, 5), (6, 20)] {
        bench.send(vec![event("a", "x")]).await;
        let turn = bench.turn().await;
        assert_eq!(turn.last_event, first - 1);
        bench.committed(TurnCommit { history: Some(batch(first, last)), ..step(&turn) }).await;
    }
    let page = bench.flow.history(&id("a"), None, 1, 1_000).await.expect("a history is read");
    assert_eq!(page.batches, [batch(1, 1), batch(2, 4), batch(5, 5), batch(6, 20)]);
}

/// A turn without events removes its messages as well.
pub async fn a_turn_without_events_takes_its_messages(bench: &FlowBench) {
    bench.running("a").await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    bench.committed(nothing(&turn)).await;
    assert_eq!(bench.no_turn().await, None);
    bench.send(vec![event("a", "y")]).await;
    let turn = bench.turn().await;
    assert_eq!((turn.last_event, texts(&turn)), (1, vec!["y".to_owned()]));
}

/// Rule 3: nothing can be written before the instance exists.
pub async fn writing_before_the_instance_is_created_is_refused(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let kv = vec![wakeline_store::flow::KvChange::ClearAll];
    let wrong = [
        TurnCommit { new_instance: None, ..step(&turn) },
        TurnCommit { status: vec![StatusChange::Clear], ..nothing(&turn) },
        TurnCommit { kv, ..nothing(&turn) },
    ];
    for commit in wrong {
        let error = bench.flow.commit_turn(commit).await.expect_err("there is no instance");
        assert!(matches!(error, StoreError::Invalid { .. }), "{error:?}");
    }
    assert!(bench.is_pending("a").await);
    bench.committed(step(&turn)).await;
}

/// Rule 3: an instance is created once.
pub async fn creating_an_instance_again_is_ignored(bench: &FlowBench) {
    bench.running("a").await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    bench.committed(TurnCommit { new_instance: Some(new_instance("other")), ..step(&turn) }).await;
    assert_eq!(bench.detail("a").await.name.as_str(), "order");
}

/// Rule 3: the parent that waits for the instance is stored.
pub async fn an_instance_remembers_its_parent(bench: &FlowBench) {
    bench.running("parent").await;
    bench.child("child", "parent").await;
    assert_eq!(bench.detail("child").await.parent, Some(id("parent")));
    assert_eq!(bench.detail("parent").await.parent, None);
    bench.send(vec![event("child", "x")]).await;
    assert_eq!(bench.turn().await.parent, Some((id("parent"), 1)));
}

/// Rule 3: an execution without a given version has none.
pub async fn an_execution_without_a_pin_has_no_version(bench: &FlowBench) {
    bench.running("a").await;
    assert_eq!(bench.detail("a").await.version, None);
    let executions = bench.flow.executions(&id("a")).await.expect("executions are read");
    assert_eq!(executions[0].version, None);
}

/// Rule 4: the version of the status goes up with each change.
pub async fn each_status_change_makes_a_new_version(bench: &FlowBench) {
    bench.running("a").await;
    let status = async || {
        let detail = bench.detail("a").await;
        (detail.status, detail.status_version)
    };
    assert_eq!(status().await, (None, 0));
    let set = |text: &str| StatusChange::Set(text.to_owned());
    bench.turned("a", |turn| TurnCommit { status: vec![set("one")], ..step(turn) }).await;
    assert_eq!(status().await, (Some("one".into()), 1));
    bench.turned("a", step).await;
    assert_eq!(status().await, (Some("one".into()), 1), "no change keeps it");
    let changes = || vec![set("two"), StatusChange::Clear, set("three")];
    bench.turned("a", |turn| TurnCommit { status: changes(), ..step(turn) }).await;
    assert_eq!(status().await, (Some("three".into()), 4));
    bench.turned("a", |turn| TurnCommit { status: vec![StatusChange::Clear], ..step(turn) }).await;
    assert_eq!(status().await, (None, 5));
    bench.turned("a", |turn| TurnCommit { status: vec![set("")], ..finish(turn) }).await;
    assert_eq!(status().await, (Some(String::new()), 6));
}

/// Rule 4: the status is kept across executions.
pub async fn a_status_outlives_its_execution(bench: &FlowBench) {
    bench.running("a").await;
    let set = || vec![StatusChange::Set("busy".to_owned())];
    bench.turned("a", |turn| TurnCommit { status: set(), ..continues(turn, MAIN) }).await;
    let turn = bench.turn().await;
    bench.committed(step(&turn)).await;
    let detail = bench.detail("a").await;
    assert_eq!((detail.status.as_deref(), detail.status_version), (Some("busy"), 1));
}

/// Rule 9 holds for each final state.
pub async fn an_ended_instance_has_its_state_and_output(bench: &FlowBench) {
    use InstanceState::{Cancelled, Completed, Failed, Terminated};
    for (n, state) in [Completed, Failed, Cancelled, Terminated].into_iter().enumerate() {
        let name = format!("i{n}");
        bench.running(&name).await;
        bench.advance(3).await;
        bench.turned(&name, |turn| ends(turn, state)).await;
        let detail = bench.detail(&name).await;
        assert_eq!((detail.state, detail.output.as_deref()), (state, Some(&b"output"[..])));
        assert_eq!(detail.ended_at, Some(detail.created_at.plus(super::secs(3))));
        assert_eq!(detail.updated_at, detail.created_at.plus(super::secs(3)));
        let execution = bench.flow.executions(&id(&name)).await.expect("executions").remove(0);
        assert_eq!((execution.state, execution.ended_at), (state, detail.ended_at));
        assert_eq!(execution.output.as_deref(), Some(&b"output"[..]));
    }
}

/// Rule 9: a missing output and an empty output are different.
pub async fn an_output_may_be_missing_or_empty(bench: &FlowBench) {
    for (name, output) in [("a", None), ("b", Some(Bytes::new()))] {
        bench.running(name).await;
        let end = ExecutionEnd::Ended { state: InstanceState::Completed, output: output.clone() };
        bench.turned(name, |turn| TurnCommit { end: end.clone(), ..step(turn) }).await;
        assert_eq!(bench.detail(name).await.output, output);
    }
}

/// Rule 10: only the execution ends.
pub async fn continuing_as_new_ends_the_execution_and_not_the_instance(bench: &FlowBench) {
    bench.running("a").await;
    bench.turned("a", |turn| continues(turn, MAIN)).await;
    let detail = bench.detail("a").await;
    assert_eq!(
        (detail.state, detail.output, detail.ended_at),
        (InstanceState::Running, None, None)
    );
    assert_eq!(detail.execution, 1);
    let first = bench.flow.executions(&id("a")).await.expect("executions are read").remove(0);
    assert_eq!(first.state, InstanceState::ContinuedAsNew);
    assert_eq!(first.output.as_deref(), Some(&b"input"[..]));
    assert!(first.ended_at.is_some());
    let turn = bench.turn().await;
    assert_eq!(turn.state, Some(InstanceState::ContinuedAsNew));
    assert_eq!((turn.execution, turn.last_event, texts(&turn)), (1, 2, vec!["start".to_owned()]));
    bench.committed(step(&turn)).await;
    let detail = bench.detail("a").await;
    assert_eq!((detail.execution, detail.state), (2, InstanceState::Running));
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    assert_eq!((turn.execution, turn.last_event), (2, 1));
    assert_eq!(turn.state, Some(InstanceState::Running));
}

/// Rule 10: the next execution may need another capability.
pub async fn a_continued_instance_needs_what_its_start_says(bench: &FlowBench) {
    bench.running("a").await;
    bench.turned("a", |turn| continues(turn, "order@2")).await;
    assert_eq!(bench.no_turn().await, None);
    let turn = bench.turn_of(&capabilities(&["order@2"])).await;
    let pinned = Some(Pinned { capability: capability("order@2"), version: Some("2".into()) });
    bench.committed(TurnCommit { pinned, ..step(&turn) }).await;
    let detail = bench.detail("a").await;
    assert_eq!(detail.version.as_deref(), Some("2"));
    let executions = bench.flow.executions(&id("a")).await.expect("executions are read");
    let versions: Vec<_> = executions.iter().map(|one| one.version.as_deref()).collect();
    assert_eq!(versions, [None, Some("2")], "each execution has its own");
}

/// Rule 10: messages for the old execution are delivered to the new one.
pub async fn messages_that_wait_reach_the_next_execution(bench: &FlowBench) {
    bench.running("a").await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    bench.send(vec![event("a", "during")]).await;
    bench.committed(continues(&turn, MAIN)).await;
    assert_eq!(texts(&bench.turn().await), ["during", "start"]);
}

/// Every execution has its own history.
pub async fn executions_have_histories_of_their_own(bench: &FlowBench) {
    bench.running("a").await;
    for _ in 0..2 {
        bench.turned("a", |turn| continues(turn, MAIN)).await;
        let turn = bench.turn().await;
        let history = Some(batch(1, turn.execution + 1));
        bench.committed(TurnCommit { history, ..step(&turn) }).await;
    }
    let history = async |execution: Option<u64>| {
        let page = bench.flow.history(&id("a"), execution, 1, 10_000).await.expect("a history");
        (page.execution, page.batches)
    };
    assert_eq!(history(Some(1)).await, (1, vec![batch(1, 1), batch(2, 2)]));
    assert_eq!(history(Some(2)).await, (2, vec![batch(1, 2), batch(3, 3)]));
    assert_eq!(history(Some(3)).await, (3, vec![batch(1, 3)]));
    assert_eq!(history(None).await, (3, vec![batch(1, 3)]));
    assert_eq!(history(Some(4)).await, (0, vec![]));
}

/// A start message with another capability does not begin a new execution of a running instance.
pub async fn a_start_to_a_running_instance_changes_nothing_by_itself(bench: &FlowBench) {
    bench.running("a").await;
    let again = wakeline_store::flow::Envelope { unique: false, ..start_of("a", "other") };
    bench.send(vec![again]).await;
    let turn = bench.turn().await;
    assert_eq!(turn.execution, 1);
    bench.committed(nothing(&turn)).await;
    let detail = bench.detail("a").await;
    assert_eq!((detail.execution, detail.capability), (1, Some(capability(MAIN))));
}
