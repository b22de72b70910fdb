//! Applications, endpoints, and idempotency keys.

use std::time::Duration;

use wakeline_core::{
    ApplicationId, ApplicationRef, EndpointId, EndpointRef, HookChange, HookChangeKind, Timestamp,
    Uid,
};
use wakeline_store::hook::{
    Application, Created, DisableReason, Endpoint, EndpointSecret, EndpointUpdate, HookPage,
    Idempotency, NewApplication, NewEndpoint, PageRequest, RotateOutcome, Rotation, UpdateOutcome,
};

use super::page::page;
use super::state::{
    DeliveryEnd, DeliveryStage, KeyScope, KnownKey, MadeObject, OracleBreaker, OracleEndpoint,
    OracleHook,
};

/// How long an idempotency key is kept.
pub(super) const KEY_KEPT: Duration = Duration::from_secs(12 * 60 * 60);

/// The result of looking up an idempotency key.
pub(super) enum IdempotencyLookup {
    New,
    Reused,
    Created(MadeObject),
}

impl OracleHook {
    /// Looks up the idempotency key of a request (rule 2 of applications).
    pub(super) fn look_up(
        &self,
        scope: KeyScope,
        request: Option<&Idempotency>,
        now: Timestamp,
    ) -> IdempotencyLookup {
        let known = request.and_then(|request| self.keys.get(&(scope, request.key.clone())));
        let Some((request, known)) = request.zip(known) else { return IdempotencyLookup::New };
        if known.at.plus(KEY_KEPT) <= now {
            return IdempotencyLookup::New;
        }
        if known.digest != request.digest {
            return IdempotencyLookup::Reused;
        }
        let is_there = match &known.made {
            MadeObject::Application(id) => self.applications.contains_key(id),
            MadeObject::EventType(name) => self.event_types.contains_key(name),
            MadeObject::Endpoint(id) => {
                self.endpoint_entries.get(id).is_some_and(|entry| !entry.deleted)
            }
            MadeObject::Message(id) => self.messages.contains_key(id),
        };
        if is_there {
            IdempotencyLookup::Created(known.made.clone())
        } else {
            IdempotencyLookup::New
        }
    }

    pub(super) fn remember(
        &mut self,
        scope: KeyScope,
        request: Option<&Idempotency>,
        made: MadeObject,
        now: Timestamp,
    ) {
        if let Some(request) = request {
            let known = KnownKey { digest: request.digest, made, at: now };
            self.keys.insert((scope, request.key.clone()), known);
        }
    }

    pub(super) fn create_application(
        &mut self,
        new: NewApplication,
        request: Option<&Idempotency>,
        now: Timestamp,
    ) -> Created<Application> {
        match self.look_up(KeyScope::Applications, request, now) {
            IdempotencyLookup::New => {}
            IdempotencyLookup::Created(MadeObject::Application(id)) => {
                return Created::Repeated(self.applications[&id].clone());
            }
            IdempotencyLookup::Reused | IdempotencyLookup::Created(_) => return Created::KeyReused,
        }
        if let Some(same) = self.applications.get(&new.id) {
            return Created::Repeated(same.clone());
        }
        let made = MadeObject::Application(new.id);
        match self.make_application(new, now) {
            Ok(application) => {
                self.remember(KeyScope::Applications, request, made, now);
                Created::New(application)
            }
            Err(taken) => Created::Taken(taken),
        }
    }

    /// Creates an application. Returns the one that already has its `uid` as the error.
    pub(super) fn make_application(
        &mut self,
        new: NewApplication,
        now: Timestamp,
    ) -> Result<Application, Application> {
        if let Some(taken) = self.application_with(new.uid.as_ref()) {
            return Err(taken.clone());
        }
        let NewApplication { id, name, uid, rate_limit, metadata } = new;
        let (created_at, updated_at) = (now, now);
        let made = Application { id, name, uid, rate_limit, metadata, created_at, updated_at };
        self.applications.insert(id, made.clone());
        Ok(made)
    }

    fn application_with(&self, uid: Option<&Uid>) -> Option<&Application> {
        let uid = uid?;
        self.applications.values().find(|other| other.uid.as_ref() == Some(uid))
    }

    pub(super) fn list_applications(
        &self,
        request: &PageRequest<ApplicationId>,
        reserved: &str,
    ) -> HookPage<Application> {
        let is_reserved = |one: &Application| {
            let uid = one.uid.as_ref().map(Uid::as_str);
            !reserved.is_empty() && uid.is_some_and(|uid| uid.starts_with(reserved))
        };
        let shown = self.applications.values().filter(|one| !is_reserved(one));
        page(shown.map(|one| (one.id, one.clone())).collect(), request)
    }

    pub(super) fn update_application(
        &mut self,
        which: &ApplicationRef,
        new: NewApplication,
        expected: Option<Timestamp>,
        now: Timestamp,
    ) -> UpdateOutcome<Application> {
        let Some(id) = self.find_application(which) else { return UpdateOutcome::Missing };
        if expected.is_some_and(|at| at != self.applications[&id].updated_at) {
            return UpdateOutcome::Stale;
        }
        if self.application_with(new.uid.as_ref()).is_some_and(|has| has.id != id) {
            return UpdateOutcome::Taken;
        }
        let application = self.applications.get_mut(&id).expect("it was found");
        let NewApplication { name, uid, rate_limit, metadata, .. } = new;
        let created_at = application.created_at;
        *application =
            Application { id, name, uid, rate_limit, metadata, created_at, updated_at: now };
        UpdateOutcome::Updated(application.clone())
    }

    pub(super) fn delete_application(&mut self, which: &ApplicationRef) -> (bool, Vec<HookChange>) {
        let Some(id) = self.find_application(which) else { return (false, Vec::new()) };
        self.applications.remove(&id);
        let rows = self.messages.len()
            + self.rows.len()
            + self.attempts.len()
            + self.endpoint_entries.len();
        self.endpoint_entries.retain(|_, entry| entry.endpoint.application != id);
        self.messages.retain(|_, message| message.stored.application != id);
        self.rows.retain(|_, row| self.messages.contains_key(&row.message));
        self.attempts.retain(|_, attempt| self.messages.contains_key(&attempt.message));
        self.jobs.retain(|_, work| work.job.application != id);
        let own = [KeyScope::Endpoints(id), KeyScope::Messages(id)];
        self.keys.retain(|(scope, _), _| !own.contains(scope));
        let remaining = self.messages.len()
            + self.rows.len()
            + self.attempts.len()
            + self.endpoint_entries.len();
        self.left += u64::try_from(rows - remaining).expect("a count of rows fits");
        (true, vec![HookChange::now(HookChangeKind::Background)])
    }

    pub(super) fn create_endpoint(
        &mut self,
        application: &ApplicationRef,
        new: NewEndpoint,
        request: Option<&Idempotency>,
        now: Timestamp,
    ) -> Created<Endpoint> {
        let Some(owner) = self.find_application(application) else {
            return Created::NoApplication;
        };
        match self.look_up(KeyScope::Endpoints(owner), request, now) {
            IdempotencyLookup::New => {}
            IdempotencyLookup::Created(MadeObject::Endpoint(id)) => {
                return Created::Repeated(self.shown(id, now));
            }
            IdempotencyLookup::Reused | IdempotencyLookup::Created(_) => return Created::KeyReused,
        }
        if self.endpoint_entries_of(owner).any(|entry| entry.endpoint.id == new.id) {
            return Created::Repeated(self.shown(new.id, now));
        }
        if let Some(taken) = self.endpoint_with(owner, new.uid.as_ref()) {
            return Created::Taken(self.shown(taken, now));
        }
        self.remember(KeyScope::Endpoints(owner), request, MadeObject::Endpoint(new.id), now);
        let id = new.id;
        self.endpoint_entries.insert(id, OracleEndpoint::new(owner, new, now));
        Created::New(self.shown(id, now))
    }

    fn endpoint_with(&self, owner: ApplicationId, uid: Option<&Uid>) -> Option<EndpointId> {
        let uid = uid?;
        let has = |entry: &&OracleEndpoint| entry.endpoint.uid.as_ref() == Some(uid);
        self.endpoint_entries_of(owner).find(has).map(|entry| entry.endpoint.id)
    }

    /// Returns an endpoint with its current pause.
    pub(super) fn shown(&self, id: EndpointId, now: Timestamp) -> Endpoint {
        let entry = self.endpoint_entry(id);
        let paused_for = entry.paused_until(now).map(|until| now.until(until));
        Endpoint { paused_for, ..entry.endpoint.clone() }
    }

    pub(super) fn list_endpoints(
        &self,
        application: &ApplicationRef,
        request: &PageRequest<EndpointId>,
        now: Timestamp,
    ) -> Option<HookPage<Endpoint>> {
        let owner = self.find_application(application)?;
        let ids = self.endpoint_entries_of(owner).map(|entry| entry.endpoint.id);
        Some(page(ids.map(|id| (id, self.shown(id, now))).collect(), request))
    }

    pub(super) fn update_endpoint(
        &mut self,
        which: (&ApplicationRef, &EndpointRef),
        update: EndpointUpdate,
        now: Timestamp,
    ) -> (UpdateOutcome<Endpoint>, Vec<HookChange>) {
        let Some(id) = self.find_endpoint(which.0, which.1) else {
            return (UpdateOutcome::Missing, Vec::new());
        };
        let (owner, version) = (
            self.endpoint_entry(id).endpoint.application,
            self.endpoint_entry(id).endpoint.version,
        );
        if update.expected_version.is_some_and(|expected| expected != version) {
            return (UpdateOutcome::Stale, Vec::new());
        }
        let uid = update.uid.as_ref().and_then(Option::as_ref);
        if self.endpoint_with(owner, uid).is_some_and(|has| has != id) {
            return (UpdateOutcome::Taken, Vec::new());
        }
        self.endpoint_entry_mut(id).update(update, now);
        (UpdateOutcome::Updated(self.shown(id, now)), self.changes_of([id], now))
    }

    pub(super) fn delete_endpoint(
        &mut self,
        which: (&ApplicationRef, &EndpointRef),
        now: Timestamp,
    ) -> (bool, Vec<HookChange>) {
        let Some(id) = self.find_endpoint(which.0, which.1) else { return (false, Vec::new()) };
        self.endpoint_entry_mut(id).deleted = true;
        for row in self.rows.values_mut().filter(|row| row.endpoint == id) {
            match &mut row.stage {
                DeliveryStage::Waiting(_) => {
                    row.stage = DeliveryStage::Ended(DeliveryEnd::Cancelled)
                }
                DeliveryStage::Leased(lease, _) => lease.cancelled = true,
                DeliveryStage::Ended(_) => continue,
            }
            row.updated_at = now;
        }
        (true, Vec::new())
    }

    pub(super) fn rotate(
        &mut self,
        which: (&ApplicationRef, &EndpointRef),
        rotation: Rotation,
        now: Timestamp,
    ) -> RotateOutcome {
        let Some(id) = self.find_endpoint(which.0, which.1) else {
            return RotateOutcome::Missing;
        };
        let entry = self.endpoint_entry_mut(id);
        let mut old = entry.signing(now);
        if rotation.grace.is_zero() {
            old.remove(0);
        } else {
            old[0].expires_at = Some(now.plus(rotation.grace));
        }
        if old.len() > usize::try_from(rotation.old_max).expect("u32 fits into usize") {
            return RotateOutcome::TooMany;
        }
        let current = EndpointSecret { encrypted: rotation.encrypted, expires_at: None };
        entry.secrets = std::iter::once(current).chain(old).collect();
        RotateOutcome::Rotated
    }
}

impl OracleEndpoint {
    fn new(owner: ApplicationId, new: NewEndpoint, now: Timestamp) -> Self {
        let endpoint = Endpoint {
            id: new.id,
            application: owner,
            uid: new.uid,
            url: new.url,
            description: new.description,
            event_types: new.event_types,
            channels: new.channels,
            disabled: new.disabled,
            metadata: new.metadata,
            headers: new.headers,
            options: new.options,
            version: 1,
            created_at: now,
            updated_at: now,
            failing_since: None,
            paused_for: None,
        };
        Self {
            endpoint,
            secrets: vec![EndpointSecret { encrypted: new.secret, expires_at: None }],
            deleted: false,
            rate_at: Timestamp(0),
            throttled_until: Timestamp(0),
            breaker: OracleBreaker::Closed { failures: 0 },
            served: (Timestamp(0), 0),
        }
    }

    /// Returns the secrets that sign now.
    pub(super) fn signing(&self, now: Timestamp) -> Vec<EndpointSecret> {
        let signs = |secret: &&EndpointSecret| secret.expires_at.is_none_or(|end| end > now);
        self.secrets.iter().filter(signs).cloned().collect()
    }

    fn update(&mut self, update: EndpointUpdate, now: Timestamp) {
        if update.disabled == Some(false) && self.endpoint.disabled.is_some() {
            self.endpoint.disabled = None;
            self.endpoint.failing_since = None;
            self.breaker = OracleBreaker::Closed { failures: 0 };
        }
        let endpoint = &mut self.endpoint;
        if update.disabled == Some(true) {
            endpoint.disabled.get_or_insert(DisableReason::Requested);
        }
        set(&mut endpoint.uid, update.uid);
        set(&mut endpoint.url, update.url);
        set(&mut endpoint.description, update.description);
        set(&mut endpoint.event_types, update.event_types);
        set(&mut endpoint.channels, update.channels);
        set(&mut endpoint.metadata, update.metadata);
        set(&mut endpoint.headers, update.headers);
        set(&mut endpoint.options, update.options);
        endpoint.version += 1;
        endpoint.updated_at = now;
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}
