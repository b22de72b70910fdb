//! Maintenance mode: pushes that are held back or refused, and claims that are paused.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{QueueName, RedriveId, Subscription, Verdict};
use wakeline_store::flow::Visible;
use wakeline_store::{
    DeadLetterFilter, Maintenance, Page, PushGate, PushItem, PushOutcome, Redrive, SetMaintenance,
    StoreError, TransactCommand, TransactOutcome,
};

use super::schedule::{after, later, schedule};
use super::{Bench, ClaimSpec, is_settled, item, secs};

async fn pushes(bench: &Bench, gate: PushGate) {
    let set = SetMaintenance { pushes: Some(gate), ..SetMaintenance::default() };
    bench.store.set_maintenance(set).await.expect("maintenance is set");
}

async fn pause(bench: &Bench, paused: bool) {
    let set = SetMaintenance { pops_paused: Some(paused), ..SetMaintenance::default() };
    bench.store.set_maintenance(set).await.expect("maintenance is set");
}

async fn held(bench: &Bench) -> u64 {
    bench.store.held_messages().await.expect("they are counted")
}

/// Pushes; returns for each message whether it is held back.
async fn push_held(bench: &Bench, queue: &QueueName, partition: &str, ids: &[&str]) -> Vec<bool> {
    let outcomes = bench.push(queue, partition, ids).await.outcomes;
    outcomes.iter().map(|outcome| matches!(outcome, PushOutcome::Held { .. })).collect()
}

/// Fields that are given are set, the others stay; the answer has the state before and after.
pub async fn setting_maintenance_returns_the_state_before_and_after(bench: &Bench) {
    let set = async |pushes, pops_paused| {
        let done = bench.store.set_maintenance(SetMaintenance { pushes, pops_paused }).await;
        let done = done.expect("maintenance is set");
        assert_eq!(bench.store.maintenance().await.expect("it is read"), done.now);
        (done.before, done.now)
    };
    let stands = |pushes, pops_paused| Maintenance { pushes, pops_paused };
    let open = stands(PushGate::Open, false);
    assert_eq!(bench.store.maintenance().await.expect("it is read"), open);
    let hold = stands(PushGate::Hold, false);
    assert_eq!(set(Some(PushGate::Hold), None).await, (open, hold));
    let both = stands(PushGate::Hold, true);
    assert_eq!(set(None, Some(true)).await, (hold, both));
    let refuse = stands(PushGate::Refuse, true);
    assert_eq!(set(Some(PushGate::Refuse), None).await, (both, refuse));
    assert_eq!(set(Some(PushGate::Open), Some(false)).await, (refuse, open));
}

/// Held messages are stored at once. They are delivered after the end of the maintenance, in their
/// order, before later pushes.
pub async fn held_pushes_come_in_order_after_the_end(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    pushes(bench, PushGate::Hold).await;
    assert_eq!(push_held(bench, &queue, "p", &["b", "c"]).await, [true, true]);
    assert_eq!(push_held(bench, &queue, "r", &["x"]).await, [true]);
    assert_eq!(push_held(bench, &queue, "p", &["d"]).await, [true]);
    let spec = ClaimSpec::queue(&queue).batch(10);
    assert_eq!(bench.drain(&spec).await, ["a"], "what was there is delivered");
    bench.advance(10).await;
    assert_eq!((bench.nothing(&spec).await, bench.sweep(&spec).await), (None, None));
    assert_eq!(held(bench).await, 4);
    pushes(bench, PushGate::Open).await;
    assert_eq!(bench.sweep(&spec).await, secs(0));
    assert_eq!(push_held(bench, &queue, "p", &["e"]).await, [false]);
    let taken = bench.take(&ClaimSpec::partition(&queue, "p").batch(10)).await;
    assert_eq!(taken.ids(), ["b", "c", "d", "e"]);
    assert_eq!(taken.offsets(), [1, 2, 3, 4]);
    assert_eq!(bench.drain(&spec).await, ["x"]);
    assert_eq!(held(bench).await, 0);
}

/// Pushes that create a queue or a partition are held back as well.
pub async fn a_queue_that_is_made_meanwhile_is_held_back(bench: &Bench) {
    pushes(bench, PushGate::Hold).await;
    let queue = bench.queue("new");
    assert_eq!(push_held(bench, &queue, "p", &["a"]).await, [true]);
    let spec = ClaimSpec::queue(&queue);
    assert_eq!(bench.nothing(&spec).await, None);
    pushes(bench, PushGate::Open).await;
    assert_eq!(bench.drain(&spec).await, ["a"]);
}

/// Transaction ids are compared with earlier messages, with held ones, and after the end with both.
pub async fn transaction_ids_count_across_a_maintenance(bench: &Bench) {
    let queue = bench.queue("q");
    let before = item(&queue, "p", "before");
    let during = item(&queue, "p", "during");
    let ids = (before.id, during.id);
    bench.push_items(vec![before]).await;
    pushes(bench, PushGate::Hold).await;
    let repeated = async || {
        let reply = bench.push(&queue, "p", &["before", "during"]).await;
        reply.outcomes.iter().map(PushOutcome::id).collect::<Vec<_>>()
    };
    bench.push_items(vec![during, item(&queue, "p", "during")]).await;
    assert_eq!(repeated().await, [ids.0, ids.1]);
    assert_eq!(held(bench).await, 1);
    pushes(bench, PushGate::Open).await;
    assert_eq!(repeated().await, [ids.0, ids.1]);
    let spec = ClaimSpec::queue(&queue).batch(10);
    assert_eq!(bench.drain(&spec).await, ["before", "during"]);
    assert_eq!(repeated().await, [ids.0, ids.1]);
    assert_eq!(bench.nothing(&spec).await, None);
}

/// Scheduled messages that become due during the maintenance keep their place among the pushed
/// ones.
pub async fn what_is_due_is_held_back_too(bench: &Bench) {
    let queue = bench.queue("q");
    schedule(bench, vec![later(item(&queue, "p", "due"), after(5))]).await;
    pushes(bench, PushGate::Hold).await;
    bench.push(&queue, "p", &["early"]).await;
    bench.advance(10).await;
    bench.push(&queue, "p", &["late"]).await;
    let spec = ClaimSpec::queue(&queue).batch(10);
    assert_eq!((bench.nothing(&spec).await, bench.sweep(&spec).await), (None, None));
    pushes(bench, PushGate::Open).await;
    assert_eq!(bench.drain(&spec).await, ["early", "due", "late"]);
}

/// The pushes of a transaction are held back, its settlements are not.
pub async fn a_transaction_settles_and_its_pushes_are_held_back(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let spec = ClaimSpec::queue(&queue).batch(10);
    let taken = bench.take(&spec).await;
    pushes(bench, PushGate::Hold).await;
    let command = TransactCommand {
        pushes: vec![item(&queue, "p", "b")],
        settles: vec![taken.item("a", Verdict::Completed)],
        ..TransactCommand::default()
    };
    let reply = bench.store.transact(command).await.expect("it is committed");
    let TransactOutcome::Committed(done) = reply.outcome else { panic!("{reply:?}") };
    assert!(matches!(done.pushes[0], PushOutcome::Held { .. }), "{done:?}");
    assert!(is_settled(&done.settles[0]), "{done:?}");
    assert_eq!(bench.nothing(&spec).await, None);
    pushes(bench, PushGate::Open).await;
    assert_eq!(bench.drain(&spec).await, ["b"]);
}

/// In refuse mode every kind of push is refused and leaves nothing behind; settlements continue.
pub async fn refused_pushes_leave_nothing(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let spec = ClaimSpec::queue(&queue);
    let taken = bench.take(&spec).await;
    pushes(bench, PushGate::Refuse).await;
    let refused = |result: Result<(), StoreError>| {
        assert!(matches!(result, Err(StoreError::Maintenance { .. })), "{result:?}");
    };
    refused(bench.store.push(vec![item(&queue, "p", "c")]).await.map(drop));
    let transact = async |command| bench.store.transact(command).await.map(drop);
    let pushes_only = vec![item(&queue, "p", "d")];
    refused(transact(TransactCommand { pushes: pushes_only, ..Default::default() }).await);
    let schedules = vec![later(item(&queue, "p", "e"), Visible::Now)];
    refused(transact(TransactCommand { schedules, ..Default::default() }).await);
    let settles = vec![taken.item("a", Verdict::Completed)];
    transact(TransactCommand { settles, ..Default::default() }).await.expect("it is settled");
    assert_eq!(held(bench).await, 0);
    assert_eq!(bench.drain(&spec).await, ["b"]);
    let fresh = bench.queue("fresh");
    for (queue, partition) in [(&fresh, "p"), (&queue, "fresh")] {
        refused(bench.store.push(vec![item(queue, partition, "f")]).await.map(drop));
        let pushes = vec![item(queue, partition, "g")];
        refused(transact(TransactCommand { pushes, ..Default::default() }).await);
        let schedules = vec![later(item(queue, partition, "h"), after(5))];
        refused(transact(TransactCommand { schedules, ..Default::default() }).await);
    }
    assert!(bench.store.queue(&fresh).await.expect("it is read").is_none(), "no queue is created");
    let page = Page { limit: 10, offset: 0 };
    let made = bench.store.partitions(Some(&queue), page).await.expect("they are listed");
    let made: Vec<_> = made.iter().map(|detail| detail.partition.as_str()).collect();
    assert!(!made.contains(&"fresh"), "no partition is created: {made:?}");
    pushes(bench, PushGate::Open).await;
    assert_eq!(bench.nothing(&spec).await, None);
    assert_eq!(push_held(bench, &queue, "p", &["c"]).await, [false], "its id is free");
}

/// In refuse mode the server's own pushes are held back.
pub async fn redrives_are_held_back_where_producers_are_refused(bench: &Bench) {
    let (queue, other) = (bench.queue("q"), bench.queue("other"));
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    pushes(bench, PushGate::Refuse).await;
    let filter = DeadLetterFilter { queue: Some(queue.clone()), ..Default::default() };
    let (id, to_queue) = (RedriveId::generate(), Some(other.clone()));
    let redrive = Redrive { id, filter, to_queue, rate: None };
    bench.store.start_redrive(redrive).await.expect("a job is started");
    while bench.store.run_queue_background(10).await.expect("done").next_due == secs(0) {}
    let spec = ClaimSpec::queue(&other);
    assert_eq!(bench.nothing(&spec).await, None);
    assert_eq!((held(bench).await, bench.dead_ids(&queue).await.len()), (1, 0));
    pushes(bench, PushGate::Open).await;
    assert_eq!(bench.take(&spec).await.messages().len(), 1);
}

/// Releasing gives held messages their offsets in pieces, but not before the end of the
/// maintenance.
pub async fn what_was_held_back_is_released_in_pieces(bench: &Bench) {
    let queue = bench.queue("q");
    pushes(bench, PushGate::Hold).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.push(&queue, "r", &["c"]).await;
    let release = async || bench.store.release_held().await.expect("some are released");
    assert_eq!((release().await, held(bench).await), (0, 3));
    pushes(bench, PushGate::Open).await;
    let mut released = 0;
    loop {
        match release().await {
            0 => break,
            some => released += some,
        }
    }
    assert_eq!((released, held(bench).await), (3, 0));
    assert_eq!(bench.drain(&ClaimSpec::partition(&queue, "p").batch(10)).await, ["a", "b"]);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["c"]);
}

/// Paused claims get nothing and say that they are paused; leased messages can still be settled.
pub async fn paused_claims_get_nothing_and_leases_live_on(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.push(&queue, "r", &["c"]).await;
    let taken = bench.take(&ClaimSpec::partition(&queue, "p")).await;
    pause(bench, true).await;
    let spec = ClaimSpec::queue(&queue);
    let outcome = bench.claim(vec![spec.line_claim(2)]).await.remove(0);
    assert!(outcome.paused && outcome.results.iter().all(Option::is_none), "{outcome:?}");
    assert_eq!(outcome.next_due, None);
    let unknown =
        bench.claim(vec![ClaimSpec::queue(&bench.queue("none")).line_claim(1)]).await.remove(0);
    assert!(unknown.paused, "{unknown:?}");
    let extension = bench.store.extend(taken.lease(), Duration::from_secs(500)).await;
    assert_eq!(extension.expect("it is extended").held.len(), 1);
    bench.settled(&taken, "a", Verdict::Completed).await;
    bench.push(&queue, "r", &["d"]).await;
    pause(bench, false).await;
    assert_eq!(bench.drain(&ClaimSpec::partition(&queue, "p")).await, ["b"]);
    let outcome = bench.claim(vec![spec.batch(10).line_claim(1)]).await.remove(0);
    assert!(!outcome.paused && outcome.results[0].is_some(), "{outcome:?}");
}

/// A group begins with its first poll, even if that poll gets nothing.
pub async fn a_group_begins_during_a_pause(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["old"]).await;
    pause(bench, true).await;
    let spec = ClaimSpec::queue(&queue).group(&bench.group("g")).subscribe(Subscription::New);
    bench.nothing(&spec).await;
    bench.push(&queue, "p", &["new"]).await;
    pause(bench, false).await;
    assert_eq!(bench.drain(&spec).await, ["new"]);
}

/// A repeated claim finds the lease of its token, also during a pause.
pub async fn a_claim_that_is_repeated_in_a_pause_finds_its_lease(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    bench.push(&queue, "r", &["b"]).await;
    let token = wakeline_core::LeaseToken::generate();
    let spec = ClaimSpec::queue(&queue).token(token);
    let first = bench.take(&spec).await;
    pause(bench, true).await;
    let again = bench.take(&spec).await;
    assert_eq!((again.ids(), again.lease()), (first.ids(), first.lease()));
    bench.nothing(&ClaimSpec::queue(&queue)).await;
}

/// While maintenance is switched on and off, each producer's messages come in order and none comes
/// twice.
pub async fn order_holds_while_pushes_race_with_switches(bench: &Bench) {
    const EACH: usize = 60;
    let queue = bench.queue("q");
    let producers: Vec<_> = (0..4)
        .map(|producer| {
            let (store, queue) = (Arc::clone(&bench.store), queue.clone());
            tokio::spawn(async move {
                for n in 0..EACH {
                    let item: PushItem = item(&queue, "p", &format!("{producer}-{n}"));
                    store.push(vec![item]).await.expect("it is stored");
                }
            })
        })
        .collect();
    let mut gate = PushGate::Hold;
    while producers.iter().any(|producer| !producer.is_finished()) {
        pushes(bench, gate).await;
        tokio::task::yield_now().await;
        gate = if gate == PushGate::Open { PushGate::Hold } else { PushGate::Open };
    }
    for producer in producers {
        producer.await.expect("no panic");
    }
    pushes(bench, PushGate::Open).await;
    let mut ids = bench.drain(&ClaimSpec::queue(&queue).batch(1000)).await;
    let number = |id: &String| id.split_once('-').and_then(|(_, n)| n.parse::<usize>().ok());
    // The sort is stable, so each producer's messages keep the order in which they came.
    ids.sort_by_key(|id| id.split_once('-').map(|(producer, _)| producer.to_owned()));
    let numbers: Vec<_> = ids.iter().filter_map(number).collect();
    let expected: Vec<usize> = (0..4).flat_map(|_| 0..EACH).collect();
    assert_eq!(numbers, expected);
}
