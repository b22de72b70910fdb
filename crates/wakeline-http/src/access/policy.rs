//! Who may call which route: one line per route and method.
//!
//! # Invariants
//! * A route that is not here is open to nobody but who may do everything, and a test fails.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::Method;
use wakeline_core::{Realm, Verb};

use Method as M;
use Name::{
    All, Application, Body, Event, Job, Lease, Listed, Nobody, Partition, Parts, Path, Some as Any,
};
use Realm::{Flow, Hook, Queue, Server};
use Verb::{Admin, Configure, Pop, Push, Read};

/// Where the name is that a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// It is about no name: probes and documentation, for everybody.
    Nobody,
    /// A part of the path.
    Path(&'static str),
    /// The queue of the partition whose id is a part of the path.
    Partition(&'static str),
    /// The queues of the lease in the path.
    Lease,
    /// The application that a part of the path names.
    Application(&'static str),
    /// The application of the plain routes of webhooks.
    Event,
    /// The application of the job in the path.
    Job,
    /// In the body or the query, or known to the store alone: the route itself checks, before
    /// anything is done.
    Body,
    /// As in a body, but it may also be about settling alone, orchestrations or webhooks.
    Parts,
    /// A list: the route itself leaves out what must not be seen.
    Listed,
    /// No name, but the verb on some is needed.
    Some,
    /// All names.
    All,
}

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) realm: Realm,
    pub(crate) verb: Verb,
    pub(crate) name: Name,
    /// How the audit calls it; empty if it does not record it.
    pub(crate) act: &'static str,
}

type Line = (Method, &'static str, Realm, Verb, Name, &'static str);
/// The routes of the server itself.
const SERVER: &[Line] = &[
    (M::GET, "/", Server, Read, Nobody, ""),
    (M::GET, "/health", Server, Read, Nobody, ""),
    (M::GET, "/healthz", Server, Read, Nobody, ""),
    (M::GET, "/readyz", Server, Read, Nobody, ""),
    (M::GET, "/docs", Server, Read, Nobody, ""),
    (M::GET, "/docs/", Server, Read, Nobody, ""),
    (M::GET, "/openapi.json", Server, Read, Nobody, ""),
    (M::GET, "/api/v1/health", Server, Read, Nobody, ""),
    (M::GET, "/metrics", Server, Read, All, ""),
    (M::GET, "/api/v1/analytics/system-metrics", Server, Read, All, ""),
    (M::GET, "/api/v1/analytics/worker-metrics", Server, Read, All, ""),
    (M::GET, "/api/v1/analytics/postgres-stats", Server, Read, All, ""),
    (M::GET, "/api/v1/system/shared-state", Server, Read, All, ""),
    (M::POST, "/api/v1/stats/refresh", Server, Admin, All, ""),
    (M::GET, "/api/v1/keys", Server, Admin, All, ""),
    (M::POST, "/api/v1/keys", Server, Admin, All, "key.create"),
    (M::DELETE, "/api/v1/keys/{id}", Server, Admin, All, "key.revoke"),
    (M::POST, "/api/v1/keys/{id}/rotate", Server, Admin, All, "key.rotate"),
    (M::GET, "/api/v1/audit", Server, Admin, All, ""),
    (M::GET, "/api/v1/system/maintenance", Server, Read, All, ""),
    (M::POST, "/api/v1/system/maintenance", Server, Admin, All, "maintenance.set"),
    (M::GET, "/api/v1/system/maintenance/pop", Server, Read, All, ""),
    (M::POST, "/api/v1/system/maintenance/pop", Server, Admin, All, "maintenance.set"),
];

const QUEUE: &str = "/api/v1/resources/queues/{queue}";
const GROUP_IN_QUEUE: &str = "/api/v1/consumer-groups/{group}/queues/{queue}";

/// The routes of queues.
const QUEUES: &[Line] = &[
    (M::POST, "/api/v1/push", Queue, Push, Body, ""),
    (M::GET, "/api/v1/pop", Queue, Pop, All, ""),
    (M::GET, "/api/v1/pop/queue/{queue}", Queue, Pop, Path("queue"), ""),
    (M::GET, "/api/v1/pop/queue/{queue}/partition/{partition}", Queue, Pop, Path("queue"), ""),
    (M::POST, "/api/v1/ack", Queue, Pop, Body, ""),
    (M::POST, "/api/v1/ack/batch", Queue, Pop, Body, ""),
    (M::POST, "/api/v1/lease/{leaseId}/extend", Queue, Pop, Lease, ""),
    (M::POST, "/api/v1/transaction", Queue, Push, Parts, ""),
    (M::POST, "/api/v1/timers", Queue, Push, Body, ""),
    (M::GET, "/api/v1/timers/{queue}", Queue, Read, Path("queue"), ""),
    (M::GET, "/api/v1/timers/{queue}/{key}", Queue, Read, Path("queue"), ""),
    (M::DELETE, "/api/v1/timers/{queue}/{key}", Queue, Push, Path("queue"), ""),
    (M::POST, "/api/v1/configure", Queue, Configure, Body, "queue.configure"),
    (M::GET, "/api/v1/resources/queues", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/resources/queues/{queue}/depth", Queue, Read, Path("queue"), ""),
    (M::GET, "/api/v1/resources/namespaces", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/resources/tasks", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/status/queues", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/status/queues/{queue}", Queue, Read, Path("queue"), ""),
    (M::GET, "/api/v1/status/queues/{queue}/messages", Queue, Read, Path("queue"), ""),
    (M::GET, "/api/v1/status/buffers", Queue, Read, Any, ""),
    (M::GET, "/api/v1/resources/overview", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/status", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/status/analytics", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/analytics/queue-ops", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/analytics/queue-lag", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/analytics/queue-parked-replicas", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/analytics/retention", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/resources/queues/{queue}", Queue, Read, Path("queue"), ""),
    (M::PATCH, QUEUE, Queue, Configure, Path("queue"), "queue.configure"),
    (M::DELETE, "/api/v1/resources/queues/{queue}", Queue, Admin, Path("queue"), "queue.delete"),
    (M::GET, "/api/v1/consumer-groups", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/consumer-groups/lagging", Queue, Read, Listed, ""),
    (M::GET, "/api/v1/consumer-groups/{group}", Queue, Read, Listed, ""),
    (M::DELETE, "/api/v1/consumer-groups/{group}", Queue, Admin, All, "group.delete"),
    (M::DELETE, GROUP_IN_QUEUE, Queue, Admin, Path("queue"), "group.delete"),
    (
        M::POST,
        "/api/v1/consumer-groups/{group}/queues/{queue}/seek",
        Queue,
        Configure,
        Path("queue"),
        "group.seek",
    ),
    (
        M::POST,
        "/api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
        Queue,
        Configure,
        Path("queue"),
        "group.seek",
    ),
    (M::POST, "/api/v1/consumer-groups/{group}/subscription", Queue, Configure, All, "group.seek"),
    (M::GET, "/api/v1/dlq", Queue, Read, Listed, ""),
    (M::DELETE, "/api/v1/dlq", Queue, Admin, Body, "dead_letter.purge"),
    (M::GET, "/api/v1/dlq/{deadLetterId}", Queue, Read, Body, ""),
    (M::DELETE, "/api/v1/dlq/{deadLetterId}", Queue, Admin, Body, "dead_letter.purge"),
    (M::POST, "/api/v1/dlq/redrive", Queue, Configure, Body, "dead_letter.redrive"),
    (M::GET, "/api/v1/dlq/redrive/{job}", Queue, Read, Body, ""),
    (M::DELETE, "/api/v1/dlq/redrive/{job}", Queue, Configure, Body, "dead_letter.redrive_cancel"),
    (M::GET, "/api/v1/messages", Queue, Read, Listed, ""),
    (
        M::POST,
        "/api/v1/messages/{partitionId}/{transactionId}/retry",
        Queue,
        Configure,
        Partition("partitionId"),
        "message.retry",
    ),
    (
        M::POST,
        "/api/v1/messages/{partitionId}/{transactionId}/dlq",
        Queue,
        Configure,
        Partition("partitionId"),
        "message.bury",
    ),
    (
        M::DELETE,
        "/api/v1/messages/{partitionId}/{transactionId}",
        Queue,
        Configure,
        Partition("partitionId"),
        "message.delete",
    ),
    (M::DELETE, "/api/v1/queues/{queue}/clear", Queue, Admin, Path("queue"), "queue.clear"),
    (
        M::DELETE,
        "/api/v1/resources/queues/{queue}/partitions/{partition}",
        Queue,
        Admin,
        Path("queue"),
        "partition.delete",
    ),
    (M::GET, "/api/v1/resources/partitions", Queue, Read, Listed, ""),
    (M::POST, "/api/v1/traces", Queue, Pop, Body, ""),
    (M::GET, "/api/v1/traces/names", Queue, Read, All, ""),
    (M::GET, "/api/v1/traces/by-name/{name}", Queue, Read, Listed, ""),
    (
        M::GET,
        "/api/v1/traces/{partitionId}/{transactionId}",
        Queue,
        Read,
        Partition("partitionId"),
        "",
    ),
    (
        M::GET,
        "/api/v1/messages/{partitionId}/{transactionId}",
        Queue,
        Read,
        Partition("partitionId"),
        "",
    ),
];

const INSTANCE: Name = Path("instance");

/// The routes of orchestrations.
const FLOWS: &[Line] = &[
    (M::POST, "/api/v1/orchestrations", Flow, Push, Body, ""),
    (M::GET, "/api/v1/orchestrations", Flow, Read, Listed, ""),
    (M::POST, "/api/v1/orchestrations/purge", Flow, Admin, Body, "orchestration.purge"),
    (M::POST, "/api/v1/orchestrations/prune", Flow, Admin, Body, "orchestration.prune"),
    (M::GET, "/api/v1/orchestrations/{instance}", Flow, Read, INSTANCE, ""),
    (M::DELETE, "/api/v1/orchestrations/{instance}", Flow, Admin, INSTANCE, "orchestration.delete"),
    (M::GET, "/api/v1/orchestrations/{instance}/wait", Flow, Read, INSTANCE, ""),
    (M::GET, "/api/v1/orchestrations/{instance}/history", Flow, Read, INSTANCE, ""),
    (M::GET, "/api/v1/orchestrations/{instance}/executions", Flow, Read, INSTANCE, ""),
    (M::GET, "/api/v1/orchestrations/{instance}/kv", Flow, Read, INSTANCE, ""),
    (M::GET, "/api/v1/orchestrations/{instance}/kv/{key}", Flow, Read, INSTANCE, ""),
    (M::GET, "/api/v1/orchestrations/{instance}/tree", Flow, Read, INSTANCE, ""),
    (M::GET, "/api/v1/orchestrations/{instance}/mailbox", Flow, Read, INSTANCE, ""),
    (M::GET, "/api/v1/mailboxes", Flow, Read, Listed, ""),
    (M::POST, "/api/v1/orchestrations/{instance}/events/{event}", Flow, Push, INSTANCE, ""),
    (
        M::POST,
        "/api/v1/orchestrations/{instance}/cancel",
        Flow,
        Configure,
        INSTANCE,
        "orchestration.cancel",
    ),
    (
        M::POST,
        "/api/v1/orchestrations/{instance}/suspend",
        Flow,
        Configure,
        INSTANCE,
        "orchestration.suspend",
    ),
    (
        M::POST,
        "/api/v1/orchestrations/{instance}/resume",
        Flow,
        Configure,
        INSTANCE,
        "orchestration.resume",
    ),
    (
        M::POST,
        "/api/v1/orchestrations/{instance}/terminate",
        Flow,
        Admin,
        INSTANCE,
        "orchestration.terminate",
    ),
];

/// The routes of event types, operational and plain webhooks.
const HOOKS: &[Line] = &[
    (M::GET, "/api/v1/event-type", Hook, Read, Any, ""),
    (M::POST, "/api/v1/event-type", Hook, Configure, All, "event_type.create"),
    (M::GET, "/api/v1/event-type/{event_type_name}", Hook, Read, Any, ""),
    (M::PUT, "/api/v1/event-type/{event_type_name}", Hook, Configure, All, "event_type.change"),
    (M::PATCH, "/api/v1/event-type/{event_type_name}", Hook, Configure, All, "event_type.change"),
    (M::DELETE, "/api/v1/event-type/{event_type_name}", Hook, Admin, All, "event_type.delete"),
    (M::GET, "/api/v1/background-task/{task_id}", Hook, Read, Job, ""),
    (M::POST, "/events", Hook, Push, Event, ""),
    (M::GET, "/events/{id}", Hook, Read, Event, ""),
    (M::GET, "/events/{id}/attempts", Hook, Read, Event, ""),
    (M::GET, "/subscriptions", Hook, Read, Event, ""),
    (M::POST, "/subscriptions", Hook, Configure, Event, "endpoint.create"),
    (M::DELETE, "/subscriptions/{id}", Hook, Configure, Event, "endpoint.delete"),
];

const OPERATIONAL: &str = "/api/v1/operational-webhook/endpoint";

/// Below [`OPERATIONAL`].
const OPERATIONALS: &[(Method, &str, &str)] = &[
    (M::GET, "", ""),
    (M::POST, "", "endpoint.create"),
    (M::GET, "/{endpoint_id}", ""),
    (M::PUT, "/{endpoint_id}", "endpoint.change"),
    (M::DELETE, "/{endpoint_id}", "endpoint.delete"),
    (M::GET, "/{endpoint_id}/headers", ""),
    (M::PUT, "/{endpoint_id}/headers", "endpoint.change"),
    (M::GET, "/{endpoint_id}/secret", ""),
    (M::POST, "/{endpoint_id}/secret/rotate", "endpoint.rotate"),
];

/// Routes about one application: what follows `/api/v1/app/{app_id}`.
const APPLICATIONS: &[(Method, &str, Verb, &str)] = &[
    (M::GET, "", Read, ""),
    (M::PUT, "", Configure, "application.change"),
    (M::PATCH, "", Configure, "application.change"),
    (M::DELETE, "", Admin, "application.delete"),
    (M::GET, "/attempt/endpoint/{endpoint_id}", Read, ""),
    (M::GET, "/attempt/msg/{msg_id}", Read, ""),
    (M::GET, "/endpoint", Read, ""),
    (M::POST, "/endpoint", Configure, "endpoint.create"),
    (M::GET, "/endpoint/{endpoint_id}", Read, ""),
    (M::PUT, "/endpoint/{endpoint_id}", Configure, "endpoint.change"),
    (M::PATCH, "/endpoint/{endpoint_id}", Configure, "endpoint.change"),
    (M::DELETE, "/endpoint/{endpoint_id}", Configure, "endpoint.delete"),
    (M::POST, "/endpoint/{endpoint_id}/bulk-replay", Configure, "job.start"),
    (M::POST, "/endpoint/{endpoint_id}/recover", Configure, "job.start"),
    (M::POST, "/endpoint/{endpoint_id}/replay-missing", Configure, "job.start"),
    (M::POST, "/job", Configure, "job.start"),
    // Headers and secrets are not for those who may only look.
    (M::GET, "/endpoint/{endpoint_id}/headers", Configure, ""),
    (M::PUT, "/endpoint/{endpoint_id}/headers", Configure, "endpoint.change"),
    (M::PATCH, "/endpoint/{endpoint_id}/headers", Configure, "endpoint.change"),
    (M::GET, "/endpoint/{endpoint_id}/secret", Configure, ""),
    (M::POST, "/endpoint/{endpoint_id}/secret/rotate", Configure, "endpoint.rotate"),
    (M::GET, "/endpoint/{endpoint_id}/msg", Read, ""),
    (M::GET, "/endpoint/{endpoint_id}/stats", Read, ""),
    (M::POST, "/endpoint/{endpoint_id}/ping", Configure, ""),
    (M::POST, "/endpoint/{endpoint_id}/send-example", Push, ""),
    (M::GET, "/endpoint/{endpoint_id}/pull", Pop, ""),
    (M::POST, "/endpoint/{endpoint_id}/pull/ack", Pop, ""),
    (M::POST, "/endpoint/{endpoint_id}/pull/nack", Pop, ""),
    (M::POST, "/endpoint/{endpoint_id}/pull/extend", Pop, ""),
    (M::GET, "/msg", Read, ""),
    (M::POST, "/msg", Push, ""),
    (M::POST, "/msg/precheck/active", Push, ""),
    (M::GET, "/msg/{msg_id}", Read, ""),
    (M::DELETE, "/msg/{msg_id}/content", Configure, "message.expunge"),
    (M::GET, "/msg/{msg_id}/attempt/{attempt_id}", Read, ""),
    (M::DELETE, "/msg/{msg_id}/attempt/{attempt_id}/content", Configure, "attempt.expunge"),
    (M::GET, "/msg/{msg_id}/delivery", Read, ""),
    (M::GET, "/msg/{msg_id}/endpoint", Read, ""),
    (M::POST, "/msg/{msg_id}/cancel", Configure, "message.cancel"),
    (M::POST, "/msg/{msg_id}/endpoint/{endpoint_id}/cancel", Configure, "message.cancel"),
    (M::POST, "/msg/{msg_id}/endpoint/{endpoint_id}/resend", Configure, "message.resend"),
];

type Table = HashMap<String, Vec<(Method, Policy)>>;
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::new();
    let mut add = |method: &Method, route: String, policy| {
        table.entry(route).or_default().push((method.clone(), policy));
    };
    for (method, route, realm, verb, name, act) in [SERVER, QUEUES, FLOWS, HOOKS].concat() {
        add(&method, route.to_owned(), Policy { realm, verb, name, act });
    }
    let base = "/api/v1/app";
    let listed = Policy { realm: Hook, verb: Read, name: Listed, act: "" };
    add(&M::GET, base.to_owned(), listed);
    let made = Policy { verb: Configure, name: Body, act: "application.create", ..listed };
    add(&M::POST, base.to_owned(), made);
    for (method, rest, verb, act) in APPLICATIONS {
        let (verb, name) = (*verb, Application("app_id"));
        add(method, format!("{base}/{{app_id}}{rest}"), Policy { realm: Hook, verb, name, act });
    }
    for (method, rest, act) in OPERATIONALS {
        let policy = Policy { realm: Hook, verb: Admin, name: All, act };
        add(method, format!("{OPERATIONAL}{rest}"), policy);
    }
    table
});

/// What is known of a route and method.
pub(crate) enum Found {
    /// Its policy.
    Policy(Policy),
    /// The route is known, for these other methods.
    OtherMethods(String),
    NoRoute,
    /// Nothing, though there is a route.
    Nothing,
}

/// The policy of a route, by its pattern.
pub(crate) fn find(method: &Method, route: &str) -> Found {
    // A part that may have slashes in it is a part like others here.
    let found = match route.contains("{*") {
        true => TABLE.get(&route.replace("{*", "{")),
        false => TABLE.get(route),
    };
    let Some(methods) = found else { return Found::Nothing };
    // A router answers HEAD as GET, without the body: what takes messages would lose them.
    let head = *method == M::HEAD;
    let wanted = if head { &M::GET } else { method };
    match methods.iter().find(|(own, _)| own == wanted) {
        Some((_, policy)) if !(head && policy.verb == Pop) => Found::Policy(*policy),
        _ => Found::OtherMethods(allowed(methods)),
    }
}

/// The methods of a route, as a header has them.
fn allowed(methods: &[(Method, Policy)]) -> String {
    let mut names: Vec<&str> = methods.iter().map(|(method, _)| method.as_str()).collect();
    let read = |(method, policy): &(Method, Policy)| *method == M::GET && policy.verb != Pop;
    names.extend(methods.iter().any(read).then_some("HEAD"));
    names.sort_unstable();
    names.join(", ")
}
