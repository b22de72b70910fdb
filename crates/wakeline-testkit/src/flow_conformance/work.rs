//! Rules of activities: order, leases, completion, cancellation.

use wakeline_store::flow::{
    AbandonOutcome, EnqueueOutcome, Envelope, InstanceState, NewWork, RenewOutcome, TurnCommit,
    WorkClaim, WorkKey, WorkOutcome,
};

use super::{
    FlowBench, LEASE, MAIN, Worker, after, continues, ends, event, finish, id, secs, step, texts,
    work,
};

/// Creates a running instance with this number of activities, numbered from 1.
async fn scheduled(bench: &FlowBench, instance: &str, activities: u64) {
    bench.running(instance).await;
    let all = (1..=activities).map(|n| work(instance, n)).collect();
    bench.turned(instance, |turn| TurnCommit { work: all, ..step(turn) }).await;
}

fn key(activity: u64) -> WorkKey {
    WorkKey { execution: 1, activity }
}

/// Rule 1: activities are claimed strictly in order of insertion, over all instances.
pub async fn work_is_claimed_in_order_of_insertion(bench: &FlowBench) {
    scheduled(bench, "a", 3).await;
    bench.add_work(work("b", 4)).await;
    bench.advance(1).await;
    bench.add_work(work("a", 5)).await;
    assert_eq!(bench.all_work(&Worker::plain()).await, [1, 2, 3, 4, 5]);
}

/// Rule 1: activities that are not due yet are skipped.
pub async fn work_of_a_later_time_is_passed_over(bench: &FlowBench) {
    bench.add_work(NewWork { visible: after(10), ..work("a", 1) }).await;
    bench.add_work(work("a", 2)).await;
    bench.add_work(NewWork { visible: after(5), ..work("a", 3) }).await;
    assert_eq!(bench.all_work(&Worker::plain()).await, [2]);
    assert_eq!(bench.no_work(&Worker::plain()).await, Some(secs(5)));
    bench.advance(10).await;
    assert_eq!(bench.all_work(&Worker::plain()).await, [1, 3]);
}

/// Rule 2: leased work is not claimed again.
pub async fn leased_work_is_not_claimed_again(bench: &FlowBench) {
    scheduled(bench, "a", 1).await;
    let item = bench.work(&Worker::plain()).await;
    assert_eq!((item.attempt, item.lease_for), (1, LEASE));
    assert_eq!(bench.no_work(&Worker::plain()).await, Some(LEASE));
    bench.advance_ms(29_999).await;
    bench.no_work(&Worker::plain()).await;
    bench.advance_ms(1).await;
    let again = bench.work(&Worker::plain()).await;
    assert_eq!((again.attempt, again.key), (2, item.key));
    assert!(!bench.completes(item.token).await, "its lease is over");
    assert!(bench.completes(again.token).await);
}

/// Work whose lease expired comes before work that was inserted later.
pub async fn expired_work_keeps_its_place(bench: &FlowBench) {
    scheduled(bench, "a", 2).await;
    bench.work(&Worker::plain()).await;
    bench.advance(30).await;
    assert_eq!(bench.all_work(&Worker::plain()).await, [1, 2]);
}

/// A claimed activity has everything that it was scheduled with.
pub async fn work_comes_back_as_it_was_scheduled(bench: &FlowBench) {
    bench.running("a").await;
    let payload = bytes::Bytes::from_static(b"\0\xff input");
    let new = NewWork {
        key: WorkKey { execution: 1, activity: 77 },
        tag: Some(super::tag("gpu")),
        payload: payload.clone(),
        ..super::in_session("a", 0, "s")
    };
    bench.turned("a", |turn| TurnCommit { work: vec![new.clone()], ..step(turn) }).await;
    let worker = Worker { filter: Worker::any().filter, ..Worker::owning("me") };
    let item = bench.work(&worker).await;
    assert_eq!((item.instance.clone(), item.key), (id("a"), new.key));
    assert_eq!((&item.tag, &item.session, item.payload), (&new.tag, &new.session, payload));
    assert_eq!(item.state, Some(InstanceState::Running));
}

/// Work that is inserted outside of a turn creates no instance.
pub async fn work_without_an_instance_reports_that_there_is_none(bench: &FlowBench) {
    bench.add_work(work("unknown", 1)).await;
    assert_eq!(bench.work(&Worker::plain()).await.state, None);
    assert_eq!(bench.watched("unknown").await, wakeline_store::flow::Watched::Missing);
}

/// Rule 3: the state is that of the execution that scheduled the work.
pub async fn work_has_the_state_of_its_execution(bench: &FlowBench) {
    use InstanceState::{Completed, ContinuedAsNew, Failed, Running};
    scheduled(bench, "a", 1).await;
    bench.turned("a", |turn| continues(turn, MAIN)).await;
    let turn = bench.turn().await;
    let second = NewWork { key: WorkKey { execution: 2, activity: 1 }, ..work("a", 1) };
    bench.committed(TurnCommit { work: vec![second], ..step(&turn) }).await;
    let states =
        [bench.work(&Worker::plain()).await.state, bench.work(&Worker::plain()).await.state];
    assert_eq!(states, [Some(ContinuedAsNew), Some(Running)]);
    for (name, state) in [("b", Completed), ("c", Failed)] {
        scheduled(bench, name, 1).await;
        bench.turned(name, |turn| TurnCommit { clear: false, ..ends(turn, state) }).await;
        assert_eq!(bench.work(&Worker::plain()).await.state, Some(state));
    }
    bench.running("d").await;
    bench.add_work(NewWork { key: WorkKey { execution: 9, activity: 1 }, ..work("d", 1) }).await;
    assert_eq!(bench.work(&Worker::plain()).await.state, None, "there is no such execution");
}

/// Rule 4: both happen in one commit.
pub async fn completing_removes_the_work_and_notifies_its_instance(bench: &FlowBench) {
    scheduled(bench, "a", 2).await;
    let first = bench.work(&Worker::plain()).await;
    let reply = bench.complete(first.token, Some(event("a", "done"))).await;
    assert_eq!(reply.outcome, WorkOutcome::Completed(Some(EnqueueOutcome::Queued)));
    assert_eq!(texts(&bench.turn().await), ["done"]);
    let second = bench.work(&Worker::plain()).await;
    let reply = bench.complete(second.token, None).await;
    assert_eq!(reply.outcome, WorkOutcome::Completed(None), "without a message");
    bench.advance(60).await;
    assert_eq!(bench.no_work(&Worker::plain()).await, None);
}

/// Rule 4: work is completed once.
pub async fn completed_work_cannot_be_completed_again(bench: &FlowBench) {
    scheduled(bench, "a", 1).await;
    let item = bench.work(&Worker::plain()).await;
    bench.complete(item.token, Some(event("a", "done"))).await;
    let reply = bench.complete(item.token, Some(event("a", "done again"))).await;
    assert_eq!(reply.outcome, WorkOutcome::Stale);
    assert_eq!(bench.renew(item.token, 30).await, RenewOutcome::Stale);
    assert_eq!(bench.abandon(item.token, 0, false).await, AbandonOutcome::Stale);
    assert_eq!(texts(&bench.turn().await), ["done"], "no instance was notified twice");
}

/// Rule 4: a completion with an expired lease sends no message.
pub async fn an_expired_lease_cannot_complete(bench: &FlowBench) {
    scheduled(bench, "a", 1).await;
    let item = bench.work(&Worker::plain()).await;
    bench.advance(30).await;
    let reply = bench.complete(item.token, Some(event("a", "late"))).await;
    assert_eq!(reply.outcome, WorkOutcome::Stale);
    assert_eq!(bench.no_turn().await, None);
    assert_eq!(bench.work(&Worker::plain()).await.attempt, 2, "the work is still there");
}

/// Rule 4: the work is removed even if its message is refused.
pub async fn work_of_an_ended_instance_goes_and_its_message_is_refused(bench: &FlowBench) {
    scheduled(bench, "a", 1).await;
    let item = bench.work(&Worker::plain()).await;
    bench.turned("a", |turn| TurnCommit { clear: false, ..finish(turn) }).await;
    let reply = bench.complete(item.token, Some(event("a", "done"))).await;
    assert_eq!(reply.outcome, WorkOutcome::Completed(Some(EnqueueOutcome::Ended)));
    assert_eq!(bench.no_work(&Worker::plain()).await, None);
}

/// A completion may come after a timer of the same lane, in its order of arrival.
pub async fn completions_arrive_in_the_order_of_their_commits(bench: &FlowBench) {
    scheduled(bench, "a", 3).await;
    let mut items = Vec::new();
    for _ in 0..3 {
        items.push(bench.work(&Worker::plain()).await);
    }
    for n in [2, 0, 1] {
        bench.complete(items[n].token, Some(event("a", &n.to_string()))).await;
    }
    assert_eq!(texts(&bench.turn().await), ["2", "0", "1"]);
}

/// Rule 5: a renewal returns the state of the execution.
pub async fn renewing_returns_the_state_of_the_execution(bench: &FlowBench) {
    scheduled(bench, "a", 1).await;
    let item = bench.work(&Worker::plain()).await;
    bench.advance(20).await;
    let running = RenewOutcome::Renewed(Some(InstanceState::Running));
    assert_eq!(bench.renew(item.token, 30).await, running);
    bench.advance(29).await;
    assert_eq!(bench.no_work(&Worker::plain()).await, Some(secs(1)), "it was extended");
    bench.turned("a", |turn| TurnCommit { clear: false, ..finish(turn) }).await;
    let ended = RenewOutcome::Renewed(Some(InstanceState::Completed));
    assert_eq!(bench.renew(item.token, 30).await, ended);
    bench.advance(30).await;
    assert_eq!(bench.renew(item.token, 30).await, RenewOutcome::Stale, "it has expired");
}

/// Rule 5: a renewal never shortens a lease.
pub async fn renewing_work_never_shortens(bench: &FlowBench) {
    bench.add_work(work("a", 1)).await;
    let item = bench.work(&Worker::plain()).await;
    assert_eq!(bench.renew(item.token, 1).await, RenewOutcome::Renewed(None));
    assert_eq!(bench.no_work(&Worker::plain()).await, Some(LEASE));
}

/// Rule 6: abandoned work is available after its delay.
pub async fn abandoned_work_is_available_after_its_delay(bench: &FlowBench) {
    scheduled(bench, "a", 2).await;
    let item = bench.work(&Worker::plain()).await;
    assert_eq!(bench.abandon(item.token, 0, false).await, AbandonOutcome::Abandoned);
    let item = bench.work(&Worker::plain()).await;
    assert_eq!((item.key, item.attempt), (key(1), 2), "it kept its place");
    bench.abandon(item.token, 10, false).await;
    assert_eq!(bench.abandon(item.token, 0, false).await, AbandonOutcome::Stale);
    assert_eq!(bench.all_work(&Worker::plain()).await, [2]);
    assert_eq!(bench.no_work(&Worker::plain()).await, Some(secs(10)));
    bench.advance(10).await;
    assert_eq!(bench.work(&Worker::plain()).await.attempt, 3);
}

/// Rule 6: an uncounted abandon decrements the attempt, but never below zero.
pub async fn uncounted_work_has_its_attempt_back(bench: &FlowBench) {
    scheduled(bench, "a", 1).await;
    for _ in 0..3 {
        let item = bench.work(&Worker::plain()).await;
        assert_eq!(item.attempt, 1);
        bench.abandon(item.token, 0, true).await;
    }
    let item = bench.work(&Worker::plain()).await;
    bench.advance(30).await;
    let again = bench.work(&Worker::plain()).await;
    assert_eq!(again.attempt, 2);
    assert_eq!(bench.abandon(item.token, 0, true).await, AbandonOutcome::Stale);
    bench.abandon(again.token, 0, true).await;
    assert_eq!(bench.work(&Worker::plain()).await.attempt, 2);
}

/// Rule 6: expired work can be abandoned until it is claimed again.
pub async fn expired_unclaimed_work_can_be_abandoned(bench: &FlowBench) {
    scheduled(bench, "a", 1).await;
    let item = bench.work(&Worker::plain()).await;
    bench.advance(31).await;
    assert_eq!(bench.abandon(item.token, 5, true).await, AbandonOutcome::Abandoned);
    assert_eq!(bench.no_work(&Worker::plain()).await, Some(secs(5)));
}

/// The same key returns the same work, as for turns.
pub async fn a_claim_of_work_repeated_with_its_key_returns_the_same(bench: &FlowBench) {
    scheduled(bench, "a", 2).await;
    let worker = Worker::plain();
    let request = worker.request();
    let claim = || WorkClaim { requests: vec![request.clone()], ..worker.claim(0) };
    let first = bench.claim_work(vec![claim()]).await.remove(0).work.remove(0).expect("work");
    let again = bench.claim_work(vec![claim()]).await.remove(0).work.remove(0).expect("work");
    assert_eq!((again.token, again.key, again.attempt), (first.token, key(1), 1));
    assert_eq!(first.token.key, request.key);
    assert_eq!(bench.all_work(&worker).await, [2]);
    bench.advance(30).await;
    let later = bench.claim_work(vec![claim()]).await.remove(0).work.remove(0).expect("work");
    assert_eq!((later.key, later.attempt), (key(1), 2));
}

/// Requests of one claim, and lines of one call, get different work.
pub async fn requests_of_one_claim_get_different_work(bench: &FlowBench) {
    scheduled(bench, "a", 3).await;
    let (plain, any) = (Worker::plain(), Worker::any());
    let answers = bench.claim_work(vec![plain.claim(2), any.claim(2)]).await;
    let got: Vec<Vec<_>> = (answers.iter())
        .map(|line| line.work.iter().map(|work| work.as_ref().map(|w| w.key.activity)).collect())
        .collect();
    assert_eq!(got, [[Some(1), Some(2)], [Some(3), None]]);
    assert_eq!(answers[0].next_due, None, "every request was served");
    assert_eq!(answers[1].next_due, Some(LEASE));
}

/// Such a claim reports the next due time even if every request was served, as for turns.
pub async fn a_claim_of_work_that_looks_further_says_what_is_next(bench: &FlowBench) {
    scheduled(bench, "a", 2).await;
    let worker = Worker::plain();
    let mut next = Vec::new();
    for further in [true, true, false] {
        let line = WorkClaim { further, ..worker.claim(1) };
        let answer = bench.claim_work(vec![line]).await.remove(0);
        assert_eq!(answer.work[0].is_some(), further);
        next.push(answer.next_due);
    }
    assert_eq!(next, [Some(secs(0)), Some(LEASE), Some(LEASE)]);
}

/// Rule 6 of committing: existing work with the same key does not change.
pub async fn work_with_a_known_key_is_left_as_it_is(bench: &FlowBench) {
    scheduled(bench, "a", 1).await;
    let other = NewWork { payload: "other".into(), ..work("a", 1) };
    bench.turned("a", |turn| TurnCommit { work: vec![other.clone()], ..step(turn) }).await;
    bench.add_work(other.clone()).await;
    let item = bench.work(&Worker::plain()).await;
    assert_eq!(item.payload.as_ref(), b"1");
    bench.add_work(other).await;
    assert_eq!(bench.no_work(&Worker::plain()).await, Some(LEASE), "leased or not");
    bench.add_work(work("b", 1)).await;
    assert_eq!(bench.work(&Worker::plain()).await.instance, id("b"), "keys are the instance's");
}

/// Rule 6 of committing: cancelled work is removed.
pub async fn cancelled_work_goes_and_its_lease_is_stale(bench: &FlowBench) {
    scheduled(bench, "a", 4).await;
    bench.add_work(work("b", 2)).await;
    let leased = bench.work(&Worker::plain()).await;
    let cancelled_work = vec![key(1), key(2), key(9), key(4)];
    bench.turned("a", |turn| TurnCommit { cancelled_work, ..step(turn) }).await;
    let reply = bench.complete(leased.token, Some(event("a", "too late"))).await;
    assert_eq!(reply.outcome, WorkOutcome::Stale);
    assert_eq!(bench.renew(leased.token, 30).await, RenewOutcome::Stale);
    assert_eq!(bench.abandon(leased.token, 0, true).await, AbandonOutcome::Stale);
    assert_eq!(bench.no_turn().await, None);
    assert_eq!(bench.all_work(&Worker::plain()).await, [3, 2], "those of others stay");
}

/// Rule 6 of committing: work that one turn schedules and cancels is not inserted.
pub async fn work_scheduled_and_cancelled_by_one_turn_is_none(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let commit = TurnCommit {
        work: vec![work("a", 1), work("a", 2)],
        cancelled_work: vec![key(1)],
        ..step(&turn)
    };
    bench.committed(commit).await;
    assert_eq!(bench.all_work(&Worker::plain()).await, [2]);
}

/// Work of a turn belongs to the committing instance.
pub async fn work_of_a_turn_is_its_instances(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.committed(TurnCommit { work: vec![work("a", 1)], ..step(&turn) }).await;
    let item = bench.work(&Worker::plain()).await;
    assert_eq!(item.instance, id("a"));
    assert_eq!(item.token.lane, turn.token.lane);
    assert!(item.token.work.is_some());
}

/// The message of a completion may also start the first turn of a lane.
pub async fn a_completion_is_stored_as_by_an_enqueue(bench: &FlowBench) {
    bench.add_work(work("a", 1)).await;
    let item = bench.work(&Worker::plain()).await;
    bench.start("b").await;
    let reply = bench.complete(item.token, Some(super::start("b"))).await;
    assert_eq!(reply.outcome, WorkOutcome::Completed(Some(EnqueueOutcome::Exists)));
    bench.add_work(work("a", 2)).await;
    let item = bench.work(&Worker::plain()).await;
    let delayed = Envelope { visible: after(9), ..super::start("c") };
    bench.complete(item.token, Some(delayed)).await;
    assert!(bench.is_pending("c").await);
}

/// A token of a turn is not valid for work, and the other way round.
pub async fn tokens_of_turns_and_of_work_are_not_exchanged(bench: &FlowBench) {
    scheduled(bench, "a", 1).await;
    let item = bench.work(&Worker::plain()).await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    let mut crossed = item.token;
    crossed.key = turn.token.key;
    assert!(!bench.completes(crossed).await);
    let mut crossed = turn.clone();
    crossed.token.key = item.token.key;
    bench.stale(step(&crossed)).await;
    bench.committed(step(&turn)).await;
    assert!(bench.completes(item.token).await);
}

/// An activity that is retried shows its number of attempts, the last error and the next attempt.
pub async fn pending_work_shows_its_attempts_error_and_next_attempt(bench: &FlowBench) {
    bench.running("a").await;
    bench
        .turned("a", |turn| TurnCommit { work: vec![work("a", 1), work("a", 2)], ..step(turn) })
        .await;
    let pending = async || bench.flow.pending_work(&id("a"), 10).await.expect("read");
    let fresh = pending().await;
    assert_eq!(fresh.len(), 2);
    assert_eq!((fresh[0].attempts, fresh[0].leased, fresh[0].next_at), (0, false, None));
    let item = bench.work(&Worker::plain()).await;
    let leased = pending().await.remove(0);
    assert_eq!((leased.key, leased.attempts, leased.leased), (item.key, 1, true));
    assert_eq!((leased.payload, leased.next_at), (item.payload, None));
    let retry = |token, error: &str| bench.flow.retry_work(token, secs(10), error.to_owned());
    let (outcome, _) = retry(item.token, "no route").await.expect("given back");
    assert_eq!(outcome, AbandonOutcome::Abandoned);
    let delayed = pending().await.remove(0);
    assert_eq!((delayed.attempts, delayed.leased), (1, false));
    assert_eq!(delayed.last_error.as_deref(), Some("no route"));
    let next_at = delayed.next_at.expect("it waits");
    assert_eq!(retry(item.token, "late").await.expect("answered").0, AbandonOutcome::Stale);
    bench.advance(10).await;
    assert_eq!(pending().await[0].next_at, None, "it was due at {next_at:?}");
    assert_eq!(pending().await[0].last_error.as_deref(), Some("no route"));
    assert_eq!(bench.flow.pending_work(&id("a"), 1).await.expect("read").len(), 1);
    assert!(bench.flow.pending_work(&id("unknown"), 10).await.expect("read").is_empty());
}
