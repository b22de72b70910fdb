//! Claims that were carried out and whose answers were lost.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::Selector;
use wakeline_queue::{PopCommand, PopOutcome, QueueError, QueueService, QueueServiceOptions};
use wakeline_store::StoreError;
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::oracle::MemoryStore;

use crate::service::{item, pop, queue};

const WAIT: Option<Duration> = Some(Duration::from_secs(30));

fn node() -> (Arc<FaultingStore>, QueueService) {
    let store = Arc::new(FaultingStore::new(Arc::new(MemoryStore::with_tokio_clock())));
    let service = QueueService::start(store.clone(), QueueServiceOptions::default());
    (store, service)
}

fn auto_ack(wait: Option<Duration>) -> PopCommand {
    PopCommand { auto_ack: true, ..pop(Selector::Queue(queue()), wait) }
}

#[tokio::test(start_paused = true)]
async fn an_auto_ack_pop_of_unknown_outcome_is_not_answered_as_empty() {
    for wait in [None, WAIT] {
        let (store, service) = node();
        service.push(vec![item("p")]).await.expect("pushed");
        store.fail_operation("claim", 1, Fault::After);
        let outcome = service.pop(auto_ack(wait)).await;
        let Err(QueueError::Store(error)) = outcome else { panic!("{wait:?}: {outcome:?}") };
        assert!(matches!(*error, StoreError::Transient { .. }), "{wait:?}: {error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_auto_ack_pop_waits_on_if_nothing_was_done() {
    let (store, service) = node();
    service.push(vec![item("p")]).await.expect("pushed");
    store.fail_operation("claim", 1, Fault::Before);
    let outcome = service.pop(auto_ack(WAIT)).await;
    assert!(matches!(outcome, Ok(PopOutcome::Claimed(_))), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pop_with_a_lease_finds_what_the_lost_claim_took() {
    let (store, service) = node();
    service.push(vec![item("p")]).await.expect("pushed");
    store.fail_operation("claim", 1, Fault::After);
    let outcome = service.pop(pop(Selector::Queue(queue()), WAIT)).await;
    assert!(matches!(outcome, Ok(PopOutcome::Claimed(_))), "{outcome:?}");
}
