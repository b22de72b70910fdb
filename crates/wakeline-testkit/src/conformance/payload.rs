//! Payloads and names come back byte for byte.

use bytes::Bytes;
use wakeline_core::{GroupName, PartitionName, QueueName, Subscription, TransactionId, Verdict};
use wakeline_store::PushItem;

use super::{Bench, ClaimSpec, item};

/// JSON text is kept as it was written; no value is parsed and serialized again.
pub async fn payloads_come_back_identical(bench: &Bench) {
    let queue = bench.queue("q");
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let payloads = [
        "null".to_owned(),
        r#""""#.to_owned(),
        " {\"a\" : 1,\n\t\"a\":2 } ".to_owned(),
        "1.0e+0000000000000000000000000001".to_owned(),
        "123456789012345678901234567890.000".to_owned(),
        r#""\u0000 \ud83d\ude00 \ud800 \u00e9""#.to_owned(),
        "\"😀 e\u{301} é \u{202e} \u{7f} \u{fffd} \u{10ffff}\"".to_owned(),
        deep,
    ];
    let items = (payloads.iter().enumerate())
        .map(|(n, payload)| PushItem {
            payload: Bytes::from(payload.clone()),
            ..item(&queue, "p", &n.to_string())
        })
        .collect();
    bench.push_items(items).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(100)).await;
    let read: Vec<_> = taken.messages().iter().map(|message| message.payload.clone()).collect();
    assert!(read == payloads, "some of the payloads changed");
}

/// A payload of a megabyte is kept, between small ones and in a dead letter.
pub async fn large_payloads_come_back_identical(bench: &Bench) {
    let queue = bench.queue("q");
    let text: String = (0..1_000_000_u32).map(|n| char::from(b'a' + (n * 7 % 26) as u8)).collect();
    let large = Bytes::from(format!("\"{text}\""));
    let items = vec![
        item(&queue, "p", "before"),
        PushItem { payload: large.clone(), ..item(&queue, "p", "large") },
        item(&queue, "p", "after"),
    ];
    bench.push_items(items).await;
    let taken = bench.take(&ClaimSpec::queue(&queue).batch(3)).await;
    assert!(taken.messages()[1].payload == large, "the large payload changed");
    assert_eq!(taken.messages()[2].payload, "\"after\"");
    bench.settled(&taken, "large", Verdict::DeadLetter).await;
    assert!(bench.dead_letters(&queue).await[0].payload == large, "the dead letter changed");
}

/// Names are compared by their bytes; all valid names are distinct and come back unchanged.
pub async fn odd_names_are_kept_apart(bench: &Bench) {
    let long = "x".repeat(200);
    let odd = [
        "a",
        "A",
        "a ",
        " a",
        "a:b",
        "a/b",
        "a%",
        "a_",
        "a\\",
        "'",
        "\"",
        "'; drop table x; --",
        "{a,b}",
        "$1",
        "\u{fc}",
        "u\u{308}",
        "\u{202e}rtl",
        "😀",
        "NULL",
        "0",
        &long,
    ];
    let queue = bench.queue("n:x.t'\"\\;😀");
    for name in odd {
        bench.push(&queue, name, &[name]).await;
    }
    for name in odd {
        let group = GroupName::new(format!("{name}{}", bench.group("g"))).expect("a valid name");
        let spec = ClaimSpec::partition(&queue, name).group(&group);
        let taken = bench.take(&spec).await;
        assert_eq!((taken.ids(), taken.partitions()), (vec![name.into()], vec![name.into()]));
        bench.complete(&taken).await;
        bench.nothing(&spec.subscribe(Subscription::All)).await;
        let listed = bench.store.groups(Some(&group)).await.expect("groups are listed");
        assert_eq!(listed.len(), 1, "{name:?}");
    }
    let (namespace, task) = queue.derived_scope();
    let all = ClaimSpec::filter(namespace, task).batch(100).partitions(100);
    assert_eq!(bench.drain(&all).await.len(), odd.len());
}

/// Queues whose names differ only in unusual characters are different queues.
pub async fn odd_queue_names_are_kept_apart(bench: &Bench) {
    let names: Vec<QueueName> =
        ["q", "Q", "q ", "q:p", "q%", "\u{fc}", "u\u{308}"].map(|name| bench.queue(name)).into();
    for (n, queue) in names.iter().enumerate() {
        bench.push(queue, "p", &[&n.to_string()]).await;
    }
    for (n, queue) in names.iter().enumerate() {
        assert_eq!(bench.drain(&ClaimSpec::queue(queue)).await, [n.to_string()]);
    }
    let longest = "y".repeat(wakeline_core::NAME_BYTES_MAX);
    let push = PushItem {
        partition: PartitionName::new(&longest).expect("a valid name"),
        transaction_id: TransactionId::new(&longest).expect("a valid id"),
        ..item(&names[0], "p", "x")
    };
    bench.push_items(vec![push]).await;
    assert_eq!(bench.drain(&ClaimSpec::queue(&names[0])).await, [longest]);
}
