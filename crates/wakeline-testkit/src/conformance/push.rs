//! Pushes: ids, offsets and order.

use bytes::Bytes;
use uuid::Uuid;
use wakeline_store::{PushItem, PushOutcome};

use super::{Bench, ClaimSpec, item};

/// The answer has the ids that were sent; consumers get the same ids in the same order.
pub async fn messages_keep_their_ids_and_their_order(bench: &Bench) {
    let queue = bench.queue("q");
    let items: Vec<_> = ["c", "a", "b"].iter().map(|id| item(&queue, "p", id)).collect();
    let sent: Vec<_> = items.iter().map(|item| item.id).collect();
    let reply = bench.push_items(items).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    let seen: Vec<_> = taken.messages().iter().map(|message| message.id).collect();
    assert_eq!(seen, sent);
    assert_eq!(taken.ids(), ["c", "a", "b"]);
    for (outcome, id) in reply.outcomes.iter().zip(sent) {
        assert_eq!(*outcome, PushOutcome::Queued { id, partition: taken.partition_id() });
    }
}

/// Each partition counts its own messages from 0, for pushes of any size.
pub async fn offsets_have_no_gaps_and_begin_at_zero(bench: &Bench) {
    let queue = bench.queue("q");
    let mut pushed = 0_i64;
    for size in [1, 2, 99, 100, 101, 1, 250] {
        let ids: Vec<_> = (pushed..pushed + size).map(|n| n.to_string()).collect();
        let ids: Vec<_> = ids.iter().map(String::as_str).collect();
        bench.push(&queue, "p", &ids).await;
        bench.push(&queue, "other", &[&size.to_string(), "x"]).await;
        pushed += size;
    }
    let mut seen = 0;
    while let Some(taken) =
        bench.try_take(&ClaimSpec::partition(&queue, "p").batch(70).auto_ack()).await
    {
        for message in taken.messages() {
            assert_eq!(message.offset, seen);
            assert_eq!(message.transaction_id.as_str(), seen.to_string());
            seen += 1;
        }
    }
    assert_eq!(seen, pushed);
    // "x" was a duplicate from the second time on, and so was the second "1".
    let other = bench.take(&ClaimSpec::partition(&queue, "other").batch(100)).await;
    assert_eq!(other.ids(), ["1", "x", "2", "99", "100", "101", "250"]);
    assert_eq!(other.offsets(), [0, 1, 2, 3, 4, 5, 6]);
}

/// Items of one call and partition keep their order, however the items are mixed.
pub async fn one_call_may_push_to_many_queues_and_partitions(bench: &Bench) {
    let (one, two) = (bench.queue("one"), bench.queue("two"));
    let items = (0..40)
        .map(|n| {
            let queue = if n % 2 == 0 { &one } else { &two };
            item(queue, &format!("p{}", n % 5), &n.to_string())
        })
        .collect();
    let reply = bench.push_items(items).await;
    for (queue, first) in [(&one, 0), (&two, 1)] {
        for n in 0..5 {
            let spec = ClaimSpec::partition(queue, &format!("p{n}")).batch(100);
            let taken = bench.take(&spec).await;
            let expected: Vec<_> = (0..40).filter(|i| i % 2 == first && i % 5 == n).collect();
            let texts: Vec<_> = expected.iter().map(ToString::to_string).collect();
            assert_eq!(taken.ids(), texts);
            for i in expected {
                let PushOutcome::Queued { partition, .. } = &reply.outcomes[i] else {
                    panic!("{i} is not queued: {:?}", reply.outcomes[i]);
                };
                assert_eq!(*partition, taken.partition_id());
            }
        }
    }
}

/// An empty push gets an empty answer.
pub async fn an_empty_push_is_answered_with_nothing(bench: &Bench) {
    let reply = bench.push_items(Vec::new()).await;
    assert!(reply.changes.is_empty());
}

/// Within a partition later offsets are never older, and timestamps follow the clock.
pub async fn created_at_never_runs_backwards_within_a_partition(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    bench.advance_ms(1_500).await;
    bench.push(&queue, "p", &["c"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(10)).await;
    let stamps: Vec<_> = taken.messages().iter().map(|message| message.created_at.0).collect();
    assert_eq!(stamps[0], stamps[1]);
    assert_eq!(stamps[2] - stamps[1], 1_500_000);
}

/// A message is delivered with the trace id, producer and payload of its push.
pub async fn a_message_keeps_trace_producer_and_payload(bench: &Bench) {
    let queue = bench.queue("q");
    let trace_id = Some(Uuid::new_v4());
    let full = PushItem {
        trace_id,
        producer: Some("ünïque 'producer'".to_owned()),
        payload: Bytes::from_static(b"{\"k\": [1, null, 2.50]}"),
        ..item(&queue, "p", "full")
    };
    bench.push_items(vec![full, item(&queue, "p", "bare")]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(2)).await;
    let messages = taken.messages();
    assert_eq!(messages[0].trace_id, trace_id);
    assert_eq!(messages[0].producer.as_deref(), Some("ünïque 'producer'"));
    assert_eq!(messages[0].payload, "{\"k\": [1, null, 2.50]}");
    assert_eq!((messages[1].trace_id, messages[1].producer.as_deref()), (None, None));
}
