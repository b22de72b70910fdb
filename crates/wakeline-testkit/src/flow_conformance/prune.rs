//! Rules of pruning old executions.

use wakeline_store::flow::{InstanceFilter, KvChange, PruneOptions, PruneReport, TurnCommit};

use super::{FlowBench, MAIN, continues, event, finish, id, kv_key, step};

/// Creates an instance with four executions of ten seconds and two or three events each.
async fn with_executions(bench: &FlowBench, instance: &str) {
    bench.running(instance).await;
    for n in 1..4_u32 {
        let kv = vec![KvChange::Set(kv_key(&format!("k{n}")), "v".into())];
        bench.turned(instance, |turn| TurnCommit { kv, ..continues(turn, MAIN) }).await;
        bench.advance(10).await;
        let turn = bench.turn().await;
        bench.committed(step(&turn)).await;
    }
}

impl FlowBench {
    async fn prune(&self, instances: Option<&[&str]>, options: PruneOptions) -> PruneReport {
        let instances = instances.map(|names| names.iter().map(|name| id(name)).collect());
        let filter = InstanceFilter { instances, limit: 100, ..InstanceFilter::default() };
        self.flow.prune(filter, options).await.expect("executions are pruned")
    }

    async fn numbers(&self, instance: &str) -> Vec<u64> {
        let executions = self.flow.executions(&id(instance)).await.expect("executions are read");
        executions.iter().map(|execution| execution.execution).collect()
    }
}

fn keep(keep_last: u32) -> PruneOptions {
    PruneOptions { keep_last: Some(keep_last), ..PruneOptions::default() }
}

/// Rule 6: the given number of newest executions stays.
pub async fn the_newest_executions_stay(bench: &FlowBench) {
    with_executions(bench, "a").await;
    let report = bench.prune(Some(&["a"]), keep(3)).await;
    assert_eq!(report, PruneReport { instances: 1, executions: 1, events: 2 });
    assert_eq!(bench.numbers("a").await, [2, 3, 4]);
    assert_eq!(bench.prune(Some(&["a"]), keep(3)).await.executions, 0);
    let report = bench.prune(Some(&["a"]), keep(1)).await;
    assert_eq!((report.executions, report.events), (2, 4));
    assert_eq!(bench.numbers("a").await, [4]);
    let page = bench.flow.history(&id("a"), Some(2), 1, 1_000).await.expect("answered");
    assert_eq!((page.execution, page.batches.len()), (0, 0), "its history is gone");
}

/// Rule 6: the current execution always stays.
pub async fn the_current_execution_always_stays(bench: &FlowBench) {
    with_executions(bench, "a").await;
    bench.turned("a", finish).await;
    let before = bench.detail("a").await;
    assert_eq!(bench.prune(Some(&["a"]), keep(0)).await.executions, 3);
    assert_eq!(bench.numbers("a").await, [4]);
    assert_eq!(bench.detail("a").await, before);
    let page = bench.flow.history(&id("a"), None, 1, 1_000).await.expect("a history");
    assert_eq!((page.execution, page.batches.len()), (4, 2));
}

/// Rule 6: without options, all executions but the current one are removed.
pub async fn without_options_all_but_the_current_go(bench: &FlowBench) {
    with_executions(bench, "a").await;
    assert_eq!(bench.prune(None, PruneOptions::default()).await.executions, 3);
    assert_eq!(bench.numbers("a").await, [4]);
}

/// Rule 6: only executions that ended before the given time are removed; both conditions must hold.
pub async fn only_executions_that_ended_before_go(bench: &FlowBench) {
    with_executions(bench, "a").await;
    let executions = bench.flow.executions(&id("a")).await.expect("executions are read");
    let ended_before = executions[1].ended_at;
    let before = PruneOptions { keep_last: None, ended_before };
    let both = PruneOptions { keep_last: Some(4), ended_before };
    assert_eq!(bench.prune(Some(&["a"]), both).await.executions, 0);
    assert_eq!(bench.prune(Some(&["a"]), before).await.executions, 1);
    assert_eq!(bench.numbers("a").await, [2, 3, 4], "at that moment is not before");
}

/// Rule 6: values stay.
pub async fn pruning_keeps_the_values(bench: &FlowBench) {
    with_executions(bench, "a").await;
    let before = bench.kv("a").await;
    assert_eq!(before.len(), 3);
    bench.prune(None, keep(1)).await;
    assert_eq!(bench.kv("a").await, before);
    bench.send(vec![event("a", "look")]).await;
    assert_eq!(bench.turn().await.kv.len(), 3);
}

/// A bulk call prunes matching instances, also running ones, up to a limit.
pub async fn many_instances_are_pruned_at_once(bench: &FlowBench) {
    with_executions(bench, "a").await;
    with_executions(bench, "b").await;
    bench.turned("b", finish).await;
    bench.running("c").await;
    bench.start("pending").await;
    let filter = InstanceFilter { limit: 1, ..InstanceFilter::default() };
    let report = bench.flow.prune(filter, keep(3)).await.expect("executions are pruned");
    assert_eq!(report.instances, 1, "at most so many");
    let report = bench.prune(Some(&["b", "none"]), keep(1)).await;
    assert_eq!(report.instances, 1);
    assert_eq!(bench.numbers("b").await, [4]);
    let report = bench.prune(None, keep(1)).await;
    assert_eq!(report.instances, 1, "nothing is left to go of the others");
    assert_eq!(bench.numbers("a").await, [4]);
    assert_eq!(bench.numbers("c").await, [1]);
}

/// Stores examine some hundred instances at a time, most of which may have nothing to remove; and a
/// repeated call gets past those that have nothing left.
pub async fn pruning_reaches_more_instances_than_one_page_holds(bench: &FlowBench) {
    for n in 0..220 {
        let instance = format!("i{n}");
        bench.running(&instance).await;
        let rounds = if n % 2 == 0 { 1 } else { 2 };
        for _ in 0..rounds {
            bench.turned(&instance, |turn| continues(turn, MAIN)).await;
            let turn = bench.turn().await;
            bench.committed(step(&turn)).await;
        }
    }
    let prune = async |limit| {
        let filter = InstanceFilter { limit, ..InstanceFilter::default() };
        let report = bench.flow.prune(filter, keep(2)).await.expect("executions are pruned");
        (report.instances, report.executions)
    };
    assert_eq!(prune(60).await, (60, 60), "at most so many, from more than one page");
    assert_eq!(prune(1_000).await, (50, 50), "all others");
    assert_eq!(prune(1_000).await, (0, 0), "nothing is left to go");
    for n in 0..220 {
        let current = if n % 2 == 0 { 2 } else { 3 };
        assert_eq!(bench.numbers(&format!("i{n}")).await, [current - 1, current]);
    }
}
