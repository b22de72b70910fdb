//! The access policies of all routes, and how they are looked up.
//!
//! # Where it sits
//! [`table`] lists one row per route and method; `guard` looks up the row of a request.
//!
//! # Invariants
//! * A route without a policy is open only to callers with all permissions, and a test fails.

mod table;

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::Method;
use wakeline_core::{Realm, Verb};

use table::{
    APPLICATION_BASE, APPLICATIONS, FLOWS, HOOKS, OPERATIONAL_BASE, OPERATIONAL_ENDPOINTS, QUEUES,
    SERVER,
};

/// Where a request names the resource that it accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// The route is public: probes and documentation.
    Public,
    /// A path parameter is the resource's name.
    Path(&'static str),
    /// The resource is the queue of the partition whose id is a path parameter.
    Partition(&'static str),
    /// The resources are the queues of the lease in the path.
    Lease,
    /// The resource is the application that a path parameter names.
    Application(&'static str),
    /// The resource is the default application of the simplified webhook API.
    Event,
    /// The resource is the application of the job in the path.
    Job,
    /// The body or the query names the resource, or only the store knows it. The route checks
    /// access itself before it does anything.
    Body,
    /// Like `Body`, but the request may also only settle messages, or access orchestrations or
    /// webhooks.
    Mixed,
    /// The route returns a list and leaves out what the caller must not see.
    Listed,
    /// The route names no resource; the caller needs the verb on at least one resource.
    AnyResource,
    /// The caller needs the verb on all resources.
    All,
}

/// The permission that a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) realm: Realm,
    pub(crate) verb: Verb,
    pub(crate) name: Name,
    /// The action's name in the audit log; empty if the route is not audited.
    pub(crate) action: &'static str,
}

impl Policy {
    const fn new(realm: Realm, verb: Verb, name: Name) -> Self {
        Self { realm, verb, name, action: "" }
    }

    /// The same policy with an entry in the audit log for each successful request.
    const fn audited(self, action: &'static str) -> Self {
        Self { action, ..self }
    }
}

/// The policy of one method of a route.
struct PolicyRow {
    method: Method,
    /// The route's pattern, or the rest of it below a base.
    route: &'static str,
    policy: Policy,
}

type PolicyTable = HashMap<String, Vec<(Method, Policy)>>;

static TABLE: LazyLock<PolicyTable> = LazyLock::new(|| {
    let mut table = PolicyTable::new();
    let sections = [
        ("", SERVER),
        ("", QUEUES),
        ("", FLOWS),
        ("", HOOKS),
        (APPLICATION_BASE, APPLICATIONS),
        (OPERATIONAL_BASE, OPERATIONAL_ENDPOINTS),
    ];
    for (base, rows) in sections {
        for PolicyRow { method, route, policy } in rows {
            table.entry(format!("{base}{route}")).or_default().push((method.clone(), *policy));
        }
    }
    table
});

/// The result of looking up the policy of a route and method.
pub(crate) enum PolicyLookup {
    Policy(Policy),
    /// The route exists, but only for these other methods.
    OtherMethods(String),
    NoRoute,
    /// The route exists but has no policy.
    NoPolicy,
}

/// Finds the policy of a route by its pattern.
pub(crate) fn find(method: &Method, route: &str) -> PolicyLookup {
    // The table does not distinguish wildcard parameters from ordinary ones.
    let found =
        if route.contains("{*") { TABLE.get(&route.replace("{*", "{")) } else { TABLE.get(route) };
    let Some(methods) = found else { return PolicyLookup::NoPolicy };
    // The router handles HEAD like GET and drops the body, which would lose popped messages.
    let head = *method == Method::HEAD;
    let wanted = if head { &Method::GET } else { method };
    match methods.iter().find(|(own, _)| own == wanted) {
        Some((_, policy)) if !(head && policy.verb == Verb::Pop) => PolicyLookup::Policy(*policy),
        _ => PolicyLookup::OtherMethods(allowed(methods)),
    }
}

/// The methods of a route, in the format of the `Allow` header.
fn allowed(methods: &[(Method, Policy)]) -> String {
    let mut names: Vec<&str> = methods.iter().map(|(method, _)| method.as_str()).collect();
    let read =
        |(method, policy): &(Method, Policy)| *method == Method::GET && policy.verb != Verb::Pop;
    names.extend(methods.iter().any(read).then_some("HEAD"));
    names.sort_unstable();
    names.join(", ")
}
