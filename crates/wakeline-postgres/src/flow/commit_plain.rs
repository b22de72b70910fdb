//! The arguments of the SQL function that commits plain turns: arrays, which the database reads
//! without parsing JSON.
//!
//! # Where it sits
//! [`super::commit`] uses this form if all turns of a call are plain, and otherwise a
//! [`super::commit_form::CommitCall`]. Both have the same effect on a plain turn.
//!
//! # Invariants
//! * A turn is plain if it sends no messages, cancels nothing, and does not change key-value state.

use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;

use super::commit_form::CommitForm;
use super::wire::{WorkArrays, WorkRequestForm};

/// The arguments of one call: one value per turn, then the activities.
#[derive(Default)]
pub(super) struct PlainCall<'a> {
    lanes: Vec<i64>,
    keys: Vec<Uuid>,
    executions: Vec<i64>,
    names: Vec<Option<&'a str>>,
    parents: Vec<Option<&'a str>>,
    parent_events: Vec<Option<i64>>,
    capabilities: Vec<Option<i32>>,
    versions: Vec<Option<&'a str>>,
    firsts: Vec<Option<i64>>,
    lasts: Vec<Option<i64>>,
    events: Vec<Option<&'a [u8]>>,
    statuses: Vec<i32>,
    status: Vec<Option<&'a str>>,
    endings: Vec<Option<&'a str>>,
    outputs: Vec<Option<&'a [u8]>>,
    work: WorkArrays<'a>,
    work_requests: Option<Json<Vec<WorkRequestForm>>>,
}

impl<'a> PlainCall<'a> {
    /// Combines commits into one call.
    pub(super) fn new(forms: impl Iterator<Item = &'a CommitForm>) -> Self {
        let mut call = Self::default();
        let mut requests = Vec::new();
        for (index, form) in forms.enumerate() {
            call.add(index + 1, form);
            requests.extend(form.work_requests.iter().map(|request| request.of(index + 1)));
        }
        call.work_requests = Some(Json(requests));
        call
    }

    fn add(&mut self, c: usize, form: &'a CommitForm) {
        let own = &form.own;
        self.lanes.push(own.lane);
        self.keys.push(own.key);
        self.executions.push(own.execution);
        self.names.push(own.name.as_deref());
        self.parents.push(own.parent.as_deref());
        self.parent_events.push(own.parent_event);
        self.capabilities.push(own.capability);
        self.versions.push(own.version.as_deref());
        self.firsts.push(own.first);
        self.lasts.push(own.last);
        self.events.push(form.events.as_deref());
        self.statuses.push(i32::try_from(own.statuses).unwrap_or(i32::MAX));
        self.status.push(own.status.as_deref());
        self.endings.push(own.ending);
        self.outputs.push(form.output.as_deref());
        for work in &form.work {
            self.work.add(c, work);
        }
    }

    /// Returns the parameters in order.
    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![
            &self.lanes,
            &self.keys,
            &self.executions,
            &self.names,
            &self.parents,
            &self.parent_events,
            &self.capabilities,
            &self.versions,
            &self.firsts,
            &self.lasts,
            &self.events,
            &self.statuses,
            &self.status,
            &self.endings,
            &self.outputs,
        ];
        params.extend(self.work.params());
        params.push(&self.work_requests);
        params
    }

    /// Returns the keys of the requests that were passed with the commits.
    pub(super) fn keys(&self) -> impl Iterator<Item = Uuid> {
        let requests = self.work_requests.iter().flat_map(|requests| &requests.0);
        requests.map(|request| request.key)
    }
}
