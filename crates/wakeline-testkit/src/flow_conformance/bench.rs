//! A store of orchestrations under test, with short helpers for rules.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{Capabilities, FlowLine, FlowToken, QueueName, Timestamp};
use wakeline_store::Store;
use wakeline_store::flow::{
    AbandonOutcome, Completion, CompletionReply, DeleteInstances, DeleteReport, EnqueueOutcome,
    EnqueueReply, Envelope, FlowAdmin, FlowReader, FlowStore, InstanceDetail, InstanceState,
    MailboxReader, NewInstance, NewWork, RenewOutcome, TurnClaim, TurnClaimed, TurnCommit,
    TurnItem, TurnOutcome, TurnReply, Watched, WorkClaim, WorkClaimed, WorkItem, WorkOutcome,
    WorkRetries,
};
use wakeline_store::hook::HookBackend;

use super::helpers::{
    MAIN, Worker, capabilities, event, finish, id, nothing, start, start_of, turn_line,
};
use crate::conformance::{ClaimSpec, StoreUnderTest};

/// All traits of a store that orchestrations use.
pub trait Flow: FlowStore + FlowReader + FlowAdmin + WorkRetries + MailboxReader {}

impl<T: FlowStore + FlowReader + FlowAdmin + WorkRetries + MailboxReader> Flow for T {}

/// A store of orchestrations and queues whose clock is moved by tests. Every rule gets an empty
/// one.
pub trait FlowUnderTest: StoreUnderTest {
    /// The store.
    fn flow(&self) -> Arc<dyn Flow>;

    /// The same store as a store of webhooks, for messages that turns emit.
    fn hooks(&self) -> Arc<dyn HookBackend>;
}

/// A store of orchestrations under test.
pub struct FlowBench {
    pub(super) fixture: Box<dyn FlowUnderTest>,
    /// The store.
    pub flow: Arc<dyn Flow>,
    /// The queues of the store.
    pub queues: Arc<dyn Store>,
    /// The webhooks of the store.
    pub hooks: Arc<dyn HookBackend>,
}

impl FlowBench {
    /// Prepares a store for one test.
    pub fn new(fixture: Box<dyn FlowUnderTest>) -> Self {
        let (flow, queues, hooks) = (fixture.flow(), fixture.store(), fixture.hooks());
        Self { fixture, flow, queues, hooks }
    }

    /// Advances the clock by seconds.
    pub async fn advance(&self, secs: u64) {
        self.fixture.advance(Duration::from_secs(secs)).await;
    }

    /// Advances the clock by milliseconds.
    pub async fn advance_ms(&self, ms: u64) {
        self.fixture.advance(Duration::from_millis(ms)).await;
    }

    /// The current time by the store's clock, as stamped on a turn.
    pub async fn now(&self) -> Timestamp {
        self.send(vec![start_of("clock", "clock")]).await;
        let turn = self.turn_of(&capabilities(&["clock"])).await;
        self.committed(nothing(&turn)).await;
        turn.now
    }

    /// Sends messages; returns the outcome of each.
    pub async fn send(&self, envelopes: Vec<Envelope>) -> Vec<EnqueueOutcome> {
        self.enqueue(envelopes).await.outcomes
    }

    /// Sends messages.
    pub async fn enqueue(&self, envelopes: Vec<Envelope>) -> EnqueueReply {
        let sent = envelopes.len();
        let reply = self.flow.enqueue(envelopes, Vec::new()).await.expect("messages are sent");
        assert_eq!(reply.outcomes.len(), sent, "one outcome per envelope");
        assert!(reply.turns.is_empty(), "no turns were requested");
        reply
    }

    /// Sends the start message of an instance.
    pub async fn start(&self, instance: &str) {
        assert_eq!(self.send(vec![start(instance)]).await, [EnqueueOutcome::Queued]);
    }

    /// Starts an instance and commits a first turn that leaves it running.
    pub async fn running(&self, instance: &str) {
        self.start(instance).await;
        let turn = self.turn().await;
        assert_eq!(turn.instance, id(instance), "no other turn is due");
        self.committed(super::step(&turn)).await;
    }

    /// Starts an instance and completes it.
    pub async fn completed(&self, instance: &str) {
        self.start(instance).await;
        let turn = self.turn().await;
        assert_eq!(turn.instance, id(instance), "no other turn is due");
        self.committed(finish(&turn)).await;
    }

    /// Starts an instance with a parent that waits for it, and commits a first turn.
    pub async fn child(&self, instance: &str, parent: &str) {
        self.start(instance).await;
        let turn = self.turn().await;
        assert_eq!(turn.instance, id(instance), "no other turn is due");
        let parent = Some((id(parent), 1));
        let new_instance = Some(NewInstance { parent, ..super::new_instance("child") });
        self.committed(TurnCommit { new_instance, ..super::step(&turn) }).await;
    }

    /// Sends an event to an instance and commits the turn that takes it.
    pub async fn turned(
        &self,
        instance: &str,
        commit: impl FnOnce(&TurnItem) -> TurnCommit,
    ) -> TurnReply {
        self.send(vec![event(instance, "event")]).await;
        let turn = self.turn().await;
        assert_eq!(turn.instance, id(instance), "no other turn is due");
        self.committed(commit(&turn)).await
    }

    /// Takes the messages of a queue and returns their transaction ids.
    pub async fn popped(&self, queue: &str) -> Vec<String> {
        let queue = QueueName::new(queue).expect("a valid name");
        let spec = ClaimSpec::queue(&queue).auto_ack().batch(1_000);
        let claimed = self.queues.claim(vec![spec.line_claim(1)]).await.expect("a queue is read");
        let results = claimed.into_iter().flat_map(|outcome| outcome.results).flatten();
        let partitions = results.flat_map(|result| result.partitions);
        let messages = partitions.flat_map(|partition| partition.messages);
        messages.map(|message| message.transaction_id.to_string()).collect()
    }

    /// Claims turns and checks that each request has an answer.
    pub async fn claim_turns(&self, lines: Vec<TurnClaim>) -> Vec<TurnClaimed> {
        let requested: Vec<_> = lines.iter().map(|line| line.requests.len()).collect();
        let answers = self.flow.claim_turns(lines).await.expect("turns are claimed");
        let answered: Vec<_> = answers.iter().map(|line| line.turns.len()).collect();
        assert_eq!(answered, requested, "one answer per line, one turn per request");
        answers
    }

    async fn claim_turn(&self, line: &Capabilities) -> (Option<TurnItem>, Option<Duration>) {
        let mut answer = self.claim_turns(vec![turn_line(line, 1)]).await.remove(0);
        (answer.turns.remove(0), answer.next_due)
    }

    /// Claims the next turn of [`MAIN`] code, which must exist.
    pub async fn turn(&self) -> TurnItem {
        self.turn_of(&capabilities(&[MAIN])).await
    }

    /// Claims the next turn of a line, which must exist.
    pub async fn turn_of(&self, line: &Capabilities) -> TurnItem {
        match self.claim_turn(line).await {
            (Some(turn), _) => turn,
            (None, next_due) => panic!("no turn for {line:?}, next due in {next_due:?}"),
        }
    }

    /// Claims, but expects no turn of [`MAIN`] code; returns the time until the next one.
    pub async fn no_turn(&self) -> Option<Duration> {
        self.no_turn_of(&capabilities(&[MAIN])).await
    }

    /// Claims, but expects no turn of a line; returns the time until the next one.
    pub async fn no_turn_of(&self, line: &Capabilities) -> Option<Duration> {
        match self.claim_turn(line).await {
            (None, next_due) => next_due,
            (Some(turn), _) => panic!("{line:?} got {turn:?}"),
        }
    }

    /// Commits a turn, which must succeed.
    pub async fn committed(&self, commit: TurnCommit) -> TurnReply {
        let what = format!("{commit:?}");
        let reply = self.flow.commit_turn(commit).await.expect("a turn is committed");
        assert!(matches!(reply.outcome, TurnOutcome::Committed { .. }), "{reply:?} of {what}");
        reply
    }

    /// Commits a turn.
    pub async fn commit(&self, commit: TurnCommit) -> TurnOutcome {
        self.flow.commit_turn(commit).await.expect("a turn is answered").outcome
    }

    /// Commits a turn, which must be stale and must report no changes.
    pub async fn stale(&self, commit: TurnCommit) {
        let reply = self.flow.commit_turn(commit).await.expect("a turn is answered");
        assert_eq!(reply.outcome, TurnOutcome::Stale);
        assert!(reply.turns.is_empty() && reply.work.is_empty(), "{reply:?}");
    }

    /// Inserts an activity outside of a turn.
    pub async fn add_work(&self, work: NewWork) {
        self.flow.enqueue_work(work).await.expect("work is stored");
    }

    /// Claims work and checks that each request has an answer.
    pub async fn claim_work(&self, lines: Vec<WorkClaim>) -> Vec<WorkClaimed> {
        let requested: Vec<_> = lines.iter().map(|line| line.requests.len()).collect();
        let answers = self.flow.claim_work(lines).await.expect("work is claimed");
        let answered: Vec<_> = answers.iter().map(|line| line.work.len()).collect();
        assert_eq!(answered, requested, "one answer per line, one activity per request");
        answers
    }

    async fn claim_one(&self, worker: &Worker) -> (Option<WorkItem>, Option<Duration>) {
        let mut answer = self.claim_work(vec![worker.claim(1)]).await.remove(0);
        (answer.work.remove(0), answer.next_due)
    }

    /// Claims the next activity for a worker, which must exist.
    pub async fn work(&self, worker: &Worker) -> WorkItem {
        match self.claim_one(worker).await {
            (Some(work), _) => work,
            (None, next_due) => panic!("no work for {worker:?}, next due in {next_due:?}"),
        }
    }

    /// Claims, but expects no work; returns the time until the next activity.
    pub async fn no_work(&self, worker: &Worker) -> Option<Duration> {
        match self.claim_one(worker).await {
            (None, next_due) => next_due,
            (Some(work), _) => panic!("{worker:?} got {work:?}"),
        }
    }

    /// Claims all activities that a worker gets now and returns their numbers in order. They stay
    /// leased.
    pub async fn all_work(&self, worker: &Worker) -> Vec<u64> {
        let answer = self.claim_work(vec![worker.claim(20)]).await.remove(0);
        answer.work.into_iter().flatten().map(|work| work.key.activity).collect()
    }

    /// Completes an activity.
    pub async fn complete(&self, token: FlowToken, message: Option<Envelope>) -> CompletionReply {
        let completion = Completion { token, message };
        self.flow.complete_work(completion, Vec::new()).await.expect("work is completed")
    }

    /// Whether the lease of an activity is still valid: completes it without a message.
    pub async fn completes(&self, token: FlowToken) -> bool {
        self.complete(token, None).await.outcome != WorkOutcome::Stale
    }

    /// Extends one lease until this number of seconds from now.
    pub async fn renew(&self, token: FlowToken, secs: u64) -> RenewOutcome {
        let outcomes = self.flow.renew(vec![token], Duration::from_secs(secs)).await;
        let mut outcomes = outcomes.expect("leases are renewed");
        assert_eq!(outcomes.len(), 1, "one outcome per token");
        outcomes.remove(0)
    }

    /// Abandons a lease.
    pub async fn abandon(&self, token: FlowToken, secs: u64, uncounted: bool) -> AbandonOutcome {
        let delay = Duration::from_secs(secs);
        self.flow.abandon(token, delay, uncounted).await.expect("a lease is given back").0
    }

    /// How long until a line has something, without claiming.
    pub async fn sweep(&self, line: FlowLine) -> Option<Duration> {
        let due = self.flow.sweep_flow(vec![line]).await.expect("a line is swept");
        assert_eq!(due.len(), 1, "one answer per line");
        due[0]
    }

    /// Whether an instance waits for its first turn.
    pub async fn is_pending(&self, instance: &str) -> bool {
        match self.watched(instance).await {
            Watched::Found(detail) => detail.state == InstanceState::Pending,
            Watched::Missing => false,
        }
    }

    /// Reads an instance as watchers do; it may be missing.
    pub async fn watched(&self, instance: &str) -> Watched {
        self.flow.instance(&id(instance)).await.expect("an instance is read")
    }

    /// Reads an instance, which must exist.
    pub async fn detail(&self, instance: &str) -> InstanceDetail {
        match self.watched(instance).await {
            Watched::Found(detail) => *detail,
            other => panic!("{instance} is {other:?}"),
        }
    }

    /// The key-value state as readers see it, with keys and values as text.
    pub async fn kv(&self, instance: &str) -> Vec<(String, String)> {
        let entries = self.flow.kv(&id(instance), None).await.expect("values are read");
        entries
            .into_iter()
            .map(|entry| {
                let value = String::from_utf8_lossy(&entry.value).into_owned();
                (entry.key.to_string(), value)
            })
            .collect()
    }

    /// Deletes instances.
    pub async fn delete(&self, instances: &[&str], force: bool) -> DeleteReport {
        let instances = instances.iter().map(|name| id(name)).collect();
        let command = DeleteInstances { instances, force };
        self.flow.delete_instances(command).await.expect("instances are deleted")
    }
}
