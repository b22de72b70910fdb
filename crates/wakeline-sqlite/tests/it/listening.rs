//! What several stores on one file hear of each other, and that they share their work.

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

/// The partition of marks.
const MARK: &str = "mark";

/// A thing that was heard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Changed(Vec<Change>, HintOrigin),
    Flow(FlowChange),
    Hook(HookChange),
    Everything,
    Link(LinkState),
}

struct Ear(mpsc::UnboundedSender<Heard>);

impl HintSink for Ear {
    fn changed(&self, changes: &[Change], origin: HintOrigin) {
        assert!(!changes.is_empty());
        let _ = self.0.send(Heard::Changed(changes.to_vec(), origin));
    }
    fn flow_changed(&self, changes: &[FlowChange], origin: HintOrigin) {
        assert_eq!(origin, HintOrigin::Notify);
        for change in changes {
            let _ = self.0.send(Heard::Flow(change.clone()));
        }
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

/// A store's feed, listened to.
pub(crate) struct Listening {
    pub(crate) heard: mpsc::UnboundedReceiver<Heard>,
    pub(crate) shutdown: CancellationToken,
}

impl Listening {
    pub(crate) fn begin(store: &SqliteStore) -> Self {
        let (sender, heard) = mpsc::unbounded_channel();
        let (store, shutdown) = (store.clone(), CancellationToken::new());
        let end = shutdown.clone();
        tokio::spawn(async move { store.feed(Arc::new(Ear(sender)), end).await });
        Self { heard, shutdown }
    }

    /// Listens, from when the link is up. What another one did just before may be heard first.
    pub(crate) async fn to(store: &SqliteStore) -> Self {
        let mut listening = Self::begin(store);
        for expected in [Heard::Link(LinkState::Up), Heard::Everything] {
            let mut heard = listening.next().await;
            while heard != expected && !matches!(heard, Heard::Link(_)) {
                heard = listening.next().await;
            }
            assert_eq!(heard, expected);
        }
        listening
    }

    /// The same, from when another store is heard too: until it is known, all that it says is heard
    /// as everything.
    pub(crate) async fn between(store: &SqliteStore, other: &SqliteStore) -> Self {
        let mut listening = Self::to(store).await;
        listening.meet(other).await;
        listening
    }

    /// Waits until another store is known, so that what it says is heard precisely.
    pub(crate) async fn meet(&mut self, other: &SqliteStore) {
        for n in 0.. {
            let hello = vec![item(&queue("q"), &format!("hello {n}"), "hello")];
            other.push(hello).await.expect("pushed");
            if let Heard::Changed(..) = self.next().await {
                break;
            }
        }
    }

    /// What is heard next. The bound is far from both sides: hints take a millisecond.
    pub(crate) async fn next(&mut self) -> Heard {
        tokio::time::timeout(Duration::from_secs(30), self.heard.recv())
            .await
            .expect("something is heard")
            .expect("the feed runs")
    }

    /// What is heard until a mark is, which comes last.
    async fn until_mark(&mut self) -> Vec<Heard> {
        let mut all = Vec::new();
        let is_mark = |change: &Change| {
            change.partition.as_ref().is_some_and(|partition| partition.as_str() == MARK)
        };
        loop {
            match self.next().await {
                Heard::Changed(changes, _) if changes.iter().any(is_mark) => return all,
                heard => all.push(heard),
            }
        }
    }

    /// The same, of orchestrations.
    pub(crate) async fn flow_until_mark(&mut self) -> Vec<FlowChange> {
        let flow = |heard| match heard {
            Heard::Flow(change) => Some(change),
            _ => None,
        };
        self.until_mark().await.into_iter().filter_map(flow).collect()
    }

    /// The same, of webhooks.
    pub(crate) async fn hook_until_mark(&mut self) -> Vec<HookChange> {
        let hook = |heard| match heard {
            Heard::Hook(change) => Some(change),
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

/// A push, so that whoever listens knows that all before it was heard.
pub(crate) async fn mark(store: &SqliteStore, name: &str) {
    store.push(vec![item(&queue("q"), MARK, name)]).await.expect("pushed");
}

/// Takes all that there is through two stores at once, each twice. Nothing may come twice; tells
/// how much there was.
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
