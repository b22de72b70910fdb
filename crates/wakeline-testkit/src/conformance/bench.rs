//! A store under test, with names of its own and short ways to use it.

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

use super::ask::{Ask, Taken, is_settled, item};

/// A store with a clock that tests move.
#[async_trait]
pub trait StoreUnderTest: Send + Sync {
    /// The store.
    fn store(&self) -> Arc<dyn Store>;

    /// Moves the store's clock on. It must stand still otherwise, from the first call on, and
    /// begin at a whole millisecond: rules ask what holds at the very end of a lease.
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

    /// A queue of this test; a dot in the name makes namespace and task.
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

    /// Moves the clock on by seconds.
    pub async fn advance(&self, secs: u64) {
        self.fixture.advance(Duration::from_secs(secs)).await;
    }

    /// Moves the clock on by milliseconds.
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

    /// Pushes.
    pub async fn push_items(&self, items: Vec<PushItem>) -> PushReply {
        let sent = items.len();
        let reply = self.store.push(items).await.expect("messages are pushed");
        assert_eq!(reply.outcomes.len(), sent, "one outcome per item");
        reply
    }

    /// Claims for several lines at once.
    pub async fn claim(&self, lines: Vec<LineClaim>) -> Vec<LineOutcome> {
        let asked: Vec<_> = lines.iter().map(|line| line.requests.len()).collect();
        let outcomes = self.store.claim(lines).await.expect("lines are claimed");
        let answered: Vec<_> = outcomes.iter().map(|line| line.grants.len()).collect();
        assert_eq!(answered, asked, "one outcome per line, one grant per request");
        outcomes
    }

    /// What one request gets, if anything.
    pub async fn try_take(&self, ask: &Ask) -> Option<Taken> {
        self.claim_one(ask).await.0
    }

    /// What one request gets.
    pub async fn take(&self, ask: &Ask) -> Taken {
        match self.claim_one(ask).await {
            (Some(taken), _) => taken,
            (None, next_due) => panic!("nothing for {ask:?}, next due in {next_due:?}"),
        }
    }

    /// Expects nothing for a request; tells when there will be something.
    pub async fn nothing(&self, ask: &Ask) -> Option<Duration> {
        match self.claim_one(ask).await {
            (None, next_due) => next_due,
            (Some(taken), _) => panic!("{ask:?} got {taken:?}"),
        }
    }

    /// How long until a line has something, without claiming.
    pub async fn sweep(&self, ask: &Ask) -> Option<Duration> {
        let due = self.store.sweep(vec![ask.line.clone()]).await.expect("a line is swept");
        assert_eq!(due.len(), 1, "one answer per line");
        due[0]
    }

    async fn claim_one(&self, ask: &Ask) -> (Option<Taken>, Option<Duration>) {
        let mut outcome = self.claim(vec![ask.line_claim(1)]).await.remove(0);
        let grant = outcome.grants.remove(0);
        let group = ask.line.group.clone();
        (grant.map(|grant| Taken { group, grant }), outcome.next_due)
    }

    /// Takes and completes until nothing is left; returns the transaction ids in order.
    pub async fn drain(&self, ask: &Ask) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(taken) = self.try_take(ask).await {
            ids.extend(taken.ids());
            self.complete(&taken).await;
        }
        ids
    }

    /// Says something of one message.
    pub async fn settle(&self, taken: &Taken, id: &str, verdict: Verdict) -> SettleOutcome {
        self.settle_items(vec![taken.item(id, verdict)]).await.remove(0)
    }

    /// Settles.
    pub async fn settle_items(&self, items: Vec<SettleItem>) -> Vec<SettleOutcome> {
        let sent = items.len();
        let reply = self.store.settle(items).await.expect("messages are settled");
        assert_eq!(reply.outcomes.len(), sent, "one outcome per item");
        reply.outcomes
    }

    /// Says something of one message, successfully; returns what others are told.
    pub async fn settled(&self, taken: &Taken, id: &str, verdict: Verdict) -> Vec<Change> {
        let reply = self.store.settle(vec![taken.item(id, verdict)]).await.expect("it is settled");
        assert!(is_settled(&reply.outcomes[0]), "{id} of {taken:?}: {:?}", reply.outcomes[0]);
        reply.changes
    }

    /// Completes all that was taken.
    pub async fn complete(&self, taken: &Taken) {
        let items = (taken.grant.partitions.iter())
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

    /// Does all the housekeeping there is; returns what was done.
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

    /// The moment by the store's clock, as stamped on a message.
    pub async fn now(&self) -> Timestamp {
        let queue = self.queue("clock");
        self.push_items(vec![item(&queue, "Default", &Uuid::new_v4().to_string())]).await;
        let mut now = Timestamp(0);
        while let Some(taken) = self.try_take(&Ask::queue(&queue).auto_ack().batch(100)).await {
            now = taken.messages().last().expect("at least one message").created_at;
        }
        now
    }
}

/// Looks through all queues, piece by piece. What the pieces did is added up.
pub(crate) async fn housekeep_all(store: &dyn Store) -> Result<HousekeepingReport, StoreError> {
    let mut how = Housekeeping {
        rows_max: 50,
        interval: Duration::ZERO,
        anew: true,
        ..Housekeeping::default()
    };
    let mut all = HousekeepingReport::default();
    loop {
        let piece = store.housekeep(how).await?;
        all.removed += piece.removed;
        all.changes.extend(piece.changes);
        for (queue, lost) in piece.losses {
            match all.losses.iter_mut().find(|(other, _)| *other == queue) {
                Some((_, sum)) => sum.add(lost),
                None => all.losses.push((queue, lost)),
            }
        }
        all.next_due = piece.next_due;
        how.anew = false;
        if piece.next_due != Some(Duration::ZERO) {
            return Ok(all);
        }
    }
}
