//! Creating, configuring and deleting queues.

use wakeline_core::{
    Change, Fencing, MessageOrder, Namespace, OptionsPatch, PartitionName, QueueName, QueueOptions,
    RetryBackoff, TaskName, Verdict,
};
use wakeline_store::{ConfigureQueue, PatchQueue, PushOutcome, QueueDetail, SettleOutcome};

use super::{Bench, ClaimSpec, at_once, earliest_due, secs};

fn unusual() -> QueueOptions {
    QueueOptions {
        lease_secs: 17,
        retry_limit: 9,
        retry_delay_ms: 1_234,
        retry_delay_ms_max: 99_999,
        retry_backoff: RetryBackoff::Fixed,
        dead_letters: false,
        priority: -3,
        delay_secs: 21,
        window_secs: 2,
        ordering: MessageOrder::Relaxed,
        fencing: Fencing::Lenient,
        dedup_window_secs: 77,
        retry_jitter_percent: 11,
        ttl_secs: 86_400,
        len_max: 1 << 40,
        partition_len_max: 1 << 33,
        retention: true,
        retention_secs: 3_000_000_000,
        completed_retention_secs: 60,
        wait_secs_max: 3_601,
        encrypted: false,
        lanes: 12,
        ledger_secs: 7,
        group_idle_secs: 4_321,
        partition_priorities: [(PartitionName::default_partition(), -5)].into(),
    }
}

/// A patch changes only the options that it names; it returns all options and the lines that it
/// affects.
pub async fn a_patch_changes_only_what_it_names(bench: &Bench) {
    let queue = bench.queue("n.t");
    bench.configure(&queue, unusual()).await;
    let options = OptionsPatch {
        lanes: Some(0),
        ordering: Some(MessageOrder::Strict),
        partition_priorities: Some(Default::default()),
        ..OptionsPatch::default()
    };
    let expected = options.clone().apply(unusual());
    let (detail, changes) = patch(bench, &queue, options).await.expect("it exists");
    assert_eq!(detail.options, expected);
    assert_eq!(
        (detail.namespace, detail.task),
        (Some(bench.namespace("n")), TaskName::new("t").ok())
    );
    assert!(earliest_due(&changes, &ClaimSpec::queue(&queue)).is_some());
    let (detail, _) = patch(bench, &queue, OptionsPatch::default()).await.expect("it exists");
    assert_eq!(detail.options, expected);
}

/// A patch of an unknown queue does nothing.
pub async fn a_patch_makes_no_queue(bench: &Bench) {
    let queue = bench.queue("q");
    let options = OptionsPatch { lanes: Some(3), ..OptionsPatch::default() };
    assert_eq!(patch(bench, &queue, options).await, None);
    assert_eq!(bench.store.queue(&queue).await.expect("a queue is looked up"), None);
}

/// None of several concurrent patches undoes another.
pub async fn patches_at_once_lose_nothing(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, at_once()).await;
    for n in 1..=10 {
        let lanes = OptionsPatch { lanes: Some(n), ..OptionsPatch::default() };
        let lease = OptionsPatch { lease_secs: Some(n), ..OptionsPatch::default() };
        let limit = OptionsPatch { retry_limit: Some(n), ..OptionsPatch::default() };
        futures_util::join!(
            patch(bench, &queue, lanes),
            patch(bench, &queue, lease),
            patch(bench, &queue, limit)
        );
        let detail = bench.store.queue(&queue).await.expect("it is read").expect("it exists");
        let QueueOptions { lanes, lease_secs, retry_limit, .. } = detail.options;
        assert_eq!((lanes, lease_secs, retry_limit), (n, n, n));
    }
}

/// None of several concurrent patches that create the queue undoes another.
pub async fn patches_that_make_a_queue_lose_nothing(bench: &Bench) {
    for n in 1..=10 {
        let queue = bench.queue(&format!("n.t{n}"));
        let patch = async |options| {
            let command = PatchQueue {
                queue: queue.clone(),
                namespace: None,
                task: None,
                options,
                create: true,
            };
            bench.store.patch(command).await.expect("patched").expect("it is made");
        };
        futures_util::join!(
            patch(OptionsPatch { lanes: Some(n), ..OptionsPatch::default() }),
            patch(OptionsPatch { lease_secs: Some(n), ..OptionsPatch::default() }),
            patch(OptionsPatch { retry_limit: Some(n), ..OptionsPatch::default() })
        );
        let detail = bench.store.queue(&queue).await.expect("it is read").expect("it exists");
        let expected =
            QueueOptions { lanes: n, lease_secs: n, retry_limit: n, ..QueueOptions::default() };
        assert_eq!(detail.options, expected);
        assert_eq!(detail.namespace, Some(bench.namespace("n")));
    }
}

async fn patch(
    bench: &Bench,
    queue: &QueueName,
    options: OptionsPatch,
) -> Option<(QueueDetail, Vec<Change>)> {
    let queue = queue.clone();
    let command = PatchQueue { queue, namespace: None, task: None, options, create: false };
    bench.store.patch(command).await.expect("a queue is patched")
}

/// Configuring an unknown queue creates it, with its partition `Default`.
pub async fn a_queue_is_made_by_configuring_it(bench: &Bench) {
    let queue = bench.queue("n.t");
    assert_eq!(bench.store.queue(&queue).await.expect("a queue is looked up"), None);
    bench.configure(&queue, unusual()).await;
    let detail = bench.store.queue(&queue).await.expect("a queue is looked up").expect("it is");
    assert_eq!((&detail.queue, &detail.options), (&queue, &unusual()));
    assert_eq!(detail.namespace, Some(bench.namespace("n")));
    assert_eq!(detail.task, TaskName::new("t").ok());
    let default = PartitionName::default_partition();
    let reply = bench.push(&queue, default.as_str(), &["a"]).await;
    assert!(
        matches!(reply.outcomes[0], PushOutcome::Queued { partition, .. }
            if partition == detail.default_partition),
        "{detail:?} {reply:?}"
    );
}

/// Pushing to an unknown queue creates it with the default options, also with its partition
/// `Default`.
pub async fn a_queue_is_made_by_pushing_to_it(bench: &Bench) {
    let queue = bench.queue("plain");
    bench.push(&queue, "p", &["a"]).await;
    let detail = bench.store.queue(&queue).await.expect("a queue is looked up").expect("it is");
    assert_eq!(detail.options, QueueOptions::default());
    assert_eq!((detail.namespace, detail.task), (None, None));
    let reply = bench.push(&queue, "Default", &["a"]).await;
    assert!(
        matches!(reply.outcomes[0], PushOutcome::Queued { partition, .. }
            if partition == detail.default_partition),
        "{reply:?}"
    );
}

/// Configuring replaces all options; omitted ones get their defaults. The queue keeps its messages.
pub async fn configuring_replaces_all_options(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let before = bench.store.queue(&queue).await.expect("a queue is looked up").expect("it is");
    bench.configure(&queue, unusual()).await;
    bench.configure(&queue, QueueOptions { priority: 4, ..Default::default() }).await;
    let after = bench.store.queue(&queue).await.expect("a queue is looked up").expect("it is");
    assert_eq!(after.options, QueueOptions { priority: 4, ..Default::default() });
    assert_eq!((after.id, after.default_partition), (before.id, before.default_partition));
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a"]);
}

/// Namespace and task stay if omitted, and move the queue if given.
pub async fn namespace_and_task_stay_if_omitted(bench: &Bench) {
    let queue = bench.queue("old.task");
    let command = |namespace: Option<Namespace>, task| ConfigureQueue {
        queue: queue.clone(),
        namespace,
        task,
        options: QueueOptions::default(),
    };
    let (there, task) = (bench.namespace("there"), bench.task("special"));
    let scope = |command| async {
        let detail = bench.store.configure(command).await.expect("a queue is configured").0;
        (detail.namespace, detail.task)
    };
    let moved = (Some(there.clone()), TaskName::new("task").ok());
    assert_eq!(scope(command(Some(there.clone()), None)).await, moved);
    assert_eq!(scope(command(None, None)).await, moved);
    let both = (Some(there.clone()), Some(task.clone()));
    assert_eq!(scope(command(None, Some(task.clone()))).await, both);
    assert_eq!(scope(command(None, None)).await, both);
    bench.push(&queue, "p", &["a"]).await;
    bench.nothing(&ClaimSpec::filter(Some(bench.namespace("old")), None)).await;
    assert_eq!(bench.drain(&ClaimSpec::filter(Some(there), Some(task))).await, ["a"]);
}

/// A shorter delay makes stored messages due at once and notifies waiters.
pub async fn a_shortened_delay_takes_effect_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { delay_secs: 100, ..Default::default() }).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.advance(10).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(90));
    let options = QueueOptions { delay_secs: 10, ..Default::default() };
    let changes = bench.configure(&queue, options).await;
    assert_eq!(earliest_due(&changes, &ClaimSpec::queue(&queue)), secs(0));
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a"]);
}

/// A longer delay holds back messages that are already stored.
pub async fn a_lengthened_delay_takes_effect_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    bench.configure(&queue, QueueOptions { delay_secs: 10, ..Default::default() }).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(10));
}

/// Removing the window releases the messages that it held back and notifies waiters.
pub async fn a_removed_window_takes_effect_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { window_secs: 50, ..Default::default() }).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.nothing(&ClaimSpec::queue(&queue)).await;
    let changes = bench.configure(&queue, QueueOptions::default()).await;
    assert_eq!(earliest_due(&changes, &ClaimSpec::queue(&queue)), secs(0));
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a"]);
}

/// Relaxing the order releases the messages behind a failed one and notifies waiters.
pub async fn a_relaxed_order_takes_effect_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    let strict = QueueOptions { retry_delay_ms: 60_000, ..Default::default() };
    bench.configure(&queue, strict.clone()).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    bench.nothing(&ClaimSpec::queue(&queue)).await;
    let relaxed = QueueOptions { ordering: MessageOrder::Relaxed, ..strict };
    let changes = bench.configure(&queue, relaxed).await;
    assert_eq!(earliest_due(&changes, &ClaimSpec::queue(&queue)), secs(0));
    assert_eq!(bench.take(&ClaimSpec::queue(&queue)).await.ids(), ["b"]);
}

/// A changed retry limit applies to messages that have already failed.
pub async fn a_changed_limit_takes_effect_at_once(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, at_once()).await;
    bench.push(&queue, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    bench.configure(&queue, QueueOptions { retry_limit: 1, ..at_once() }).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    assert_eq!(bench.dead_ids(&queue).await, ["a"]);
}

/// Live leases keep their end; later ones last as the new options say.
pub async fn leases_that_are_out_keep_their_end(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.take(&ClaimSpec::queue(&queue)).await;
    bench.configure(&queue, QueueOptions { lease_secs: 5, ..Default::default() }).await;
    bench.advance(299).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(1));
    bench.advance(1).await;
    bench.take(&ClaimSpec::queue(&queue)).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(5));
}

/// Deleting a queue removes everything: a new queue of the same name begins at offset 0, and old
/// leases are stale.
pub async fn a_deleted_queue_is_forgotten(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, unusual()).await;
    bench.configure(&queue, QueueOptions { priority: 1, ..Default::default() }).await;
    bench.push(&queue, "p", &["a", "b"]).await;
    let group = bench.group("g");
    let spec = ClaimSpec::queue(&queue).group(&group);
    let old = bench.take(&spec).await;
    assert!(bench.store.delete_queue(&queue).await.expect("a queue is deleted"));
    assert_eq!(bench.store.queue(&queue).await.expect("a queue is looked up"), None);
    assert_eq!(bench.nothing(&spec).await, None);
    assert_eq!(bench.store.groups(Some(&group)).await.expect("groups are listed"), []);
    assert_eq!(bench.settle(&old, "a", Verdict::Completed).await, SettleOutcome::StaleLease);

    let reply = bench.push(&queue, "p", &["a"]).await;
    assert!(matches!(reply.outcomes[0], PushOutcome::Queued { .. }), "{reply:?}");
    let detail = bench.store.queue(&queue).await.expect("a queue is looked up").expect("it is");
    assert_eq!(detail.options, QueueOptions::default());
    let new = bench.take(&spec).await;
    assert_eq!((new.offsets(), new.attempts()), (vec![0], vec![1]));
    assert_eq!(bench.settle(&old, "a", Verdict::Completed).await, SettleOutcome::StaleLease);
    let span = std::time::Duration::from_secs(60);
    let extension = bench.store.extend(old.lease(), span).await.expect("it is answered");
    assert_eq!(extension.held, []);
    bench.store.release(vec![old.lease()]).await.expect("a release is answered");
    bench.complete(&new).await;
}

/// Deleting an unknown queue returns false; other queues stay.
pub async fn deleting_an_unknown_queue_is_reported(bench: &Bench) {
    let (queue, other) = (bench.queue("q"), bench.queue("other"));
    bench.push(&other, "p", &["a"]).await;
    assert!(!bench.store.delete_queue(&queue).await.expect("it is answered"));
    assert_eq!(bench.drain(&ClaimSpec::queue(&other)).await, ["a"]);
}
