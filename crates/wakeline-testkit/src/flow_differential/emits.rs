//! What turns emit, on both sides.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, EndpointId, EventId, HookChange, HookLine, HookMessageId,
    HookWhat,
};
use wakeline_store::hook::{
    Delivery, EmitOutcome, HookBackend, HookStore as _, MessageFilter, NewApplication, NewEndpoint,
    NewMessage,
};

use super::compare::{Same, same};
use super::side::Names;
use super::world::{World, failed};
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

    /// Makes them on one side.
    pub(super) async fn make(&self, store: &dyn HookBackend) -> Same {
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

impl Names {
    /// What the n-th decision emits; one of them to nobody.
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

/// Without times.
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

/// Senders that get something sooner than was known `before` are told.
pub(super) fn told_of_emits(
    before: Option<Duration>,
    oracle: &[HookChange],
    store: &[HookChange],
) -> Same {
    let push = |changes: &[HookChange]| {
        let push = changes.iter().filter(|change| change.what == HookWhat::Push);
        push.map(|change| change.due_in).min()
    };
    match (push(oracle), push(store)) {
        (Some(due), told)
            if before.is_none_or(|before| before > due) && told.is_none_or(|told| told > due) =>
        {
            Err(format!("senders have something in {due:?}, but are told {store:?}"))
        }
        _ => Ok(()),
    }
}

/// What a message comes to: its id, its payload, and how its deliveries stand.
type Read = (HookMessageId, Option<Bytes>, Vec<(EndpointId, u32)>);

async fn read(store: &dyn HookBackend, application: ApplicationId) -> Result<Vec<Read>, String> {
    let filter = MessageFilter { with_content: true, ..MessageFilter::default() };
    let messages = store.messages(application, filter, first(100)).await.map_err(failed)?;
    let mut all = Vec::new();
    for message in messages.items {
        let page = store.deliveries(application, message.id, first(100)).await.map_err(failed)?;
        let plain = |delivery: Delivery| (delivery.endpoint, delivery.attempts);
        all.push((message.id, message.payload, page.items.into_iter().map(plain).collect()));
    }
    Ok(all)
}

impl World<'_> {
    /// How long until there is something to send.
    pub(super) async fn sending(&self) -> Result<Option<Duration>, String> {
        let due = self.oracle.sweep_hook(vec![HookLine::Push]).await.map_err(failed)?;
        Ok(due.into_iter().flatten().next())
    }

    pub(super) async fn inspect_emits(&mut self) -> Same {
        let application = self.names.listeners.application();
        let oracle = read(&self.oracle, application).await?;
        let store = read(&*self.hooks, application).await?;
        same("messages to endpoints", oracle, store)
    }
}
