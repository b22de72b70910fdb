//! Rules of sending messages to lanes.

use bytes::Bytes;
use wakeline_core::Capabilities;
use wakeline_store::flow::{EnqueueOutcome, Envelope, TurnCommit, Visible, Watched};

use super::{
    FlowBench, MAIN, after, batch, capabilities, capability, event, finish, new_instance, nothing,
    start, start_of, step, texts,
};

/// Rule 1: sending a message creates no instance.
pub async fn an_instance_is_made_by_the_commit_of_a_turn_and_not_by_a_message(bench: &FlowBench) {
    assert_eq!(bench.watched("a").await, Watched::Missing);
    bench.start("a").await;
    assert!(bench.is_pending("a").await);
    let turn = bench.turn().await;
    assert!(bench.is_pending("a").await, "a leased start still waits");
    assert_eq!((turn.execution, turn.last_event, turn.state), (0, 0, None));
    assert_eq!((turn.name.clone(), turn.parent.clone()), (None, None));
    bench.committed(step(&turn)).await;
    assert_eq!(bench.detail("a").await.name.as_str(), "order");
}

/// Rule 1: readers do not see events that wait for a start.
pub async fn a_lane_without_a_start_is_missing(bench: &FlowBench) {
    bench.send(vec![event("a", "early")]).await;
    assert_eq!(bench.watched("a").await, Watched::Missing);
    assert_eq!(bench.no_turn().await, None);
}

/// A turn that takes a start and creates no instance leaves nothing behind.
pub async fn a_start_taken_without_creating_the_instance_leaves_nothing(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.committed(nothing(&turn)).await;
    assert_eq!(bench.watched("a").await, Watched::Missing);
    assert_eq!(bench.no_turn().await, None);
    bench.start("a").await;
}

/// Rule 2: a message is visible at its time and not before.
pub async fn a_message_is_visible_from_its_time_on(bench: &FlowBench) {
    let now = bench.now().await;
    let at = Visible::At(now.plus(super::secs(10)));
    bench.send(vec![Envelope { visible: at, ..start("at") }]).await;
    bench.send(vec![Envelope { visible: after(5), ..start("after") }]).await;
    assert_eq!(bench.no_turn().await, Some(super::secs(5)));
    bench.advance_ms(4_999).await;
    assert_eq!(bench.no_turn().await, Some(std::time::Duration::from_millis(1)));
    bench.advance_ms(1).await;
    assert_eq!(bench.turn().await.instance.as_str(), "after");
    bench.advance_ms(4_999).await;
    bench.no_turn().await;
    bench.advance_ms(1).await;
    assert_eq!(bench.turn().await.instance.as_str(), "at");
}

/// A time in the past counts as now.
pub async fn a_message_of_a_past_moment_is_visible_at_once(bench: &FlowBench) {
    let visible = Visible::At(wakeline_core::Timestamp(0));
    bench.send(vec![Envelope { visible, ..start("a") }]).await;
    assert_eq!(bench.turn().await.instance.as_str(), "a");
}

/// Rule 2: messages are ordered by arrival, not by time.
pub async fn messages_are_ordered_by_arrival_and_not_by_time(bench: &FlowBench) {
    bench.start("a").await;
    let timer = |secs, text: &str| Envelope { visible: after(secs), ..event("a", text) };
    bench.send(vec![timer(9, "late"), timer(3, "soon"), event("a", "now")]).await;
    bench.advance(10).await;
    let turn = bench.turn().await;
    assert_eq!(texts(&turn), ["start", "late", "soon", "now"]);
    let seqs: Vec<_> = turn.messages.iter().map(|message| message.seq).collect();
    assert!(seqs.is_sorted() && seqs.windows(2).all(|pair| pair[0] != pair[1]), "{seqs:?}");
}

/// Rule 3: an early event is kept and delivered with the start.
pub async fn an_event_before_the_start_is_delivered_with_it(bench: &FlowBench) {
    bench.send(vec![event("a", "early")]).await;
    assert_eq!(bench.no_turn_of(&Capabilities::Any).await, None, "its capability is unknown");
    bench.advance(100).await;
    bench.start("a").await;
    assert_eq!(texts(&bench.turn().await), ["early", "start"]);
}

/// Rule 3: the first start decides the capability of a lane.
pub async fn the_first_start_says_what_a_lane_needs(bench: &FlowBench) {
    let second = Envelope { unique: false, ..start_of("a", "second") };
    bench.send(vec![start_of("a", "first"), second]).await;
    assert_eq!(bench.no_turn_of(&capabilities(&["second"])).await, None);
    let turn = bench.turn_of(&capabilities(&["first"])).await;
    assert_eq!(turn.capability, Some(capability("first")));
    assert_eq!(turn.messages.len(), 2);
}

/// Rule 3: an ended instance needs the capability of its next start.
pub async fn a_start_of_an_ended_instance_decides_again_what_its_lane_needs(bench: &FlowBench) {
    bench.completed("a").await;
    let again = Envelope { unique: false, even_if_ended: true, ..start_of("a", "second") };
    assert_eq!(bench.send(vec![again]).await, [EnqueueOutcome::Queued]);
    assert_eq!(bench.no_turn().await, None);
    bench.turn_of(&capabilities(&["second"])).await;
}

/// Rule 4: a unique start is refused while another start waits.
pub async fn a_unique_start_is_refused_while_one_waits(bench: &FlowBench) {
    let outcomes = bench.send(vec![start("a"), start("a"), start("b")]).await;
    use EnqueueOutcome::{Exists, Queued};
    assert_eq!(outcomes, [Queued, Exists, Queued]);
    let delayed = Envelope { visible: after(60), ..start("c") };
    assert_eq!(bench.send(vec![delayed, start("c")]).await, [Queued, Exists]);
    assert_eq!(texts(&bench.turn().await), ["start"], "what was refused was not stored");
    assert_eq!(bench.send(vec![start("a")]).await, [Exists], "a leased start still waits");
}

/// Rule 4: a unique start is refused while the instance exists.
pub async fn a_unique_start_is_refused_while_the_instance_exists(bench: &FlowBench) {
    bench.running("a").await;
    assert_eq!(bench.send(vec![start("a")]).await, [EnqueueOutcome::Exists]);
    bench.completed("b").await;
    let even = Envelope { even_if_ended: true, ..start("b") };
    assert_eq!(bench.send(vec![start("b"), even]).await, [EnqueueOutcome::Exists; 2]);
    assert_eq!(bench.no_turn().await, None);
}

/// Rule 4: an early event is not a start.
pub async fn an_early_event_does_not_refuse_a_unique_start(bench: &FlowBench) {
    bench.send(vec![event("a", "early")]).await;
    assert_eq!(bench.send(vec![start("a")]).await, [EnqueueOutcome::Queued]);
}

/// Rule 4 concerns unique starts only.
pub async fn a_start_that_is_not_unique_is_stored_beside_others(bench: &FlowBench) {
    bench.start("a").await;
    let again = Envelope { unique: false, ..start("a") };
    assert_eq!(bench.send(vec![again.clone()]).await, [EnqueueOutcome::Queued]);
    let turn = bench.turn().await;
    assert_eq!(turn.messages.len(), 2);
    bench.committed(step(&turn)).await;
    assert_eq!(bench.send(vec![again]).await, [EnqueueOutcome::Queued]);
    assert_eq!(bench.turn().await.execution, 1);
}

/// Rule 5: a message to an ended instance is refused.
pub async fn a_message_to_an_ended_instance_is_refused(bench: &FlowBench) {
    bench.completed("a").await;
    assert_eq!(bench.send(vec![event("a", "x")]).await, [EnqueueOutcome::Ended]);
    assert_eq!(bench.no_turn().await, None);
    let kept = Envelope { even_if_ended: true, ..event("a", "kept") };
    assert_eq!(bench.send(vec![kept]).await, [EnqueueOutcome::Queued]);
    let turn = bench.turn().await;
    assert_eq!(texts(&turn), ["kept"]);
    assert_eq!(turn.state, Some(wakeline_store::flow::InstanceState::Completed));
    bench.committed(nothing(&turn)).await;
    assert!(bench.detail("a").await.state.is_ended(), "a turn that did nothing changes nothing");
}

/// Rule 6: messages of one call have their own outcomes and keep their order.
pub async fn envelopes_of_one_call_have_their_own_outcomes_and_keep_their_order(bench: &FlowBench) {
    bench.completed("ended").await;
    let outcomes = bench
        .send(vec![
            event("b", "b1"),
            start("a"),
            event("ended", "x"),
            event("a", "a1"),
            start("a"),
            event("b", "b2"),
            start("b"),
            event("a", "a2"),
        ])
        .await;
    use EnqueueOutcome::{Ended, Exists, Queued};
    assert_eq!(outcomes, [Queued, Queued, Ended, Queued, Exists, Queued, Queued, Queued]);
    let turns = [bench.turn().await, bench.turn().await];
    let of = |name: &str| turns.iter().find(|turn| turn.instance.as_str() == name);
    assert_eq!(texts(of("a").expect("a turn of a")), ["start", "a1", "a2"]);
    assert_eq!(texts(of("b").expect("a turn of b")), ["b1", "b2", "start"]);
    assert!(bench.send(Vec::new()).await.is_empty());
}

/// Rule 7: a lane holds one message with a key.
pub async fn a_lane_holds_one_message_of_a_key(bench: &FlowBench) {
    bench.running("a").await;
    bench.running("b").await;
    let keyed = |to: &str, text: &str| Envelope { key: Some((1, 2)), ..event(to, text) };
    let outcomes = bench
        .send(vec![
            Envelope { visible: after(5), ..keyed("a", "first") },
            keyed("a", "second"),
            Envelope { key: Some((1, 3)), visible: after(5), ..event("a", "other") },
        ])
        .await;
    assert_eq!(outcomes, [EnqueueOutcome::Queued; 3]);
    assert_eq!(bench.no_turn().await, Some(super::secs(5)), "the second replaced nothing");
    bench.send(vec![keyed("b", "of another lane")]).await;
    assert_eq!(texts(&bench.turn().await), ["of another lane"]);
    bench.advance(5).await;
    let turn = bench.turn().await;
    assert_eq!(texts(&turn), ["first", "other"]);
    bench.committed(step(&turn)).await;
    bench.send(vec![keyed("a", "again")]).await;
    assert_eq!(texts(&bench.turn().await), ["again"], "a key is free once its message is gone");
}

/// Payloads are returned byte for byte.
pub async fn payloads_come_back_identical(bench: &FlowBench) {
    let payloads = [
        Bytes::new(),
        Bytes::from_static(b"\0\xff\xfe plain"),
        Bytes::from((0..=255).collect::<Vec<u8>>()),
        Bytes::from(vec![7_u8; 1 << 20]),
    ];
    bench.start("a").await;
    let envelope = |payload: &Bytes| Envelope { payload: payload.clone(), ..event("a", "") };
    bench.send(payloads.iter().map(envelope).collect()).await;
    let turn = bench.turn().await;
    let got: Vec<_> = turn.messages.iter().skip(1).map(|message| &message.payload).collect();
    assert_eq!(got, payloads.iter().collect::<Vec<_>>());
}

/// Names are compared byte for byte.
pub async fn odd_names_are_kept_apart(bench: &FlowBench) {
    let names = ["a", "A", "a ", "a'b", "a\"b", "a%", "a_", "ä", "a\u{308}", "a:b", "-1"];
    for name in names {
        assert_eq!(bench.send(vec![start_of(name, "Cap")]).await, [EnqueueOutcome::Queued]);
    }
    assert_eq!(bench.no_turn_of(&capabilities(&["cap"])).await, None);
    for _ in names {
        let turn = bench.turn_of(&capabilities(&["Cap"])).await;
        let named =
            TurnCommit { new_instance: Some(new_instance(turn.instance.as_str())), ..step(&turn) };
        bench.committed(named).await;
    }
    for name in names {
        assert_eq!(bench.detail(name).await.name.as_str(), name);
    }
}

/// The first turn may end the instance, with all its events in one commit.
pub async fn an_instance_may_be_made_and_ended_by_one_turn(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    assert_eq!(turn.capability, Some(capability(MAIN)));
    let commit = TurnCommit { history: Some(batch(1, 5)), ..finish(&turn) };
    bench.committed(commit).await;
    let detail = bench.detail("a").await;
    assert!(detail.state.is_ended());
    assert_eq!(detail.output.as_deref(), Some(&b"output"[..]));
    assert_eq!(detail.ended_at, Some(detail.created_at));
}
