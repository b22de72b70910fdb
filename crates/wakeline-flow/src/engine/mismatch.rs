//! Shows the difference between a history and the decisions of the code.

use std::collections::VecDeque;
use std::fmt;

use wakeline_core::{InstanceId, OrchestrationName};

use crate::event::{ClosePolicy, Event, EventKind};

/// The number of events shown before the difference, and after it.
const AROUND: usize = 5;
/// The width of a column in characters.
const WIDTH: usize = 56;

/// The decisions of the code differ from those in its history. The instance is suspended until code
/// that matches the history is deployed.
#[derive(Debug, Clone, PartialEq)]
pub struct Mismatch {
    /// The instance that was replayed.
    pub instance: InstanceId,
    /// The execution that was replayed.
    pub execution: u64,
    /// The orchestration that the instance runs.
    pub name: OrchestrationName,
    /// The version of the code.
    pub version: String,
    /// The id of the first event that differs.
    pub event: u64,
    /// The events around it, in order.
    pub rows: Vec<MismatchRow>,
}

/// One event, as it is in the history and as the code produced it.
#[derive(Debug, Clone, PartialEq)]
pub struct MismatchRow {
    /// The id of the event.
    pub id: u64,
    /// The event in the history, with the location of the code when it was recorded.
    pub history: Option<Event>,
    /// The decision of the code, with its current location. `None` if the event is not a decision.
    pub code: Option<Event>,
}

/// Keeps the last events that matched, to show them before a difference.
#[derive(Default)]
pub(crate) struct RecentRows(VecDeque<MismatchRow>);

impl RecentRows {
    pub(crate) fn note(&mut self, history: Event, code: Option<Event>) {
        if self.0.len() == AROUND {
            self.0.pop_front();
        }
        self.0.push_back(MismatchRow { id: history.id, history: Some(history), code });
    }

    /// Returns the rows around a difference, given the events that follow on both sides.
    pub(crate) fn rows(
        self,
        history: impl Iterator<Item = Event>,
        code: Vec<Event>,
    ) -> Vec<MismatchRow> {
        let mut rows: Vec<MismatchRow> = self.0.into();
        let mut history = history.take(AROUND).peekable();
        let mut code = code.into_iter().take(AROUND).peekable();
        loop {
            let ids = history.peek().map(|event| event.id).into_iter();
            let Some(id) = ids.chain(code.peek().map(|event| event.id)).min() else { break };
            let history = history.next_if(|event| event.id == id);
            let code = code.next_if(|event| event.id == id);
            rows.push(MismatchRow { id, history, code });
        }
        rows
    }
}

impl std::error::Error for Mismatch {}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { instance, execution, name, version, event, .. } = self;
        writeln!(
            f,
            "{name}@{version} of instance {instance}, execution {execution}: the decisions of the \
             code do not match its history at event {event}\n"
        )?;
        writeln!(f, "  {:>7}  {:<WIDTH$} | code", "event", "history")?;
        for row in &self.rows {
            row.write(f, if row.id == *event { '>' } else { ' ' })?;
        }
        write!(
            f,
            "\nEither the code was changed while the instance was running, or it is not \
             deterministic. Restore the code of {version} and register the change as a new version \
             (`orchestration_versioned`); instances keep the version that they began with. The \
             clock, random numbers and ids must come from the context, and nothing may depend on \
             the iteration order of a hash map."
        )
    }
}

impl MismatchRow {
    fn write(&self, f: &mut fmt::Formatter<'_>, mark: char) -> fmt::Result {
        let happened = self.history.as_ref().is_some_and(|event| !event.kind.is_decision());
        let cell = |event: &Option<Event>, none: &str| match event {
            Some(event) => (cut(&describe(&event.kind)), event.at.clone()),
            None => (none.to_owned(), None),
        };
        let absent = if happened || mark == ' ' { "" } else { "(no decision)" };
        let (left, left_at) = cell(&self.history, if mark == '>' { "(end)" } else { "" });
        let (right, right_at) = cell(&self.code, absent);
        line(f, format_args!("{mark} {:>7}", self.id), &left, &right)?;
        if left_at.is_none() && right_at.is_none() {
            return Ok(());
        }
        let at = |at: Option<String>| at.map_or_else(String::new, |at| format!("  at {at}"));
        line(f, format_args!("{:>9}", ""), &cut(&at(left_at)), &cut(&at(right_at)))
    }
}

fn line(
    f: &mut fmt::Formatter<'_>,
    head: fmt::Arguments<'_>,
    left: &str,
    right: &str,
) -> fmt::Result {
    let text = format!("{head}  {left:<WIDTH$} | {right}");
    writeln!(f, "{}", text.trim_end())
}

fn cut(text: &str) -> String {
    if text.chars().count() <= WIDTH {
        return text.to_owned();
    }
    text.chars().take(WIDTH - 3).chain("...".chars()).collect()
}

/// Describes an event in one line.
fn describe(kind: &EventKind) -> String {
    use EventKind as E;
    match kind {
        E::Started { name, input, .. } => format!("started {name} {input:?}"),
        E::Turn { now } => format!("turn at {now}"),
        E::ActivityScheduled { name, input, tag, session, policy } => {
            let mut text = format!("activity {name} {input:?}");
            tag.iter().for_each(|tag| text.push_str(&format!(" tag={tag}")));
            session.iter().for_each(|session| text.push_str(&format!(" session={session}")));
            if !policy.is_default() {
                text.push_str(&format!(" attempts={}", policy.attempts_max));
            }
            text
        }
        E::ActivityCompleted { of, result } => format!("activity of {of} returned {result:?}"),
        E::ActivityFailed { of, error } => format!("activity of {of} failed: {error}"),
        E::ActivityCancelled { of } => format!("cancel activity of {of}"),
        E::TimerCreated { fire_at } => format!("timer for {fire_at}"),
        E::TimerFired { of } => format!("timer of {of} fired"),
        E::TimerCancelled { of } => format!("cancel timer of {of}"),
        E::EventAwaited { name } => format!("wait for event {name}"),
        E::EventRaised { name, data } => format!("event {name} {data:?}"),
        E::EventForgone { of } => format!("stop the wait of {of}"),
        E::ChildStarted { instance, name, attached, close_policy, .. } => {
            let kind = match (attached, close_policy) {
                (false, _) => "detached ",
                (true, ClosePolicy::Terminate) => "",
                (true, ClosePolicy::RequestCancel) => "(cancelled at close) ",
                (true, ClosePolicy::Abandon) => "(abandoned at close) ",
            };
            format!("start {kind}{name} as {instance}")
        }
        E::ChildCompleted { of, result } => format!("child of {of} returned {result:?}"),
        E::ChildFailed { of, error } => format!("child of {of} failed: {error}"),
        E::ChildCancelled { of } => format!("cancel child of {of}"),
        E::StatusSet { status } => format!("status {status:?}"),
        E::KvSet { key, value } => format!("value {key} = {value:?}"),
        E::KvCleared => "clear all values".to_owned(),
        E::Pushed { queue, payload, .. } => format!("push to {queue} {payload:?}"),
        E::Emitted { application, event_type, payload, .. } => {
            format!("emit {event_type} to {application} {payload:?}")
        }
        E::Signalled { instance, name, .. } => format!("signal {name} to {instance}"),
        E::CancelRequested { reason } => format!("cancel requested: {reason}"),
        E::ContinuedAsNew { input, .. } => format!("continue as new {input:?}"),
        E::Completed { output } => format!("return {output:?}"),
        E::Failed { error } => format!("fail: {error}"),
    }
}
