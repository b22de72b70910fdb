//! The state of each line, and the lines that a hint concerns.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::api::Api;

use super::{CallId, HubTime, LineId, WaiterId};

/// The state of one line.
pub(super) struct LineState<F: Api> {
    pub(super) key: F::Line,
    /// Parked waiters without a claim, in order of arrival.
    pub(super) idle: BTreeSet<WaiterId>,
    /// Those of them that do not wait.
    pub(super) impatient: BTreeSet<WaiterId>,
    /// The number of waiters with an entry of their own in the queue of claims.
    pub(super) queued: usize,
    /// The number of waiters in claims in flight.
    pub(super) busy: usize,
    /// The claims in flight, and the first hint that each of them will answer.
    pub(super) calls: Vec<(CallId, Option<HubTime>)>,
    /// Incremented by every event that may have made work available.
    pub(super) generation: u64,
    /// Incremented whenever a claim starts or ends.
    pub(super) activity: u64,
    /// The start of the last claim or sweep that found nothing, if nothing has come since.
    pub(super) empty_at: Option<HubTime>,
    /// The time of the first hint that no claim has taken up yet.
    pub(super) hinted: Option<HubTime>,
    /// Whether a hint has gone unanswered for so long that all waiters were woken.
    pub(super) overdue: bool,
    /// Whether all parked waiters of the line are to be claimed for together.
    pub(super) dirty: bool,
    /// The line's entry in the queue of claims, and whether it is urgent.
    pub(super) place: Option<bool>,
    /// A wake found every waiter busy: the first one that comes back empty claims again.
    pub(super) wake_owed: bool,
    /// The number of failed claims in a row, and when polling tries again.
    pub(super) failures: u32,
    pub(super) retry_at: HubTime,
    /// The error of the last claim, if it failed.
    pub(super) error: Option<F::Error>,
    /// The maximum number of lines in a claim that contains this one. Each failure halves it, so
    /// that a line whose claims always fail ends up alone and does not affect other lines.
    pub(super) lines_per_call_max: usize,
    /// The number of empty claims in a row whose next-due time was nearly now.
    pub(super) almost_due_in_a_row: u32,
    /// The time between two claims of a waiter in Poll mode.
    pub(super) pace: Option<Duration>,
    /// The generation and the activity when the current sweep began.
    pub(super) sweeping: Option<(u64, u64)>,
}

impl<F: Api> LineState<F> {
    fn new(key: F::Line) -> Self {
        Self {
            key,
            idle: BTreeSet::new(),
            impatient: BTreeSet::new(),
            queued: 0,
            busy: 0,
            calls: Vec::new(),
            generation: 0,
            activity: 0,
            empty_at: None,
            hinted: None,
            overdue: false,
            dirty: false,
            place: None,
            wake_owed: false,
            failures: 0,
            retry_at: HubTime::ZERO,
            error: None,
            lines_per_call_max: usize::MAX,
            almost_due_in_a_row: 0,
            pace: None,
            sweeping: None,
        }
    }

    pub(super) fn waiters(&self) -> usize {
        self.idle.len() + self.queued + self.busy
    }

    /// Returns the time of the oldest hint without an answer.
    pub(super) fn unanswered(&self) -> Option<HubTime> {
        self.calls.iter().filter_map(|(_, hinted)| *hinted).chain(self.hinted).min()
    }
}

/// All lines that have waiters, or had some recently.
pub(super) struct LineTable<F: Api> {
    all: BTreeMap<LineId, LineState<F>>,
    by_key: HashMap<F::Line, LineId>,
    by_topic: HashMap<F::Topic, BTreeSet<LineId>>,
    /// Lines with waiters whose last claim failed.
    failed: BTreeSet<LineId>,
    /// Lines without waiters, by the time when the last one left.
    resting: BTreeSet<(HubTime, LineId)>,
    resting_since: HashMap<LineId, HubTime>,
    remember_for: Duration,
    resting_max: usize,
    ids: u64,
}

impl<F: Api> LineTable<F> {
    pub(super) fn new(remember_for: Duration, resting_max: usize) -> Self {
        Self {
            all: BTreeMap::new(),
            by_key: HashMap::new(),
            by_topic: HashMap::new(),
            failed: BTreeSet::new(),
            resting: BTreeSet::new(),
            resting_since: HashMap::new(),
            remember_for,
            resting_max,
            ids: 0,
        }
    }

    /// Returns the line of this key, for a waiter that is about to join it.
    pub(super) fn enter(&mut self, key: F::Line) -> LineId {
        if let Some(id) = self.by_key.get(&key).copied() {
            if let Some(since) = self.resting_since.remove(&id) {
                self.resting.remove(&(since, id));
            }
            return id;
        }
        self.ids += 1;
        let id = LineId(self.ids);
        self.by_key.insert(key.clone(), id);
        self.by_topic.entry(F::topic(&key)).or_default().insert(id);
        self.all.insert(id, LineState::new(key));
        id
    }

    /// Records that the line has no waiters any more.
    pub(super) fn rest(&mut self, id: LineId, now: HubTime) {
        self.failed.remove(&id);
        if self.all.contains_key(&id) && self.resting_since.insert(id, now).is_none() {
            self.resting.insert((now, id));
        }
    }

    /// Forgets lines that have rested for long, and those that have rested longest if there are too
    /// many.
    pub(super) fn forget(&mut self, now: HubTime) -> Vec<LineId> {
        let mut forgotten = Vec::new();
        while let Some((since, id)) = self.resting.first().copied() {
            if since + self.remember_for > now && self.resting.len() <= self.resting_max {
                break;
            }
            self.resting.pop_first();
            self.resting_since.remove(&id);
            self.remove(id);
            forgotten.push(id);
        }
        forgotten
    }

    fn remove(&mut self, id: LineId) {
        let Some(line) = self.all.remove(&id) else { return };
        self.by_key.remove(&line.key);
        let topic = F::topic(&line.key);
        if let Some(lines) = self.by_topic.get_mut(&topic) {
            lines.remove(&id);
            if lines.is_empty() {
                self.by_topic.remove(&topic);
            }
        }
    }

    pub(super) fn next_forgetting(&self) -> Option<HubTime> {
        self.resting.first().map(|(since, _)| *since + self.remember_for)
    }

    pub(super) fn get(&self, id: LineId) -> Option<&LineState<F>> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: LineId) -> Option<&mut LineState<F>> {
        self.all.get_mut(&id)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (LineId, &mut LineState<F>)> {
        self.all.iter_mut().map(|(id, line)| (*id, line))
    }

    pub(super) fn ids(&self) -> Vec<LineId> {
        self.all.keys().copied().collect()
    }

    /// Returns the lines whose waiters may be able to take what the hint refers to.
    pub(super) fn concerned(&self, hint: &F::Hint) -> BTreeSet<LineId> {
        if F::spans_topics(hint) {
            let all = self.all.iter();
            return all.filter(|(_, l)| F::concerns(hint, &l.key)).map(|(id, _)| *id).collect();
        }
        let topics = F::topics(hint);
        let lines = topics.iter().filter_map(|topic| self.by_topic.get(topic)).flatten().copied();
        lines.filter(|id| F::concerns(hint, &self.all[id].key)).collect()
    }

    /// Records that the line's last claim failed, until one succeeds or the last waiter leaves.
    pub(super) fn set_failed(&mut self, id: LineId, failed: bool) {
        if failed && self.all.get(&id).is_some_and(|line| line.waiters() > 0) {
            self.failed.insert(id);
        } else {
            self.failed.remove(&id);
        }
    }

    /// Returns whether there are waiters in a line whose last claim failed.
    pub(super) fn any_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Returns the lines with waiters, and those whose last waiter left after `since`.
    pub(super) fn in_use(&self, since: HubTime) -> Vec<LineId> {
        let ids = self.all.keys().copied();
        ids.filter(|id| self.resting_since.get(id).is_none_or(|at| *at > since)).collect()
    }

    pub(super) fn occupied(&self) -> usize {
        self.all.len() - self.resting.len()
    }

    pub(super) fn at_rest(&self) -> usize {
        self.resting.len()
    }
}
