//! Mailboxes: storing messages in them, and claiming the turns that take messages out, including
//! turns that are leased in the commit that makes them available.

use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{Capabilities, FlowChange, FlowChangeKind, FlowToken, InstanceId, Timestamp};
use wakeline_store::flow::{
    EnqueueOutcome, EnqueueReply, Envelope, InlineHistory, LaneMessage, TurnClaim, TurnClaimed,
    TurnItem, TurnRequest,
};

use super::state::{
    OracleFlow, OracleFlowLease, OracleFlowMessage, OracleMailbox, kv_entries, visible_at,
};

/// The largest number of messages that one turn takes.
const TURN_MESSAGES_MAX: usize = 1_000;
/// The largest total size of the messages of one turn, if it takes more than one.
const TURN_BYTES_MAX: usize = 4 << 20;
/// The largest history, in bytes, that a claim returns with a turn.
const INLINE_HISTORY_BYTES_MAX: usize = 32 << 10;

/// The mailboxes that could be claimed before a write, to recognize those that the write made
/// available.
pub(super) struct OlderTurns(BTreeSet<i64>);

impl OracleMailbox {
    fn allowed(&self, capabilities: &Capabilities) -> bool {
        self.capability.as_ref().is_some_and(|capability| capabilities.allow(capability))
    }

    /// Returns since when, or from when on, it can be claimed if nothing else happens.
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

    /// Returns the change for waiters for turns.
    pub(super) fn change(&self, now: Timestamp) -> Option<FlowChange> {
        if self.live_lease(now).is_some() {
            return None;
        }
        let what = FlowChangeKind::Turn(self.capability.clone()?);
        Some(FlowChange { what, due_in: now.until(self.due_at(now)?) })
    }

    /// Leases the mailbox and marks the messages that the turn takes.
    fn lease_to(&mut self, request: &TurnRequest, now: Timestamp) {
        self.end_lease(false);
        self.lease = Some(OracleFlowLease { key: request.key, until: now.plus(request.lease) });
        let taken = self.takes_of_mailbox(now);
        assert!(!taken.is_empty(), "a mailbox without a visible message is not claimed");
        for seq in taken {
            let message = self.messages.get_mut(&seq).expect("it was just found");
            message.attempts += 1;
            message.held_by = Some(request.key);
        }
    }

    /// Returns the sequence numbers of the messages that a turn takes now. If not all visible
    /// messages fit, those that may start an execution come first, and alone.
    fn takes_of_mailbox(&mut self, now: Timestamp) -> Vec<i64> {
        let taken = self.takes(now, i64::MAX);
        let visible = self.messages.values().filter(|message| message.visible_at <= now).count();
        if taken.len() == visible {
            return taken;
        }
        self.starts_to_front(now, taken[taken.len() - 1]);
        let other = |(_, message): &(&i64, &OracleFlowMessage)| {
            message.visible_at <= now && !message.starts
        };
        let end = self.messages.iter().find(other).map_or(i64::MAX, |(seq, _)| *seq);
        let starts = self.takes(now, end);
        if starts.is_empty() { taken } else { starts }
    }

    /// Returns the sequence numbers of the first visible messages before `end` that fit into a
    /// turn.
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

    /// Moves messages behind `last` that may start an execution to the front.
    fn starts_to_front(&mut self, now: Timestamp, last: i64) {
        let behind = |(seq, message): (&i64, &OracleFlowMessage)| {
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
        let lease = self.live_lease(now).expect("only leased mailboxes have a turn");
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
            Some(execution) => InlineHistory::Complete(execution.history.clone()),
            None => InlineHistory::Complete(Vec::new()),
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

impl OracleFlow {
    pub(in crate::oracle) fn enqueue(
        &mut self,
        envelopes: Vec<Envelope>,
        requests: &[TurnRequest],
        now: Timestamp,
    ) -> EnqueueReply {
        let before = self.claimable_lanes(now);
        let (mut outcomes, mut touched) = (Vec::new(), Vec::new());
        for envelope in envelopes {
            let (outcome, mailbox) = self.store(envelope, now);
            outcomes.push(outcome);
            touched.extend(mailbox);
        }
        let turns = self.lease_turns_on_insert(&before, &touched, requests, now);
        EnqueueReply { outcomes, turns, changes: self.turn_changes(&touched, now) }
    }

    /// Stores one message. Returns the id of its mailbox.
    pub(super) fn store(
        &mut self,
        envelope: Envelope,
        now: Timestamp,
    ) -> (EnqueueOutcome, Option<i64>) {
        if let Some(mailbox) = self.lane(&envelope.instance) {
            let starts = mailbox.messages.values().any(|message| message.starts);
            if envelope.unique && (mailbox.instance.is_some() || starts) {
                return (EnqueueOutcome::Exists, None);
            }
            if mailbox.has_ended() && !envelope.even_if_ended {
                return (EnqueueOutcome::Ended, None);
            }
        }
        let id = self.ensure_lane(&envelope.instance);
        let mailbox = self.lanes.get_mut(&id).expect("it was just created");
        let known =
            |message: &OracleFlowMessage| envelope.key.is_some() && message.key == envelope.key;
        if mailbox.messages.values().any(known) {
            return (EnqueueOutcome::Queued, None);
        }
        let starts = envelope.starts.is_some();
        if starts && (mailbox.capability.is_none() || mailbox.has_ended()) {
            mailbox.capability = envelope.starts;
        }
        if starts && mailbox.started_at.is_none() {
            mailbox.started_at = Some(now);
            mailbox.parent = envelope.parent;
        }
        mailbox.last_seq += 1;
        let message = OracleFlowMessage {
            visible_at: visible_at(envelope.visible, now),
            payload: envelope.payload,
            starts,
            key: envelope.key,
            attempts: 0,
            held_by: None,
        };
        mailbox.messages.insert(mailbox.last_seq, message);
        (EnqueueOutcome::Queued, Some(id))
    }

    /// Returns the changes of these mailboxes for waiters for turns, without duplicates.
    pub(super) fn turn_changes(&self, mailboxes: &[i64], now: Timestamp) -> Vec<FlowChange> {
        let mut changes = Vec::new();
        for mailbox in mailboxes.iter().filter_map(|id| self.lanes.get(id)) {
            changes.extend(mailbox.change(now).filter(|change| !changes.contains(change)));
        }
        changes
    }

    pub(super) fn claim_turns(
        &mut self,
        lines: Vec<TurnClaim>,
        now: Timestamp,
    ) -> Vec<TurnClaimed> {
        let mut replies = Vec::new();
        for TurnClaim { capabilities, requests, further } in lines {
            let turns: Vec<_> = (requests.iter())
                .map(|request| self.claim_turn(&capabilities, request, now))
                .collect();
            let look = further || turns.iter().any(Option::is_none);
            let next_due = self.next_turn(&capabilities, now).filter(|_| look);
            replies.push(TurnClaimed { turns, next_due });
        }
        replies
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
            .filter(|(_, mailbox)| mailbox.allowed(capabilities) && mailbox.is_claimable(now))
            .map(|(id, mailbox)| (mailbox.due_at(now), *id))
            .min()?;
        Some(self.lease_lane(id, request, now))
    }

    /// Returns the mailbox within the capabilities that a key has leased.
    fn lane_leased_to(
        &self,
        capabilities: &Capabilities,
        key: Uuid,
        now: Timestamp,
    ) -> Option<i64> {
        let leased =
            |mailbox: &OracleMailbox| mailbox.live_lease(now).is_some_and(|lease| lease.key == key);
        let mut mailboxes = self.lanes.iter();
        mailboxes
            .find(|(_, mailbox)| mailbox.allowed(capabilities) && leased(mailbox))
            .map(|(id, _)| *id)
    }

    /// Leases the turn of one instance, if it is claimable.
    pub(super) fn claim_turn_of(
        &mut self,
        instance: &InstanceId,
        request: &TurnRequest,
        now: Timestamp,
    ) -> Option<TurnItem> {
        let id = *self.names.get(instance)?;
        let mailbox = &self.lanes[&id];
        let fits = mailbox.allowed(&request.capabilities) && mailbox.is_claimable(now);
        fits.then(|| self.lease_lane(id, request, now))
    }

    pub(super) fn lease_lane(
        &mut self,
        id: i64,
        request: &TurnRequest,
        now: Timestamp,
    ) -> TurnItem {
        let mailbox = self.lanes.get_mut(&id).expect("it was just found");
        mailbox.lease_to(request, now);
        mailbox.turn(id, now)
    }

    /// Returns the time until a line has a turn; zero if it has one now.
    pub(super) fn next_turn(&self, line: &Capabilities, now: Timestamp) -> Option<Duration> {
        let mailboxes = self.lanes.values().filter(|mailbox| mailbox.allowed(line));
        mailboxes.filter_map(|mailbox| mailbox.due_at(now)).min().map(|due_at| now.until(due_at))
    }

    /// Returns the instances whose turn a line could get now.
    pub(super) fn claimable(&self, line: &Capabilities, now: Timestamp) -> Vec<InstanceId> {
        let mailboxes = self.lanes.values();
        let claimable =
            mailboxes.filter(|mailbox| mailbox.allowed(line) && mailbox.is_claimable(now));
        claimable.map(|mailbox| mailbox.name.clone()).collect()
    }

    pub(super) fn claimable_lanes(&self, now: Timestamp) -> OlderTurns {
        let claimable = self.lanes.iter().filter(|(_, mailbox)| mailbox.is_claimable(now));
        OlderTurns(claimable.map(|(id, _)| *id).collect())
    }

    /// Leases mailboxes that a write made available to the requests that arrived with the write.
    pub(super) fn lease_turns_on_insert(
        &mut self,
        OlderTurns(before): &OlderTurns,
        touched: &[i64],
        requests: &[TurnRequest],
        now: Timestamp,
    ) -> Vec<(usize, TurnItem)> {
        let mut turns = Vec::new();
        for (n, request) in requests.iter().enumerate() {
            let may_take = |id: &i64| {
                let mailbox = self.lanes.get(id);
                mailbox.is_some_and(|mailbox| {
                    mailbox.allowed(&request.capabilities) && mailbox.is_claimable(now)
                })
            };
            if before.iter().any(may_take) {
                continue;
            }
            // Among the mailboxes that became due first, the first one touched.
            let fresh = touched.iter().copied().filter(may_take);
            let first = fresh.min_by_key(|id| self.lanes[id].due_at(now));
            if let Some(id) = first {
                turns.push((n, self.lease_lane(id, request, now)));
            }
        }
        turns
    }
}
