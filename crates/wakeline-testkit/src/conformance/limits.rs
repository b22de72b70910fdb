//! Time limits: how old messages get, how long they wait, and how long they are kept.

use wakeline_core::{GroupName, QueueName, QueueOptions, Verdict};
use wakeline_store::{
    GroupPartitionFilter, Housekeeping, HousekeepingReport, Losses, Seek, SeekTo,
};

use super::{Bench, ClaimSpec, at_once, is_settled, secs};

/// Options with no deduplication window, so that only retention keeps messages.
fn forgetful(options: QueueOptions) -> QueueOptions {
    QueueOptions { dedup_window_secs: 0, ..options }
}

fn kept_for(retention_secs: u32, completed_retention_secs: u32) -> QueueOptions {
    let options = QueueOptions {
        retention: true,
        retention_secs,
        completed_retention_secs,
        ..QueueOptions::default()
    };
    forgetful(options)
}

fn expired(expired: u64) -> Losses {
    Losses { expired, ..Losses::default() }
}

fn evicted(evicted: u64) -> Losses {
    Losses { evicted, ..Losses::default() }
}

async fn losses(bench: &Bench, queue: &QueueName) -> Losses {
    bench.store.losses(queue).await.expect("losses are read")
}

/// Returns which of these messages are stored.
async fn stored(bench: &Bench, queue: &QueueName, ids: &[&str]) -> Vec<String> {
    let partition = bench.store.queue(queue).await.expect("it is read").expect("it exists");
    let mut found = Vec::new();
    for id in ids {
        let id = wakeline_core::TransactionId::new(*id).expect("a short id");
        let message = bench.store.message(partition.default_partition, &id).await;
        if message.expect("it is looked for").is_some() {
            found.push(id.to_string());
        }
    }
    found
}

async fn lag(bench: &Bench, group: &GroupName) -> u64 {
    let filter =
        GroupPartitionFilter { group: Some(group.clone()), limit: 100, ..Default::default() };
    let found = bench.store.group_partitions(filter).await.expect("partitions are listed");
    found.iter().map(|one| one.lag).sum()
}

/// A message is delivered until it is as old as its queue allows, and not afterwards.
pub async fn a_message_past_its_ttl_is_not_delivered(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { ttl_secs: 10, ..QueueOptions::default() }).await;
    bench.push(&queue, "Default", &["a"]).await;
    bench.advance(1).await;
    bench.push(&queue, "Default", &["b"]).await;
    bench.advance_ms(8_999).await;
    let (early, late) = (bench.group("early"), bench.group("late"));
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&early).batch(10)).await;
    assert_eq!(taken.ids(), ["a", "b"]);
    bench.advance_ms(1).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&late).batch(10)).await;
    assert_eq!(taken.ids(), ["b"]);
    bench.complete(&taken).await;
    bench.advance(2).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).group(&late)).await, None);
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
    // The late group lost `a`, and queue mode lost both.
    assert_eq!(losses(bench, &queue).await, expired(3));
    assert_eq!(bench.dead_ids(&queue).await, [] as [&str; 0]);
}

/// A leased message stays leased past its time to live and may be settled; if it is released, it is
/// gone.
pub async fn what_is_leased_may_be_settled_past_its_ttl(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { ttl_secs: 10, ..QueueOptions::default() }).await;
    bench.push(&queue, "Default", &["a", "b", "c"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(3)).await;
    bench.advance(10).await;
    bench.housekeep().await;
    assert!(is_settled(&bench.settle(&taken, "a", Verdict::Completed).await));
    assert!(is_settled(&bench.settle(&taken, "b", Verdict::Failed).await));
    assert!(is_settled(&bench.settle(&taken, "c", Verdict::DeadLetter).await));
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
    assert_eq!(losses(bench, &queue).await, expired(1));
    assert_eq!(bench.dead_ids(&queue).await, ["c"]);
}

/// A failed message holds its partition no longer than its time to live.
pub async fn a_parked_message_holds_its_partition_until_its_ttl(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { ttl_secs: 10, retry_delay_ms: 60_000, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "Default", &["a"]).await;
    bench.advance(4).await;
    bench.push(&queue, "Default", &["b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    let changes = bench.settled(&taken, "a", Verdict::Failed).await;
    assert_eq!(changes.iter().map(|change| change.due_in).min(), secs(6));
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(6));
    assert_eq!(bench.sweep(&ClaimSpec::queue(&queue)).await, secs(6));
    bench.advance(6).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue)).await.ids(), ["b"]);
    assert_eq!(losses(bench, &queue).await, expired(1));
}

/// A shorter time to live applies to stored messages; messages that were skipped do not come back.
pub async fn a_changed_ttl_takes_effect_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bench.push(&queue, "Default", &["a"]).await;
    bench.advance(20).await;
    bench.push(&queue, "Default", &["b"]).await;
    bench.configure(&queue, QueueOptions { ttl_secs: 10, ..QueueOptions::default() }).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).group(&group)).await.ids(), ["b"]);
    bench.configure(&queue, QueueOptions::default()).await;
    bench.advance(300).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&group)).await, ["b"]);
    assert_eq!(losses(bench, &queue).await, expired(1));
}

/// A group for which a message waits too long loses the message; other groups do not.
pub async fn a_message_that_waits_too_long_is_evicted_for_its_group(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { wait_secs_max: 10, ..QueueOptions::default() }).await;
    bench.push(&queue, "Default", &["a", "b"]).await;
    let (quick, slow) = (bench.group("quick"), bench.group("slow"));
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&quick)).await, ["a", "b"]);
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&slow)).await;
    bench.advance(10).await;
    assert!(is_settled(&bench.settle(&taken, "a", Verdict::Completed).await));
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).group(&slow)).await, None);
    assert_eq!(losses(bench, &queue).await, evicted(1));
    bench.push(&queue, "Default", &["c"]).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&slow)).await, ["c"]);
}

/// The wait begins when a message becomes available: after its delay, or after the delay of its
/// retry.
pub async fn a_wait_begins_when_a_message_is_available(bench: &Bench) {
    let queue = bench.queue("q");
    let options =
        QueueOptions { wait_secs_max: 10, delay_secs: 5, retry_delay_ms: 30_000, ..at_once() };
    bench.configure(&queue, options).await;
    bench.push(&queue, "Default", &["a"]).await;
    bench.advance(14).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    bench.advance(39).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    assert_eq!(taken.attempts(), [2]);
    bench.settled(&taken, "a", Verdict::Failed).await;
    bench.advance(70).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
    bench.push(&queue, "Default", &["b"]).await;
    bench.advance(15).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
    assert_eq!(losses(bench, &queue).await, evicted(2));
}

/// Where both limits have passed, the one that came first counts.
pub async fn a_message_is_lost_once_and_to_the_first_limit(bench: &Bench) {
    for (ttl_secs, wait_secs_max, lost) in
        [(10, 20, expired(2)), (20, 10, evicted(2)), (10, 10, expired(2))]
    {
        let queue = bench.queue(&format!("q-{ttl_secs}-{wait_secs_max}"));
        let options = QueueOptions { ttl_secs, wait_secs_max, ..QueueOptions::default() };
        bench.configure(&queue, options).await;
        bench.push(&queue, "Default", &["a", "b"]).await;
        let taken = bench.take(&ClaimSpec::queue(&queue)).await;
        bench.settled(&taken, "a", Verdict::Retry).await;
        bench.advance(30).await;
        assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
        bench.housekeep().await;
        assert_eq!(losses(bench, &queue).await, lost);
    }
}

/// Housekeeping skips expired messages for groups that do not poll.
pub async fn housekeeping_passes_over_for_groups_that_do_not_poll(bench: &Bench) {
    let queue = bench.queue("q");
    let group = bench.group("g");
    bench.configure(&queue, QueueOptions { ttl_secs: 10, ..QueueOptions::default() }).await;
    bench.push(&queue, "Default", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&group)).await;
    bench.settled(&taken, "a", Verdict::Retry).await;
    assert_eq!(lag(bench, &group).await, 2);
    bench.advance(10).await;
    let report = bench.housekeep().await;
    assert_eq!(report.losses, [(queue.clone(), expired(2))]);
    assert_eq!((lag(bench, &group).await, losses(bench, &queue).await), (0, expired(2)));
    // The loss is reported once.
    assert_eq!(bench.housekeep().await.losses, []);
}

/// Messages are removed once every group has settled them and their retention has passed.
pub async fn retention_removes_what_every_group_has_settled(bench: &Bench) {
    let queue = bench.queue("q");
    let (one, two) = (bench.group("one"), bench.group("two"));
    bench.configure(&queue, kept_for(0, 10)).await;
    bench.push(&queue, "Default", &["a", "b"]).await;
    bench.advance(1).await;
    bench.push(&queue, "Default", &["c"]).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&one)).await, ["a", "b", "c"]);
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&two).batch(2)).await;
    bench.advance(10).await;
    assert_eq!(bench.housekeep().await.removed, 0);
    bench.complete(&taken).await;
    assert_eq!(bench.housekeep().await.removed, 2);
    assert_eq!(stored(bench, &queue, &["a", "b", "c"]).await, ["c"]);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&two)).await, ["c"]);
    bench.advance_ms(1).await;
    assert_eq!(bench.housekeep().await.removed, 1);
    assert_eq!(losses(bench, &queue).await, Losses::default());
}

/// Completed messages younger than their retention stay, and all messages stay if no group reads
/// the queue.
pub async fn without_a_group_nothing_is_completed(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, kept_for(0, 10)).await;
    bench.push(&queue, "Default", &["a"]).await;
    bench.advance(100).await;
    assert_eq!(bench.housekeep().await.removed, 0);
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a"]);
    assert_eq!(bench.housekeep().await.removed, 1);
    bench.push(&queue, "Default", &["b"]).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["b"]);
    bench.advance_ms(9_999).await;
    assert_eq!(bench.housekeep().await.removed, 0);
}

/// A message that waits for its retry is not settled, so it and all later ones are kept.
pub async fn retention_keeps_what_is_parked(bench: &Bench) {
    let queue = bench.queue("q");
    let relaxed = QueueOptions {
        ordering: wakeline_core::MessageOrder::Relaxed,
        retry_delay_ms: 60_000,
        ..kept_for(0, 10)
    };
    bench.configure(&queue, relaxed).await;
    bench.push(&queue, "Default", &["a"]).await;
    bench.advance(1).await;
    bench.push(&queue, "Default", &["b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["b"]);
    bench.advance(30).await;
    assert_eq!(bench.housekeep().await.removed, 0);
    bench.advance(30).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a"]);
    assert_eq!(bench.housekeep().await.removed, 2);
}

/// Retention by age removes messages even if groups have not settled them, and counts these.
pub async fn retention_by_age_removes_unread_messages(bench: &Bench) {
    let (queue, unread) = (bench.queue("q"), bench.queue("unread"));
    let group = bench.group("g");
    for queue in [&queue, &unread] {
        bench.configure(queue, kept_for(10, 0)).await;
        bench.push(queue, "Default", &["a", "b", "c"]).await;
    }
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&group).batch(2)).await;
    assert!(is_settled(&bench.settle(&taken, "a", Verdict::Completed).await));
    bench.settled(&taken, "b", Verdict::Retry).await;
    bench.advance(9).await;
    assert_eq!(bench.housekeep().await.removed, 0);
    bench.advance(1).await;
    assert_eq!(bench.housekeep().await.removed, 6);
    assert_eq!(losses(bench, &queue).await, expired(2));
    assert_eq!(losses(bench, &unread).await, expired(3));
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).group(&group)).await, None);
    assert_eq!(lag(bench, &group).await, 0);
}

/// A leased message, and those pushed after it, stay until the lease is over.
pub async fn retention_leaves_what_is_leased(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { lease_secs: 60, ..kept_for(10, 0) }).await;
    bench.push(&queue, "Default", &["a"]).await;
    bench.advance(1).await;
    bench.push(&queue, "Default", &["b", "c"]).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).auto_ack()).await.ids(), ["a"]);
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.advance(20).await;
    assert_eq!(bench.housekeep().await.removed, 1);
    assert!(is_settled(&bench.settle(&taken, "b", Verdict::Completed).await));
    assert_eq!(bench.housekeep().await.removed, 2);
    assert_eq!(losses(bench, &queue).await, expired(1));
    bench.push(&queue, "Default", &["d", "e"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    bench.advance(60).await;
    assert_eq!(bench.housekeep().await.removed, 2);
    assert!(!is_settled(&bench.settle(&taken, "d", Verdict::Completed).await));
    assert_eq!(losses(bench, &queue).await, expired(3));
}

/// A transaction id stays known for its window, even if its message was removed.
pub async fn retention_keeps_what_has_to_be_recognised(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { dedup_window_secs: 60, ..kept_for(5, 5) }).await;
    bench.push(&queue, "Default", &["a"]).await;
    bench.drain(&ClaimSpec::queue(&queue)).await;
    bench.advance(60).await;
    assert_eq!(bench.housekeep().await.removed, 0);
    bench.push(&queue, "Default", &["a"]).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, None);
    bench.advance_ms(1).await;
    assert_eq!(bench.housekeep().await.removed, 1);
    bench.push(&queue, "Default", &["a"]).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a"]);
}

/// Dead letters own their data.
pub async fn dead_letters_outlive_retention(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, kept_for(10, 5)).await;
    bench.push(&queue, "Default", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.settled(&taken, "a", Verdict::DeadLetter).await;
    let before = bench.dead_letters(&queue).await;
    bench.advance(100).await;
    assert_eq!(bench.housekeep().await.removed, 1);
    assert_eq!(bench.dead_letters(&queue).await, before);
    assert_eq!(losses(bench, &queue).await, Losses::default());
}

/// Groups that begin at, or are moved to, removed messages begin with the first stored one; offsets
/// continue.
pub async fn groups_begin_with_what_is_stored(bench: &Bench) {
    let queue = bench.queue("q");
    let (old, new) = (bench.group("old"), bench.group("new"));
    bench.configure(&queue, kept_for(0, 10)).await;
    bench.push(&queue, "Default", &["a", "b", "c"]).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&old)).await, ["a", "b", "c"]);
    bench.advance(10).await;
    let between = bench.now().await;
    bench.push(&queue, "Default", &["d", "e"]).await;
    assert_eq!(bench.housekeep().await.removed, 3);
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&new).batch(10)).await;
    assert_eq!(taken.ids(), ["d", "e"]);
    assert_eq!(taken.messages()[0].offset, 3);
    bench.complete(&taken).await;
    assert_eq!(lag(bench, &new).await, 0);
    let early = wakeline_core::Timestamp(between.0 - 60_000_000);
    for to in [SeekTo::Beginning, SeekTo::Since(early), SeekTo::Since(between)] {
        let seek = Seek { group: old.clone(), queue: Some(queue.clone()), partition: None, to };
        bench.store.seek(seek).await.expect("it is moved");
        assert_eq!(lag(bench, &old).await, 2, "{to:?}");
        assert_eq!(bench.drain(&ClaimSpec::queue(&queue).group(&old)).await, ["d", "e"]);
    }
    bench.advance(10).await;
    assert_eq!(bench.housekeep().await.removed, 2);
    let third = bench.group("third");
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).group(&third)).await, None);
    assert_eq!(lag(bench, &third).await, 0);
    bench.push(&queue, "Default", &["f"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).group(&third)).await;
    assert_eq!((taken.ids().concat(), taken.messages()[0].offset), ("f".to_owned(), 5));
}

/// Housekeeping works in pieces, reports when it should run again, and ignores queues without
/// limits.
pub async fn housekeeping_goes_by_pieces(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { ledger_secs: 0, ..kept_for(0, 10) }).await;
    for partition in ["p", "r", "s"] {
        for push in 0..5 {
            bench.push(&queue, partition, &[&format!("{partition}{push}")]).await;
        }
    }
    bench.drain(&ClaimSpec::queue(&queue)).await;
    bench.advance(10).await;
    let mut options = Housekeeping { rows_max: 4, restart: true, ..Housekeeping::default() };
    let mut removed = Vec::new();
    loop {
        let HousekeepingReport { removed: some, next_due, .. } =
            bench.store.housekeep(options).await.expect("it is done");
        options.restart = false;
        removed.push(some);
        if next_due != secs(0) {
            break;
        }
    }
    assert_eq!(removed.iter().sum::<u64>(), 15);
    let idle = bench.store.housekeep(options).await.expect("it is done");
    assert_eq!(idle.removed, 0);
    bench.configure(&queue, QueueOptions::default()).await;
    let idle = bench.store.housekeep(options).await.expect("it is done");
    assert_eq!((idle.removed, idle.next_due), (0, None));
}
