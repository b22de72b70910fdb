//! Messages into lanes, turns out of them: "Lanes and messages", "Claiming turns", "Born leased".

use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{Capabilities, FlowChange, FlowToken, FlowWhat, InstanceId, Timestamp};
use wakeline_store::flow::{
    EnqueueOutcome, EnqueueReply, Envelope, InlineHistory, LaneMessage, TurnClaim, TurnClaimed,
    TurnItem, TurnRequest,
};

use super::state::{Flow, Lane, Lease, Message, kv_entries, visible_at};

/// Messages that one turn takes at most.
const TURN_MESSAGES_MAX: usize = 1_000;
/// Bytes of messages that one turn takes at most, if it takes more than one.
const TURN_BYTES_MAX: usize = 4 << 20;
/// Bytes of history that a claim brings along at most.
const INLINE_HISTORY_BYTES_MAX: usize = 32 << 10;

/// What could be claimed before a write, so that what it made available can be told apart.
pub(super) struct Before(BTreeSet<i64>);

impl Lane {
    fn allowed(&self, capabilities: &Capabilities) -> bool {
        self.capability.as_ref().is_some_and(|capability| capabilities.allow(capability))
    }

    /// Since when, or from when on, somebody can claim it if nothing else happens.
    pub(super) fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        if self.suspended.is_some() || self.capability.is_none() {
            return None;
        }
        if let Some(lease) = self.live_lease(now) {
            return Some(lease.until);
        }
        let visible = self.messages.values().map(|message| message.visible_at).min()?;
        Some(self.lease.map_or(visible, |expired| visible.max(expired.until)))
    }

    fn is_claimable(&self, now: Timestamp) -> bool {
        self.due_at(now).is_some_and(|due_at| due_at <= now)
    }

    /// What waiters for turns are told of it.
    pub(super) fn change(&self, now: Timestamp) -> Option<FlowChange> {
        if self.live_lease(now).is_some() {
            return None;
        }
        let what = FlowWhat::Turn(self.capability.clone()?);
        Some(FlowChange { what, due_in: now.until(self.due_at(now)?) })
    }

    /// Leases the lane and tags what is visible.
    fn lease_to(&mut self, request: &TurnRequest, now: Timestamp) {
        self.end_lease(false);
        self.lease = Some(Lease { key: request.key, until: now.plus(request.lease) });
        let taken = self.takes_of_mailbox(now);
        assert!(!taken.is_empty(), "a lane without a visible message is not claimed");
        for seq in taken {
            let message = self.messages.get_mut(&seq).expect("it was just found");
            message.attempts += 1;
            message.held_by = Some(request.key);
        }
    }

    /// The places of the messages that a turn takes now. Where not all fit, what begins something
    /// comes first and alone.
    fn takes_of_mailbox(&mut self, now: Timestamp) -> Vec<i64> {
        let taken = self.takes(now, i64::MAX);
        let visible = self.messages.values().filter(|message| message.visible_at <= now).count();
        if taken.len() == visible {
            return taken;
        }
        self.starts_to_front(now, taken[taken.len() - 1]);
        let other = |(_, message): &(&i64, &Message)| message.visible_at <= now && !message.starts;
        let end = self.messages.iter().find(other).map_or(i64::MAX, |(seq, _)| *seq);
        let begins = self.takes(now, end);
        if begins.is_empty() { taken } else { begins }
    }

    /// The places of the first messages before that place, as many as fit into a turn.
    fn takes(&self, now: Timestamp, end: i64) -> Vec<i64> {
        let mut bytes = 0;
        let mut taken = Vec::new();
        for (seq, message) in self.messages.range(..end).filter(|(_, m)| m.visible_at <= now) {
            bytes += message.payload.len();
            if taken.len() == TURN_MESSAGES_MAX || (!taken.is_empty() && bytes > TURN_BYTES_MAX) {
                break;
            }
            taken.push(*seq);
        }
        taken
    }

    /// Moves what may begin an execution and lies behind that place to the front.
    fn starts_to_front(&mut self, now: Timestamp, last: i64) {
        let behind = |(seq, message): (&i64, &Message)| {
            (*seq > last && message.starts && message.visible_at <= now).then_some(*seq)
        };
        let behind: Vec<_> = self.messages.iter().filter_map(behind).collect();
        for seq in behind.into_iter().rev() {
            let message = self.messages.remove(&seq).expect("it was just found");
            let first = self.messages.first_key_value().map_or(seq, |(first, _)| *first);
            self.messages.insert(first - 1, message);
        }
    }

    fn turn(&self, id: i64, now: Timestamp) -> TurnItem {
        let lease = self.live_lease(now).expect("only leased lanes are asked for their turn");
        let messages: Vec<_> = (self.messages.iter())
            .filter(|(_, message)| message.held_by == Some(lease.key))
            .map(|(seq, message)| LaneMessage {
                seq: *seq,
                attempt: message.attempts,
                payload: message.payload.clone(),
            })
            .collect();
        let instance = self.instance.as_ref();
        let execution = instance.and_then(|instance| instance.executions.values().next_back());
        let history = match execution {
            Some(execution) if execution.bytes() > INLINE_HISTORY_BYTES_MAX => {
                InlineHistory::TooLong
            }
            Some(execution) => InlineHistory::Whole(execution.history.clone()),
            None => InlineHistory::Whole(Vec::new()),
        };
        TurnItem {
            token: FlowToken { lane: id, work: None, key: lease.key },
            attempt: messages.iter().map(|message| message.attempt).max().unwrap_or(0),
            instance: self.name.clone(),
            name: instance.map(|instance| instance.name.clone()),
            parent: instance.and_then(|instance| instance.parent.clone()),
            capability: self.capability.clone(),
            execution: instance.map_or(0, |instance| instance.current()),
            last_event: execution.map_or(0, |execution| execution.last_event()),
            state: execution.map(|execution| execution.state),
            messages,
            history,
            kv: instance.map_or(Vec::new(), |instance| kv_entries(&instance.kv)),
            now,
            lease_for: now.until(lease.until),
        }
    }
}

impl Flow {
    pub(in crate::oracle) fn enqueue(
        &mut self,
        envelopes: Vec<Envelope>,
        requests: &[TurnRequest],
        now: Timestamp,
    ) -> EnqueueReply {
        let before = self.claimable_lanes(now);
        let (mut outcomes, mut touched) = (Vec::new(), Vec::new());
        for envelope in envelopes {
            let (outcome, lane) = self.store(envelope, now);
            outcomes.push(outcome);
            touched.extend(lane);
        }
        let turns = self.born_turns(&before, &touched, requests, now);
        EnqueueReply { outcomes, turns, changes: self.turn_changes(&touched, now) }
    }

    /// Stores one message. Returns the lane that it went to.
    pub(super) fn store(
        &mut self,
        envelope: Envelope,
        now: Timestamp,
    ) -> (EnqueueOutcome, Option<i64>) {
        if let Some(lane) = self.lane(&envelope.instance) {
            let starts = lane.messages.values().any(|message| message.starts);
            if envelope.unique && (lane.instance.is_some() || starts) {
                return (EnqueueOutcome::Exists, None);
            }
            if lane.has_ended() && !envelope.even_if_ended {
                return (EnqueueOutcome::Ended, None);
            }
        }
        let id = self.ensure_lane(&envelope.instance);
        let lane = self.lanes.get_mut(&id).expect("it was just made");
        let known = |message: &Message| envelope.key.is_some() && message.key == envelope.key;
        if lane.messages.values().any(known) {
            return (EnqueueOutcome::Queued, None);
        }
        let starts = envelope.starts.is_some();
        if starts && (lane.capability.is_none() || lane.has_ended()) {
            lane.capability = envelope.starts;
        }
        if starts && lane.started_at.is_none() {
            lane.started_at = Some(now);
            lane.parent = envelope.parent;
        }
        lane.last_seq += 1;
        let message = Message {
            visible_at: visible_at(envelope.visible, now),
            payload: envelope.payload,
            starts,
            key: envelope.key,
            attempts: 0,
            held_by: None,
        };
        lane.messages.insert(lane.last_seq, message);
        (EnqueueOutcome::Queued, Some(id))
    }

    /// What waiters for turns are told of these lanes, once each.
    pub(super) fn turn_changes(&self, lanes: &[i64], now: Timestamp) -> Vec<FlowChange> {
        let mut changes = Vec::new();
        for lane in lanes.iter().filter_map(|id| self.lanes.get(id)) {
            changes.extend(lane.change(now).filter(|change| !changes.contains(change)));
        }
        changes
    }

    pub(super) fn claim_turns(
        &mut self,
        lines: Vec<TurnClaim>,
        now: Timestamp,
    ) -> Vec<TurnClaimed> {
        let mut answers = Vec::new();
        for TurnClaim { capabilities, requests, further } in lines {
            let turns: Vec<_> = (requests.iter())
                .map(|request| self.claim_turn(&capabilities, request, now))
                .collect();
            let look = further || turns.iter().any(Option::is_none);
            let next_due = self.next_turn(&capabilities, now).filter(|_| look);
            answers.push(TurnClaimed { turns, next_due });
        }
        answers
    }

    fn claim_turn(
        &mut self,
        capabilities: &Capabilities,
        request: &TurnRequest,
        now: Timestamp,
    ) -> Option<TurnItem> {
        if let Some(id) = self.lane_leased_to(capabilities, request.key, now) {
            return Some(self.lanes[&id].turn(id, now));
        }
        let (_, id) = (self.lanes.iter())
            .filter(|(_, lane)| lane.allowed(capabilities) && lane.is_claimable(now))
            .map(|(id, lane)| (lane.due_at(now), *id))
            .min()?;
        Some(self.lease_lane(id, request, now))
    }

    /// The lane of a line that a key has leased.
    fn lane_leased_to(
        &self,
        capabilities: &Capabilities,
        key: Uuid,
        now: Timestamp,
    ) -> Option<i64> {
        let leased = |lane: &Lane| lane.live_lease(now).is_some_and(|lease| lease.key == key);
        let mut lanes = self.lanes.iter();
        lanes.find(|(_, lane)| lane.allowed(capabilities) && leased(lane)).map(|(id, _)| *id)
    }

    /// Leases the turn of one instance, if it is claimable.
    pub(super) fn claim_turn_of(
        &mut self,
        instance: &InstanceId,
        request: &TurnRequest,
        now: Timestamp,
    ) -> Option<TurnItem> {
        let id = *self.names.get(instance)?;
        let lane = &self.lanes[&id];
        let fits = lane.allowed(&request.capabilities) && lane.is_claimable(now);
        fits.then(|| self.lease_lane(id, request, now))
    }

    pub(super) fn lease_lane(
        &mut self,
        id: i64,
        request: &TurnRequest,
        now: Timestamp,
    ) -> TurnItem {
        let lane = self.lanes.get_mut(&id).expect("it was just found");
        lane.lease_to(request, now);
        lane.turn(id, now)
    }

    /// The time until a line has a turn; zero if it has now.
    pub(super) fn next_turn(&self, line: &Capabilities, now: Timestamp) -> Option<Duration> {
        let lanes = self.lanes.values().filter(|lane| lane.allowed(line));
        lanes.filter_map(|lane| lane.due_at(now)).min().map(|due_at| now.until(due_at))
    }

    /// The instances whose turn a line could get now.
    pub(super) fn claimable(&self, line: &Capabilities, now: Timestamp) -> Vec<InstanceId> {
        let lanes = self.lanes.values();
        let claimable = lanes.filter(|lane| lane.allowed(line) && lane.is_claimable(now));
        claimable.map(|lane| lane.name.clone()).collect()
    }

    pub(super) fn claimable_lanes(&self, now: Timestamp) -> Before {
        let claimable = self.lanes.iter().filter(|(_, lane)| lane.is_claimable(now));
        Before(claimable.map(|(id, _)| *id).collect())
    }

    /// Leases what a write made available to the requests that came along with it.
    pub(super) fn born_turns(
        &mut self,
        Before(before): &Before,
        touched: &[i64],
        requests: &[TurnRequest],
        now: Timestamp,
    ) -> Vec<(usize, TurnItem)> {
        let mut turns = Vec::new();
        for (n, request) in requests.iter().enumerate() {
            let may_take = |id: &i64| {
                let lane = self.lanes.get(id);
                lane.is_some_and(|lane| {
                    lane.allowed(&request.capabilities) && lane.is_claimable(now)
                })
            };
            if before.iter().any(may_take) {
                continue;
            }
            // The first of those that became due first.
            let fresh = touched.iter().copied().filter(may_take);
            let first = fresh.min_by_key(|id| self.lanes[id].due_at(now));
            if let Some(id) = first {
                turns.push((n, self.lease_lane(id, request, now)));
            }
        }
        turns
    }
}
