//! Counts of messages by state, for queues and partitions.

use wakeline_core::{GroupName, QueueName, QueueOptions, Verdict};
use wakeline_store::{Depth, Losses, MessageCounts, Page, PartitionCounts, QueueCounts};

use super::{Bench, ClaimSpec, partition_name};

const ALL: Page = Page { limit: 1000, offset: 0 };

async fn of(bench: &Bench, queue: &QueueName) -> QueueCounts {
    let mut all = bench.store.queue_counts(Some(queue), ALL).await.expect("it is counted");
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

async fn partitions(bench: &Bench, queue: &QueueName) -> Vec<PartitionCounts> {
    bench.store.partition_counts(queue, ALL).await.expect("they are counted")
}

async fn depth(bench: &Bench, queue: &QueueName, group: Option<&GroupName>) -> Depth {
    let depth = bench.store.depth(queue, group, ALL).await.expect("it is read");
    depth.expect("the queue exists")
}

/// The counts total, pending, processing, retrying, completed, dead letters.
fn plain(counts: MessageCounts) -> [u64; 6] {
    let MessageCounts { total, pending, processing, retrying, dead_letters, .. } = counts;
    [total, pending, processing, retrying, counts.completed(), dead_letters]
}

/// Each message is counted as one of pending, processing, completed or given up on its way through
/// a queue.
pub async fn messages_are_counted_by_state(bench: &Bench) {
    let queue = bench.queue("n.t");
    bench.configure(&queue, QueueOptions { retry_delay_ms: 5_000, ..Default::default() }).await;
    let stands = async || plain(of(bench, &queue).await.messages);
    assert_eq!(stands().await, [0; 6]);
    bench.push(&queue, "p", &["a", "b", "c", "d"]).await;
    assert_eq!(stands().await, [4, 4, 0, 0, 0, 0], "without a group all is pending");
    let spec = ClaimSpec::queue(&queue);
    let taken = bench.take(&spec.clone().batch(3)).await;
    assert_eq!(stands().await, [4, 1, 3, 0, 0, 0]);
    bench.settled(&taken, "a", Verdict::Completed).await;
    assert_eq!(stands().await, [4, 1, 2, 0, 1, 0]);
    bench.settled(&taken, "b", Verdict::DeadLetter).await;
    assert_eq!(stands().await, [4, 1, 1, 0, 1, 1]);
    bench.settled(&taken, "c", Verdict::Failed).await;
    assert_eq!(stands().await, [4, 2, 0, 1, 1, 1], "it waits for its retry");
    bench.advance(5).await;
    let taken = bench.take(&spec.clone().batch(1)).await;
    assert_eq!((taken.ids(), stands().await), (vec!["c".to_owned()], [4, 1, 1, 0, 1, 1]));
    bench.advance(300).await;
    assert_eq!(stands().await, [4, 2, 0, 0, 1, 1], "the lease has run out");
    bench.drain(&spec).await;
    assert_eq!(stands().await, [4, 0, 0, 0, 3, 1]);
    let whole = of(bench, &queue).await;
    assert_eq!((&whole.queue, whole.partitions, whole.partitions_behind), (&queue, 2, 0));
    assert_eq!((whole.partitions_dead, whole.leases, whole.losses), (1, 0, Losses::default()));
    assert_eq!(whole.namespace, Some(bench.namespace("n")));
    assert_eq!(whole.task.expect("a task").as_str(), "t");
}

/// A message that one group gave up and another still has to read counts as pending.
pub async fn a_message_ahead_of_a_group_counts_as_pending(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&g).batch(2)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    bench.settled(&taken, "b", Verdict::Completed).await;
    assert_eq!(plain(of(bench, &queue).await.messages), [2, 0, 0, 0, 1, 1]);
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&h)).await;
    assert_eq!(plain(of(bench, &queue).await.messages), [2, 1, 1, 0, 0, 1]);
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    assert_eq!(plain(of(bench, &queue).await.messages), [2, 1, 0, 0, 0, 2], "b is ahead of h");
    bench.drain(&ClaimSpec::queue(&queue).group(&h)).await;
    assert_eq!(plain(of(bench, &queue).await.messages), [2, 0, 0, 0, 1, 2], "a counts once");
}

/// The counts of a queue are the sum over its partitions, each counted for the group that is
/// furthest behind in it.
pub async fn the_group_that_is_furthest_behind_decides(bench: &Bench) {
    let queue = bench.queue("q");
    let (g, h) = (bench.group("g"), bench.group("h"));
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    bench.push(&queue, "q", &["x", "y"]).await;
    bench.drain(&ClaimSpec::partition(&queue, "p").group(&g).batch(10)).await;
    let held = bench.take(&ClaimSpec::partition(&queue, "q").group(&h).batch(1)).await;
    let whole = of(bench, &queue).await;
    assert_eq!(plain(whole.messages), [5, 5, 0, 0, 0, 0], "g is further behind in q than h");
    assert_eq!((whole.leases, whole.partitions_leased, whole.partitions_behind), (1, 1, 2));
    let each = partitions(bench, &queue).await;
    let stands: Vec<_> =
        each.iter().map(|one| (one.partition.as_str(), plain(one.messages))).collect();
    let [none, p, q] = [[0; 6], [3, 3, 0, 0, 0, 0], [2, 2, 0, 0, 0, 0]];
    assert_eq!(stands, [("Default", none), ("p", p), ("q", q)]);
    bench.drain(&ClaimSpec::queue(&queue).group(&g).batch(10)).await;
    assert_eq!(plain(partitions(bench, &queue).await[2].messages), [2, 1, 1, 0, 0, 0]);
    bench.complete(&held).await;
    bench.drain(&ClaimSpec::queue(&queue).group(&h).batch(10)).await;
    let mut sum = MessageCounts::default();
    partitions(bench, &queue).await.into_iter().for_each(|one| sum.add(one.messages));
    assert_eq!((plain(sum), of(bench, &queue).await.messages), ([5, 0, 0, 0, 5, 0], sum));
}

/// Depth is the number of messages that a group has yet to settle, with their partitions.
pub async fn depth_is_what_a_group_has_yet_to_settle(bench: &Bench) {
    let queue = bench.queue("q");
    let unknown = bench.store.depth(&bench.queue("unknown"), None, ALL).await;
    assert_eq!(unknown.expect("it is read"), None);
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    bench.push(&queue, "q", &["x", "y"]).await;
    let (p, q) = (partition_name("p"), partition_name("q"));
    let all =
        Depth { len: 5, partitions_behind: 2, partitions: vec![(p.clone(), 3), (q.clone(), 2)] };
    let g = bench.group("g");
    assert_eq!(depth(bench, &queue, None).await, all);
    assert_eq!(depth(bench, &queue, Some(&g)).await, all, "it would begin with all");
    let taken = bench.take(&ClaimSpec::partition(&queue, "p").group(&g).batch(2)).await;
    assert_eq!(depth(bench, &queue, Some(&g)).await, all, "nothing is settled");
    bench.complete(&taken).await;
    let less = Depth { len: 3, partitions_behind: 2, partitions: vec![(p, 1), (q.clone(), 2)] };
    assert_eq!(depth(bench, &queue, Some(&g)).await, less);
    assert_eq!(depth(bench, &queue, Some(&bench.group("h"))).await, all);
    bench.drain(&ClaimSpec::partition(&queue, "p").group(&g)).await;
    let last = Depth { len: 2, partitions_behind: 1, partitions: vec![(q, 2)] };
    assert_eq!(depth(bench, &queue, Some(&g)).await, last);
    let page = Page { limit: 5, offset: 1 };
    let rest = bench.store.depth(&queue, Some(&g), page).await.expect("it is read");
    assert_eq!(rest, Some(Depth { partitions: Vec::new(), ..last }));
}

/// Queues are listed by name and partitions in the order of their creation, in pages.
pub async fn counts_are_listed_in_pages(bench: &Bench) {
    let queues = ["c", "a", "b"].map(|name| bench.queue(name));
    for queue in &queues {
        bench.push(queue, "p", &["m"]).await;
    }
    let all = bench.store.queue_counts(None, Page { limit: 100_000, offset: 0 }).await;
    let all = all.expect("they are counted");
    let ours: Vec<_> =
        all.iter().map(|one| &one.queue).filter(|name| queues.contains(name)).collect();
    assert_eq!(ours, [&queues[1], &queues[2], &queues[0]]);
    bench.push(&queues[0], "z", &["m"]).await;
    bench.push(&queues[0], "y", &["m"]).await;
    let page = Page { limit: 2, offset: 1 };
    let some = bench.store.partition_counts(&queues[0], page).await.expect("they are counted");
    let names: Vec<_> = some.iter().map(|one| one.partition.as_str()).collect();
    assert_eq!(names, ["p", "z"]);
    assert!(some.iter().all(|one| one.oldest_at.is_some() && one.oldest_at == one.last_push_at));
    let unknown = bench.store.queue_counts(Some(&bench.queue("unknown")), ALL).await;
    assert_eq!(unknown.expect("it is answered"), []);
    assert_eq!(partitions(bench, &bench.queue("unknown")).await, []);
}

/// Dropped messages are counted, whether a consumer gave them up or their last lease expired, and
/// whichever call finds that.
pub async fn drops_are_counted(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions {
        retry_limit: 0,
        dead_letters: false,
        lease_secs: 30,
        ttl_secs: 20,
        ..QueueOptions::default()
    };
    bench.configure(&queue, QueueOptions { ttl_secs: 0, ..options.clone() }).await;
    let dropped = |dropped| Losses { dropped, ..Losses::default() };
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    let spec = ClaimSpec::queue(&queue);
    let taken = bench.take(&spec).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    assert_eq!(bench.store.losses(&queue).await.expect("read"), dropped(1));
    bench.take(&spec).await;
    bench.advance(30).await;
    bench.take(&spec).await;
    assert_eq!(bench.store.losses(&queue).await.expect("read"), dropped(2));
    assert_eq!(bench.housekeep().await.losses, [(queue.clone(), dropped(2))]);
    bench.configure(&queue, options).await;
    bench.advance(30).await;
    assert_eq!(bench.housekeep().await.losses, [(queue.clone(), dropped(1))]);
    assert_eq!(of(bench, &queue).await.losses, dropped(3));
}

/// Errors of dead letters are counted by queue, the most frequent first.
pub async fn errors_of_dead_letters_are_counted(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b", "c"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(3)).await;
    for (id, error) in [("a", "rare"), ("b", "often"), ("c", "often")] {
        let mut item = taken.item(id, Verdict::DeadLetter);
        item.error = Some(error.to_owned());
        bench.settle_items(vec![item]).await;
    }
    let errors = bench.store.dead_letter_errors(10_000).await.expect("they are counted");
    let ours = errors.into_iter().filter(|error| error.queue == queue);
    let ours: Vec<_> = ours.map(|error| (error.error.expect("a text"), error.len)).collect();
    assert_eq!(ours, [("often".to_owned(), 2), ("rare".to_owned(), 1)]);
}
