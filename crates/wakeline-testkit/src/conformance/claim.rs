//! Several requests and several lines in one claim.

use std::collections::BTreeSet;
use std::time::Duration;

use wakeline_core::LeaseToken;

use super::{Bench, ClaimSpec};

/// A claim with several requests gives each of them a lease on a different partition.
pub async fn requests_of_one_claim_get_different_partitions(bench: &Bench) {
    let queue = bench.queue("q");
    for n in 0..5 {
        bench.push(&queue, &format!("p{n}"), &["a", "b"]).await;
    }
    let outcome =
        bench.claim(vec![ClaimSpec::queue(&queue).batch(5).line_claim(5)]).await.remove(0);
    let mut partitions = BTreeSet::new();
    let mut tokens = BTreeSet::new();
    for result in outcome.results {
        let result = result.expect("there is a partition for each request");
        assert_eq!(result.partitions.len(), 1);
        assert_eq!(result.partitions[0].messages.len(), 2);
        partitions.insert(result.partitions[0].partition_id);
        tokens.insert(result.lease.expect("a lease was requested").token.0);
    }
    assert_eq!((partitions.len(), tokens.len()), (5, 5));
}

/// Requests are served in order of arrival; those that get nothing receive an empty result.
pub async fn requests_are_served_in_order_of_arrival(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "x", &["a"]).await;
    bench.push(&queue, "y", &["b"]).await;
    let outcome = bench.claim(vec![ClaimSpec::queue(&queue).line_claim(4)]).await.remove(0);
    let served: Vec<_> = outcome.results.iter().map(Option::is_some).collect();
    assert_eq!(served, [true, true, false, false]);
    assert_eq!(outcome.next_due, Some(Duration::from_secs(300)));
}

/// Covers one queue, one partition, several queues, and autoAck, because the PostgreSQL store takes
/// a different path for each.
pub async fn a_claim_that_looks_further_says_what_is_next_though_all_were_served(bench: &Bench) {
    let (queue, single, auto) = (bench.queue("q"), bench.queue("single"), bench.queue("auto"));
    for queue in [&queue, &single, &auto] {
        bench.push(queue, "x", &["a"]).await;
        bench.push(queue, "y", &["b"]).await;
    }
    let (now, lease_end) = (Some(Duration::ZERO), Some(Duration::from_secs(300)));
    let each = async |spec: ClaimSpec, expected: [Option<Duration>; 3]| {
        let mut next = Vec::new();
        for left in [2, 1, 0] {
            let outcome = bench.claim(vec![spec.line_claim(1)]).await.remove(0);
            assert_eq!(outcome.results[0].is_some(), left > 0);
            next.push(outcome.next_due);
        }
        assert_eq!(next, expected);
    };
    each(ClaimSpec::queue(&queue).further(), [now, lease_end, lease_end]).await;
    each(ClaimSpec::queue(&auto).auto_ack().further(), [now, None, None]).await;
    let outcome =
        bench.claim(vec![ClaimSpec::partition(&single, "x").further().line_claim(1)]).await;
    assert!(outcome[0].results[0].is_some());
    assert_eq!(outcome[0].next_due, lease_end, "the other partition is not of this line");
    let outcome = bench.claim(vec![ClaimSpec::queue(&single).line_claim(1)]).await.remove(0);
    assert!(outcome.results[0].is_some());
    assert_eq!(outcome.next_due, None, "it was not requested");
}

/// A partition goes to one request, however many messages it has.
pub async fn a_partition_is_never_split_over_two_requests(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b", "c", "d"]).await;
    let outcome =
        bench.claim(vec![ClaimSpec::queue(&queue).batch(2).line_claim(2)]).await.remove(0);
    assert_eq!(outcome.results[0].as_ref().expect("the first").partitions[0].messages.len(), 2);
    assert_eq!(outcome.results[1], None);
}

/// A partition is not split with autoAck either. Its remaining messages are free and due at once.
pub async fn auto_ack_does_not_split_a_partition_either(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b", "c", "d"]).await;
    let claim = ClaimSpec::queue(&queue).batch(2).auto_ack().line_claim(2);
    let outcome = bench.claim(vec![claim]).await.remove(0);
    assert!(outcome.results[0].is_some());
    assert_eq!(outcome.results[1], None);
    assert_eq!(outcome.next_due, Some(Duration::ZERO));
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(2)).await.ids(), ["c", "d"]);
}

/// Each line of a claim has its own outcome.
pub async fn several_lines_are_served_by_one_claim(bench: &Bench) {
    let (one, two, empty) = (bench.queue("one"), bench.queue("two"), bench.queue("empty"));
    bench.push(&one, "p", &["a"]).await;
    bench.push(&two, "p", &["b"]).await;
    let group = bench.group("g");
    let outcomes = bench
        .claim(vec![
            ClaimSpec::queue(&one).line_claim(1),
            ClaimSpec::queue(&empty).line_claim(1),
            ClaimSpec::queue(&two).line_claim(2),
            ClaimSpec::queue(&one).group(&group).line_claim(1),
        ])
        .await;
    let ids: Vec<Vec<_>> = outcomes
        .iter()
        .map(|outcome| {
            let results = outcome.results.iter().flatten();
            let messages = results.flat_map(|result| &result.partitions[0].messages);
            messages.map(|message| message.transaction_id.to_string()).collect()
        })
        .collect();
    assert_eq!(ids, [vec!["a"], vec![], vec!["b"], vec!["a"]]);
    assert_eq!(outcomes[1].next_due, None);
}

/// When two lines cover the same partition, one of them gets it.
pub async fn overlapping_lines_share_without_doubling(bench: &Bench) {
    let queue = bench.queue("n.t");
    bench.push(&queue, "x", &["a"]).await;
    bench.push(&queue, "y", &["b"]).await;
    let outcomes = bench
        .claim(vec![
            ClaimSpec::partition(&queue, "x").line_claim(1),
            ClaimSpec::queue(&queue).line_claim(2),
            ClaimSpec::filter(Some(bench.namespace("n")), None).line_claim(1),
        ])
        .await;
    let claimed: Vec<usize> =
        outcomes.iter().map(|outcome| outcome.results.iter().flatten().count()).collect();
    assert_eq!(claimed, [1, 1, 0]);
}

/// A leased partition gives nothing to others, however many messages follow the leased ones.
pub async fn a_leased_partition_gives_nothing_to_others(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "p", &["a", "b"]).await;
    let taken = bench.take(&ClaimSpec::queue(&queue)).await;
    bench.push(&queue, "p", &["c"]).await;
    bench.nothing(&ClaimSpec::queue(&queue)).await;
    bench.nothing(&ClaimSpec::partition(&queue, "p").auto_ack()).await;
    bench.complete(&taken).await;
    assert_eq!(bench.take(&ClaimSpec::queue(&queue).batch(10)).await.ids(), ["b", "c"]);
}

/// A claim whose answer was lost can be repeated with its token and takes no second lease.
pub async fn a_claim_repeated_with_its_token_takes_nothing_new(bench: &Bench) {
    let queue = bench.queue("q");
    bench.push(&queue, "x", &["a"]).await;
    bench.advance(1).await;
    bench.push(&queue, "y", &["b"]).await;
    let spec = ClaimSpec::queue(&queue).token(LeaseToken::generate());
    let first = bench.take(&spec).await;
    if let Some(again) = bench.try_take(&spec).await {
        assert_eq!(again.result, first.result);
    }
    assert_eq!(bench.take(&ClaimSpec::queue(&queue)).await.ids(), ["b"]);
    bench.complete(&first).await;
}
