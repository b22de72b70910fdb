//! Removes ended orchestration instances and old webhook messages after their retention, and
//! resumes deletions that were interrupted.
//!
//! # Where it sits
//! A background task of each server. The stores do the work in short transactions; several nodes
//! may run it at the same time.
//!
//! # Invariants
//! * It looks for interrupted deletions when it starts, and once an hour for these and for data
//!   past its retention by the store's clock. An idle server sends no further statements.
//! * A shutdown waits only for the transaction in progress.

use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wakeline_core::{Timestamp, error_chain};
use wakeline_store::flow::InstanceFilter;
use wakeline_store::hook::ExpireMessages;
use wakeline_store::{Backend, StatsQuery, StoreError};

/// The time between two passes.
const EVERY: Duration = Duration::from_secs(3600);
/// The time until the first pass, and the minimum time between two.
const SOON: Duration = Duration::from_secs(1);
/// The time until a failed pass is tried again.
const AGAIN: Duration = Duration::from_secs(60);
/// Instances without a parent that one transaction deletes, with their children.
const ROOTS: u32 = 100;
/// Rows of webhooks that one transaction removes.
const ROWS: u32 = 500;

/// How long data is kept; `None` means indefinitely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retention {
    /// Ended orchestration instances, with their children.
    pub(crate) instances: Option<Duration>,
    /// Webhook messages with their deliveries and attempts.
    pub(crate) webhooks: Option<Duration>,
}

impl Retention {
    /// Runs passes until `shutdown`.
    pub(crate) async fn run(self, store: Arc<dyn Backend>, shutdown: CancellationToken) {
        let (mut pause, mut expire_at) = (SOON, Instant::now() + AGAIN);
        while shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            let expires = expire_at <= Instant::now();
            let cleared = clear_deleted(store.as_ref(), &shutdown).await;
            let passed = match (cleared, expires) {
                (Ok(due), true) => self.expire(store.as_ref(), &shutdown).await.map(|()| due),
                (cleared, _) => cleared,
            };
            if expires {
                let outcome = if passed.is_ok() { "ok" } else { "error" };
                counter!("wakeline_retention_runs_total", "outcome" => outcome).increment(1);
                expire_at = Instant::now() + if passed.is_ok() { EVERY } else { AGAIN };
            }
            pause = match passed {
                Ok(due) => due.unwrap_or(EVERY).clamp(SOON, EVERY),
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::warn!(
                        error,
                        "old data could not be removed (retention): trying again later"
                    );
                    AGAIN
                }
            };
            pause = pause.min(expire_at.saturating_duration_since(Instant::now())).max(SOON);
        }
    }

    /// Removes all data past its retention.
    async fn expire(
        self,
        store: &dyn Backend,
        shutdown: &CancellationToken,
    ) -> Result<(), StoreError> {
        if let Some(keep) = self.instances {
            expire_instances(store, keep, shutdown).await?;
        }
        if let Some(keep) = self.webhooks {
            expire_messages(store, keep, shutdown).await?;
        }
        Ok(())
    }
}

/// Resumes interrupted deletions. Returns the time until the next one can be resumed.
async fn clear_deleted(
    store: &dyn Backend,
    shutdown: &CancellationToken,
) -> Result<Option<Duration>, StoreError> {
    let mut due = store.clear_deleted().await?;
    while due == Some(Duration::ZERO) && !shutdown.is_cancelled() {
        due = store.clear_deleted().await?;
    }
    Ok(due)
}

async fn expire_instances(
    store: &dyn Backend,
    keep: Duration,
    shutdown: &CancellationToken,
) -> Result<(), StoreError> {
    let ended_before = Some(ago(store, keep).await?);
    while !shutdown.is_cancelled() {
        let filter = InstanceFilter { instances: None, ended_before, limit: ROOTS };
        let removed = store.delete_matching(filter).await?.instances;
        count("instances", removed);
        if removed == 0 {
            break;
        }
    }
    Ok(())
}

async fn expire_messages(
    store: &dyn Backend,
    keep: Duration,
    shutdown: &CancellationToken,
) -> Result<(), StoreError> {
    let mut after = None;
    while !shutdown.is_cancelled() {
        let command = ExpireMessages { older_than: keep, after, rows: ROWS };
        let removed = store.expire_messages(command).await?;
        count("webhook_messages", removed.messages);
        count("webhook_deliveries", removed.deliveries);
        count("webhook_attempts", removed.attempts);
        after = removed.next;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

fn count(what: &'static str, removed: u64) {
    counter!("wakeline_retention_removed_total", "what" => what).increment(removed);
}

/// The time `span` ago by the store's clock, which also records the end of instances. The clock of
/// this machine may be wrong.
async fn ago(store: &dyn Backend, span: Duration) -> Result<Timestamp, StoreError> {
    // Without a span, the range of statistics ends at the store's present.
    let (range, _) = store.node_stats(StatsQuery::default()).await?;
    let span = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    Ok(Timestamp(range.to.0.saturating_sub(span).max(0)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wakeline_core::{InstanceId, OrchestrationName};
    use wakeline_flow::{Client, Json};
    use wakeline_sqlite::{SqliteOptions, SqliteStore, TestClock};
    use wakeline_store::StoreAdmin as _;
    use wakeline_store::flow::{
        DeleteInstances, FlowAdmin as _, FlowReader as _, FlowStore as _, InstanceState,
        NewInstance, TerminateInstance, Watched,
    };

    use super::*;

    async fn started(store: &SqliteStore, instance: &str) -> InstanceId {
        let start = Client::start_envelope(instance, "main", None, Json::null()).expect("valid");
        store.enqueue(vec![start], Vec::new()).await.expect("started");
        InstanceId::new(instance).expect("an id")
    }

    async fn ended(store: &SqliteStore, instance: &str) -> InstanceId {
        let id = started(store, instance).await;
        let name = OrchestrationName::new("main").expect("a name");
        let new_instance = NewInstance { name, parent: None };
        let command = TerminateInstance {
            instance: id.clone(),
            state: InstanceState::Terminated,
            output: Bytes::from_static(b"{}"),
            messages: Vec::new(),
            new_instance: Some(new_instance),
        };
        assert!(store.terminate(command).await.expect("terminated").0);
        id
    }

    #[tokio::test]
    async fn a_pass_removes_only_ended_instances_past_their_retention() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = SqliteOptions::new(folder.path().join("w.db"));
        let store = SqliteStore::open(options).await.expect("a store");
        let (over, runs) = (ended(&store, "over").await, started(&store, "runs").await);
        let shutdown = CancellationToken::new();
        let days = Duration::from_secs(24 * 3600);
        for (keep, there) in [(None, true), (Some(days), true), (Some(Duration::ZERO), false)] {
            let retention = Retention { instances: keep, webhooks: Some(days) };
            retention.expire(&store, &shutdown).await.expect("a pass");
            let found = store.instance(&over).await.expect("read") != Watched::Missing;
            assert_eq!(found, there, "{keep:?}");
        }
        assert_ne!(store.instance(&runs).await.expect("read"), Watched::Missing);
        store.close().await;
    }

    #[tokio::test]
    async fn an_interrupted_deletion_is_finished_soon_after_the_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = TestClock::new(Timestamp(1_767_225_600_000_000));
        let options = SqliteOptions {
            clock: Some(clock.clone()),
            ..SqliteOptions::new(folder.path().join("w.db"))
        };
        let store = SqliteStore::open(options).await.expect("a store");
        let event = || Client::event_envelope("large", "go", Json::null()).expect("valid");
        let events = (0..5_000).map(|_| event()).collect();
        store.enqueue(events, Vec::new()).await.expect("stored");
        let instances = vec![InstanceId::new("large").expect("an id")];
        let deletion = store.delete_instances(DeleteInstances { instances, force: true });
        // The caller is cancelled while the first command is in flight.
        assert!(tokio::time::timeout(Duration::ZERO, deletion).await.is_err());
        let left = async || store.depths().await.expect("counted").messages;
        while left().await == 5_000 {
            tokio::task::yield_now().await;
        }
        assert!(left().await > 0, "one command removes only a part");
        clock.advance(Duration::from_secs(61));
        let (shutdown, began) = (CancellationToken::new(), Instant::now());
        let retention = Retention { instances: None, webhooks: None };
        let running = tokio::spawn(retention.run(Arc::new(store.clone()), shutdown.clone()));
        while left().await > 0 {
            assert!(began.elapsed() < Duration::from_secs(40), "the deletion is not resumed");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        shutdown.cancel();
        running.await.expect("no panic");
        store.close().await;
    }
}
