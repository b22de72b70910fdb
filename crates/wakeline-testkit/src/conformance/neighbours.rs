//! One invalid request among ten that share a call: the nine others are unaffected.

use futures_util::future::join_all;
use wakeline_core::{LeaseToken, PartitionId, Subscription, Timestamp, Verdict};
use wakeline_store::{PushItem, SettleItem};

use super::{Bench, ClaimSpec, is_settled, item};

const CALLS: usize = 10;
const WRONG: usize = 5;

/// A line whose subscription begins in the future is refused; the other lines of the claim are
/// served.
pub async fn a_wrong_line_is_refused_alone(bench: &Bench) {
    let future = Subscription::From(Timestamp(bench.now().await.0 + 60_000_000));
    let queues: Vec<_> = (0..CALLS).map(|n| bench.queue(&format!("q{n}"))).collect();
    for queue in &queues {
        bench.push(queue, "p", &["a"]).await;
    }
    let group = bench.group("g");
    let spec = |n: usize| {
        let spec = ClaimSpec::queue(&queues[n]).group(&group);
        if n == WRONG { spec.subscribe(future) } else { spec }
    };
    let outcomes = bench.claim((0..CALLS).map(|n| spec(n).line_claim(2)).collect()).await;
    for (n, outcome) in outcomes.iter().enumerate() {
        let field = outcome.refused.as_ref().map(|refused| refused.field);
        assert_eq!(field, (n == WRONG).then_some("subscriptionFrom"), "line {n}");
        assert_eq!(outcome.results[0].is_some(), n != WRONG, "line {n}");
    }
    assert_eq!(bench.drain(&ClaimSpec::queue(&queues[WRONG]).group(&group)).await, ["a"]);
}

/// An invalid claim does not affect other claims that share the same call.
pub async fn a_wrong_claim_leaves_its_neighbours_untouched(bench: &Bench) {
    let queue = bench.queue("q");
    let future = Subscription::From(Timestamp(bench.now().await.0 + 60_000_000));
    for n in 0..CALLS {
        bench.push(&queue, &format!("p{n}"), &["a"]).await;
    }
    let claims = (0..CALLS).map(|n| {
        let spec = ClaimSpec::partition(&queue, &format!("p{n}"));
        let spec = if n == WRONG { spec.subscribe(future) } else { spec };
        let store = bench.store.clone();
        tokio::spawn(async move { store.claim(vec![spec.line_claim(1)]).await })
    });
    for (n, outcomes) in join_all(claims).await.into_iter().enumerate() {
        let outcomes = outcomes.expect("no claim panics").expect("it is answered");
        let (served, refused) = (outcomes[0].results[0].is_some(), outcomes[0].refused.is_some());
        assert_eq!((served, refused), (n != WRONG, n == WRONG), "claim {n}");
    }
}

/// A push that the store cannot keep fails alone; pushes written in the same call are stored.
pub async fn a_wrong_push_leaves_its_neighbours_untouched(bench: &Bench) {
    let queue = bench.queue("q");
    let pushes = (0..CALLS).map(|n| {
        // PostgreSQL cannot store this character, SQLite can.
        let producer = (n == WRONG).then(|| "a\0b".to_owned());
        let item = PushItem { producer, ..item(&queue, "p", &n.to_string()) };
        let store = bench.store.clone();
        tokio::spawn(async move { store.push(vec![item]).await })
    });
    let mut stored = Vec::new();
    for (n, reply) in join_all(pushes).await.into_iter().enumerate() {
        match reply.expect("no push panics") {
            Ok(_) => stored.push(n.to_string()),
            Err(error) => assert_eq!((n, error.is_transient()), (WRONG, false), "{error}"),
        }
    }
    let mut found = bench.drain(&ClaimSpec::queue(&queue).batch(100)).await;
    found.sort();
    assert_eq!(found, stored, "each is stored once");
}

/// A settlement of what does not exist changes nothing for the others.
pub async fn a_wrong_settlement_leaves_its_neighbours_untouched(bench: &Bench) {
    let queue = bench.queue("q");
    let mut items = Vec::new();
    for n in 0..CALLS {
        let partition = format!("p{n}");
        bench.push(&queue, &partition, &["a"]).await;
        let taken = bench.take(&ClaimSpec::partition(&queue, &partition)).await;
        items.push(taken.item("a", Verdict::Failed));
    }
    items[WRONG] = SettleItem {
        partition: PartitionId(i64::MIN),
        token: Some(LeaseToken::generate()),
        error: Some("\0".to_owned()),
        ..items[WRONG].clone()
    };
    let settles = items.into_iter().map(|item| {
        let store = bench.store.clone();
        tokio::spawn(async move { store.settle(vec![item]).await })
    });
    for (n, reply) in join_all(settles).await.into_iter().enumerate() {
        match reply.expect("no settlement panics") {
            Ok(reply) => assert_eq!(is_settled(&reply.outcomes[0]), n != WRONG, "settlement {n}"),
            Err(error) => assert_eq!((n, error.is_transient()), (WRONG, false), "{error}"),
        }
    }
}
