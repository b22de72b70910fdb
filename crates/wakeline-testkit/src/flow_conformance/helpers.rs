//! Helpers of the rules of orchestrations: messages, workers and commits with defaults.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    ActivityFilter, ActivityName, ActivityNames, Capabilities, Capability, FlowChange, FlowLine,
    InstanceId, KvKey, OrchestrationName, OwnerId, QueueName, SessionId, Tag, TagFilter,
};
use wakeline_store::PushItem;
use wakeline_store::flow::{
    Envelope, ExecutionEnd, HistoryBatch, InstanceState, NewInstance, NewWork, SessionClaim,
    TurnClaim, TurnCommit, TurnItem, TurnRequest, Visible, WorkClaim, WorkKey, WorkRequest,
};

/// The duration of leases, unless a rule says otherwise.
pub const LEASE: Duration = Duration::from_secs(30);
/// The duration of sessions, unless a rule says otherwise.
pub const SESSION: Duration = Duration::from_secs(60);
/// The capability of instances, unless a rule says otherwise.
pub const MAIN: &str = "main@1.0.0";

/// An instance's id.
pub fn id(text: &str) -> InstanceId {
    InstanceId::new(text).expect("a valid name")
}

/// A capability.
pub fn capability(text: &str) -> Capability {
    Capability::new(text).expect("a valid name")
}

/// The name of an orchestration.
pub fn orchestration(text: &str) -> OrchestrationName {
    OrchestrationName::new(text).expect("a valid name")
}

/// A key of the key-value state.
pub fn kv_key(text: &str) -> KvKey {
    KvKey::new(text).expect("a valid name")
}

/// A tag.
pub fn tag(text: &str) -> Tag {
    Tag::new(text).expect("a valid name")
}

/// An owner of sessions.
pub fn owner(text: &str) -> OwnerId {
    OwnerId::new(text).expect("a valid name")
}

/// A duration of seconds.
pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Visible after this number of seconds.
pub fn after(seconds: u64) -> Visible {
    Visible::After(secs(seconds))
}

/// Capabilities with these names.
pub fn capabilities(names: &[&str]) -> Capabilities {
    Capabilities::Of(names.iter().map(|name| capability(name)).collect())
}

/// A message that does not start an instance, with its text as payload.
pub fn event(instance: &str, text: &str) -> Envelope {
    Envelope {
        instance: id(instance),
        visible: Visible::Now,
        payload: Bytes::copy_from_slice(text.as_bytes()),
        starts: None,
        parent: None,
        unique: false,
        even_if_ended: false,
        key: None,
    }
}

/// A message that starts an execution of [`MAIN`] code, refused if the instance exists.
pub fn start(instance: &str) -> Envelope {
    Envelope { starts: Some(capability(MAIN)), unique: true, ..event(instance, "start") }
}

/// The start message of an instance whose parent waits for it.
pub fn child_start(instance: &str, parent: &str) -> Envelope {
    let parent = Some(id(parent));
    Envelope { parent, unique: false, even_if_ended: true, ..start(instance) }
}

/// A message that starts an execution with another capability.
pub fn start_of(instance: &str, needed: &str) -> Envelope {
    Envelope { starts: Some(capability(needed)), ..start(instance) }
}

/// The request of one dispatcher.
pub fn dispatcher(names: &[&str]) -> TurnRequest {
    TurnRequest { key: Uuid::new_v4(), lease: LEASE, capabilities: capabilities(names) }
}

/// A claim of this number of dispatchers.
pub fn turn_line(line: &Capabilities, requests: usize) -> TurnClaim {
    let request = || TurnRequest { key: Uuid::new_v4(), lease: LEASE, capabilities: line.clone() };
    let requests = (0..requests).map(|_| request()).collect();
    TurnClaim { capabilities: line.clone(), requests, further: false }
}

/// A commit without any changes, not even an event.
pub fn nothing(turn: &TurnItem) -> TurnCommit {
    TurnCommit {
        token: turn.token,
        execution: turn.execution.max(1),
        new_instance: None,
        pinned: None,
        history: None,
        status: Vec::new(),
        kv: Vec::new(),
        end: ExecutionEnd::Open,
        work: Vec::new(),
        cancelled_work: Vec::new(),
        messages: Vec::new(),
        cancelled_messages: Vec::new(),
        clear: false,
        pushes: Vec::new(),
        emits: Vec::new(),
        turn_requests: Vec::new(),
        work_requests: Vec::new(),
    }
}

/// A commit with one more event; it creates the instance or the next execution where needed.
pub fn step(turn: &TurnItem) -> TurnCommit {
    let goes_over = turn.state == Some(InstanceState::ContinuedAsNew);
    let execution = turn.execution.max(1) + u64::from(goes_over);
    let last = if goes_over { 0 } else { turn.last_event };
    TurnCommit {
        execution,
        new_instance: turn.name.is_none().then(|| new_instance("order")),
        history: Some(batch(last + 1, last + 1)),
        ..nothing(turn)
    }
}

/// A commit that completes its instance.
pub fn finish(turn: &TurnItem) -> TurnCommit {
    ends(turn, InstanceState::Completed)
}

/// A commit that ends its instance.
pub fn ends(turn: &TurnItem, state: InstanceState) -> TurnCommit {
    let output = Some(Bytes::from_static(b"output"));
    TurnCommit { end: ExecutionEnd::Ended { state, output }, clear: true, ..step(turn) }
}

/// A commit that continues its instance as new.
pub fn continues(turn: &TurnItem, needed: &str) -> TurnCommit {
    let next = Envelope { unique: false, ..start_of(turn.instance.as_str(), needed) };
    let output = Some(Bytes::from_static(b"input"));
    TurnCommit { end: ExecutionEnd::ContinuedAsNew { output }, messages: vec![next], ..step(turn) }
}

/// A new instance without a parent.
pub fn new_instance(name: &str) -> NewInstance {
    NewInstance { name: orchestration(name), parent: None }
}

/// A batch with the events of these numbers.
pub fn batch(first: u64, last: u64) -> HistoryBatch {
    HistoryBatch { first, last, events: Bytes::from(format!("events {first} to {last}")) }
}

/// An activity of the first execution, with its number as payload.
pub fn work(instance: &str, activity: u64) -> NewWork {
    NewWork {
        instance: id(instance),
        key: WorkKey { execution: 1, activity },
        name: None,
        tag: None,
        session: None,
        visible: Visible::Now,
        payload: Bytes::from(activity.to_string()),
    }
}

/// An activity with a tag.
pub fn tagged(instance: &str, activity: u64, of: &str) -> NewWork {
    NewWork { tag: Some(tag(of)), ..work(instance, activity) }
}

/// An activity with a name.
pub fn named(instance: &str, activity: u64, name: &str) -> NewWork {
    NewWork { name: Some(activity_name(name)), ..work(instance, activity) }
}

/// The name of an activity.
pub fn activity_name(text: &str) -> ActivityName {
    ActivityName::new(text).expect("a valid name")
}

/// An activity of a session.
pub fn in_session(instance: &str, activity: u64, session: &str) -> NewWork {
    let session = Some(SessionId::new(session).expect("a valid name"));
    NewWork { session, ..work(instance, activity) }
}

/// A worker that claims activities.
#[derive(Debug, Clone)]
pub struct Worker {
    /// The activities that it takes.
    pub filter: ActivityFilter,
    /// The owner for whom sessions are claimed, if any.
    pub session: Option<SessionClaim>,
    /// The duration of its leases.
    pub lease: Duration,
}

impl Worker {
    /// A worker that takes activities without a tag and without a session.
    pub fn plain() -> Self {
        let filter = ActivityFilter::of_tags(TagFilter::untagged());
        Self { filter, session: None, lease: LEASE }
    }

    /// A worker that takes activities of all tags, but of no session.
    pub fn any() -> Self {
        Self { filter: ActivityFilter::of_tags(TagFilter::Any), ..Self::plain() }
    }

    /// A worker that takes these tags, and untagged activities if `untagged` is set.
    pub fn of(untagged: bool, tags: &[&str]) -> Self {
        let tags = tags.iter().map(|text| tag(text)).collect();
        Self { filter: ActivityFilter::of_tags(TagFilter::Of { untagged, tags }), ..Self::plain() }
    }

    /// Limits the worker to activities of these names.
    pub fn knowing(mut self, names: &[&str]) -> Self {
        let names = names.iter().map(|text| activity_name(text)).collect();
        self.filter.names = ActivityNames::Of(Arc::new(names));
        self
    }

    /// A worker that takes untagged activities, including those of all sessions that this owner may
    /// have.
    pub fn owning(name: &str) -> Self {
        let session = Some(SessionClaim { owner: owner(name), lease: SESSION });
        Self { session, ..Self::plain() }
    }

    /// One request of this worker.
    pub fn request(&self) -> WorkRequest {
        WorkRequest {
            key: Uuid::new_v4(),
            lease: self.lease,
            filter: self.filter.clone(),
            session: self.session.clone(),
        }
    }

    /// A claim with this number of its requests.
    pub fn claim(&self, requests: usize) -> WorkClaim {
        WorkClaim {
            filter: self.filter.clone(),
            session: self.session.clone(),
            requests: (0..requests).map(|_| self.request()).collect(),
            further: false,
        }
    }

    /// The line of this worker, for sweeps and hints.
    pub fn line(&self) -> FlowLine {
        let owner = self.session.as_ref().map(|session| session.owner.clone());
        FlowLine::Work { filter: self.filter.clone(), owner }
    }
}

/// A message to a queue, with its transaction id as payload.
pub fn push(queue: &str, text: &str) -> PushItem {
    crate::conformance::item(&QueueName::new(queue).expect("a valid name"), "Default", text)
}

/// The line of [`MAIN`] dispatchers.
pub fn main_line() -> FlowLine {
    FlowLine::Turns(capabilities(&[MAIN]))
}

/// The earliest time at which a line is due, by the changes that concern it.
pub fn earliest_due(changes: &[FlowChange], line: &FlowLine) -> Option<Duration> {
    changes.iter().filter(|change| change.concerns(line)).map(|change| change.due_in).min()
}

/// The payloads of a turn's messages as text.
pub fn texts(turn: &TurnItem) -> Vec<String> {
    let text = |payload: &Bytes| String::from_utf8_lossy(payload).into_owned();
    turn.messages.iter().map(|message| text(&message.payload)).collect()
}
