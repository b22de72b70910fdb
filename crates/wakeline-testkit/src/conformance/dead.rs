//! Dead letters, which own their data.

use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{GroupName, QueueOptions, TransactionId, Verdict};
use wakeline_store::{DeadLetter, DeadLetterFilter, Page, PushItem};

use super::{Bench, ClaimSpec, TakenBatch, at_once, item, partition_name};

/// A dead letter contains everything known of the message, and why and when it was given up.
pub async fn a_dead_letter_has_all_details(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { retry_limit: 1, ..Default::default() }).await;
    let pushed = PushItem {
        payload: Bytes::from_static(b"{ \"spaces\":  true }"),
        producer: Some("me".to_owned()),
        trace_id: Some(Uuid::new_v4()),
        ..item(&queue, "p", "a")
    };
    let (id, trace_id) = (pushed.id, pushed.trace_id);
    bench.push_items(vec![pushed]).await;
    let pushed_at = bench.now().await;
    let group = bench.group("g");
    for error in ["first", "second"] {
        bench.advance(7).await;
        let taken = bench.take(&ClaimSpec::queue(&queue).group(&group)).await;
        let mut failed = taken.item("a", Verdict::Failed);
        failed.error = Some(error.to_owned());
        bench.settle_items(vec![failed]).await;
    }
    let letters = bench.dead_letters(&queue).await;
    let letter = &letters[0];
    assert_eq!(letter.trace_id, trace_id);
    assert_eq!((letters.len(), letter.id, letter.transaction_id.as_str()), (1, id, "a"));
    assert_eq!((&letter.queue, &letter.partition), (&queue, &partition_name("p")));
    assert_eq!((&letter.group, letter.failures), (&group, 2));
    assert_eq!(letter.error.as_deref(), Some("second"));
    assert_eq!(
        (&letter.payload[..], letter.producer.as_deref()),
        (&b"{ \"spaces\":  true }"[..], Some("me"))
    );
    assert_eq!(letter.created_at, pushed_at);
    assert_eq!(letter.failed_at.0 - pushed_at.0, 14_000_000);
}

/// A settlement without an error keeps the last one.
pub async fn a_dead_letter_keeps_the_last_error(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, at_once()).await;
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    let mut failed = taken.item("a", Verdict::Failed);
    failed.error = Some("the reason".to_owned());
    bench.settle_items(vec![failed]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    let letter = bench.dead_letters(&queue).await.remove(0);
    assert_eq!((letter.error.as_deref(), letter.failures), (Some("the reason"), 1));
}

/// A message shows the last error of each group that will retry it, is retrying it or gave it up,
/// and none of a group that completed it.
pub async fn a_message_shows_the_last_error_of_each_group(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, at_once()).await;
    let (first, second) = (bench.group("first"), bench.group("second"));
    bench.push(&queue, "p", &["a"]).await;
    let spec = |group| ClaimSpec::queue(&queue).group(group);
    let failed = async |group, verdict, error: &str| {
        let taken = bench.take(&spec(group)).await;
        let mut failed = taken.item("a", verdict);
        failed.error = Some(error.to_owned());
        bench.settle_items(vec![failed]).await;
        taken.partition_id()
    };
    let partition = failed(&first, Verdict::Failed, "timed out").await;
    let errors = async || {
        let id = TransactionId::new("a").expect("a short id");
        let found = bench.store.message(partition, &id).await.expect("it is read");
        let mut errors = found.expect("it is stored").errors;
        errors.sort();
        errors
    };
    let of = |group: &GroupName, error: &str| (group.clone(), error.to_owned());
    assert_eq!(errors().await, [of(&first, "timed out")]);
    failed(&second, Verdict::DeadLetter, "no such route").await;
    assert_eq!(errors().await, [of(&first, "timed out"), of(&second, "no such route")]);
    let taken = bench.take(&spec(&first)).await;
    assert_eq!(errors().await.len(), 2, "while it is tried again");
    bench.settled(&taken, "a", Verdict::Completed).await;
    assert_eq!(errors().await, [of(&second, "no such route")]);
}

async fn bury(bench: &Bench, spec: &ClaimSpec) -> TakenBatch {
    let taken = bench.take(spec).await;
    for id in taken.ids() {
        bench.settled(&taken, &id, Verdict::DeadLetter).await;
    }
    bench.advance(1).await;
    taken
}

/// Dead letters are listed newest first, by queue, group and partition, in pages.
pub async fn dead_letters_are_listed_newest_first(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    for id in ["a", "b", "c"] {
        bench.push(&queue, id, &[id]).await;
        bury(bench, &ClaimSpec::queue(&queue).group(&g)).await;
    }
    bury(bench, &ClaimSpec::partition(&queue, "b").group(&h)).await;
    assert_eq!(bench.dead_ids(&queue).await, ["b", "c", "b", "a"]);
    let list = |filter: DeadLetterFilter, limit, offset| async move {
        let page = Page { limit, offset };
        let found = bench.store.dead_letters(filter, page).await.expect("dead letters are listed");
        let id = |letter: &DeadLetter| letter.transaction_id.to_string();
        (found.letters.iter().map(id).collect::<Vec<_>>().join(" "), found.total)
    };
    let all = DeadLetterFilter { queue: Some(queue.clone()), ..Default::default() };
    let of_g = DeadLetterFilter { group: Some(g), ..all.clone() };
    assert_eq!(list(of_g.clone(), 10, 0).await, ("c b a".into(), 3));
    let of_b = DeadLetterFilter { partition: Some(partition_name("b")), ..all.clone() };
    assert_eq!(list(of_b, 10, 0).await, ("b b".into(), 2));
    assert_eq!(list(of_g.clone(), 1, 1).await, ("b".into(), 3));
    assert_eq!(list(of_g, 10, 3).await, (String::new(), 3));
    let unknown = DeadLetterFilter { queue: Some(bench.queue("unknown")), ..all };
    assert_eq!(list(unknown, 10, 0).await, (String::new(), 0));
}

/// Dead letters are found by number, time and error.
pub async fn dead_letters_are_found_by_what_is_known_of_them(bench: &Bench) {
    let queue = bench.queue("q");
    let mut moments = Vec::new();
    for (id, error) in [("a", "no 50% route"), ("b", "timed out")] {
        bench.push(&queue, "p", &[id]).await;
        let taken = bench.take(&ClaimSpec::queue(&queue)).await;
        let mut given_up = taken.item(id, Verdict::DeadLetter);
        given_up.error = Some(error.to_owned());
        bench.settle_items(vec![given_up]).await;
        moments.push(bench.dead_letters(&queue).await[0].failed_at);
        bench.advance(1).await;
    }
    let second = bench.dead_letters(&queue).await[0].clone();
    let all = DeadLetterFilter { queue: Some(queue.clone()), ..Default::default() };
    let cases = [
        (DeadLetterFilter { number: Some(second.number), ..Default::default() }, "b"),
        (DeadLetterFilter { from: Some(moments[1]), ..all.clone() }, "b"),
        (DeadLetterFilter { to: Some(moments[1]), ..all.clone() }, "a"),
        (DeadLetterFilter { error: Some("50%".into()), ..all.clone() }, "a"),
        (DeadLetterFilter { error: Some("TIMED".into()), ..all.clone() }, ""),
        (DeadLetterFilter { error: Some("%".into()), from: Some(moments[1]), ..all }, ""),
    ];
    for (filter, expected) in cases {
        let page = Page { limit: 10, offset: 0 };
        let found = bench.store.dead_letters(filter.clone(), page).await.expect("listed");
        let ids: Vec<_> = found.letters.iter().map(|l| l.transaction_id.as_str()).collect();
        assert_eq!(
            (ids.join(" "), found.total),
            (expected.into(), expected.len() as u64),
            "{filter:?}"
        );
    }
}

/// Purging removes the dead letters that match and no others.
pub async fn purged_dead_letters_are_gone(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    bench.push(&queue, "p", &["a"]).await;
    for group in [&g, &h] {
        bury(bench, &ClaimSpec::queue(&queue).group(group)).await;
    }
    let of_g = DeadLetterFilter {
        queue: Some(queue.clone()),
        group: Some(g.clone()),
        ..Default::default()
    };
    for expected in [1, 0] {
        let gone = bench.store.purge_dead_letters(of_g.clone()).await.expect("purged");
        assert_eq!(gone, expected);
    }
    let left = bench.dead_letters(&queue).await;
    assert_eq!(left.iter().map(|letter| &letter.group).collect::<Vec<_>>(), [&h]);
    bench.nothing(&ClaimSpec::queue(&queue).group(&g)).await;
}

/// Dead letters stay when their group is deleted and are deleted with their queue.
pub async fn dead_letters_outlive_their_group_but_not_their_queue(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bench.push(&queue, "p", &["a"]).await;
    bury(bench, &ClaimSpec::queue(&queue).group(&group)).await;
    bench.store.delete_group(&group, None).await.expect("a group is deleted");
    assert_eq!(bench.dead_ids(&queue).await, ["a"]);
    assert!(bench.store.delete_queue(&queue).await.expect("a queue is deleted"));
    assert!(bench.dead_ids(&queue).await.is_empty());
}
