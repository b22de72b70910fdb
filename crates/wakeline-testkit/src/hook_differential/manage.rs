//! Administration on both sides.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{EndpointRef, JobId, MessageRef};
use wakeline_store::hook::{
    DeliveryFilter, DeliveryState, EndpointUpdate, HookAdmin, HookBackgroundReport,
    HookEndpoints as _, JobKind, JobSpec, ResendOutcome, Rotation, UpdateOutcome,
};

use super::compare::{Comparison, same};
use super::side::HookSkew;
use super::world::{HookStep, HookWorld, failed};
use crate::hook_conformance::secs;

impl HookWorld<'_> {
    fn endpoint(&self, n: usize) -> EndpointRef {
        EndpointRef::Id(self.names.endpoints[n])
    }

    /// Returns whether an endpoint is deleted.
    pub(super) async fn is_deleted(&self, n: usize) -> Result<bool, String> {
        let found = self.oracle.endpoint(&self.app(), &self.endpoint(n)).await.map_err(failed)?;
        Ok(found.is_none())
    }

    /// Returns whether an endpoint is deleted or disabled.
    pub(super) async fn is_off(&self, n: usize) -> Result<bool, String> {
        let found = self.oracle.endpoint(&self.app(), &self.endpoint(n)).await.map_err(failed)?;
        Ok(found.is_none_or(|one| one.disabled.is_some()))
    }

    async fn update(&mut self, n: usize, update: EndpointUpdate) -> HookStep {
        let (app, which) = (self.app(), self.endpoint(n));
        let oracle =
            self.oracle.update_endpoint(&app, &which, update.clone()).await.map_err(failed)?;
        let store = self.store.update_endpoint(&app, &which, update).await.map_err(failed)?;
        let plain = |skew: HookSkew, outcome| match outcome {
            UpdateOutcome::Updated(one) => UpdateOutcome::Updated(skew.endpoint(one)),
            other => other,
        };
        same("update", plain(HookSkew(0), oracle.0), plain(self.skew, store.0))?;
        Ok(Some(store.1))
    }

    pub(super) async fn switch(&mut self, n: usize, on: bool) -> HookStep {
        let update = EndpointUpdate { disabled: Some(!on), ..EndpointUpdate::default() };
        self.update(n, update).await
    }

    pub(super) async fn limit(&mut self, n: usize, in_flight_max: u32) -> HookStep {
        let mut options = self.names.endpoint(n).options;
        options.in_flight_max = in_flight_max;
        self.update(n, EndpointUpdate { options: Some(options), ..Default::default() }).await
    }

    pub(super) async fn delete_endpoint(&mut self, n: usize) -> Comparison {
        let (app, which) = (self.app(), self.endpoint(n));
        let oracle = self.oracle.delete_endpoint(&app, &which).await.map_err(failed)?;
        let store = self.store.delete_endpoint(&app, &which).await.map_err(failed)?;
        same("deletion of an endpoint", oracle.0, store.0)
    }

    pub(super) async fn rotate(&mut self, n: usize, grace: u64) -> Comparison {
        let (app, which) = (self.app(), self.endpoint(n));
        let encrypted = Bytes::from(self.oracle.now().0.to_string());
        let rotation = Rotation { encrypted, grace: secs(grace), old_max: 2 };
        let oracle = self.oracle.rotate_secret(&app, &which, rotation.clone()).await;
        let store = self.store.rotate_secret(&app, &which, rotation).await.map_err(failed)?;
        same("rotation", oracle.map_err(failed)?, store)
    }

    /// Resends a message. The step is skipped if a lease has expired that the store has not yet
    /// processed, because the results may differ until then.
    pub(super) async fn resend(&mut self, message: usize, n: usize) -> HookStep {
        let Some(id) = self.message(message) else { return Ok(None) };
        if self.oracle.is_blurred(Some(id)) {
            return Ok(None);
        }
        let (app, message, to) = (self.app(), MessageRef::Id(id), self.endpoint(n));
        let oracle = self.oracle.resend(&app, &message, &to).await.map_err(failed)?;
        let store = self.store.resend(&app, &message, &to).await.map_err(failed)?;
        // The rules leave open which of several reasons is returned.
        let refused = |outcome| !matches!(outcome, ResendOutcome::Due | ResendOutcome::Missing);
        if refused(oracle.0) && refused(store.0) {
            return Ok(None);
        }
        same("resend", oracle.0, store.0)?;
        Ok(Some(store.1))
    }

    pub(super) async fn cancel(&mut self, message: usize, n: Option<usize>) -> HookStep {
        let Some(id) = self.message(message) else { return Ok(None) };
        if self.oracle.is_blurred(Some(id)) {
            return Ok(None);
        }
        let (app, message, to) = (self.app(), MessageRef::Id(id), n.map(|n| self.endpoint(n)));
        let oracle = self.oracle.cancel(&app, &message, to.as_ref()).await.map_err(failed)?;
        let store = self.store.cancel(&app, &message, to.as_ref()).await.map_err(failed)?;
        let count = |cancelled: &Option<(u64, _)>| cancelled.as_ref().map(|(count, _)| *count);
        same("cancelled", count(&oracle), count(&store))?;
        Ok(store.map(|(_, changes)| changes))
    }

    pub(super) async fn expunge(&mut self, message: usize) -> Comparison {
        let Some(id) = self.message(message) else { return Ok(()) };
        let (app, message) = (self.app(), MessageRef::Id(id));
        let oracle = self.oracle.expunge_payload(&app, &message).await.map_err(failed)?;
        let store = self.store.expunge_payload(&app, &message).await.map_err(failed)?;
        same("expunged", oracle, store)
    }

    pub(super) async fn start_job(&mut self, kind: JobKind, n: Option<usize>) -> Comparison {
        let states = match kind {
            JobKind::Resend => vec![DeliveryState::Failed, DeliveryState::Delivered],
            JobKind::Recover | JobKind::ReplayMissing | JobKind::Cancel => Vec::new(),
        };
        let endpoint = n.map(|n| self.names.endpoints[n]);
        let endpoint = match kind {
            JobKind::ReplayMissing => endpoint.or(Some(self.names.endpoints[0])),
            JobKind::Recover | JobKind::Resend | JobKind::Cancel => endpoint,
        };
        let filter = DeliveryFilter { endpoint, states, ..DeliveryFilter::default() };
        let job = JobSpec { id: JobId::generate(), kind, filter };
        self.oracle.start_job(&self.app(), job.clone()).await.map_err(failed)?;
        let started = self.store.start_job(&self.app(), job).await.map_err(failed)?;
        same("whether a job began", true, started.is_some())
    }

    /// Runs all background work on both sides.
    pub(super) async fn background(&mut self, rows: u32) -> HookStep {
        if self.oracle.has_job() && self.oracle.is_blurred(None) {
            return Ok(None);
        }
        work_off(&self.oracle, rows).await?;
        Ok(Some(work_off(&*self.store, rows).await?))
    }
}

async fn work_off<S: HookAdmin + ?Sized>(
    store: &S,
    rows: u32,
) -> Result<Vec<wakeline_core::HookChange>, String> {
    let mut changes = Vec::new();
    for _ in 0..1_000 {
        let report: HookBackgroundReport = store.run_background(rows).await.map_err(failed)?;
        changes.extend(report.changes);
        if report.next_due != Some(Duration::ZERO) {
            return Ok(changes);
        }
    }
    Err("there is always more to do".to_owned())
}
