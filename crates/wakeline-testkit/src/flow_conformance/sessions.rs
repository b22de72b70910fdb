//! Rules of sessions: activities that stay with one worker process.

use wakeline_store::flow::{AbandonOutcome, NewWork, SessionClaim, TurnCommit, WorkClaim};

use super::{FlowBench, LEASE, SESSION, Worker, after, in_session, owner, secs, step, work};

fn lasting(name: &str, seconds: u64) -> Worker {
    let session = Some(SessionClaim { owner: owner(name), lease: secs(seconds) });
    Worker { session, ..Worker::owning(name) }
}

impl FlowBench {
    async fn kept(&self, owners: &[&str], span: u64, idle: u64) -> u64 {
        let owners = owners.iter().map(|name| owner(name)).collect();
        self.flow.keep_sessions(owners, secs(span), secs(idle)).await.expect("sessions are kept")
    }

    /// Removes expired sessions and returns their number.
    async fn tidied(&self) -> u64 {
        self.kept(&[], 0, 0).await
    }
}

/// Rule 1: a worker without an owner gets no work of sessions.
pub async fn work_of_a_session_is_not_for_workers_without_an_owner(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    bench.add_work(work("a", 2)).await;
    assert_eq!(bench.all_work(&Worker::plain()).await, [2]);
    assert_eq!(bench.all_work(&Worker::owning("me")).await, [1]);
}

/// Rule 1: a worker with an owner gets both kinds, in order.
pub async fn an_owner_takes_work_with_and_without_a_session(bench: &FlowBench) {
    bench.add_work(work("a", 1)).await;
    bench.add_work(in_session("a", 2, "s")).await;
    bench.add_work(work("a", 3)).await;
    bench.add_work(in_session("a", 4, "t")).await;
    assert_eq!(bench.all_work(&Worker::owning("me")).await, [1, 2, 3, 4]);
}

/// Rule 2: a session belongs to its owner.
pub async fn a_session_belongs_to_whoever_claimed_it_first(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    bench.add_work(in_session("b", 2, "s")).await;
    let first = bench.work(&Worker::owning("me")).await;
    assert_eq!(first.session.as_ref().map(|session| session.as_str()), Some("s"));
    assert_eq!(bench.no_work(&Worker::owning("you")).await, Some(SESSION));
    assert_eq!(bench.all_work(&Worker::owning("me")).await, [2], "over instances");
    bench.complete(first.token, None).await;
    bench.add_work(in_session("a", 3, "s")).await;
    bench.no_work(&Worker::owning("you")).await;
    assert_eq!(bench.all_work(&Worker::owning("me")).await, [3], "it stays the owner's");
}

/// Different sessions may have different owners.
pub async fn different_sessions_may_have_different_owners(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    bench.add_work(in_session("a", 2, "t")).await;
    bench.add_work(in_session("a", 3, "s")).await;
    bench.add_work(in_session("a", 4, "t")).await;
    assert_eq!(bench.work(&Worker::owning("me")).await.key.activity, 1);
    assert_eq!(bench.work(&Worker::owning("you")).await.key.activity, 2);
    assert_eq!(bench.all_work(&Worker::owning("me")).await, [3]);
    assert_eq!(bench.all_work(&Worker::owning("you")).await, [4]);
}

/// An owner is a name: every worker that claims with it may take its work.
pub async fn two_workers_of_one_owner_share_its_sessions(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    bench.add_work(in_session("a", 2, "s")).await;
    let (one, two) = (Worker::owning("pod"), Worker::owning("pod"));
    assert_eq!(bench.work(&one).await.key.activity, 1);
    assert_eq!(bench.work(&two).await.key.activity, 2);
}

/// Rule 1: an expired session has no owner.
pub async fn an_expired_session_goes_to_the_next_owner(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    bench.add_work(in_session("a", 2, "s")).await;
    let first = bench.work(&lasting("me", 10)).await;
    bench.advance_ms(9_999).await;
    assert_eq!(
        bench.no_work(&Worker::owning("you")).await,
        Some(std::time::Duration::from_millis(1))
    );
    bench.advance_ms(1).await;
    assert_eq!(bench.work(&Worker::owning("you")).await.key.activity, 2);
    assert_eq!(bench.no_work(&Worker::owning("me")).await, Some(SESSION), "it is the other's now");
    assert!(bench.completes(first.token).await, "the lease of the work is another thing");
}

/// If both leases have expired, any owner gets the work.
pub async fn expired_work_of_an_expired_session_goes_to_anyone(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    bench.work(&lasting("me", 10)).await;
    bench.advance(30).await;
    let item = bench.work(&Worker::owning("you")).await;
    assert_eq!((item.key.activity, item.attempt), (1, 2));
}

/// If only the lease of the work has expired, its owner gets the work again.
pub async fn expired_work_of_a_live_session_stays_with_its_owner(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    bench.work(&Worker::owning("me")).await;
    bench.advance(30).await;
    assert_eq!(bench.no_work(&Worker::owning("you")).await, Some(secs(30)));
    assert_eq!(bench.work(&Worker::owning("me")).await.attempt, 2);
}

/// The former owner may claim an expired session again.
pub async fn an_expired_session_may_be_claimed_again_by_its_owner(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    bench.work(&lasting("me", 10)).await;
    bench.advance(40).await;
    assert_eq!(bench.work(&lasting("me", 50)).await.attempt, 2);
    bench.add_work(in_session("a", 2, "s")).await;
    assert_eq!(bench.no_work(&Worker::owning("you")).await, Some(secs(50)));
}

/// Rule 2: every claim extends the session.
pub async fn claiming_work_of_a_session_extends_it(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    bench.work(&Worker::owning("me")).await;
    bench.advance(50).await;
    bench.add_work(in_session("a", 2, "s")).await;
    bench.add_work(in_session("a", 3, "s")).await;
    bench.work(&Worker { lease: secs(600), ..Worker::owning("me") }).await;
    assert_eq!(bench.no_work(&Worker::owning("you")).await, Some(SESSION));
}

/// Rule 7: the end of another owner's session is reported as the next due time; the due time of its
/// work alone is not enough.
pub async fn the_next_work_waits_for_session_and_time(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    bench.work(&Worker { lease: secs(600), ..lasting("me", 10) }).await;
    bench.add_work(NewWork { visible: after(40), ..in_session("a", 2, "s") }).await;
    let due = bench.no_work(&Worker::owning("you")).await.expect("something is in sight");
    assert!(due <= secs(40), "never late: {due:?}");
    assert_eq!(bench.no_work(&lasting("me", 10)).await, Some(secs(40)));
    assert_eq!(bench.no_work(&Worker::plain()).await, None);
}

/// Rule 8: sessions that are owned, unexpired and active are extended.
pub async fn active_sessions_are_kept(bench: &FlowBench) {
    assert_eq!(bench.kept(&["me"], 60, 300).await, 0, "there are none");
    bench.add_work(in_session("a", 1, "s")).await;
    bench.add_work(in_session("a", 2, "t")).await;
    bench.work(&lasting("me", 10)).await;
    bench.work(&lasting("you", 10)).await;
    bench.advance(8).await;
    assert_eq!(bench.kept(&["me", "unknown"], 60, 300).await, 1);
    bench.add_work(in_session("a", 3, "s")).await;
    bench.add_work(in_session("a", 4, "t")).await;
    bench.advance(59).await;
    assert_eq!(bench.all_work(&Worker::owning("other")).await, [2, 4], "the other has expired");
    assert_eq!(bench.no_work(&Worker::owning("other")).await, Some(secs(1)));
}

/// Rule 8: one call extends sessions of several owners.
pub async fn sessions_of_several_owners_are_kept_at_once(bench: &FlowBench) {
    for (n, name) in [(1, "me"), (2, "you"), (3, "other")] {
        bench.add_work(in_session("a", n, name)).await;
        bench.work(&lasting(name, 10)).await;
    }
    assert_eq!(bench.kept(&["me", "you"], 60, 300).await, 2);
}

/// Rule 8: idle sessions are not extended.
pub async fn idle_sessions_are_not_kept(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    let item = bench.work(&Worker::owning("me")).await;
    bench.complete(item.token, None).await;
    bench.advance(20).await;
    assert_eq!(bench.kept(&["me"], 60, 19).await, 0);
    assert_eq!(bench.kept(&["me"], 60, 21).await, 1);
}

/// Rule 8: expired sessions are not extended.
pub async fn expired_sessions_are_not_kept(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    bench.work(&lasting("me", 10)).await;
    bench.advance(10).await;
    assert_eq!(bench.kept(&["me"], 60, 300).await, 0);
}

/// Rules 4 and 5: completing and renewing count as activity.
pub async fn completing_and_renewing_count_as_activity(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    let item = bench.work(&lasting("me", 600)).await;
    bench.advance(20).await;
    assert_eq!(bench.kept(&["me"], 600, 10).await, 0, "idle since the claim");
    bench.renew(item.token, 60).await;
    assert_eq!(bench.kept(&["me"], 600, 10).await, 1, "a renewal");
    bench.advance(20).await;
    assert_eq!(bench.kept(&["me"], 600, 10).await, 0);
    assert!(bench.completes(item.token).await);
    assert_eq!(bench.kept(&["me"], 600, 10).await, 1, "a completion");
}

/// Rule 8: a session is removed if it has expired and no work waits for it.
pub async fn expired_sessions_are_removed(bench: &FlowBench) {
    for (n, session) in [(1, "over"), (2, "waited for"), (3, "live")] {
        bench.add_work(in_session("a", n, session)).await;
    }
    let over = bench.work(&lasting("me", 10)).await;
    let waited_for = bench.work(&lasting("me", 10)).await;
    bench.work(&lasting("me", 600)).await;
    assert_eq!(bench.tidied().await, 0);
    bench.complete(over.token, None).await;
    bench.abandon(waited_for.token, 0, true).await;
    assert_eq!(bench.tidied().await, 0, "all are live");
    bench.advance(10).await;
    assert_eq!(bench.tidied().await, 1);
    assert_eq!(bench.tidied().await, 0);
    bench.add_work(in_session("a", 4, "over")).await;
    assert_eq!(bench.all_work(&Worker::owning("you")).await, [2, 4], "the session begins again");
}

/// Abandoned work still belongs to the owner of its session.
pub async fn abandoned_work_of_a_session_stays_with_its_owner(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    let item = bench.work(&Worker::owning("me")).await;
    assert_eq!(bench.abandon(item.token, 0, false).await, AbandonOutcome::Abandoned);
    bench.no_work(&Worker::owning("you")).await;
    let item = bench.work(&Worker::owning("me")).await;
    assert_eq!(item.attempt, 2);
    bench.abandon(item.token, 0, true).await;
    assert_eq!(bench.work(&Worker::owning("me")).await.attempt, 2);
}

/// Work of a session is delivered in order, one by one or together.
pub async fn work_of_a_session_comes_in_order(bench: &FlowBench) {
    bench.running("a").await;
    let all: Vec<_> = (1..=4).map(|n| in_session("a", n, "s")).collect();
    bench.turned("a", |turn| TurnCommit { work: all, ..step(turn) }).await;
    for n in 1..=2 {
        let item = bench.work(&Worker::owning("me")).await;
        assert_eq!(item.key.activity, n);
        bench.complete(item.token, None).await;
    }
    assert_eq!(bench.all_work(&Worker::owning("me")).await, [3, 4]);
}

/// A session that the first request of a line claims belongs to all requests of the line.
pub async fn a_claim_of_several_takes_a_whole_session(bench: &FlowBench) {
    for n in 1..=3 {
        bench.add_work(in_session("a", n, "s")).await;
    }
    let (me, you) = (Worker::owning("me"), Worker::owning("you"));
    let answers = bench.claim_work(vec![me.claim(2), you.claim(1)]).await;
    let got = |n: usize| answers[n].work.iter().flatten().count();
    assert_eq!((got(0), got(1)), (2, 0));
    assert_eq!(answers[1].next_due, Some(SESSION));
}

/// Tags are checked before sessions are claimed.
pub async fn a_session_is_not_claimed_for_work_of_another_tag(bench: &FlowBench) {
    let tagged = NewWork { tag: Some(super::tag("gpu")), ..in_session("a", 1, "s") };
    bench.add_work(tagged).await;
    assert_eq!(bench.no_work(&Worker::owning("me")).await, None);
    let gpu = Worker { session: Worker::owning("you").session, ..Worker::of(false, &["gpu"]) };
    assert_eq!(bench.work(&gpu).await.key.activity, 1);
}

/// A repeated claim returns what its key holds, like any claim.
pub async fn a_claim_of_a_session_repeated_with_its_key_returns_the_same(bench: &FlowBench) {
    bench.add_work(in_session("a", 1, "s")).await;
    bench.add_work(in_session("a", 2, "s")).await;
    let worker = Worker::owning("me");
    let request = worker.request();
    let claim = || WorkClaim { requests: vec![request.clone()], ..worker.claim(0) };
    for _ in 0..2 {
        let answer = bench.claim_work(vec![claim()]).await.remove(0);
        let item = answer.work[0].as_ref().expect("work");
        assert_eq!((item.key.activity, item.attempt, item.token.key), (1, 1, request.key));
    }
    assert_eq!(bench.work(&worker).await.lease_for, LEASE);
}

/// A worker that shuts down releases its sessions.
pub async fn sessions_that_are_let_go_are_claimed_by_others_at_once(bench: &FlowBench) {
    for n in 1..=2 {
        bench.add_work(in_session("a", n, "s")).await;
    }
    bench.add_work(in_session("a", 3, "t")).await;
    let first = bench.work(&Worker::owning("me")).await;
    bench.complete(first.token, None).await;
    assert_eq!(bench.all_work(&Worker::owning("you")).await, [3], "the other session is free");
    assert_eq!(bench.kept(&["me", "unknown"], 0, 0).await, 1);
    assert_eq!(bench.kept(&["me"], 0, 0).await, 0, "there is none any more");
    assert_eq!(bench.all_work(&Worker::owning("you")).await, [2]);
    assert_eq!(bench.kept(&["me"], 60, 300).await, 0, "it cannot be kept either");
}
