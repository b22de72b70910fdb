//! A webhook store under test, with short helpers for rules.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, EndpointId, EndpointOptions, EndpointRef, HookChange,
    HookLine, HookMessageId, JobId, MessageRef, Timestamp,
};
use wakeline_store::hook::{
    Attempt, AttemptFilter, Created, Delivery, DeliveryClaim, DeliveryClaimed, DeliveryFilter,
    DeliveryItem, DeliveryJob, DeliveryState, DeliveryVerdict, EmitOutcome, EmitReply, Endpoint,
    EndpointUpdate, HookBackend, JobKind, JobSpec, JobState, NewApplication, NewEndpoint,
    NewMessage, ResendOutcome, SettleDelivery, SettledDelivery, SettledState, StoredMessage,
    UpdateOutcome,
};

use super::helpers::{
    application, end, endpoint, event_type, first, items, message, pull, push, request,
};
use crate::conformance::StoreUnderTest;

/// A store of webhooks whose clock is moved by tests. Every rule gets an empty one.
#[async_trait]
pub trait HookUnderTest: StoreUnderTest {
    /// The store.
    fn hook(&self) -> Arc<dyn HookBackend>;

    /// Returns the store as another process finds it: opened again over the same data, where that
    /// is possible.
    async fn reopened(&self) -> Arc<dyn HookBackend> {
        self.hook()
    }
}

/// A store under test, with one application.
pub struct HookBench {
    pub(super) fixture: Box<dyn HookUnderTest>,
    /// The store.
    pub hook: Arc<dyn HookBackend>,
    /// The application of the test.
    pub app: ApplicationId,
}

impl HookBench {
    /// Prepares a store for one test.
    pub async fn new(fixture: Box<dyn HookUnderTest>) -> Self {
        fixture.advance(Duration::ZERO).await;
        let hook = fixture.hook();
        let new = application(Some("main"));
        let app = new.id;
        let made = hook.create_application(new, None).await.expect("an application is made");
        assert!(matches!(made, Created::New(_)), "{made:?}");
        Self { fixture, hook, app }
    }

    /// Advances the clock by seconds.
    pub async fn advance(&self, secs: u64) {
        self.fixture.advance(Duration::from_secs(secs)).await;
    }

    /// Advances the clock by milliseconds.
    pub async fn advance_ms(&self, ms: u64) {
        self.fixture.advance(Duration::from_millis(ms)).await;
    }

    /// The current time by the store's clock, as stamped on an event type.
    pub async fn now(&self) -> Timestamp {
        let put = self.hook.put_event_type(event_type("the.clock")).await;
        put.expect("an event type is put").0.updated_at
    }

    /// The reference by which requests name the application.
    pub fn of_app(&self) -> ApplicationRef {
        ApplicationRef::Id(self.app)
    }

    /// Creates an application.
    pub async fn application(&self, new: NewApplication) -> ApplicationId {
        let made = self.hook.create_application(new, None).await.expect("an application is made");
        match made {
            Created::New(made) => made.id,
            other => panic!("{other:?}"),
        }
    }

    /// Creates an endpoint of the application.
    pub async fn endpoint(&self, new: NewEndpoint) -> EndpointId {
        let made = self.hook.create_endpoint(&self.of_app(), new, None).await;
        match made.expect("an endpoint is made") {
            Created::New(made) => made.id,
            other => panic!("{other:?}"),
        }
    }

    /// Creates an endpoint with these options.
    pub async fn with(&self, options: EndpointOptions) -> EndpointId {
        self.endpoint(endpoint(options)).await
    }

    /// Returns an endpoint in its current state.
    pub async fn shown(&self, id: EndpointId) -> Endpoint {
        let found = self.hook.endpoint(&self.of_app(), &EndpointRef::Id(id)).await;
        found.expect("an endpoint is read").expect("it is there")
    }

    /// Changes an endpoint.
    pub async fn update(&self, id: EndpointId, update: EndpointUpdate) -> Vec<HookChange> {
        let updated = self.hook.update_endpoint(&self.of_app(), &EndpointRef::Id(id), update).await;
        let (outcome, changes) = updated.expect("an endpoint is changed");
        assert!(matches!(outcome, UpdateOutcome::Updated(_)), "{outcome:?}");
        changes
    }

    /// Enables or disables an endpoint.
    pub async fn switch(&self, id: EndpointId, on: bool) -> Vec<HookChange> {
        let update = EndpointUpdate { disabled: Some(!on), ..EndpointUpdate::default() };
        self.update(id, update).await
    }

    /// Deletes an endpoint.
    pub async fn delete(&self, id: EndpointId) {
        let deleted = self.hook.delete_endpoint(&self.of_app(), &EndpointRef::Id(id)).await;
        assert!(deleted.expect("an endpoint is deleted").0, "it was there");
    }

    /// A new message to the application.
    pub fn message(&self) -> NewMessage {
        message(self.app)
    }

    /// Stores a message and returns its id.
    pub async fn emit(&self) -> HookMessageId {
        self.stored(self.message()).await.0.id
    }

    /// Stores messages in order and returns their ids.
    pub async fn emit_many(&self, count: usize) -> Vec<HookMessageId> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.emit().await);
        }
        ids
    }

    /// Stores a message; returns it with the number of its endpoints.
    pub async fn stored(&self, new: NewMessage) -> (StoredMessage, u32) {
        let reply = self.emitted(new).await;
        match reply.outcome {
            EmitOutcome::Stored(stored, deliveries) => (stored, deliveries),
            other => panic!("{other:?}"),
        }
    }

    /// Stores a message without a waiting request.
    pub async fn emitted(&self, new: NewMessage) -> EmitReply {
        let reply = self.hook.emit(new, Vec::new()).await.expect("a message is stored");
        assert!(reply.leased.is_empty(), "it was not requested: {reply:?}");
        reply
    }

    /// Claims in one line and checks that each request has an answer.
    pub async fn claim(&self, claim: DeliveryClaim) -> DeliveryClaimed {
        let requested = claim.requests.len();
        let mut answers = self.hook.claim_deliveries(vec![claim]).await.expect("it is claimed");
        assert_eq!(answers.len(), 1, "one answer per line");
        let answer = answers.remove(0);
        assert_eq!(answer.groups.len(), requested, "one answer per request");
        answer
    }

    /// Claims deliveries for one waiter with this number of attempts.
    pub async fn take(&self, attempts: usize) -> Vec<DeliveryItem> {
        let answer = self.claim(push(vec![request(attempts)])).await;
        items(&answer.groups[0])
    }

    /// The messages that one waiter with this number of attempts gets, in order.
    pub async fn taken(&self, attempts: usize) -> Vec<HookMessageId> {
        self.take(attempts).await.into_iter().map(|item| item.message).collect()
    }

    /// Claims one delivery, which must exist.
    pub async fn one(&self) -> DeliveryItem {
        let answer = self.claim(push(vec![request(1)])).await;
        let mut got = items(&answer.groups[0]);
        assert_eq!(got.len(), 1, "next due in {:?}", answer.next_due);
        got.remove(0)
    }

    /// Claims, which must return nothing; returns the time until something is due.
    pub async fn none(&self) -> Option<Duration> {
        let answer = self.claim(push(vec![request(1)])).await;
        assert!(answer.groups[0].is_empty(), "got {:?}", answer.groups);
        assert_ne!(answer.next_due, Some(Duration::ZERO), "nothing now is not zero");
        answer.next_due
    }

    /// Claims deliveries of a pulled endpoint.
    pub async fn fetch(&self, endpoint: EndpointId, attempts: usize) -> Vec<DeliveryItem> {
        let answer = self.claim(pull(endpoint, vec![request(attempts)])).await;
        items(&answer.groups[0])
    }

    /// Settles an attempt.
    pub async fn settle(&self, end: SettleDelivery) -> SettledDelivery {
        let mut settled =
            self.hook.settle_deliveries(vec![end]).await.expect("an attempt is settled");
        assert_eq!(settled.len(), 1, "one answer per attempt");
        settled.remove(0)
    }

    /// Settles an attempt without a sample for the circuit breaker.
    pub async fn ends(&self, item: &DeliveryItem, verdict: DeliveryVerdict) -> SettledState {
        self.settle(end(item.token, verdict)).await.state
    }

    /// Settles an attempt as delivered.
    pub async fn deliver(&self, item: &DeliveryItem) {
        let state = self.ends(item, DeliveryVerdict::Delivered).await;
        assert_eq!(state, SettledState::Delivered);
    }

    /// Settles an attempt so that it is retried after seconds.
    pub async fn retry(&self, item: &DeliveryItem, secs: u64) {
        let verdict = DeliveryVerdict::Retry(Duration::from_secs(secs));
        assert_eq!(self.ends(item, verdict).await, SettledState::Retrying);
    }

    /// Settles an attempt and fails its delivery.
    pub async fn fail(&self, item: &DeliveryItem) {
        let state = self.ends(item, DeliveryVerdict::Failed).await;
        assert_eq!(state, SettledState::Failed);
    }

    /// Stores a message and fails its delivery.
    pub async fn failed(&self) -> HookMessageId {
        let message = self.emit().await;
        let item = self.one().await;
        assert_eq!(item.message, message, "nothing else is due");
        self.fail(&item).await;
        message
    }

    /// Releases attempts.
    pub async fn release(&self, tokens: &[&DeliveryItem]) -> Vec<HookChange> {
        let tokens = tokens.iter().map(|item| item.token).collect();
        self.hook.release_deliveries(tokens).await.expect("leases are given back")
    }

    /// Reads a delivery.
    pub async fn delivery(&self, message: HookMessageId, to: EndpointId) -> Delivery {
        let found = self.hook.deliveries_to(to, vec![message]).await.expect("it is read");
        found.into_iter().next().flatten().expect("there is such a delivery")
    }

    /// Reads the state of a delivery.
    pub async fn state(&self, message: HookMessageId, to: EndpointId) -> DeliveryState {
        self.delivery(message, to).await.state
    }

    /// Lists the attempts of a message, with their responses.
    pub async fn attempts(&self, message: HookMessageId) -> Vec<Attempt> {
        let filter = AttemptFilter {
            message: Some(message),
            with_content: true,
            ..AttemptFilter::default()
        };
        let page = self.hook.attempts(self.app, filter, first(100)).await;
        page.expect("attempts are read").items
    }

    /// Reads one attempt.
    pub async fn attempt(&self, id: AttemptId) -> Option<Attempt> {
        self.hook.attempt(self.app, id).await.expect("an attempt is read")
    }

    /// Requests one more attempt.
    pub async fn resend(&self, message: HookMessageId, to: EndpointId) -> ResendOutcome {
        let (message, to) = (MessageRef::Id(message), EndpointRef::Id(to));
        let resent = self.hook.resend(&self.of_app(), &message, &to).await;
        resent.expect("a resend is answered").0
    }

    /// Cancels the waiting deliveries of a message.
    pub async fn cancel(&self, message: HookMessageId) -> Option<u64> {
        let cancelled = self.hook.cancel(&self.of_app(), &MessageRef::Id(message), None).await;
        cancelled.expect("a cancel is answered").map(|(cancelled, _)| cancelled)
    }

    /// Starts a job.
    pub async fn start(&self, kind: JobKind, filter: DeliveryFilter) -> JobId {
        let spec = JobSpec { id: JobId::generate(), kind, filter };
        let started = self.hook.start_job(&self.of_app(), spec.clone()).await;
        let (job, _) = started.expect("a job is made").expect("there is its application");
        assert_eq!((job.spec, job.state), (spec.clone(), JobState::Running));
        spec.id
    }

    /// Reads a job in its current state.
    pub async fn job(&self, id: JobId) -> DeliveryJob {
        self.hook.job(id).await.expect("a job is read").expect("it is there")
    }

    /// Starts a job and runs it until it has finished; returns its final state.
    pub async fn done(&self, kind: JobKind, filter: DeliveryFilter) -> DeliveryJob {
        let id = self.start(kind, filter).await;
        self.background(100).await;
        let job = self.job(id).await;
        assert_eq!(job.state, JobState::Finished);
        job
    }

    /// Runs background work in pieces of this number of rows; returns the time until more is due.
    pub async fn background(&self, rows: u32) -> Option<Duration> {
        for _ in 0..1_000 {
            let report = self.hook.run_background(rows).await.expect("a piece is done");
            if report.next_due != Some(Duration::ZERO) {
                return report.next_due;
            }
        }
        panic!("there is always more to do");
    }

    /// How long until a line has something, without claiming.
    pub async fn sweep(&self, line: HookLine) -> Option<Duration> {
        let due = self.hook.sweep_hook(vec![line]).await.expect("a line is swept");
        assert_eq!(due.len(), 1, "one answer per line");
        due[0]
    }
}
