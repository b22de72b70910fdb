//! Faults occur where they were planned, and a careful caller survives each of them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use wakeline_core::{LeaseToken, QueueName, Verdict};
use wakeline_store::{PushOutcome, QueueStore as _, SettleOutcome, StoreError};
use wakeline_testkit::conformance::{ClaimSpec, TakenBatch, item};
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::history::{
    CallOutcome, ClientHistory, Push, SeenDelivery, SeenMessage, Settle, Span, check,
};
use wakeline_testkit::oracle::MemoryStore;

fn queue() -> QueueName {
    QueueName::new("q").expect("a valid name")
}

#[tokio::test]
async fn a_call_fails_before_it_happens() {
    let store = FaultingStore::new(Arc::new(MemoryStore::new()));
    store.fail(2, Fault::Before);
    let push = |id: &str| store.push(vec![item(&queue(), "p", id)]);
    push("a").await.expect("the first call goes well");
    let error = push("b").await.expect_err("the second fails");
    assert!(matches!(error, StoreError::Unavailable { operation: "push", .. }), "{error:?}");
    let again = push("b").await.expect("the third goes well");
    assert!(matches!(again.outcomes[0], PushOutcome::Queued { .. }), "it had not been stored");
    assert_eq!((store.calls(), store.pending()), (vec!["push"; 3], 0));
}

#[tokio::test]
async fn a_call_fails_after_it_happened() {
    let store = FaultingStore::new(Arc::new(MemoryStore::new()));
    store.fail_operation("push", 1, Fault::After);
    store.sweep(Vec::new()).await.expect("another operation goes well");
    let push = || store.push(vec![item(&queue(), "p", "a")]);
    let error = push().await.expect_err("it fails");
    assert!(matches!(error, StoreError::Transient { operation: "push", .. }), "{error:?}");
    let again = push().await.expect("it goes well");
    assert!(matches!(again.outcomes[0], PushOutcome::Duplicate { .. }), "it had been stored");
}

#[tokio::test]
async fn a_call_hangs() {
    for (fault, stored) in [(Fault::HangBefore, false), (Fault::HangAfter, true)] {
        let store = FaultingStore::new(Arc::new(MemoryStore::new()));
        store.fail(1, fault);
        let push = || store.push(vec![item(&queue(), "p", "a")]).now_or_never();
        assert!(push().is_none(), "the oracle never waits, so nothing else can");
        let again = push().expect("it does not hang").expect("it goes well");
        let known = matches!(again.outcomes[0], PushOutcome::Duplicate { .. });
        assert_eq!(known, stored, "{fault:?}");
    }
}

/// A producer and consumer that repeats failed calls and records what it saw.
struct Client {
    store: Arc<FaultingStore>,
    history: ClientHistory,
    tick: u64,
}

impl Client {
    fn tick(&mut self) -> Duration {
        self.tick += 1;
        Duration::from_millis(self.tick)
    }

    async fn push(&mut self, id: &str) {
        let message = item(&queue(), "p", id);
        loop {
            let from = self.tick();
            let outcome = self.store.push(vec![message.clone()]).now_or_never();
            let span = Span { from, to: self.tick() };
            let answer = match outcome {
                Some(Ok(_)) => CallOutcome::Ok,
                Some(Err(StoreError::Unavailable { .. })) => CallOutcome::Refused,
                Some(Err(_)) | None => CallOutcome::Unknown,
            };
            let (partition, message) = ("p".to_owned(), id.to_owned());
            self.history.pushes.push(Push { partition, message, span, answer });
            if answer == CallOutcome::Ok {
                return;
            }
        }
    }

    async fn pop(&mut self) -> Option<TakenBatch> {
        let spec = ClaimSpec::queue(&queue()).batch(2).token(LeaseToken::generate());
        loop {
            let from = self.tick();
            let claim = self.store.claim(vec![spec.line_claim(1)]);
            let Some(Ok(mut outcomes)) = claim.now_or_never() else { continue };
            let result = outcomes.remove(0).results.remove(0)?;
            let span = Span { from, to: self.tick() };
            let seen = |message: &wakeline_store::Delivered| SeenMessage {
                message: message.transaction_id.to_string(),
                offset: message.offset,
            };
            self.history.deliveries.push(SeenDelivery {
                group: spec.line.group.to_string(),
                partition: "p".to_owned(),
                lease: result.lease.as_ref().map(|lease| lease.token.to_string()),
                lease_for: result.lease_for,
                span,
                messages: result.partitions[0].messages.iter().map(seen).collect(),
            });
            return Some(TakenBatch { group: spec.line.group, result });
        }
    }

    async fn complete(&mut self, taken: &TakenBatch, id: &str) {
        loop {
            let from = self.tick();
            let settle = self.store.settle(vec![taken.item(id, Verdict::Completed)]);
            let outcome = settle.now_or_never();
            let span = Span { from, to: self.tick() };
            let answer = match &outcome {
                Some(Ok(reply)) => match reply.outcomes[0] {
                    SettleOutcome::Settled { .. } => CallOutcome::Ok,
                    _ => CallOutcome::Refused,
                },
                Some(Err(StoreError::Unavailable { .. })) => CallOutcome::Refused,
                Some(Err(_)) | None => CallOutcome::Unknown,
            };
            self.history.settles.push(Settle {
                group: taken.group.to_string(),
                partition: "p".to_owned(),
                lease: taken.lease().token.to_string(),
                what: Some((id.to_owned(), Verdict::Completed)),
                span,
                answer,
            });
            if matches!(outcome, Some(Ok(_))) {
                return;
            }
        }
    }
}

async fn scenario(nth: u64, fault: Fault) -> (ClientHistory, usize) {
    let store = Arc::new(FaultingStore::new(Arc::new(MemoryStore::new())));
    store.fail(nth, fault);
    let mut client = Client { store: store.clone(), history: ClientHistory::default(), tick: 0 };
    for id in ["a", "b", "c"] {
        client.push(id).await;
    }
    while let Some(taken) = client.pop().await {
        for id in taken.ids() {
            client.complete(&taken, &id).await;
        }
    }
    client.history.drained_by = vec![wakeline_core::GroupName::QUEUE_MODE.to_owned()];
    (client.history, store.pending())
}

#[tokio::test]
async fn a_careful_client_survives_a_fault_at_every_call() {
    for fault in Fault::ALL {
        let mut nth = 1;
        loop {
            let (history, pending) = scenario(nth, fault).await;
            let report = check(&history);
            report.assert_clean();
            assert_eq!(report.acknowledged, 3, "call {nth}, {fault:?}");
            if pending > 0 {
                break;
            }
            nth += 1;
        }
        assert!(nth > 8, "the scenario has {nth} calls only");
    }
}
