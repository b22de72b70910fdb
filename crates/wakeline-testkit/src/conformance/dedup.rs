//! Deduplication: pushing a transaction id again stores no second message.

use wakeline_core::QueueOptions;
use wakeline_store::{PushOutcome, TransactCommand, TransactOutcome};

use super::{Bench, ClaimSpec, item};

/// A repeated push returns the id of the first message.
pub async fn a_repeated_push_stores_nothing_and_answers_the_first_id(bench: &Bench) {
    let queue = bench.queue("q");
    let first = bench.push(&queue, "p", &["a"]).await.outcomes.remove(0);
    let PushOutcome::Queued { id, partition } = first else { panic!("{first:?}") };
    bench.advance(100).await;
    let again = bench.push(&queue, "p", &["a"]).await;
    assert_eq!(again.outcomes, [PushOutcome::Duplicate { id, partition }]);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).batch(10)).await, ["a"]);
}

/// An id that occurs twice in one call, among new ones, is stored once.
pub async fn a_repetition_within_one_call_stores_one_message(bench: &Bench) {
    let queue = bench.queue("q");
    let reply = bench.push(&queue, "p", &["a", "b", "a", "c", "a"]).await;
    let PushOutcome::Queued { id, partition } = reply.outcomes[0] else { panic!("{reply:?}") };
    let duplicate = PushOutcome::Duplicate { id, partition };
    assert_eq!((&reply.outcomes[2], &reply.outcomes[4]), (&duplicate, &duplicate));
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    assert_eq!(taken.ids(), ["a", "b", "c"]);
    assert_eq!(taken.offsets(), [0, 1, 2]);
}

/// A call may contain known and new ids; the new ones get the next offsets.
pub async fn a_call_that_repeats_some_stores_the_others(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let reply = bench.push(&queue, "p", &["b", "c", "a", "d"]).await;
    let queued: Vec<_> =
        reply.outcomes.iter().map(|o| matches!(o, PushOutcome::Queued { .. })).collect();
    assert_eq!(queued, [false, true, false, true]);
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    assert_eq!(taken.ids(), ["a", "b", "c", "d"]);
    assert_eq!(taken.offsets(), [0, 1, 2, 3]);
}

/// The same id in another partition, or another queue, is another message.
pub async fn transaction_ids_count_per_partition(bench: &Bench) {
    let (queue, other) = (bench.queue("q"), bench.queue("other"));
    let items = vec![item(&queue, "p", "a"), item(&queue, "r", "a"), item(&other, "p", "a")];
    for outcome in bench.push_items(items).await.outcomes {
        assert!(matches!(outcome, PushOutcome::Queued { .. }), "{outcome:?}");
    }
}

/// The end of the window is inclusive; just after it the id is free again.
pub async fn an_id_is_free_again_once_its_window_has_passed(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { dedup_window_secs: 60, ..Default::default() }).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.advance(60).await;
    let at_its_end = bench.push(&queue, "p", &["a"]).await.outcomes.remove(0);
    assert!(matches!(at_its_end, PushOutcome::Duplicate { .. }), "{at_its_end:?}");
    bench.advance_ms(1).await;
    let beyond = bench.push(&queue, "p", &["a"]).await.outcomes.remove(0);
    let PushOutcome::Queued { id, partition } = beyond else { panic!("{beyond:?}") };
    let again = bench.push(&queue, "p", &["a"]).await;
    assert_eq!(again.outcomes, [PushOutcome::Duplicate { id, partition }]);
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(10)).await.offsets(), [0, 1]);
}

/// The window runs from the first push, not from the last repetition.
pub async fn repeating_does_not_prolong_the_window(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { dedup_window_secs: 60, ..Default::default() }).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.advance(50).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.advance(11).await;
    let outcome = bench.push(&queue, "p", &["a"]).await.outcomes.remove(0);
    assert!(matches!(outcome, PushOutcome::Queued { .. }), "{outcome:?}");
}

/// Consuming a message does not free its id.
pub async fn a_consumed_message_is_still_recognised(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a"]);
    let again = bench.push(&queue, "p", &["a"]).await.outcomes.remove(0);
    assert!(matches!(again, PushOutcome::Duplicate { .. }), "{again:?}");
    bench.nothing(&ClaimSpec::queue(&queue)).await;
}

/// A long backlog is recognised as far back as the window goes.
pub async fn repetitions_are_found_behind_many_messages(bench: &Bench) {
    let queue = bench.queue("q");
    let first = bench.push(&queue, "p", &["first"]).await.outcomes.remove(0);
    let PushOutcome::Queued { id, partition } = first else { panic!("{first:?}") };
    for call in 0..6 {
        let ids: Vec<_> = (0..90).map(|n| format!("{call}-{n}")).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        bench.push(&queue, "p", &ids).await;
        bench.advance(1).await;
    }
    let reply = bench.push(&queue, "p", &["first", "new", "3-44"]).await;
    assert_eq!(reply.outcomes[0], PushOutcome::Duplicate { id, partition });
    assert!(matches!(reply.outcomes[1], PushOutcome::Queued { .. }));
    assert!(matches!(reply.outcomes[2], PushOutcome::Duplicate { .. }));
}

/// The pushes of a transaction are deduplicated against stored messages and against each other.
pub async fn a_transaction_recognises_repetitions(bench: &Bench) {
    let queue = bench.queue("q");
    let first = bench.push(&queue, "p", &["a"]).await.outcomes.remove(0);
    let PushOutcome::Queued { id, partition } = first else { panic!("{first:?}") };
    let pushes = ["a", "b", "b"].iter().map(|id| item(&queue, "p", id)).collect();
    let command = TransactCommand { pushes, ..TransactCommand::default() };
    let reply = bench.store.transact(command).await.expect("a transaction is answered");
    let TransactOutcome::Committed(transacted) = reply.outcome else { panic!("{reply:?}") };
    let pushes = transacted.pushes;
    assert_eq!(pushes[0], PushOutcome::Duplicate { id, partition });
    let PushOutcome::Queued { id, partition } = pushes[1] else { panic!("{pushes:?}") };
    assert_eq!(pushes[2], PushOutcome::Duplicate { id, partition });
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).batch(10)).await, ["a", "b"]);
}
