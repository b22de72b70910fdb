//! Calls of webhooks, with planned faults.

use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, DeliveryToken, EndpointId, EndpointRef,
    EventTypeName, HookChange, HookLine, HookMessageId, JobId, MessageRef, Timestamp,
};
use wakeline_store::hook::{
    Application, Attempt, AttemptFilter, Created, Delivery, DeliveryClaim, DeliveryClaimed,
    DeliveryJob, DeliveryRequest, EmitReply, Endpoint, EndpointSecret, EndpointStats,
    EndpointUpdate, EventType, ExpireMessages, ExpiredMessages, HookAdmin, HookApplications,
    HookBackgroundReport, HookEndpoints, HookEventTypes, HookMessageFilter, HookPage, HookReader,
    HookStore, Idempotency, JobSpec, NewApplication, NewEndpoint, NewMessage, PageRequest,
    ResendOutcome, RotateOutcome, Rotation, SettleDelivery, SettledDelivery, StoredMessage,
    UpdateOutcome,
};
use wakeline_store::{Backend, StoreError};

use super::FaultingStore;

passes! { HookStore:
    fn emit(message: NewMessage, requests: Vec<DeliveryRequest>) -> EmitReply;
    fn claim_deliveries(lines: Vec<DeliveryClaim>) -> Vec<DeliveryClaimed>;
    fn settle_deliveries(ends: Vec<SettleDelivery>) -> Vec<SettledDelivery>;
    fn release_deliveries(tokens: Vec<DeliveryToken>) -> Vec<HookChange>;
    fn extend_deliveries(tokens: Vec<DeliveryToken>, span: Duration) -> Vec<bool>;
    fn sweep_hook(lines: Vec<HookLine>) -> Vec<Option<Duration>>;
}

passes! { HookApplications:
    fn create_application(
        application: NewApplication,
        idempotency: Option<Idempotency>,
    ) -> Created<Application>;
    fn application(application: &ApplicationRef) -> Option<Application>;
    fn applications(page: PageRequest<ApplicationId>, reserved: &str) -> HookPage<Application>;
    fn update_application(
        which: &ApplicationRef,
        application: NewApplication,
        expected: Option<Timestamp>,
    ) -> UpdateOutcome<Application>;
    fn delete_application(application: &ApplicationRef) -> (bool, Vec<HookChange>);
}

passes! { HookEventTypes:
    fn create_event_type(
        event_type: EventType,
        idempotency: Option<Idempotency>,
    ) -> (Created<EventType>, Vec<HookChange>);
    fn event_type(name: &EventTypeName) -> Option<EventType>;
    fn event_types(page: PageRequest<EventTypeName>, archived: bool) -> HookPage<EventType>;
    fn put_event_type(event_type: EventType) -> (EventType, Vec<HookChange>);
    fn replace_event_type(event_type: EventType) -> (UpdateOutcome<EventType>, Vec<HookChange>);
    fn delete_event_type(name: &EventTypeName) -> (bool, Vec<HookChange>);
}

passes! { HookEndpoints:
    fn create_endpoint(
        application: &ApplicationRef,
        endpoint: NewEndpoint,
        idempotency: Option<Idempotency>,
    ) -> Created<Endpoint>;
    fn endpoint(application: &ApplicationRef, endpoint: &EndpointRef) -> Option<Endpoint>;
    fn endpoints(
        application: &ApplicationRef,
        page: PageRequest<EndpointId>,
    ) -> Option<HookPage<Endpoint>>;
    fn update_endpoint(
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        update: EndpointUpdate,
    ) -> (UpdateOutcome<Endpoint>, Vec<HookChange>);
    fn delete_endpoint(
        application: &ApplicationRef,
        endpoint: &EndpointRef,
    ) -> (bool, Vec<HookChange>);
    fn secrets(application: &ApplicationRef, endpoint: &EndpointRef) -> Vec<EndpointSecret>;
    fn rotate_secret(
        application: &ApplicationRef,
        endpoint: &EndpointRef,
        rotation: Rotation,
    ) -> RotateOutcome;
}

passes! { HookReader:
    fn message(
        application: &ApplicationRef,
        message: &MessageRef,
        with_content: bool,
    ) -> Option<StoredMessage>;
    fn messages(
        application: ApplicationId,
        filter: HookMessageFilter,
        page: PageRequest<HookMessageId>,
    ) -> HookPage<StoredMessage>;
    fn deliveries(
        application: ApplicationId,
        message: HookMessageId,
        page: PageRequest<EndpointId>,
    ) -> HookPage<Delivery>;
    fn deliveries_to(
        endpoint: EndpointId,
        messages: Vec<HookMessageId>,
    ) -> Vec<Option<Delivery>>;
    fn attempts(
        application: ApplicationId,
        filter: AttemptFilter,
        page: PageRequest<AttemptId>,
    ) -> HookPage<Attempt>;
    fn attempt(application: ApplicationId, attempt: AttemptId) -> Option<Attempt>;
    fn endpoint_stats(
        application: ApplicationId,
        endpoint: EndpointId,
        since: Option<Timestamp>,
    ) -> EndpointStats;
}

passes! { HookAdmin:
    fn resend(
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: &EndpointRef,
    ) -> (ResendOutcome, Vec<HookChange>);
    fn cancel(
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: Option<&EndpointRef>,
    ) -> Option<(u64, Vec<HookChange>)>;
    fn expunge_payload(application: &ApplicationRef, message: &MessageRef) -> bool;
    fn expunge_response(
        application: &ApplicationRef,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> bool;
    fn start_job(
        application: &ApplicationRef,
        job: JobSpec,
    ) -> Option<(DeliveryJob, Vec<HookChange>)>;
    fn job(job: JobId) -> Option<DeliveryJob>;
    fn run_background(rows: u32) -> HookBackgroundReport;
    fn expire_messages(command: ExpireMessages) -> ExpiredMessages;
}
