//! Work: activities, their leases, and the sessions that keep them on one owner.

use std::time::Duration;

use wakeline_core::{
    ActivityFilter, FlowChange, FlowChangeKind, FlowToken, InstanceId, OwnerId, Timestamp,
};
use wakeline_store::flow::{
    AbandonOutcome, Completion, CompletionReply, InstanceState, NewWork, PendingWork, RenewOutcome,
    SessionClaim, TurnRequest, WorkClaim, WorkClaimed, WorkItem, WorkKey, WorkOutcome, WorkRequest,
};

use super::state::{OracleFlow, OracleFlowLease, OracleSession, OracleWork, visible_at};

/// A line that requests work: which activities it takes, and the owner of its sessions.
#[derive(Clone, Copy)]
pub(super) struct OracleWorkLine<'a> {
    pub(super) filter: &'a ActivityFilter,
    pub(super) owner: Option<&'a OwnerId>,
}

impl OracleWorkLine<'_> {
    /// Returns whether the line takes work of this tag, name and session at all.
    fn may_take(&self, work: &OracleWork) -> bool {
        self.filter.allows(&work.route) && (work.session.is_none() || self.owner.is_some())
    }
}

impl OracleWork {
    fn live_lease(&self, now: Timestamp) -> Option<&OracleFlowLease> {
        self.lease.as_ref().filter(|lease| lease.is_live(now))
    }

    pub(super) fn is_leased(&self, now: Timestamp) -> bool {
        self.live_lease(now).is_some()
    }
}

impl OracleFlow {
    pub(super) fn enqueue_work(&mut self, work: NewWork, now: Timestamp) -> Vec<FlowChange> {
        let mailbox = self.ensure_lane(&work.instance);
        let fresh: Vec<_> = self.insert_work(mailbox, work, now).into_iter().collect();
        self.work_changes(&fresh, now)
    }

    /// Inserts work, unless there is work with its key.
    pub(super) fn insert_work(
        &mut self,
        mailbox: i64,
        new: NewWork,
        now: Timestamp,
    ) -> Option<i64> {
        if self.work.values().any(|work| work.lane == mailbox && work.key == new.key) {
            return None;
        }
        let id = self.next_id();
        let work = OracleWork {
            lane: mailbox,
            key: new.key,
            route: new.route(),
            session: new.session,
            payload: new.payload,
            visible_at: visible_at(new.visible, now),
            attempts: 0,
            last_error: None,
            lease: None,
        };
        self.work.insert(id, work);
        Some(id)
    }

    /// Returns the changes of this work for waiters, without duplicates.
    pub(super) fn work_changes(&self, ids: &[i64], now: Timestamp) -> Vec<FlowChange> {
        let mut changes = Vec::new();
        for work in ids.iter().filter_map(|id| self.work.get(id)) {
            let due_in = now.until(work.visible_at);
            let change = FlowChange { what: FlowChangeKind::Work(work.route.clone()), due_in };
            if !work.is_leased(now) && !changes.contains(&change) {
                changes.push(change);
            }
        }
        changes
    }

    /// Returns when a line can take the work if nothing else happens.
    fn work_due_at(
        &self,
        work: &OracleWork,
        line: OracleWorkLine<'_>,
        now: Timestamp,
    ) -> Timestamp {
        let free_at = work.live_lease(now).map_or(work.visible_at, |lease| lease.until);
        let session = work.session.as_ref().and_then(|session| self.sessions.get(session));
        let of_other =
            session.filter(|session| session.until > now && Some(&session.owner) != line.owner);
        of_other.map_or(free_at, |session| free_at.max(session.until))
    }

    fn is_available(&self, work: &OracleWork, line: OracleWorkLine<'_>, now: Timestamp) -> bool {
        line.may_take(work) && self.work_due_at(work, line, now) <= now
    }

    pub(super) fn claim_work(&mut self, lines: Vec<WorkClaim>, now: Timestamp) -> Vec<WorkClaimed> {
        let mut replies = Vec::new();
        for WorkClaim { filter, session, requests, further } in lines {
            let work: Vec<_> = (requests.into_iter())
                .map(|request| {
                    let (filter, session) = (filter.clone(), session.clone());
                    self.claim_one(&WorkRequest { filter, session, ..request }, now)
                })
                .collect();
            let look = further || work.iter().any(Option::is_none);
            let owner = session.as_ref().map(|session| &session.owner);
            let next_due = self.next_work(OracleWorkLine { filter: &filter, owner }, now);
            replies.push(WorkClaimed { work, next_due: next_due.filter(|_| look) });
        }
        replies
    }

    fn claim_one(&mut self, request: &WorkRequest, now: Timestamp) -> Option<WorkItem> {
        let line = OracleWorkLine::of(request);
        let leased = |work: &OracleWork| work.live_lease(now).is_some_and(|l| l.key == request.key);
        let mut held = self.work.iter().filter(|(_, work)| line.may_take(work) && leased(work));
        if let Some((id, _)) = held.next() {
            return Some(self.work_item(*id, now));
        }
        let mut available = self.work.iter().filter(|(_, work)| self.is_available(work, line, now));
        let id = *available.next()?.0;
        Some(self.lease_work(id, request, now))
    }

    fn lease_work(&mut self, id: i64, request: &WorkRequest, now: Timestamp) -> WorkItem {
        let work = self.work.get_mut(&id).expect("it was just found");
        work.attempts += 1;
        work.lease = Some(OracleFlowLease { key: request.key, until: now.plus(request.lease) });
        if let (Some(session), Some(SessionClaim { owner, lease })) =
            (&work.session, &request.session)
        {
            let claimed =
                OracleSession { owner: owner.clone(), until: now.plus(*lease), active_at: now };
            self.sessions.insert(session.clone(), claimed);
        }
        self.work_item(id, now)
    }

    fn work_item(&self, id: i64, now: Timestamp) -> WorkItem {
        let work = &self.work[&id];
        let lease = work.live_lease(now).expect("only leased work is returned");
        WorkItem {
            token: FlowToken { lane: work.lane, work: Some(id), key: lease.key },
            attempt: work.attempts,
            instance: self.lanes[&work.lane].name.clone(),
            key: work.key,
            name: work.route.name.clone(),
            tag: work.route.tag.clone(),
            session: work.session.clone(),
            payload: work.payload.clone(),
            state: self.state_of(work),
            lease_for: now.until(lease.until),
        }
    }

    /// Returns the state of the execution that scheduled the work.
    fn state_of(&self, work: &OracleWork) -> Option<InstanceState> {
        let instance = self.lanes[&work.lane].instance.as_ref()?;
        instance.executions.get(&work.key.execution).map(|execution| execution.state)
    }

    /// Returns the time until a line has work; zero if it has some now.
    pub(super) fn next_work(&self, line: OracleWorkLine<'_>, now: Timestamp) -> Option<Duration> {
        let takes = self.work.values().filter(|work| line.may_take(work));
        let due_at = takes.map(|work| self.work_due_at(work, line, now)).min();
        due_at.map(|due_at| now.until(due_at))
    }

    /// Returns the work that a line would get next.
    pub(super) fn first_work(
        &self,
        line: OracleWorkLine<'_>,
        now: Timestamp,
    ) -> Option<(InstanceId, WorkKey)> {
        let mut available = self.work.values().filter(|work| self.is_available(work, line, now));
        let first = available.next()?;
        Some((self.lanes[&first.lane].name.clone(), first.key))
    }

    /// Leases new work to the requests that arrived with it.
    pub(super) fn lease_work_on_insert(
        &mut self,
        fresh: &[i64],
        requests: &[WorkRequest],
        now: Timestamp,
    ) -> Vec<(usize, WorkItem)> {
        let mut leased = Vec::new();
        for (n, request) in requests.iter().enumerate() {
            let line = OracleWorkLine::of(request);
            let mut available =
                self.work.iter().filter(|(_, work)| self.is_available(work, line, now));
            let first = available.next().map(|(id, _)| *id);
            if let Some(id) = first.filter(|id| fresh.contains(id)) {
                leased.push((n, self.lease_work(id, request, now)));
            }
        }
        leased
    }

    pub(super) fn complete_work(
        &mut self,
        completion: Completion,
        requests: &[TurnRequest],
        now: Timestamp,
    ) -> CompletionReply {
        let Some(id) = self.held_work(completion.token, now) else {
            let (turns, changes) = (Vec::new(), Vec::new());
            return CompletionReply { outcome: WorkOutcome::Stale, turns, changes };
        };
        self.note_activity(id, now);
        self.work.remove(&id);
        let before = self.claimable_lanes(now);
        let stored = completion.message.map(|message| self.store(message, now));
        let touched: Vec<_> = stored.and_then(|(_, mailbox)| mailbox).into_iter().collect();
        let turns = self.lease_turns_on_insert(&before, &touched, requests, now);
        let outcome = WorkOutcome::Completed(stored.map(|(outcome, _)| outcome));
        CompletionReply { outcome, turns, changes: self.turn_changes(&touched, now) }
    }

    /// Returns the work that a token leases, if the lease is live.
    fn held_work(&self, token: FlowToken, now: Timestamp) -> Option<i64> {
        let id = token.work?;
        let work = self.work.get(&id).filter(|work| work.lane == token.lane)?;
        work.live_lease(now).filter(|lease| lease.key == token.key)?;
        Some(id)
    }

    fn note_activity(&mut self, id: i64, now: Timestamp) {
        let session = self.work[&id].session.as_ref();
        if let Some(session) = session.and_then(|session| self.sessions.get_mut(session)) {
            session.active_at = now;
        }
    }

    pub(super) fn renew(
        &mut self,
        token: FlowToken,
        span: Duration,
        now: Timestamp,
    ) -> RenewOutcome {
        let (lease, state) = if let Some(id) = self.held_work(token, now) {
            self.note_activity(id, now);
            let state = self.state_of(&self.work[&id]);
            (self.work.get_mut(&id).and_then(|work| work.lease.as_mut()), state)
        } else if self.held_lane(token, now).is_some() {
            let mailbox = self.lanes.get_mut(&token.lane).expect("it is held");
            let instance = mailbox.instance.as_ref();
            let execution = instance.and_then(|instance| instance.executions.values().next_back());
            let state = execution.map(|execution| execution.state);
            (mailbox.lease.as_mut(), state)
        } else {
            return RenewOutcome::Stale;
        };
        let lease = lease.expect("it is held");
        lease.until = lease.until.max(now.plus(span));
        RenewOutcome::Renewed(state)
    }

    pub(super) fn abandon(
        &mut self,
        token: FlowToken,
        delay: Duration,
        uncounted: bool,
        now: Timestamp,
    ) -> (AbandonOutcome, Vec<FlowChange>) {
        let visible_at = now.plus(delay);
        let is_last =
            |lease: &Option<OracleFlowLease>| lease.is_some_and(|lease| lease.key == token.key);
        let stale = (AbandonOutcome::Stale, Vec::new());
        let Some(mailbox) = self.lanes.get_mut(&token.lane) else { return stale };
        let Some(id) = token.work else {
            if !is_last(&mailbox.lease) {
                return stale;
            }
            let held =
                |message: &&mut super::state::OracleFlowMessage| message.held_by == Some(token.key);
            for message in mailbox.messages.values_mut().filter(held) {
                message.visible_at = visible_at;
            }
            mailbox.end_lease(uncounted);
            return (AbandonOutcome::Abandoned, self.turn_changes(&[token.lane], now));
        };
        let Some(work) = self.work.get_mut(&id).filter(|work| is_last(&work.lease)) else {
            return stale;
        };
        work.lease = None;
        work.visible_at = visible_at;
        work.attempts = work.attempts.saturating_sub(u32::from(uncounted));
        (AbandonOutcome::Abandoned, self.work_changes(&[id], now))
    }

    pub(super) fn retry_work(
        &mut self,
        token: FlowToken,
        delay: Duration,
        error: String,
        now: Timestamp,
    ) -> (AbandonOutcome, Vec<FlowChange>) {
        let Some(id) = token.work else { return (AbandonOutcome::Stale, Vec::new()) };
        let abandoned = self.abandon(token, delay, false, now);
        if abandoned.0 == AbandonOutcome::Abandoned
            && let Some(work) = self.work.get_mut(&id)
        {
            work.last_error = Some(error);
        }
        abandoned
    }

    pub(super) fn pending_work(
        &self,
        instance: &InstanceId,
        limit: u32,
        now: Timestamp,
    ) -> Vec<PendingWork> {
        let mailbox = self.names.get(instance).copied();
        let pending = |work: &OracleWork| PendingWork {
            key: work.key,
            attempts: work.attempts,
            leased: work.is_leased(now),
            next_at: Some(work.visible_at).filter(|at| !work.is_leased(now) && *at > now),
            last_error: work.last_error.clone(),
            payload: work.payload.clone(),
        };
        let own = self.work.values().filter(|work| Some(work.lane) == mailbox);
        own.take(limit as usize).map(pending).collect()
    }

    pub(super) fn keep_sessions(
        &mut self,
        owners: &[OwnerId],
        span: Duration,
        idle: Duration,
        now: Timestamp,
    ) -> u64 {
        if owners.is_empty() {
            let had = self.sessions.len();
            let work = &self.work;
            self.sessions.retain(|id, session| {
                session.until > now || work.values().any(|work| work.session.as_ref() == Some(id))
            });
            return (had - self.sessions.len()) as u64;
        }
        let mut kept = 0;
        for session in self.sessions.values_mut() {
            if span.is_zero() && owners.contains(&session.owner) && session.until > now {
                session.until = now;
                kept += 1;
                continue;
            }
            let active = session.active_at.plus(idle) >= now;
            if owners.contains(&session.owner) && session.until > now && active {
                session.until = session.until.max(now.plus(span));
                kept += 1;
            }
        }
        kept
    }
}

impl<'a> OracleWorkLine<'a> {
    fn of(request: &'a WorkRequest) -> Self {
        let owner = request.session.as_ref().map(|session| &session.owner);
        Self { filter: &request.filter, owner }
    }
}
