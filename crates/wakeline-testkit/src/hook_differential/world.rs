//! Running one sequence on both sides.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{ApplicationRef, HookChange, HookLine, HookMessageId, Timestamp};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Application, Created, HookApplications as _, HookBackend, HookEndpoints as _, HookStore as _,
    NewApplication,
};

use super::compare::{Comparison, check_due_notifications, is_late, same};
use super::op::{ENDPOINTS, HookOp, PULLED};
use super::side::{HookHold, HookNames, HookSkew};
use crate::hook_conformance::{HookUnderTest, application};
use crate::oracle::MemoryStore;

/// Number of leases that are remembered. Some of them are stale.
const HOLDS_MAX: usize = 10;
/// Maximal number of calls of background work.
const PIECES_MAX: usize = 1_000;

/// Both sides, with the state of a sequence.
pub(super) struct HookWorld<'a> {
    fixture: &'a dyn HookUnderTest,
    pub(super) store: Arc<dyn HookBackend>,
    pub(super) oracle: MemoryStore,
    pub(super) names: HookNames,
    pub(super) skew: HookSkew,
    pub(super) holds: Vec<HookHold>,
    pub(super) messages: Vec<HookMessageId>,
    /// By line, the time at which the store's last sweep expected something. A store may know of it
    /// early, and does not notify waiters a second time.
    seen: Vec<Option<Timestamp>>,
}

/// The changes that a step of the store reported; `None` if there is nothing to check.
pub(super) type HookStep = Result<Option<Vec<HookChange>>, String>;

/// Runs a sequence on the store and on a new oracle.
pub(super) async fn replay(fixture: &dyn HookUnderTest, ops: &[HookOp]) -> Comparison {
    let mut world = HookWorld::begin(fixture).await?;
    let outcome = world.run(ops).await;
    let left = world.end().await;
    outcome.and(left)
}

/// Describes an error of the store.
pub(super) fn failed(error: StoreError) -> String {
    format!("the store failed: {error:?}")
}

fn made(created: Created<Application>) -> Result<Application, String> {
    match created {
        Created::New(made) => Ok(made),
        other => Err(format!("an application is not made: {other:?}")),
    }
}

impl<'a> HookWorld<'a> {
    async fn begin(fixture: &'a dyn HookUnderTest) -> Result<Self, String> {
        let (store, oracle, names) = (fixture.hook(), MemoryStore::new(), HookNames::fresh());
        fixture.advance(Duration::ZERO).await;
        let new = NewApplication { id: names.app, ..application(None) };
        let theirs = made(store.create_application(new.clone(), None).await.map_err(failed)?)?;
        let ours = made(oracle.create_application(new, None).await.map_err(failed)?)?;
        let skew = HookSkew(theirs.created_at.0 - ours.created_at.0);
        let which = ApplicationRef::Id(names.app);
        for n in 0..ENDPOINTS {
            let new = names.endpoint(n);
            oracle.create_endpoint(&which, new.clone(), None).await.map_err(failed)?;
            store.create_endpoint(&which, new, None).await.map_err(failed)?;
        }
        let (holds, messages) = (Vec::new(), Vec::new());
        let seen = vec![None; names.lines().len()];
        Ok(Self { fixture, store, oracle, names, skew, holds, messages, seen })
    }

    async fn run(&mut self, ops: &[HookOp]) -> Comparison {
        for (n, op) in ops.iter().enumerate() {
            self.step(op).await.map_err(|difference| format!("step {n}: {difference}"))?;
        }
        self.step(&HookOp::Inspect).await.map_err(|difference| format!("at the end: {difference}"))
    }

    /// Empties the store for the next case.
    async fn end(self) -> Comparison {
        self.store.delete_application(&self.app()).await.map_err(failed)?;
        for _ in 0..PIECES_MAX {
            let report = self.store.run_background(1_000).await.map_err(failed)?;
            if report.next_due != Some(Duration::ZERO) {
                return Ok(());
            }
        }
        Err("what a deleted application left never goes".to_owned())
    }

    pub(super) fn app(&self) -> ApplicationRef {
        ApplicationRef::Id(self.names.app)
    }

    fn due(&self) -> Vec<Option<Duration>> {
        let lines = self.names.lines();
        lines.iter().map(|line| self.oracle.line_due_in(line, false, false)).collect()
    }

    /// Returns the due times as far as they are known: the store may expect something sooner.
    fn known(&self) -> Vec<Option<Duration>> {
        let now = self.oracle.now();
        let seen = self.seen.iter().map(|at| at.map(|at| now.until(at)));
        self.due()
            .into_iter()
            .zip(seen)
            .map(|(due, seen)| due.into_iter().chain(seen).min())
            .collect()
    }

    /// Applies one operation. Afterwards no due time may be late, and no waiter may have missed a
    /// change.
    async fn step(&mut self, op: &HookOp) -> Comparison {
        let before = self.known();
        let changes = self.apply(op).await?;
        let lines = self.names.lines();
        if let Some(changes) = changes {
            check_due_notifications(&lines, &before, &self.due(), &changes)?;
        }
        let oracle = self.oracle.sweep_hook(lines.clone()).await.map_err(failed)?;
        let store = self.store.sweep_hook(lines.clone()).await.map_err(failed)?;
        same("number of swept lines", oracle.len(), store.len())?;
        let now = self.oracle.now();
        self.seen = store.iter().map(|due| due.map(|due| now.plus(due))).collect();
        for ((line, oracle), store) in lines.iter().zip(oracle).zip(store) {
            if is_late(oracle, store) {
                return Err(format!("{line:?} is due in {oracle:?}, the sweep says {store:?}"));
            }
        }
        Ok(())
    }

    async fn apply(&mut self, op: &HookOp) -> HookStep {
        match op {
            HookOp::Emit { mail, requests } => return self.emit(mail, requests).await,
            HookOp::Claim { pull, requests, lease_secs } => {
                let line = if *pull {
                    HookLine::Pull(self.names.endpoints[PULLED])
                } else {
                    HookLine::Push
                };
                self.claim(line, requests, Duration::from_secs(*lease_secs)).await?;
            }
            HookOp::ClaimAgain(hold) => self.claim_again(*hold).await?,
            HookOp::Settle { hold, ending } => return self.settle(*hold, *ending).await,
            HookOp::Release(hold) => return self.release(*hold).await,
            HookOp::Extend(hold) => self.extend(*hold).await?,
            HookOp::Switch { endpoint, on } => return self.switch(*endpoint, *on).await,
            HookOp::Limit { endpoint, in_flight_max } => {
                return self.limit(*endpoint, *in_flight_max).await;
            }
            HookOp::DeleteEndpoint(endpoint) => self.delete_endpoint(*endpoint).await?,
            HookOp::Rotate { endpoint, grace } => self.rotate(*endpoint, *grace).await?,
            HookOp::Resend { message, endpoint } => return self.resend(*message, *endpoint).await,
            HookOp::Cancel { message, endpoint } => return self.cancel(*message, *endpoint).await,
            HookOp::Expunge(message) => self.expunge(*message).await?,
            HookOp::Job { kind, endpoint } => self.start_job(*kind, *endpoint).await?,
            HookOp::Background { rows } => return self.background(*rows).await,
            HookOp::Advance { ms } => self.advance(*ms).await,
            HookOp::AdvanceToDue { beside_ms } => {
                if let Some(due) = self.oracle.next_due().filter(|due| due.as_secs() < 100) {
                    let ms = u64::try_from(due.as_millis()).expect("a short time");
                    self.advance(ms.saturating_add_signed(*beside_ms)).await;
                }
            }
            HookOp::Inspect => self.inspect().await?,
        }
        Ok(None)
    }

    async fn advance(&mut self, ms: u64) {
        let by = Duration::from_millis(ms);
        self.oracle.advance(by);
        self.fixture.advance(by).await;
    }

    pub(super) fn remember(&mut self, hold: HookHold) {
        self.holds.push(hold);
        if self.holds.len() > HOLDS_MAX {
            self.holds.remove(0);
        }
    }

    /// Returns the n-th newest lease, modulo the number of leases.
    pub(super) fn hold(&self, n: usize) -> Option<HookHold> {
        self.holds.iter().rev().nth(n.checked_rem(self.holds.len())?).cloned()
    }

    /// Returns the n-th newest message.
    pub(super) fn message(&self, n: usize) -> Option<HookMessageId> {
        self.messages.iter().rev().nth(n.checked_rem(self.messages.len())?).copied()
    }
}
