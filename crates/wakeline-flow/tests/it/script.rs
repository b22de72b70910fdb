//! Drives an execution by hand: delivers messages and collects events.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use wakeline_core::InstanceId;
use wakeline_flow::{
    Event, EventKind, Execution, ExecutionSetup, ExecutionStart, FlowError, FlowMessage, Json,
    Nondeterminism, OrchestrationCode, Registry, RegistryBuilder, ReplayError, TurnEnd, TurnResult,
};

/// One instance that is driven by hand, with its history.
pub(crate) struct Script {
    pub(crate) code: Arc<OrchestrationCode>,
    pub(crate) setup: ExecutionSetup,
    pub(crate) execution: Execution,
    pub(crate) history: Vec<Event>,
    pub(crate) now: i64,
    /// Whether the execution is replayed from its history before every turn.
    pub(crate) forgetful: bool,
}

pub(crate) fn id(text: &str) -> InstanceId {
    InstanceId::new(text).expect("valid")
}

pub(crate) fn json<T: Serialize>(value: T) -> Json {
    Json::of(&value).expect("encodes")
}

pub(crate) fn registry(build: impl FnOnce(RegistryBuilder) -> RegistryBuilder) -> Registry {
    build(Registry::builder()).build().expect("no duplicates")
}

impl Script {
    /// Creates the first execution of instance `i` with the newest code of `flow`.
    pub(crate) fn new<I: Serialize>(registry: &Registry, input: I) -> Self {
        let code = registry.newest("flow").expect("registered");
        let start =
            ExecutionStart { input: json(input), parent: None, seed: 7, carried: Vec::new() };
        Self::with(code, start)
    }

    pub(crate) fn with(code: Arc<OrchestrationCode>, start: ExecutionStart) -> Self {
        let setup = ExecutionSetup { instance: id("i"), execution: 1, kv: BTreeMap::new() };
        let execution = Execution::start(&code, setup.clone(), start);
        Self { code, setup, execution, history: Vec::new(), now: 1_000_000, forgetful: false }
    }

    /// Delivers messages, and appends the new events to the history.
    pub(crate) fn try_turn(
        &mut self,
        messages: Vec<FlowMessage>,
    ) -> Result<TurnResult, Nondeterminism> {
        if self.forgetful && !self.history.is_empty() {
            self.execution = self.replayed().expect("replays");
        }
        self.now += 1_000_000;
        let before = self.execution.last_event();
        assert_eq!(before, self.history.len() as u64);
        let turn = self.execution.deliver(messages, self.now)?;
        for (place, event) in turn.events.iter().enumerate() {
            assert_eq!(event.id, before + 1 + place as u64);
        }
        self.history.extend(turn.events.iter().cloned());
        Ok(turn)
    }

    pub(crate) fn turn(&mut self, messages: Vec<FlowMessage>) -> TurnResult {
        self.try_turn(messages).expect("deterministic")
    }

    /// Returns a new execution that is replayed from the history.
    pub(crate) fn replayed(&self) -> Result<Execution, ReplayError> {
        Execution::replay(&self.code, self.setup.clone(), self.history.iter().cloned())
    }

    /// Replays the history with other code.
    pub(crate) fn replay_as(
        &self,
        code: &Arc<OrchestrationCode>,
    ) -> Result<Execution, ReplayError> {
        Execution::replay(code, self.setup.clone(), self.history.iter().cloned())
    }

    /// Returns the events as short texts, without turns.
    pub(crate) fn event_texts(&self) -> Vec<String> {
        self.history
            .iter()
            .map(|event| event_text(&event.kind))
            .filter(|text| text != "turn")
            .collect()
    }
}

pub(crate) fn done<T: Serialize>(event: u64, value: T) -> FlowMessage {
    let result = Ok(json(value));
    FlowMessage::ActivityDone { instance: id("i"), execution: 1, event, identity: None, result }
}

pub(crate) fn failed(event: u64, error: FlowError) -> FlowMessage {
    FlowMessage::ActivityDone {
        instance: id("i"),
        execution: 1,
        event,
        identity: None,
        result: Err(error),
    }
}

pub(crate) fn fired(event: u64) -> FlowMessage {
    FlowMessage::TimerFired { instance: id("i"), execution: 1, event, fire_at: 0 }
}

pub(crate) fn child_done<T: Serialize>(event: u64, value: T) -> FlowMessage {
    let result = Ok(json(value));
    FlowMessage::ChildDone { instance: id("i"), execution: 1, event, identity: None, result }
}

pub(crate) fn raised<T: Serialize>(name: &str, data: T) -> FlowMessage {
    FlowMessage::EventRaised { instance: id("i"), name: name.to_owned(), data: json(data) }
}

pub(crate) fn cancel(reason: &str) -> FlowMessage {
    FlowMessage::CancelInstance { instance: id("i"), reason: reason.to_owned(), parent: None }
}

pub(crate) fn completed<T: Serialize>(value: T) -> TurnEnd {
    TurnEnd::Completed(json(value))
}

/// Describes an event in a few words.
pub(crate) fn event_text(kind: &EventKind) -> String {
    use EventKind as E;
    match kind {
        E::Started { .. } => "started".into(),
        E::Turn { .. } => "turn".into(),
        E::ActivityScheduled { name, input, .. } => format!("run {name} {input:?}"),
        E::ActivityCompleted { of, result } => format!("ran {of} {result:?}"),
        E::ActivityFailed { of, error } => format!("failed {of} {error}"),
        E::ActivityCancelled { of } => format!("cancel run {of}"),
        E::TimerCreated { .. } => "timer".into(),
        E::TimerFired { of } => format!("fired {of}"),
        E::TimerCancelled { of } => format!("cancel timer {of}"),
        E::EventAwaited { name } => format!("wait {name}"),
        E::EventRaised { name, data } => format!("raised {name} {data:?}"),
        E::EventForgone { of } => format!("forgo {of}"),
        E::ChildStarted { instance, attached, .. } => format!("child {instance} {attached}"),
        E::ChildCompleted { of, .. } => format!("child done {of}"),
        E::ChildFailed { of, .. } => format!("child failed {of}"),
        E::ChildCancelled { of } => format!("cancel child {of}"),
        E::StatusSet { status } => format!("status {status:?}"),
        E::KvSet { key, value } => format!("set {key} {value:?}"),
        E::KvCleared => "clear".into(),
        E::Pushed { queue, .. } => format!("push {queue}"),
        E::Emitted { event_type, .. } => format!("emit {event_type}"),
        E::Signalled { instance, name, .. } => format!("signal {instance} {name}"),
        E::CancelRequested { reason } => format!("cancel {reason}"),
        E::ContinuedAsNew { input, .. } => format!("again {input:?}"),
        E::Completed { output } => format!("completed {output:?}"),
        E::Failed { error } => format!("ended {:?} {error}", error.kind),
    }
}
