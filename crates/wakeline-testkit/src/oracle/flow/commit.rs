//! Committing a turn: everything that the turn did is applied, or nothing.

use wakeline_core::{FlowChange, FlowChangeKind, FlowToken, Timestamp};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    Envelope, ExecutionEnd, InstanceState, KvChange, StatusChange, TurnCommit, TurnOutcome,
    TurnReply,
};

use super::state::{KvValue, OracleExecution, OracleFlow, OracleInstance, OracleMailbox};
use crate::oracle::state::OracleState;

impl OracleState {
    pub(in crate::oracle) fn commit_turn(
        &mut self,
        commit: TurnCommit,
        now: Timestamp,
    ) -> Result<TurnReply, StoreError> {
        let Some(mailbox) = self.flow.held_lane(commit.token, now) else {
            return Ok(refused(TurnOutcome::Stale));
        };
        mailbox.check_birth(&commit)?;
        if let Some(last_event) = mailbox.conflict(&commit) {
            return Ok(refused(TurnOutcome::Conflict { last_event }));
        }
        let id = commit.token.lane;
        let before = self.flow.claimable_lanes(now);
        let mut changes = Vec::new();
        if mailbox.changes_outcome(&commit) {
            changes.push(FlowChange::now(FlowChangeKind::Outcome(mailbox.name.clone())));
        }
        self.flow.lanes.get_mut(&id).expect("it is held").record(&commit, now);
        let fresh = self.flow.commit_work(id, &commit, now);
        let mut touched = vec![id];
        let mut messages = Vec::new();
        for envelope in &commit.messages {
            let (outcome, mailbox) = self.flow.store(envelope.clone(), now);
            messages.push(outcome);
            touched.extend(mailbox);
        }
        self.flow.settle_lane(&commit, now);
        let pushed = self.push(commit.pushes, now);
        let turns = self.flow.lease_turns_on_insert(&before, &touched, &commit.turn_requests, now);
        let work = self.flow.lease_work_on_insert(&fresh, &commit.work_requests, now);
        changes.extend(self.flow.turn_changes(&touched, now));
        changes.extend(self.flow.work_changes(&fresh, now));
        let (mut emits, mut hook_changes) = (Vec::new(), Vec::new());
        for message in commit.emits {
            let reply = self.hook.emit_piggybacked(message, now);
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

impl OracleFlow {
    /// Returns the mailbox that a token leases, if the lease is live.
    pub(super) fn held_lane(&self, token: FlowToken, now: Timestamp) -> Option<&OracleMailbox> {
        let mailbox = self.lanes.get(&token.lane).filter(|_| token.work.is_none())?;
        mailbox.live_lease(now).filter(|lease| lease.key == token.key)?;
        Some(mailbox)
    }

    /// Inserts and cancels work. Returns the ids of new work.
    fn commit_work(&mut self, mailbox: i64, commit: &TurnCommit, now: Timestamp) -> Vec<i64> {
        let mut fresh = Vec::new();
        for work in &commit.work {
            fresh.extend(self.insert_work(mailbox, work.clone(), now));
        }
        let cancelled = &commit.cancelled_work;
        self.work.retain(|_, work| work.lane != mailbox || !cancelled.contains(&work.key));
        if commit.clear {
            self.work.retain(|_, work| work.lane != mailbox);
        }
        fresh
    }

    /// Applies rules 7 to 10: removes the messages that the turn took or cancelled, and ends the
    /// lease.
    fn settle_lane(&mut self, commit: &TurnCommit, now: Timestamp) {
        let mailbox = self.lanes.get_mut(&commit.token.lane).expect("it is held");
        let own = Some(commit.token.key);
        mailbox.messages.retain(|_, message| {
            let cancelled = message.key.is_some_and(|key| commit.cancelled_messages.contains(&key));
            message.held_by != own && !cancelled
        });
        mailbox.end_lease(false);
        mailbox.finish(commit, now);
        if commit.clear {
            mailbox.messages.clear();
        }
    }
}

impl OracleMailbox {
    /// Applies rule 3: a commit without an instance cannot write.
    fn check_birth(&self, commit: &TurnCommit) -> Result<(), StoreError> {
        let writes = commit.history.is_some()
            || !commit.status.is_empty()
            || !commit.kv.is_empty()
            || commit.end != ExecutionEnd::Open;
        if writes && self.instance.is_none() && commit.new_instance.is_none() {
            let reason = format!("is missing: there is no instance {}", self.name);
            return Err(StoreError::Invalid { field: "new_instance", reason });
        }
        Ok(())
    }

    /// Applies rule 2: returns the last event if the new events do not follow it.
    fn conflict(&self, commit: &TurnCommit) -> Option<u64> {
        let first = commit.history.as_ref()?.first;
        let executions = self.instance.as_ref().map(|instance| &instance.executions);
        let execution = executions.and_then(|executions| executions.get(&commit.execution));
        let last_event = execution.map_or(0, |execution| execution.last_event());
        (first != last_event + 1).then_some(last_event)
    }

    /// Applies rule 13: returns whether watchers are notified. The creation of a pending instance
    /// is a change of its state.
    fn changes_outcome(&self, commit: &TurnCommit) -> bool {
        let created = self.instance.is_none() && commit.new_instance.is_some();
        let ended = matches!(commit.end, ExecutionEnd::Ended { .. });
        created || ended || !commit.status.is_empty() || !commit.kv.is_empty()
    }

    /// Applies rules 2 to 5: writes the history, the status and the key-value state.
    fn record(&mut self, commit: &TurnCommit, now: Timestamp) {
        if let Some(pinned) = &commit.pinned {
            self.capability = Some(pinned.capability.clone());
        }
        let create = || Some(OracleInstance::new(commit.new_instance.clone()?, now));
        self.instance = self.instance.take().or_else(create);
        let Some(instance) = &mut self.instance else { return };
        instance.updated_at = now;
        instance.ensure_execution(commit.execution, now);
        let execution =
            instance.executions.get_mut(&commit.execution).expect("it was just created");
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

    /// Applies rules 9 and 10: ends the execution.
    fn finish(&mut self, commit: &TurnCommit, now: Timestamp) {
        let Some(instance) = &mut self.instance else { return };
        match &commit.end {
            ExecutionEnd::Open => {}
            ExecutionEnd::Ended { state, output } => {
                instance.end_execution(commit.execution, *state, now);
                instance.end(*state, output.clone(), now);
                let execution = instance.executions.get_mut(&commit.execution);
                execution.expect("it was created before").output.clone_from(output);
            }
            ExecutionEnd::ContinuedAsNew { output } => {
                let state = InstanceState::ContinuedAsNew;
                instance.end_execution(commit.execution, state, now);
                let execution = instance.executions.get_mut(&commit.execution);
                execution.expect("it was created before").output.clone_from(output);
                let own = |envelope: &&Envelope| envelope.instance == self.name;
                let starts = commit.messages.iter().filter(own).find_map(|own| own.starts.clone());
                self.capability = starts.or(self.capability.take());
            }
        }
    }
}

impl OracleInstance {
    /// Creates an execution if it does not exist; a new one is current and running.
    fn ensure_execution(&mut self, number: u64, now: Timestamp) {
        if self.executions.contains_key(&number) {
            return;
        }
        if number > self.current() {
            self.state = InstanceState::Running;
            self.output = None;
            self.ended_at = None;
        }
        let execution = OracleExecution {
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
        let execution = self.executions.get_mut(&number).expect("it was created before");
        execution.state = state;
        execution.ended_at = Some(now);
        self.merge_kv();
    }

    /// Records the end of the instance.
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
