//! Messages for very many endpoints: their deliveries are made in pieces.

use std::collections::HashSet;

use futures_util::future::{join, join_all};
use wakeline_core::{ApplicationId, ApplicationRef, EndpointId, HookLine, HookMessageId};
use wakeline_store::hook::{
    Created, DeliveryFilter, DeliveryState, FAN_OUT_MAX, JobKind, JobState, NewMessage, PageRequest,
};
use wakeline_store::{TransactCommand, TransactOutcome};

use super::{
    HookBench, application, ask, endpoint, fifo, first, message, messages_of, plain, pulled, secs,
    told,
};
use crate::rules::RuleFuture;

/// One more than a transaction makes for them.
const MANY: usize = FAN_OUT_MAX + 1;

/// Makes endpoints of an application whose owners fetch, so that they are in no other claim's way.
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

/// The endpoints for which a message has deliveries; each has one.
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

/// Rule 10: it reaches everybody who wanted it when it was stored, once, over a restart.
pub async fn a_message_for_very_many_endpoints_reaches_each_once(bench: &HookBench) {
    make(bench, bench.app, MANY).await;
    let (message, deliveries) = bench.stored(bench.message()).await;
    assert!(deliveries > 0, "it is for somebody");
    bench.advance(1).await;
    let late = bench.with(plain()).await;
    let reopened = bench.fixture.reopened().await;
    reopened.do_chores(300).await.expect("a piece is done");
    bench.chores(300).await;
    let reached = made(bench, bench.app, message.id).await;
    assert_eq!(reached.len(), MANY);
    assert!(!reached.contains(&late), "it is younger than the message");
    for endpoint in reached.iter().take(3) {
        assert_eq!(messages_of(&bench.fetch(*endpoint, 9).await), [message.id]);
    }
}

/// Rules 5 and 10: what is stored later does not come to an endpoint in strict order earlier.
pub async fn strict_order_holds_while_deliveries_are_still_to_be_made(bench: &HookBench) {
    make(bench, bench.app, MANY).await;
    let strict = bench.with(fifo(1)).await;
    let first = bench.emit().await;
    let only = NewMessage { only: Some(strict), ..bench.message() };
    let second = bench.stored(only).await.0.id;
    bench.chores(300).await;
    come_in_order(bench, [first, second]).await;

    // Both in one call: nothing waits yet when the second is looked at.
    let emits = vec![bench.message(), NewMessage { only: Some(strict), ..bench.message() }];
    let messages = [emits[0].id, emits[1].id];
    let command = TransactCommand { emits, ..TransactCommand::default() };
    let reply = bench.fixture.store().transact(command).await.expect("answered");
    assert!(matches!(reply.outcome, TransactOutcome::Committed(_)), "{reply:?}");
    bench.chores(300).await;
    come_in_order(bench, messages).await;
}

/// Sends and ends the deliveries of some messages; they come in this order.
async fn come_in_order(bench: &HookBench, messages: [HookMessageId; 2]) {
    for message in messages {
        let got = bench.one().await;
        assert_eq!(got.message, message);
        bench.deliver(&got).await;
    }
}

/// Rule 10: cancelling a message, or deleting its application, ends its fan-out; a job waits
/// until all deliveries are made.
pub async fn what_is_cancelled_or_deleted_is_not_fanned_out_further(bench: &HookBench) {
    make(bench, bench.app, MANY).await;
    let cancelled = bench.emit().await;
    bench.hook.do_chores(100).await.expect("a piece is done");
    bench.cancel(cancelled).await.expect("there is such a message");
    let second = bench.emit().await;
    let job = bench.start(JobKind::Cancel, DeliveryFilter::default()).await;
    bench.chores(300).await;
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
    assert_eq!(bench.chores(1_000).await, None, "nothing is left");
}

/// For stores that commit the commands of several callers together: a quiet application's message
/// is stored, and its delivery leased, while those of the messages that came with it are still to
/// be made; and these are made in turns.
pub fn nobody_waits_for_anothers_fan_out(bench: &HookBench) -> RuleFuture<'_> {
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
    let (replies, reply) = join(emits, bench.hook.emit(message(quiet), vec![ask(1)])).await;
    let reply = reply.expect("a message is stored");
    assert_eq!(reply.leased.len(), 1, "its delivery goes at once: {reply:?}");
    for reply in replies {
        let reply = reply.expect("a message is stored");
        assert_eq!(told(&reply.changes, &HookLine::Chores), Some(secs(0)), "{reply:?}");
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
            let report = bench.hook.do_chores(100).await.expect("a piece is done");
            assert_eq!((report.rows, report.next_due), (100, Some(secs(0))));
            assert!(!report.changes.is_empty(), "somebody may fetch");
        }
        assert_eq!(counts().await, [100 * pieces; 2], "they take turns");
    }
    bench.chores(1_000).await;
    assert_eq!(counts().await, [3 * MANY; 2]);
}
