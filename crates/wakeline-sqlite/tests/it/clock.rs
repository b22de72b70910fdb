//! Setting the machine's date by a day: leases and delays of orchestrations and webhooks end
//! neither early nor late. For queues see `files`.

use std::time::Duration;

use wakeline_store::flow::{Envelope, TurnCommit};
use wakeline_testkit::flow_conformance::{FlowBench, Worker, after, event, id, step, work};
use wakeline_testkit::hook_conformance::{HookBench, plain};

use crate::fixture::Fixture;

const DAY: i64 = 86_400;

/// A duration, longer by as much as the clock may be slower after the date was set back.
fn at_least(secs: u64) -> Duration {
    Duration::from_secs(secs) * 10 / 9 + Duration::from_secs(1)
}

#[tokio::test]
async fn setting_the_date_neither_hastens_nor_delays_turns_timers_and_activities() {
    for days in [1, -1] {
        let fixture = Fixture::open().await;
        let clock = fixture.clock.clone();
        let bench = FlowBench::new(Box::new(fixture));
        let worker = Worker::plain();
        bench.start("a").await;
        let turn = bench.turn().await;
        let timer = Envelope { visible: after(600), ..event("a", "timer") };
        bench.committed(TurnCommit { messages: vec![timer], ..step(&turn) }).await;
        bench.start("b").await;
        bench.turn().await;
        bench.add_work(work("a", 1)).await;
        bench.work(&worker).await;

        for step in [days, -days] {
            clock.step(step * DAY);
            bench.no_turn().await;
            bench.no_work(&worker).await;
        }
        clock.advance(Duration::from_secs(29));
        bench.no_turn().await;
        clock.advance(at_least(30) - Duration::from_secs(29));
        let again = bench.turn().await;
        assert_eq!((again.instance, again.attempt), (id("b"), 2), "the lease of a turn has ended");
        assert_eq!(bench.work(&worker).await.attempt, 2, "and that of an activity");
        bench.no_turn().await;
        clock.advance(at_least(600));
        let due = [bench.turn().await, bench.turn().await];
        assert!(due.iter().any(|turn| turn.instance == id("a")), "its timer is due");
    }
}

#[tokio::test]
async fn setting_the_date_neither_hastens_nor_delays_webhooks() {
    for days in [1, -1] {
        let fixture = Fixture::open().await;
        let clock = fixture.clock.clone();
        let bench = HookBench::new(Box::new(fixture)).await;
        bench.with(plain()).await;
        let leased = bench.emit().await;
        bench.one().await;
        let retried = bench.emit().await;
        let item = bench.one().await;
        bench.retry(&item, 120).await;

        for step in [days, -days] {
            clock.step(step * DAY);
            bench.none().await;
            let new = bench.emit().await;
            let item = bench.one().await;
            assert_eq!(item.message, new, "a new one is due at once");
            bench.deliver(&item).await;
        }
        clock.advance(at_least(30));
        let item = bench.one().await;
        assert_eq!((item.message, item.attempt_no), (leased, 2), "a lease has ended");
        bench.deliver(&item).await;
        bench.none().await;
        clock.advance(at_least(120));
        assert_eq!(bench.one().await.message, retried, "a retry is due");
    }
}
