//! Webhook messages that turns emit, on both sides.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, EndpointId, EventId, HookChange, HookChangeKind, HookLine,
    HookMessageId,
};
use wakeline_store::hook::{
    Delivery, EmitOutcome, HookBackend, HookMessageFilter, HookStore as _, NewApplication,
    NewEndpoint, NewMessage,
};

use super::compare::{Comparison, same};
use super::side::FlowNames;
use super::world::{FlowWorld, failed};
use crate::hook_conformance::{
    application, channels, endpoint, event, first, patterns, plain as free,
};

/// An application with endpoints, the same on both sides.
pub(super) struct Listeners {
    application: NewApplication,
    endpoints: Vec<NewEndpoint>,
}

impl Listeners {
    pub(super) fn fresh() -> Self {
        let some = |types: &[&str], of: &[&str]| {
            let (event_types, channels) = (patterns(types), channels(of));
            NewEndpoint { event_types, channels, ..endpoint(free()) }
        };
        let endpoints = vec![some(&[], &[]), some(&["even"], &[]), some(&[], &["third"])];
        Self { application: application(None), endpoints }
    }

    /// Creates them on one side.
    pub(super) async fn make(&self, store: &dyn HookBackend) -> Comparison {
        store.create_application(self.application.clone(), None).await.map_err(failed)?;
        let of = ApplicationRef::Id(self.application.id);
        for new in &self.endpoints {
            store.create_endpoint(&of, new.clone(), None).await.map_err(failed)?;
        }
        Ok(())
    }

    pub(super) fn application(&self) -> ApplicationId {
        self.application.id
    }
}

impl FlowNames {
    /// Returns the message that the n-th decision emits; one of them goes to an unknown
    /// application.
    pub(super) fn emit(&self, n: u8) -> NewMessage {
        let known = ApplicationRef::Id(self.listeners.application());
        let unknown = ApplicationRef::Id(ApplicationId::generate());
        NewMessage {
            id: HookMessageId::generate(),
            application: if n == 8 { unknown } else { known },
            create_application: None,
            event_type: event(if n.is_multiple_of(2) { "even" } else { "odd" }),
            event_id: Some(EventId::parse(&format!("flow.{n}")).expect("a valid id")),
            channels: channels(if n.is_multiple_of(3) { &["third"] } else { &[] }),
            payload: Bytes::from(n.to_string()),
            retention: wakeline_core::MESSAGE_RETENTION_DEFAULT,
            only: None,
            idempotency: None,
        }
    }
}

/// Describes an outcome without times.
pub(super) fn plain(outcome: &EmitOutcome) -> String {
    match outcome {
        EmitOutcome::Stored(message, deliveries) => format!("{} to {deliveries}", message.id),
        EmitOutcome::Repeated(message) => format!("repeats {}", message.id),
        EmitOutcome::Taken(message) => format!("taken by {}", message.id),
        EmitOutcome::KeyReused => "key reused".to_owned(),
        EmitOutcome::NoApplication => "no application".to_owned(),
        EmitOutcome::Refused(reason) => format!("refused: {reason}"),
    }
}

/// Requires that senders are notified if they have something sooner than was known `before`.
pub(super) fn check_emit_notifications(
    before: Option<Duration>,
    oracle: &[HookChange],
    store: &[HookChange],
) -> Comparison {
    let push = |changes: &[HookChange]| {
        let push = changes.iter().filter(|change| change.what == HookChangeKind::Push);
        push.map(|change| change.due_in).min()
    };
    match (push(oracle), push(store)) {
        (Some(due), reported)
            if before.is_none_or(|before| before > due)
                && reported.is_none_or(|reported| reported > due) =>
        {
            Err(format!("senders have something in {due:?}, but the changes are {store:?}"))
        }
        _ => Ok(()),
    }
}

/// A stored message: its id, its payload, and its endpoints with their numbers of attempts.
type ReadMessage = (HookMessageId, Option<Bytes>, Vec<(EndpointId, u32)>);

async fn read(
    store: &dyn HookBackend,
    application: ApplicationId,
) -> Result<Vec<ReadMessage>, String> {
    let filter = HookMessageFilter { with_content: true, ..HookMessageFilter::default() };
    let messages = store.messages(application, filter, first(100)).await.map_err(failed)?;
    let mut all = Vec::new();
    for message in messages.items {
        let page = store.deliveries(application, message.id, first(100)).await.map_err(failed)?;
        let plain = |delivery: Delivery| (delivery.endpoint, delivery.attempts);
        all.push((message.id, message.payload, page.items.into_iter().map(plain).collect()));
    }
    Ok(all)
}

impl FlowWorld<'_> {
    /// Returns the time until something can be sent.
    pub(super) async fn sending(&self) -> Result<Option<Duration>, String> {
        let due = self.oracle.sweep_hook(vec![HookLine::Push]).await.map_err(failed)?;
        Ok(due.into_iter().flatten().next())
    }

    pub(super) async fn inspect_emits(&mut self) -> Comparison {
        let application = self.names.listeners.application();
        let oracle = read(&self.oracle, application).await?;
        let store = read(&*self.hooks, application).await?;
        same("messages to endpoints", oracle, store)
    }
}
