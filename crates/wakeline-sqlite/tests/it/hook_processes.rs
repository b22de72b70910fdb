//! Webhooks of several stores on one file, as several processes have them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wakeline_core::{Change, EndpointOptions, EventTypeName, HookChange, HookWhat};
use wakeline_sqlite::SqliteStore;
use wakeline_store::hook::{
    DeliveryVerdict, HookEndpoints as _, HookEventTypes as _, HookStore as _,
};
use wakeline_store::{HintFeed as _, HintOrigin, HintSink, LinkState, QueueStore as _};
use wakeline_testkit::conformance::item;

use crate::fixture::{Fixture, queue};
use crate::hook::{application, ask, claim, emit, end, endpoint, items, message};

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Queue,
    Hook(HookChange),
    Everything,
    Link(LinkState),
}

struct Ear(mpsc::UnboundedSender<Heard>);

impl HintSink for Ear {
    fn changed(&self, _: &[Change], _: HintOrigin) {
        let _ = self.0.send(Heard::Queue);
    }
    fn hook_changed(&self, changes: &[HookChange], origin: HintOrigin) {
        assert_eq!(origin, HintOrigin::Notify);
        for change in changes {
            let _ = self.0.send(Heard::Hook(change.clone()));
        }
    }
    fn everything(&self) {
        let _ = self.0.send(Heard::Everything);
    }
    fn link(&self, state: LinkState) {
        let _ = self.0.send(Heard::Link(state));
    }
}

struct Listening {
    heard: mpsc::UnboundedReceiver<Heard>,
    shutdown: CancellationToken,
}

impl Listening {
    async fn to(store: &SqliteStore) -> Self {
        let (sender, heard) = mpsc::unbounded_channel();
        let (store, shutdown) = (store.clone(), CancellationToken::new());
        let end = shutdown.clone();
        tokio::spawn(async move { store.feed(Arc::new(Ear(sender)), end).await });
        let mut listening = Self { heard, shutdown };
        assert_eq!(listening.next().await, Heard::Link(LinkState::Up));
        assert_eq!(listening.next().await, Heard::Everything);
        listening
    }

    /// What is heard next. The bound is far from both sides: hints take a millisecond.
    async fn next(&mut self) -> Heard {
        tokio::time::timeout(Duration::from_secs(30), self.heard.recv())
            .await
            .expect("something is heard")
            .expect("the feed runs")
    }

    /// What is heard of webhooks until a queue is heard of, which comes last.
    async fn hook_until_queue(&mut self) -> Vec<HookChange> {
        let mut changes = Vec::new();
        loop {
            match self.next().await {
                Heard::Queue => return changes,
                Heard::Hook(change) => changes.push(change),
                Heard::Everything | Heard::Link(_) => {}
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// A push, so that whoever listens knows that all before it was heard.
async fn mark(store: &SqliteStore, name: &str) {
    store.push(vec![item(&queue("q"), "p", name)]).await.expect("pushed");
}

fn push_in(due_in: Duration) -> HookChange {
    HookChange { what: HookWhat::Push, due_in }
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_lease_ends_and_retries_of_one_process_are_heard_in_the_other() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let shop = application(&here.store).await;
    endpoint(&here.store, &shop, EndpointOptions::default()).await;
    emit(&here.store, &shop).await;
    claim(&here.store, 1).await;
    let mut ears = Listening::to(&here.store).await;
    emit(&there, &shop).await;
    mark(&there, "emitted").await;
    assert_eq!(ears.hook_until_queue().await, [HookChange::now(HookWhat::Push)]);
    let taken = items(claim(&there, 1).await);
    mark(&there, "claimed").await;
    assert_eq!(ears.hook_until_queue().await, [push_in(taken[0].lease_for)]);
    let again = DeliveryVerdict::Retry(Duration::from_secs(5));
    there.settle_deliveries(vec![end(&taken[0], again)]).await.expect("answered");
    mark(&there, "settled").await;
    assert_eq!(ears.hook_until_queue().await, [push_in(Duration::from_secs(5))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_born_leased_is_no_news_until_its_lease_ends() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let shop = application(&here.store).await;
    endpoint(&here.store, &shop, EndpointOptions::default()).await;
    emit(&here.store, &shop).await;
    let mut ears = Listening::to(&here.store).await;
    claim(&there, 1).await;
    mark(&there, "claimed").await;
    ears.hook_until_queue().await;
    let reply = there.emit(message(&shop), vec![ask(1)]).await.expect("answered");
    assert_eq!((reply.leased.len(), reply.changes.len()), (1, 0));
    mark(&there, "emitted").await;
    assert_eq!(ears.hook_until_queue().await, [], "the lease before it ends no later");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_types_and_what_is_pulled_are_heard_in_the_other_process() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let shop = application(&here.store).await;
    let options = EndpointOptions { pull: true, ..Default::default() };
    let id = endpoint(&here.store, &shop, options).await;
    emit(&here.store, &shop).await;
    let mut ears = Listening::to(&here.store).await;
    let name = EventTypeName::new("a").expect("valid");
    assert!(!there.delete_event_type(&name).await.expect("answered").0);
    there.delete_endpoint(&shop, &wakeline_core::EndpointRef::Id(id)).await.expect("answered");
    let options = EndpointOptions { pull: true, ..Default::default() };
    let other = endpoint(&there, &shop, options).await;
    emit(&there, &shop).await;
    mark(&there, "emitted").await;
    assert_eq!(ears.hook_until_queue().await, [HookChange::now(HookWhat::Pull(other))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_never_hold_the_same_delivery() {
    let here = Fixture::open().await;
    let there = here.second().await;
    let shop = application(&here.store).await;
    let options = EndpointOptions { in_flight_max: 1_000, ..Default::default() };
    endpoint(&here.store, &shop, options).await;
    for _ in 0..200 {
        emit(&here.store, &shop).await;
    }
    let mut tasks = Vec::new();
    for store in [here.store.clone(), there.clone(), here.store.clone(), there] {
        tasks.push(tokio::spawn(async move {
            let mut held = Vec::new();
            loop {
                let taken = items(claim(&store, 3).await);
                if taken.is_empty() {
                    return held;
                }
                held.extend(taken.into_iter().map(|item| item.token.delivery));
            }
        }));
    }
    let mut seen = HashSet::new();
    for task in tasks {
        for delivery in task.await.expect("no panic") {
            assert!(seen.insert(delivery), "{delivery} was leased twice");
        }
    }
    assert_eq!(seen.len(), 200);
}
