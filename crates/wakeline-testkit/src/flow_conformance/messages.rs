//! Rules of what a turn sends, cancels and clears: messages, timers, pushes.

use wakeline_store::flow::{
    EnqueueOutcome, Envelope, ExecutionEnd, InstanceState, TurnCommit, TurnOutcome, TurnReply,
    Watched,
};
use wakeline_store::{PushGate, PushOutcome, SetMaintenance};

use super::{
    FlowBench, LEASE, after, capabilities, event, finish, id, nothing, push, secs, start, start_of,
    step, texts, work,
};

fn outcomes(reply: &TurnReply) -> Vec<EnqueueOutcome> {
    match &reply.outcome {
        TurnOutcome::Committed { messages, .. } => messages.clone(),
        other => panic!("{other:?}"),
    }
}

fn timer(to: &str, seconds: u64, key: (u64, u64)) -> Envelope {
    let text = format!("timer {} {}", key.0, key.1);
    Envelope { visible: after(seconds), key: Some(key), ..event(to, &text) }
}

/// Rule 7: a message to the own instance is for the next turn.
pub async fn a_turn_may_send_to_itself(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let messages = vec![event("a", "one"), timer("a", 10, (1, 2)), event("a", "two")];
    let reply = bench.committed(TurnCommit { messages, ..step(&turn) }).await;
    assert_eq!(outcomes(&reply), [EnqueueOutcome::Queued; 3]);
    let turn = bench.turn().await;
    assert_eq!(texts(&turn), ["one", "two"]);
    bench.committed(step(&turn)).await;
    assert_eq!(bench.no_turn().await, Some(secs(10)));
    bench.advance(10).await;
    assert_eq!(texts(&bench.turn().await), ["timer 1 2"]);
}

/// Rule 7: a turn may send to other instances, whether they exist or not.
pub async fn a_turn_may_send_to_others_and_start_them(bench: &FlowBench) {
    bench.running("other").await;
    bench.completed("ended").await;
    bench.start("a").await;
    let turn = bench.turn().await;
    let messages = vec![
        start_of("child", "child"),
        event("other", "hello"),
        start("other"),
        event("ended", "lost"),
        event("unknown", "early"),
        start_of("child", "child"),
    ];
    let reply = bench.committed(TurnCommit { messages, ..step(&turn) }).await;
    use EnqueueOutcome::{Ended, Exists, Queued};
    assert_eq!(outcomes(&reply), [Queued, Queued, Exists, Ended, Queued, Exists]);
    assert!(bench.is_pending("child").await);
    assert_eq!(bench.watched("unknown").await, Watched::Missing);
    let other = bench.turn().await;
    assert_eq!((other.instance.clone(), texts(&other)), (id("other"), vec!["hello".into()]));
    assert_eq!(bench.turn_of(&capabilities(&["child"])).await.instance, id("child"));
}

/// A message to a leased lane waits for the end of the lease.
pub async fn a_message_to_a_leased_lane_waits_for_its_next_turn(bench: &FlowBench) {
    bench.running("a").await;
    bench.send(vec![event("a", "x")]).await;
    let held = bench.turn().await;
    bench.start("b").await;
    let turn = bench.turn().await;
    let messages = vec![event("a", "from b")];
    bench.committed(TurnCommit { messages, ..step(&turn) }).await;
    assert_eq!(bench.no_turn().await, Some(LEASE));
    bench.committed(step(&held)).await;
    assert_eq!(texts(&bench.turn().await), ["from b"]);
}

/// Rule 7: timers are cancelled by their keys.
pub async fn cancelled_timers_do_not_fire(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let messages = (1..=4).map(|n| timer("a", 10 * n, (1, n))).collect();
    bench.committed(TurnCommit { messages, ..step(&turn) }).await;
    bench.advance(10).await;
    let turn = bench.turn().await;
    assert_eq!(texts(&turn), ["timer 1 1"]);
    bench.advance(10).await;
    let cancelled_messages = vec![(1, 2), (1, 3), (9, 9)];
    bench.committed(TurnCommit { cancelled_messages, ..step(&turn) }).await;
    assert_eq!(bench.no_turn().await, Some(secs(20)), "one was visible already, one was not");
    bench.advance(20).await;
    assert_eq!(texts(&bench.turn().await), ["timer 1 4"]);
}

/// Rule 7: a turn cancels messages of its own lane only.
pub async fn a_turn_takes_back_only_its_own_messages(bench: &FlowBench) {
    bench.running("a").await;
    bench.running("b").await;
    bench.send(vec![timer("a", 5, (1, 1)), timer("b", 5, (1, 1))]).await;
    let cancelled = vec![(1, 1)];
    bench
        .turned("a", |turn| TurnCommit { cancelled_messages: cancelled.clone(), ..step(turn) })
        .await;
    bench.advance(5).await;
    assert_eq!(bench.turn().await.instance, id("b"));
    assert_eq!(bench.no_turn().await, Some(LEASE));
}

/// Rule 7: a commit can cancel messages that it sends itself.
pub async fn a_timer_set_and_cancelled_by_one_turn_does_not_fire(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let commit = TurnCommit {
        messages: vec![timer("a", 5, (1, 1)), timer("a", 6, (1, 2))],
        cancelled_messages: vec![(1, 1)],
        ..step(&turn)
    };
    bench.committed(commit).await;
    assert_eq!(bench.no_turn().await, Some(secs(6)));
}

/// Rule 8: a commit removes the messages of its turn and no others.
pub async fn a_commit_removes_only_what_its_turn_took(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.send(vec![event("a", "during"), timer("a", 5, (1, 1))]).await;
    bench.committed(step(&turn)).await;
    let stats = bench.flow.stats(&id("a")).await.expect("stats are read").expect("it is there");
    assert_eq!(stats.messages, 2);
    assert_eq!(texts(&bench.turn().await), ["during"]);
}

/// Rule 9: clearing also removes messages that just came, timers and work.
pub async fn clearing_removes_all_messages_and_work(bench: &FlowBench) {
    bench.running("other").await;
    bench.running("a").await;
    bench
        .turned("a", |turn| TurnCommit {
            work: vec![work("a", 1), work("a", 2)],
            messages: vec![timer("a", 5, (1, 1)), timer("other", 5, (1, 1))],
            ..step(turn)
        })
        .await;
    let leased = bench.work(&super::Worker::plain()).await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    bench.send(vec![event("a", "during")]).await;
    bench.committed(TurnCommit { clear: true, ..finish(&turn) }).await;
    assert_eq!(bench.no_work(&super::Worker::plain()).await, None);
    assert!(!bench.completes(leased.token).await);
    assert_eq!(bench.no_turn().await, Some(secs(5)), "that of the other instance");
    let stats = bench.flow.stats(&id("a")).await.expect("stats are read").expect("it is there");
    assert_eq!((stats.messages, stats.work), (0, 0));
}

/// Rule 9: without clearing, waiting messages are still delivered.
pub async fn ending_without_clearing_keeps_what_waits(bench: &FlowBench) {
    bench.running("a").await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    bench.send(vec![event("a", "during")]).await;
    let end = ExecutionEnd::Ended { state: InstanceState::Completed, output: None };
    bench.committed(TurnCommit { end, ..step(&turn) }).await;
    let turn = bench.turn().await;
    assert_eq!(texts(&turn), ["during"]);
    assert_eq!(turn.state, Some(InstanceState::Completed));
    bench.committed(nothing(&turn)).await;
    assert_eq!(bench.no_turn().await, None);
}

/// Rule 11: pushes to queues are part of the turn's transaction.
pub async fn pushes_of_a_turn_are_in_their_queues_once(bench: &FlowBench) {
    bench.running("a").await;
    bench.queues.push(vec![push("q", "known")]).await.expect("a message is pushed");
    let pushes = vec![push("q", "one"), push("q", "known"), push("p", "other"), push("q", "one")];
    let reply = bench.turned("a", |turn| TurnCommit { pushes, ..step(turn) }).await;
    let TurnOutcome::Committed { pushes, .. } = &reply.outcome else { panic!("{reply:?}") };
    let queued: Vec<_> =
        pushes.iter().map(|outcome| matches!(outcome, PushOutcome::Queued { .. })).collect();
    assert_eq!(queued, [true, false, true, false]);
    assert!(!reply.queue_changes.is_empty(), "waiters of the queue are notified");
    assert_eq!(bench.popped("q").await, ["known", "one"]);
    assert_eq!(bench.popped("p").await, ["other"]);
}

/// Maintenance holds back the pushes of a turn, also where producers are refused; the turn itself
/// is committed.
pub async fn pushes_of_a_turn_are_held_back_by_a_maintenance(bench: &FlowBench) {
    let gate = async |gate| {
        let set = SetMaintenance { pushes: Some(gate), ..SetMaintenance::default() };
        bench.queues.set_maintenance(set).await.expect("maintenance is set");
    };
    bench.running("a").await;
    bench.queues.push(vec![push("q", "before")]).await.expect("a message is pushed");
    for (mode, there, new) in
        [(PushGate::Hold, "one", "hold-p"), (PushGate::Refuse, "two", "refuse-p")]
    {
        gate(mode).await;
        let pushes = vec![push("q", there), push("q", "before"), push(new, "new")];
        let reply = bench.turned("a", |turn| TurnCommit { pushes, ..step(turn) }).await;
        let TurnOutcome::Committed { pushes, .. } = &reply.outcome else { panic!("{reply:?}") };
        let held = |outcome: &PushOutcome| matches!(outcome, PushOutcome::Held { .. });
        assert_eq!(pushes.iter().map(held).collect::<Vec<_>>(), [true, false, true], "{mode:?}");
        assert!(bench.popped(new).await.is_empty(), "{mode:?}");
    }
    assert_eq!(bench.queues.held_messages().await.expect("counted"), 4);
    assert_eq!(bench.popped("q").await, ["before"], "what was there is delivered");
    gate(PushGate::Open).await;
    assert_eq!(bench.popped("q").await, ["one", "two"]);
    assert_eq!(bench.popped("hold-p").await, ["new"]);
    assert_eq!(bench.popped("refuse-p").await, ["new"]);
}

/// A commit without messages has no outcomes.
pub async fn a_turn_that_sends_nothing_has_no_outcomes(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let reply = bench.committed(step(&turn)).await;
    let nothing =
        TurnOutcome::Committed { messages: Vec::new(), pushes: Vec::new(), emits: Vec::new() };
    assert_eq!(reply.outcome, nothing);
    assert!(reply.turns.is_empty() && reply.work.is_empty() && reply.queue_changes.is_empty());
}
