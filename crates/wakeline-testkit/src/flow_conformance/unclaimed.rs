//! Rules of finding work that could have been claimed and was not.

use std::time::Duration;

use wakeline_store::flow::{Envelope, FindUnclaimed, NewWork, TurnCommit};

use super::{
    FlowBench, Worker, activity_name, after, event, id, named, secs, start_of, step, tagged, work,
};

async fn found(bench: &FlowBench, of: Option<&str>, waited_min: Duration) -> Vec<String> {
    let instances = of.map(|instance| vec![id(instance)]);
    let find = FindUnclaimed { instances, waited_min, limit: 10 };
    let now = bench.now().await;
    let found = bench.flow.unclaimed(find).await.expect("found");
    let described = found.iter().map(|one| {
        let waited = one.since.until(now).as_secs();
        format!("{} {waited} {}", one.instance, one.what)
    });
    described.collect()
}

/// A start whose capability no dispatcher has is found.
pub async fn an_unclaimed_turn_is_found_with_its_capability(bench: &FlowBench) {
    bench.send(vec![start_of("a", "ship@2.0.0")]).await;
    bench.advance(5).await;
    bench.send(vec![start_of("b", "bill")]).await;
    assert!(found(bench, None, secs(6)).await.is_empty());
    bench.advance(25).await;
    let a = "a 30 no worker has claimed orchestration `ship@2.0.0`";
    let b = "b 25 no worker has claimed orchestration `bill`";
    assert_eq!(found(bench, None, secs(30)).await, [a]);
    assert_eq!(found(bench, None, secs(25)).await, [a, b], "longest first");
    assert_eq!(found(bench, Some("b"), secs(1)).await, [b]);
    assert!(found(bench, Some("c"), secs(0)).await.is_empty());
}

/// Such a turn only cleans up, and any dispatcher with the capability can do that.
pub async fn a_turn_of_an_ended_instance_is_not_unclaimed(bench: &FlowBench) {
    bench.completed("a").await;
    bench.send(vec![Envelope { even_if_ended: true, ..event("a", "close") }]).await;
    bench.advance(40).await;
    assert!(found(bench, None, secs(0)).await.is_empty());
    assert!(found(bench, Some("a"), secs(0)).await.is_empty());
    assert_eq!(bench.turn().await.instance, id("a"), "it can be claimed");
}

/// Activities wait from their time on, from the end of a delay, or from that of a lease.
pub async fn an_unclaimed_activity_is_found_with_its_name_and_tag(bench: &FlowBench) {
    bench.running("a").await;
    let charge = NewWork { name: Some(activity_name("charge")), ..tagged("a", 2, "gpu") };
    let later = NewWork { visible: after(20), ..named("a", 3, "refund") };
    let works = vec![work("a", 1), charge, later, named("a", 4, "ship")];
    bench.turned("a", |turn| TurnCommit { work: works, ..step(turn) }).await;
    let ship = Worker::of(false, &[]);
    assert_eq!(bench.no_work(&ship).await, None);
    bench.advance(30).await;
    let names = ["an activity", "activity `charge` with tag `gpu`", "activity `ship`"];
    let mut all = names.map(|name| format!("a 30 no worker has claimed {name}")).to_vec();
    assert_eq!(found(bench, Some("a"), secs(30)).await, all);
    all.push("a 10 no worker has claimed activity `refund`".to_owned());
    assert_eq!(found(bench, None, secs(10)).await, all);
    bench.add_work(named("b", 1, "charge")).await;
    bench.advance(5).await;
    let instances = Some(vec![id("a"), id("b")]);
    let find = FindUnclaimed { instances, waited_min: secs(1), limit: 1 };
    let first: Vec<_> = bench.flow.unclaimed(find).await.expect("found");
    let first: Vec<_> = first.iter().map(|one| one.instance.as_str()).collect();
    assert_eq!(first, ["a", "b"], "one of each");
}

/// An activity waits again from the end of its lease or from its retry on.
pub async fn a_leased_activity_is_not_unclaimed_before_it_can_be_claimed_again(bench: &FlowBench) {
    bench.add_work(named("a", 1, "charge")).await;
    bench.add_work(named("a", 2, "charge")).await;
    let worker = Worker::plain().knowing(&["charge"]);
    bench.advance(40).await;
    let (first, _second) = (bench.work(&worker).await, bench.work(&worker).await);
    assert!(found(bench, None, secs(0)).await.is_empty(), "they are leased");
    bench.abandon(first.token, 0, false).await;
    bench.advance(31).await;
    let charge = |waited: u64| format!("a {waited} no worker has claimed activity `charge`");
    assert_eq!(found(bench, None, secs(0)).await, [charge(31), charge(1)]);
    let again = bench.work(&worker).await;
    bench.abandon(again.token, 10, false).await;
    bench.advance(12).await;
    assert_eq!(found(bench, None, secs(0)).await, [charge(13), charge(2)]);
}
