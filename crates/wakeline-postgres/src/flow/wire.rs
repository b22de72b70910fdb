//! The arguments of the SQL functions of orchestrations: JSON for the structure, arrays for the
//! bytes.
//!
//! # Where it sits
//! A caller converts its command into a form with all names resolved (`*Form`); a fused call
//! numbers the commands and combines their forms (`*Json`).
//!
//! # Invariants
//! * Commands and byte strings are numbered from 1, like the elements of PostgreSQL's arrays.
//! * Time spans are in microseconds, and so short that no sum exceeds the last timestamp that
//!   PostgreSQL supports.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakeline_store::StoreError;
use wakeline_store::flow::{Envelope, NewWork, TurnRequest, Visible, WorkRequest};

use super::FlowCore;
use super::names::FilterForm;

/// The longest span: 100 years.
const SPAN_MAX: Duration = Duration::from_secs(3_155_760_000);

/// Converts a span to microseconds.
pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.min(SPAN_MAX).as_micros()).expect("100 years fit")
}

/// Converts a number of the runtime to a signed one that PostgreSQL can store. Numbers above its
/// range are restored by the reverse conversion.
pub(super) fn signed(number: u64) -> i64 {
    number.cast_signed()
}

/// The time when a message or an activity can be claimed.
#[derive(Debug, Clone, Copy, Serialize)]
struct VisibleForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<i64>,
}

impl From<Visible> for VisibleForm {
    fn from(visible: Visible) -> Self {
        match visible {
            Visible::Now => Self { after: Some(0), at: None },
            Visible::After(span) => Self { after: Some(micros(span)), at: None },
            Visible::At(at) => Self { after: None, at: Some(at.0) },
        }
    }
}

/// The byte strings of a call.
#[derive(Default)]
pub(super) struct Blobs<'a>(Vec<&'a [u8]>);

impl<'a> Blobs<'a> {
    /// Adds a byte string and returns its number.
    pub(super) fn add(&mut self, bytes: &'a [u8]) -> usize {
        self.0.push(bytes);
        self.0.len()
    }

    /// Returns the byte strings as a parameter.
    pub(super) fn param(&self) -> &Vec<&'a [u8]> {
        &self.0
    }
}

/// A message with all names resolved.
pub(super) struct MessageForm {
    pub(super) instance: String,
    moment: VisibleForm,
    payload: Bytes,
    pub(super) starts: Option<i32>,
    parent: Option<String>,
    unique: bool,
    ended_too: bool,
    key: Option<(i64, i64)>,
}

/// A message as part of a call.
#[derive(Debug, Serialize)]
pub(super) struct MessageJson<'a> {
    c: usize,
    instance: &'a str,
    #[serde(flatten)]
    moment: VisibleForm,
    body: usize,
    starts: Option<i32>,
    parent: Option<&'a str>,
    uniq: bool,
    ended_too: bool,
    key_execution: Option<i64>,
    key_event: Option<i64>,
}

impl MessageForm {
    /// Returns the approximate number of bytes that it adds to a call.
    pub(super) fn bytes(&self) -> usize {
        self.payload.len() + self.instance.len() + 200
    }

    /// Returns whether it goes to a running instance and is visible immediately.
    pub(super) fn is_plain(&self) -> bool {
        self.starts.is_none() && !self.unique && self.is_simple()
    }

    /// Returns whether it immediately starts an instance that must not exist yet.
    pub(super) fn is_plain_start(&self) -> bool {
        self.starts.is_some() && self.parent.is_none() && self.unique && self.is_simple()
    }

    fn is_simple(&self) -> bool {
        self.moment.after == Some(0) && !self.ended_too && self.key.is_none()
    }

    /// Returns the payload.
    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Converts it to a part of command `c`.
    pub(super) fn json<'a>(&'a self, c: usize, blobs: &mut Blobs<'a>) -> MessageJson<'a> {
        MessageJson {
            c,
            instance: &self.instance,
            moment: self.moment,
            body: blobs.add(&self.payload),
            starts: self.starts,
            parent: self.parent.as_deref(),
            uniq: self.unique,
            ended_too: self.ended_too,
            key_execution: self.key.map(|key| key.0),
            key_event: self.key.map(|key| key.1),
        }
    }
}

/// The request of a dispatcher that is passed with a write or a claim.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TurnRequestForm {
    #[serde(skip_serializing_if = "is_zero")]
    c: usize,
    r: usize,
    pub(super) key: Uuid,
    lease: i64,
    caps: Option<Vec<i32>>,
}

/// The request of a worker that is passed with a write.
#[derive(Debug, Clone, Serialize)]
pub(super) struct WorkRequestForm {
    c: usize,
    r: usize,
    pub(super) key: Uuid,
    lease: i64,
    #[serde(flatten)]
    filter: FilterForm,
    owner: Option<String>,
    session_lease: Option<i64>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl TurnRequestForm {
    /// Returns it as a part of command `c`.
    pub(super) fn of(&self, c: usize) -> Self {
        Self { c, ..self.clone() }
    }
}

impl WorkRequestForm {
    /// Returns it as a part of command `c`.
    pub(super) fn of(&self, c: usize) -> Self {
        Self { c, ..self.clone() }
    }
}

/// An activity with all names resolved.
pub(super) struct WorkForm {
    execution: i64,
    activity: i64,
    route: i64,
    session: Option<String>,
    moment: VisibleForm,
    payload: Bytes,
}

/// The activities of a call as arrays.
#[derive(Default)]
pub(super) struct WorkArrays<'a> {
    commands: Vec<i32>,
    executions: Vec<i64>,
    activities: Vec<i64>,
    routes: Vec<i64>,
    sessions: Vec<Option<&'a str>>,
    afters: Vec<Option<i64>>,
    ats: Vec<Option<i64>>,
    bodies: Vec<&'a [u8]>,
}

impl<'a> WorkArrays<'a> {
    /// Adds an activity of command `c`.
    pub(super) fn add(&mut self, c: usize, work: &'a WorkForm) {
        self.commands.push(i32::try_from(c).expect("a call has few commands"));
        self.executions.push(work.execution);
        self.activities.push(work.activity);
        self.routes.push(work.route);
        self.sessions.push(work.session.as_deref());
        self.afters.push(work.moment.after);
        self.ats.push(work.moment.at);
        self.bodies.push(&work.payload);
    }

    /// Returns the parameters in order.
    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 8] {
        [
            &self.commands,
            &self.executions,
            &self.activities,
            &self.routes,
            &self.sessions,
            &self.afters,
            &self.ats,
            &self.bodies,
        ]
    }
}

impl WorkForm {
    /// Returns the approximate number of bytes that it adds to a call.
    pub(super) fn bytes(&self) -> usize {
        self.payload.len() + 200
    }
}

impl FlowCore {
    /// Resolves the names of messages.
    pub(super) async fn messages(
        &self,
        envelopes: Vec<Envelope>,
    ) -> Result<Vec<MessageForm>, StoreError> {
        let mut forms = Vec::with_capacity(envelopes.len());
        for envelope in envelopes {
            let starts = match &envelope.starts {
                Some(capability) => Some(self.capability(capability).await?),
                None => None,
            };
            forms.push(MessageForm {
                instance: envelope.instance.as_str().to_owned(),
                moment: envelope.visible.into(),
                payload: envelope.payload,
                starts,
                parent: envelope.parent.map(|parent| parent.as_str().to_owned()),
                unique: envelope.unique,
                ended_too: envelope.even_if_ended,
                key: envelope.key.map(|(execution, event)| (signed(execution), signed(event))),
            });
        }
        Ok(forms)
    }

    /// Resolves the names of dispatchers' requests.
    pub(super) async fn turn_requests(
        &self,
        requests: &[TurnRequest],
    ) -> Result<Vec<TurnRequestForm>, StoreError> {
        let mut forms = Vec::with_capacity(requests.len());
        for (r, request) in requests.iter().enumerate() {
            let caps = self.capabilities(&request.capabilities).await?;
            let lease = micros(request.lease);
            forms.push(TurnRequestForm { c: 0, r, key: request.key, lease, caps });
        }
        Ok(forms)
    }

    /// Resolves the names of workers' requests.
    pub(super) async fn work_requests(
        &self,
        requests: &[WorkRequest],
    ) -> Result<Vec<WorkRequestForm>, StoreError> {
        let mut forms = Vec::with_capacity(requests.len());
        for (r, request) in requests.iter().enumerate() {
            let session = request.session.as_ref();
            forms.push(WorkRequestForm {
                c: 0,
                r,
                key: request.key,
                lease: micros(request.lease),
                filter: self.filter(&request.filter).await?,
                owner: session.map(|session| session.owner.as_str().to_owned()),
                session_lease: session.map(|session| micros(session.lease)),
            });
        }
        Ok(forms)
    }

    /// Resolves the names of an activity.
    pub(super) async fn work(&self, work: NewWork) -> Result<WorkForm, StoreError> {
        Ok(WorkForm {
            execution: signed(work.key.execution),
            activity: signed(work.key.activity),
            route: self.route(&work.route()).await?,
            session: work.session.map(|session| session.as_str().to_owned()),
            moment: work.visible.into(),
            payload: work.payload,
        })
    }
}
