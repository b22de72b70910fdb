//! "Committing a turn": everything that a turn did, or nothing.

use wakeline_core::{FlowChange, FlowToken, FlowWhat, Timestamp};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    Envelope, ExecutionEnd, InstanceState, KvChange, StatusChange, TurnCommit, TurnOutcome,
    TurnReply,
};

use super::state::{Execution, Flow, Instance, KvValue, Lane};
use crate::oracle::state::State;

impl State {
    pub(in crate::oracle) fn commit_turn(
        &mut self,
        commit: TurnCommit,
        now: Timestamp,
    ) -> Result<TurnReply, StoreError> {
        let Some(lane) = self.flow.held_lane(commit.token, now) else {
            return Ok(refused(TurnOutcome::Stale));
        };
        lane.check_birth(&commit)?;
        if let Some(last_event) = lane.conflict(&commit) {
            return Ok(refused(TurnOutcome::Conflict { last_event }));
        }
        let id = commit.token.lane;
        let before = self.flow.claimable_lanes(now);
        let mut changes = Vec::new();
        if lane.tells_outcome(&commit) {
            changes.push(FlowChange::now(FlowWhat::Outcome(lane.name.clone())));
        }
        self.flow.lanes.get_mut(&id).expect("it is held").record(&commit, now);
        let fresh = self.flow.commit_work(id, &commit, now);
        let mut touched = vec![id];
        let mut messages = Vec::new();
        for envelope in &commit.messages {
            let (outcome, lane) = self.flow.store(envelope.clone(), now);
            messages.push(outcome);
            touched.extend(lane);
        }
        self.flow.settle_lane(&commit, now);
        let pushed = self.push(commit.pushes, now);
        let turns = self.flow.born_turns(&before, &touched, &commit.turn_requests, now);
        let work = self.flow.born_work(&fresh, &commit.work_requests, now);
        changes.extend(self.flow.turn_changes(&touched, now));
        changes.extend(self.flow.work_changes(&fresh, now));
        let (mut emits, mut hook_changes) = (Vec::new(), Vec::new());
        for message in commit.emits {
            let reply = self.hook.emit_along(message, now);
            emits.push(reply.outcome);
            hook_changes.extend(reply.changes);
        }
        let outcome = TurnOutcome::Committed { messages, pushes: pushed.outcomes, emits };
        let queue_changes = pushed.changes;
        Ok(TurnReply { outcome, turns, work, changes, queue_changes, hook_changes })
    }
}

fn refused(outcome: TurnOutcome) -> TurnReply {
    TurnReply {
        outcome,
        turns: Vec::new(),
        work: Vec::new(),
        changes: Vec::new(),
        queue_changes: Vec::new(),
        hook_changes: Vec::new(),
    }
}

impl Flow {
    /// The lane that a token leases, if the lease is live.
    pub(super) fn held_lane(&self, token: FlowToken, now: Timestamp) -> Option<&Lane> {
        let lane = self.lanes.get(&token.lane).filter(|_| token.work.is_none())?;
        lane.live_lease(now).filter(|lease| lease.key == token.key)?;
        Some(lane)
    }

    /// Inserts and takes back work. Returns what is new.
    fn commit_work(&mut self, lane: i64, commit: &TurnCommit, now: Timestamp) -> Vec<i64> {
        let mut fresh = Vec::new();
        for work in &commit.work {
            fresh.extend(self.insert_work(lane, work.clone(), now));
        }
        let cancelled = &commit.cancelled_work;
        self.work.retain(|_, work| work.lane != lane || !cancelled.contains(&work.key));
        if commit.clear {
            self.work.retain(|_, work| work.lane != lane);
        }
        fresh
    }

    /// Rules 7 to 10: what the turn took and took back goes, the lease ends.
    fn settle_lane(&mut self, commit: &TurnCommit, now: Timestamp) {
        let lane = self.lanes.get_mut(&commit.token.lane).expect("it is held");
        let own = Some(commit.token.key);
        lane.messages.retain(|_, message| {
            let cancelled = message.key.is_some_and(|key| commit.cancelled_messages.contains(&key));
            message.held_by != own && !cancelled
        });
        lane.end_lease(false);
        lane.finish(commit, now);
        if commit.clear {
            lane.messages.clear();
        }
    }
}

impl Lane {
    /// Rule 3: without an instance there is nowhere to write to.
    fn check_birth(&self, commit: &TurnCommit) -> Result<(), StoreError> {
        let writes = commit.history.is_some()
            || !commit.status.is_empty()
            || !commit.kv.is_empty()
            || commit.end != ExecutionEnd::Open;
        if writes && self.instance.is_none() && commit.birth.is_none() {
            let reason = format!("is missing: there is no instance {}", self.name);
            return Err(StoreError::Invalid { field: "birth", reason });
        }
        Ok(())
    }

    /// Rule 2: the last event, if the new ones do not follow it.
    fn conflict(&self, commit: &TurnCommit) -> Option<u64> {
        let first = commit.history.as_ref()?.first;
        let executions = self.instance.as_ref().map(|instance| &instance.executions);
        let execution = executions.and_then(|executions| executions.get(&commit.execution));
        let last_event = execution.map_or(0, |execution| execution.last_event());
        (first != last_event + 1).then_some(last_event)
    }

    /// Rule 13. A pending instance that comes to be has changed its state.
    fn tells_outcome(&self, commit: &TurnCommit) -> bool {
        let born = self.instance.is_none() && commit.birth.is_some();
        let ended = matches!(commit.end, ExecutionEnd::Ended { .. });
        born || ended || !commit.status.is_empty() || !commit.kv.is_empty()
    }

    /// Rules 2 to 5.
    fn record(&mut self, commit: &TurnCommit, now: Timestamp) {
        if let Some(pinned) = &commit.pinned {
            self.capability = Some(pinned.capability.clone());
        }
        let born = || Some(Instance::born(commit.birth.clone()?, now));
        self.instance = self.instance.take().or_else(born);
        let Some(instance) = &mut self.instance else { return };
        instance.updated_at = now;
        instance.ensure_execution(commit.execution, now);
        let execution = instance.executions.get_mut(&commit.execution).expect("it was just made");
        execution.history.extend(commit.history.clone());
        if let Some(pinned) = &commit.pinned {
            execution.version.clone_from(&pinned.version);
        }
        for change in &commit.status {
            instance.status_version += 1;
            instance.status = match change {
                StatusChange::Set(text) => Some(text.clone()),
                StatusChange::Clear => None,
            };
        }
        instance.change_kv(commit, now);
    }

    /// Rules 9 and 10.
    fn finish(&mut self, commit: &TurnCommit, now: Timestamp) {
        let Some(instance) = &mut self.instance else { return };
        match &commit.end {
            ExecutionEnd::Open => {}
            ExecutionEnd::Ended { state, output } => {
                instance.end_execution(commit.execution, *state, now);
                instance.end(*state, output.clone(), now);
                let execution = instance.executions.get_mut(&commit.execution);
                execution.expect("it was made before").output.clone_from(output);
            }
            ExecutionEnd::ContinuedAsNew { output } => {
                let state = InstanceState::ContinuedAsNew;
                instance.end_execution(commit.execution, state, now);
                let execution = instance.executions.get_mut(&commit.execution);
                execution.expect("it was made before").output.clone_from(output);
                let own = |envelope: &&Envelope| envelope.instance == self.name;
                let starts = commit.messages.iter().filter(own).find_map(|own| own.starts.clone());
                self.capability = starts.or(self.capability.take());
            }
        }
    }
}

impl Instance {
    /// A new execution is the current one, and goes on.
    fn ensure_execution(&mut self, number: u64, now: Timestamp) {
        if self.executions.contains_key(&number) {
            return;
        }
        if number > self.current() {
            self.state = InstanceState::Running;
            self.output = None;
            self.ended_at = None;
        }
        let execution = Execution {
            version: None,
            state: InstanceState::Running,
            output: None,
            history: Vec::new(),
            started_at: now,
            ended_at: None,
        };
        self.executions.insert(number, execution);
    }

    fn change_kv(&mut self, commit: &TurnCommit, now: Timestamp) {
        if commit.kv.is_empty() {
            return;
        }
        self.kv_version += 1;
        for change in &commit.kv {
            match change {
                KvChange::Set(key, value) => {
                    let (value, execution) = (value.clone(), commit.execution);
                    let value = KvValue { value, execution, updated_at: now };
                    self.delta.insert(key.clone(), Some(value));
                }
                KvChange::Clear(key) => drop(self.delta.insert(key.clone(), None)),
                KvChange::ClearAll => {
                    let keys: Vec<_> = self.merged_kv().into_keys().collect();
                    self.delta.extend(keys.into_iter().map(|key| (key, None)));
                }
            }
        }
    }

    fn end_execution(&mut self, number: u64, state: InstanceState, now: Timestamp) {
        let execution = self.executions.get_mut(&number).expect("it was made before");
        execution.state = state;
        execution.ended_at = Some(now);
        self.merge_kv();
    }

    /// The instance has ended.
    pub(super) fn end(
        &mut self,
        state: InstanceState,
        output: Option<bytes::Bytes>,
        now: Timestamp,
    ) {
        self.state = state;
        self.output = output;
        self.ended_at = Some(now);
    }
}
