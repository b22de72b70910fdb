//! Rules of terminating instances without running their code.

use bytes::Bytes;
use wakeline_store::flow::{
    EnqueueOutcome, Envelope, InstanceState, NewInstance, RenewOutcome, Suspension,
    TerminateInstance, TurnCommit,
};

use super::{FlowBench, Worker, event, id, new_instance, nothing, secs, start, step, texts, work};

fn termination(instance: &str) -> TerminateInstance {
    TerminateInstance {
        instance: id(instance),
        state: InstanceState::Terminated,
        output: Bytes::from_static(b"given up"),
        messages: vec![event("parent", &format!("{instance} is over"))],
        new_instance: None,
    }
}

impl FlowBench {
    async fn terminate(&self, instance: &str) -> bool {
        self.flow.terminate(termination(instance)).await.expect("it is answered").0
    }
}

/// Rule 4: a terminated instance has ended, with the given output.
pub async fn a_terminated_instance_has_ended_with_its_output(bench: &FlowBench) {
    bench.running("parent").await;
    bench.running("a").await;
    bench.advance(5).await;
    assert!(bench.terminate("a").await);
    let detail = bench.detail("a").await;
    assert_eq!(detail.state, InstanceState::Terminated);
    assert_eq!(detail.output.as_deref(), Some(&b"given up"[..]));
    assert_eq!(detail.ended_at, Some(detail.created_at.plus(secs(5))));
    let execution = bench.flow.executions(&id("a")).await.expect("executions").remove(0);
    assert_eq!(execution.state, InstanceState::Terminated);
    assert_eq!(execution.ended_at, detail.ended_at);
    assert_eq!(texts(&bench.turn().await), ["a is over"], "others are notified");
    assert_eq!(bench.send(vec![event("a", "x")]).await, [EnqueueOutcome::Ended]);
    assert_eq!(bench.send(vec![start("a")]).await, [EnqueueOutcome::Exists]);
}

/// Rule 4: messages, work and the lease are removed.
pub async fn terminating_removes_messages_work_and_lease(bench: &FlowBench) {
    bench.running("a").await;
    let timer = Envelope { visible: super::after(50), ..event("a", "timer") };
    let commit = |turn: &wakeline_store::flow::TurnItem| TurnCommit {
        work: vec![work("a", 1), work("a", 2)],
        messages: vec![timer.clone()],
        ..step(turn)
    };
    bench.turned("a", commit).await;
    let leased = bench.work(&Worker::plain()).await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    assert!(bench.terminate("a").await);
    bench.stale(step(&turn)).await;
    assert_eq!(bench.renew(turn.token, 1).await, RenewOutcome::Stale);
    assert_eq!(bench.renew(leased.token, 1).await, RenewOutcome::Stale);
    assert!(!bench.completes(leased.token).await);
    assert_eq!(bench.no_turn().await, None);
    assert_eq!(bench.no_work(&Worker::plain()).await, None);
    let stats = bench.flow.stats(&id("a")).await.expect("stats").expect("it is there");
    assert_eq!((stats.messages, stats.work), (0, 0));
}

/// Rule 4: only instances that have not ended can be terminated.
pub async fn ended_and_unknown_instances_cannot_be_terminated(bench: &FlowBench) {
    bench.running("parent").await;
    bench.completed("a").await;
    let before = bench.detail("a").await;
    assert!(!bench.terminate("a").await);
    assert_eq!(bench.detail("a").await, before);
    assert!(!bench.terminate("unknown").await);
    bench.send(vec![event("lane", "early")]).await;
    assert!(!bench.terminate("lane").await);
    assert_eq!(bench.no_turn().await, None, "no instance is notified");
    bench.start("lane").await;
    assert_eq!(texts(&bench.turn().await), ["early", "start"], "an early event is kept");
}

/// Rule 4: a pending instance is terminated like a running one.
pub async fn terminating_a_pending_instance_notifies_others(bench: &FlowBench) {
    bench.running("parent").await;
    bench.send(vec![event("a", "early")]).await;
    bench.start("a").await;
    let turn = bench.turn().await;
    assert_eq!(bench.flow.waiting_starts(&id("a")).await.expect("read"), ["start"]);
    let parent = Some((id("parent"), 7));
    let new_instance = Some(NewInstance { parent, ..new_instance("main") });
    let command = TerminateInstance { new_instance, ..termination("a") };
    assert!(bench.flow.terminate(command).await.expect("it is answered").0);
    let detail = bench.detail("a").await;
    assert_eq!((detail.state, detail.execution), (InstanceState::Terminated, 1));
    assert_eq!(detail.output.as_deref(), Some(&b"given up"[..]));
    assert_eq!((detail.name.as_str(), detail.parent), ("main", Some(id("parent"))));
    assert_eq!(detail.ended_at, Some(detail.created_at));
    let execution = bench.flow.executions(&id("a")).await.expect("executions").remove(0);
    assert_eq!((execution.state, execution.events), (InstanceState::Terminated, 0));
    bench.stale(step(&turn)).await;
    let notified = bench.turn().await;
    assert_eq!(
        (notified.instance.as_str(), texts(&notified)),
        ("parent", vec!["a is over".to_owned()])
    );
    assert!(bench.flow.waiting_starts(&id("a")).await.expect("read").is_empty());
    assert!(!bench.terminate("a").await, "it has ended");
    assert_eq!(bench.send(vec![start("a")]).await, [EnqueueOutcome::Exists]);
}

/// Rule 4: the command must say whether the instance is pending or running: it may have started
/// children since the caller read its state.
pub async fn an_instance_in_another_state_is_not_ended(bench: &FlowBench) {
    bench.running("parent").await;
    bench.start("a").await;
    assert!(!bench.terminate("a").await);
    assert!(bench.is_pending("a").await);
    assert_eq!(bench.flow.waiting_starts(&id("a")).await.expect("read"), ["start"]);
    let turn = bench.turn().await;
    assert_eq!(texts(&turn), ["start"], "the parent is not notified");
    bench.committed(TurnCommit { new_instance: Some(new_instance("main")), ..step(&turn) }).await;
    let command =
        TerminateInstance { new_instance: Some(new_instance("main")), ..termination("a") };
    assert!(!bench.flow.terminate(command).await.expect("it is answered").0);
    assert_eq!(bench.detail("a").await.state, InstanceState::Running);
    assert_eq!(bench.no_turn().await, None, "the parent is not notified");
    assert!(bench.terminate("a").await);
}

/// Rule 4: its own messages are removed, and the command may leave one for it.
pub async fn a_terminated_instance_gets_what_its_end_sends_it(bench: &FlowBench) {
    bench.running("a").await;
    bench.send(vec![event("a", "before")]).await;
    let after = Envelope { even_if_ended: true, ..event("a", "after") };
    let command = TerminateInstance { messages: vec![after], ..termination("a") };
    assert!(bench.flow.terminate(command).await.expect("it is answered").0);
    let turn = bench.turn().await;
    assert_eq!((turn.instance.as_str(), texts(&turn)), ("a", vec!["after".to_owned()]));
    assert_eq!(turn.state, Some(InstanceState::Terminated));
    bench.committed(nothing(&turn)).await;
    assert_eq!(bench.no_turn().await, None);
}

/// All waiting starts are read, whether the instance runs or not.
pub async fn starts_that_wait_are_read_in_order(bench: &FlowBench) {
    let another = |text: &str| Envelope {
        unique: false,
        even_if_ended: true,
        payload: Bytes::from(text.to_owned()),
        ..start("a")
    };
    assert!(bench.flow.waiting_starts(&id("a")).await.expect("read").is_empty());
    bench.send(vec![another("first"), event("a", "x"), another("second")]).await;
    let starts = bench.flow.waiting_starts(&id("a")).await.expect("read");
    assert_eq!(starts, ["first", "second"]);
    let turn = bench.turn().await;
    bench.send(vec![another("third")]).await;
    bench.committed(TurnCommit { new_instance: Some(new_instance("main")), ..step(&turn) }).await;
    assert_eq!(bench.flow.waiting_starts(&id("a")).await.expect("read"), ["third"]);
}

/// A suspended instance can be terminated.
pub async fn a_suspended_instance_can_be_terminated(bench: &FlowBench) {
    bench.running("a").await;
    let suspension = Suspension::Operator { reason: "for a look".into() };
    assert!(bench.flow.suspend(&id("a"), suspension).await.expect("suspended"));
    assert!(bench.terminate("a").await);
    assert_eq!(bench.detail("a").await.state, InstanceState::Terminated);
}

/// The caller chooses the final state.
pub async fn an_instance_may_be_ended_as_failed(bench: &FlowBench) {
    bench.running("a").await;
    let command = TerminateInstance { state: InstanceState::Failed, ..termination("a") };
    assert!(bench.flow.terminate(command).await.expect("it is answered").0);
    assert_eq!(bench.detail("a").await.state, InstanceState::Failed);
}

/// The status and the values stay readable.
pub async fn a_terminated_instance_keeps_what_readers_see(bench: &FlowBench) {
    bench.running("a").await;
    let kv = vec![wakeline_store::flow::KvChange::Set(super::kv_key("k"), "v".into())];
    let status = vec![wakeline_store::flow::StatusChange::Set("busy".into())];
    bench.turned("a", |turn| TurnCommit { kv, status, ..step(turn) }).await;
    assert!(bench.terminate("a").await);
    assert_eq!(bench.kv("a").await, [("k".to_owned(), "v".to_owned())]);
    assert_eq!(bench.detail("a").await.status.as_deref(), Some("busy"));
    let page = bench.flow.history(&id("a"), None, 1, 1_000).await.expect("a history");
    assert_eq!(page.batches.len(), 2);
}
