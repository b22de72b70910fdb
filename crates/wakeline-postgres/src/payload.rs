//! The payload of a NOTIFY: compact JSON, the same from Rust and from the triggers.
//!
//! # Invariants
//! * A payload is never longer than [`PAYLOAD_BYTES_MAX`], well under PostgreSQL's 8,000 bytes:
//!   what does not fit is replaced by broader hints, in the end by "everything".
//! * A payload that cannot be parsed means "everything": a node of another version may have sent
//!   it.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wakeline_core::{
    Change, FlowChange, FlowChangeKind, GroupName, HookChange, HookChangeKind, Namespace, NodeId,
    PartitionName, QueueName, TaskName,
};

/// The maximum length of a payload.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 7000;

/// The content of a notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "lowercase")]
pub(crate) enum Payload {
    /// Queues where work may have become available. From a trigger it has no node.
    Changed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n: Option<Uuid>,
        c: Vec<WireChange>,
    },
    /// Orchestrations that may have work in the given number of milliseconds.
    Flow {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n: Option<Uuid>,
        f: Vec<(FlowChangeKind, u64)>,
    },
    /// Webhooks that may have work in the given number of milliseconds.
    Hook {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n: Option<Uuid>,
        h: Vec<(HookChangeKind, u64)>,
    },
    /// Anything may have changed.
    Everything {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n: Option<Uuid>,
    },
    /// Rows arrived in `incoming`.
    Incoming,
    /// A node has joined.
    Hello { n: Uuid },
    /// A node has left.
    Bye { n: Uuid },
    /// A listener's test message to itself.
    Echo { n: Uuid, x: Uuid },
}

impl Payload {
    /// The node that sent it, if it is known.
    pub(crate) fn sender(&self) -> Option<NodeId> {
        match self {
            Self::Incoming => None,
            Self::Changed { n, .. }
            | Self::Flow { n, .. }
            | Self::Hook { n, .. }
            | Self::Everything { n } => n.map(NodeId),
            Self::Hello { n } | Self::Bye { n } | Self::Echo { n, .. } => Some(NodeId(*n)),
        }
    }

    /// The text for changes of orchestrations; if it would be too long, that for everything.
    pub(crate) fn of_flow_changes(node: NodeId, changes: Vec<FlowChange>) -> String {
        let wire = |change: FlowChange| (change.what, millis(change.due_in));
        let f = changes.into_iter().map(wire).collect();
        let text = Self::Flow { n: Some(node.0), f }.encode();
        if text.len() <= PAYLOAD_BYTES_MAX {
            return text;
        }
        Self::Everything { n: Some(node.0) }.encode()
    }

    /// The text for changes of webhooks; if it would be too long, that for everything.
    pub(crate) fn of_hook_changes(node: NodeId, changes: Vec<HookChange>) -> String {
        let wire = |change: HookChange| (change.what, millis(change.due_in));
        let h = changes.into_iter().map(wire).collect();
        let text = Self::Hook { n: Some(node.0), h }.encode();
        if text.len() <= PAYLOAD_BYTES_MAX {
            return text;
        }
        Self::Everything { n: Some(node.0) }.encode()
    }

    /// The text of the payload.
    pub(crate) fn encode(&self) -> String {
        serde_json::to_string(self).expect("texts, numbers and UUIDs always have a JSON form")
    }

    /// Parses a text; `None` if its form is unknown.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The most precise text for some changes that is short enough: each change, each queue, or
    /// everything.
    pub(crate) fn of_changes(node: NodeId, changes: Vec<Change>) -> String {
        let exact =
            Self::Changed { n: Some(node.0), c: changes.iter().map(WireChange::from).collect() };
        let text = exact.encode();
        if text.len() <= PAYLOAD_BYTES_MAX {
            return text;
        }
        let mut broad: HashMap<Change, Duration> = HashMap::new();
        for change in changes {
            let due = change.due_in;
            let key = Change { partition: None, due_in: Duration::ZERO, ..change };
            broad.entry(key).and_modify(|first| *first = due.min(*first)).or_insert(due);
        }
        let c = broad.into_iter().map(|(key, due_in)| WireChange::from(&Change { due_in, ..key }));
        let text = Self::Changed { n: Some(node.0), c: c.collect() }.encode();
        if text.len() <= PAYLOAD_BYTES_MAX {
            return text;
        }
        Self::Everything { n: Some(node.0) }.encode()
    }
}

/// The compact form of a [`Change`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WireChange {
    q: QueueName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    p: Option<PartitionName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    s: Option<Namespace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    t: Option<TaskName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    g: Option<GroupName>,
    /// Milliseconds until it is due.
    #[serde(default, skip_serializing_if = "is_zero")]
    d: u64,
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl From<&Change> for WireChange {
    fn from(change: &Change) -> Self {
        Self {
            q: change.queue.clone(),
            p: change.partition.clone(),
            s: change.namespace.clone(),
            t: change.task.clone(),
            g: change.group.clone(),
            d: millis(change.due_in),
        }
    }
}

impl From<WireChange> for Change {
    fn from(wire: WireChange) -> Self {
        Self {
            queue: wire.q,
            partition: wire.p,
            namespace: wire.s,
            task: wire.t,
            group: wire.g,
            due_in: Duration::from_millis(wire.d),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakeline_core::{ActivityRoute, Capability, InstanceId};

    fn change(queue: &str, partition: &str, due_ms: u64) -> Change {
        Change {
            queue: QueueName::new(queue).expect("valid"),
            partition: PartitionName::new(partition).ok(),
            namespace: None,
            task: TaskName::new("t").ok(),
            group: None,
            due_in: Duration::from_millis(due_ms),
        }
    }

    fn round_trip(changes: Vec<Change>) -> Payload {
        let text = Payload::of_changes(NodeId::generate(), changes);
        assert!(text.len() <= PAYLOAD_BYTES_MAX);
        Payload::decode(&text).expect("our own form")
    }

    #[test]
    fn changes_arrive_as_they_were_sent() {
        let sent = vec![change("q", "p \"' \u{1F980}", 0), change("r", "s", 1500)];
        let Payload::Changed { c, .. } = round_trip(sent.clone()) else { panic!("changes") };
        assert_eq!(c.into_iter().map(Change::from).collect::<Vec<_>>(), sent);
    }

    #[test]
    fn many_partitions_are_sent_as_their_queue() {
        let sent = (0..1000).map(|n| change("q", &format!("p{n}"), 5000 - n)).collect();
        let Payload::Changed { c, .. } = round_trip(sent) else { panic!("changes") };
        let [broad] = c.as_slice() else { panic!("one queue") };
        assert_eq!((broad.p.as_ref(), broad.d), (None, 4001));
    }

    #[test]
    fn many_queues_are_sent_as_everything() {
        let sent = (0..1000).map(|n| change(&format!("queue{n}"), "p", 0)).collect();
        assert!(matches!(round_trip(sent), Payload::Everything { .. }));
    }

    #[test]
    fn changes_of_orchestrations_arrive_as_they_were_sent_or_as_everything() {
        let change = |n: u64| FlowChange {
            what: FlowChangeKind::Outcome(InstanceId::new(format!("i{n}")).expect("valid")),
            due_in: Duration::from_millis(n),
        };
        let sent = vec![
            change(7),
            FlowChange::now(FlowChangeKind::Work(ActivityRoute::default())),
            FlowChange::now(FlowChangeKind::Turn(Capability::new("c").expect("valid"))),
        ];
        let text = Payload::of_flow_changes(NodeId::generate(), sent.clone());
        let Some(Payload::Flow { f, .. }) = Payload::decode(&text) else { panic!("{text}") };
        let received = |(what, ms)| FlowChange { what, due_in: Duration::from_millis(ms) };
        assert_eq!(f.into_iter().map(received).collect::<Vec<_>>(), sent);
        let many = Payload::of_flow_changes(NodeId::generate(), (0..1000).map(change).collect());
        assert!(matches!(Payload::decode(&many), Some(Payload::Everything { .. })), "{many}");
    }

    #[test]
    fn invalid_texts_are_rejected() {
        for text in ["", "x", "{}", "{\"k\":\"news\"}", "{\"k\":\"changed\",\"c\":[{\"q\":\"\"}]}"]
        {
            assert_eq!(Payload::decode(text), None, "{text}");
        }
    }
}
