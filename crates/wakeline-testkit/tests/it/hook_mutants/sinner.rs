//! The oracle behind a face that breaks one rule.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, DeliveryToken, EndpointId, EndpointRef,
    EventTypeName, HookChange, HookLine, JobId, MessageRef, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Application, BreakerSample, ChoreReport, Created, DeliveryAsk, DeliveryClaim, DeliveryClaimed,
    DeliveryVerdict, EmitReply, Endpoint, EndpointSecret, EndpointUpdate, EventType,
    ExpireMessages, ExpiredMessages, HookAdmin, HookApplications, HookEndpoints, HookEventTypes,
    HookStore, Idempotency, Job, JobKind, JobSpec, NewApplication, NewEndpoint, NewMessage, Page,
    PageRequest, ResendOutcome, RotateOutcome, Rotation, SettleDelivery, SettledDelivery,
    SettledState, UpdateOutcome,
};
use wakeline_testkit::hook_conformance::end;
use wakeline_testkit::oracle::MemoryStore;

use super::Sin;

pub(super) struct Sinner {
    pub(super) inner: Arc<MemoryStore>,
    pub(super) sin: Sin,
}

impl Sinner {
    fn is(&self, sin: Sin) -> bool {
        self.sin == sin
    }

    fn spoilt(&self, mut end: SettleDelivery) -> SettleDelivery {
        match (self.sin, end.verdict) {
            (Sin::RetriesAtOnce, DeliveryVerdict::Retry(_)) => {
                end.verdict = DeliveryVerdict::Retry(Duration::ZERO);
            }
            (Sin::NeverGivesUp, DeliveryVerdict::Failed) => {
                end.verdict = DeliveryVerdict::Retry(Duration::ZERO);
            }
            (Sin::ForgetsSamples, _) => end.sample = BreakerSample::None,
            (Sin::ForgetsThrottles, _) => end.throttle = None,
            (Sin::IgnoresGone, _) => end.gone = false,
            (Sin::LosesAnnouncements, _) => end.announce.clear(),
            (Sin::LogsNoStatus, _) => end.record.status = None,
            _ => {}
        }
        end
    }
}

#[async_trait]
impl HookStore for Sinner {
    async fn emit(
        &self,
        mut message: NewMessage,
        asks: Vec<DeliveryAsk>,
    ) -> Result<EmitReply, StoreError> {
        match self.sin {
            Sin::ForgetsKeys => message.idempotency = None,
            Sin::ForgetsEventIds => message.event_id = None,
            Sin::IgnoresChannels => message.channels.clear(),
            Sin::IgnoresOnly => message.only = None,
            _ => {}
        }
        let asks = if self.is(Sin::ServesNobodyAtBirth) { Vec::new() } else { asks };
        let mut reply = self.inner.emit(message, asks).await?;
        if self.is(Sin::TellsNobody) {
            reply.changes.clear();
        }
        Ok(reply)
    }

    async fn claim_deliveries(
        &self,
        mut lines: Vec<DeliveryClaim>,
    ) -> Result<Vec<DeliveryClaimed>, StoreError> {
        if self.is(Sin::GivesNothing) {
            let groups = |line: &DeliveryClaim| vec![Vec::new(); line.asks.len()];
            let next_due = Some(Duration::ZERO);
            let claimed = |line| DeliveryClaimed { groups: groups(line), next_due };
            return Ok(lines.iter().map(claimed).collect());
        }
        if self.is(Sin::KeepsNothingForFirstOnes) {
            let asks = lines.iter_mut().flat_map(|line| &mut line.asks);
            asks.for_each(|ask| ask.fresh_only = 0);
        }
        let mut claimed = self.inner.claim_deliveries(lines).await?;
        for line in &mut claimed {
            match self.sin {
                Sin::SeesNothingComing => line.next_due = None,
                Sin::AlwaysSeesSomething => line.next_due = Some(Duration::ZERO),
                _ => {}
            }
            let items = line.groups.iter_mut().flatten().flat_map(|group| &mut group.items);
            if self.is(Sin::ForgetsAttempts) {
                items.for_each(|item| item.attempt_no = 1);
            }
        }
        Ok(claimed)
    }

    async fn settle_deliveries(
        &self,
        ends: Vec<SettleDelivery>,
    ) -> Result<Vec<SettledDelivery>, StoreError> {
        let ends = ends.into_iter().map(|end| self.spoilt(end)).collect();
        let mut settled = self.inner.settle_deliveries(ends).await?;
        for one in &mut settled {
            if self.is(Sin::BelievesZombies) && one.state == SettledState::Stale {
                one.state = SettledState::Delivered;
            }
        }
        Ok(settled)
    }

    async fn release_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
    ) -> Result<Vec<HookChange>, StoreError> {
        if self.is(Sin::ReleasesAsFailed) {
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
        let span = if self.is(Sin::ExtendsNothing) { Duration::from_secs(1) } else { span };
        self.inner.extend_deliveries(tokens, span).await
    }

    async fn sweep_hook(&self, lines: Vec<HookLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        if self.is(Sin::SweepsNothing) {
            return Ok(vec![None; lines.len()]);
        }
        self.inner.sweep_hook(lines).await
    }
}

#[async_trait]
impl HookApplications for Sinner {
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
    ) -> Result<Page<Application>, StoreError> {
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
impl HookEventTypes for Sinner {
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
    ) -> Result<Page<EventType>, StoreError> {
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
impl HookEndpoints for Sinner {
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
    ) -> Result<Option<Page<Endpoint>>, StoreError> {
        self.inner.endpoints(application, page).await
    }

    async fn update_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        mut update: EndpointUpdate,
    ) -> Result<(UpdateOutcome<Endpoint>, Vec<HookChange>), StoreError> {
        if self.is(Sin::NeverDisables) {
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
        if self.is(Sin::DoublesGrace) {
            rotation.grace *= 2;
        }
        self.inner.rotate_secret(application, endpoint, rotation).await
    }
}

#[async_trait]
impl HookAdmin for Sinner {
    async fn resend(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: &EndpointRef,
    ) -> Result<(ResendOutcome, Vec<HookChange>), StoreError> {
        if self.is(Sin::ResendsNothing) {
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
        if self.is(Sin::CancelsNothing) {
            return Ok(Some((0, Vec::new())));
        }
        self.inner.cancel(application, message, endpoint).await
    }

    async fn expunge_payload(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
    ) -> Result<bool, StoreError> {
        if self.is(Sin::KeepsPayloads) {
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
    ) -> Result<Option<(Job, Vec<HookChange>)>, StoreError> {
        if self.is(Sin::RecoversOnce) && job.kind == JobKind::Recover {
            job.kind = JobKind::Resend;
            job.filter.states = vec![wakeline_store::hook::DeliveryState::Failed];
        }
        self.inner.start_job(application, job).await
    }

    async fn job(&self, job: JobId) -> Result<Option<Job>, StoreError> {
        self.inner.job(job).await
    }

    async fn do_chores(&self, rows: u32) -> Result<ChoreReport, StoreError> {
        self.inner.do_chores(rows).await
    }

    async fn expire_messages(
        &self,
        command: ExpireMessages,
    ) -> Result<ExpiredMessages, StoreError> {
        self.inner.expire_messages(command).await
    }
}
