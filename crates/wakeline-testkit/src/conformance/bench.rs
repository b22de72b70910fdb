//! A store under test, with unique names and short helpers for rules.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;
use wakeline_core::{
    Change, GroupName, Namespace, QueueName, QueueOptions, TaskName, Timestamp, Verdict,
};
use wakeline_store::{
    ConfigureQueue, DeadLetter, DeadLetterFilter, Delivered, Housekeeping, HousekeepingReport,
    LineClaim, LineOutcome, Page, PushItem, PushReply, SettleItem, SettleOutcome, Store,
    StoreError,
};

use super::claim_spec::{ClaimSpec, TakenBatch, is_settled, item};

/// A store whose clock is moved by tests.
#[async_trait]
pub trait StoreUnderTest: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Advances the store's clock. It must stand still otherwise, from the first call on, and begin
    /// at a whole millisecond, because rules check what holds at the very end of a lease.
    async fn advance(&self, by: Duration);

    /// Cleans up after a test, also after one that failed.
    async fn finish(&self) {}
}

/// A store under test with names that no other test uses.
pub struct Bench {
    pub(super) fixture: Box<dyn StoreUnderTest>,
    /// The store.
    pub store: Arc<dyn Store>,
    unique: String,
}

impl Bench {
    /// Prepares a store for one test.
    pub fn new(fixture: Box<dyn StoreUnderTest>) -> Self {
        let store = fixture.store();
        Self { fixture, store, unique: Uuid::new_v4().simple().to_string() }
    }

    /// A queue name of this test; a dot in the name separates namespace and task.
    pub fn queue(&self, name: &str) -> QueueName {
        QueueName::new(format!("{}-{name}", self.unique)).expect("a short name")
    }

    /// A namespace of this test: that of the queue `name.anything`.
    pub fn namespace(&self, name: &str) -> Namespace {
        Namespace::new(format!("{}-{name}", self.unique)).expect("a short name")
    }

    /// A task of this test, to be put after the dot of a queue's name.
    pub fn task(&self, name: &str) -> TaskName {
        TaskName::new(format!("{name}-{}", self.unique)).expect("a short name")
    }

    /// A group of this test.
    pub fn group(&self, name: &str) -> GroupName {
        GroupName::new(format!("{name}-{}", self.unique)).expect("a short name")
    }

    /// Advances the clock by seconds.
    pub async fn advance(&self, secs: u64) {
        self.fixture.advance(Duration::from_secs(secs)).await;
    }

    /// Advances the clock by milliseconds.
    pub async fn advance_ms(&self, ms: u64) {
        self.fixture.advance(Duration::from_millis(ms)).await;
    }

    /// Sets a queue's options.
    pub async fn configure(&self, queue: &QueueName, options: QueueOptions) -> Vec<Change> {
        let queue = queue.clone();
        let command = ConfigureQueue { queue, namespace: None, task: None, options };
        self.store.configure(command).await.expect("a queue is configured").1
    }

    /// Pushes messages of these transaction ids to one partition.
    pub async fn push(&self, queue: &QueueName, partition: &str, ids: &[&str]) -> PushReply {
        self.push_items(ids.iter().map(|id| item(queue, partition, id)).collect()).await
    }

    /// Pushes these items and checks that each has an outcome.
    pub async fn push_items(&self, items: Vec<PushItem>) -> PushReply {
        let sent = items.len();
        let reply = self.store.push(items).await.expect("messages are pushed");
        assert_eq!(reply.outcomes.len(), sent, "one outcome per item");
        reply
    }

    /// Claims for several lines at once.
    pub async fn claim(&self, lines: Vec<LineClaim>) -> Vec<LineOutcome> {
        let requested: Vec<_> = lines.iter().map(|line| line.requests.len()).collect();
        let outcomes = self.store.claim(lines).await.expect("lines are claimed");
        let answered: Vec<_> = outcomes.iter().map(|line| line.results.len()).collect();
        assert_eq!(answered, requested, "one outcome per line, one result per request");
        outcomes
    }

    /// Claims with one request; returns what it gets, if anything.
    pub async fn try_take(&self, spec: &ClaimSpec) -> Option<TakenBatch> {
        self.claim_one(spec).await.0
    }

    /// Claims with one request, which must get something.
    pub async fn take(&self, spec: &ClaimSpec) -> TakenBatch {
        match self.claim_one(spec).await {
            (Some(taken), _) => taken,
            (None, next_due) => panic!("nothing for {spec:?}, next due in {next_due:?}"),
        }
    }

    /// Claims with one request, which must get nothing; returns the next due time.
    pub async fn nothing(&self, spec: &ClaimSpec) -> Option<Duration> {
        match self.claim_one(spec).await {
            (None, next_due) => next_due,
            (Some(taken), _) => panic!("{spec:?} got {taken:?}"),
        }
    }

    /// How long until a line is due, without claiming.
    pub async fn sweep(&self, spec: &ClaimSpec) -> Option<Duration> {
        let due = self.store.sweep(vec![spec.line.clone()]).await.expect("a line is swept");
        assert_eq!(due.len(), 1, "one answer per line");
        due[0]
    }

    async fn claim_one(&self, spec: &ClaimSpec) -> (Option<TakenBatch>, Option<Duration>) {
        let mut outcome = self.claim(vec![spec.line_claim(1)]).await.remove(0);
        let result = outcome.results.remove(0);
        let group = spec.line.group.clone();
        (result.map(|result| TakenBatch { group, result }), outcome.next_due)
    }

    /// Takes and completes until nothing is left; returns the transaction ids in order.
    pub async fn drain(&self, spec: &ClaimSpec) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(taken) = self.try_take(spec).await {
            ids.extend(taken.ids());
            self.complete(&taken).await;
        }
        ids
    }

    /// Settles one message.
    pub async fn settle(&self, taken: &TakenBatch, id: &str, verdict: Verdict) -> SettleOutcome {
        self.settle_items(vec![taken.item(id, verdict)]).await.remove(0)
    }

    /// Settles these items and checks that each has an outcome.
    pub async fn settle_items(&self, items: Vec<SettleItem>) -> Vec<SettleOutcome> {
        let sent = items.len();
        let reply = self.store.settle(items).await.expect("messages are settled");
        assert_eq!(reply.outcomes.len(), sent, "one outcome per item");
        reply.outcomes
    }

    /// Settles one message, which must succeed; returns the reported changes.
    pub async fn settled(&self, taken: &TakenBatch, id: &str, verdict: Verdict) -> Vec<Change> {
        let reply = self.store.settle(vec![taken.item(id, verdict)]).await.expect("it is settled");
        assert!(is_settled(&reply.outcomes[0]), "{id} of {taken:?}: {:?}", reply.outcomes[0]);
        reply.changes
    }

    /// Completes everything that was taken.
    pub async fn complete(&self, taken: &TakenBatch) {
        let items = (taken.result.partitions.iter())
            .flat_map(|partition| {
                let item = |message: &Delivered| {
                    let id = message.transaction_id.as_str();
                    SettleItem {
                        partition: partition.partition_id,
                        ..taken.item(id, Verdict::Completed)
                    }
                };
                partition.messages.iter().map(item).collect::<Vec<_>>()
            })
            .collect();
        for outcome in self.settle_items(items).await {
            assert!(is_settled(&outcome), "{taken:?}: {outcome:?}");
        }
    }

    /// Runs housekeeping until nothing is left to do; returns what was done.
    pub async fn housekeep(&self) -> HousekeepingReport {
        housekeep_all(self.store.as_ref()).await.expect("housekeeping is done")
    }

    /// The dead letters of a queue, newest first.
    pub async fn dead_letters(&self, queue: &QueueName) -> Vec<DeadLetter> {
        let filter = DeadLetterFilter { queue: Some(queue.clone()), ..Default::default() };
        let page = Page { limit: 1000, offset: 0 };
        self.store.dead_letters(filter, page).await.expect("dead letters are listed").letters
    }

    /// The transaction ids of a queue's dead letters, newest first.
    pub async fn dead_ids(&self, queue: &QueueName) -> Vec<String> {
        let letters = self.dead_letters(queue).await;
        letters.iter().map(|letter| letter.transaction_id.to_string()).collect()
    }

    /// The time by the store's clock, as stamped on a message.
    pub async fn now(&self) -> Timestamp {
        let queue = self.queue("clock");
        self.push_items(vec![item(&queue, "Default", &Uuid::new_v4().to_string())]).await;
        let mut now = Timestamp(0);
        while let Some(taken) = self.try_take(&ClaimSpec::queue(&queue).auto_ack().batch(100)).await
        {
            now = taken.messages().last().expect("at least one message").created_at;
        }
        now
    }
}

/// Runs housekeeping over all queues, piece by piece, and adds up what the pieces did.
pub(crate) async fn housekeep_all(store: &dyn Store) -> Result<HousekeepingReport, StoreError> {
    let mut options = Housekeeping {
        rows_max: 50,
        interval: Duration::ZERO,
        restart: true,
        ..Housekeeping::default()
    };
    let mut all = HousekeepingReport::default();
    loop {
        let piece = store.housekeep(options).await?;
        all.removed += piece.removed;
        all.changes.extend(piece.changes);
        for (queue, lost) in piece.losses {
            match all.losses.iter_mut().find(|(other, _)| *other == queue) {
                Some((_, sum)) => sum.add(lost),
                None => all.losses.push((queue, lost)),
            }
        }
        all.next_due = piece.next_due;
        options.restart = false;
        if piece.next_due != Some(Duration::ZERO) {
            return Ok(all);
        }
    }
}
