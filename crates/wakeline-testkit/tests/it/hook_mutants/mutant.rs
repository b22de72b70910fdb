//! The oracle, with one rule of the webhook store broken.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, DeliveryToken, EndpointId, EndpointRef,
    EventTypeName, HookChange, HookLine, JobId, MessageRef, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Application, BreakerSample, Created, DeliveryClaim, DeliveryClaimed, DeliveryJob,
    DeliveryRequest, DeliveryVerdict, EmitReply, Endpoint, EndpointSecret, EndpointUpdate,
    EventType, ExpireMessages, ExpiredMessages, HookAdmin, HookApplications, HookBackgroundReport,
    HookEndpoints, HookEventTypes, HookPage, HookStore, Idempotency, JobKind, JobSpec,
    NewApplication, NewEndpoint, NewMessage, PageRequest, ResendOutcome, RotateOutcome, Rotation,
    SettleDelivery, SettledDelivery, SettledState, UpdateOutcome,
};
use wakeline_testkit::hook_conformance::end;
use wakeline_testkit::oracle::MemoryStore;

use super::HookMutation;

pub(super) struct MutantHookStore {
    pub(super) inner: Arc<MemoryStore>,
    pub(super) mutation: HookMutation,
}

impl MutantHookStore {
    fn is(&self, mutation: HookMutation) -> bool {
        self.mutation == mutation
    }

    fn mutated(&self, mut end: SettleDelivery) -> SettleDelivery {
        match (self.mutation, end.verdict) {
            (HookMutation::IgnoresRetryDelay, DeliveryVerdict::Retry(_)) => {
                end.verdict = DeliveryVerdict::Retry(Duration::ZERO);
            }
            (HookMutation::RetriesFailedDeliveries, DeliveryVerdict::Failed) => {
                end.verdict = DeliveryVerdict::Retry(Duration::ZERO);
            }
            (HookMutation::IgnoresBreakerSamples, _) => end.sample = BreakerSample::None,
            (HookMutation::IgnoresThrottles, _) => end.throttle = None,
            (HookMutation::IgnoresGone, _) => end.gone = false,
            (HookMutation::LosesAnnouncements, _) => end.announce.clear(),
            (HookMutation::LogsNoStatus, _) => end.record.status = None,
            _ => {}
        }
        end
    }
}

#[async_trait]
impl HookStore for MutantHookStore {
    async fn emit(
        &self,
        mut message: NewMessage,
        requests: Vec<DeliveryRequest>,
    ) -> Result<EmitReply, StoreError> {
        match self.mutation {
            HookMutation::IgnoresKeys => message.idempotency = None,
            HookMutation::IgnoresEventIds => message.event_id = None,
            HookMutation::IgnoresChannels => message.channels.clear(),
            HookMutation::IgnoresNamedEndpoint => message.only = None,
            _ => {}
        }
        let requests =
            if self.is(HookMutation::LeasesNothingOnInsert) { Vec::new() } else { requests };
        let mut reply = self.inner.emit(message, requests).await?;
        if self.is(HookMutation::NotifiesNoWaiter) {
            reply.changes.clear();
        }
        Ok(reply)
    }

    async fn claim_deliveries(
        &self,
        mut lines: Vec<DeliveryClaim>,
    ) -> Result<Vec<DeliveryClaimed>, StoreError> {
        if self.is(HookMutation::ClaimsNothing) {
            let groups = |line: &DeliveryClaim| vec![Vec::new(); line.requests.len()];
            let next_due = Some(Duration::ZERO);
            let claimed = |line| DeliveryClaimed { groups: groups(line), next_due };
            return Ok(lines.iter().map(claimed).collect());
        }
        if self.is(HookMutation::ReservesNothingForFirstAttempts) {
            let requests = lines.iter_mut().flat_map(|line| &mut line.requests);
            requests.for_each(|request| request.fresh_only = 0);
        }
        let mut claimed = self.inner.claim_deliveries(lines).await?;
        for line in &mut claimed {
            match self.mutation {
                HookMutation::ReportsNoNextDue => line.next_due = None,
                HookMutation::AlwaysReportsDueNow => line.next_due = Some(Duration::ZERO),
                _ => {}
            }
            let items = line.groups.iter_mut().flatten().flat_map(|group| &mut group.items);
            if self.is(HookMutation::ReportsEveryAttemptAsFirst) {
                items.for_each(|item| item.attempt_no = 1);
            }
        }
        Ok(claimed)
    }

    async fn settle_deliveries(
        &self,
        ends: Vec<SettleDelivery>,
    ) -> Result<Vec<SettledDelivery>, StoreError> {
        let ends = ends.into_iter().map(|end| self.mutated(end)).collect();
        let mut settled = self.inner.settle_deliveries(ends).await?;
        for one in &mut settled {
            if self.is(HookMutation::AcceptsStaleTokens) && one.state == SettledState::Stale {
                one.state = SettledState::Delivered;
            }
        }
        Ok(settled)
    }

    async fn release_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
    ) -> Result<Vec<HookChange>, StoreError> {
        if self.is(HookMutation::ReleasesAsFailed) {
            let ends = tokens.iter().map(|token| end(*token, DeliveryVerdict::Failed)).collect();
            let settled = self.inner.settle_deliveries(ends).await?;
            return Ok(settled.into_iter().flat_map(|one| one.changes).collect());
        }
        self.inner.release_deliveries(tokens).await
    }

    async fn extend_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
        span: Duration,
    ) -> Result<Vec<bool>, StoreError> {
        let span =
            if self.is(HookMutation::IgnoresExtensions) { Duration::from_secs(1) } else { span };
        self.inner.extend_deliveries(tokens, span).await
    }

    async fn sweep_hook(&self, lines: Vec<HookLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        if self.is(HookMutation::FindsNothingInSweeps) {
            return Ok(vec![None; lines.len()]);
        }
        self.inner.sweep_hook(lines).await
    }
}

#[async_trait]
impl HookApplications for MutantHookStore {
    async fn create_application(
        &self,
        application: NewApplication,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Application>, StoreError> {
        self.inner.create_application(application, idempotency).await
    }

    async fn application(
        &self,
        application: &ApplicationRef,
    ) -> Result<Option<Application>, StoreError> {
        self.inner.application(application).await
    }

    async fn applications(
        &self,
        page: PageRequest<ApplicationId>,
        reserved: &str,
    ) -> Result<HookPage<Application>, StoreError> {
        self.inner.applications(page, reserved).await
    }

    async fn update_application(
        &self,
        which: &ApplicationRef,
        application: NewApplication,
        expected: Option<Timestamp>,
    ) -> Result<UpdateOutcome<Application>, StoreError> {
        self.inner.update_application(which, application, expected).await
    }

    async fn delete_application(
        &self,
        application: &ApplicationRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        self.inner.delete_application(application).await
    }
}

#[async_trait]
impl HookEventTypes for MutantHookStore {
    async fn create_event_type(
        &self,
        event_type: EventType,
        idempotency: Option<Idempotency>,
    ) -> Result<(Created<EventType>, Vec<HookChange>), StoreError> {
        self.inner.create_event_type(event_type, idempotency).await
    }

    async fn event_type(&self, name: &EventTypeName) -> Result<Option<EventType>, StoreError> {
        self.inner.event_type(name).await
    }

    async fn event_types(
        &self,
        page: PageRequest<EventTypeName>,
        archived: bool,
    ) -> Result<HookPage<EventType>, StoreError> {
        self.inner.event_types(page, archived).await
    }

    async fn put_event_type(
        &self,
        event_type: EventType,
    ) -> Result<(EventType, Vec<HookChange>), StoreError> {
        self.inner.put_event_type(event_type).await
    }

    async fn replace_event_type(
        &self,
        event_type: EventType,
    ) -> Result<(UpdateOutcome<EventType>, Vec<HookChange>), StoreError> {
        self.inner.replace_event_type(event_type).await
    }

    async fn delete_event_type(
        &self,
        name: &EventTypeName,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        self.inner.delete_event_type(name).await
    }
}

#[async_trait]
impl HookEndpoints for MutantHookStore {
    async fn create_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: NewEndpoint,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Endpoint>, StoreError> {
        self.inner.create_endpoint(application, endpoint, idempotency).await
    }

    async fn endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Option<Endpoint>, StoreError> {
        self.inner.endpoint(application, endpoint).await
    }

    async fn endpoints(
        &self,
        application: &ApplicationRef,
        page: PageRequest<EndpointId>,
    ) -> Result<Option<HookPage<Endpoint>>, StoreError> {
        self.inner.endpoints(application, page).await
    }

    async fn update_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        mut update: EndpointUpdate,
    ) -> Result<(UpdateOutcome<Endpoint>, Vec<HookChange>), StoreError> {
        if self.is(HookMutation::NeverDisables) {
            update.disabled = None;
        }
        self.inner.update_endpoint(application, endpoint, update).await
    }

    async fn delete_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        self.inner.delete_endpoint(application, endpoint).await
    }

    async fn secrets(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Vec<EndpointSecret>, StoreError> {
        self.inner.secrets(application, endpoint).await
    }

    async fn rotate_secret(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        mut rotation: Rotation,
    ) -> Result<RotateOutcome, StoreError> {
        if self.is(HookMutation::DoublesGrace) {
            rotation.grace *= 2;
        }
        self.inner.rotate_secret(application, endpoint, rotation).await
    }
}

#[async_trait]
impl HookAdmin for MutantHookStore {
    async fn resend(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: &EndpointRef,
    ) -> Result<(ResendOutcome, Vec<HookChange>), StoreError> {
        if self.is(HookMutation::IgnoresResend) {
            return Ok((ResendOutcome::Missing, Vec::new()));
        }
        self.inner.resend(application, message, endpoint).await
    }

    async fn cancel(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: Option<&EndpointRef>,
    ) -> Result<Option<(u64, Vec<HookChange>)>, StoreError> {
        if self.is(HookMutation::IgnoresCancel) {
            return Ok(Some((0, Vec::new())));
        }
        self.inner.cancel(application, message, endpoint).await
    }

    async fn expunge_payload(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
    ) -> Result<bool, StoreError> {
        if self.is(HookMutation::KeepsExpungedPayloads) {
            return Ok(true);
        }
        self.inner.expunge_payload(application, message).await
    }

    async fn expunge_response(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<bool, StoreError> {
        self.inner.expunge_response(application, message, attempt).await
    }

    async fn start_job(
        &self,
        application: &ApplicationRef,
        mut job: JobSpec,
    ) -> Result<Option<(DeliveryJob, Vec<HookChange>)>, StoreError> {
        if self.is(HookMutation::RecoversWithOneAttempt) && job.kind == JobKind::Recover {
            job.kind = JobKind::Resend;
            job.filter.states = vec![wakeline_store::hook::DeliveryState::Failed];
        }
        self.inner.start_job(application, job).await
    }

    async fn job(&self, job: JobId) -> Result<Option<DeliveryJob>, StoreError> {
        self.inner.job(job).await
    }

    async fn run_background(&self, rows: u32) -> Result<HookBackgroundReport, StoreError> {
        self.inner.run_background(rows).await
    }

    async fn expire_messages(
        &self,
        command: ExpireMessages,
    ) -> Result<ExpiredMessages, StoreError> {
        self.inner.expire_messages(command).await
    }
}
