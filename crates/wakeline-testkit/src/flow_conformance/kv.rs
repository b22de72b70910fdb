//! Rules of the key-value state.

use bytes::Bytes;
use wakeline_store::flow::{ExecutionEnd, InstanceState, KvChange, TurnCommit, TurnItem};

use super::{FlowBench, MAIN, continues, ends, event, finish, id, kv_key, secs, step};

fn set(key: &str, value: &str) -> KvChange {
    KvChange::Set(kv_key(key), Bytes::copy_from_slice(value.as_bytes()))
}

fn clear(key: &str) -> KvChange {
    KvChange::Clear(kv_key(key))
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn changing(turn: &TurnItem, kv: &[KvChange]) -> TurnCommit {
    TurnCommit { kv: kv.to_vec(), ..step(turn) }
}

/// Claims a turn and returns the state that it sees.
async fn seen_by_turn(bench: &FlowBench, instance: &str) -> Vec<(String, String)> {
    bench.send(vec![event(instance, "look")]).await;
    let turn = bench.turn().await;
    bench.abandon(turn.token, 0, true).await;
    let turn = bench.turn().await;
    bench.committed(super::nothing(&turn)).await;
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    turn.kv.iter().map(|entry| (entry.key.to_string(), text(&entry.value))).collect()
}

/// Readers see values that were set, overwritten or cleared, ordered by key.
pub async fn readers_see_values_as_they_stand(bench: &FlowBench) {
    bench.running("a").await;
    assert!(bench.kv("a").await.is_empty());
    bench.turned("a", |turn| changing(turn, &[set("b", "1"), set("a", "2"), set("c", "")])).await;
    assert_eq!(bench.kv("a").await, pairs(&[("a", "2"), ("b", "1"), ("c", "")]));
    bench.turned("a", |turn| changing(turn, &[set("b", "3"), clear("a"), clear("none")])).await;
    assert_eq!(bench.kv("a").await, pairs(&[("b", "3"), ("c", "")]));
    let one = bench.flow.kv(&id("a"), Some(&kv_key("b"))).await.expect("a value is read");
    assert_eq!((one.len(), one[0].value.as_ref()), (1, &b"3"[..]));
    let none = bench.flow.kv(&id("a"), Some(&kv_key("a"))).await.expect("no value is read");
    assert!(none.is_empty());
    assert!(bench.kv("unknown").await.is_empty());
}

/// Changes of one turn are applied in order.
pub async fn changes_of_one_turn_are_applied_in_order(bench: &FlowBench) {
    bench.running("a").await;
    let kv = [set("a", "1"), set("a", "2"), clear("a"), set("b", "1"), clear("b"), set("b", "2")];
    bench.turned("a", |turn| changing(turn, &kv)).await;
    assert_eq!(bench.kv("a").await, pairs(&[("b", "2")]));
    let kv = [set("c", "1"), KvChange::ClearAll, set("d", "1")];
    bench.turned("a", |turn| changing(turn, &kv)).await;
    assert_eq!(bench.kv("a").await, pairs(&[("d", "1")]));
}

/// Rule 5: a replay sees the state at the beginning of the execution.
pub async fn a_turn_sees_the_state_as_of_the_start_of_its_execution(bench: &FlowBench) {
    bench.running("a").await;
    bench.turned("a", |turn| changing(turn, &[set("k", "1")])).await;
    assert!(seen_by_turn(bench, "a").await.is_empty());
    assert_eq!(bench.kv("a").await, pairs(&[("k", "1")]), "readers see it");
}

/// Rule 5: continuing as new merges the changes.
pub async fn continuing_merges_what_changed(bench: &FlowBench) {
    bench.running("a").await;
    bench.turned("a", |turn| changing(turn, &[set("kept", "1"), set("gone", "1")])).await;
    bench
        .turned("a", |turn| TurnCommit {
            kv: vec![set("last", "1"), clear("gone")],
            ..continues(turn, MAIN)
        })
        .await;
    let turn = bench.turn().await;
    let keys: Vec<_> = turn.kv.iter().map(|entry| entry.key.to_string()).collect();
    assert_eq!(keys, ["kept", "last"]);
    bench.committed(changing(&turn, &[set("kept", "2"), clear("last"), set("new", "2")])).await;
    assert_eq!(bench.kv("a").await, pairs(&[("kept", "2"), ("new", "2")]));
    assert_eq!(seen_by_turn(bench, "a").await, pairs(&[("kept", "1"), ("last", "1")]));
}

/// Rule 5: ending merges the changes.
pub async fn ending_merges_what_changed(bench: &FlowBench) {
    for (name, state) in [("a", InstanceState::Completed), ("b", InstanceState::Failed)] {
        bench.running(name).await;
        bench.turned(name, |turn| changing(turn, &[set("k", "1"), set("l", "1")])).await;
        bench
            .turned(name, |turn| TurnCommit {
                kv: vec![clear("l"), set("m", "1")],
                clear: false,
                ..ends(turn, state)
            })
            .await;
        assert_eq!(bench.kv(name).await, pairs(&[("k", "1"), ("m", "1")]));
        let kept = wakeline_store::flow::Envelope { even_if_ended: true, ..event(name, "look") };
        bench.send(vec![kept]).await;
        let turn = bench.turn().await;
        let keys: Vec<_> = turn.kv.iter().map(|entry| entry.key.to_string()).collect();
        assert_eq!(keys, ["k", "m"]);
        bench.committed(super::nothing(&turn)).await;
    }
}

/// A cleared key hides the value of an earlier execution from readers only, until the changes are
/// merged.
pub async fn a_cleared_key_hides_the_value_of_an_earlier_execution(bench: &FlowBench) {
    bench.running("a").await;
    let kv = vec![set("k", "1"), set("l", "1")];
    bench.turned("a", |turn| TurnCommit { kv: kv.clone(), ..continues(turn, MAIN) }).await;
    let turn = bench.turn().await;
    bench.committed(changing(&turn, &[clear("k")])).await;
    assert_eq!(bench.kv("a").await, pairs(&[("l", "1")]));
    assert_eq!(seen_by_turn(bench, "a").await, pairs(&[("k", "1"), ("l", "1")]));
    bench.turned("a", |turn| changing(turn, &[set("k", "3")])).await;
    assert_eq!(bench.kv("a").await, pairs(&[("k", "3"), ("l", "1")]), "it may be set again");
    bench.turned("a", |turn| changing(turn, &[KvChange::ClearAll])).await;
    assert!(bench.kv("a").await.is_empty());
    bench.turned("a", |turn| changing(turn, &[set("new", "4")])).await;
    assert_eq!(bench.kv("a").await, pairs(&[("new", "4")]));
    assert_eq!(seen_by_turn(bench, "a").await, pairs(&[("k", "1"), ("l", "1")]));
    bench.turned("a", finish).await;
    assert_eq!(bench.kv("a").await, pairs(&[("new", "4")]));
}

/// A value has the execution that set it, and the time.
pub async fn a_value_shows_which_execution_set_it_and_when(bench: &FlowBench) {
    bench.running("a").await;
    let kv = vec![set("old", "1"), set("both", "1")];
    bench.turned("a", |turn| TurnCommit { kv: kv.clone(), ..continues(turn, MAIN) }).await;
    let began = bench.detail("a").await.created_at;
    bench.advance(5).await;
    let turn = bench.turn().await;
    bench.committed(changing(&turn, &[set("both", "2")])).await;
    let entries = bench.flow.kv(&id("a"), None).await.expect("values are read");
    let values: Vec<_> = (entries.iter())
        .map(|entry| (entry.key.as_str(), entry.execution, entry.updated_at))
        .collect();
    assert_eq!(values, [("both", 2, began.plus(secs(5))), ("old", 1, began)]);
    bench.turned("a", finish).await;
    let merged = bench.flow.kv(&id("a"), None).await.expect("values are read");
    assert_eq!(merged, entries, "merging changes neither");
}

/// The version goes up with every turn that changed a value.
pub async fn the_kv_version_goes_up_with_every_turn_that_changed_it(bench: &FlowBench) {
    bench.running("a").await;
    assert_eq!(bench.detail("a").await.kv_version, 0);
    bench.turned("a", |turn| changing(turn, &[set("k", "1"), set("l", "1")])).await;
    assert_eq!(bench.detail("a").await.kv_version, 1);
    bench.turned("a", step).await;
    assert_eq!(bench.detail("a").await.kv_version, 1);
    let kv = vec![clear("k")];
    bench.turned("a", |turn| TurnCommit { kv: kv.clone(), ..continues(turn, MAIN) }).await;
    assert_eq!(bench.detail("a").await.kv_version, 2);
}

/// Instances do not see the values of others.
pub async fn instances_have_values_of_their_own(bench: &FlowBench) {
    bench.running("a").await;
    bench.running("b").await;
    bench.turned("a", |turn| changing(turn, &[set("k", "of a"), set("l", "of a")])).await;
    bench.turned("b", |turn| changing(turn, &[set("k", "of b")])).await;
    bench.turned("a", |turn| changing(turn, &[KvChange::ClearAll])).await;
    assert!(bench.kv("a").await.is_empty());
    assert_eq!(bench.kv("b").await, pairs(&[("k", "of b")]));
}

/// Keys with unusual characters and large values are returned unchanged.
pub async fn odd_keys_and_large_values_are_kept(bench: &FlowBench) {
    bench.running("a").await;
    let large = "x".repeat(1 << 20);
    let kv = [
        set("k", "1"),
        set("K", "2"),
        set("k ", "3"),
        set("k'; --", "4"),
        set("%", "5"),
        set("ü", "6"),
        set("large", &large),
        KvChange::Set(kv_key("bytes"), Bytes::from_static(b"\0\xff")),
    ];
    bench.turned("a", |turn| changing(turn, &kv)).await;
    for change in &kv {
        let KvChange::Set(key, value) = change else { continue };
        let got = bench.flow.kv(&id("a"), Some(key)).await.expect("a value is read");
        assert_eq!((got.len(), &got[0].key, &got[0].value), (1, key, value));
    }
    assert_eq!(bench.kv("a").await.len(), kv.len());
}

/// A first turn may set values and end the instance.
pub async fn a_first_turn_may_set_values_and_end(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let end = ExecutionEnd::Ended { state: InstanceState::Completed, output: None };
    bench.committed(TurnCommit { end, ..changing(&turn, &[set("k", "1")]) }).await;
    assert_eq!(bench.kv("a").await, pairs(&[("k", "1")]));
}
