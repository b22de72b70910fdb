//! When messages become available: delays, windows, and the reported time until then.

use std::time::Duration;

use wakeline_core::{MessageOrder, QueueOptions, Subscription, Verdict};

use super::{Bench, ClaimSpec, at_once, secs};

/// A message becomes readable when its own delay has passed.
pub async fn a_delayed_message_comes_when_it_is_due(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { delay_secs: 30, ..Default::default() }).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.advance(20).await;
    bench.push(&queue, "p", &["b"]).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).batch(10)).await, secs(10));
    bench.advance_ms(9_999).await;
    bench.nothing(&ClaimSpec::queue(&queue).batch(10)).await;
    bench.advance_ms(1).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).batch(10)).await, ["a"]);
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).batch(10)).await, secs(20));
    bench.advance(20).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).batch(10)).await, ["b"]);
}

/// A retry does not wait for the delay again.
pub async fn a_retry_is_not_delayed_again(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { delay_secs: 30, ..at_once() }).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.advance(30).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue)).await.attempts(), [2]);
}

/// A partition waits until nothing was pushed to it for the window.
pub async fn a_window_waits_for_quiet(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { window_secs: 10, ..Default::default() }).await;
    let mut ids = Vec::new();
    for n in 0..5 {
        bench.push(&queue, "p", &[&n.to_string()]).await;
        ids.push(n.to_string());
        assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).batch(10)).await, secs(10));
        bench.advance(9).await;
        assert_eq!(bench.nothing(&ClaimSpec::queue(&queue).batch(10)).await, secs(1));
    }
    bench.push(&queue, "other", &["x"]).await;
    bench.advance(1).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(10)).await.ids(), ids);
    assert_eq!(bench.nothing(&ClaimSpec::partition(&queue, "other")).await, secs(9));
}

/// A steady producer holds its partition back for ten windows at most.
pub async fn a_steady_producer_is_held_back_ten_windows_at_most(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { window_secs: 10, ..Default::default() }).await;
    for n in 0..20 {
        bench.push(&queue, "p", &[&n.to_string()]).await;
        bench.nothing(&ClaimSpec::queue(&queue).batch(100)).await;
        bench.advance(5).await;
    }
    // 100 s after the first push, 5 s after the last.
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(100)).await.ids().len(), 20);
}

/// The end of the ten windows is exact and part of the next due time.
pub async fn the_end_of_ten_windows_is_the_next_due_time(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { window_secs: 10, ..Default::default() }).await;
    for n in 0..12 {
        bench.push(&queue, "p", &[&n.to_string()]).await;
        bench.advance(8).await;
    }
    bench.push(&queue, "p", &["last"]).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(4));
    bench.advance_ms(3_999).await;
    bench.nothing(&ClaimSpec::queue(&queue)).await;
    bench.advance_ms(1).await;
    bench.take(&ClaimSpec::queue(&queue)).await;
}

/// Messages that were delivered before are not held back by new pushes.
pub async fn a_window_does_not_hold_back_retries(bench: &Bench) {
    let queue = bench.queue("q");
    bench.configure(&queue, QueueOptions { window_secs: 10, ..at_once() }).await;
    bench.push(&queue, "p", &["a"]).await;
    bench.advance(10).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    bench.push(&queue, "p", &["b"]).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue).batch(10)).await, ["a"]);
    assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(10));
}

/// The next due time is exact for each source alone, and absent where nothing will become due.
pub async fn the_next_due_time_is_exact_for_each_source(bench: &Bench) {
    let lease = bench.queue("lease");
    bench.configure(&lease, QueueOptions { lease_secs: 41, ..at_once() }).await;
    bench.push(&lease, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&lease)).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&lease)).await, secs(41));
    bench.store.extend(taken.lease(), Duration::from_secs(90)).await.expect("it is extended");
    assert_eq!(bench.nothing(&ClaimSpec::queue(&lease)).await, secs(90));
    bench.complete(&taken).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&lease)).await, None);

    let retry = bench.queue("retry");
    bench.configure(&retry, QueueOptions { retry_delay_ms: 7_301, ..at_once() }).await;
    bench.push(&retry, "p", &["a"]).await;
    let taken = bench.take(&ClaimSpec::queue(&retry)).await;
    bench.settled(&taken, "a", Verdict::Failed).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&retry)).await, Some(Duration::from_millis(7_301)));

    let delay = bench.queue("delay");
    bench.configure(&delay, QueueOptions { delay_secs: 43, ..at_once() }).await;
    bench.push(&delay, "p", &["a"]).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&delay)).await, secs(43));

    let window = bench.queue("window");
    bench.configure(&window, QueueOptions { window_secs: 47, ..at_once() }).await;
    bench.push(&window, "p", &["a"]).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&window)).await, secs(47));

    let both = bench.queue("both");
    let options = QueueOptions { window_secs: 11, delay_secs: 53, ..at_once() };
    bench.configure(&both, options).await;
    bench.push(&both, "p", &["a"]).await;
    assert_eq!(bench.nothing(&ClaimSpec::queue(&both)).await, secs(53));
}

/// The next due time is the earliest over all partitions and queues of a line, and a message is
/// available at that time.
pub async fn the_next_due_time_is_the_earliest_of_the_line(bench: &Bench) {
    let namespace = Some(bench.namespace("n"));
    for (name, delay_secs) in [("slow", 50), ("fast", 20), ("middle", 30)] {
        let queue = bench.queue(&format!("n.{name}"));
        bench.configure(&queue, QueueOptions { delay_secs, ..Default::default() }).await;
        bench.push(&queue, "x", &[name]).await;
        bench.push(&queue, "y", &[name]).await;
    }
    let spec = ClaimSpec::filter(namespace, None);
    let mut seen = Vec::new();
    let mut at = 0;
    while seen.len() < 6 {
        match bench.try_take(&spec.clone().auto_ack()).await {
            Some(taken) => seen.push((at, taken.ids().remove(0))),
            None => {
                let wait = bench.nothing(&spec).await.expect("something is in sight").as_secs();
                assert!(wait > 0, "nothing was there, so nothing is due now");
                bench.advance(wait).await;
                at += wait;
            }
        }
    }
    let expected: Vec<_> = [(20, "fast"), (30, "middle"), (50, "slow")]
        .into_iter()
        .flat_map(|(at, name)| [(at, name.to_owned()), (at, name.to_owned())])
        .collect();
    assert_eq!(seen, expected);
}

/// In relaxed order unread messages count as well as those that wait for a retry.
pub async fn the_next_due_time_follows_the_order(bench: &Bench) {
    for (ordering, expected) in [(MessageOrder::Strict, 100), (MessageOrder::Relaxed, 20)] {
        let queue = bench.queue(&format!("{ordering:?}"));
        let options =
            QueueOptions { ordering, delay_secs: 30, retry_delay_ms: 100_000, ..at_once() };
        bench.configure(&queue, options).await;
        bench.push(&queue, "p", &["a"]).await;
        bench.advance(20).await;
        bench.push(&queue, "p", &["b"]).await;
        bench.advance(10).await;
        let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
        bench.settled(&taken, "a", Verdict::Failed).await;
        assert_eq!(bench.nothing(&ClaimSpec::queue(&queue)).await, secs(expected), "{ordering:?}");
    }
}

/// A sweep returns the same time as an empty claim, and zero where a claim would find something.
pub async fn a_sweep_agrees_with_claims(bench: &Bench) {
    let (free, held, late) = (bench.queue("free"), bench.queue("held"), bench.queue("late"));
    bench.configure(&late, QueueOptions { delay_secs: 70, ..Default::default() }).await;
    for queue in [&free, &held, &late] {
        bench.push(queue, "p", &["a"]).await;
    }
    bench.take(&ClaimSpec::queue(&held)).await;
    bench.nothing(&ClaimSpec::queue(&late)).await;
    let specs = [
        ClaimSpec::queue(&free),
        ClaimSpec::queue(&held),
        ClaimSpec::queue(&late),
        ClaimSpec::queue(&bench.queue("unknown")),
        ClaimSpec::partition(&free, "unknown"),
    ];
    let lines = specs.iter().map(|spec| spec.line.clone()).collect();
    let due = bench.store.sweep(lines).await.expect("lines are swept");
    assert_eq!(due, [secs(0), secs(300), secs(70), None, None]);
    bench.take(&ClaimSpec::queue(&free)).await;
    assert_eq!(bench.sweep(&ClaimSpec::queue(&free)).await, secs(300));
    bench.advance(70).await;
    assert_eq!(bench.sweep(&ClaimSpec::queue(&late)).await, secs(0));
}

/// A sweep only reads: it begins no group and takes nothing.
pub async fn a_sweep_changes_nothing(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a"]).await;
    let spec = ClaimSpec::queue(&queue).group(&bench.group("g"));
    bench.sweep(&spec).await;
    bench.nothing(&spec.clone().subscribe(Subscription::New)).await;
    bench.push(&queue, "p", &["b"]).await;
    assert_eq!(bench.sweep(&spec).await, secs(0));
    assert_eq!(bench.drain(&spec).await, ["b"]);
    assert_eq!(bench.sweep(&spec).await, None);
}

/// A group that polled with `all` before its queue existed is found by the sweep.
pub async fn a_sweep_finds_work_for_a_group_that_has_not_begun(bench: &Bench) {
    let queue = bench.queue("n.t");
    let group = bench.group("g");
    let views = [
        ClaimSpec::queue(&queue).group(&group),
        ClaimSpec::partition(&queue, "p").group(&group),
        ClaimSpec::filter(Some(bench.namespace("n")), None).group(&group),
    ];
    for spec in &views {
        assert_eq!(bench.nothing(spec).await, None);
        assert_eq!(bench.sweep(spec).await, None);
    }
    bench.push(&queue, "p", &["a"]).await;
    for spec in &views {
        assert_eq!(bench.sweep(spec).await, secs(0));
    }
}
