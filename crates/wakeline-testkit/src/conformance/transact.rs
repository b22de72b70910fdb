//! Transactions: pushes and settlements, all or nothing.

use wakeline_core::{LeaseToken, QueueOptions, Verdict};
use wakeline_store::{
    PushItem, PushOutcome, Refusal, SettleItem, SettleOutcome, TransactCommand, TransactOutcome,
    Transacted,
};

use super::{Bench, ClaimSpec, at_once, ended_lease, item};

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

/// All pushes and settlements of a transaction happen.
pub async fn a_transaction_pushes_and_settles(bench: &Bench) {
    let (from, to) = (bench.queue("from"), bench.queue("to"));
    bench.configure(&from, at_once()).await;
    bench.push(&from, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&from).batch(2)).await;
    let pushes = vec![item(&to, "x", "c"), item(&to, "y", "d"), item(&from, "p", "e")];
    let settles = vec![taken.item("b", Verdict::Completed), taken.item("a", Verdict::Failed)];
    let outcome = transact(bench, pushes.clone(), settles).await;
    let Transacted { pushes: pushed, settles, .. } = committed(outcome);
    for (sent, outcome) in pushes.iter().zip(&pushed) {
        assert!(matches!(outcome, PushOutcome::Queued { id, .. } if *id == sent.id), "{outcome:?}");
    }
    assert!(!ended_lease(&settles[0]) && ended_lease(&settles[1]), "{settles:?}");
    let mut moved = bench.drain(&ClaimSpec::queue(&to)).await;
    moved.sort();
    assert_eq!(moved, ["c", "d"]);
    let rest = bench.take(&ClaimSpec::queue(&from).batch(10)).await;
    assert_eq!((rest.ids(), rest.attempts()), (vec!["a".into(), "e".into()], vec![2, 1]));
}

/// A settlement that would fail refuses the whole transaction: no push and no other settlement
/// happens.
pub async fn a_refused_settlement_undoes_everything(bench: &Bench) {
    let (from, to) = (bench.queue("from"), bench.queue("to"));
    bench.configure(&from, QueueOptions { retry_limit: 0, ..Default::default() }).await;
    bench.push(&from, "p", &["a", "b"]).await;
    bench.push(&to, "p", &["first"]).await;
    let taken = bench.take(&ClaimSpec::queue(&from).batch(2)).await;
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
    assert_eq!(bench.drain(&ClaimSpec::queue(&to)).await, ["first"]);
    bench.complete(&taken).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&from)).await, None);
    // The refused push used no offset, and its transaction id is free.
    bench.push(&to, "p", &["never"]).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&to)).await.offsets(), [1]);
}

/// A transaction that settles the same message twice is refused.
pub async fn a_transaction_can_not_settle_a_message_twice(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    let settles = vec![taken.item("a", Verdict::Completed), taken.item("a", Verdict::Completed)];
    let outcome = transact(bench, Vec::new(), settles).await;
    assert!(
        matches!(outcome, TransactOutcome::Refused(Refusal::Settle { index: 1, .. })),
        "{outcome:?}"
    );
    bench.complete(&taken).await;
}

/// A push of a known transaction id does not refuse the transaction.
pub async fn a_duplicate_push_does_not_refuse_a_transaction(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    let pushes = vec![item(&queue, "p", "a"), item(&queue, "p", "b")];
    let outcome = transact(bench, pushes, vec![taken.item("a", Verdict::Completed)]).await;
    let Transacted { pushes, settles, .. } = committed(outcome);
    assert!(matches!(pushes[0], PushOutcome::Duplicate { .. }), "{pushes:?}");
    assert!(matches!(pushes[1], PushOutcome::Queued { .. }), "{pushes:?}");
    assert!(ended_lease(&settles[0]), "{settles:?}");
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["b"]);
}

/// Settlements of several queues, groups and leases succeed or fail together.
pub async fn a_transaction_spans_leases_and_groups(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    bench.push(&one, "p", &["a"]).await;
    bench.push(&two, "p", &["b"]).await;
    let a = bench.take(&ClaimSpec::queue(&one)).await;
    let b = bench.take(&ClaimSpec::queue(&two).group(&bench.group("g"))).await;
    bench.advance(200).await;
    let c = bench.take(&ClaimSpec::queue(&one).group(&bench.group("h"))).await;
    bench.advance(100).await;
    let completed = |taken: &super::TakenBatch| {
        let id = taken.ids().remove(0);
        taken.item(&id, Verdict::Completed)
    };
    let outcome = transact(bench, Vec::new(), vec![completed(&c), completed(&a)]).await;
    let stale = SettleOutcome::StaleLease;
    assert_eq!(outcome, refused(1, stale));
    let b2 = bench.take(&ClaimSpec::queue(&two).group(&b.group)).await;
    let outcome = transact(bench, Vec::new(), vec![completed(&c), completed(&b2)]).await;
    committed(outcome);
}

/// An empty transaction commits.
pub async fn an_empty_transaction_commits(bench: &Bench) {
    let outcome = transact(bench, Vec::new(), Vec::new()).await;
    let nothing = TransactOutcome::Committed(Transacted::default());
    assert_eq!(outcome, nothing);
}
