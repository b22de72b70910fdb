//! Interventions: suspending, resuming, terminating, deleting and pruning instances.

use std::collections::BTreeMap;

use wakeline_core::{Capabilities, FlowChange, FlowChangeKind, FlowToken, InstanceId, Timestamp};
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, FindUnclaimed, InstanceFilter, InstanceState, PruneOptions,
    PruneReport, RetriedBatch, RetryPosition, Suspension, TerminateInstance, Unclaimed,
    UnclaimedWork,
};

use super::state::{OracleExecution, OracleFlow, OracleInstance};

impl OracleFlow {
    pub(super) fn suspend(
        &mut self,
        name: &InstanceId,
        suspension: Suspension,
        now: Timestamp,
    ) -> bool {
        let Some(mailbox) = self.lane_mut(name) else { return false };
        let goes_on = mailbox.is_pending() || (mailbox.instance.is_some() && !mailbox.has_ended());
        if !goes_on || mailbox.suspended.is_some() {
            return false;
        }
        mailbox.suspended = Some(suspension);
        let live = mailbox.live_lease(now).is_some();
        mailbox.end_lease(live);
        true
    }

    pub(super) fn suspend_turn(
        &mut self,
        token: FlowToken,
        suspension: Suspension,
        now: Timestamp,
    ) -> bool {
        let Some(name) = self.held_lane(token, now).map(|mailbox| mailbox.name.clone()) else {
            return false;
        };
        self.suspend(&name, suspension, now)
    }

    pub(super) fn resume(&mut self, name: &InstanceId, now: Timestamp) -> (bool, Vec<FlowChange>) {
        let resumed = self.lane_mut(name).and_then(|mailbox| mailbox.suspended.take()).is_some();
        let change = self.lane(name).and_then(|mailbox| mailbox.change(now)).filter(|_| resumed);
        (resumed, change.into_iter().collect())
    }

    /// Retries one instance per call.
    pub(super) fn retry_mismatched(
        &mut self,
        capabilities: &Capabilities,
        after: Option<RetryPosition>,
        now: Timestamp,
    ) -> RetriedBatch {
        let first = after.map_or(i64::MIN, |place| place.lane + 1);
        for (id, mailbox) in self.lanes.range_mut(first..) {
            let mismatch = matches!(mailbox.suspended, Some(Suspension::Mismatch { .. }));
            let capability = mailbox.capability.as_ref();
            if mismatch && capability.is_some_and(|needed| capabilities.allow(needed)) {
                mailbox.suspended = None;
                let changes = mailbox.change(now).into_iter().collect();
                let next = Some(RetryPosition { capability: 0, lane: *id });
                return RetriedBatch { count: 1, changes, next };
            }
        }
        RetriedBatch::default()
    }

    pub(super) fn unclaimed(&self, find: &FindUnclaimed, now: Timestamp) -> Vec<Unclaimed> {
        let requested = |instance: &InstanceId| {
            find.instances.as_ref().is_none_or(|instances| instances.contains(instance))
        };
        let mut found = Vec::new();
        for mailbox in
            self.lanes.values().filter(|mailbox| requested(&mailbox.name) && !mailbox.has_ended())
        {
            if let (Some(capability), Some(since)) = (&mailbox.capability, mailbox.due_at(now)) {
                let what = UnclaimedWork::Turn(capability.clone());
                found.push((None, Unclaimed { instance: mailbox.name.clone(), what, since }));
            }
        }
        for work in self.work.values() {
            let instance = self.lanes[&work.lane].name.clone();
            let since = work.lease.map_or(work.visible_at, |lease| lease.until);
            let what = UnclaimedWork::Work(work.key, work.route.clone());
            if requested(&instance) {
                found.push((Some(work.key), Unclaimed { instance, what, since }));
            }
        }
        found.retain(|(_, one)| one.since.plus(find.waited_min) <= now);
        found.sort_by_key(|(key, one)| (one.since, one.instance.clone(), *key));
        let (limit, mut of) = (find.limit as usize, BTreeMap::new());
        let found = found.into_iter().map(|(_, one)| one);
        if find.instances.is_none() {
            return found.take(limit).collect();
        }
        let mut among_first = |one: &Unclaimed| {
            let count = of.entry(one.instance.clone()).or_insert(0);
            *count += 1;
            *count <= limit
        };
        found.filter(|one| among_first(one)).collect()
    }

    pub(super) fn terminate(
        &mut self,
        command: TerminateInstance,
        now: Timestamp,
    ) -> (bool, Vec<FlowChange>) {
        let Some(id) = self.names.get(&command.instance).copied() else {
            return (false, Vec::new());
        };
        let ended = FlowChange::now(FlowChangeKind::Outcome(command.instance.clone()));
        let mailbox = self.lanes.get_mut(&id).expect("each name has a mailbox");
        if let Some(new_instance) = command.new_instance {
            if !mailbox.is_pending() {
                return (false, Vec::new());
            }
            let execution = OracleExecution {
                version: None,
                state: InstanceState::Running,
                output: None,
                history: Vec::new(),
                started_at: now,
                ended_at: None,
            };
            let mut instance = OracleInstance::new(new_instance, now);
            instance.executions.insert(1, execution);
            mailbox.instance = Some(instance);
        }
        let goes_on = |instance: &&mut OracleInstance| !instance.state.is_ended();
        let Some(instance) = mailbox.instance.as_mut().filter(goes_on) else {
            return (false, Vec::new());
        };
        if let Some(execution) = instance.executions.values_mut().next_back() {
            execution.state = command.state;
            execution.output = Some(command.output.clone());
            execution.ended_at = Some(now);
        }
        instance.merge_kv();
        instance.end(command.state, Some(command.output), now);
        mailbox.end_lease(false);
        mailbox.suspended = None;
        mailbox.messages.clear();
        self.work.retain(|_, work| work.lane != id);
        let stored = command.messages.into_iter().map(|message| self.store(message, now).1);
        let touched: Vec<_> = stored.collect::<Vec<_>>().into_iter().flatten().collect();
        let mut changes = vec![ended];
        changes.extend(self.turn_changes(&touched, now));
        (true, changes)
    }

    pub(super) fn delete(&mut self, command: &DeleteInstances) -> DeleteReport {
        let mut chosen: Vec<InstanceId> = Vec::new();
        for name in &command.instances {
            let mailbox = self.lane(name);
            // With `force`, also delete messages that wait for an instance that was never started.
            let early = mailbox.is_some_and(|mailbox| {
                command.force && mailbox.instance.is_none() && !mailbox.messages.is_empty()
            });
            if !early
                && !mailbox
                    .is_some_and(|mailbox| mailbox.instance.is_some() || mailbox.is_pending())
            {
                continue;
            }
            // A pending child that was also started by another caller stays: its first turn informs
            // that caller.
            let follows = |child: &InstanceId| !command.force || self.starts(child) <= 1;
            for one in self.family(name, follows) {
                if !chosen.contains(&one) {
                    chosen.push(one);
                }
            }
        }
        if !command.force {
            let refused = DeleteReport {
                running: self.not_ended(&chosen),
                orphans: self.orphans(&command.instances, &chosen),
                ..DeleteReport::default()
            };
            if !refused.running.is_empty() || !refused.orphans.is_empty() {
                return refused;
            }
        }
        let mut report = DeleteReport::default();
        for name in chosen {
            self.delete_one(&name, &mut report);
        }
        report
    }

    /// Counts the start messages of an instance that is pending.
    fn starts(&self, name: &InstanceId) -> usize {
        let pending = self.lane(name).filter(|mailbox| mailbox.is_pending());
        let messages = pending.into_iter().flat_map(|mailbox| mailbox.messages.values());
        messages.filter(|message| message.starts).count()
    }

    /// Records that a client waits for the outcome of an instance.
    pub(super) fn note_watched(&mut self, name: &InstanceId) {
        if let Some(mailbox) = self.lane_mut(name) {
            mailbox.watched = true;
        }
    }

    fn not_ended(&self, names: &[InstanceId]) -> Vec<InstanceId> {
        let goes_on =
            |name: &&InstanceId| self.lane(name).is_some_and(|mailbox| !mailbox.has_ended());
        names.iter().filter(goes_on).cloned().collect()
    }

    /// Returns the instances whose parent exists and is not deleted.
    fn orphans(&self, named: &[InstanceId], chosen: &[InstanceId]) -> Vec<InstanceId> {
        let stays = |name: &&InstanceId| {
            let parent = self.instance_of(name).and_then(|instance| instance.parent.as_ref());
            parent.is_some_and(|(parent, _)| {
                self.instance_of(parent).is_some() && !chosen.contains(parent)
            })
        };
        named.iter().filter(stays).cloned().collect()
    }

    fn delete_one(&mut self, name: &InstanceId, report: &mut DeleteReport) {
        let id = self.names[name];
        let work = self.work.values().filter(|work| work.lane == id).count();
        let mailbox = self.remove_lane(name);
        report.instances += 1;
        if mailbox.watched && !mailbox.has_ended() {
            report.watched.push(name.clone());
        }
        report.messages += (mailbox.messages.len() + work) as u64;
        let executions = mailbox.instance.map(|instance| instance.executions).unwrap_or_default();
        report.executions += executions.len() as u64;
        report.events += executions.values().map(OracleExecution::events).sum::<u64>();
    }

    fn remove_lane(&mut self, name: &InstanceId) -> super::state::OracleMailbox {
        let id = self.names.remove(name).expect("it was just found");
        self.work.retain(|_, work| work.lane != id);
        self.lanes.remove(&id).expect("each name has a mailbox")
    }

    pub(super) fn delete_matching(&mut self, filter: &InstanceFilter) -> DeleteReport {
        let mut report = DeleteReport::default();
        let roots: Vec<_> = (self.matching(filter).into_iter())
            .filter(|name| {
                let instance = self.instance_of(name).expect("it was just found");
                let tree = self.tree(name);
                instance.parent.is_none() && self.not_ended(&tree).is_empty()
            })
            .take(filter.limit as usize)
            .collect();
        for root in roots {
            for name in self.tree(&root) {
                self.delete_one(&name, &mut report);
            }
        }
        report
    }

    /// Returns the instances that match a filter, in the order in which they ended.
    fn matching(&self, filter: &InstanceFilter) -> Vec<InstanceId> {
        let mut found: Vec<_> = (self.lanes.values())
            .filter_map(|mailbox| Some((mailbox.instance.as_ref()?.ended_at, mailbox.name.clone())))
            .filter(|(ended_at, name)| {
                let before = |before| ended_at.is_some_and(|ended_at| ended_at < before);
                filter.instances.as_ref().is_none_or(|named| named.contains(name))
                    && filter.ended_before.is_none_or(before)
            })
            .collect();
        found.sort();
        found.into_iter().map(|(_, name)| name).collect()
    }

    pub(super) fn prune(&mut self, filter: &InstanceFilter, options: PruneOptions) -> PruneReport {
        let mut report = PruneReport::default();
        for name in self.matching(filter) {
            if report.instances == u64::from(filter.limit) {
                break;
            }
            let before = report.executions;
            let mailbox = self.lane_mut(&name).expect("it was just found");
            let instance = mailbox.instance.as_mut().expect("it was just found");
            let keep = options.keep_last.unwrap_or(1).max(1) as usize;
            let old: Vec<u64> = instance.executions.keys().rev().skip(keep).copied().collect();
            for number in old {
                let ended_at = instance.executions[&number].ended_at;
                let earlier = |before| ended_at.is_some_and(|ended_at| ended_at < before);
                if options.ended_before.is_none_or(earlier) {
                    let gone = instance.executions.remove(&number).expect("it was just found");
                    report.executions += 1;
                    report.events += gone.events();
                }
            }
            report.instances += u64::from(report.executions > before);
        }
        report
    }
}
