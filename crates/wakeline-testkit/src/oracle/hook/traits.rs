//! Implementations of the webhook traits of the store.

use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, DeliveryToken, EndpointId, EndpointRef,
    EventTypeName, HookChange, HookLine, HookMessageId, JobId, MessageRef, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Application, Attempt, AttemptFilter, Created, Delivery, DeliveryClaim, DeliveryClaimed,
    DeliveryJob, DeliveryRequest, EmitReply, Endpoint, EndpointSecret, EndpointStats,
    EndpointUpdate, EventType, ExpireMessages, ExpiredMessages, HookAdmin, HookApplications,
    HookBackgroundReport, HookEndpoints, HookEventTypes, HookMessageFilter, HookPage, HookReader,
    HookStore, Idempotency, JobSpec, NewApplication, NewEndpoint, NewMessage, PageRequest,
    ResendOutcome, RotateOutcome, Rotation, SettleDelivery, SettledDelivery, StoredMessage,
    UpdateOutcome,
};

use crate::oracle::MemoryStore;

#[async_trait]
impl HookStore for MemoryStore {
    async fn emit(
        &self,
        message: NewMessage,
        requests: Vec<DeliveryRequest>,
    ) -> Result<EmitReply, StoreError> {
        Ok(self.hook("emit", |hook, now| hook.emit(message, &requests, now)))
    }

    async fn claim_deliveries(
        &self,
        lines: Vec<DeliveryClaim>,
    ) -> Result<Vec<DeliveryClaimed>, StoreError> {
        Ok(self.hook("claim_deliveries", |hook, now| hook.claim(&lines, now)))
    }

    async fn settle_deliveries(
        &self,
        ends: Vec<SettleDelivery>,
    ) -> Result<Vec<SettledDelivery>, StoreError> {
        Ok(self.hook("settle_deliveries", |hook, now| {
            ends.into_iter().map(|end| hook.settle(end, now)).collect()
        }))
    }

    async fn release_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
    ) -> Result<Vec<HookChange>, StoreError> {
        Ok(self.hook("release_deliveries", |hook, now| hook.release(&tokens, now)))
    }

    async fn extend_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
        span: Duration,
    ) -> Result<Vec<bool>, StoreError> {
        Ok(self.hook("extend_deliveries", |hook, now| hook.extend(&tokens, span, now)))
    }

    async fn sweep_hook(&self, lines: Vec<HookLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        Ok(self.hook("sweep_hook", |hook, now| {
            lines.iter().map(|line| hook.sweep(line, now)).collect()
        }))
    }
}

#[async_trait]
impl HookApplications for MemoryStore {
    async fn create_application(
        &self,
        application: NewApplication,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Application>, StoreError> {
        Ok(self.hook_act("create_application", |hook, now| {
            hook.create_application(application, idempotency.as_ref(), now)
        }))
    }

    async fn application(
        &self,
        application: &ApplicationRef,
    ) -> Result<Option<Application>, StoreError> {
        Ok(self.hook("application", |hook, _| {
            hook.find_application(application).map(|id| hook.applications[&id].clone())
        }))
    }

    async fn applications(
        &self,
        page: PageRequest<ApplicationId>,
        reserved: &str,
    ) -> Result<HookPage<Application>, StoreError> {
        Ok(self.hook("applications", |hook, _| hook.list_applications(&page, reserved)))
    }

    async fn update_application(
        &self,
        which: &ApplicationRef,
        application: NewApplication,
        expected: Option<Timestamp>,
    ) -> Result<UpdateOutcome<Application>, StoreError> {
        Ok(self.hook_act("update_application", |hook, now| {
            hook.update_application(which, application, expected, now)
        }))
    }

    async fn delete_application(
        &self,
        application: &ApplicationRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        Ok(self.hook_act("delete_application", |hook, _| hook.delete_application(application)))
    }
}

#[async_trait]
impl HookEventTypes for MemoryStore {
    async fn create_event_type(
        &self,
        event_type: EventType,
        idempotency: Option<Idempotency>,
    ) -> Result<(Created<EventType>, Vec<HookChange>), StoreError> {
        Ok(self.hook_act("create_event_type", |hook, now| {
            hook.create_event_type(event_type, idempotency.as_ref(), now)
        }))
    }

    async fn event_type(&self, name: &EventTypeName) -> Result<Option<EventType>, StoreError> {
        Ok(self.hook("event_type", |hook, _| hook.event_types.get(name).cloned()))
    }

    async fn event_types(
        &self,
        page: PageRequest<EventTypeName>,
        archived: bool,
    ) -> Result<HookPage<EventType>, StoreError> {
        Ok(self.hook("event_types", |hook, _| hook.list_event_types(&page, archived)))
    }

    async fn put_event_type(
        &self,
        event_type: EventType,
    ) -> Result<(EventType, Vec<HookChange>), StoreError> {
        Ok(self.hook_act("put_event_type", |hook, now| hook.put_event_type(event_type, now)))
    }

    async fn replace_event_type(
        &self,
        event_type: EventType,
    ) -> Result<(UpdateOutcome<EventType>, Vec<HookChange>), StoreError> {
        Ok(self
            .hook_act("replace_event_type", |hook, now| hook.replace_event_type(event_type, now)))
    }

    async fn delete_event_type(
        &self,
        name: &EventTypeName,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        Ok(self.hook_act("delete_event_type", |hook, _| hook.delete_event_type(name)))
    }
}

#[async_trait]
impl HookEndpoints for MemoryStore {
    async fn create_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: NewEndpoint,
        idempotency: Option<Idempotency>,
    ) -> Result<Created<Endpoint>, StoreError> {
        Ok(self.hook_act("create_endpoint", |hook, now| {
            hook.create_endpoint(application, endpoint, idempotency.as_ref(), now)
        }))
    }

    async fn endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Option<Endpoint>, StoreError> {
        Ok(self.hook("endpoint", |hook, now| {
            hook.find_endpoint(application, endpoint).map(|id| hook.shown(id, now))
        }))
    }

    async fn endpoints(
        &self,
        application: &ApplicationRef,
        page: PageRequest<EndpointId>,
    ) -> Result<Option<HookPage<Endpoint>>, StoreError> {
        Ok(self.hook("endpoints", |hook, now| hook.list_endpoints(application, &page, now)))
    }

    async fn update_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        update: EndpointUpdate,
    ) -> Result<(UpdateOutcome<Endpoint>, Vec<HookChange>), StoreError> {
        let which = (application, endpoint);
        Ok(self.hook_act("update_endpoint", |hook, now| hook.update_endpoint(which, update, now)))
    }

    async fn delete_endpoint(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<(bool, Vec<HookChange>), StoreError> {
        let which = (application, endpoint);
        Ok(self.hook_act("delete_endpoint", |hook, now| hook.delete_endpoint(which, now)))
    }

    async fn secrets(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> Result<Vec<EndpointSecret>, StoreError> {
        Ok(self.hook("secrets", |hook, now| {
            let found = hook.find_endpoint(application, endpoint);
            found.map(|id| hook.endpoint_entry(id).signing(now)).unwrap_or_default()
        }))
    }

    async fn rotate_secret(
        &self,
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        rotation: Rotation,
    ) -> Result<RotateOutcome, StoreError> {
        let which = (application, endpoint);
        Ok(self.hook_act("rotate_secret", |hook, now| hook.rotate(which, rotation, now)))
    }
}

#[async_trait]
impl HookReader for MemoryStore {
    async fn message(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        with_content: bool,
    ) -> Result<Option<StoredMessage>, StoreError> {
        Ok(self.hook("message", |hook, _| hook.message(application, message, with_content)))
    }

    async fn messages(
        &self,
        application: ApplicationId,
        filter: HookMessageFilter,
        page: PageRequest<HookMessageId>,
    ) -> Result<HookPage<StoredMessage>, StoreError> {
        Ok(self.hook("messages", |hook, _| hook.list_messages(application, &filter, &page)))
    }

    async fn deliveries(
        &self,
        application: ApplicationId,
        message: HookMessageId,
        page: PageRequest<EndpointId>,
    ) -> Result<HookPage<Delivery>, StoreError> {
        Ok(self
            .hook("deliveries", |hook, now| hook.list_deliveries(application, message, &page, now)))
    }

    async fn deliveries_to(
        &self,
        endpoint: EndpointId,
        messages: Vec<HookMessageId>,
    ) -> Result<Vec<Option<Delivery>>, StoreError> {
        Ok(self.hook("deliveries_to", |hook, now| hook.deliveries_to(endpoint, &messages, now)))
    }

    async fn attempts(
        &self,
        application: ApplicationId,
        filter: AttemptFilter,
        page: PageRequest<AttemptId>,
    ) -> Result<HookPage<Attempt>, StoreError> {
        Ok(self.hook("attempts", |hook, _| hook.list_attempts(application, &filter, &page)))
    }

    async fn attempt(
        &self,
        application: ApplicationId,
        attempt: AttemptId,
    ) -> Result<Option<Attempt>, StoreError> {
        Ok(self.hook("attempt", |hook, _| hook.attempt(application, attempt)))
    }

    async fn endpoint_stats(
        &self,
        application: ApplicationId,
        endpoint: EndpointId,
        since: Option<Timestamp>,
    ) -> Result<EndpointStats, StoreError> {
        Ok(self.hook("endpoint_stats", |hook, _| hook.stats(application, endpoint, since)))
    }
}

#[async_trait]
impl HookAdmin for MemoryStore {
    async fn resend(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: &EndpointRef,
    ) -> Result<(ResendOutcome, Vec<HookChange>), StoreError> {
        Ok(self.hook_act("resend", |hook, now| hook.resend(application, message, endpoint, now)))
    }

    async fn cancel(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: Option<&EndpointRef>,
    ) -> Result<Option<(u64, Vec<HookChange>)>, StoreError> {
        Ok(self.hook_act("cancel", |hook, now| hook.cancel(application, message, endpoint, now)))
    }

    async fn expunge_payload(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
    ) -> Result<bool, StoreError> {
        Ok(self.hook_act("expunge_payload", |hook, _| hook.expunge_payload(application, message)))
    }

    async fn expunge_response(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<bool, StoreError> {
        Ok(self.hook_act("expunge_response", |hook, _| {
            hook.expunge_response(application, message, attempt)
        }))
    }

    async fn start_job(
        &self,
        application: &ApplicationRef,
        job: JobSpec,
    ) -> Result<Option<(DeliveryJob, Vec<HookChange>)>, StoreError> {
        Ok(self.hook_act("start_job", |hook, now| hook.start_job(application, job, now)))
    }

    async fn job(&self, job: JobId) -> Result<Option<DeliveryJob>, StoreError> {
        Ok(self.hook("job", |hook, _| hook.jobs.get(&job).map(|work| work.job.clone())))
    }

    async fn run_background(&self, rows: u32) -> Result<HookBackgroundReport, StoreError> {
        Ok(self.hook("run_background", |hook, now| hook.run_background(rows, now)))
    }

    async fn expire_messages(
        &self,
        command: ExpireMessages,
    ) -> Result<ExpiredMessages, StoreError> {
        Ok(self.hook("expire_messages", |hook, now| hook.expire(command, now)))
    }
}
