//! Rules of the time until the next turn, and of sweeps.

use std::time::Duration;

use wakeline_core::{Capabilities, FlowLine};
use wakeline_store::flow::{Envelope, TurnCommit};

use super::{
    FlowBench, LEASE, Worker, after, capabilities, event, id, in_session, main_line, secs, start,
    start_of, step, tagged, turn_line, work,
};

/// Rule 6 of claiming: the next due time is exact for each source alone.
pub async fn the_next_due_time_is_exact_for_each_source(bench: &FlowBench) {
    assert_eq!(bench.no_turn().await, None, "nothing is in sight");
    bench.send(vec![Envelope { visible: after(90), ..start("a") }]).await;
    assert_eq!(bench.no_turn().await, Some(secs(90)), "a message");
    bench.send(vec![Envelope { visible: after(60), ..start("b") }]).await;
    assert_eq!(bench.no_turn().await, Some(secs(60)), "the earliest of two");
    bench.start("c").await;
    let turn = bench.turn().await;
    assert_eq!(bench.no_turn().await, Some(LEASE), "the end of a lease");
    bench.advance(10).await;
    assert_eq!(bench.no_turn().await, Some(secs(20)), "time passes");
    bench.renew(turn.token, 45).await;
    assert_eq!(bench.no_turn().await, Some(secs(45)), "a renewal");
    let timer = Envelope { visible: after(7), ..event("c", "timer") };
    bench.committed(TurnCommit { messages: vec![timer], ..step(&turn) }).await;
    assert_eq!(bench.no_turn().await, Some(secs(7)), "a timer");
    bench.advance(7).await;
    assert_eq!(bench.turn().await.instance, id("c"));
}

/// A wait is rounded up, never down.
pub async fn a_wait_ends_when_there_is_something_and_not_before(bench: &FlowBench) {
    let visible = wakeline_store::flow::Visible::After(Duration::from_micros(1_500));
    bench.send(vec![Envelope { visible, ..start("a") }]).await;
    let wait = bench.no_turn().await.expect("something is in sight");
    assert_eq!(wait, Duration::from_millis(2));
    bench.advance_ms(2).await;
    bench.turn().await;
}

/// Rule 6 of claiming: it concerns only what the line may get.
pub async fn the_next_turn_is_that_of_the_line(bench: &FlowBench) {
    bench
        .send(vec![
            Envelope { visible: after(5), ..start_of("a", "one") },
            Envelope { visible: after(9), ..start_of("b", "two") },
            event("c", "early"),
        ])
        .await;
    let lines: [(&[&str], _); 4] = [
        (&["one"], Some(secs(5))),
        (&["two"], Some(secs(9))),
        (&["two", "three"], Some(secs(9))),
        (&["three"], None),
    ];
    for (names, due) in lines {
        assert_eq!(bench.no_turn_of(&capabilities(names)).await, due, "{names:?}");
    }
    assert_eq!(bench.no_turn_of(&Capabilities::Any).await, Some(secs(5)));
}

/// Rule 6 of claiming: it is reported if a request was not served.
pub async fn a_partly_served_line_reports_when_the_next_turn_is_due(bench: &FlowBench) {
    bench.start("a").await;
    bench.send(vec![Envelope { visible: after(3), ..start("b") }]).await;
    let line = capabilities(&[super::MAIN]);
    let answer = bench.claim_turns(vec![turn_line(&line, 2)]).await.remove(0);
    assert!(answer.turns[0].is_some() && answer.turns[1].is_none());
    assert_eq!(answer.next_due, Some(secs(3)));
}

/// A sweep returns the same time as a claim and leases nothing.
pub async fn a_sweep_agrees_with_claims_and_takes_nothing(bench: &FlowBench) {
    assert_eq!(bench.sweep(main_line()).await, None);
    bench.send(vec![Envelope { visible: after(10), ..start("a") }]).await;
    assert_eq!(bench.sweep(main_line()).await, Some(secs(10)));
    bench.advance(10).await;
    for _ in 0..2 {
        assert_eq!(bench.sweep(main_line()).await, Some(Duration::ZERO));
    }
    assert_eq!(bench.sweep(FlowLine::Turns(capabilities(&["other"]))).await, None);
    assert_eq!(bench.sweep(FlowLine::Turns(Capabilities::Any)).await, Some(Duration::ZERO));
    assert_eq!(bench.turn().await.attempt, 1);
    assert_eq!(bench.sweep(main_line()).await, Some(LEASE));
    bench.advance(30).await;
    assert_eq!(bench.sweep(main_line()).await, Some(Duration::ZERO));
}

/// A sweep of work returns the same time as a claim and leases nothing.
pub async fn a_sweep_of_work_agrees_with_claims(bench: &FlowBench) {
    let (plain, gpu) = (Worker::plain(), Worker::of(false, &["gpu"]));
    assert_eq!(bench.sweep(plain.line()).await, None);
    bench.add_work(work("a", 1)).await;
    let delayed = wakeline_store::flow::NewWork { visible: after(5), ..tagged("a", 2, "gpu") };
    bench.add_work(delayed).await;
    bench.add_work(in_session("a", 3, "s")).await;
    assert_eq!(bench.sweep(plain.line()).await, Some(Duration::ZERO));
    assert_eq!(bench.sweep(gpu.line()).await, Some(secs(5)));
    assert_eq!(bench.sweep(Worker::of(false, &["cpu"]).line()).await, None);
    assert_eq!(bench.work(&plain).await.attempt, 1);
    assert_eq!(bench.sweep(plain.line()).await, Some(LEASE), "sessions are for others");
    assert_eq!(bench.sweep(Worker::owning("me").line()).await, Some(Duration::ZERO));
    bench.work(&Worker::owning("me")).await;
    assert_eq!(bench.sweep(Worker::owning("me").line()).await, Some(LEASE));
}

/// The line of an outcome is due once its instance has ended.
pub async fn a_sweep_of_an_outcome_has_something_once_the_instance_ended(bench: &FlowBench) {
    let line = || FlowLine::Outcome(id("a"));
    assert_eq!(bench.sweep(line()).await, None);
    bench.running("a").await;
    assert_eq!(bench.sweep(line()).await, None);
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    bench.committed(super::finish(&turn)).await;
    assert_eq!(bench.sweep(line()).await, Some(Duration::ZERO));
}

/// A sweep of many lines has one answer for each, in order.
pub async fn many_lines_are_swept_at_once(bench: &FlowBench) {
    bench.start("a").await;
    bench.add_work(work("a", 1)).await;
    let lines = vec![
        FlowLine::Turns(capabilities(&["other"])),
        main_line(),
        FlowLine::Outcome(id("a")),
        Worker::plain().line(),
        Worker::of(false, &["x"]).line(),
    ];
    let zero = Some(Duration::ZERO);
    let answers = bench.flow.sweep_flow(lines).await.expect("lines are swept");
    assert_eq!(answers, [None, zero, None, zero, None]);
    assert!(bench.flow.sweep_flow(Vec::new()).await.expect("answered").is_empty());
}
