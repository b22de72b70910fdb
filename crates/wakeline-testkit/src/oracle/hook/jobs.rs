//! Work in the background: jobs, and what is past its time.

use std::collections::BTreeSet;
use std::time::Duration;

use wakeline_core::{
    ApplicationRef, EndpointId, HookChange, HookMessageId, HookWhat, JobId, Timestamp,
};
use wakeline_store::hook::{
    ChoreReport, Job, JobKind, JobSpec, JobState, ResendOutcome, StoredMessage,
};

use super::catalog::KEY_KEPT;
use super::state::{Hook, Plan, Row, Work};

/// How long finished jobs are kept.
const JOB_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl Hook {
    pub(super) fn start_job(
        &mut self,
        application: &ApplicationRef,
        spec: JobSpec,
        now: Timestamp,
    ) -> Option<(Job, Vec<HookChange>)> {
        let application = self.find_application(application)?;
        let changes = vec![HookChange::now(HookWhat::Chores)];
        if let Some(same) = self.jobs.get(&spec.id) {
            return Some((same.job.clone(), changes));
        }
        let job = Job {
            spec,
            application,
            state: JobState::Running,
            seen: 0,
            changed: 0,
            created_at: now,
            updated_at: now,
        };
        let place = self.next_place();
        self.jobs.insert(job.spec.id, Work { job: job.clone(), at: None, place });
        Some((job, changes))
    }

    pub(super) fn do_chores(&mut self, rows: u32, now: Timestamp) -> ChoreReport {
        let most = usize::try_from(rows).expect("fits");
        let (rows, changes) = match self.oldest_job() {
            Some(job) => self.go_on(job, most, now),
            None => (self.tidy(most, now), Vec::new()),
        };
        let next_due = self.chores_due(now);
        ChoreReport { rows: u64::try_from(rows).expect("fits"), next_due, changes }
    }

    pub(super) fn oldest_job(&self) -> Option<JobId> {
        let running = self.jobs.values().filter(|work| work.job.state == JobState::Running);
        running.min_by_key(|work| work.place).map(|work| work.job.spec.id)
    }

    /// Time until there is something to do.
    pub(super) fn chores_due(&self, now: Timestamp) -> Option<Duration> {
        if self.oldest_job().is_some() || self.left > 0 {
            return Some(Duration::ZERO);
        }
        let keys = self.keys.values().map(|known| now.until(known.at.plus(KEY_KEPT)));
        let jobs = self.jobs.values().map(|work| now.until(work.job.updated_at.plus(JOB_KEPT)));
        keys.chain(jobs).chain(self.next_expiry(now)).min()
    }

    /// Payloads that expired, else what was left behind, else keys and jobs past their time.
    fn tidy(&mut self, most: usize, now: Timestamp) -> usize {
        let is_over = |message: &&super::state::Message| {
            message.payload.is_some() && message.expires_at <= now
        };
        let over: Vec<HookMessageId> =
            self.messages.values().filter(is_over).map(|one| one.stored.id).take(most).collect();
        if !over.is_empty() {
            over.iter().for_each(|id| self.drop_payload(*id));
            return over.len();
        }
        if self.left > 0 {
            let gone = self.left.min(u64::try_from(most).expect("fits"));
            self.left -= gone;
            return usize::try_from(gone).expect("fits");
        }
        let keys = self.keys.iter().filter(|(_, known)| known.at.plus(KEY_KEPT) <= now);
        let keys: Vec<_> = keys.map(|(key, _)| key.clone()).take(most).collect();
        keys.iter().for_each(|key| drop(self.keys.remove(key)));
        let jobs = self.jobs.values().filter(|work| work.job.updated_at.plus(JOB_KEPT) <= now);
        let jobs: Vec<JobId> = jobs.map(|work| work.job.spec.id).take(most - keys.len()).collect();
        jobs.iter().for_each(|job| drop(self.jobs.remove(job)));
        keys.len() + jobs.len()
    }

    /// Goes on with a job, looking at so many deliveries or messages.
    fn go_on(&mut self, id: JobId, most: usize, now: Timestamp) -> (usize, Vec<HookChange>) {
        let work = self.jobs[&id].clone();
        let ahead = match work.job.spec.kind {
            JobKind::ReplayMissing => self.messages_ahead(&work),
            JobKind::Recover | JobKind::Resend | JobKind::Cancel => self.rows_ahead(&work),
        };
        let seen: Vec<_> = ahead.iter().take(most).copied().collect();
        let mut touched = BTreeSet::new();
        let mut changed = 0;
        for (message, endpoint) in &seen {
            if self.change(&work.job.spec, (*message, *endpoint), now) {
                touched.insert(*endpoint);
                changed += 1;
            }
        }
        let work = self.jobs.get_mut(&id).expect("it goes on");
        work.at = seen.last().copied().or(work.at);
        work.job.seen += u64::try_from(seen.len()).expect("fits");
        work.job.changed += changed;
        work.job.updated_at = now;
        if ahead.len() <= most {
            work.job.state = JobState::Finished;
        }
        (seen.len(), self.tell(touched, now))
    }

    /// The deliveries that a job has not looked at, in the order of their messages.
    fn rows_ahead(&self, work: &Work) -> Vec<(HookMessageId, EndpointId)> {
        let filter = &work.job.spec.filter;
        let is_meant = |row: &&Row| {
            work.at.is_none_or(|at| (row.message, row.endpoint) > at)
                && filter.endpoint.is_none_or(|endpoint| row.endpoint == endpoint)
                && self.is_in(work, &self.messages[&row.message].stored)
        };
        let rows = self.rows.values().filter(is_meant);
        let mut ahead: Vec<_> = rows.map(|row| (row.message, row.endpoint)).collect();
        ahead.sort_unstable();
        ahead
    }

    /// The messages that a replay has not looked at.
    fn messages_ahead(&self, work: &Work) -> Vec<(HookMessageId, EndpointId)> {
        let Some(endpoint) = work.job.spec.filter.endpoint else { return Vec::new() };
        let messages = self.messages.values().map(|message| &message.stored);
        let ahead = messages.filter(|stored| {
            work.at.is_none_or(|(message, _)| stored.id > message) && self.is_in(work, stored)
        });
        ahead.map(|stored| (stored.id, endpoint)).collect()
    }

    fn is_in(&self, work: &Work, stored: &StoredMessage) -> bool {
        let filter = &work.job.spec.filter;
        stored.application == work.job.application
            && (filter.event_types.is_empty() || filter.event_types.contains(&stored.event_type))
            && filter.since.is_none_or(|since| stored.created_at >= since)
            && filter.until.is_none_or(|until| stored.created_at < until)
    }

    /// Does what a job does to one delivery. False if it cannot.
    fn change(
        &mut self,
        spec: &JobSpec,
        (message, endpoint): (HookMessageId, EndpointId),
        now: Timestamp,
    ) -> bool {
        let row = self.row_of(message, endpoint);
        if spec.kind == JobKind::ReplayMissing {
            return row.is_none() && self.replay(message, endpoint, now);
        }
        let Some(row) = row.filter(|row| self.stands(row, &spec.filter.states, now)) else {
            return false;
        };
        let place = row.place;
        match spec.kind {
            JobKind::Recover => self.recover(place, now),
            JobKind::Resend => self.try_again(place, now) == ResendOutcome::Due,
            JobKind::Cancel => self.give_up(place, now),
            JobKind::ReplayMissing => unreachable!("done above"),
        }
    }

    fn replay(&mut self, message: HookMessageId, endpoint: EndpointId, now: Timestamp) -> bool {
        let stored = &self.messages[&message].stored;
        let wants = self.spots.get(&endpoint).is_some_and(|spot| {
            spot.endpoint.application == stored.application
                && !spot.is_off()
                && spot.takes(&stored.event_type, &stored.channels)
        });
        let can = wants && self.has_payload(message);
        if can {
            self.insert_row(message, endpoint, Plan { due: now, behind: true, manual: None });
        }
        can
    }
}
