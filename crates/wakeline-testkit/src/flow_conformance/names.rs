//! Rules of activity names: which workers have the code of which activities.

use wakeline_store::flow::{NewWork, TurnCommit};

use super::{
    FlowBench, Worker, activity_name, after, earliest_due, in_session, named, secs, step, tagged,
    work,
};

/// A worker leaves activities that it cannot run to others.
pub async fn a_worker_takes_only_activities_that_it_knows(bench: &FlowBench) {
    bench.add_work(named("a", 1, "charge")).await;
    bench.add_work(named("a", 2, "refund")).await;
    bench.add_work(named("a", 3, "charge")).await;
    assert_eq!(bench.no_work(&Worker::plain().knowing(&[])).await, None);
    assert_eq!(bench.no_work(&Worker::plain().knowing(&["Charge", "charg"])).await, None);
    assert_eq!(bench.all_work(&Worker::plain().knowing(&["charge", "ship"])).await, [1, 3]);
    assert_eq!(bench.all_work(&Worker::plain().knowing(&["refund"])).await, [2]);
}

/// Other runtimes, and nodes of earlier releases, insert work without a name.
pub async fn work_whose_name_the_store_does_not_know_is_for_any_worker(bench: &FlowBench) {
    bench.add_work(work("a", 1)).await;
    bench.add_work(named("a", 2, "charge")).await;
    bench.add_work(work("a", 3)).await;
    assert_eq!(bench.all_work(&Worker::plain().knowing(&["charge"])).await, [1, 2, 3]);
    bench.add_work(work("a", 4)).await;
    assert_eq!(bench.all_work(&Worker::plain().knowing(&[])).await, [4]);
}

/// A runtime that does not name its activities takes all of them.
pub async fn a_worker_that_names_none_takes_all_in_order(bench: &FlowBench) {
    bench.add_work(named("a", 1, "charge")).await;
    bench.add_work(work("a", 2)).await;
    bench.add_work(named("a", 3, "refund")).await;
    assert_eq!(bench.all_work(&Worker::plain()).await, [1, 2, 3]);
}

/// An activity must match both the tags and the names of a worker.
pub async fn a_tag_and_a_name_both_count(bench: &FlowBench) {
    let charge = |activity, tag| NewWork {
        name: Some(activity_name("charge")),
        ..tagged("a", activity, tag)
    };
    bench.add_work(charge(1, "gpu")).await;
    bench.add_work(charge(2, "cpu")).await;
    bench.add_work(named("a", 3, "charge")).await;
    assert_eq!(bench.no_work(&Worker::of(false, &["charge"]).knowing(&["gpu"])).await, None);
    assert_eq!(bench.no_work(&Worker::of(false, &["gpu"]).knowing(&["refund"])).await, None);
    assert_eq!(bench.all_work(&Worker::of(false, &["gpu"]).knowing(&["charge"])).await, [1]);
    assert_eq!(bench.all_work(&Worker::any().knowing(&["charge"])).await, [2, 3]);
}

/// The session decides the owner; the name decides which of its workers can run the activity.
pub async fn work_of_a_session_goes_to_a_worker_that_knows_it(bench: &FlowBench) {
    let charge = |activity| NewWork {
        name: Some(activity_name("charge")),
        ..in_session("a", activity, "s")
    };
    bench.add_work(charge(1)).await;
    bench.add_work(NewWork { visible: after(5), ..charge(2) }).await;
    let x = Worker::owning("x").knowing(&["refund"]);
    assert_eq!(bench.no_work(&x).await, None);
    let y = Worker::owning("y").knowing(&["charge"]);
    assert_eq!(bench.all_work(&y).await, [1]);
    assert_eq!(bench.no_work(&x).await, None, "not when the delay or the session ends either");
    bench.advance(5).await;
    assert_eq!(bench.all_work(&y).await, [2]);
}

/// The name of an activity does not change.
pub async fn a_name_survives_turn_abandon_and_expiry(bench: &FlowBench) {
    bench.running("a").await;
    bench
        .turned("a", |turn| TurnCommit { work: vec![named("a", 1, "charge")], ..step(turn) })
        .await;
    let (knows, other) = (Worker::plain().knowing(&["charge"]), Worker::plain().knowing(&["ship"]));
    let item = bench.work(&knows).await;
    assert_eq!(item.name, Some(activity_name("charge")));
    bench.abandon(item.token, 0, false).await;
    assert_eq!(bench.no_work(&other).await, None);
    assert_eq!(bench.work(&knows).await.name, item.name);
    bench.advance(30).await;
    assert_eq!(bench.no_work(&other).await, None);
    assert_eq!(bench.work(&knows).await.attempt, 3);
}

/// A waiting worker does not get work that it cannot run.
pub async fn a_commit_leases_work_only_to_a_worker_that_knows_it(bench: &FlowBench) {
    bench.running("a").await;
    let requests = vec![
        Worker::plain().knowing(&["refund"]).request(),
        Worker::plain().knowing(&["charge"]).request(),
    ];
    let reply = bench
        .turned("a", |turn| TurnCommit {
            work: vec![named("a", 1, "charge"), named("a", 2, "ship")],
            work_requests: requests,
            ..step(turn)
        })
        .await;
    let leased: Vec<_> = reply.work.iter().map(|(n, item)| (*n, item.key.activity)).collect();
    assert_eq!(leased, [(1, 1)]);
    assert_eq!(bench.all_work(&Worker::plain().knowing(&["ship"])).await, [2]);
}

/// A change notifies only workers that can run the activity.
pub async fn hints_notify_only_workers_that_know_the_name(bench: &FlowBench) {
    let (charge, ship) = (Worker::plain().knowing(&["charge"]), Worker::plain().knowing(&["ship"]));
    let due_times = |changes: &[wakeline_core::FlowChange]| {
        (earliest_due(changes, &charge.line()), earliest_due(changes, &ship.line()))
    };
    let changes = bench.flow.enqueue_work(named("a", 1, "charge")).await.expect("stored");
    assert_eq!(due_times(&changes), (Some(secs(0)), None));
    let item = bench.work(&charge).await;
    let (_, changes) = bench.flow.abandon(item.token, secs(3), false).await.expect("abandoned");
    assert_eq!(due_times(&changes), (Some(secs(3)), None));
    bench.running("b").await;
    let works =
        vec![named("b", 1, "ship"), NewWork { visible: after(4), ..named("b", 2, "charge") }];
    let reply = bench.turned("b", |turn| TurnCommit { work: works, ..step(turn) }).await;
    assert_eq!(due_times(&reply.changes), (Some(secs(4)), Some(secs(0))));
}

/// Activities that a worker cannot run do not make its line due.
pub async fn a_line_is_due_by_what_its_worker_knows(bench: &FlowBench) {
    bench.add_work(NewWork { visible: after(2), ..named("a", 1, "refund") }).await;
    bench.add_work(NewWork { visible: after(7), ..named("a", 2, "charge") }).await;
    let worker = Worker::plain().knowing(&["charge"]);
    assert_eq!(bench.no_work(&worker).await, Some(secs(7)));
    assert_eq!(bench.sweep(worker.line()).await, Some(secs(7)));
    bench.advance(7).await;
    assert_eq!(bench.all_work(&worker).await, [2]);
}
