//! Rules of lists of instances.

use wakeline_store::flow::{
    InstanceDetail, InstanceState, ListInstances, ListedInstances, Suspension, TurnCommit,
};

use super::{
    FlowBench, MAIN, continues, ends, event, finish, id, new_instance, orchestration, start_of,
    step,
};

fn all() -> ListInstances {
    ListInstances { limit: 100, ..ListInstances::default() }
}

impl FlowBench {
    async fn page(&self, filter: ListInstances) -> ListedInstances {
        self.flow.list_instances(filter).await.expect("instances are listed")
    }

    async fn listed(&self, filter: ListInstances) -> Vec<String> {
        let page = self.page(filter).await;
        assert_eq!(page.next, None, "all fit on one page");
        page.instances.iter().map(|detail| detail.instance.to_string()).collect()
    }
}

/// Instances are listed newest first, including pending ones, but without lanes that have early
/// messages only.
pub async fn instances_are_listed_newest_first(bench: &FlowBench) {
    assert!(bench.listed(all()).await.is_empty());
    for name in ["b", "a", "c"] {
        bench.running(name).await;
        bench.advance(1).await;
    }
    bench.start("pending").await;
    bench.send(vec![super::event("lane", "x")]).await;
    assert_eq!(bench.listed(all()).await, ["pending", "c", "a", "b"]);
    let page = bench.page(all()).await;
    assert_eq!(page.instances[0], bench.detail("pending").await, "each as a reader sees it");
    assert_eq!(page.instances[1], bench.detail("c").await);
}

/// Instances of the same time are listed by id, descending.
pub async fn instances_of_one_moment_are_listed_by_id(bench: &FlowBench) {
    for name in ["a", "c", "b", "d"] {
        bench.running(name).await;
    }
    assert_eq!(bench.listed(all()).await, ["d", "c", "b", "a"]);
}

/// Pages list every instance once.
pub async fn pages_follow_each_other_without_gap_or_overlap(bench: &FlowBench) {
    for n in 0..7 {
        bench.running(&format!("i{n}")).await;
        if n % 3 == 0 {
            bench.advance(1).await;
        }
    }
    let (mut after, mut names, mut pages) = (None, Vec::new(), 0);
    loop {
        let page = bench.page(ListInstances { limit: 2, after, ..all() }).await;
        assert!(page.instances.len() <= 2);
        names.extend(page.instances.iter().map(|detail| detail.instance.to_string()));
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names, ["i6", "i5", "i4", "i3", "i2", "i1", "i0"]);
    assert_eq!(pages, 4);
    let page = bench.page(ListInstances { limit: 7, ..all() }).await;
    assert_eq!(page.next, None, "a page that is just full may be the last");
}

/// New instances do not change the pages of older ones.
pub async fn a_page_is_not_moved_by_what_comes_later(bench: &FlowBench) {
    for name in ["a", "b", "c"] {
        bench.running(name).await;
        bench.advance(1).await;
    }
    let first = bench.page(ListInstances { limit: 2, ..all() }).await;
    bench.running("d").await;
    let second = bench.page(ListInstances { after: first.next, ..all() }).await;
    let names: Vec<_> = second.instances.iter().map(|one| one.instance.as_str()).collect();
    assert_eq!(names, ["a"]);
}

/// Instances are filtered by state.
pub async fn instances_are_listed_by_state(bench: &FlowBench) {
    use InstanceState::{Completed, ContinuedAsNew, Failed, Running};
    bench.running("running").await;
    bench.running("continued").await;
    bench.turned("continued", |turn| continues(turn, MAIN)).await;
    let turn = bench.turn().await;
    bench.committed(step(&turn)).await;
    bench.completed("completed").await;
    bench.running("failed").await;
    bench.turned("failed", |turn| ends(turn, Failed)).await;
    let of = async |states: &[InstanceState]| {
        let mut names = bench.listed(ListInstances { states: states.to_vec(), ..all() }).await;
        names.sort();
        names
    };
    assert_eq!(of(&[Running]).await, ["continued", "running"]);
    assert_eq!(of(&[Completed]).await, ["completed"]);
    assert_eq!(of(&[Completed, Failed]).await, ["completed", "failed"]);
    assert!(of(&[ContinuedAsNew]).await.is_empty(), "that is a state of executions only");
    assert_eq!(of(&[]).await.len(), 4);
}

/// Instances are filtered by name, prefix and parent.
pub async fn instances_are_listed_by_name_prefix_and_parent(bench: &FlowBench) {
    for (instance, name) in [("a-1", "ship"), ("a-2", "bill"), ("a%1", "bill"), ("B-1", "ship")] {
        bench.start(instance).await;
        let turn = bench.turn().await;
        bench.committed(TurnCommit { new_instance: Some(new_instance(name)), ..step(&turn) }).await;
        bench.advance(1).await;
    }
    bench.child("child", "a-1").await;
    bench.child("grandchild", "child").await;
    let name = Some(orchestration("ship"));
    assert_eq!(bench.listed(ListInstances { name, ..all() }).await, ["B-1", "a-1"]);
    let prefix = |text: &str| ListInstances { id_prefix: Some(text.to_owned()), ..all() };
    assert_eq!(bench.listed(prefix("a")).await, ["a%1", "a-2", "a-1"]);
    assert_eq!(bench.listed(prefix("a%")).await, ["a%1"], "no wildcard");
    assert_eq!(bench.listed(prefix("b")).await, Vec::<String>::new(), "as it is spelt");
    assert_eq!(bench.listed(prefix("a-1")).await, ["a-1"]);
    let parent = Some(id("a-1"));
    assert_eq!(bench.listed(ListInstances { parent, ..all() }).await, ["child"]);
    let both = ListInstances { name: Some(orchestration("bill")), ..prefix("a-") };
    assert_eq!(bench.listed(both).await, ["a-2"], "filters are combined");
}

/// Instances are filtered by time: `from` is inclusive, `before` is exclusive.
pub async fn instances_are_listed_by_creation(bench: &FlowBench) {
    for name in ["a", "b", "c"] {
        bench.running(name).await;
        bench.advance(10).await;
    }
    let at = bench.detail("b").await.created_at;
    let from = ListInstances { created_from: Some(at), ..all() };
    assert_eq!(bench.listed(from.clone()).await, ["c", "b"]);
    let before = ListInstances { created_before: Some(at), ..all() };
    assert_eq!(bench.listed(before).await, ["a"]);
    let until = ListInstances { created_before: Some(at.plus(super::secs(1))), ..from };
    assert_eq!(bench.listed(until).await, ["b"]);
}

/// Instances are filtered by whether they are suspended.
pub async fn instances_are_listed_by_suspension(bench: &FlowBench) {
    bench.running("free").await;
    bench.running("held").await;
    let suspension = Suspension::Operator { reason: "for a look".into() };
    assert!(bench.flow.suspend(&id("held"), suspension).await.expect("suspended"));
    let of = |suspended| ListInstances { suspended: Some(suspended), ..all() };
    assert_eq!(bench.listed(of(true)).await, ["held"]);
    assert_eq!(bench.listed(of(false)).await, ["free"]);
    bench.flow.resume(&id("held")).await.expect("resumed");
    assert!(bench.listed(of(true)).await.is_empty());
    bench.turned("held", finish).await;
}

/// Pending instances are filtered by everything that is known of them, which does not include the
/// parent.
pub async fn pending_instances_are_listed(bench: &FlowBench) {
    bench.running("running").await;
    bench.advance(1).await;
    bench.send(vec![event("early", "x")]).await;
    bench.advance(1).await;
    for (name, needed) in [("a-1", "ship@1.0.0"), ("a-2", "ship"), ("early", "bill")] {
        bench.send(vec![start_of(name, needed)]).await;
        bench.advance(1).await;
    }
    let suspension = Suspension::Operator { reason: "for a look".into() };
    assert!(bench.flow.suspend(&id("a-2"), suspension).await.expect("suspended"));
    let pending = ListInstances { states: vec![InstanceState::Pending], ..all() };
    let page = bench.page(pending.clone()).await;
    let described = |detail: &InstanceDetail| {
        let suspended = detail.suspended.clone().unwrap_or_default();
        format!("{} {} {suspended}", detail.instance, detail.name)
    };
    let listed: Vec<_> = page.instances.iter().map(described).collect();
    assert_eq!(listed, ["early bill ", "a-2 ship for a look", "a-1 ship "]);
    let first = &page.instances[2];
    let running = bench.detail("running").await;
    assert_eq!((first.state, first.execution), (InstanceState::Pending, 0));
    assert_eq!(first.created_at, running.created_at.plus(super::secs(2)));
    let listed = async |filter: ListInstances| bench.listed(filter).await;
    let name = Some(orchestration("ship"));
    assert_eq!(listed(ListInstances { name, ..all() }).await, ["a-2", "a-1"]);
    assert_eq!(listed(ListInstances { suspended: Some(true), ..all() }).await, ["a-2"]);
    let id_prefix = Some("a-1".to_owned());
    assert_eq!(listed(ListInstances { id_prefix, ..pending.clone() }).await, ["a-1"]);
    let from = ListInstances { created_from: Some(page.instances[1].created_at), ..all() };
    assert_eq!(listed(from).await, ["early", "a-2"]);
    let before = ListInstances { created_before: Some(first.created_at), ..all() };
    assert_eq!(listed(before).await, ["running"]);
    let parent = Some(id("running"));
    assert!(listed(ListInstances { parent, ..all() }).await.is_empty());
    let running = ListInstances { states: vec![InstanceState::Running], ..all() };
    assert_eq!(listed(running).await, ["running"]);
}

/// Pending and running instances have one order, and each is listed once.
pub async fn pending_and_running_instances_share_pages(bench: &FlowBench) {
    for n in 0..3 {
        bench.running(&format!("i{n}-running")).await;
        bench.send(vec![start_of(&format!("i{n}-pending"), "other")]).await;
        if n == 1 {
            bench.advance(1).await;
        }
    }
    let (mut after, mut names) = (None, Vec::new());
    loop {
        let page = bench.page(ListInstances { limit: 2, after, ..all() }).await;
        names.extend(page.instances.iter().map(|detail| detail.instance.to_string()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected = ["i2-running", "i2-pending", "i1-running", "i1-pending"];
    assert_eq!(names[..4], expected);
    assert_eq!(names[4..], ["i0-running", "i0-pending"]);
    let line = super::capabilities(&["other"]);
    let turn = bench.turn_of(&line).await;
    bench.committed(step(&turn)).await;
    assert_eq!(bench.listed(all()).await.len(), 6);
}

/// A pending instance is listed with the parent that sent the first start.
pub async fn pending_instances_are_listed_with_their_parent(bench: &FlowBench) {
    bench.running("p").await;
    bench.send(vec![super::child_start("c", "p"), super::child_start("c", "other")]).await;
    bench.send(vec![super::child_start("d", "other")]).await;
    assert_eq!(bench.detail("c").await.parent, Some(id("p")));
    let filter = ListInstances { parent: Some(id("p")), ..ListInstances::default() };
    let listed = bench.flow.list_instances(filter).await.expect("a page").instances;
    let listed: Vec<_> = listed.iter().map(|one| (one.instance.as_str(), one.state)).collect();
    assert_eq!(listed, [("c", InstanceState::Pending)]);
    assert_eq!(bench.flow.tree(&id("p")).await.expect("a tree"), [id("p"), id("c")]);
}
