//! The rows of the policy table: one per route and method.

use axum::http::Method as M;
use wakeline_core::Realm::{Flow, Hook, Queue, Server};
use wakeline_core::Verb;
use wakeline_core::Verb::{Admin, Configure, Pop, Push, Read};

use super::Name::{
    self, All, AnyResource, Application, Body, Event, Job, Lease, Listed, Mixed, Partition, Path,
    Public,
};
use super::{Policy, PolicyRow};

const fn row(method: M, route: &'static str, policy: Policy) -> PolicyRow {
    PolicyRow { method, route, policy }
}

const fn server(verb: Verb, name: Name) -> Policy {
    Policy::new(Server, verb, name)
}

const fn queue(verb: Verb, name: Name) -> Policy {
    Policy::new(Queue, verb, name)
}

const fn flow(verb: Verb, name: Name) -> Policy {
    Policy::new(Flow, verb, name)
}

const fn hook(verb: Verb, name: Name) -> Policy {
    Policy::new(Hook, verb, name)
}

/// The policy of a route below [`APPLICATION_BASE`].
const fn application(verb: Verb) -> Policy {
    hook(verb, Application("app_id"))
}

/// The policy of a route below [`OPERATIONAL_BASE`].
const fn operational() -> Policy {
    hook(Admin, All)
}

/// The routes of the server itself.
pub(super) const SERVER: &[PolicyRow] = &[
    row(M::GET, "/", server(Read, Public)),
    row(M::GET, "/health", server(Read, Public)),
    row(M::GET, "/healthz", server(Read, Public)),
    row(M::GET, "/readyz", server(Read, Public)),
    row(M::GET, "/docs", server(Read, Public)),
    row(M::GET, "/docs/", server(Read, Public)),
    row(M::GET, "/openapi.json", server(Read, Public)),
    row(M::GET, "/api/v1/health", server(Read, Public)),
    row(M::GET, "/metrics", server(Read, All)),
    row(M::GET, "/api/v1/analytics/system-metrics", server(Read, All)),
    row(M::GET, "/api/v1/analytics/worker-metrics", server(Read, All)),
    row(M::GET, "/api/v1/analytics/postgres-stats", server(Read, All)),
    row(M::GET, "/api/v1/system/shared-state", server(Read, All)),
    row(M::POST, "/api/v1/stats/refresh", server(Admin, All)),
    row(M::GET, "/api/v1/keys", server(Admin, All)),
    row(M::POST, "/api/v1/keys", server(Admin, All).audited("key.create")),
    row(M::DELETE, "/api/v1/keys/{id}", server(Admin, All).audited("key.revoke")),
    row(M::POST, "/api/v1/keys/{id}/rotate", server(Admin, All).audited("key.rotate")),
    row(M::GET, "/api/v1/audit", server(Admin, All)),
    row(M::GET, "/api/v1/system/maintenance", server(Read, All)),
    row(M::POST, "/api/v1/system/maintenance", server(Admin, All).audited("maintenance.set")),
    row(M::GET, "/api/v1/system/maintenance/pop", server(Read, All)),
    row(M::POST, "/api/v1/system/maintenance/pop", server(Admin, All).audited("maintenance.set")),
];

/// The routes of queues.
pub(super) const QUEUES: &[PolicyRow] = &[
    row(M::POST, "/api/v1/push", queue(Push, Body)),
    row(M::GET, "/api/v1/pop", queue(Pop, All)),
    row(M::GET, "/api/v1/pop/queue/{queue}", queue(Pop, Path("queue"))),
    row(M::GET, "/api/v1/pop/queue/{queue}/partition/{partition}", queue(Pop, Path("queue"))),
    row(M::POST, "/api/v1/ack", queue(Pop, Body)),
    row(M::POST, "/api/v1/ack/batch", queue(Pop, Body)),
    row(M::POST, "/api/v1/lease/{leaseId}/extend", queue(Pop, Lease)),
    row(M::POST, "/api/v1/transaction", queue(Push, Mixed)),
    row(M::POST, "/api/v1/timers", queue(Push, Body)),
    row(M::GET, "/api/v1/timers/{queue}", queue(Read, Path("queue"))),
    row(M::GET, "/api/v1/timers/{queue}/{key}", queue(Read, Path("queue"))),
    row(M::DELETE, "/api/v1/timers/{queue}/{key}", queue(Push, Path("queue"))),
    row(M::POST, "/api/v1/configure", queue(Configure, Body).audited("queue.configure")),
    row(M::GET, "/api/v1/resources/queues", queue(Read, Listed)),
    row(M::GET, "/api/v1/resources/queues/{queue}/depth", queue(Read, Path("queue"))),
    row(M::GET, "/api/v1/resources/namespaces", queue(Read, Listed)),
    row(M::GET, "/api/v1/resources/tasks", queue(Read, Listed)),
    row(M::GET, "/api/v1/status/queues", queue(Read, Listed)),
    row(M::GET, "/api/v1/status/queues/{queue}", queue(Read, Path("queue"))),
    row(M::GET, "/api/v1/status/queues/{queue}/messages", queue(Read, Path("queue"))),
    row(M::GET, "/api/v1/status/buffers", queue(Read, AnyResource)),
    row(M::GET, "/api/v1/resources/overview", queue(Read, Listed)),
    row(M::GET, "/api/v1/status", queue(Read, Listed)),
    row(M::GET, "/api/v1/status/analytics", queue(Read, Listed)),
    row(M::GET, "/api/v1/analytics/queue-ops", queue(Read, Listed)),
    row(M::GET, "/api/v1/analytics/queue-lag", queue(Read, Listed)),
    row(M::GET, "/api/v1/analytics/queue-parked-replicas", queue(Read, Listed)),
    row(M::GET, "/api/v1/analytics/retention", queue(Read, Listed)),
    row(M::GET, "/api/v1/resources/queues/{queue}", queue(Read, Path("queue"))),
    row(
        M::PATCH,
        "/api/v1/resources/queues/{queue}",
        queue(Configure, Path("queue")).audited("queue.configure"),
    ),
    row(
        M::DELETE,
        "/api/v1/resources/queues/{queue}",
        queue(Admin, Path("queue")).audited("queue.delete"),
    ),
    row(M::GET, "/api/v1/consumer-groups", queue(Read, Listed)),
    row(M::GET, "/api/v1/consumer-groups/lagging", queue(Read, Listed)),
    row(M::GET, "/api/v1/consumer-groups/{group}", queue(Read, Listed)),
    row(M::DELETE, "/api/v1/consumer-groups/{group}", queue(Admin, All).audited("group.delete")),
    row(
        M::DELETE,
        "/api/v1/consumer-groups/{group}/queues/{queue}",
        queue(Admin, Path("queue")).audited("group.delete"),
    ),
    row(
        M::POST,
        "/api/v1/consumer-groups/{group}/queues/{queue}/seek",
        queue(Configure, Path("queue")).audited("group.seek"),
    ),
    row(
        M::POST,
        "/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
        queue(Configure, Path("queue")).audited("group.seek"),
    ),
    row(
        M::POST,
        "/api/v1/consumer-groups/{group}/subscription",
        queue(Configure, All).audited("group.seek"),
    ),
    row(M::GET, "/api/v1/dlq", queue(Read, Listed)),
    row(M::DELETE, "/api/v1/dlq", queue(Admin, Body).audited("dead_letter.purge")),
    row(M::GET, "/api/v1/dlq/{deadLetterId}", queue(Read, Body)),
    row(M::DELETE, "/api/v1/dlq/{deadLetterId}", queue(Admin, Body).audited("dead_letter.purge")),
    row(M::POST, "/api/v1/dlq/redrive", queue(Configure, Body).audited("dead_letter.redrive")),
    row(M::GET, "/api/v1/dlq/redrive/{job}", queue(Read, Body)),
    row(
        M::DELETE,
        "/api/v1/dlq/redrive/{job}",
        queue(Configure, Body).audited("dead_letter.redrive_cancel"),
    ),
    row(M::GET, "/api/v1/messages", queue(Read, Listed)),
    row(
        M::POST,
        "/api/v1/messages/{partitionId}/{transactionId}/retry",
        queue(Configure, Partition("partitionId")).audited("message.retry"),
    ),
    row(
        M::POST,
        "/api/v1/messages/{partitionId}/{transactionId}/dlq",
        queue(Configure, Partition("partitionId")).audited("message.bury"),
    ),
    row(
        M::DELETE,
        "/api/v1/messages/{partitionId}/{transactionId}",
        queue(Configure, Partition("partitionId")).audited("message.delete"),
    ),
    row(
        M::DELETE,
        "/api/v1/queues/{queue}/clear",
        queue(Admin, Path("queue")).audited("queue.clear"),
    ),
    row(
        M::DELETE,
        "/api/v1/resources/queues/{queue}/partitions/{partition}",
        queue(Admin, Path("queue")).audited("partition.delete"),
    ),
    row(M::GET, "/api/v1/resources/partitions", queue(Read, Listed)),
    row(M::POST, "/api/v1/traces", queue(Pop, Body)),
    row(M::GET, "/api/v1/traces/names", queue(Read, All)),
    row(M::GET, "/api/v1/traces/by-name/{name}", queue(Read, Listed)),
    row(
        M::GET,
        "/api/v1/traces/{partitionId}/{transactionId}",
        queue(Read, Partition("partitionId")),
    ),
    row(
        M::GET,
        "/api/v1/messages/{partitionId}/{transactionId}",
        queue(Read, Partition("partitionId")),
    ),
];

const INSTANCE: Name = Path("instance");

/// The routes of orchestrations.
pub(super) const FLOWS: &[PolicyRow] = &[
    row(M::POST, "/api/v1/orchestrations", flow(Push, Body)),
    row(M::GET, "/api/v1/orchestrations", flow(Read, Listed)),
    row(M::POST, "/api/v1/orchestrations/purge", flow(Admin, Body).audited("orchestration.purge")),
    row(M::POST, "/api/v1/orchestrations/prune", flow(Admin, Body).audited("orchestration.prune")),
    row(M::GET, "/api/v1/orchestrations/{instance}", flow(Read, INSTANCE)),
    row(
        M::DELETE,
        "/api/v1/orchestrations/{instance}",
        flow(Admin, INSTANCE).audited("orchestration.delete"),
    ),
    row(M::GET, "/api/v1/orchestrations/{instance}/wait", flow(Read, INSTANCE)),
    row(M::GET, "/api/v1/orchestrations/{instance}/history", flow(Read, INSTANCE)),
    row(M::GET, "/api/v1/orchestrations/{instance}/executions", flow(Read, INSTANCE)),
    row(M::GET, "/api/v1/orchestrations/{instance}/kv", flow(Read, INSTANCE)),
    row(M::GET, "/api/v1/orchestrations/{instance}/kv/{key}", flow(Read, INSTANCE)),
    row(M::GET, "/api/v1/orchestrations/{instance}/tree", flow(Read, INSTANCE)),
    row(M::GET, "/api/v1/orchestrations/{instance}/mailbox", flow(Read, INSTANCE)),
    row(M::GET, "/api/v1/mailboxes", flow(Read, Listed)),
    row(M::POST, "/api/v1/orchestrations/{instance}/events/{event}", flow(Push, INSTANCE)),
    row(
        M::POST,
        "/api/v1/orchestrations/{instance}/cancel",
        flow(Configure, INSTANCE).audited("orchestration.cancel"),
    ),
    row(
        M::POST,
        "/api/v1/orchestrations/{instance}/suspend",
        flow(Configure, INSTANCE).audited("orchestration.suspend"),
    ),
    row(
        M::POST,
        "/api/v1/orchestrations/{instance}/resume",
        flow(Configure, INSTANCE).audited("orchestration.resume"),
    ),
    row(
        M::POST,
        "/api/v1/orchestrations/{instance}/terminate",
        flow(Admin, INSTANCE).audited("orchestration.terminate"),
    ),
];

/// The routes of event types, background tasks, the simplified webhook API, and the collection of
/// applications.
pub(super) const HOOKS: &[PolicyRow] = &[
    row(M::GET, "/api/v1/event-type", hook(Read, AnyResource)),
    row(M::POST, "/api/v1/event-type", hook(Configure, All).audited("event_type.create")),
    row(M::GET, "/api/v1/event-type/{event_type_name}", hook(Read, AnyResource)),
    row(
        M::PUT,
        "/api/v1/event-type/{event_type_name}",
        hook(Configure, All).audited("event_type.change"),
    ),
    row(
        M::PATCH,
        "/api/v1/event-type/{event_type_name}",
        hook(Configure, All).audited("event_type.change"),
    ),
    row(
        M::DELETE,
        "/api/v1/event-type/{event_type_name}",
        hook(Admin, All).audited("event_type.delete"),
    ),
    row(M::GET, "/api/v1/background-task/{task_id}", hook(Read, Job)),
    row(M::POST, "/events", hook(Push, Event)),
    row(M::GET, "/events/{id}", hook(Read, Event)),
    row(M::GET, "/events/{id}/attempts", hook(Read, Event)),
    row(M::GET, "/subscriptions", hook(Read, Event)),
    row(M::POST, "/subscriptions", hook(Configure, Event).audited("endpoint.create")),
    row(M::DELETE, "/subscriptions/{id}", hook(Configure, Event).audited("endpoint.delete")),
    row(M::GET, "/api/v1/app", hook(Read, Listed)),
    row(M::POST, "/api/v1/app", hook(Configure, Body).audited("application.create")),
];

pub(super) const OPERATIONAL_BASE: &str = "/api/v1/operational-webhook/endpoint";

/// The routes below [`OPERATIONAL_BASE`], by the rest of their path.
pub(super) const OPERATIONAL_ENDPOINTS: &[PolicyRow] = &[
    row(M::GET, "", operational()),
    row(M::POST, "", operational().audited("endpoint.create")),
    row(M::GET, "/{endpoint_id}", operational()),
    row(M::PUT, "/{endpoint_id}", operational().audited("endpoint.change")),
    row(M::DELETE, "/{endpoint_id}", operational().audited("endpoint.delete")),
    row(M::GET, "/{endpoint_id}/headers", operational()),
    row(M::PUT, "/{endpoint_id}/headers", operational().audited("endpoint.change")),
    row(M::GET, "/{endpoint_id}/secret", operational()),
    row(M::POST, "/{endpoint_id}/secret/rotate", operational().audited("endpoint.rotate")),
];

pub(super) const APPLICATION_BASE: &str = "/api/v1/app/{app_id}";

/// The routes below [`APPLICATION_BASE`], by the rest of their path.
pub(super) const APPLICATIONS: &[PolicyRow] = &[
    row(M::GET, "", application(Read)),
    row(M::PUT, "", application(Configure).audited("application.change")),
    row(M::PATCH, "", application(Configure).audited("application.change")),
    row(M::DELETE, "", application(Admin).audited("application.delete")),
    row(M::GET, "/attempt/endpoint/{endpoint_id}", application(Read)),
    row(M::GET, "/attempt/msg/{msg_id}", application(Read)),
    row(M::GET, "/endpoint", application(Read)),
    row(M::POST, "/endpoint", application(Configure).audited("endpoint.create")),
    row(M::GET, "/endpoint/{endpoint_id}", application(Read)),
    row(M::PUT, "/endpoint/{endpoint_id}", application(Configure).audited("endpoint.change")),
    row(M::PATCH, "/endpoint/{endpoint_id}", application(Configure).audited("endpoint.change")),
    row(M::DELETE, "/endpoint/{endpoint_id}", application(Configure).audited("endpoint.delete")),
    row(
        M::POST,
        "/endpoint/{endpoint_id}/bulk-replay",
        application(Configure).audited("job.start"),
    ),
    row(M::POST, "/endpoint/{endpoint_id}/recover", application(Configure).audited("job.start")),
    row(
        M::POST,
        "/endpoint/{endpoint_id}/replay-missing",
        application(Configure).audited("job.start"),
    ),
    row(M::POST, "/job", application(Configure).audited("job.start")),
    // Headers and secrets may hold credentials, so reading them needs more than `Read`.
    row(M::GET, "/endpoint/{endpoint_id}/headers", application(Configure)),
    row(
        M::PUT,
        "/endpoint/{endpoint_id}/headers",
        application(Configure).audited("endpoint.change"),
    ),
    row(
        M::PATCH,
        "/endpoint/{endpoint_id}/headers",
        application(Configure).audited("endpoint.change"),
    ),
    row(M::GET, "/endpoint/{endpoint_id}/secret", application(Configure)),
    row(
        M::POST,
        "/endpoint/{endpoint_id}/secret/rotate",
        application(Configure).audited("endpoint.rotate"),
    ),
    row(M::GET, "/endpoint/{endpoint_id}/msg", application(Read)),
    row(M::GET, "/endpoint/{endpoint_id}/stats", application(Read)),
    row(M::POST, "/endpoint/{endpoint_id}/ping", application(Configure)),
    row(M::POST, "/endpoint/{endpoint_id}/send-example", application(Push)),
    row(M::GET, "/endpoint/{endpoint_id}/pull", application(Pop)),
    row(M::POST, "/endpoint/{endpoint_id}/pull/ack", application(Pop)),
    row(M::POST, "/endpoint/{endpoint_id}/pull/nack", application(Pop)),
    row(M::POST, "/endpoint/{endpoint_id}/pull/extend", application(Pop)),
    row(M::GET, "/msg", application(Read)),
    row(M::POST, "/msg", application(Push)),
    row(M::POST, "/msg/precheck/active", application(Push)),
    row(M::GET, "/msg/{msg_id}", application(Read)),
    row(M::DELETE, "/msg/{msg_id}/content", application(Configure).audited("message.expunge")),
    row(M::GET, "/msg/{msg_id}/attempt/{attempt_id}", application(Read)),
    row(
        M::DELETE,
        "/msg/{msg_id}/attempt/{attempt_id}/content",
        application(Configure).audited("attempt.expunge"),
    ),
    row(M::GET, "/msg/{msg_id}/delivery", application(Read)),
    row(M::GET, "/msg/{msg_id}/endpoint", application(Read)),
    row(M::POST, "/msg/{msg_id}/cancel", application(Configure).audited("message.cancel")),
    row(
        M::POST,
        "/msg/{msg_id}/endpoint/{endpoint_id}/cancel",
        application(Configure).audited("message.cancel"),
    ),
    row(
        M::POST,
        "/msg/{msg_id}/endpoint/{endpoint_id}/resend",
        application(Configure).audited("message.resend"),
    ),
];
