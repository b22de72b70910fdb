//! Runs one sequence on both sides.

use std::sync::Arc;
use std::time::Duration;

use wakeline_core::{ApplicationRef, HookChange, HookLine, HookMessageId, Timestamp};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Application, Created, HookApplications as _, HookBackend, HookEndpoints as _, HookStore as _,
    NewApplication,
};

use super::compare::{Same, is_late, same, told_of_what_became_due};
use super::op::{ENDPOINTS, Op, PULLED};
use super::side::{Hold, Names, Skew};
use crate::hook_conformance::{HookUnderTest, application};
use crate::oracle::MemoryStore;

/// Leases that are remembered, some of them stale.
const HOLDS_MAX: usize = 10;
/// Pieces of background work, at most.
const PIECES_MAX: usize = 1_000;

/// Both sides, and what is known of them.
pub(super) struct World<'a> {
    fixture: &'a dyn HookUnderTest,
    pub(super) store: Arc<dyn HookBackend>,
    pub(super) oracle: MemoryStore,
    pub(super) names: Names,
    pub(super) skew: Skew,
    pub(super) holds: Vec<Hold>,
    pub(super) messages: Vec<HookMessageId>,
    /// By line, when the store's last sweep saw something: a store may know of it early, and tells
    /// nobody a second time.
    seen: Vec<Option<Timestamp>>,
}

/// What a step lets the store tell its waiters; `None` where there is nothing to check.
pub(super) type Told = Result<Option<Vec<HookChange>>, String>;

/// Runs a sequence on the store and on a fresh oracle.
pub(super) async fn replay(fixture: &dyn HookUnderTest, ops: &[Op]) -> Same {
    let mut world = World::begin(fixture).await?;
    let outcome = world.run(ops).await;
    let left = world.end().await;
    outcome.and(left)
}

/// An error of the store, in words.
pub(super) fn failed(error: StoreError) -> String {
    format!("the store failed: {error:?}")
}

fn made(created: Created<Application>) -> Result<Application, String> {
    match created {
        Created::New(made) => Ok(made),
        other => Err(format!("an application is not made: {other:?}")),
    }
}

impl<'a> World<'a> {
    async fn begin(fixture: &'a dyn HookUnderTest) -> Result<Self, String> {
        let (store, oracle, names) = (fixture.hook(), MemoryStore::new(), Names::fresh());
        fixture.advance(Duration::ZERO).await;
        let new = NewApplication { id: names.app, ..application(None) };
        let theirs = made(store.create_application(new.clone(), None).await.map_err(failed)?)?;
        let ours = made(oracle.create_application(new, None).await.map_err(failed)?)?;
        let skew = Skew(theirs.created_at.0 - ours.created_at.0);
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

    async fn run(&mut self, ops: &[Op]) -> Same {
        for (n, op) in ops.iter().enumerate() {
            self.step(op).await.map_err(|difference| format!("step {n}: {difference}"))?;
        }
        self.step(&Op::Inspect).await.map_err(|difference| format!("at the end: {difference}"))
    }

    /// Leaves the store empty for the next case.
    async fn end(self) -> Same {
        self.store.delete_application(&self.app()).await.map_err(failed)?;
        for _ in 0..PIECES_MAX {
            let report = self.store.do_chores(1_000).await.map_err(failed)?;
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

    /// The same, as far as it is known: the store may expect something sooner.
    fn known(&self) -> Vec<Option<Duration>> {
        let now = self.oracle.now();
        let seen = self.seen.iter().map(|at| at.map(|at| now.until(at)));
        self.due()
            .into_iter()
            .zip(seen)
            .map(|(due, seen)| due.into_iter().chain(seen).min())
            .collect()
    }

    /// One operation; then nothing may be late, and nobody may have missed a change.
    async fn step(&mut self, op: &Op) -> Same {
        let before = self.known();
        let changes = self.apply(op).await?;
        let lines = self.names.lines();
        if let Some(changes) = changes {
            told_of_what_became_due(&lines, &before, &self.due(), &changes)?;
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

    async fn apply(&mut self, op: &Op) -> Told {
        match op {
            Op::Emit { mail, asks } => return self.emit(mail, asks).await,
            Op::Claim { pull, asks, lease_secs } => {
                let line = match pull {
                    true => HookLine::Pull(self.names.endpoints[PULLED]),
                    false => HookLine::Push,
                };
                self.claim(line, asks, Duration::from_secs(*lease_secs)).await?;
            }
            Op::ClaimAgain(hold) => self.claim_again(*hold).await?,
            Op::Settle { hold, ending } => return self.settle(*hold, *ending).await,
            Op::Release(hold) => return self.release(*hold).await,
            Op::Extend(hold) => self.extend(*hold).await?,
            Op::Switch { endpoint, on } => return self.switch(*endpoint, *on).await,
            Op::Limit { endpoint, in_flight_max } => {
                return self.limit(*endpoint, *in_flight_max).await;
            }
            Op::DeleteEndpoint(endpoint) => self.delete_endpoint(*endpoint).await?,
            Op::Rotate { endpoint, grace } => self.rotate(*endpoint, *grace).await?,
            Op::Resend { message, endpoint } => return self.resend(*message, *endpoint).await,
            Op::Cancel { message, endpoint } => return self.cancel(*message, *endpoint).await,
            Op::Expunge(message) => self.expunge(*message).await?,
            Op::Job { kind, endpoint } => self.start_job(*kind, *endpoint).await?,
            Op::Chores { rows } => return self.chores(*rows).await,
            Op::Advance { ms } => self.advance(*ms).await,
            Op::AdvanceToDue { beside_ms } => {
                if let Some(due) = self.oracle.next_due().filter(|due| due.as_secs() < 100) {
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

    pub(super) fn remember(&mut self, hold: Hold) {
        self.holds.push(hold);
        if self.holds.len() > HOLDS_MAX {
            self.holds.remove(0);
        }
    }

    /// The n-th newest lease; round and round if there are fewer.
    pub(super) fn hold(&self, n: usize) -> Option<Hold> {
        self.holds.iter().rev().nth(n.checked_rem(self.holds.len())?).cloned()
    }

    /// The n-th newest message.
    pub(super) fn message(&self, n: usize) -> Option<HookMessageId> {
        self.messages.iter().rev().nth(n.checked_rem(self.messages.len())?).copied()
    }
}
