//! A toy store: per queue a list of items with the time from which they may be taken.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use wakeline_wake::{
    Api, Claim, ClaimOutcome, HintSource, Hub, HubOptions, LongPollConfig, Patience, PollMode,
    TakeOutcome, WakeMode,
};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const S: Duration = Duration::from_secs(1);
pub(crate) const LONG: Patience = Patience::Wait(Duration::from_secs(30));
pub(crate) const HINT_MODES: [WakeMode; 3] =
    [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast];

pub(crate) fn all_modes() -> Vec<WakeMode> {
    let mut modes = HINT_MODES.to_vec();
    modes.push(WakeMode::Poll(PollMode::default()));
    modes
}

/// What the store does when it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Works,
    Fails,
    Panics,
}

pub(crate) struct Store {
    items: Mutex<HashMap<u32, Vec<Instant>>>,
    pub(crate) claims: Mutex<Vec<usize>>,
    pub(crate) sweeps: Mutex<usize>,
    pub(crate) released: Mutex<usize>,
    pub(crate) mood: Mutex<Mood>,
    /// A claim takes one permit for its duration; the store is blocked by taking all of them.
    pub(crate) gate: Semaphore,
}

pub(crate) const PERMITS: usize = 100;

impl Store {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            items: Mutex::new(HashMap::new()),
            claims: Mutex::new(Vec::new()),
            sweeps: Mutex::new(0),
            released: Mutex::new(0),
            mood: Mutex::new(Mood::Works),
            gate: Semaphore::new(PERMITS),
        })
    }

    /// Commits one item, without a hint.
    pub(crate) fn commit(&self, queue: u32, due_in: Duration) {
        self.items.lock().entry(queue).or_default().push(Instant::now() + due_in);
    }

    pub(crate) fn left(&self) -> usize {
        self.items.lock().values().map(Vec::len).sum()
    }

    pub(crate) fn claims_len(&self) -> usize {
        self.claims.lock().len()
    }

    fn next_due(&self, queue: u32) -> Option<Duration> {
        let items = self.items.lock();
        let first = items.get(&queue)?.iter().min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    fn take(&self, queue: u32, max: usize) -> Option<Vec<Instant>> {
        let mut items = self.items.lock();
        let queue = items.entry(queue).or_default();
        queue.sort();
        let due = queue.iter().take(max).take_while(|at| **at <= Instant::now()).count();
        (due > 0).then(|| queue.drain(..due).collect())
    }
}

#[async_trait]
impl Api for Store {
    type Line = u32;
    type Topic = u32;
    type Hint = (u32, Duration);
    type Request = usize;
    /// The queue, and when each item became due.
    type ClaimResult = (u32, Vec<Instant>);
    type Error = String;

    fn topic(line: &u32) -> u32 {
        *line
    }
    fn topics(hint: &(u32, Duration)) -> Vec<u32> {
        vec![hint.0]
    }
    fn concerns(hint: &(u32, Duration), line: &u32) -> bool {
        hint.0 == *line
    }
    fn due_in(hint: &(u32, Duration)) -> Duration {
        hint.1
    }
    fn capacity(request: &usize) -> usize {
        *request
    }
    fn items(result: &(u32, Vec<Instant>)) -> usize {
        result.1.len()
    }
    fn label(line: &u32) -> Option<String> {
        Some(format!("queue-{line}"))
    }

    async fn claim(
        &self,
        claims: Vec<Claim<u32, usize>>,
    ) -> Result<Vec<ClaimOutcome<(u32, Vec<Instant>), String>>, String> {
        self.claims.lock().push(claims.iter().map(|claim| claim.requests.len()).sum());
        let _permit = self.gate.acquire().await.map_err(|_| "closed".to_owned())?;
        let mood = *self.mood.lock();
        match mood {
            Mood::Works => {}
            Mood::Fails => return Err("no database".into()),
            Mood::Panics => panic!("a defect in the API"),
        }
        let outcomes = claims.into_iter().map(|claim| {
            let results: Vec<_> = claim
                .requests
                .iter()
                .map(|max| self.take(claim.line, *max).map(|items| (claim.line, items)))
                .collect();
            let short = results.iter().any(Option::is_none);
            let further = claim.further;
            let next_due = (short || further).then(|| self.next_due(claim.line)).flatten();
            ClaimOutcome { further, ..ClaimOutcome::new(results, next_due) }
        });
        Ok(outcomes.collect())
    }

    async fn sweep(&self, lines: Vec<u32>) -> Result<Vec<Option<Duration>>, String> {
        *self.sweeps.lock() += 1;
        Ok(lines.into_iter().map(|line| self.next_due(line)).collect())
    }

    async fn release(&self, results: Vec<(u32, Vec<Instant>)>) -> Vec<Self::Hint> {
        for (queue, items) in results {
            *self.released.lock() += items.len();
            self.items.lock().entry(queue).or_default().extend(items);
        }
        // The lines of the results are woken without a hint.
        Vec::new()
    }
}

pub(crate) fn hub(store: &Arc<Store>, mode: WakeMode) -> Hub<Store> {
    hub_with(store, mode, LongPollConfig::default())
}

pub(crate) fn hub_with(
    store: &Arc<Store>,
    mode: WakeMode,
    long_poll: LongPollConfig,
) -> Hub<Store> {
    Hub::start(Arc::clone(store), HubOptions { label: "toy", mode, long_poll })
}

/// Commits one item and hints it, as a push in this process does.
pub(crate) fn push(store: &Store, hub: &Hub<Store>, queue: u32) {
    store.commit(queue, Duration::ZERO);
    hub.hint(&[(queue, Duration::ZERO)], HintSource::InProcess);
}

/// Starts a poll in a task of its own.
pub(crate) fn poll(
    hub: &Hub<Store>,
    queue: u32,
    patience: Patience,
) -> tokio::task::JoinHandle<TakeOutcome<(u32, Vec<Instant>)>> {
    let hub = hub.clone();
    tokio::spawn(async move { hub.take(queue, 1, patience).await.expect("no error") })
}

/// Lets everything that can run do so, without time passing.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
