//! The nouns of durable orchestrations: instances, capabilities, tags, sessions, tokens, and what
//! a commit may have changed for those who wait.
//!
//! # Invariants
//! * A token describes itself (what it leases, which rows): no table translates it.
//! * Tags and sessions are filters of a line, never topics: a waiter may take five tags or any.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::IdError;
use crate::name::{NameError, check, name};

name!(
    /// Identifies an orchestration instance; chosen by whoever starts it.
    InstanceId, "instance"
);
name!(
    /// Names the code of an orchestration.
    OrchestrationName, "orchestration"
);
name!(
    /// What code an instance needs, as the runtimes spell it: a name, or a name and a version.
    /// A store compares it as a whole.
    Capability, "capability"
);
name!(
    /// Routes activities to the workers that take this tag.
    Tag, "tag"
);
name!(
    /// Activities of one session go to the worker that owns it.
    SessionId, "session"
);
name!(
    /// A worker process, as the owner of sessions.
    OwnerId, "owner"
);
name!(
    /// Names a value of an instance's key-value state.
    KvKey, "key"
);

/// A lease of a lane (one instance's turn) or of a work item (one activity).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowToken {
    /// The lane of the instance.
    pub lane: i64,
    /// The work item, or `None` for the lease of the lane itself.
    pub work: Option<i64>,
    /// Made by the node that claimed; whoever does not know it can change nothing.
    pub key: Uuid,
}

impl fmt::Display for FlowToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.work {
            None => write!(f, "t{:x}-{}", self.lane, self.key.simple()),
            Some(work) => write!(f, "w{:x}.{work:x}-{}", self.lane, self.key.simple()),
        }
    }
}

impl FromStr for FlowToken {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        parse_token(text).ok_or(IdError { kind: "token" })
    }
}

fn parse_token(text: &str) -> Option<FlowToken> {
    let (rows, key) = text.split_once('-')?;
    let key = Uuid::try_parse(key).ok()?;
    let row = |digits: &str| {
        i64::from_str_radix(digits, 16).ok().filter(|row| *row >= 0 && !digits.starts_with('+'))
    };
    let (lane, work) = match rows.strip_prefix('t') {
        Some(lane) => (row(lane)?, None),
        None => {
            let (lane, work) = rows.strip_prefix('w')?.split_once('.')?;
            (row(lane)?, Some(row(work)?))
        }
    };
    Some(FlowToken { lane, work, key })
}

/// Which instances a dispatcher can run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Capabilities {
    /// Whatever there is.
    Any,
    /// Only those that need one of these.
    Of(BTreeSet<Capability>),
}

impl Capabilities {
    /// Whether an instance that needs this can be run.
    pub fn allow(&self, capability: &Capability) -> bool {
        match self {
            Self::Any => true,
            Self::Of(known) => known.contains(capability),
        }
    }
}

/// Which activities a worker takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TagFilter {
    /// All, with or without a tag.
    Any,
    /// Those without a tag if `untagged`, and those with one of `tags`.
    Of {
        /// Whether activities without a tag are taken.
        untagged: bool,
        /// The tags that are taken.
        tags: BTreeSet<Tag>,
    },
}

impl TagFilter {
    /// Only activities without a tag.
    pub fn untagged() -> Self {
        Self::Of { untagged: true, tags: BTreeSet::new() }
    }

    /// Whether an activity with this tag is taken.
    pub fn allows(&self, tag: Option<&Tag>) -> bool {
        match (self, tag) {
            (Self::Any, _) => true,
            (Self::Of { untagged, .. }, None) => *untagged,
            (Self::Of { tags, .. }, Some(tag)) => tags.contains(tag),
        }
    }
}

/// What is claimed together: a topic and the whole filter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FlowLine {
    /// Turns of instances.
    Turns(Capabilities),
    /// Activities.
    Work {
        /// Which tags are taken.
        tags: TagFilter,
        /// On whose behalf sessions are claimed; without, only activities without a session.
        owner: Option<OwnerId>,
    },
    /// One instance's outcome, status and key-value state.
    Outcome(InstanceId),
}

/// What hints speak of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FlowTopic {
    /// Some instance has messages.
    Turns,
    /// Some activity waits for a worker.
    Work,
    /// An instance's outcome, status or key-value state changed.
    Outcome(InstanceId),
}

impl FlowLine {
    /// The topic whose hints may concern this line.
    pub fn topic(&self) -> FlowTopic {
        match self {
            Self::Turns(_) => FlowTopic::Turns,
            Self::Work { .. } => FlowTopic::Work,
            Self::Outcome(instance) => FlowTopic::Outcome(instance.clone()),
        }
    }
}

/// A hint: something may have become available. Carries no data.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FlowChange {
    /// What may be available.
    pub what: FlowWhat,
    /// How long from now until there is something to claim.
    pub due_in: Duration,
}

/// What a [`FlowChange`] speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowWhat {
    /// A turn of an instance that needs this capability.
    Turn(Capability),
    /// An activity with this tag.
    Work(Option<Tag>),
    /// This instance's outcome, status or key-value state.
    Outcome(InstanceId),
}

impl FlowChange {
    /// Something is available now.
    pub fn now(what: FlowWhat) -> Self {
        Self { what, due_in: Duration::ZERO }
    }

    /// The topic whose lines may be concerned.
    pub fn topic(&self) -> FlowTopic {
        match &self.what {
            FlowWhat::Turn(_) => FlowTopic::Turns,
            FlowWhat::Work(_) => FlowTopic::Work,
            FlowWhat::Outcome(instance) => FlowTopic::Outcome(instance.clone()),
        }
    }

    /// Whether a waiter of this line might get something because of it.
    pub fn concerns(&self, line: &FlowLine) -> bool {
        match (&self.what, line) {
            (FlowWhat::Turn(capability), FlowLine::Turns(known)) => known.allow(capability),
            (FlowWhat::Work(tag), FlowLine::Work { tags, .. }) => tags.allows(tag.as_ref()),
            (FlowWhat::Outcome(changed), FlowLine::Outcome(instance)) => changed == instance,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_from_their_text_and_nothing_else_is() {
        let key = Uuid::from_u128(7);
        for work in [None, Some(0), Some(i64::MAX)] {
            let token = FlowToken { lane: 42, work, key };
            assert_eq!(token.to_string().parse(), Ok(token));
        }
        for wrong in ["", "t", "t1", "w1-0", "t-1-2", "t+1-00000000000000000000000000000007"] {
            assert!(wrong.parse::<FlowToken>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_hint_speaks_only_to_those_who_can_take_it() {
        let tag = |text: &str| Tag::new(text).expect("valid");
        let line = |tags| FlowLine::Work { tags, owner: None };
        let of = |untagged, tags: &[&str]| {
            line(TagFilter::Of { untagged, tags: tags.iter().map(|text| tag(text)).collect() })
        };
        let tagged = FlowChange::now(FlowWhat::Work(Some(tag("gpu"))));
        assert!(tagged.concerns(&of(false, &["cpu", "gpu"])));
        assert!(tagged.concerns(&line(TagFilter::Any)));
        assert!(!tagged.concerns(&of(true, &["cpu"])));
        let plain = FlowChange::now(FlowWhat::Work(None));
        assert!(plain.concerns(&line(TagFilter::untagged())));
        assert!(!plain.concerns(&of(false, &["gpu"])));
        let capability = Capability::new("ship@1.0.0").expect("valid");
        let turn = FlowChange::now(FlowWhat::Turn(capability.clone()));
        assert!(turn.concerns(&FlowLine::Turns(Capabilities::Of([capability].into()))));
        assert!(!turn.concerns(&FlowLine::Turns(Capabilities::Of(BTreeSet::new()))));
        assert!(!turn.concerns(&line(TagFilter::Any)));
    }
}
