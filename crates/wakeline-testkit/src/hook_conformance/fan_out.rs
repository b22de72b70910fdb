//! Rules of messages for very many endpoints, whose deliveries are created in pieces.

use std::collections::HashSet;

use futures_util::future::{join, join_all};
use wakeline_core::{ApplicationId, ApplicationRef, EndpointId, HookLine, HookMessageId};
use wakeline_store::hook::{
    Created, DeliveryFilter, DeliveryState, FAN_OUT_MAX, JobKind, JobState, NewMessage, PageRequest,
};
use wakeline_store::{TransactCommand, TransactOutcome};

use super::{
    HookBench, application, earliest_due, endpoint, fifo, first, message, messages_of, plain,
    pulled, request, secs,
};
use crate::rules::RuleFuture;

/// One endpoint more than one transaction creates deliveries for.
const MANY: usize = FAN_OUT_MAX + 1;

/// Creates endpoints of an application whose deliveries are pulled, so that they do not disturb
/// other claims.
async fn make(bench: &HookBench, application: ApplicationId, count: usize) {
    let of = ApplicationRef::Id(application);
    let mut left = count;
    while left > 0 {
        let now = left.min(50);
        let creations = (0..now).map(|_| bench.hook.create_endpoint(&of, endpoint(pulled()), None));
        for made in join_all(creations).await {
            assert!(matches!(made, Ok(Created::New(_))), "{made:?}");
        }
        left -= now;
    }
}

/// Lists the endpoints for which a message has deliveries; each has one.
async fn made(
    bench: &HookBench,
    application: ApplicationId,
    message: HookMessageId,
) -> HashSet<EndpointId> {
    let mut endpoints = HashSet::new();
    let mut after = None;
    loop {
        let page = PageRequest { after, ..first(200) };
        let page = bench.hook.deliveries(application, message, page).await.expect("a page is read");
        let Some(last) = page.items.last() else { return endpoints };
        after = Some(last.endpoint);
        for delivery in &page.items {
            assert!(endpoints.insert(delivery.endpoint), "there is one for each endpoint");
        }
    }
}

/// Rule 10: the message reaches every endpoint that matched when it was stored, once, also across a
/// restart.
pub async fn a_message_for_very_many_endpoints_reaches_each_once(bench: &HookBench) {
    make(bench, bench.app, MANY).await;
    let (message, deliveries) = bench.stored(bench.message()).await;
    assert!(deliveries > 0, "it has deliveries");
    bench.advance(1).await;
    let late = bench.with(plain()).await;
    let reopened = bench.fixture.reopened().await;
    reopened.run_background(300).await.expect("a piece is done");
    bench.background(300).await;
    let reached = made(bench, bench.app, message.id).await;
    assert_eq!(reached.len(), MANY);
    assert!(!reached.contains(&late), "it is younger than the message");
    for endpoint in reached.iter().take(3) {
        assert_eq!(messages_of(&bench.fetch(*endpoint, 9).await), [message.id]);
    }
}

/// Rules 5 and 10: an endpoint in strict order never gets a later message before an earlier one.
pub async fn strict_order_holds_while_deliveries_are_still_to_be_made(bench: &HookBench) {
    make(bench, bench.app, MANY).await;
    let strict = bench.with(fifo(1)).await;
    let first = bench.emit().await;
    let only = NewMessage { only: Some(strict), ..bench.message() };
    let second = bench.stored(only).await.0.id;
    bench.background(300).await;
    come_in_order(bench, [first, second]).await;

    // Both are in one call: nothing waits yet when the second one is examined.
    let emits = vec![bench.message(), NewMessage { only: Some(strict), ..bench.message() }];
    let messages = [emits[0].id, emits[1].id];
    let command = TransactCommand { emits, ..TransactCommand::default() };
    let reply = bench.fixture.store().transact(command).await.expect("answered");
    assert!(matches!(reply.outcome, TransactOutcome::Committed(_)), "{reply:?}");
    bench.background(300).await;
    come_in_order(bench, messages).await;
}

/// Delivers some messages and checks that they come in this order.
async fn come_in_order(bench: &HookBench, messages: [HookMessageId; 2]) {
    for message in messages {
        let got = bench.one().await;
        assert_eq!(got.message, message);
        bench.deliver(&got).await;
    }
}

/// Rule 10: cancelling a message, or deleting its application, ends its fan-out; a job waits until
/// all deliveries are created.
pub async fn what_is_cancelled_or_deleted_is_not_fanned_out_further(bench: &HookBench) {
    make(bench, bench.app, MANY).await;
    let cancelled = bench.emit().await;
    bench.hook.run_background(100).await.expect("a piece is done");
    bench.cancel(cancelled).await.expect("there is such a message");
    let second = bench.emit().await;
    let job = bench.start(JobKind::Cancel, DeliveryFilter::default()).await;
    bench.background(300).await;
    assert_eq!(bench.job(job).await.state, JobState::Finished);
    assert_eq!(made(bench, bench.app, second).await.len(), MANY);
    for message in [cancelled, second] {
        for endpoint in made(bench, bench.app, message).await {
            assert_eq!(bench.state(message, endpoint).await, DeliveryState::Cancelled);
        }
    }
    bench.emit().await;
    let deleted = bench.hook.delete_application(&bench.of_app()).await.expect("answered");
    assert!(deleted.0, "it was there");
    assert_eq!(bench.background(1_000).await, None, "nothing is left");
}

/// For stores that commit the commands of several callers together: the message of a quiet
/// application is stored and its delivery leased, while the deliveries of the messages that came
/// with it are still to be created; and these are created in turns.
pub fn a_message_does_not_wait_for_the_fan_out_of_another(bench: &HookBench) -> RuleFuture<'_> {
    Box::pin(flood_beside_a_quiet_application(bench))
}

async fn flood_beside_a_quiet_application(bench: &HookBench) {
    let apps = [bench.app, bench.application(application(None)).await];
    for app in apps {
        make(bench, app, MANY).await;
    }
    let quiet = bench.application(application(None)).await;
    let created =
        bench.hook.create_endpoint(&ApplicationRef::Id(quiet), endpoint(plain()), None).await;
    assert!(matches!(created, Ok(Created::New(_))), "{created:?}");
    let flood: Vec<NewMessage> =
        apps.iter().flat_map(|app| [(); 3].map(|()| message(*app))).collect();
    let emits = join_all(flood.iter().map(|new| bench.hook.emit(new.clone(), Vec::new())));
    let (replies, reply) = join(emits, bench.hook.emit(message(quiet), vec![request(1)])).await;
    let reply = reply.expect("a message is stored");
    assert_eq!(reply.leased.len(), 1, "its delivery goes at once: {reply:?}");
    for reply in replies {
        let reply = reply.expect("a message is stored");
        assert_eq!(earliest_due(&reply.changes, &HookLine::Background), Some(secs(0)), "{reply:?}");
    }
    let counts = async || {
        let mut counts = [0; 2];
        for (n, app) in apps.into_iter().enumerate() {
            for new in &flood[3 * n..3 * n + 3] {
                counts[n] += made(bench, app, new.id).await.len();
            }
        }
        counts
    };
    assert_eq!(counts().await, [0, 0], "all of it is still to be made");
    for pieces in 1..=2 {
        for _ in apps {
            let report = bench.hook.run_background(100).await.expect("a piece is done");
            assert_eq!((report.rows, report.next_due), (100, Some(secs(0))));
            assert!(!report.changes.is_empty(), "pulled deliveries are reported");
        }
        assert_eq!(counts().await, [100 * pieces; 2], "they take turns");
    }
    bench.background(1_000).await;
    assert_eq!(counts().await, [3 * MANY; 2]);
}
