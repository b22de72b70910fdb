//! No message and no attempt is lost if a store call fails or a node crashes during it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    ApplicationId, EndpointId, EndpointOptions, FifoOptions, HookMessageId, IdempotencyKey,
};
use wakeline_hook::{Emit, HookError};
use wakeline_store::hook::{
    AttemptFilter, AttemptOutcome, DeliveryState, EmitOutcome, HookMessageFilter, HookReader,
    PageOrder, PageRequest,
};
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::oracle::MemoryStore;

use crate::support::{Answer, Bench, Receiver, event_type, options, schedule};

const MESSAGES: usize = 3;
/// Longer than all leases and all waits between attempts.
const SOON: Duration = Duration::from_secs(120);
/// Longer than a store call may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads the store without injected faults.
struct Truth {
    store: Arc<MemoryStore>,
    application: ApplicationId,
    endpoints: Vec<EndpointId>,
    messages: Vec<HookMessageId>,
}

fn all<K>() -> PageRequest<K> {
    PageRequest { limit: 1_000, after: None, order: PageOrder::Ascending, backwards: false }
}

impl Truth {
    async fn is_delivered(&self) -> bool {
        for endpoint in &self.endpoints {
            let found = self.store.deliveries_to(*endpoint, self.messages.clone()).await;
            let is_there = |one: &wakeline_store::hook::Delivery| {
                assert_ne!(one.state, DeliveryState::Failed, "{one:?}");
                one.state == DeliveryState::Delivered
            };
            if !found.expect("read").iter().all(|one| one.as_ref().is_some_and(is_there)) {
                return false;
            }
        }
        true
    }

    /// Whether everything is delivered within a limited time.
    async fn delivers(&self) -> bool {
        let delivered = async {
            while !self.is_delivered().await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(SOON, delivered).await.is_ok()
    }

    /// How many attempts of each message to an endpoint are in the log, and how many succeeded.
    async fn logged(&self, endpoint: EndpointId) -> BTreeMap<HookMessageId, (usize, usize)> {
        let filter = AttemptFilter { endpoint: Some(endpoint), ..AttemptFilter::default() };
        let log = self.store.attempts(self.application, filter, all()).await.expect("read").items;
        let mut counts: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for attempt in log {
            let count = counts.entry(attempt.message).or_default();
            count.0 += 1;
            count.1 += usize::from(attempt.outcome == AttemptOutcome::Succeeded);
        }
        counts
    }

    /// Checks that all requests to an endpoint are in its log; returns the order of first arrivals.
    async fn check(&self, endpoint: EndpointId, receiver: &mut Receiver) -> Vec<HookMessageId> {
        let mut order = Vec::new();
        let mut arrived: BTreeMap<HookMessageId, usize> = BTreeMap::new();
        while let Some(request) = receiver.came() {
            let id = request.header("webhook-id").parse().expect("an id");
            *arrived.entry(id).or_default() += 1;
            if !order.contains(&id) {
                order.push(id);
            }
        }
        let logged = self.logged(endpoint).await;
        for message in &self.messages {
            let (attempts, succeeded) = logged.get(message).copied().unwrap_or_default();
            let requests = arrived.get(message).copied().unwrap_or_default();
            assert!(requests >= 1, "{message} never came");
            assert!(requests <= attempts, "{requests} came, {attempts} are in the log");
            assert_eq!(succeeded, 1, "it is delivered once");
        }
        assert_eq!(arrived.len(), MESSAGES, "nothing else came");
        order
    }
}

/// Stores a message, and repeats the call until it succeeds.
async fn emit(bench: &Bench, n: usize) -> HookMessageId {
    let mut emit = Emit::new(bench.app(), event_type("invoice.paid"), Bytes::from_static(b"{}"));
    emit.idempotency_key = Some(IdempotencyKey::new(format!("emit-{n}")).expect("valid"));
    loop {
        let answer = tokio::time::timeout(PATIENCE, bench.service.emit(emit.clone())).await;
        match answer {
            Ok(Ok(EmitOutcome::Stored(message, _) | EmitOutcome::Repeated(message))) => {
                return message.id;
            }
            Ok(Err(HookError::Store(error))) => assert!(error.is_transient(), "{error}"),
            Ok(other) => panic!("{other:?}"),
            Err(_) => {}
        }
    }
}

/// Creates three endpoints: one that works, one that fails at first, and an ordered one.
async fn endpoints(bench: &Bench) -> (Vec<EndpointId>, Vec<Receiver>) {
    let retries = || schedule(&[1_000; 6]);
    let in_order = EndpointOptions { fifo: Some(FifoOptions::default()), ..retries() };
    let fails_first = Receiver::start(|request| match request {
        0 => Answer::Status(500),
        _ => Answer::Status(200),
    });
    let works = || Receiver::always(Answer::Status(200));
    let receivers = vec![works().await, fails_first.await, works().await];
    let mut ids = Vec::new();
    for (receiver, options) in receivers.iter().zip([retries(), retries(), in_order]) {
        ids.push(bench.endpoint(&receiver.url(), options).await);
    }
    (ids, receivers)
}

/// Sends messages to several endpoints while the n-th call fails. True if there was such a call.
async fn scenario(nth: u64, fault: Fault) -> bool {
    let memory = Arc::new(MemoryStore::with_tokio_clock());
    let store = Arc::new(FaultingStore::new(memory.clone()));
    let bench = Bench::over(store.clone(), options()).await;
    let (endpoints, mut receivers) = endpoints(&bench).await;
    let application = bench.application;
    store.fail(nth, fault);
    let mut messages = Vec::new();
    for n in 0..MESSAGES {
        messages.push(emit(&bench, n).await);
    }
    let truth = Truth { store: memory, application, endpoints, messages };
    let done = truth.delivers().await;
    let hangs = matches!(fault, Fault::HangBefore | Fault::HangAfter);
    assert!(done || hangs, "call {nth}, {fault:?}: {:?}", store.calls());
    bench.running.abort();
    if !done {
        // The node hangs in its call forever, so another node takes over.
        let next = Bench::over(store.clone(), options()).await;
        assert!(truth.delivers().await, "call {nth}, {fault:?}: {:?}", store.calls());
        next.stop().await;
    }
    let filter = HookMessageFilter::default();
    let stored = HookReader::messages(&*truth.store, application, filter, all()).await;
    assert_eq!(stored.expect("read").items.len(), MESSAGES, "each is stored once");
    let mut orders = Vec::new();
    for (endpoint, receiver) in truth.endpoints.iter().zip(&mut receivers) {
        orders.push(truth.check(*endpoint, receiver).await);
    }
    assert_eq!(orders[2], truth.messages, "in order");
    store.pending() == 0
}

async fn survives_at_every_call(fault: Fault) {
    let mut nth = 1;
    while scenario(nth, fault).await {
        nth += 1;
    }
    assert!(nth > 20, "the scenario has {nth} calls only");
}

#[tokio::test(start_paused = true)]
async fn calls_that_fail_before_they_take_effect_lose_nothing() {
    survives_at_every_call(Fault::Before).await;
}

#[tokio::test(start_paused = true)]
async fn calls_whose_result_is_lost_lose_nothing() {
    survives_at_every_call(Fault::After).await;
}

/// Otherwise only the fallback poll would find the retry, a minute later.
#[tokio::test(start_paused = true)]
async fn a_retry_is_on_time_although_the_result_of_its_settlement_was_lost() {
    let memory = Arc::new(MemoryStore::with_tokio_clock());
    let store = Arc::new(FaultingStore::new(memory.clone()));
    let bench = Bench::over(store.clone(), options()).await;
    let receiver = Receiver::start(|request| match request {
        0 => Answer::Status(500),
        _ => Answer::Status(200),
    });
    let receiver = receiver.await;
    let endpoint = bench.endpoint(&receiver.url(), schedule(&[1_000; 6])).await;
    store.fail_operation("settle_deliveries", 1, Fault::After);
    let began = tokio::time::Instant::now();
    let messages = vec![emit(&bench, 0).await];
    let application = bench.application;
    let truth = Truth { store: memory, application, endpoints: vec![endpoint], messages };
    assert!(truth.delivers().await, "{:?}", store.calls());
    assert_eq!(store.pending(), 0, "the answer was lost");
    assert!(began.elapsed() < Duration::from_secs(10), "after {:?}", began.elapsed());
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_before_a_call_loses_nothing() {
    survives_at_every_call(Fault::HangBefore).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_hangs_after_a_call_loses_nothing() {
    survives_at_every_call(Fault::HangAfter).await;
}
