//! The basic types of durable orchestrations: instances, capabilities, tags, sessions, tokens, and
//! the changes that a commit reports to waiters.
//!
//! # Invariants
//! * A token is self-describing (what it leases, which rows): no table is needed to resolve it.
//! * Tags, names and sessions are filters of a line, never topics: a waiter may take five tags or
//!   any.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::IdError;
use crate::name::{NameError, check, name};

name!(
    /// Identifies an orchestration instance; chosen by the client that starts it.
    InstanceId, "instance"
);
name!(
    /// Names the code of an orchestration.
    OrchestrationName, "orchestration"
);
name!(
    /// The code that an instance requires, in the runtime's notation: a name, or a name and a
    /// version. A store compares it as a whole.
    Capability, "capability"
);
name!(
    /// Names the code of an activity.
    ActivityName, "activity"
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

/// The fencing token for a lease of a lane (one instance's turn) or of a work item (one activity).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowToken {
    /// The lane of the instance.
    pub lane: i64,
    /// The work item, or `None` for the lease of the lane itself.
    pub work: Option<i64>,
    /// A random key, created by the node that claimed. Without it nothing can be changed.
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
    /// All instances.
    Any,
    /// Only instances that need one of these capabilities.
    Of(BTreeSet<Capability>),
}

impl Capabilities {
    /// Returns whether an instance that needs this capability can be run.
    pub fn allow(&self, capability: &Capability) -> bool {
        match self {
            Self::Any => true,
            Self::Of(known) => known.contains(capability),
        }
    }
}

/// Which activities a worker takes, by tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TagFilter {
    /// All activities, with or without a tag.
    Any,
    /// Activities without a tag if `untagged`, and those with one of `tags`.
    Of {
        /// Whether activities without a tag are taken.
        untagged: bool,
        /// The tags that are taken.
        tags: BTreeSet<Tag>,
    },
}

impl TagFilter {
    /// Creates a filter that takes only activities without a tag.
    pub fn untagged() -> Self {
        Self::Of { untagged: true, tags: BTreeSet::new() }
    }

    /// Returns whether an activity with this tag is taken.
    pub fn allows(&self, tag: Option<&Tag>) -> bool {
        match (self, tag) {
            (Self::Any, _) => true,
            (Self::Of { untagged, .. }, None) => *untagged,
            (Self::Of { tags, .. }, Some(tag)) => tags.contains(tag),
        }
    }
}

/// Which activities a worker can run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ActivityNames {
    /// All activities.
    Any,
    /// Activities with one of these names, and those whose name the store does not know.
    Of(Arc<BTreeSet<ActivityName>>),
}

impl ActivityNames {
    /// Returns whether an activity of this name can be run.
    pub fn allow(&self, name: Option<&ActivityName>) -> bool {
        match (self, name) {
            (Self::Any, _) | (Self::Of(_), None) => true,
            (Self::Of(known), Some(name)) => known.contains(name),
        }
    }
}

/// Which activities a worker takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ActivityFilter {
    /// The filter by tag.
    pub tags: TagFilter,
    /// The filter by name.
    pub names: ActivityNames,
}

impl ActivityFilter {
    /// Creates a filter by tag only.
    pub fn of_tags(tags: TagFilter) -> Self {
        Self { tags, names: ActivityNames::Any }
    }

    /// Returns whether an activity of this route is taken.
    pub fn allows(&self, route: &ActivityRoute) -> bool {
        self.tags.allows(route.tag.as_ref()) && self.names.allow(route.name.as_ref())
    }
}

/// Determines which workers an activity is for: those that take its tag and know its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "RouteForm", into = "RouteForm")]
pub struct ActivityRoute {
    /// The activity's tag.
    pub tag: Option<Tag>,
    /// The activity's name, if the store knows it.
    pub name: Option<ActivityName>,
}

/// A route in the form in which nodes send it to each other. Nodes of earlier releases send and
/// read the tag alone.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum RouteForm {
    Named {
        name: ActivityName,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tag: Option<Tag>,
    },
    Tag(Option<Tag>),
}

impl From<RouteForm> for ActivityRoute {
    fn from(form: RouteForm) -> Self {
        match form {
            RouteForm::Named { name, tag } => Self { tag, name: Some(name) },
            RouteForm::Tag(tag) => Self { tag, name: None },
        }
    }
}

impl From<ActivityRoute> for RouteForm {
    fn from(route: ActivityRoute) -> Self {
        match route.name {
            Some(name) => Self::Named { name, tag: route.tag },
            None => Self::Tag(route.tag),
        }
    }
}

/// What is claimed together: a topic and all filters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FlowLine {
    /// Turns of instances.
    Turns(Capabilities),
    /// Activities.
    Work {
        /// Which activities are taken.
        filter: ActivityFilter,
        /// The owner on whose behalf sessions are claimed. Without one, only activities without a
        /// session are claimed.
        owner: Option<OwnerId>,
    },
    /// One instance's outcome, status and key-value state.
    Outcome(InstanceId),
}

/// What a hint refers to.
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
    /// Returns the topic whose hints may concern this line.
    pub fn topic(&self) -> FlowTopic {
        match self {
            Self::Turns(_) => FlowTopic::Turns,
            Self::Work { .. } => FlowTopic::Work,
            Self::Outcome(instance) => FlowTopic::Outcome(instance.clone()),
        }
    }
}

/// A hint: something may have become available. It carries no data.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FlowChange {
    /// What may be available.
    pub what: FlowChangeKind,
    /// The time from now until there is something to claim.
    pub due_in: Duration,
}

/// What a [`FlowChange`] refers to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowChangeKind {
    /// A turn of an instance that needs this capability.
    Turn(Capability),
    /// An activity for the workers of this route.
    Work(ActivityRoute),
    /// This instance's outcome, status or key-value state.
    Outcome(InstanceId),
}

impl FlowChange {
    /// Creates a hint for something that is available now.
    pub fn now(what: FlowChangeKind) -> Self {
        Self { what, due_in: Duration::ZERO }
    }

    /// Returns the topic whose lines may be concerned.
    pub fn topic(&self) -> FlowTopic {
        match &self.what {
            FlowChangeKind::Turn(_) => FlowTopic::Turns,
            FlowChangeKind::Work(_) => FlowTopic::Work,
            FlowChangeKind::Outcome(instance) => FlowTopic::Outcome(instance.clone()),
        }
    }

    /// Returns whether a waiter of this line might get something because of the change.
    pub fn concerns(&self, line: &FlowLine) -> bool {
        match (&self.what, line) {
            (FlowChangeKind::Turn(capability), FlowLine::Turns(known)) => known.allow(capability),
            (FlowChangeKind::Work(route), FlowLine::Work { filter, .. }) => filter.allows(route),
            (FlowChangeKind::Outcome(changed), FlowLine::Outcome(instance)) => changed == instance,
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
    fn a_hint_concerns_only_lines_that_can_take_it() {
        let tag = |text: &str| Tag::new(text).expect("valid");
        let line = |tags| FlowLine::Work { filter: ActivityFilter::of_tags(tags), owner: None };
        let of = |untagged, tags: &[&str]| {
            line(TagFilter::Of { untagged, tags: tags.iter().map(|text| tag(text)).collect() })
        };
        let work = |tag, name| FlowChange::now(FlowChangeKind::Work(ActivityRoute { tag, name }));
        let tagged = work(Some(tag("gpu")), None);
        assert!(tagged.concerns(&of(false, &["cpu", "gpu"])));
        assert!(tagged.concerns(&line(TagFilter::Any)));
        assert!(!tagged.concerns(&of(true, &["cpu"])));
        let plain = work(None, None);
        assert!(plain.concerns(&line(TagFilter::untagged())));
        assert!(!plain.concerns(&of(false, &["gpu"])));
        let name = |text: &str| ActivityName::new(text).expect("valid");
        let names = ActivityNames::Of(Arc::new([name("charge")].into()));
        let knows_charge = FlowLine::Work {
            filter: ActivityFilter { tags: TagFilter::untagged(), names },
            owner: None,
        };
        assert!(plain.concerns(&knows_charge), "the store may not know a name");
        assert!(work(None, Some(name("charge"))).concerns(&knows_charge));
        assert!(!work(None, Some(name("refund"))).concerns(&knows_charge));
        assert!(!work(Some(tag("gpu")), Some(name("charge"))).concerns(&knows_charge));
        let capability = Capability::new("ship@1.0.0").expect("valid");
        let turn = FlowChange::now(FlowChangeKind::Turn(capability.clone()));
        assert!(turn.concerns(&FlowLine::Turns(Capabilities::Of([capability].into()))));
        assert!(!turn.concerns(&FlowLine::Turns(Capabilities::Of(BTreeSet::new()))));
        assert!(!turn.concerns(&line(TagFilter::Any)));
    }

    #[test]
    fn nodes_of_earlier_releases_and_this_one_read_routes_without_names() {
        let tag = Some(Tag::new("gpu").expect("valid"));
        for (text, tag) in [("null", None), ("\"gpu\"", tag.clone())] {
            let route = ActivityRoute { tag, name: None };
            assert_eq!(serde_json::to_string(&route).expect("JSON"), text);
            assert_eq!(serde_json::from_str::<ActivityRoute>(text).expect("a route"), route);
        }
        let name = Some(ActivityName::new("charge").expect("valid"));
        for tag in [None, tag] {
            let route = ActivityRoute { tag, name: name.clone() };
            let text = serde_json::to_string(&route).expect("JSON");
            assert_eq!(serde_json::from_str::<ActivityRoute>(&text).expect("a route"), route);
        }
    }
}
