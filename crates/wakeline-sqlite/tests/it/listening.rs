//! Helpers for tests of several stores on one file: receiving hints, and sharing work.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wakeline_core::{Change, FlowChange, HookChange};
use wakeline_sqlite::SqliteStore;
use wakeline_store::{HintFeed as _, HintOrigin, HintSink, LinkState, QueueStore as _};
use wakeline_testkit::conformance::item;

use crate::fixture::queue;

/// The partition of the messages that [`mark`] pushes.
const MARK: &str = "mark";

/// A call that a sink received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Changed(Vec<Change>, HintOrigin),
    Flow(FlowChange),
    Hook(HookChange),
    Everything,
    Link(LinkState),
}

struct ChannelSink(mpsc::UnboundedSender<Received>);

impl HintSink for ChannelSink {
    fn changed(&self, changes: &[Change], origin: HintOrigin) {
        assert!(!changes.is_empty());
        let _ = self.0.send(Received::Changed(changes.to_vec(), origin));
    }
    fn flow_changed(&self, changes: &[FlowChange], origin: HintOrigin) {
        assert_eq!(origin, HintOrigin::Notify);
        for change in changes {
            let _ = self.0.send(Received::Flow(change.clone()));
        }
    }
    fn hook_changed(&self, changes: &[HookChange], origin: HintOrigin) {
        assert_eq!(origin, HintOrigin::Notify);
        for change in changes {
            let _ = self.0.send(Received::Hook(change.clone()));
        }
    }
    fn everything(&self) {
        let _ = self.0.send(Received::Everything);
    }
    fn link(&self, state: LinkState) {
        let _ = self.0.send(Received::Link(state));
    }
}

/// A running feed of a store, and the calls that its sink received.
pub(crate) struct Listening {
    pub(crate) received: mpsc::UnboundedReceiver<Received>,
    pub(crate) shutdown: CancellationToken,
}

impl Listening {
    pub(crate) fn begin(store: &SqliteStore) -> Self {
        let (sender, received) = mpsc::unbounded_channel();
        let (store, shutdown) = (store.clone(), CancellationToken::new());
        let end = shutdown.clone();
        tokio::spawn(async move { store.feed(Arc::new(ChannelSink(sender)), end).await });
        Self { received, shutdown }
    }

    /// Starts a feed, and waits until the link is up. Changes that another store made just before
    /// may be received first.
    pub(crate) async fn to(store: &SqliteStore) -> Self {
        let mut listening = Self::begin(store);
        for expected in [Received::Link(LinkState::Up), Received::Everything] {
            let mut received = listening.next().await;
            while received != expected && !matches!(received, Received::Link(_)) {
                received = listening.next().await;
            }
            assert_eq!(received, expected);
        }
        listening
    }

    /// Like [`Self::to`], and also waits until another store is known. Before that, its changes are
    /// received as `Everything`.
    pub(crate) async fn between(store: &SqliteStore, other: &SqliteStore) -> Self {
        let mut listening = Self::to(store).await;
        listening.wait_until_known(other).await;
        listening
    }

    /// Waits until another store is known, so that its changes are received precisely.
    pub(crate) async fn wait_until_known(&mut self, other: &SqliteStore) {
        for n in 0.. {
            let hello = vec![item(&queue("q"), &format!("hello {n}"), "hello")];
            other.push(hello).await.expect("pushed");
            if let Received::Changed(..) = self.next().await {
                break;
            }
        }
    }

    /// The next call. Hints take about a millisecond, so the timeout is reached only on failure.
    pub(crate) async fn next(&mut self) -> Received {
        tokio::time::timeout(Duration::from_secs(30), self.received.recv())
            .await
            .expect("a call is received")
            .expect("the feed runs")
    }

    /// All calls up to the next mark.
    async fn until_mark(&mut self) -> Vec<Received> {
        let mut all = Vec::new();
        let is_mark = |change: &Change| {
            change.partition.as_ref().is_some_and(|partition| partition.as_str() == MARK)
        };
        loop {
            match self.next().await {
                Received::Changed(changes, _) if changes.iter().any(is_mark) => return all,
                received => all.push(received),
            }
        }
    }

    /// The changes of orchestrations up to the next mark.
    pub(crate) async fn flow_until_mark(&mut self) -> Vec<FlowChange> {
        let flow = |received| match received {
            Received::Flow(change) => Some(change),
            _ => None,
        };
        self.until_mark().await.into_iter().filter_map(flow).collect()
    }

    /// The changes of webhooks up to the next mark.
    pub(crate) async fn hook_until_mark(&mut self) -> Vec<HookChange> {
        let hook = |received| match received {
            Received::Hook(change) => Some(change),
            _ => None,
        };
        self.until_mark().await.into_iter().filter_map(hook).collect()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Pushes a message to the partition of marks. All earlier changes of the store are received before
/// it.
pub(crate) async fn mark(store: &SqliteStore, name: &str) {
    store.push(vec![item(&queue("q"), MARK, name)]).await.expect("pushed");
}

/// Takes everything through two stores at once, with two tasks each. Fails if anything was leased
/// twice, and returns how much there was.
pub(crate) async fn taken_once<T, Taking>(
    stores: [SqliteStore; 2],
    take: impl Fn(SqliteStore) -> Taking + Clone + Send + 'static,
) -> usize
where
    T: Debug + Eq + Hash + Send + 'static,
    Taking: Future<Output = Vec<T>> + Send,
{
    let mut tasks = Vec::new();
    for store in stores.iter().chain(&stores) {
        let (store, take) = (store.clone(), take.clone());
        tasks.push(tokio::spawn(async move {
            let mut all = Vec::new();
            loop {
                let taken = take(store.clone()).await;
                if taken.is_empty() {
                    return all;
                }
                all.extend(taken);
            }
        }));
    }
    let mut seen = HashSet::new();
    for task in tasks {
        for one in task.await.expect("no panic") {
            assert!(!seen.contains(&one), "{one:?} was leased twice");
            seen.insert(one);
        }
    }
    seen.len()
}
