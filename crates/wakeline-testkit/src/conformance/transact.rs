//! Transactions: pushes and settlements, all or nothing.

use wakeline_core::{LeaseToken, QueueOptions, Verdict};
use wakeline_store::{
    PushItem, PushOutcome, Refusal, SettleItem, SettleOutcome, TransactCommand, TransactOutcome,
    Transacted,
};

use super::{Ask, Bench, at_once, ended_lease, item};

async fn transact(
    bench: &Bench,
    pushes: Vec<PushItem>,
    settles: Vec<SettleItem>,
) -> TransactOutcome {
    let command = TransactCommand { pushes, settles, ..TransactCommand::default() };
    bench.store.transact(command).await.expect("a transaction is answered").outcome
}

fn committed(outcome: TransactOutcome) -> Transacted {
    match outcome {
        TransactOutcome::Committed(transacted) => transacted,
        TransactOutcome::Refused(refusal) => panic!("{refusal:?}"),
    }
}

fn refused(index: usize, outcome: SettleOutcome) -> TransactOutcome {
    TransactOutcome::Refused(Refusal::Settle { index, outcome })
}

/// All of it happens.
pub async fn a_transaction_pushes_and_settles(bench: &Bench) {
    let (from, to) = (bench.queue("from"), bench.queue("to"));
    bench.configure(&from, at_once()).await;
    bench.push(&from, "p", &["a", "b"]).await;
    let taken = bench.take(&Ask::queue(&from).batch(2)).await;
    let pushes = vec![item(&to, "x", "c"), item(&to, "y", "d"), item(&from, "p", "e")];
    let settles = vec![taken.item("b", Verdict::Completed), taken.item("a", Verdict::Failed)];
    let outcome = transact(bench, pushes.clone(), settles).await;
    let Transacted { pushes: pushed, settles, .. } = committed(outcome);
    for (sent, outcome) in pushes.iter().zip(&pushed) {
        assert!(matches!(outcome, PushOutcome::Queued { id, .. } if *id == sent.id), "{outcome:?}");
    }
    assert!(!ended_lease(&settles[0]) && ended_lease(&settles[1]), "{settles:?}");
    let mut moved = bench.drain(&Ask::queue(&to)).await;
    moved.sort();
    assert_eq!(moved, ["c", "d"]);
    let rest = bench.take(&Ask::queue(&from).batch(10)).await;
    assert_eq!((rest.ids(), rest.attempts()), (vec!["a".into(), "e".into()], vec![2, 1]));
}

/// A settlement that would not succeed refuses the whole: no push, no other settlement.
pub async fn a_refused_settlement_undoes_everything(bench: &Bench) {
    let (from, to) = (bench.queue("from"), bench.queue("to"));
    bench.configure(&from, QueueOptions { retry_limit: 0, ..Default::default() }).await;
    bench.push(&from, "p", &["a", "b"]).await;
    bench.push(&to, "p", &["first"]).await;
    let taken = bench.take(&Ask::queue(&from).batch(2)).await;
    let mut stale = taken.item("b", Verdict::Completed);
    stale.token = Some(LeaseToken::generate());
    let mut unnamed = taken.item("b", Verdict::Completed);
    unnamed.token = None;
    for (bad, expected) in [
        (stale, SettleOutcome::StaleLease),
        (taken.item("unknown", Verdict::Completed), SettleOutcome::NotFound),
        (unnamed, SettleOutcome::LeaseRequired),
    ] {
        let pushes = vec![item(&to, "p", "never"), item(&from, "p", "never")];
        let settles = vec![taken.item("a", Verdict::Failed), bad, taken.item("b", Verdict::Retry)];
        let outcome = transact(bench, pushes, settles).await;
        assert_eq!(outcome, refused(1, expected));
    }
    assert!(bench.dead_letters(&from).await.is_empty());
    assert_eq!(bench.drain(&Ask::queue(&to)).await, ["first"]);
    bench.complete(&taken).await;
    assert_eq!(bench.nothing(&Ask::queue(&from)).await, None);
    // Its offset was not used up, and its transaction id is free.
    bench.push(&to, "p", &["never"]).await;
    assert_eq!(bench.take(&Ask::queue(&to)).await.offsets(), [1]);
}

/// A transaction that settles the same message twice does not succeed.
pub async fn a_transaction_can_not_settle_a_message_twice(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&Ask::queue(&queue).batch(2)).await;
    let settles = vec![taken.item("a", Verdict::Completed), taken.item("a", Verdict::Completed)];
    let outcome = transact(bench, Vec::new(), settles).await;
    assert!(
        matches!(outcome, TransactOutcome::Refused(Refusal::Settle { index: 1, .. })),
        "{outcome:?}"
    );
    bench.complete(&taken).await;
}

/// A push that repeats a known transaction id refuses nothing.
pub async fn a_duplicate_push_does_not_refuse_a_transaction(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&Ask::queue(&queue)).await;
    let pushes = vec![item(&queue, "p", "a"), item(&queue, "p", "b")];
    let outcome = transact(bench, pushes, vec![taken.item("a", Verdict::Completed)]).await;
    let Transacted { pushes, settles, .. } = committed(outcome);
    assert!(matches!(pushes[0], PushOutcome::Duplicate { .. }), "{pushes:?}");
    assert!(matches!(pushes[1], PushOutcome::Queued { .. }), "{pushes:?}");
    assert!(ended_lease(&settles[0]), "{settles:?}");
    assert_eq!(bench.drain(&Ask::queue(&queue)).await, ["b"]);
}

/// Settlements of several queues, groups and leases stand or fall together.
pub async fn a_transaction_spans_leases_and_groups(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    bench.push(&one, "p", &["a"]).await;
    bench.push(&two, "p", &["b"]).await;
    let a = bench.take(&Ask::queue(&one)).await;
    let b = bench.take(&Ask::queue(&two).group(&bench.group("g"))).await;
    bench.advance(200).await;
    let c = bench.take(&Ask::queue(&one).group(&bench.group("h"))).await;
    bench.advance(100).await;
    let completed = |taken: &super::Taken| {
        let id = taken.ids().remove(0);
        taken.item(&id, Verdict::Completed)
    };
    let outcome = transact(bench, Vec::new(), vec![completed(&c), completed(&a)]).await;
    let stale = SettleOutcome::StaleLease;
    assert_eq!(outcome, refused(1, stale));
    let b2 = bench.take(&Ask::queue(&two).group(&b.group)).await;
    let outcome = transact(bench, Vec::new(), vec![completed(&c), completed(&b2)]).await;
    committed(outcome);
}

/// A transaction of nothing commits.
pub async fn an_empty_transaction_commits(bench: &Bench) {
    let outcome = transact(bench, Vec::new(), Vec::new()).await;
    let nothing = TransactOutcome::Committed(Transacted::default());
    assert_eq!(outcome, nothing);
}
