//! Runs one sequence on both sides.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{ApplicationRef, Capabilities, FlowChange, FlowLine};
use wakeline_store::flow::{
    DeleteInstances, Envelope, FlowStore as _, TurnRequest, WorkItem, WorkRequest,
};
use wakeline_store::hook::HookBackend;
use wakeline_store::{Store, StoreError};

use super::compare::{Same, same, sweep_is_not_late, told_of_what_became_due};
use super::op::{Asks, Line, Mail, Op};
use super::side::{Hold, Leased, Names, Skew, filter, session_claim};
use crate::flow_conformance::{Flow, FlowUnderTest, nothing, start_of, turn_line};
use crate::oracle::MemoryStore;

/// Leases that are remembered, most of them stale.
const HOLDS_MAX: usize = 16;
/// How long leases last that are born with a write.
const BORN_LEASE: Duration = Duration::from_secs(20);

/// Both sides, and what is known of them.
pub(super) struct World<'a> {
    fixture: &'a dyn FlowUnderTest,
    pub(super) store: Arc<dyn Flow>,
    pub(super) queues: Arc<dyn Store>,
    pub(super) hooks: Arc<dyn HookBackend>,
    pub(super) oracle: MemoryStore,
    pub(super) names: Names,
    pub(super) skew: Skew,
    pub(super) holds: Vec<Hold>,
    lines: Vec<FlowLine>,
    /// Counts what turns send to themselves: each has a key of its own.
    pub(super) sent: u64,
}

/// What a step lets the store tell its waiters; `None` where there is nothing to check.
pub(super) type Told = Result<Option<Vec<FlowChange>>, String>;

/// Runs a sequence on the store and on a fresh oracle.
pub(super) async fn replay(fixture: &dyn FlowUnderTest, ops: &[Op]) -> Same {
    let mut world = World::begin(fixture).await?;
    let outcome = world.run(ops).await;
    world.end().await;
    outcome
}

/// An error of the store, in words.
pub(super) fn failed(error: StoreError) -> String {
    format!("the store failed: {error:?}")
}

impl<'a> World<'a> {
    async fn run(&mut self, ops: &[Op]) -> Same {
        for (n, op) in ops.iter().enumerate() {
            self.step(op).await.map_err(|difference| format!("step {n}: {difference}"))?;
        }
        self.step(&Op::Inspect).await.map_err(|difference| format!("at the end: {difference}"))
    }

    async fn begin(fixture: &'a dyn FlowUnderTest) -> Result<Self, String> {
        let (store, oracle, names) = (fixture.flow(), MemoryStore::new(), Names::fresh());
        // The store's clock, as told to a turn that leaves nothing behind.
        let clock = format!("{}-clock", names.prefix());
        let envelope = start_of(&clock, &clock);
        let needed = envelope.starts.clone().ok_or("a start names what it needs")?;
        store.enqueue(vec![envelope], Vec::new()).await.map_err(failed)?;
        let line = turn_line(&Capabilities::Of([needed].into()), 1);
        let mut claimed = store.claim_turns(vec![line]).await.map_err(failed)?;
        let turn = claimed.remove(0).turns.remove(0).ok_or("the store does not give a turn")?;
        store.commit_turn(nothing(&turn)).await.map_err(failed)?;
        let skew = Skew(turn.now.0 - oracle.now().0);
        let (lines, queues, hooks) = (names.lines(), fixture.store(), fixture.hooks());
        names.listeners.make(&oracle).await?;
        names.listeners.make(&*hooks).await?;
        let holds = Vec::new();
        Ok(Self { fixture, store, queues, hooks, oracle, names, skew, holds, lines, sent: 0 })
    }

    /// Leaves the store empty for the next case. What it made of the sequence is told already.
    async fn end(self) {
        let instances = self.names.instances();
        // What waits for a start is deleted with it.
        let start = |id: &wakeline_core::InstanceId| start_of(id.as_str(), "none");
        let starts: Vec<Envelope> = instances.iter().map(start).collect();
        self.store.enqueue(starts, Vec::new()).await.ok();
        self.store.delete_instances(DeleteInstances { instances, force: true }).await.ok();
        self.fixture.advance(Duration::from_secs(3_600)).await;
        self.store.keep_sessions(Vec::new(), Duration::ZERO, Duration::ZERO).await.ok();
        self.queues.delete_queue(&self.names.queue()).await.ok();
        let application = ApplicationRef::Id(self.names.listeners.application());
        self.hooks.delete_application(&application).await.ok();
    }

    /// One operation; then nothing may be late, and nobody may have missed a change.
    async fn step(&mut self, op: &Op) -> Same {
        let lines = self.lines.clone();
        let before = self.oracle.sweep_flow(lines.clone()).await.map_err(failed)?;
        let changes = self.apply(op).await?;
        let after = self.oracle.sweep_flow(lines.clone()).await.map_err(failed)?;
        if let Some(changes) = changes {
            told_of_what_became_due(&lines, &before, &after, &changes)?;
        }
        let store = self.store.sweep_flow(lines.clone()).await.map_err(failed)?;
        sweep_is_not_late(&lines, &after, &store)
    }

    async fn apply(&mut self, op: &Op) -> Told {
        match op {
            Op::Send { mails, dispatchers } => return self.send(mails, dispatchers).await,
            Op::ClaimTurns { line, requests, lease_secs } => {
                self.claim_turns(*line, *requests, Duration::from_secs(*lease_secs)).await?;
            }
            Op::ClaimAgain(hold) => self.claim_again(*hold).await?,
            Op::Commit { hold, plan } => return self.commit(*hold, plan).await,
            Op::AddWork { to, task } => return self.add_work(*to, *task).await,
            Op::ClaimWork { asks, requests, lease_secs } => {
                self.claim_work(*asks, *requests, Duration::from_secs(*lease_secs)).await?;
            }
            Op::Complete { hold, mail, dispatchers } => {
                return self.complete(*hold, mail.as_ref(), dispatchers).await;
            }
            Op::Renew { holds, secs } => self.renew(holds, *secs).await?,
            Op::Abandon { hold, delay_ms, uncounted } => {
                return self.abandon(*hold, Duration::from_millis(*delay_ms), *uncounted).await;
            }
            Op::KeepSessions { owners, secs, idle_ms } => {
                self.keep_sessions(owners, *secs, *idle_ms).await?;
            }
            Op::Suspend { instance, mismatch } => self.suspend(*instance, *mismatch).await?,
            Op::SuspendTurn(hold) => self.suspend_turn(*hold).await?,
            Op::Resume(instance) => return self.resume(*instance).await,
            Op::RetryMismatched(line) => return self.retry_mismatched(*line).await,
            Op::Terminate { instance, mail } => {
                return self.terminate(*instance, mail.as_ref()).await;
            }
            Op::Delete { instances, force } => self.delete(instances, *force).await?,
            Op::DeleteMatching { instances, ended_ms_ago } => {
                self.delete_matching(instances.as_ref(), *ended_ms_ago).await?;
            }
            Op::Prune { keep_last, ended_ms_ago } => self.prune(*keep_last, *ended_ms_ago).await?,
            Op::Advance { ms } => self.advance(*ms).await,
            Op::AdvanceToDue { beside_ms } => {
                if let Some(due) = self.oracle.next_due() {
                    let ms = u64::try_from(due.as_millis()).expect("a short time");
                    self.advance(ms.saturating_add_signed(*beside_ms)).await;
                }
            }
            Op::Inspect => self.inspect().await?,
        }
        Ok(None)
    }

    async fn advance(&mut self, ms: u64) {
        let by = Duration::from_millis(ms);
        self.oracle.advance(by);
        self.fixture.advance(by).await;
    }

    /// A message as each side gets it.
    pub(super) fn envelopes(&self, mail: &Mail) -> (Envelope, Envelope) {
        let (oracle, store) = self.skew.visible(mail.when, self.oracle.now());
        (self.names.envelope(mail, oracle), self.names.envelope(mail, store))
    }

    pub(super) fn dispatchers(&self, lines: &[Line]) -> Vec<TurnRequest> {
        let request = |line: &Line| TurnRequest {
            key: Uuid::new_v4(),
            lease: BORN_LEASE,
            capabilities: self.names.capabilities(*line),
        };
        lines.iter().map(request).collect()
    }

    pub(super) fn remember(&mut self, hold: Hold) {
        self.holds.push(hold);
        if self.holds.len() > HOLDS_MAX {
            self.holds.remove(0);
        }
    }

    pub(super) fn remember_work(&mut self, oracle: &WorkItem, store: &WorkItem) {
        let (oracle, store) = (oracle.token, store.token);
        self.remember(Hold { oracle, store, what: Leased::Work });
    }

    /// The n-th newest lease; round and round if there are fewer.
    pub(super) fn hold(&self, n: usize) -> Option<Hold> {
        self.holds.iter().rev().nth(n.checked_rem(self.holds.len())?).cloned()
    }

    /// The n-th newest lease of a turn, with the turn.
    pub(super) fn turn_hold(&self, n: usize) -> Option<Hold> {
        let is_turn = |hold: &&Hold| matches!(hold.what, Leased::Turn(..));
        let turns: Vec<_> = self.holds.iter().rev().filter(is_turn).collect();
        turns.get(n.checked_rem(turns.len())?).map(|hold| (*hold).clone())
    }

    /// The n-th newest lease of work.
    pub(super) fn work_hold(&self, n: usize) -> Option<Hold> {
        let is_work = |hold: &&Hold| matches!(hold.what, Leased::Work);
        let work: Vec<_> = self.holds.iter().rev().filter(is_work).collect();
        work.get(n.checked_rem(work.len())?).map(|hold| (*hold).clone())
    }

    pub(super) fn same_turn(
        &mut self,
        oracle: &wakeline_store::flow::TurnItem,
        store: &wakeline_store::flow::TurnItem,
        line: &Capabilities,
    ) -> Same {
        same("turn", Skew(0).turn(oracle), self.skew.turn(store))?;
        let what = Leased::Turn(Box::new(oracle.clone()), line.clone());
        self.remember(Hold { oracle: oracle.token, store: store.token, what });
        Ok(())
    }
}

/// One worker of a line.
pub(super) fn worker(asks: Asks, lease: Duration) -> WorkRequest {
    let (filter, session) = (filter(asks), session_claim(asks));
    WorkRequest { key: Uuid::new_v4(), lease, filter, session }
}
