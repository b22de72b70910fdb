//! What the caller of a request may do.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use wakeline_access::Caller;
use wakeline_core::{ApplicationRef, JobId, LeaseId, PartitionId, QueueName, Realm, Uid, Verb};
use wakeline_store::hook::Application;
use wakeline_store::{SettleItem, TransactCommand};

use super::policy::{Name, Policy};
use crate::error::ApiError;
use crate::routes::DEFAULT_APPLICATION;
use crate::state::AppState;

/// A part of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// At most so many.
    pub(crate) limit: u32,
    /// After skipping so many.
    pub(crate) offset: u32,
}

/// Items that are read at a time to find those that a caller may see.
const STRETCH: u32 = 1000;

/// A list on its way to a caller, read in parts until there is enough that they may see.
pub(crate) struct Listing<'a, T> {
    permit: &'a Permit,
    most: u32,
    skip: u32,
    next: Option<Part>,
    /// What was found.
    pub(crate) items: Vec<T>,
}

impl<T> Listing<'_, T> {
    /// What to read next; `None` if there is enough.
    pub(crate) fn next(&self) -> Option<Part> {
        self.next
    }

    /// Takes in what was read.
    pub(crate) fn take(&mut self, read: Vec<T>, queue: impl Fn(&T) -> &QueueName) {
        let Some(part) = self.next.take() else { return };
        let whole = self.permit.may_all(Realm::Queue, Verb::Read);
        let goes_on = !whole && read.len() >= part.limit as usize;
        for item in read {
            if !self.permit.may(Realm::Queue, Verb::Read, queue(&item).as_str()) {
                continue;
            }
            match self.skip.checked_sub(1) {
                Some(left) => self.skip = left,
                None => self.items.push(item),
            }
        }
        let enough = self.items.len() >= self.most as usize;
        self.items.truncate(self.most as usize);
        let offset = part.offset.saturating_add(part.limit);
        self.next = (goes_on && !enough).then_some(Part { offset, ..part });
    }
}

/// What the caller of a request may do. Routes whose names are in the body ask it themselves.
#[derive(Debug, Clone)]
pub(crate) struct Permit {
    caller: Caller,
    /// So that nothing is looked up for callers of whom nothing is withheld.
    everything: bool,
}

/// The caller lacks a scope.
fn lacking(realm: Realm, verb: Verb, name: &str) -> ApiError {
    ApiError::forbidden(&format!("{}:{}:{name}", realm.as_str(), verb.as_str(Some(realm))))
}

impl<S: Send + Sync> FromRequestParts<S> for Permit {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        // The guard puts it there for every route that is not open.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| ApiError::forbidden("*:*:*"))
    }
}

impl Permit {
    pub(crate) fn new(caller: Caller) -> Self {
        let everything = caller.scopes().is_everything();
        Self { caller, everything }
    }

    /// How the audit names the caller.
    pub(crate) fn actor(&self) -> &str {
        self.caller.actor()
    }

    /// What messages say of who pushed them.
    pub(crate) fn producer(&self) -> Option<String> {
        self.caller.producer().map(str::to_owned)
    }

    /// Whether nothing is withheld from the caller.
    pub(crate) fn is_everything(&self) -> bool {
        self.everything
    }

    /// Whether a verb on a name is allowed.
    pub(crate) fn may(&self, realm: Realm, verb: Verb, name: &str) -> bool {
        self.everything || self.caller.scopes().allow(realm, verb, name)
    }

    /// Whether a verb is allowed on all names.
    pub(crate) fn may_all(&self, realm: Realm, verb: Verb) -> bool {
        self.everything || self.caller.scopes().allow_all(realm, verb)
    }

    /// Fails unless a verb on a name is allowed.
    pub(crate) fn need(&self, realm: Realm, verb: Verb, name: &str) -> Result<(), ApiError> {
        match self.may(realm, verb, name) {
            true => Ok(()),
            false if self.caller.scopes().see(realm, name) => Err(lacking(realm, verb, name)),
            false => Err(ApiError::foreign()),
        }
    }

    /// Fails unless a verb is allowed on all names.
    pub(crate) fn need_all(&self, realm: Realm, verb: Verb) -> Result<(), ApiError> {
        if self.may_all(realm, verb) { Ok(()) } else { Err(lacking(realm, verb, "*")) }
    }

    /// Fails unless a verb is allowed on each of some queues.
    pub(crate) fn need_queues<'a>(
        &self,
        verb: Verb,
        queues: impl IntoIterator<Item = &'a QueueName>,
    ) -> Result<(), ApiError> {
        if self.may_all(Realm::Queue, verb) {
            return Ok(());
        }
        queues.into_iter().try_for_each(|queue| self.need(Realm::Queue, verb, queue.as_str()))
    }

    /// Fails unless a verb is allowed on the queue of each of some partitions.
    pub(crate) async fn need_partitions(
        &self,
        state: &AppState,
        verb: Verb,
        partitions: &[PartitionId],
    ) -> Result<(), ApiError> {
        if self.may_all(Realm::Queue, verb) || partitions.is_empty() {
            return Ok(());
        }
        for queue in state.access().queues_of(partitions).await? {
            let queue = queue.ok_or_else(ApiError::foreign)?;
            self.need(Realm::Queue, verb, queue.as_str())?;
        }
        Ok(())
    }

    /// Fails unless messages may be settled where they are.
    pub(crate) async fn need_settle<'a>(
        &self,
        state: &AppState,
        items: impl IntoIterator<Item = &'a SettleItem>,
    ) -> Result<(), ApiError> {
        if self.may_all(Realm::Queue, Verb::Pop) {
            return Ok(());
        }
        let partitions: Vec<_> = items.into_iter().map(|item| item.partition).collect();
        self.need_partitions(state, Verb::Pop, &partitions).await
    }

    /// Fails unless events may be emitted to an application.
    pub(crate) async fn need_emit(
        &self,
        state: &AppState,
        application: &ApplicationRef,
    ) -> Result<(), ApiError> {
        self.check_application(state, Verb::Push, &application.to_string()).await
    }

    /// Fails unless everything in a transaction is allowed; emits are checked by themselves.
    pub(crate) async fn need_transaction(
        &self,
        state: &AppState,
        command: &TransactCommand,
    ) -> Result<(), ApiError> {
        let pushes = command.pushes.iter().map(|item| &item.queue);
        let schedules = command.schedules.iter().map(|item| &item.message.queue);
        let cancels = command.cancels.iter().map(|item| &item.queue);
        self.need_queues(Verb::Push, pushes.chain(schedules).chain(cancels))?;
        for envelope in &command.envelopes {
            self.need(Realm::Flow, Verb::Push, envelope.instance.as_str())?;
        }
        self.need_settle(state, &command.settles).await
    }

    /// Begins to read a part of a list of things that belong to queues, of which the caller gets
    /// what they may see.
    pub(crate) fn listing<T>(&self, wanted: Part) -> Listing<'_, T> {
        let whole = self.may_all(Realm::Queue, Verb::Read);
        let next = if whole { wanted } else { Part { limit: STRETCH, offset: 0 } };
        let skip = if whole { 0 } else { wanted.offset };
        Listing { permit: self, most: wanted.limit, skip, next: Some(next), items: Vec::new() }
    }

    /// Whether a verb is allowed on an application, by its id or by the owner's.
    pub(crate) fn may_application(&self, verb: Verb, application: &Application) -> bool {
        let own =
            application.uid.as_ref().is_some_and(|uid| self.may(Realm::Hook, verb, uid.as_str()));
        own || self.may(Realm::Hook, verb, &application.id.to_string())
    }

    /// Fails unless a verb is allowed on the application that a body names. One without a name is
    /// covered by no pattern.
    pub(crate) async fn need_application(
        &self,
        state: &AppState,
        verb: Verb,
        uid: Option<&Uid>,
    ) -> Result<(), ApiError> {
        match uid {
            Some(uid) => self.check_application(state, verb, uid.as_str()).await,
            None => self.need_all(Realm::Hook, verb),
        }
    }

    /// Checks what a policy asks for, as far as path and caller tell.
    pub(super) async fn check(
        &self,
        state: &AppState,
        policy: &Policy,
        params: Option<&RawPathParams>,
    ) -> Result<(), ApiError> {
        let Policy { realm, verb, name, .. } = *policy;
        let part = |wanted: &str| {
            let mut parts = params.into_iter().flatten();
            parts.find(|(name, _)| *name == wanted).map_or("", |(_, value)| value)
        };
        match name {
            Name::Nobody => Ok(()),
            Name::Path(wanted) => self.need(realm, verb, part(wanted)),
            Name::Event => self.need(realm, verb, DEFAULT_APPLICATION),
            Name::All => self.need_all(realm, verb),
            Name::Some | Name::Listed | Name::Body | Name::Parts => {
                let scopes = self.caller.scopes();
                let some = scopes.allow_some(realm, verb);
                let settles =
                    matches!(name, Name::Body | Name::Parts) && scopes.allow_some(realm, Verb::Pop);
                let other = name == Name::Parts
                    && [Realm::Flow, Realm::Hook]
                        .iter()
                        .any(|other| scopes.allow_some(*other, verb));
                match some || settles || other {
                    true => Ok(()),
                    false => Err(lacking(realm, verb, "NAME")),
                }
            }
            Name::Partition(wanted) => {
                let partition: PartitionId =
                    part(wanted).parse().map_err(|_| ApiError::foreign())?;
                self.need_partitions(state, verb, &[partition]).await
            }
            Name::Lease => {
                let lease: LeaseId = part("leaseId").parse().map_err(|_| ApiError::foreign())?;
                let partitions: Vec<_> = lease.cursors.iter().map(|one| one.partition).collect();
                self.need_partitions(state, verb, &partitions).await
            }
            Name::Application(wanted) => self.check_application(state, verb, part(wanted)).await,
            Name::Job => {
                let id: JobId = part("task_id").parse().map_err(|_| ApiError::foreign())?;
                let job = state.hook().store().job(id).await?.ok_or_else(ApiError::foreign)?;
                self.check_application(state, verb, &job.application.to_string()).await
            }
        }
    }

    async fn check_application(
        &self,
        state: &AppState,
        verb: Verb,
        named: &str,
    ) -> Result<(), ApiError> {
        if self.may_all(Realm::Hook, verb) {
            return Ok(());
        }
        let which = ApplicationRef::parse(named).map_err(|_| ApiError::foreign())?;
        let Some(found) = state.hook().store().application(&which).await? else {
            // It may be made by this very request.
            return self.need(Realm::Hook, verb, named);
        };
        if self.may_application(verb, &found) {
            return Ok(());
        }
        let id = found.id.to_string();
        let names = found.uid.iter().map(|uid| uid.as_str()).chain([id.as_str()]);
        match names.into_iter().any(|name| self.caller.scopes().see(Realm::Hook, name)) {
            true => Err(lacking(Realm::Hook, verb, named)),
            false => Err(ApiError::foreign()),
        }
    }
}
