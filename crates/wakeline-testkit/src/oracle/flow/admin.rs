//! "Interventions".

use std::collections::BTreeMap;

use wakeline_core::{Capabilities, FlowChange, FlowToken, FlowWhat, InstanceId, Timestamp};
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, FindUnclaimed, InstanceFilter, InstanceState, PruneOptions,
    PruneReport, RetriedPiece, RetryPlace, Suspension, TerminateInstance, Unclaimed, UnclaimedWhat,
};

use super::state::{Execution, Flow, Instance};

impl Flow {
    pub(super) fn suspend(
        &mut self,
        name: &InstanceId,
        suspension: Suspension,
        now: Timestamp,
    ) -> bool {
        let Some(lane) = self.lane_mut(name) else { return false };
        let goes_on = lane.is_pending() || (lane.instance.is_some() && !lane.has_ended());
        if !goes_on || lane.suspended.is_some() {
            return false;
        }
        lane.suspended = Some(suspension);
        let live = lane.live_lease(now).is_some();
        lane.end_lease(live);
        true
    }

    pub(super) fn suspend_turn(
        &mut self,
        token: FlowToken,
        suspension: Suspension,
        now: Timestamp,
    ) -> bool {
        let Some(name) = self.held_lane(token, now).map(|lane| lane.name.clone()) else {
            return false;
        };
        self.suspend(&name, suspension, now)
    }

    pub(super) fn resume(&mut self, name: &InstanceId, now: Timestamp) -> (bool, Vec<FlowChange>) {
        let resumed = self.lane_mut(name).and_then(|lane| lane.suspended.take()).is_some();
        let change = self.lane(name).and_then(|lane| lane.change(now)).filter(|_| resumed);
        (resumed, change.into_iter().collect())
    }

    /// One at a time.
    pub(super) fn retry_mismatched(
        &mut self,
        capabilities: &Capabilities,
        after: Option<RetryPlace>,
        now: Timestamp,
    ) -> RetriedPiece {
        let first = after.map_or(i64::MIN, |place| place.lane + 1);
        for (id, lane) in self.lanes.range_mut(first..) {
            let mismatch = matches!(lane.suspended, Some(Suspension::Mismatch { .. }));
            let capability = lane.capability.as_ref();
            if mismatch && capability.is_some_and(|needed| capabilities.allow(needed)) {
                lane.suspended = None;
                let changes = lane.change(now).into_iter().collect();
                let next = Some(RetryPlace { capability: 0, lane: *id });
                return RetriedPiece { count: 1, changes, next };
            }
        }
        RetriedPiece::default()
    }

    pub(super) fn unclaimed(&self, find: &FindUnclaimed, now: Timestamp) -> Vec<Unclaimed> {
        let asked = |instance: &InstanceId| {
            find.instances.as_ref().is_none_or(|instances| instances.contains(instance))
        };
        let mut found = Vec::new();
        for lane in self.lanes.values().filter(|lane| asked(&lane.name) && !lane.has_ended()) {
            if let (Some(capability), Some(since)) = (&lane.capability, lane.due_at(now)) {
                let what = UnclaimedWhat::Turn(capability.clone());
                found.push((None, Unclaimed { instance: lane.name.clone(), what, since }));
            }
        }
        for work in self.work.values() {
            let instance = self.lanes[&work.lane].name.clone();
            let since = work.lease.map_or(work.visible_at, |lease| lease.until);
            let what = UnclaimedWhat::Work(work.key, work.route.clone());
            if asked(&instance) {
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
        let told = FlowChange::now(FlowWhat::Outcome(command.instance.clone()));
        let lane = self.lanes.get_mut(&id).expect("a name has its lane");
        if let Some(birth) = command.birth {
            if !lane.is_pending() {
                return (false, Vec::new());
            }
            let execution = Execution {
                version: None,
                state: InstanceState::Running,
                output: None,
                history: Vec::new(),
                started_at: now,
                ended_at: None,
            };
            let mut instance = Instance::born(birth, now);
            instance.executions.insert(1, execution);
            lane.instance = Some(instance);
        }
        let goes_on = |instance: &&mut Instance| !instance.state.is_ended();
        let Some(instance) = lane.instance.as_mut().filter(goes_on) else {
            return (false, Vec::new());
        };
        if let Some(execution) = instance.executions.values_mut().next_back() {
            execution.state = command.state;
            execution.output = Some(command.output.clone());
            execution.ended_at = Some(now);
        }
        instance.merge_kv();
        instance.end(command.state, Some(command.output), now);
        lane.end_lease(false);
        lane.suspended = None;
        lane.messages.clear();
        self.work.retain(|_, work| work.lane != id);
        let stored = command.messages.into_iter().map(|message| self.store(message, now).1);
        let touched: Vec<_> = stored.collect::<Vec<_>>().into_iter().flatten().collect();
        let mut changes = vec![told];
        changes.extend(self.turn_changes(&touched, now));
        (true, changes)
    }

    pub(super) fn delete(&mut self, command: &DeleteInstances) -> DeleteReport {
        let mut doomed: Vec<InstanceId> = Vec::new();
        for name in &command.instances {
            let lane = self.lane(name);
            // By force, also messages that wait for an instance that was never started.
            let early = lane.is_some_and(|lane| {
                command.force && lane.instance.is_none() && !lane.messages.is_empty()
            });
            if !early && !lane.is_some_and(|lane| lane.instance.is_some() || lane.is_pending()) {
                continue;
            }
            // A pending child that somebody else has started, too, tells them at its first turn.
            let follows = |child: &InstanceId| !command.force || self.starts(child) <= 1;
            for one in self.family(name, follows) {
                if !doomed.contains(&one) {
                    doomed.push(one);
                }
            }
        }
        if !command.force {
            let refused = DeleteReport {
                running: self.not_ended(&doomed),
                orphans: self.orphans(&command.instances, &doomed),
                ..DeleteReport::default()
            };
            if !refused.running.is_empty() || !refused.orphans.is_empty() {
                return refused;
            }
        }
        let mut report = DeleteReport::default();
        for name in doomed {
            self.delete_one(&name, &mut report);
        }
        report
    }

    /// How many starts wait for an instance that is pending.
    fn starts(&self, name: &InstanceId) -> usize {
        let pending = self.lane(name).filter(|lane| lane.is_pending());
        let messages = pending.into_iter().flat_map(|lane| lane.messages.values());
        messages.filter(|message| message.starts).count()
    }

    /// Notes that somebody waits for how an instance ends.
    pub(super) fn note_watched(&mut self, name: &InstanceId) {
        if let Some(lane) = self.lane_mut(name) {
            lane.watched = true;
        }
    }

    fn not_ended(&self, names: &[InstanceId]) -> Vec<InstanceId> {
        let goes_on = |name: &&InstanceId| self.lane(name).is_some_and(|lane| !lane.has_ended());
        names.iter().filter(goes_on).cloned().collect()
    }

    /// Those whose parent exists and stays.
    fn orphans(&self, named: &[InstanceId], doomed: &[InstanceId]) -> Vec<InstanceId> {
        let stays = |name: &&InstanceId| {
            let parent = self.instance_of(name).and_then(|instance| instance.parent.as_ref());
            parent.is_some_and(|(parent, _)| {
                self.instance_of(parent).is_some() && !doomed.contains(parent)
            })
        };
        named.iter().filter(stays).cloned().collect()
    }

    fn delete_one(&mut self, name: &InstanceId, report: &mut DeleteReport) {
        let id = self.names[name];
        let work = self.work.values().filter(|work| work.lane == id).count();
        let lane = self.remove_lane(name);
        report.instances += 1;
        if lane.watched && !lane.has_ended() {
            report.watched.push(name.clone());
        }
        report.messages += (lane.messages.len() + work) as u64;
        let executions = lane.instance.map(|instance| instance.executions).unwrap_or_default();
        report.executions += executions.len() as u64;
        report.events += executions.values().map(Execution::events).sum::<u64>();
    }

    fn remove_lane(&mut self, name: &InstanceId) -> super::state::Lane {
        let id = self.names.remove(name).expect("it was just found");
        self.work.retain(|_, work| work.lane != id);
        self.lanes.remove(&id).expect("a name has its lane")
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

    /// Instances that a filter speaks of, those that ended first in front.
    fn matching(&self, filter: &InstanceFilter) -> Vec<InstanceId> {
        let mut found: Vec<_> = (self.lanes.values())
            .filter_map(|lane| Some((lane.instance.as_ref()?.ended_at, lane.name.clone())))
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
            let lane = self.lane_mut(&name).expect("it was just found");
            let instance = lane.instance.as_mut().expect("it was just found");
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
