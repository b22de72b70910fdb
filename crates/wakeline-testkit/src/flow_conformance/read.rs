//! Rules of reading: histories, executions, trees, statistics, depths.

use bytes::Bytes;
use wakeline_store::flow::{FlowDepths, HistoryBatch, InstanceState, KvChange, TurnCommit};

use super::{
    FlowBench, MAIN, Worker, after, batch, continues, event, finish, id, kv_key, secs, start, step,
    work,
};

fn batch_of(first: u64, last: u64, bytes: usize) -> HistoryBatch {
    HistoryBatch { first, last, events: Bytes::from(vec![b'e'; bytes]) }
}

/// Creates an instance with batches of a thousand bytes: events 1, 2 to 4, 5, 6 to 9.
async fn with_history(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.committed(TurnCommit { history: Some(batch_of(1, 1, 1_000)), ..step(&turn) }).await;
    for (first, last) in [(2, 4), (5, 5), (6, 9)] {
        let history = Some(batch_of(first, last, 1_000));
        bench.turned("a", |turn| TurnCommit { history, ..step(turn) }).await;
    }
}

/// A page has the requested size, and at least one batch.
pub async fn a_history_is_read_page_by_page(bench: &FlowBench) {
    with_history(bench).await;
    let (mut from, mut batches, mut pages) = (1, Vec::new(), 0);
    loop {
        let page = bench.flow.history(&id("a"), None, from, 1_500).await.expect("a history");
        assert_eq!(page.execution, 1);
        assert!(!page.batches.is_empty(), "at least one batch");
        batches.extend(page.batches);
        pages += 1;
        match page.next {
            Some(next) => from = next,
            None => break,
        }
    }
    let firsts: Vec<_> = batches.iter().map(|batch| (batch.first, batch.last)).collect();
    assert_eq!(firsts, [(1, 1), (2, 4), (5, 5), (6, 9)]);
    assert!(pages > 1, "a thousand bytes each do not fit into one page of 1,500");
    let page = bench.flow.history(&id("a"), None, 1, 1).await.expect("a history");
    assert_eq!((page.batches.len(), page.next), (1, Some(2)));
    let page = bench.flow.history(&id("a"), None, 1, 1_000_000).await.expect("a history");
    assert_eq!((page.batches.len(), page.next), (4, None));
}

/// A page may begin before the requested event.
pub async fn a_page_begins_with_the_batch_of_its_event(bench: &FlowBench) {
    with_history(bench).await;
    for (from, firsts) in [(3, vec![2, 5, 6]), (5, vec![5, 6]), (9, vec![6]), (10, vec![])] {
        let page = bench.flow.history(&id("a"), Some(1), from, 1_000_000).await.expect("a page");
        let got: Vec<_> = page.batches.iter().map(|batch| batch.first).collect();
        assert_eq!((got, page.next), (firsts, None), "from {from}");
    }
}

/// Reads of an unknown instance return nothing.
pub async fn an_unknown_instance_has_nothing_to_read(bench: &FlowBench) {
    bench.start("pending").await;
    for name in ["unknown", "pending"] {
        let page = bench.flow.history(&id(name), None, 1, 1_000).await.expect("answered");
        assert_eq!((page.execution, page.batches, page.next), (0, vec![], None));
        assert!(bench.flow.executions(&id(name)).await.expect("answered").is_empty());
        assert!(bench.flow.kv(&id(name), None).await.expect("answered").is_empty());
        assert!(bench.flow.tree(&id(name)).await.expect("answered").is_empty());
        assert_eq!(bench.flow.stats(&id(name)).await.expect("answered"), None);
    }
}

/// Events are returned byte for byte.
pub async fn events_come_back_identical(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let events: Bytes = (0..=255).cycle().take(100_000).collect::<Vec<u8>>().into();
    let history = Some(HistoryBatch { first: 1, last: 7, events: events.clone() });
    bench.committed(TurnCommit { history, ..step(&turn) }).await;
    let page = bench.flow.history(&id("a"), None, 1, 1_000).await.expect("a history is read");
    assert_eq!(page.batches, [HistoryBatch { first: 1, last: 7, events }]);
}

/// Executions are listed oldest first, with their states.
pub async fn executions_show_their_states(bench: &FlowBench) {
    bench.running("a").await;
    bench.advance(5).await;
    bench.turned("a", |turn| continues(turn, MAIN)).await;
    bench.advance(5).await;
    let turn = bench.turn().await;
    let history = Some(batch_of(1, 4, 500));
    bench.committed(TurnCommit { history, ..step(&turn) }).await;
    let began = bench.detail("a").await.created_at;
    let executions = bench.flow.executions(&id("a")).await.expect("executions are read");
    let [first, second] = &executions[..] else { panic!("{executions:?}") };
    assert_eq!((first.execution, first.state), (1, InstanceState::ContinuedAsNew));
    assert_eq!((first.started_at, first.ended_at), (began, Some(began.plus(secs(5)))));
    assert_eq!(first.events, 2);
    let bytes = batch(1, 1).events.len() + batch(2, 2).events.len();
    assert_eq!(first.history_bytes, bytes as u64);
    assert_eq!((second.execution, second.state), (2, InstanceState::Running));
    assert_eq!((second.started_at, second.ended_at), (began.plus(secs(10)), None));
    assert_eq!((second.events, second.history_bytes, &second.output), (4, 500, &None));
}

/// An instance has the times of its creation, its last change and its end.
pub async fn an_instance_shows_when_it_was_created_and_changed(bench: &FlowBench) {
    let now = bench.now().await;
    bench.start("a").await;
    bench.advance(5).await;
    let turn = bench.turn().await;
    bench.committed(step(&turn)).await;
    bench.advance(5).await;
    bench.turned("a", step).await;
    let detail = bench.detail("a").await;
    assert_eq!(detail.created_at, now.plus(secs(5)), "by its first commit");
    assert_eq!(detail.updated_at, now.plus(secs(10)), "by its last");
    assert_eq!((detail.ended_at, detail.suspended, detail.output), (None, None, None));
}

/// A tree lists parents before children.
pub async fn a_tree_has_parents_before_children(bench: &FlowBench) {
    bench.running("root").await;
    for (child, parent) in [("b", "root"), ("a", "b"), ("c", "b"), ("d", "a")] {
        bench.child(child, parent).await;
    }
    bench.running("other").await;
    let tree = bench.flow.tree(&id("root")).await.expect("a tree is read");
    let place = |name: &str| tree.iter().position(|one| *one == id(name)).expect("it is there");
    assert_eq!(tree.len(), 5);
    assert_eq!(place("root"), 0);
    assert!(place("b") < place("a") && place("b") < place("c") && place("a") < place("d"));
    assert_eq!(bench.flow.tree(&id("a")).await.expect("a tree is read"), [id("a"), id("d")]);
    assert_eq!(bench.flow.tree(&id("other")).await.expect("a tree is read"), [id("other")]);
}

/// Statistics count what belongs to an instance.
pub async fn stats_count_what_an_instance_holds(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let set = |key: &str, value: &'static [u8]| KvChange::Set(kv_key(key), value.into());
    bench
        .committed(TurnCommit {
            history: Some(batch_of(1, 3, 1_000)),
            kv: vec![set("k", b"four"), set("l", b"123456"), set("m", b"gone")],
            work: vec![work("a", 1), work("a", 2)],
            ..step(&turn)
        })
        .await;
    bench.work(&Worker::plain()).await;
    bench
        .turned("a", |turn| TurnCommit {
            history: Some(batch_of(4, 4, 234)),
            kv: vec![KvChange::Clear(kv_key("m"))],
            ..step(turn)
        })
        .await;
    let timer = wakeline_store::flow::Envelope { visible: after(9), ..event("a", "timer") };
    bench.send(vec![event("a", "x"), timer]).await;
    bench.turn().await;
    let stats = bench.flow.stats(&id("a")).await.expect("stats are read").expect("it is there");
    assert_eq!((stats.events, stats.history_bytes), (4, 1_234));
    assert_eq!((stats.messages, stats.work), (2, 2), "leased ones count too");
    assert_eq!((stats.kv_keys, stats.kv_bytes), (2, 10));
}

/// Only events of the current execution count.
pub async fn stats_are_of_the_current_execution(bench: &FlowBench) {
    bench.running("a").await;
    bench
        .turned("a", |turn| TurnCommit {
            kv: vec![KvChange::Set(kv_key("k"), Bytes::from_static(b"12"))],
            ..continues(turn, MAIN)
        })
        .await;
    let turn = bench.turn().await;
    bench.committed(TurnCommit { history: Some(batch_of(1, 5, 50)), ..step(&turn) }).await;
    let stats = bench.flow.stats(&id("a")).await.expect("stats are read").expect("it is there");
    assert_eq!((stats.events, stats.history_bytes), (5, 50));
    assert_eq!((stats.kv_keys, stats.kv_bytes), (1, 2), "values stay");
}

/// Depths count what waits in the whole store.
pub async fn depths_count_what_waits(bench: &FlowBench) {
    assert_eq!(bench.flow.depths().await.expect("depths"), FlowDepths::default());
    bench.completed("ended").await;
    bench.running("a").await;
    bench.turned("a", |turn| continues(turn, MAIN)).await;
    let turn = bench.turn().await;
    bench.committed(TurnCommit { work: vec![work("a", 1), work("a", 2)], ..step(&turn) }).await;
    bench.work(&Worker::plain()).await;
    let delayed = wakeline_store::flow::Envelope { visible: after(9), ..event("a", "timer") };
    bench.send(vec![start("pending"), delayed, event("early", "x")]).await;
    bench.turn().await;
    let depths = bench.flow.depths().await.expect("depths are read");
    assert_eq!((depths.messages, depths.delayed, depths.leased_turns), (3, 1, 1));
    assert_eq!((depths.work, depths.leased_work), (1, 1));
    assert_eq!(depths.instances, [1, 1, 1, 0, 0, 0, 0], "a continued one is running");
    assert_eq!((depths.executions, depths.events), (3, 4));
    bench.advance(60).await;
    let depths = bench.flow.depths().await.expect("depths are read");
    assert_eq!((depths.messages, depths.delayed, depths.leased_turns), (3, 0, 0));
    assert_eq!((depths.work, depths.leased_work), (2, 0), "an expired lease is none");
}

/// A state by which a client can recognise that an instance has failed does not change by itself.
pub async fn an_instance_reads_the_same_until_something_happens(bench: &FlowBench) {
    bench.running("a").await;
    let before = bench.detail("a").await;
    bench.advance(100).await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    assert_eq!(bench.detail("a").await, before, "a message and a lease are not seen");
    bench.committed(finish(&turn)).await;
    assert_ne!(bench.detail("a").await, before);
}
