//! The oracle's state of mailboxes, instances, work and sessions.
//!
//! # Invariants
//! * Ids are never used twice, so a token of a deleted object does not match a newer one.
//! * A message that is held by a lease carries the lease's key. A lease that has ended holds none.

use std::collections::BTreeMap;

use bytes::Bytes;
use uuid::Uuid;
use wakeline_core::{
    ActivityRoute, Capability, InstanceId, KvKey, OrchestrationName, OwnerId, SessionId, Timestamp,
};
use wakeline_store::flow::{
    HistoryBatch, InstanceState, KvEntry, NewInstance, Suspension, Visible, WorkKey,
};

/// The oracle's whole state of orchestrations.
#[derive(Debug, Clone, Default)]
pub(in crate::oracle) struct OracleFlow {
    pub(super) lanes: BTreeMap<i64, OracleMailbox>,
    pub(super) names: BTreeMap<InstanceId, i64>,
    /// Work by id, which is the order of insertion.
    pub(super) work: BTreeMap<i64, OracleWork>,
    pub(super) sessions: BTreeMap<SessionId, OracleSession>,
    ids: i64,
}

#[derive(Debug, Clone)]
pub(super) struct OracleMailbox {
    pub(super) name: InstanceId,
    pub(super) capability: Option<Capability>,
    /// Messages by sequence number, which is the order of arrival.
    pub(super) messages: BTreeMap<i64, OracleFlowMessage>,
    /// The last lease, live or expired, unless it was ended.
    pub(super) lease: Option<OracleFlowLease>,
    pub(super) suspended: Option<Suspension>,
    pub(super) instance: Option<OracleInstance>,
    /// When the first start message arrived.
    pub(super) started_at: Option<Timestamp>,
    /// The instance that sent the first start message and waits for the outcome.
    pub(super) parent: Option<InstanceId>,
    pub(super) last_seq: i64,
    /// Whether a client waits for its outcome.
    pub(super) watched: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct OracleFlowLease {
    pub(super) key: Uuid,
    pub(super) until: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct OracleFlowMessage {
    pub(super) visible_at: Timestamp,
    pub(super) payload: Bytes,
    pub(super) starts: bool,
    pub(super) key: Option<(u64, u64)>,
    pub(super) attempts: u32,
    pub(super) held_by: Option<Uuid>,
}

#[derive(Debug, Clone)]
pub(super) struct OracleInstance {
    pub(super) name: OrchestrationName,
    pub(super) parent: Option<(InstanceId, u64)>,
    pub(super) state: InstanceState,
    pub(super) output: Option<Bytes>,
    pub(super) status: Option<String>,
    pub(super) status_version: u64,
    pub(super) kv_version: u64,
    /// The key-value state at the start of the current execution.
    pub(super) kv: BTreeMap<KvKey, KvValue>,
    /// The keys that the current execution changed; `None` for a key that it cleared.
    pub(super) delta: BTreeMap<KvKey, Option<KvValue>>,
    pub(super) executions: BTreeMap<u64, OracleExecution>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub(super) struct KvValue {
    pub(super) value: Bytes,
    pub(super) execution: u64,
    pub(super) updated_at: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) struct OracleExecution {
    pub(super) version: Option<String>,
    pub(super) state: InstanceState,
    pub(super) output: Option<Bytes>,
    pub(super) history: Vec<HistoryBatch>,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
pub(super) struct OracleWork {
    pub(super) lane: i64,
    pub(super) key: WorkKey,
    pub(super) route: ActivityRoute,
    pub(super) session: Option<SessionId>,
    pub(super) payload: Bytes,
    pub(super) visible_at: Timestamp,
    pub(super) attempts: u32,
    pub(super) last_error: Option<String>,
    /// The last lease, live or expired, unless it was ended.
    pub(super) lease: Option<OracleFlowLease>,
}

#[derive(Debug, Clone)]
pub(super) struct OracleSession {
    pub(super) owner: OwnerId,
    pub(super) until: Timestamp,
    pub(super) active_at: Timestamp,
}

/// Returns the time from which something can be claimed.
pub(super) fn visible_at(visible: Visible, now: Timestamp) -> Timestamp {
    match visible {
        Visible::Now => now,
        Visible::After(span) => now.plus(span),
        Visible::At(at) => at,
    }
}

impl OracleFlowLease {
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        self.until > now
    }
}

impl OracleFlow {
    pub(super) fn next_id(&mut self) -> i64 {
        self.ids += 1;
        self.ids
    }

    pub(super) fn lane(&self, name: &InstanceId) -> Option<&OracleMailbox> {
        self.names.get(name).map(|id| &self.lanes[id])
    }

    pub(super) fn lane_mut(&mut self, name: &InstanceId) -> Option<&mut OracleMailbox> {
        let id = self.names.get(name)?;
        self.lanes.get_mut(id)
    }

    pub(super) fn instance_of(&self, name: &InstanceId) -> Option<&OracleInstance> {
        self.lane(name)?.instance.as_ref()
    }

    /// Returns the mailbox of an instance, which is created if it does not exist.
    pub(super) fn ensure_lane(&mut self, name: &InstanceId) -> i64 {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = self.next_id();
        let mailbox = OracleMailbox {
            name: name.clone(),
            capability: None,
            messages: BTreeMap::new(),
            lease: None,
            suspended: None,
            instance: None,
            started_at: None,
            parent: None,
            last_seq: 0,
            watched: false,
        };
        self.lanes.insert(id, mailbox);
        self.names.insert(name.clone(), id);
        id
    }
}

impl OracleMailbox {
    pub(super) fn live_lease(&self, now: Timestamp) -> Option<&OracleFlowLease> {
        self.lease.as_ref().filter(|lease| lease.is_live(now))
    }

    pub(super) fn is_pending(&self) -> bool {
        self.instance.is_none() && self.messages.values().any(|message| message.starts)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.instance.as_ref().is_some_and(|instance| instance.state.is_ended())
    }

    /// Ends the lease, if there is one. With `uncounted`, its attempts do not count.
    pub(super) fn end_lease(&mut self, uncounted: bool) {
        if self.lease.take().is_none() {
            return;
        }
        for message in self.messages.values_mut() {
            if message.held_by.take().is_some() && uncounted {
                message.attempts = message.attempts.saturating_sub(1);
            }
        }
    }
}

impl OracleInstance {
    pub(super) fn new(new_instance: NewInstance, now: Timestamp) -> Self {
        Self {
            name: new_instance.name,
            parent: new_instance.parent,
            state: InstanceState::Running,
            output: None,
            status: None,
            status_version: 0,
            kv_version: 0,
            kv: BTreeMap::new(),
            delta: BTreeMap::new(),
            executions: BTreeMap::new(),
            created_at: now,
            updated_at: now,
            ended_at: None,
        }
    }

    /// Returns the number of the current execution; 0 if there is none.
    pub(super) fn current(&self) -> u64 {
        self.executions.keys().next_back().copied().unwrap_or(0)
    }

    /// Returns the key-value state as readers see it.
    pub(super) fn merged_kv(&self) -> BTreeMap<KvKey, KvValue> {
        let mut merged = self.kv.clone();
        for (key, value) in &self.delta {
            match value {
                Some(value) => drop(merged.insert(key.clone(), value.clone())),
                None => drop(merged.remove(key)),
            }
        }
        merged
    }

    /// Makes the changes of the ended execution part of the state with which the next one starts.
    pub(super) fn merge_kv(&mut self) {
        self.kv = self.merged_kv();
        self.delta.clear();
    }
}

impl OracleExecution {
    pub(super) fn last_event(&self) -> u64 {
        self.history.last().map_or(0, |batch| batch.last)
    }

    pub(super) fn bytes(&self) -> usize {
        self.history.iter().map(|batch| batch.events.len()).sum()
    }
}

/// Returns the entries for a reply, ordered by key.
pub(super) fn kv_entries(values: &BTreeMap<KvKey, KvValue>) -> Vec<KvEntry> {
    (values.iter())
        .map(|(key, value)| KvEntry {
            key: key.clone(),
            value: value.value.clone(),
            execution: value.execution,
            updated_at: value.updated_at,
        })
        .collect()
}
