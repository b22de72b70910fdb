//! Rules of deleting instances with their descendants. The numbers are those of the section
//! "Interventions" of `docs/reference/flow.md`.

use wakeline_store::flow::{
    AbandonOutcome, DeleteInstances, DeleteReport, Envelope, InstanceFilter, KvChange, NewInstance,
    RenewOutcome, TurnCommit, Watched,
};

use super::{
    FlowBench, MAIN, Worker, batch, capabilities, continues, event, finish, id, kv_key,
    new_instance, step, texts, turn_line, work,
};

impl FlowBench {
    async fn end_all(&self, instances: &[&str]) {
        for instance in instances {
            self.turned(instance, finish).await;
        }
    }

    async fn delete_where(&self, filter: InstanceFilter) -> DeleteReport {
        self.flow.delete_matching(filter).await.expect("instances are deleted")
    }

    async fn are_missing(&self, instances: &[&str]) -> bool {
        for instance in instances {
            if self.watched(instance).await != Watched::Missing {
                return false;
            }
        }
        true
    }
}

fn matching(limit: u32) -> InstanceFilter {
    InstanceFilter { limit, ..InstanceFilter::default() }
}

/// Rule 5: everything that belongs to an instance is deleted with it.
pub async fn a_deleted_instance_leaves_nothing(bench: &FlowBench) {
    bench.running("a").await;
    let kv = vec![KvChange::Set(kv_key("k"), "v".into())];
    bench.turned("a", |turn| TurnCommit { kv, ..continues(turn, MAIN) }).await;
    let turn = bench.turn().await;
    let kv = vec![KvChange::Set(kv_key("l"), "v".into())];
    bench.committed(TurnCommit { kv, history: Some(batch(1, 3)), ..step(&turn) }).await;
    bench
        .turned("a", |turn| TurnCommit { clear: false, work: vec![work("a", 1)], ..finish(turn) })
        .await;
    bench.send(vec![Envelope { even_if_ended: true, ..event("a", "kept") }]).await;
    let report = bench.delete(&["a", "unknown"], false).await;
    let expected = DeleteReport {
        instances: 1,
        executions: 2,
        events: 2 + 4,
        messages: 2,
        ..DeleteReport::default()
    };
    assert_eq!(report, expected);
    assert_eq!(bench.watched("a").await, Watched::Missing);
    assert!(bench.flow.executions(&id("a")).await.expect("executions").is_empty());
    assert!(bench.kv("a").await.is_empty());
    assert_eq!(bench.no_turn().await, None);
    assert_eq!(bench.no_work(&Worker::plain()).await, None);
    assert_eq!(bench.delete(&["a"], false).await, DeleteReport::default(), "already deleted");
}

/// Rule 5: a running instance is deleted only by force.
pub async fn a_running_instance_is_deleted_only_by_force(bench: &FlowBench) {
    bench.running("a").await;
    bench.completed("b").await;
    let report = bench.delete(&["b", "a"], false).await;
    let refused = DeleteReport { running: vec![id("a")], ..DeleteReport::default() };
    assert_eq!(report, refused);
    assert_ne!(bench.watched("b").await, Watched::Missing, "all or none");
    let report = bench.delete(&["a", "b"], true).await;
    assert_eq!((report.instances, report.running), (2, vec![]));
    assert!(bench.are_missing(&["a", "b"]).await);
}

/// Rule 5: all descendants are deleted too.
pub async fn deleting_an_instance_deletes_its_descendants(bench: &FlowBench) {
    bench.running("root").await;
    for (child, parent) in [("child", "root"), ("grandchild", "child"), ("second", "root")] {
        bench.child(child, parent).await;
    }
    bench.completed("other").await;
    bench.end_all(&["child", "second", "root"]).await;
    let report = bench.delete(&["root"], false).await;
    assert_eq!(report.running, [id("grandchild")], "a descendant has not ended");
    assert_eq!(report.instances, 0);
    bench.end_all(&["grandchild"]).await;
    let report = bench.delete(&["root"], false).await;
    assert_eq!((report.instances, report.executions), (4, 4));
    assert!(bench.are_missing(&["root", "child", "grandchild", "second"]).await);
    assert_ne!(bench.watched("other").await, Watched::Missing);
}

/// Rule 5: a child is not deleted while its parent exists.
pub async fn a_child_is_not_deleted_without_its_parent(bench: &FlowBench) {
    bench.running("root").await;
    bench.child("child", "root").await;
    bench.child("grandchild", "child").await;
    bench.end_all(&["grandchild", "child", "root"]).await;
    let report = bench.delete(&["child"], false).await;
    assert_eq!((report.instances, report.orphans), (0, vec![id("child")]));
    assert_eq!(bench.flow.tree(&id("root")).await.expect("a tree").len(), 3);
    let report = bench.delete(&["child", "root"], false).await;
    assert_eq!((report.instances, report.orphans), (3, vec![]), "deleted with its parent");
}

/// Rule 5: by force a child is deleted whatever the state of its parent is.
pub async fn a_child_is_deleted_by_force(bench: &FlowBench) {
    bench.running("root").await;
    bench.child("child", "root").await;
    let report = bench.delete(&["child"], true).await;
    assert_eq!((report.instances, report.orphans), (1, vec![]));
    assert_eq!(bench.flow.tree(&id("root")).await.expect("a tree"), [id("root")]);
}

/// Rule 5: leases of a deleted instance are stale, even if a new instance has the same id.
pub async fn tokens_of_a_deleted_instance_do_not_fit_its_successor(bench: &FlowBench) {
    bench.running("a").await;
    bench.turned("a", |turn| TurnCommit { work: vec![work("a", 1)], ..step(turn) }).await;
    let old_work = bench.work(&Worker::plain()).await;
    bench.send(vec![event("a", "x")]).await;
    let old_turn = bench.turn().await;
    bench.delete(&["a"], true).await;
    bench.stale(step(&old_turn)).await;
    assert_eq!(bench.watched("a").await, Watched::Missing, "a stale commit has no effect");
    bench.running("a").await;
    bench.turned("a", |turn| TurnCommit { work: vec![work("a", 1)], ..step(turn) }).await;
    let new_work = bench.work(&Worker::plain()).await;
    bench.send(vec![event("a", "new")]).await;
    let new_turn = bench.turn().await;
    assert_ne!(new_turn.token.lane, old_turn.token.lane);
    for token in [old_turn.token, old_work.token] {
        assert_eq!(bench.renew(token, 30).await, RenewOutcome::Stale);
        assert_eq!(bench.abandon(token, 0, true).await, AbandonOutcome::Stale);
    }
    assert!(!bench.completes(old_work.token).await);
    bench.stale(step(&old_turn)).await;
    bench.committed(step(&new_turn)).await;
    assert!(bench.completes(new_work.token).await);
}

/// A worker learns from its lease that the instance is gone.
pub async fn work_of_a_deleted_instance_is_gone(bench: &FlowBench) {
    bench.running("a").await;
    bench.add_work(work("a", 1)).await;
    bench.add_work(work("b", 2)).await;
    let item = bench.work(&Worker::plain()).await;
    bench.delete(&["a"], true).await;
    assert_eq!(bench.renew(item.token, 30).await, RenewOutcome::Stale);
    let reply = bench.complete(item.token, Some(event("a", "done"))).await;
    assert_eq!(reply.outcome, wakeline_store::flow::WorkOutcome::Stale);
    assert_eq!(bench.all_work(&Worker::plain()).await, [2]);
}

/// A pending instance has not ended, so it is deleted only by force.
pub async fn a_pending_instance_is_deleted_only_by_force(bench: &FlowBench) {
    bench.send(vec![event("a", "early")]).await;
    bench.start("a").await;
    let report = bench.delete(&["a"], false).await;
    assert_eq!((report.instances, report.running), (0, vec![id("a")]));
    assert!(bench.is_pending("a").await);
    let turn = bench.turn().await;
    let report = bench.delete(&["a"], true).await;
    assert_eq!((report.messages, report.running), (2, vec![]));
    assert_eq!(bench.watched("a").await, Watched::Missing);
    bench.stale(step(&turn)).await;
    bench.start("a").await;
    assert_eq!(texts(&bench.turn().await), ["start"]);
}

/// A bulk deletion covers ended roots and their descendants.
pub async fn matching_instances_are_deleted_with_all_below(bench: &FlowBench) {
    bench.completed("done").await;
    bench.running("running").await;
    bench.running("root").await;
    bench.child("child", "root").await;
    bench.end_all(&["child", "root"]).await;
    bench.running("half").await;
    bench.child("runs on", "half").await;
    bench.end_all(&["half"]).await;
    bench.start("pending").await;
    let report = bench.delete_where(matching(100)).await;
    assert_eq!((report.instances, report.executions), (3, 3));
    assert!(bench.are_missing(&["done", "root", "child"]).await);
    for name in ["running", "half", "runs on"] {
        bench.detail(name).await;
    }
    assert!(bench.is_pending("pending").await);
    assert_eq!(bench.delete_where(matching(100)).await, DeleteReport::default());
}

/// A bulk deletion can be limited by names, by the time of the end, and by a number.
pub async fn matching_is_by_name_time_and_number(bench: &FlowBench) {
    for name in ["a", "b", "c", "d"] {
        bench.completed(name).await;
        bench.advance(10).await;
    }
    let ended = bench.detail("c").await.ended_at;
    let filter = InstanceFilter { ended_before: ended, ..matching(1) };
    assert_eq!(bench.delete_where(filter.clone()).await.instances, 1, "at most the limit");
    let named = InstanceFilter { instances: Some(vec![id("c"), id("none")]), ..matching(100) };
    let before = InstanceFilter { ended_before: ended, ..named.clone() };
    assert_eq!(bench.delete_where(before).await.instances, 0, "both conditions must match");
    let filter = InstanceFilter { limit: 100, ..filter };
    assert_eq!(bench.delete_where(filter).await.instances, 1);
    assert!(bench.are_missing(&["a", "b"]).await);
    assert_eq!(bench.delete_where(named).await.instances, 1);
    assert!(bench.are_missing(&["c"]).await);
    bench.detail("d").await;
    let none = InstanceFilter { instances: Some(Vec::new()), ..matching(100) };
    assert_eq!(bench.delete_where(none).await.instances, 0, "an empty list matches nothing");
}

/// A bulk deletion does not treat a child as a root.
pub async fn matching_passes_over_children(bench: &FlowBench) {
    bench.running("root").await;
    bench.child("child", "root").await;
    bench.end_all(&["child"]).await;
    let named = InstanceFilter { instances: Some(vec![id("child")]), ..matching(100) };
    assert_eq!(bench.delete_where(named).await.instances, 0);
    bench.detail("child").await;
}

/// An instance can have more descendants and messages than one transaction removes.
pub async fn a_large_family_is_deleted_to_the_last_row(bench: &FlowBench) {
    bench.completed("other").await;
    bench.running("root").await;
    for n in 0..700 {
        bench.child(&format!("child {n}"), "root").await;
    }
    for n in 0..3 {
        bench.child(&format!("grandchild {n}"), &format!("child {n}")).await;
    }
    bench.send((0..1_500).map(|n| event("child 7", &n.to_string())).collect()).await;
    let report = bench.delete(&["root"], false).await;
    assert_eq!((report.instances, report.running.len()), (0, 704), "none of them has ended");
    let report = bench.delete(&["root"], true).await;
    assert_eq!((report.instances, report.executions, report.messages), (704, 704, 1_500));
    assert!(bench.are_missing(&["root", "child 0", "child 699", "grandchild 2"]).await);
    bench.detail("other").await;
    let depths = bench.flow.depths().await.expect("depths");
    assert_eq!((depths.messages, depths.executions), (0, 1), "nothing is left of them");
    assert_eq!(bench.flow.clear_deleted().await.expect("cleared"), None);
}

/// A deletion whose caller gives up, at whatever point, leaves nothing behind for good.
pub async fn a_deletion_that_was_given_up_is_finished(bench: &FlowBench) {
    for polls in [1, 2, 5, 20, 100, 500, 2_000] {
        bench.running("root").await;
        for n in 0..3 {
            bench.child(&format!("child {n}"), "root").await;
        }
        bench.send((0..3_000).map(|n| event("child 1", &n.to_string())).collect()).await;
        let pending = (0..600).map(|n| super::child_start(&format!("pending {n}"), "child 0"));
        bench.send(pending.collect()).await;
        let command = DeleteInstances { instances: vec![id("root")], force: true };
        {
            let mut deleting = std::pin::pin!(bench.flow.delete_instances(command));
            for _ in 0..polls {
                if futures_util::poll!(&mut deleting).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // This also waits for statements that were sent before the caller gave up.
        bench.delete(&["root"], true).await;
        // A child begins when its parent has been removed and it itself has not.
        bench.advance(1).await;
        let late = bench.claim_turns(vec![turn_line(&capabilities(&[MAIN]), 1)]).await.remove(0);
        if let Some(turn) = late.turns.into_iter().flatten().next() {
            let parent = Some((id("child 0"), 1));
            let new_instance = Some(NewInstance { parent, ..new_instance("child") });
            bench.commit(TurnCommit { new_instance, ..step(&turn) }).await;
        }
        bench.advance(61).await;
        while bench.flow.clear_deleted().await.expect("cleared").is_some() {}
        let depths = bench.flow.depths().await.expect("depths");
        assert_eq!((depths.executions, depths.messages), (0, 0), "after {polls} polls");
        assert!(bench.are_missing(&["root", "child 0", "child 2", "pending 599"]).await);
    }
}

/// A new instance with the id of a deleted one is not related to it.
pub async fn children_of_a_namesake_stay(bench: &FlowBench) {
    bench.running("root").await;
    bench.child("first", "root").await;
    bench.delete(&["root"], true).await;
    bench.advance(1).await;
    bench.running("root").await;
    bench.child("second", "root").await;
    bench.advance(120).await;
    assert_eq!(bench.flow.clear_deleted().await.expect("cleared"), None);
    assert_eq!(bench.flow.tree(&id("root")).await.expect("a tree"), [id("root"), id("second")]);
}

/// Waiters of an instance are notified that it was deleted.
pub async fn waiters_of_a_deleted_instance_are_named(bench: &FlowBench) {
    bench.running("root").await;
    bench.child("child", "root").await;
    bench.child("unwatched", "root").await;
    bench.flow.watch(vec![id("child"), id("root")]).await.expect("watched");
    let mut report = bench.delete(&["root"], true).await;
    report.watched.sort();
    assert_eq!(report.watched, [id("child"), id("root")]);
}

/// Force also deletes messages of an instance that was never started, for example of a misspelt id.
pub async fn early_messages_are_deleted_by_force(bench: &FlowBench) {
    bench.send(vec![event("a", "early"), event("a", "too")]).await;
    assert_eq!(bench.delete(&["a"], false).await, DeleteReport::default());
    let report = bench.delete(&["a"], true).await;
    assert_eq!((report.instances, report.messages), (1, 2));
    assert_eq!(bench.delete(&["a"], true).await, DeleteReport::default());
    bench.start("a").await;
    assert_eq!(texts(&bench.turn().await), ["start"]);
}

/// Otherwise a child could start after its parent was deleted. Without force, a pending child
/// prevents the deletion of its parent.
pub async fn pending_children_are_deleted_with_their_parent(bench: &FlowBench) {
    bench.completed("over").await;
    bench.send(vec![super::child_start("left", "over")]).await;
    assert_eq!(bench.delete(&["over"], false).await.running, [id("left")]);
    assert_eq!(bench.delete_where(matching(10)).await.instances, 0);
    assert_eq!(bench.delete(&["over"], true).await.instances, 2);
    bench.running("p").await;
    bench.child("c", "p").await;
    bench.send(vec![super::child_start("waits", "p"), super::child_start("below", "c")]).await;
    bench.send(vec![super::child_start("another's", "q")]).await;
    let report = bench.delete(&["p"], true).await;
    assert_eq!(report.instances, 4);
    for name in ["p", "c", "waits", "below"] {
        assert!(bench.are_missing(&[name]).await, "{name}");
    }
    assert!(bench.is_pending("another's").await);
}

/// Otherwise the other parent would wait forever.
pub async fn a_pending_child_that_another_started_too_is_not_deleted_with_its_parent(
    bench: &FlowBench,
) {
    bench.running("p").await;
    bench.send(vec![super::child_start("c", "p"), super::child_start("c", "q")]).await;
    let report = bench.delete(&["p"], true).await;
    assert_eq!(report.instances, 1);
    assert!(bench.is_pending("c").await);
}
