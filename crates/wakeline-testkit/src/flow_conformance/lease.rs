//! Rules of leases of turns: attempts, expiry, renewal, abandoning.

use wakeline_store::flow::{AbandonOutcome, Envelope, RenewOutcome};

use super::{FlowBench, LEASE, after, event, id, secs, step, texts};

/// Rule 2 of claiming: every claim counts an attempt.
pub async fn an_attempt_is_counted_by_each_claim(bench: &FlowBench) {
    bench.start("a").await;
    for attempt in 1..=3 {
        let turn = bench.turn().await;
        assert_eq!(turn.attempt, attempt);
        assert_eq!(bench.abandon(turn.token, 0, false).await, AbandonOutcome::Abandoned);
    }
}

/// Rule 2 of claiming: attempts are counted per message, and the turn has the highest count.
pub async fn attempts_are_counted_per_message_and_the_turn_has_the_highest(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.abandon(turn.token, 0, false).await;
    bench.send(vec![event("a", "young")]).await;
    let turn = bench.turn().await;
    let attempts: Vec<_> = turn.messages.iter().map(|message| message.attempt).collect();
    assert_eq!((attempts, turn.attempt), (vec![2, 1], 2));
    bench.committed(step(&turn)).await;
    bench.send(vec![event("a", "next")]).await;
    assert_eq!(bench.turn().await.attempt, 1, "another message has its own count");
}

/// Rule 4 of claiming: the next claim ends an expired lease.
pub async fn an_expired_lease_is_ended_by_the_next_claim(bench: &FlowBench) {
    bench.start("a").await;
    let first = bench.turn().await;
    bench.advance_ms(29_999).await;
    bench.no_turn().await;
    bench.advance_ms(1).await;
    let second = bench.turn().await;
    assert_eq!((second.attempt, texts(&second)), (2, vec!["start".to_owned()]));
    assert_ne!(second.token, first.token);
    bench.stale(step(&first)).await;
    assert_eq!(bench.renew(first.token, 30).await, RenewOutcome::Stale);
    assert_eq!(bench.abandon(first.token, 0, true).await, AbandonOutcome::Stale);
    bench.committed(step(&second)).await;
}

/// Messages that came during an expired lease are delivered with the others.
pub async fn an_expired_turn_comes_again_with_what_arrived_meanwhile(bench: &FlowBench) {
    bench.start("a").await;
    bench.turn().await;
    bench.send(vec![event("a", "during")]).await;
    bench.advance(30).await;
    let turn = bench.turn().await;
    assert_eq!(texts(&turn), ["start", "during"]);
    let attempts: Vec<_> = turn.messages.iter().map(|message| message.attempt).collect();
    assert_eq!(attempts, [2, 1]);
}

/// Rule 1 of committing: the lease must be unexpired at the commit, even if the turn was not
/// claimed again.
pub async fn an_expired_unclaimed_lease_cannot_commit(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.advance(30).await;
    bench.stale(step(&turn)).await;
    assert!(bench.is_pending("a").await);
    assert_eq!(bench.turn().await.messages.len(), 1);
}

/// A commit ends the lease.
pub async fn a_committed_turn_cannot_be_committed_again(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.committed(step(&turn)).await;
    bench.stale(step(&turn)).await;
    assert_eq!(bench.renew(turn.token, 30).await, RenewOutcome::Stale);
    assert_eq!(bench.abandon(turn.token, 0, false).await, AbandonOutcome::Stale);
}

/// A token that was never issued is stale.
pub async fn an_unknown_token_changes_nothing(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let mut forged = turn.clone();
    forged.token.key = uuid::Uuid::new_v4();
    bench.stale(step(&forged)).await;
    forged.token = turn.token;
    forged.token.lane += 1_000_000;
    bench.stale(step(&forged)).await;
    assert_eq!(bench.renew(forged.token, 1).await, RenewOutcome::Stale);
    assert_eq!(bench.abandon(forged.token, 0, false).await, AbandonOutcome::Stale);
    bench.committed(step(&turn)).await;
}

/// A token of one lane is not valid for another.
pub async fn a_token_is_for_its_own_lane(bench: &FlowBench) {
    bench.start("a").await;
    bench.start("b").await;
    let (a, b) = (bench.turn().await, bench.turn().await);
    let mut crossed = a.clone();
    crossed.token.lane = b.token.lane;
    bench.stale(step(&crossed)).await;
    bench.committed(step(&a)).await;
    bench.committed(step(&b)).await;
}

/// Rule 5 of work holds for turns: a renewal moves the end of the lease.
pub async fn a_renewal_moves_the_end(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.advance(20).await;
    assert!(matches!(bench.renew(turn.token, 30).await, RenewOutcome::Renewed(_)));
    bench.advance_ms(29_999).await;
    assert_eq!(bench.no_turn().await, Some(std::time::Duration::from_millis(1)));
    bench.committed(step(&turn)).await;
}

/// Rule 5 of work holds for turns: a renewal never shortens a lease.
pub async fn a_renewal_never_shortens(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    assert!(matches!(bench.renew(turn.token, 1).await, RenewOutcome::Renewed(_)));
    bench.advance(29).await;
    bench.no_turn().await;
    bench.committed(step(&turn)).await;
}

/// Rule 5 of work holds for turns: an expired lease is not renewed.
pub async fn an_expired_lease_cannot_be_renewed(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.advance(30).await;
    assert_eq!(bench.renew(turn.token, 30).await, RenewOutcome::Stale);
    assert_eq!(bench.turn().await.attempt, 2);
}

/// One call renews leases of turns and of work, each with its own outcome.
pub async fn many_leases_are_renewed_at_once(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.add_work(super::work("b", 1)).await;
    let work = bench.work(&super::Worker::plain()).await;
    let mut unknown = turn.token;
    unknown.key = uuid::Uuid::new_v4();
    let tokens = vec![work.token, unknown, turn.token];
    let outcomes = bench.flow.renew(tokens, secs(60)).await.expect("leases are renewed");
    assert!(matches!(
        outcomes[..],
        [RenewOutcome::Renewed(None), RenewOutcome::Stale, RenewOutcome::Renewed(_)]
    ));
    bench.advance(59).await;
    assert!(bench.completes(work.token).await);
    bench.committed(step(&turn)).await;
    assert!(bench.flow.renew(Vec::new(), secs(1)).await.expect("answered").is_empty());
}

/// Rule 6 of work holds for turns.
pub async fn an_abandoned_turn_is_available_at_once_or_after_its_delay(bench: &FlowBench) {
    bench.start("a").await;
    let first = bench.turn().await;
    bench.abandon(first.token, 0, false).await;
    let turn = bench.turn().await;
    bench.stale(step(&first)).await;
    bench.abandon(turn.token, 10, false).await;
    assert_eq!(bench.no_turn().await, Some(secs(10)));
    bench.advance(10).await;
    assert_eq!(bench.turn().await.attempt, 3);
}

/// Rule 6 of work: only messages that the lease held are delayed.
pub async fn an_abandoned_turn_delays_only_its_own_messages(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench
        .send(vec![event("a", "during"), Envelope { visible: after(3), ..event("a", "timer") }])
        .await;
    bench.abandon(turn.token, 60, false).await;
    let turn = bench.turn().await;
    assert_eq!(texts(&turn), ["during"]);
    bench.abandon(turn.token, 60, false).await;
    assert_eq!(bench.no_turn().await, Some(secs(3)));
    bench.advance(60).await;
    assert_eq!(texts(&bench.turn().await), ["start", "during", "timer"]);
}

/// Rule 6 of work: an uncounted abandon decrements the attempt, but never below zero.
pub async fn an_uncounted_abandon_takes_the_attempt_back(bench: &FlowBench) {
    bench.start("a").await;
    for _ in 0..3 {
        let turn = bench.turn().await;
        assert_eq!(turn.attempt, 1);
        bench.abandon(turn.token, 0, true).await;
    }
    let turn = bench.turn().await;
    bench.abandon(turn.token, 0, false).await;
    let turn = bench.turn().await;
    assert_eq!(turn.attempt, 2);
    bench.abandon(turn.token, 0, true).await;
    assert_eq!(bench.turn().await.attempt, 2);
}

/// Rule 6 of work: an expired lease can be abandoned until the turn is claimed again.
pub async fn an_expired_unclaimed_lease_can_be_abandoned(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.advance(31).await;
    assert_eq!(bench.abandon(turn.token, 5, true).await, AbandonOutcome::Abandoned);
    assert_eq!(bench.no_turn().await, Some(secs(5)));
    assert_eq!(bench.abandon(turn.token, 5, true).await, AbandonOutcome::Stale);
    bench.advance(5).await;
    assert_eq!(bench.turn().await.attempt, 1);
}

/// An early event is delayed with the start that it came with, and nothing is lost.
pub async fn an_abandoned_first_turn_keeps_early_events(bench: &FlowBench) {
    bench.send(vec![event("a", "early")]).await;
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.abandon(turn.token, 0, true).await;
    let turn = bench.turn().await;
    assert_eq!(
        (turn.instance.clone(), texts(&turn)),
        (id("a"), vec!["early".into(), "start".into()])
    );
    assert_eq!(bench.no_turn().await, Some(LEASE));
}
