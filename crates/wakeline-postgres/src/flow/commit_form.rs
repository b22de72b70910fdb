//! The arguments of the SQL function that commits turns.
//!
//! # Where it sits
//! A caller's [`TurnCommit`] becomes a [`CommitForm`]; [`super::commit`] puts the forms of a fused
//! call into one [`CommitCall`].
//!
//! # Invariants
//! * Successive changes within a turn are merged: only the last status and the last value of each
//!   key are sent, and no activity that the same turn cancels.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use serde::Serialize;
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;
use wakeline_core::FlowToken;
use wakeline_store::StoreError;
use wakeline_store::flow::{ExecutionEnd, InstanceState, KvChange, StatusChange, TurnCommit};

use super::FlowCore;
use super::wire::{
    Blobs, MessageForm, MessageJson, TurnRequestForm, WorkArrays, WorkForm, WorkRequestForm, signed,
};
use crate::queue::PiggybackedPushes;

/// A turn's commit with all names resolved.
pub(super) struct CommitForm {
    pub(super) token: FlowToken,
    pub(super) own: OwnForm,
    kv: Vec<(String, Option<Bytes>)>,
    pub(super) work: Vec<WorkForm>,
    cancelled_work: Vec<(i64, i64)>,
    pub(super) messages: Vec<MessageForm>,
    cancelled_messages: Vec<(i64, i64)>,
    turn_requests: Vec<TurnRequestForm>,
    pub(super) work_requests: Vec<WorkRequestForm>,
    pub(super) events: Option<Bytes>,
    pub(super) output: Option<Bytes>,
}

/// The changes of a turn to its own instance.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OwnForm {
    pub(super) lane: i64,
    pub(super) key: Uuid,
    pub(super) execution: i64,
    pub(super) name: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) parent_event: Option<i64>,
    pub(super) capability: Option<i32>,
    pub(super) version: Option<String>,
    pub(super) first: Option<i64>,
    pub(super) last: Option<i64>,
    events: Option<usize>,
    pub(super) statuses: usize,
    pub(super) status: Option<String>,
    kv: bool,
    kv_clear: bool,
    pub(super) ending: Option<&'static str>,
    output: Option<usize>,
    clear: bool,
}

#[derive(Debug, Serialize)]
struct KvJson<'a> {
    c: usize,
    key: &'a str,
    value: Option<usize>,
}

#[derive(Debug, Serialize)]
struct CancelledWorkJson {
    c: usize,
    execution: i64,
    activity: i64,
}

#[derive(Debug, Serialize)]
struct CancelledMessageJson {
    c: usize,
    execution: i64,
    event: i64,
}

/// The arguments of one call.
pub(super) struct CommitCall<'a> {
    blobs: Blobs<'a>,
    own: Json<Vec<OwnForm>>,
    kv: Json<Vec<KvJson<'a>>>,
    work: WorkArrays<'a>,
    cancelled_work: Json<Vec<CancelledWorkJson>>,
    messages: Json<Vec<MessageJson<'a>>>,
    cancelled_messages: Json<Vec<CancelledMessageJson>>,
    turn_requests: Json<Vec<TurnRequestForm>>,
    work_requests: Json<Vec<WorkRequestForm>>,
}

impl CommitForm {
    /// Returns the approximate number of bytes that it adds to a call.
    pub(super) fn bytes(&self) -> usize {
        let kv = self.kv.iter().map(|(_, value)| value.as_ref().map_or(0, Bytes::len) + 300);
        let sent = self.messages.iter().map(MessageForm::bytes);
        let work = self.work.iter().map(WorkForm::bytes);
        let own = [&self.events, &self.output].into_iter().flatten().map(Bytes::len);
        500 + kv.chain(sent).chain(work).chain(own).sum::<usize>()
    }

    /// Returns whether the plain form can represent it (see [`super::commit_plain`]).
    pub(super) fn is_plain(&self) -> bool {
        let own = &self.own;
        let sends = !self.messages.is_empty() || !self.turn_requests.is_empty();
        let takes = !self.cancelled_work.is_empty() || !self.cancelled_messages.is_empty();
        let continues = own.ending == Some(InstanceState::ContinuedAsNew.as_str());
        !(own.kv || own.clear || sends || takes || continues)
    }
}

impl<'a> CommitCall<'a> {
    /// Combines commits into one call.
    pub(super) fn new(forms: impl Iterator<Item = &'a CommitForm>) -> Self {
        let mut call = Self {
            blobs: Blobs::default(),
            own: Json(Vec::new()),
            kv: Json(Vec::new()),
            work: WorkArrays::default(),
            cancelled_work: Json(Vec::new()),
            messages: Json(Vec::new()),
            cancelled_messages: Json(Vec::new()),
            turn_requests: Json(Vec::new()),
            work_requests: Json(Vec::new()),
        };
        for (index, form) in forms.enumerate() {
            call.add(index + 1, form);
        }
        call
    }

    /// Returns the parameters in order, followed by those of the pushes that are stored with them.
    pub(super) fn params<'p>(
        &'p self,
        pushes: &'p PiggybackedPushes,
    ) -> Vec<&'p (dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.own, &self.kv];
        params.extend(self.work.params());
        let rest: [&(dyn ToSql + Sync); 6] = [
            &self.cancelled_work,
            &self.messages,
            &self.cancelled_messages,
            &self.turn_requests,
            &self.work_requests,
            self.blobs.param(),
        ];
        params.extend(rest);
        params.extend(pushes.params());
        params
    }

    fn add(&mut self, c: usize, form: &'a CommitForm) {
        let mut own = form.own.clone();
        own.events = form.events.as_ref().map(|events| self.blobs.add(events));
        own.output = form.output.as_ref().map(|output| self.blobs.add(output));
        self.own.0.push(own);
        for (key, value) in &form.kv {
            let value = value.as_ref().map(|value| self.blobs.add(value));
            self.kv.0.push(KvJson { c, key, value });
        }
        for work in &form.work {
            self.work.add(c, work);
        }
        for (execution, activity) in form.cancelled_work.iter().copied() {
            self.cancelled_work.0.push(CancelledWorkJson { c, execution, activity });
        }
        for message in &form.messages {
            self.messages.0.push(message.json(c, &mut self.blobs));
        }
        for (execution, event) in form.cancelled_messages.iter().copied() {
            self.cancelled_messages.0.push(CancelledMessageJson { c, execution, event });
        }
        self.turn_requests.0.extend(form.turn_requests.iter().map(|request| request.of(c)));
        self.work_requests.0.extend(form.work_requests.iter().map(|request| request.of(c)));
    }

    /// Returns the keys of the requests that were passed with the commits.
    pub(super) fn keys(&self) -> impl Iterator<Item = Uuid> {
        let turns = self.turn_requests.0.iter().map(|request| request.key);
        turns.chain(self.work_requests.0.iter().map(|request| request.key))
    }
}

impl FlowCore {
    /// Resolves the names of a turn's commit. Its pushes are left out.
    pub(super) async fn commit_form(&self, commit: TurnCommit) -> Result<CommitForm, StoreError> {
        let mut work = Vec::with_capacity(commit.work.len());
        // Work that the turn itself cancels, or that repeats a key, is not sent.
        let mut keys: HashSet<_> = commit.cancelled_work.iter().copied().collect();
        for new in commit.work {
            if keys.insert(new.key) && !commit.clear {
                work.push(self.work(new).await?);
            }
        }
        let messages = self.messages(commit.messages).await?;
        let capability = match &commit.pinned {
            Some(pinned) => Some(self.capability(&pinned.capability).await?),
            None => None,
        };
        let new_instance = commit.new_instance;
        let parent = new_instance.as_ref().and_then(|new_instance| new_instance.parent.clone());
        let (kv_clear, kv) = last_values(commit.kv);
        let (ending, output) = match commit.end {
            ExecutionEnd::Open => (None, None),
            ExecutionEnd::Ended { state, output } => (Some(state.as_str()), output),
            ExecutionEnd::ContinuedAsNew { output } => {
                (Some(InstanceState::ContinuedAsNew.as_str()), output)
            }
        };
        let status = commit.status.last().and_then(|change| match change {
            StatusChange::Set(text) => Some(text.clone()),
            StatusChange::Clear => None,
        });
        let own = OwnForm {
            lane: commit.token.lane,
            key: commit.token.key,
            execution: signed(commit.execution),
            name: new_instance.map(|new_instance| new_instance.name.as_str().to_owned()),
            parent: parent.as_ref().map(|(parent, _)| parent.as_str().to_owned()),
            parent_event: parent.map(|(_, event)| signed(event)),
            capability,
            // An empty text means that no version was pinned.
            version: commit.pinned.map(|pinned| pinned.version.unwrap_or_default()),
            first: commit.history.as_ref().map(|batch| signed(batch.first)),
            last: commit.history.as_ref().map(|batch| signed(batch.last)),
            events: None,
            statuses: commit.status.len(),
            status,
            kv: kv_clear || !kv.is_empty(),
            kv_clear,
            ending,
            output: None,
            clear: commit.clear,
        };
        let numbers = |(a, b): (u64, u64)| (signed(a), signed(b));
        let cancelled_work = commit.cancelled_work.iter();
        Ok(CommitForm {
            token: commit.token,
            own,
            kv,
            work,
            cancelled_work: cancelled_work
                .map(|key| numbers((key.execution, key.activity)))
                .collect(),
            messages,
            cancelled_messages: commit.cancelled_messages.into_iter().map(numbers).collect(),
            turn_requests: self.turn_requests(&commit.turn_requests).await?,
            work_requests: self.work_requests(&commit.work_requests).await?,
            events: commit.history.map(|batch| batch.events),
            output,
        })
    }
}

/// Merges changes: returns whether all keys are cleared first, and the last value of each key.
fn last_values(changes: Vec<KvChange>) -> (bool, Vec<(String, Option<Bytes>)>) {
    let mut cleared = false;
    let mut values: BTreeMap<String, Option<Bytes>> = BTreeMap::new();
    for change in changes {
        match change {
            KvChange::Set(key, value) => {
                values.insert(key.as_str().to_owned(), Some(value));
            }
            KvChange::Clear(key) => {
                values.insert(key.as_str().to_owned(), None);
            }
            KvChange::ClearAll => {
                cleared = true;
                values.values_mut().for_each(|value| *value = None);
            }
        }
    }
    (cleared, values.into_iter().collect())
}
