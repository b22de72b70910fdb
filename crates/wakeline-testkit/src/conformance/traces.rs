//! Traces, which consumers note on messages.

use std::slice::from_ref;

use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    GroupName, PartitionId, PartitionName, QueueName, QueueOptions, TraceName, TransactionId,
};
use wakeline_store::{
    AddTraceOutcome, MessageKey, NamedTraces, NewTrace, Page, TRACES_PER_MESSAGE_MAX, Trace,
    TraceNameDetail,
};

use super::{Bench, ClaimSpec};

/// A page that is large enough for these rules.
const ALL: Page = Page { limit: 1000, offset: 0 };

fn key(partition: PartitionId, id: &str) -> MessageKey {
    MessageKey { partition, transaction_id: TransactionId::new(id).expect("a short id") }
}

fn name(bench: &Bench, text: &str) -> TraceName {
    // Names of traces belong to no queue, so those of a test are made unique like its groups.
    TraceName::new(bench.group(text).as_str()).expect("a short name")
}

fn note(message: MessageKey, names: &[TraceName], data: &str) -> NewTrace {
    NewTrace {
        id: Uuid::new_v4(),
        message,
        event_type: "info".to_owned(),
        group: GroupName::queue_mode(),
        worker: None,
        names: names.to_vec(),
        data: Bytes::from(data.to_owned()),
    }
}

async fn noted(bench: &Bench, trace: NewTrace) {
    let added = bench.store.add_trace(trace).await.expect("it is answered");
    assert_eq!(added, AddTraceOutcome::Done);
}

async fn pushed(bench: &Bench, queue: &QueueName, ids: &[&str]) -> PartitionId {
    bench.push(queue, "p", ids).await.outcomes[0].partition()
}

async fn traces(bench: &Bench, partition: PartitionId, id: &str) -> Vec<Trace> {
    bench.store.traces(key(partition, id)).await.expect("traces are listed")
}

async fn named(bench: &Bench, name: &TraceName, page: Page) -> NamedTraces {
    bench.store.traces_named(name, page).await.expect("traces are found")
}

fn data(traces: &[Trace]) -> Vec<&[u8]> {
    traces.iter().map(|trace| trace.data.as_ref()).collect()
}

/// Traces come back as they were noted, the oldest first; the message does not change.
pub async fn a_trace_returns_what_was_recorded(bench: &Bench) {
    let (queue, group) = (bench.queue("q"), bench.group("g"));
    let partition = pushed(bench, &queue, &["a", "b"]).await;
    let now = bench.now().await;
    let (one, two) = (name(bench, "one"), name(bench, "two"));
    let id = Uuid::new_v4();
    let full = NewTrace {
        id,
        event_type: "step".to_owned(),
        group: group.clone(),
        worker: Some("w".to_owned()),
        ..note(key(partition, "a"), &[two.clone(), one.clone(), two.clone()], "{\"n\": 1}")
    };
    noted(bench, full).await;
    bench.advance(1).await;
    noted(bench, note(key(partition, "a"), &[], "null")).await;
    let found = traces(bench, partition, "a").await;
    let expected = Trace {
        id,
        event_type: "step".to_owned(),
        group,
        worker: Some("w".to_owned()),
        names: vec![one, two],
        data: Bytes::from_static(b"{\"n\": 1}"),
        created_at: now,
    };
    assert_eq!(found[0], expected);
    assert_eq!(data(&found), [b"{\"n\": 1}".as_slice(), b"null"]);
    assert!(traces(bench, partition, "b").await.is_empty());
    assert_eq!(bench.drain(&ClaimSpec::queue(&queue)).await, ["a", "b"]);
    assert_eq!(
        traces(bench, partition, "a").await.len(),
        2,
        "traces stay when the message is settled"
    );
}

/// A message that is not stored has no traces and gets none. If an id recurs, the trace goes to the
/// newest message.
pub async fn a_trace_needs_its_message(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions { dedup_window_secs: 10, ..QueueOptions::default() };
    bench.configure(&queue, options).await;
    let partition = pushed(bench, &queue, &["a"]).await;
    for missing in [key(partition, "x"), key(PartitionId(i64::MAX), "a")] {
        let added = bench.store.add_trace(note(missing.clone(), &[], "1")).await;
        assert_eq!(added.expect("it is answered"), AddTraceOutcome::Missing);
        assert!(bench.store.traces(missing).await.expect("it is answered").is_empty());
    }
    noted(bench, note(key(partition, "a"), &[], "1")).await;
    bench.advance(11).await;
    pushed(bench, &queue, &["a"]).await;
    assert!(traces(bench, partition, "a").await.is_empty(), "the trace is of the earlier message");
    noted(bench, note(key(partition, "a"), &[], "2")).await;
    assert_eq!(data(&traces(bench, partition, "a").await), [b"2"]);
}

/// Traces of a name are listed newest first, in pages, with their messages.
pub async fn traces_are_found_by_name(bench: &Bench) {
    let (queue, other) = (bench.queue("q"), bench.queue("r"));
    let here = pushed(bench, &queue, &["a", "b", "c"]).await;
    let there = pushed(bench, &other, &["a"]).await;
    let (one, two) = (name(bench, "one"), name(bench, "two"));
    noted(bench, note(key(here, "b"), from_ref(&one), "1")).await;
    noted(bench, note(key(there, "a"), &[two.clone(), one.clone()], "2")).await;
    noted(bench, note(key(here, "c"), from_ref(&two), "3")).await;
    noted(bench, note(key(here, "b"), from_ref(&one), "4")).await;
    let found = named(bench, &one, ALL).await;
    assert_eq!(found.total, 3);
    let listed: Vec<_> = (found.traces.iter())
        .map(|t| (t.trace.data.as_ref(), t.queue.clone(), t.transaction_id.as_str()))
        .collect();
    assert_eq!(
        listed,
        [
            (b"4".as_slice(), queue.clone(), "b"),
            (b"2".as_slice(), other, "a"),
            (b"1".as_slice(), queue, "b")
        ]
    );
    let first = &found.traces[0];
    assert_eq!((first.payload.as_ref(), first.partition_id), (b"\"b\"".as_slice(), here));
    assert_eq!(first.partition, PartitionName::new("p").expect("valid"));
    assert_eq!(found.traces[1].trace.names, [one.clone(), two]);
    let page = named(bench, &one, Page { limit: 1, offset: 1 }).await;
    assert_eq!((page.traces, page.total), (found.traces[1..2].to_vec(), 3));
    let past = named(bench, &one, Page { limit: 10, offset: 3 }).await;
    assert_eq!((past.traces.len(), past.total), (0, 3));
    assert_eq!(named(bench, &name(bench, "none"), ALL).await, NamedTraces::default());
}

/// A name is listed with its number of traces and messages and the time of its last trace, the most
/// recently used name first.
pub async fn names_are_listed_with_their_traces(bench: &Bench) {
    let queue = bench.queue("q");
    let partition = pushed(bench, &queue, &["a", "b"]).await;
    let (one, two) = (name(bench, "one"), name(bench, "two"));
    noted(bench, note(key(partition, "a"), &[one.clone(), two.clone()], "1")).await;
    noted(bench, note(key(partition, "a"), from_ref(&one), "2")).await;
    noted(bench, note(key(partition, "b"), from_ref(&one), "3")).await;
    let early = bench.now().await;
    bench.advance(5).await;
    noted(bench, note(key(partition, "b"), from_ref(&two), "4")).await;
    let late = bench.now().await;
    let all = bench.store.trace_names(ALL).await.expect("names are listed");
    assert!(all.total >= 2 && all.names.len() as u64 == all.total, "{all:?}");
    let own: Vec<_> =
        all.names.into_iter().filter(|detail| [&one, &two].contains(&&detail.name)).collect();
    let expected = [
        TraceNameDetail { name: two, traces: 2, messages: 2, last_seen: late },
        TraceNameDetail { name: one, traces: 3, messages: 2, last_seen: early },
    ];
    assert_eq!(own, expected);
    let page = bench.store.trace_names(Page { limit: 1, offset: 0 }).await.expect("listed");
    assert_eq!((page.names.len(), page.total), (1, all.total));
}

/// A trace beyond the limit is refused; other messages are not affected.
pub async fn a_message_has_so_many_traces_and_no_more(bench: &Bench) {
    let queue = bench.queue("q");
    let partition = pushed(bench, &queue, &["a", "b"]).await;
    for n in 0..TRACES_PER_MESSAGE_MAX {
        noted(bench, note(key(partition, "a"), &[], &n.to_string())).await;
    }
    let added = bench.store.add_trace(note(key(partition, "a"), &[], "1")).await;
    assert_eq!(added.expect("it is answered"), AddTraceOutcome::TooMany);
    assert_eq!(traces(bench, partition, "a").await.len(), TRACES_PER_MESSAGE_MAX as usize);
    noted(bench, note(key(partition, "b"), &[], "1")).await;
}

/// Retention removes the traces of the messages that it removes, and no others.
pub async fn traces_go_with_their_message(bench: &Bench) {
    let queue = bench.queue("q");
    let options = QueueOptions {
        dedup_window_secs: 10,
        retention: true,
        retention_secs: 10,
        ..QueueOptions::default()
    };
    bench.configure(&queue, options).await;
    let partition = pushed(bench, &queue, &["a", "b"]).await;
    let one = name(bench, "one");
    noted(bench, note(key(partition, "a"), from_ref(&one), "1")).await;
    noted(bench, note(key(partition, "b"), from_ref(&one), "2")).await;
    bench.advance(8).await;
    pushed(bench, &queue, &["c"]).await;
    noted(bench, note(key(partition, "c"), from_ref(&one), "3")).await;
    bench.advance(8).await;
    assert_eq!(bench.housekeep().await.removed, 2);
    let left = named(bench, &one, ALL).await;
    assert_eq!((left.total, left.traces.len()), (1, 1));
    assert_eq!(left.traces[0].trace.data.as_ref(), b"3");
    bench.store.clear_queue(&queue, false).await.expect("a queue is cleared");
    assert_eq!(named(bench, &one, ALL).await.total, 0);
}

/// Traces are removed with their partition or queue, and so is a name without traces.
pub async fn traces_go_with_their_partition_and_queue(bench: &Bench) {
    let (queue, other) = (bench.queue("q"), bench.queue("r"));
    let (one, two) = (name(bench, "one"), name(bench, "two"));
    let here = pushed(bench, &queue, &["a"]).await;
    noted(bench, note(key(here, "a"), from_ref(&one), "1")).await;
    let there = pushed(bench, &other, &["a"]).await;
    noted(bench, note(key(there, "a"), from_ref(&two), "2")).await;
    let partition = PartitionName::new("p").expect("valid");
    bench.store.delete_partition(&queue, &partition).await.expect("a partition is deleted");
    assert_eq!(named(bench, &one, ALL).await.total, 0);
    assert_eq!(named(bench, &two, ALL).await.total, 1);
    bench.store.delete_queue(&other).await.expect("a queue is deleted");
    assert_eq!(named(bench, &two, ALL).await.total, 0);
    let names = bench.store.trace_names(ALL).await.expect("names are listed").names;
    assert!(names.iter().all(|detail| ![&one, &two].contains(&&detail.name)), "{names:?}");
}
