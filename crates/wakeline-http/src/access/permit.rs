//! The permissions of a request's caller.

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

/// A window of a list: how many items to skip and how many to return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListWindow {
    pub(crate) limit: u32,
    pub(crate) offset: u32,
}

/// Number of items read at a time while looking for those that the caller may see.
const CHUNK_LEN: u32 = 1000;

/// A list filtered by the caller's permissions. It is read in chunks until enough items that the
/// caller may see were found.
pub(crate) struct Listing<'a, T> {
    permit: &'a Permit,
    limit: u32,
    skip: u32,
    next: Option<ListWindow>,
    /// The items found so far that the caller may see.
    pub(crate) items: Vec<T>,
}

impl<T> Listing<'_, T> {
    /// The next chunk to read; `None` if the list is complete.
    pub(crate) fn next(&self) -> Option<ListWindow> {
        self.next
    }

    /// Adds the items of the chunk that [`next`](Self::next) returned.
    pub(crate) fn take(&mut self, read: Vec<T>, queue: impl Fn(&T) -> &QueueName) {
        let Some(chunk) = self.next.take() else { return };
        let unfiltered = self.permit.may_all(Realm::Queue, Verb::Read);
        let more = !unfiltered && read.len() >= chunk.limit as usize;
        for item in read {
            if !self.permit.may(Realm::Queue, Verb::Read, queue(&item).as_str()) {
                continue;
            }
            match self.skip.checked_sub(1) {
                Some(left) => self.skip = left,
                None => self.items.push(item),
            }
        }
        let enough = self.items.len() >= self.limit as usize;
        self.items.truncate(self.limit as usize);
        let offset = chunk.offset.saturating_add(chunk.limit);
        self.next = (more && !enough).then_some(ListWindow { offset, ..chunk });
    }
}

/// The permissions of a request's caller. Routes whose body names resources check it themselves.
#[derive(Debug, Clone)]
pub(crate) struct Permit {
    caller: Caller,
    /// Whether the caller may do everything. Resources then need not be looked up.
    everything: bool,
}

fn missing_permission(realm: Realm, verb: Verb, name: &str) -> ApiError {
    ApiError::forbidden(&format!("{}:{}:{name}", realm.as_str(), verb.as_str(Some(realm))))
}

impl<S: Send + Sync> FromRequestParts<S> for Permit {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        // `guard` inserts the permit for every route that is not public.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| ApiError::forbidden("*:*:*"))
    }
}

impl Permit {
    pub(crate) fn new(caller: Caller) -> Self {
        let everything = caller.scopes().is_everything();
        Self { caller, everything }
    }

    /// The caller's name in the audit log.
    pub(crate) fn actor(&self) -> &str {
        self.caller.actor()
    }

    /// The producer recorded in messages that the caller pushes.
    pub(crate) fn producer(&self) -> Option<String> {
        self.caller.producer().map(str::to_owned)
    }

    /// Whether the caller may do everything.
    pub(crate) fn is_everything(&self) -> bool {
        self.everything
    }

    /// Whether the caller may use a verb on a resource.
    pub(crate) fn may(&self, realm: Realm, verb: Verb, name: &str) -> bool {
        self.everything || self.caller.scopes().allow(realm, verb, name)
    }

    /// Whether the caller may use a verb on all resources of a realm.
    pub(crate) fn may_all(&self, realm: Realm, verb: Verb) -> bool {
        self.everything || self.caller.scopes().allow_all(realm, verb)
    }

    /// Fails unless the caller may use a verb on a resource.
    pub(crate) fn need(&self, realm: Realm, verb: Verb, name: &str) -> Result<(), ApiError> {
        if self.may(realm, verb, name) {
            Ok(())
        } else if self.caller.scopes().see(realm, name) {
            Err(missing_permission(realm, verb, name))
        } else {
            Err(ApiError::no_access())
        }
    }

    /// Fails unless the caller may use a verb on all resources of a realm.
    pub(crate) fn need_all(&self, realm: Realm, verb: Verb) -> Result<(), ApiError> {
        if self.may_all(realm, verb) { Ok(()) } else { Err(missing_permission(realm, verb, "*")) }
    }

    /// Fails unless the caller may use a verb on each of these queues.
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

    /// Fails unless the caller may use a verb on the queue of each of these partitions.
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
            let queue = queue.ok_or_else(ApiError::no_access)?;
            self.need(Realm::Queue, verb, queue.as_str())?;
        }
        Ok(())
    }

    /// Fails unless the caller may settle messages in the partitions of these items.
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

    /// Fails unless the caller may send messages to an application.
    pub(crate) async fn need_emit(
        &self,
        state: &AppState,
        application: &ApplicationRef,
    ) -> Result<(), ApiError> {
        self.check_application(state, Verb::Push, &application.to_string()).await
    }

    /// Fails unless the caller may do everything in a transaction. Webhook messages are checked
    /// separately, by [`need_emit`](Self::need_emit).
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

    /// Starts reading a window of a list whose items belong to queues. The caller gets only the
    /// items of queues that they may read.
    pub(crate) fn listing<T>(&self, wanted: ListWindow) -> Listing<'_, T> {
        let unfiltered = self.may_all(Realm::Queue, Verb::Read);
        let next = if unfiltered { wanted } else { ListWindow { limit: CHUNK_LEN, offset: 0 } };
        let skip = if unfiltered { 0 } else { wanted.offset };
        Listing { permit: self, limit: wanted.limit, skip, next: Some(next), items: Vec::new() }
    }

    /// Whether the caller may use a verb on an application, by its id or by its uid.
    pub(crate) fn may_application(&self, verb: Verb, application: &Application) -> bool {
        let own =
            application.uid.as_ref().is_some_and(|uid| self.may(Realm::Hook, verb, uid.as_str()));
        own || self.may(Realm::Hook, verb, &application.id.to_string())
    }

    /// Fails unless the caller may use a verb on the application that a body names. An application
    /// without a uid is not matched by any pattern, so it requires permission on all of them.
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

    /// Checks as much of a policy as the path and the caller's scopes allow.
    pub(super) async fn check(
        &self,
        state: &AppState,
        policy: &Policy,
        params: Option<&RawPathParams>,
    ) -> Result<(), ApiError> {
        let Policy { realm, verb, name, .. } = *policy;
        let param = |wanted: &str| {
            let mut params = params.into_iter().flatten();
            params.find(|(name, _)| *name == wanted).map_or("", |(_, value)| value)
        };
        match name {
            Name::Public => Ok(()),
            Name::Path(wanted) => self.need(realm, verb, param(wanted)),
            Name::Event => self.need(realm, verb, DEFAULT_APPLICATION),
            Name::All => self.need_all(realm, verb),
            Name::AnyResource | Name::Listed | Name::Body | Name::Mixed => {
                let scopes = self.caller.scopes();
                let some = scopes.allow_some(realm, verb);
                let settles =
                    matches!(name, Name::Body | Name::Mixed) && scopes.allow_some(realm, Verb::Pop);
                let other = name == Name::Mixed
                    && [Realm::Flow, Realm::Hook]
                        .iter()
                        .any(|other| scopes.allow_some(*other, verb));
                if some || settles || other {
                    Ok(())
                } else {
                    Err(missing_permission(realm, verb, "NAME"))
                }
            }
            Name::Partition(wanted) => {
                let partition: PartitionId =
                    param(wanted).parse().map_err(|_| ApiError::no_access())?;
                self.need_partitions(state, verb, &[partition]).await
            }
            Name::Lease => {
                let lease: LeaseId = param("leaseId").parse().map_err(|_| ApiError::no_access())?;
                let partitions: Vec<_> = lease.cursors.iter().map(|one| one.partition).collect();
                self.need_partitions(state, verb, &partitions).await
            }
            Name::Application(wanted) => self.check_application(state, verb, param(wanted)).await,
            Name::Job => {
                let id: JobId = param("task_id").parse().map_err(|_| ApiError::no_access())?;
                let job = state.hook().store().job(id).await?.ok_or_else(ApiError::no_access)?;
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
        let which = ApplicationRef::parse(named).map_err(|_| ApiError::no_access())?;
        let Some(found) = state.hook().store().application(&which).await? else {
            // This request may create the application.
            return self.need(Realm::Hook, verb, named);
        };
        if self.may_application(verb, &found) {
            return Ok(());
        }
        let id = found.id.to_string();
        let names = found.uid.iter().map(|uid| uid.as_str()).chain([id.as_str()]);
        if names.into_iter().any(|name| self.caller.scopes().see(Realm::Hook, name)) {
            Err(missing_permission(Realm::Hook, verb, named))
        } else {
            Err(ApiError::no_access())
        }
    }
}
