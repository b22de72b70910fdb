//! Running one sequence on both sides.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{ApplicationRef, Capabilities, FlowChange, FlowLine};
use wakeline_store::flow::{
    DeleteInstances, Envelope, FlowStore as _, TurnRequest, WorkItem, WorkRequest,
};
use wakeline_store::hook::HookBackend;
use wakeline_store::{Store, StoreError};

use super::compare::{Comparison, check_due_notifications, same, sweep_is_not_late};
use super::op::{DispatcherSpec, FlowMail, FlowOp, WorkerSpec};
use super::side::{FlowHold, FlowNames, FlowSkew, HeldItem, filter, session_claim};
use crate::flow_conformance::{Flow, FlowUnderTest, nothing, start_of, turn_line};
use crate::oracle::MemoryStore;

/// Number of leases that are remembered. Most of them are stale.
const HOLDS_MAX: usize = 16;
/// Duration of leases that are made on insert.
const LEASE_ON_INSERT: Duration = Duration::from_secs(20);

/// Both sides, with the state of a sequence.
pub(super) struct FlowWorld<'a> {
    fixture: &'a dyn FlowUnderTest,
    pub(super) store: Arc<dyn Flow>,
    pub(super) queues: Arc<dyn Store>,
    pub(super) hooks: Arc<dyn HookBackend>,
    pub(super) oracle: MemoryStore,
    pub(super) names: FlowNames,
    pub(super) skew: FlowSkew,
    pub(super) holds: Vec<FlowHold>,
    lines: Vec<FlowLine>,
    /// Number of messages that turns sent to themselves; it makes their keys unique.
    pub(super) sent: u64,
}

/// The changes that a step of the store reported; `None` if there is nothing to check.
pub(super) type FlowStep = Result<Option<Vec<FlowChange>>, String>;

/// Runs a sequence on the store and on a new oracle.
pub(super) async fn replay(fixture: &dyn FlowUnderTest, ops: &[FlowOp]) -> Comparison {
    let mut world = FlowWorld::begin(fixture).await?;
    let outcome = world.run(ops).await;
    world.end().await;
    outcome
}

/// Describes an error of the store.
pub(super) fn failed(error: StoreError) -> String {
    format!("the store failed: {error:?}")
}

impl<'a> FlowWorld<'a> {
    async fn run(&mut self, ops: &[FlowOp]) -> Comparison {
        for (n, op) in ops.iter().enumerate() {
            self.step(op).await.map_err(|difference| format!("step {n}: {difference}"))?;
        }
        self.step(&FlowOp::Inspect).await.map_err(|difference| format!("at the end: {difference}"))
    }

    async fn begin(fixture: &'a dyn FlowUnderTest) -> Result<Self, String> {
        let (store, oracle, names) = (fixture.flow(), MemoryStore::new(), FlowNames::fresh());
        // The store's clock is read from a turn that leaves nothing behind.
        let clock = format!("{}-clock", names.prefix());
        let envelope = start_of(&clock, &clock);
        let needed = envelope.starts.clone().ok_or("a start names what it needs")?;
        store.enqueue(vec![envelope], Vec::new()).await.map_err(failed)?;
        let line = turn_line(&Capabilities::Of([needed].into()), 1);
        let mut claimed = store.claim_turns(vec![line]).await.map_err(failed)?;
        let turn = claimed.remove(0).turns.remove(0).ok_or("the store does not give a turn")?;
        store.commit_turn(nothing(&turn)).await.map_err(failed)?;
        let skew = FlowSkew(turn.now.0 - oracle.now().0);
        let (lines, queues, hooks) = (names.lines(), fixture.store(), fixture.hooks());
        names.listeners.make(&oracle).await?;
        names.listeners.make(&*hooks).await?;
        let holds = Vec::new();
        Ok(Self { fixture, store, queues, hooks, oracle, names, skew, holds, lines, sent: 0 })
    }

    /// Empties the store for the next case. The results of the sequence have been compared before.
    async fn end(self) {
        let instances = self.names.instances();
        // Messages that wait for a start are deleted together with it.
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

    /// Applies one operation. Afterwards no due time may be late, and no waiter may have missed a
    /// change.
    async fn step(&mut self, op: &FlowOp) -> Comparison {
        let lines = self.lines.clone();
        let before = self.oracle.sweep_flow(lines.clone()).await.map_err(failed)?;
        let changes = self.apply(op).await?;
        let after = self.oracle.sweep_flow(lines.clone()).await.map_err(failed)?;
        if let Some(changes) = changes {
            check_due_notifications(&lines, &before, &after, &changes)?;
        }
        let store = self.store.sweep_flow(lines.clone()).await.map_err(failed)?;
        sweep_is_not_late(&lines, &after, &store)
    }

    async fn apply(&mut self, op: &FlowOp) -> FlowStep {
        match op {
            FlowOp::Send { mails, dispatchers } => return self.send(mails, dispatchers).await,
            FlowOp::ClaimTurns { line, requests, lease_secs } => {
                self.claim_turns(*line, *requests, Duration::from_secs(*lease_secs)).await?;
            }
            FlowOp::ClaimAgain(hold) => self.claim_again(*hold).await?,
            FlowOp::Commit { hold, plan } => return self.commit(*hold, plan).await,
            FlowOp::AddWork { to, task } => return self.add_work(*to, *task).await,
            FlowOp::ClaimWork { spec, requests, lease_secs } => {
                self.claim_work(*spec, *requests, Duration::from_secs(*lease_secs)).await?;
            }
            FlowOp::Complete { hold, mail, dispatchers } => {
                return self.complete(*hold, mail.as_ref(), dispatchers).await;
            }
            FlowOp::Renew { holds, secs } => self.renew(holds, *secs).await?,
            FlowOp::Abandon { hold, delay_ms, uncounted } => {
                return self.abandon(*hold, Duration::from_millis(*delay_ms), *uncounted).await;
            }
            FlowOp::KeepSessions { owners, secs, idle_ms } => {
                self.keep_sessions(owners, *secs, *idle_ms).await?;
            }
            FlowOp::Suspend { instance, mismatch } => self.suspend(*instance, *mismatch).await?,
            FlowOp::SuspendTurn(hold) => self.suspend_turn(*hold).await?,
            FlowOp::Resume(instance) => return self.resume(*instance).await,
            FlowOp::RetryMismatched(line) => return self.retry_mismatched(*line).await,
            FlowOp::Terminate { instance, mail } => {
                return self.terminate(*instance, mail.as_ref()).await;
            }
            FlowOp::Delete { instances, force } => self.delete(instances, *force).await?,
            FlowOp::DeleteMatching { instances, ended_ms_ago } => {
                self.delete_matching(instances.as_ref(), *ended_ms_ago).await?;
            }
            FlowOp::Prune { keep_last, ended_ms_ago } => {
                self.prune(*keep_last, *ended_ms_ago).await?
            }
            FlowOp::Advance { ms } => self.advance(*ms).await,
            FlowOp::AdvanceToDue { beside_ms } => {
                if let Some(due) = self.oracle.next_due() {
                    let ms = u64::try_from(due.as_millis()).expect("a short time");
                    self.advance(ms.saturating_add_signed(*beside_ms)).await;
                }
            }
            FlowOp::Inspect => self.inspect().await?,
        }
        Ok(None)
    }

    async fn advance(&mut self, ms: u64) {
        let by = Duration::from_millis(ms);
        self.oracle.advance(by);
        self.fixture.advance(by).await;
    }

    /// Returns a message for the oracle and for the store.
    pub(super) fn envelopes(&self, mail: &FlowMail) -> (Envelope, Envelope) {
        let (oracle, store) = self.skew.visible(mail.when, self.oracle.now());
        (self.names.envelope(mail, oracle), self.names.envelope(mail, store))
    }

    pub(super) fn dispatchers(&self, lines: &[DispatcherSpec]) -> Vec<TurnRequest> {
        let request = |line: &DispatcherSpec| TurnRequest {
            key: Uuid::new_v4(),
            lease: LEASE_ON_INSERT,
            capabilities: self.names.capabilities(*line),
        };
        lines.iter().map(request).collect()
    }

    pub(super) fn remember(&mut self, hold: FlowHold) {
        self.holds.push(hold);
        if self.holds.len() > HOLDS_MAX {
            self.holds.remove(0);
        }
    }

    pub(super) fn remember_work(&mut self, oracle: &WorkItem, store: &WorkItem) {
        let (oracle, store) = (oracle.token, store.token);
        self.remember(FlowHold { oracle, store, what: HeldItem::Work });
    }

    /// Returns the n-th newest lease, modulo the number of leases.
    pub(super) fn hold(&self, n: usize) -> Option<FlowHold> {
        self.holds.iter().rev().nth(n.checked_rem(self.holds.len())?).cloned()
    }

    /// Returns the n-th newest lease of a turn.
    pub(super) fn turn_hold(&self, n: usize) -> Option<FlowHold> {
        let is_turn = |hold: &&FlowHold| matches!(hold.what, HeldItem::Turn(..));
        let turns: Vec<_> = self.holds.iter().rev().filter(is_turn).collect();
        turns.get(n.checked_rem(turns.len())?).map(|hold| (*hold).clone())
    }

    /// Returns the n-th newest lease of an activity.
    pub(super) fn work_hold(&self, n: usize) -> Option<FlowHold> {
        let is_work = |hold: &&FlowHold| matches!(hold.what, HeldItem::Work);
        let work: Vec<_> = self.holds.iter().rev().filter(is_work).collect();
        work.get(n.checked_rem(work.len())?).map(|hold| (*hold).clone())
    }

    pub(super) fn same_turn(
        &mut self,
        oracle: &wakeline_store::flow::TurnItem,
        store: &wakeline_store::flow::TurnItem,
        line: &Capabilities,
    ) -> Comparison {
        same("turn", FlowSkew(0).turn(oracle), self.skew.turn(store))?;
        let what = HeldItem::Turn(Box::new(oracle.clone()), line.clone());
        self.remember(FlowHold { oracle: oracle.token, store: store.token, what });
        Ok(())
    }
}

/// Returns the request of a worker.
pub(super) fn worker(spec: WorkerSpec, lease: Duration) -> WorkRequest {
    let (filter, session) = (filter(spec), session_claim(spec));
    WorkRequest { key: Uuid::new_v4(), lease, filter, session }
}
