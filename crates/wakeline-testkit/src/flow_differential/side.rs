//! The names and times of both sides: those that they share, and those that differ.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    ActivityFilter, ActivityName, ActivityNames, Capabilities, Capability, FlowLine, FlowToken,
    InstanceId, KvKey, OwnerId, QueueName, SessionId, Tag, TagFilter, Timestamp,
};
use wakeline_store::flow::{
    Envelope, ExecutionDetail, InstanceDetail, KvEntry, NewWork, SessionClaim, TurnItem, Visible,
    Watched, WorkItem, WorkKey,
};

use super::emits::Listeners;
use super::op::{
    CAPABILITIES, DispatcherSpec, FlowMail, INSTANCES, Tags, Task, VisibleWhen, WorkerSpec,
};

/// The names of a sequence.
pub(super) struct FlowNames {
    unique: String,
    /// The application and endpoints that get what turns emit.
    pub(super) listeners: Listeners,
}

impl FlowNames {
    /// Returns names that no other case uses.
    pub(super) fn fresh() -> Self {
        let unique = uuid::Uuid::new_v4().simple().to_string();
        Self { unique, listeners: Listeners::fresh() }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.unique
    }

    pub(super) fn instance(&self, n: usize) -> InstanceId {
        InstanceId::new(format!("{}-i{n}", self.unique)).expect("a short name")
    }

    pub(super) fn instances(&self) -> Vec<InstanceId> {
        (0..INSTANCES).map(|n| self.instance(n)).collect()
    }

    pub(super) fn capability(&self, n: usize) -> Capability {
        Capability::new(format!("c{n}")).expect("a short name")
    }

    pub(super) fn queue(&self) -> QueueName {
        QueueName::new(format!("{}-q", self.unique)).expect("a short name")
    }

    pub(super) fn session(&self, n: usize) -> SessionId {
        SessionId::new(format!("{}-s{n}", self.unique)).expect("a short name")
    }

    pub(super) fn capabilities(&self, line: DispatcherSpec) -> Capabilities {
        match line {
            DispatcherSpec::Any => Capabilities::Any,
            DispatcherSpec::Only(n) => Capabilities::Of([self.capability(n)].into()),
            DispatcherSpec::Both => {
                Capabilities::Of((0..CAPABILITIES).map(|n| self.capability(n)).collect())
            }
        }
    }

    /// Returns every line that is swept after each step.
    pub(super) fn lines(&self) -> Vec<FlowLine> {
        let turns = [
            DispatcherSpec::Any,
            DispatcherSpec::Only(0),
            DispatcherSpec::Only(1),
            DispatcherSpec::Both,
        ]
        .into_iter();
        let tags = [Tags::Any, Tags::Untagged, Tags::Tag, Tags::Both].into_iter();
        let work = tags.flat_map(|tags| {
            [None, Some(0), Some(1)].into_iter().flat_map(move |owner| {
                [None, Some(0)].into_iter().map(move |name| WorkerSpec { tags, name, owner })
            })
        });
        (turns.map(|line| FlowLine::Turns(self.capabilities(line))))
            .chain(work.map(work_line))
            .chain(self.instances().into_iter().map(FlowLine::Outcome))
            .collect()
    }

    pub(super) fn work(&self, to: usize, execution: u64, task: Task, visible: Visible) -> NewWork {
        NewWork {
            instance: self.instance(to),
            key: WorkKey { execution, activity: task.activity },
            name: task.name.map(activity_name),
            tag: task.tagged.then(tag),
            session: task.session.map(|n| self.session(n)),
            visible,
            payload: Bytes::from(format!("{task:?}")),
        }
    }

    pub(super) fn envelope(&self, mail: &FlowMail, visible: Visible) -> Envelope {
        let (starts, unique) = mail.starts.map_or((None, false), |(n, unique)| (Some(n), unique));
        Envelope {
            instance: self.instance(mail.to),
            visible,
            payload: Bytes::from(format!("{mail:?}")),
            starts: starts.map(|n| self.capability(n)),
            parent: (starts.is_some() && !unique).then(|| self.instance(0)),
            unique,
            even_if_ended: mail.even_if_ended,
            key: mail.key.map(|n| (1, n)),
        }
    }
}

pub(super) fn kv_key(n: usize) -> KvKey {
    KvKey::new(format!("k{n}")).expect("a short name")
}

pub(super) fn owner(n: usize) -> OwnerId {
    OwnerId::new(format!("o{n}")).expect("a short name")
}

fn tag() -> Tag {
    Tag::new("gpu").expect("a short name")
}

fn activity_name(n: usize) -> ActivityName {
    ActivityName::new(format!("a{n}")).expect("a short name")
}

pub(super) fn filter(spec: WorkerSpec) -> ActivityFilter {
    let tags = match spec.tags {
        Tags::Any => TagFilter::Any,
        Tags::Untagged => TagFilter::untagged(),
        Tags::Tag => TagFilter::Of { untagged: false, tags: [tag()].into() },
        Tags::Both => TagFilter::Of { untagged: true, tags: [tag()].into() },
    };
    let names = match spec.name {
        None => ActivityNames::Any,
        Some(n) => ActivityNames::Of(Arc::new([activity_name(n)].into())),
    };
    ActivityFilter { tags, names }
}

pub(super) fn session_claim(spec: WorkerSpec) -> Option<SessionClaim> {
    spec.owner.map(|n| SessionClaim { owner: owner(n), lease: Duration::from_secs(12) })
}

pub(super) fn work_line(spec: WorkerSpec) -> FlowLine {
    FlowLine::Work { filter: filter(spec), owner: spec.owner.map(owner) }
}

/// By how many microseconds the store's clock is ahead of the oracle's.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowSkew(pub(super) i64);

impl FlowSkew {
    /// Returns a time for the oracle and for the store.
    pub(super) fn visible(self, when: VisibleWhen, now: Timestamp) -> (Visible, Visible) {
        match when {
            VisibleWhen::Now => (Visible::Now, Visible::Now),
            VisibleWhen::AfterMs(ms) => {
                let after = Visible::After(Duration::from_millis(ms));
                (after, after)
            }
            VisibleWhen::AtMs(ms) => {
                let at = Timestamp(now.0 + ms * 1_000);
                (Visible::At(at), Visible::At(self.to_store(at)))
            }
        }
    }

    pub(super) fn to_store(self, at: Timestamp) -> Timestamp {
        Timestamp(at.0 + self.0)
    }

    pub(super) fn to_oracle(self, at: Timestamp) -> Timestamp {
        Timestamp(at.0 - self.0)
    }

    pub(super) fn kv(self, entries: &[KvEntry]) -> Vec<KvEntry> {
        let entry = |entry: &KvEntry| KvEntry {
            updated_at: self.to_oracle(entry.updated_at),
            ..entry.clone()
        };
        entries.iter().map(entry).collect()
    }

    pub(super) fn execution(self, detail: &ExecutionDetail) -> ExecutionDetail {
        ExecutionDetail {
            started_at: self.to_oracle(detail.started_at),
            ended_at: detail.ended_at.map(|at| self.to_oracle(at)),
            ..detail.clone()
        }
    }

    /// Converts an instance, without what the rules leave open: the time of the last change of an
    /// ended instance.
    pub(super) fn detail(self, detail: &InstanceDetail) -> InstanceDetail {
        let updated_at = match detail.ended_at {
            Some(_) => Timestamp(0),
            None => self.to_oracle(detail.updated_at),
        };
        InstanceDetail {
            created_at: self.to_oracle(detail.created_at),
            updated_at,
            ended_at: detail.ended_at.map(|at| self.to_oracle(at)),
            ..detail.clone()
        }
    }

    pub(super) fn watched(self, watched: Watched) -> Watched {
        match watched {
            Watched::Found(detail) => Watched::Found(Box::new(self.detail(&detail))),
            other => other,
        }
    }

    /// Converts a turn, without the numbers of rows, which differ between the sides.
    pub(super) fn turn(self, turn: &TurnItem) -> TurnItem {
        let mut turn = turn.clone();
        turn.token.lane = 0;
        turn.now = self.to_oracle(turn.now);
        turn.kv = self.kv(&turn.kv);
        for (n, message) in turn.messages.iter_mut().enumerate() {
            message.seq = i64::try_from(n).expect("few messages");
        }
        turn
    }
}

/// Returns an activity without the numbers of rows, which differ between the sides.
pub(super) fn plain_work(work: &WorkItem) -> WorkItem {
    let token = FlowToken { lane: 0, work: Some(0), key: work.token.key };
    WorkItem { token, ..work.clone() }
}

/// A turn or an activity that was leased on both sides. The lease may have ended.
#[derive(Debug, Clone)]
pub(super) struct FlowHold {
    pub(super) oracle: FlowToken,
    pub(super) store: FlowToken,
    pub(super) what: HeldItem,
}

#[derive(Debug, Clone)]
pub(super) enum HeldItem {
    Turn(Box<TurnItem>, Capabilities),
    Work,
}
