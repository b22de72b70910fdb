//! Maintenance tasks: jobs, and the removal of what has expired.

use std::collections::BTreeSet;
use std::time::Duration;

use wakeline_core::{
    ApplicationRef, EndpointId, HookChange, HookChangeKind, HookMessageId, JobId, Timestamp,
};
use wakeline_store::hook::{
    DeliveryJob, HookBackgroundReport, JobKind, JobSpec, JobState, ResendOutcome, StoredMessage,
};

use super::catalog::KEY_KEPT;
use super::state::{AttemptPlan, JobProgress, OracleDelivery, OracleHook};

/// How long a finished job is kept.
const JOB_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

impl OracleHook {
    pub(super) fn start_job(
        &mut self,
        application: &ApplicationRef,
        spec: JobSpec,
        now: Timestamp,
    ) -> Option<(DeliveryJob, Vec<HookChange>)> {
        let application = self.find_application(application)?;
        let changes = vec![HookChange::now(HookChangeKind::Background)];
        if let Some(same) = self.jobs.get(&spec.id) {
            return Some((same.job.clone(), changes));
        }
        let job = DeliveryJob {
            spec,
            application,
            state: JobState::Running,
            seen: 0,
            changed: 0,
            created_at: now,
            updated_at: now,
        };
        let place = self.next_place();
        self.jobs.insert(job.spec.id, JobProgress { job: job.clone(), at: None, place });
        Some((job, changes))
    }

    pub(super) fn run_background(&mut self, rows: u32, now: Timestamp) -> HookBackgroundReport {
        let most = usize::try_from(rows).expect("a count of rows fits");
        let (rows, changes) = match self.oldest_job() {
            Some(job) => self.go_on(job, most, now),
            None => (self.tidy(most, now), Vec::new()),
        };
        let next_due = self.background_due(now);
        HookBackgroundReport {
            rows: u64::try_from(rows).expect("a count of rows fits"),
            next_due,
            changes,
        }
    }

    pub(super) fn oldest_job(&self) -> Option<JobId> {
        let running = self.jobs.values().filter(|work| work.job.state == JobState::Running);
        running.min_by_key(|work| work.place).map(|work| work.job.spec.id)
    }

    /// Returns the time until there is a maintenance task.
    pub(super) fn background_due(&self, now: Timestamp) -> Option<Duration> {
        if self.oldest_job().is_some() || self.left > 0 {
            return Some(Duration::ZERO);
        }
        let keys = self.keys.values().map(|known| now.until(known.at.plus(KEY_KEPT)));
        let jobs = self.jobs.values().map(|work| now.until(work.job.updated_at.plus(JOB_KEPT)));
        keys.chain(jobs).chain(self.next_expiry(now)).min()
    }

    /// Removes expired payloads; if there are none, the rows of deleted applications; if there are
    /// none, expired keys and jobs. Returns how many rows it removed.
    fn tidy(&mut self, most: usize, now: Timestamp) -> usize {
        let is_over = |message: &&super::state::OracleHookMessage| {
            message.payload.is_some() && message.expires_at <= now
        };
        let over: Vec<HookMessageId> =
            self.messages.values().filter(is_over).map(|one| one.stored.id).take(most).collect();
        if !over.is_empty() {
            over.iter().for_each(|id| self.drop_payload(*id));
            return over.len();
        }
        if self.left > 0 {
            let gone = self.left.min(u64::try_from(most).expect("a count of rows fits"));
            self.left -= gone;
            return usize::try_from(gone).expect("a count of rows fits");
        }
        let keys = self.keys.iter().filter(|(_, known)| known.at.plus(KEY_KEPT) <= now);
        let keys: Vec<_> = keys.map(|(key, _)| key.clone()).take(most).collect();
        keys.iter().for_each(|key| drop(self.keys.remove(key)));
        let jobs = self.jobs.values().filter(|work| work.job.updated_at.plus(JOB_KEPT) <= now);
        let jobs: Vec<JobId> = jobs.map(|work| work.job.spec.id).take(most - keys.len()).collect();
        jobs.iter().for_each(|job| drop(self.jobs.remove(job)));
        keys.len() + jobs.len()
    }

    /// Continues a job with at most `most` deliveries or messages.
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
            if self.change(&work.job.spec, *message, *endpoint, now) {
                touched.insert(*endpoint);
                changed += 1;
            }
        }
        let work = self.jobs.get_mut(&id).expect("the job exists");
        work.at = seen.last().copied().or(work.at);
        work.job.seen += u64::try_from(seen.len()).expect("a count of rows fits");
        work.job.changed += changed;
        work.job.updated_at = now;
        if ahead.len() <= most {
            work.job.state = JobState::Finished;
        }
        (seen.len(), self.changes_of(touched, now))
    }

    /// Returns the deliveries that a job has not visited, in the order of their messages.
    fn rows_ahead(&self, work: &JobProgress) -> Vec<(HookMessageId, EndpointId)> {
        let filter = &work.job.spec.filter;
        let is_chosen = |row: &&OracleDelivery| {
            work.at.is_none_or(|at| (row.message, row.endpoint) > at)
                && filter.endpoint.is_none_or(|endpoint| row.endpoint == endpoint)
                && self.is_in(work, &self.messages[&row.message].stored)
        };
        let rows = self.rows.values().filter(is_chosen);
        let mut ahead: Vec<_> = rows.map(|row| (row.message, row.endpoint)).collect();
        ahead.sort_unstable();
        ahead
    }

    /// Returns the messages that a replay has not visited.
    fn messages_ahead(&self, work: &JobProgress) -> Vec<(HookMessageId, EndpointId)> {
        let Some(endpoint) = work.job.spec.filter.endpoint else { return Vec::new() };
        let messages = self.messages.values().map(|message| &message.stored);
        let ahead = messages.filter(|stored| {
            work.at.is_none_or(|(message, _)| stored.id > message) && self.is_in(work, stored)
        });
        ahead.map(|stored| (stored.id, endpoint)).collect()
    }

    fn is_in(&self, work: &JobProgress, stored: &StoredMessage) -> bool {
        let filter = &work.job.spec.filter;
        stored.application == work.job.application
            && (filter.event_types.is_empty() || filter.event_types.contains(&stored.event_type))
            && filter.since.is_none_or(|since| stored.created_at >= since)
            && filter.until.is_none_or(|until| stored.created_at < until)
    }

    /// Applies a job to one delivery. Returns false if it cannot be applied.
    fn change(
        &mut self,
        spec: &JobSpec,
        message: HookMessageId,
        endpoint: EndpointId,
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
            JobKind::ReplayMissing => unreachable!("a replay has returned above"),
        }
    }

    fn replay(&mut self, message: HookMessageId, endpoint: EndpointId, now: Timestamp) -> bool {
        let stored = &self.messages[&message].stored;
        let matches = self.endpoint_entries.get(&endpoint).is_some_and(|entry| {
            entry.endpoint.application == stored.application
                && !entry.is_off()
                && entry.takes(&stored.event_type, &stored.channels)
        });
        let can = matches && self.has_payload(message);
        if can {
            self.insert_row(
                message,
                endpoint,
                AttemptPlan { due: now, behind: true, manual: None },
            );
        }
        can
    }
}
