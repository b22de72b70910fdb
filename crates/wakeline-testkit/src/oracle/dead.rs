//! Dead letters, and the jobs that redrive them.

use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{Change, DeadLetterId, MessageId, RedriveId, Timestamp, TransactionId};
use wakeline_store::{
    DeadLetter, DeadLetterFilter, DeadLetters, Page, PushItem, QueueBackgroundReport,
    QueueDeadLetters, Redrive, RedriveJob, RedriveState, StoreError,
};

use super::MemoryStore;
use super::claim::CursorKey;
use super::state::{OracleParked, OracleState};
use super::take::Doomed;

/// A dead letter, with the offset of its message.
#[derive(Debug, Clone)]
pub(super) struct Buried {
    pub(super) offset: i64,
    pub(super) letter: DeadLetter,
}

/// A redrive job and its progress.
#[derive(Debug, Clone)]
pub(super) struct Redriving {
    job: RedriveJob,
    /// The newest dead letter at the start of the job.
    last: DeadLetterId,
    /// The newest dead letter that the job has processed.
    place: DeadLetterId,
    due_at: Timestamp,
}

fn fits(letter: &DeadLetter, filter: &DeadLetterFilter) -> bool {
    filter.number.is_none_or(|number| number == letter.number)
        && filter.queue.as_ref().is_none_or(|queue| *queue == letter.queue)
        && filter.group.as_ref().is_none_or(|group| *group == letter.group)
        && filter.partition.as_ref().is_none_or(|name| *name == letter.partition)
        && filter.from.is_none_or(|from| letter.failed_at >= from)
        && filter.to.is_none_or(|to| letter.failed_at < to)
        && filter.error.as_ref().is_none_or(|text| {
            letter.error.as_ref().is_some_and(|error| error.contains(text.as_str()))
        })
}

impl OracleState {
    /// Adds a copy of a message to the dead letters.
    pub(super) fn bury(&mut self, key: &CursorKey, doomed: Doomed, now: Timestamp) {
        let number = DeadLetterId(self.next_id());
        let partition = &self.queues[&key.queue].partitions[&key.partition];
        let message = partition.message(doomed.offset);
        let letter = DeadLetter {
            number,
            id: message.id,
            transaction_id: message.transaction_id.clone(),
            trace_id: message.trace_id,
            partition_id: partition.id,
            queue: key.queue.clone(),
            partition: key.partition.clone(),
            group: key.group.clone(),
            error: doomed.held.error,
            failures: doomed.held.failures,
            payload: message.payload.clone(),
            producer: message.producer.clone(),
            created_at: message.created_at,
            failed_at: now,
        };
        self.dead_letters.push(Buried { offset: doomed.offset, letter });
    }

    fn list(&self, filter: &DeadLetterFilter, page: Page) -> DeadLetters {
        let fitting = self.dead_letters.iter().filter(|buried| fits(&buried.letter, filter));
        let all: Vec<&DeadLetter> = fitting.map(|buried| &buried.letter).collect();
        let (skipped, limit) = (page.offset as usize, page.limit as usize);
        let letters = all.iter().rev().skip(skipped).take(limit).map(|letter| (*letter).clone());
        DeadLetters { letters: letters.collect(), total: all.len() as u64 }
    }

    fn start_redrive(&mut self, redrive: Redrive, now: Timestamp) -> RedriveJob {
        let same = |other: &&Redriving| other.job.redrive.id == redrive.id;
        if let Some(known) = self.redrives.iter().find(same) {
            return known.job.clone();
        }
        let fitting = |buried: &&Buried| fits(&buried.letter, &redrive.filter);
        let total = self.dead_letters.iter().filter(fitting).count() as u64;
        let last = self.dead_letters.last().map_or(DeadLetterId(0), |last| last.letter.number);
        let (state, created_at, updated_at) = (RedriveState::Running, now, now);
        let job = RedriveJob { redrive, state, total, done: 0, failed: 0, created_at, updated_at };
        let place = DeadLetterId(0);
        self.redrives.push(Redriving { job: job.clone(), last, place, due_at: now });
        job
    }

    pub(super) fn background_due(&self, now: Timestamp) -> Option<Duration> {
        let running = |one: &&Redriving| one.job.state == RedriveState::Running;
        let due = self.redrives.iter().filter(running).map(|one| one.due_at).min();
        due.map(|due_at| now.until(due_at))
    }

    fn run_background(&mut self, rows: u32, now: Timestamp) -> QueueBackgroundReport {
        let due = |one: &Redriving| one.job.state == RedriveState::Running && one.due_at <= now;
        let first = (self.redrives.iter().enumerate())
            .filter(|(_, one)| due(one))
            .min_by_key(|(index, one)| (one.due_at, *index));
        let mut report = QueueBackgroundReport::default();
        if let Some((index, _)) = first {
            (report.rows, report.changes) = self.go_on(index, rows, now);
        }
        report.next_due = self.background_due(now);
        report
    }

    /// Redrives some dead letters of a job, oldest first.
    fn go_on(&mut self, index: usize, rows: u32, now: Timestamp) -> (u64, Vec<Change>) {
        let Redriving { job, last, mut place, .. } = self.redrives[index].clone();
        let Redrive { filter, rate, .. } = &job.redrive;
        let most = rate.map_or(rows, |rate| (rate / 10).clamp(1, rows.max(1)));
        let ahead = |buried: &Buried, place| {
            buried.letter.number > place
                && buried.letter.number <= last
                && fits(&buried.letter, filter)
        };
        let found = self.dead_letters.iter().filter(|buried| ahead(buried, place));
        let found: Vec<Buried> = found.take(most as usize).cloned().collect();
        let (mut done, mut changes) = (0, Vec::new());
        for buried in &found {
            place = buried.letter.number;
            if let Some(caused) = self.redrive_one(buried, &job.redrive, now) {
                self.dead_letters.retain(|other| other.letter.number != place);
                changes.extend(caused);
                done += 1;
            }
        }
        let read = found.len() as u64;
        let more = self.dead_letters.iter().any(|buried| ahead(buried, place));
        let one = &mut self.redrives[index];
        one.place = place;
        one.job.done += done;
        one.job.failed += read - done;
        one.job.updated_at = now;
        if !more {
            one.job.state = RedriveState::Finished;
        }
        if let Some(rate) = one.job.redrive.rate {
            one.due_at = now.plus(Duration::from_secs(read) / rate);
        }
        (read, changes)
    }

    /// Returns the changes that follow; `None` if the dead letter cannot be redriven.
    fn redrive_one(
        &mut self,
        buried: &Buried,
        redrive: &Redrive,
        now: Timestamp,
    ) -> Option<Vec<Change>> {
        let letter = &buried.letter;
        if let Some(queue) = &redrive.to_queue {
            let id = MessageId::generate();
            let item = PushItem {
                queue: queue.clone(),
                partition: letter.partition.clone(),
                id,
                transaction_id: TransactionId::of_message(id),
                trace_id: letter.trace_id,
                payload: letter.payload.clone(),
                producer: letter.producer.clone(),
            };
            return Some(self.push(vec![item], now).changes);
        }
        let key = self.find(letter.partition_id, |key, _| key.group == letter.group)?;
        let queue = self.queues.get_mut(&key.queue)?;
        let partition = &queue.partitions[&key.partition];
        if buried.offset < partition.first || partition.is_gap(buried.offset) {
            return None;
        }
        let cursor = queue.cursor_mut(&key)?;
        let held = cursor.lease.as_ref();
        let under_way = buried.offset >= cursor.next
            || cursor.parked.contains_key(&buried.offset)
            || held.is_some_and(|lease| lease.unsettled.contains_key(&buried.offset));
        if under_way {
            return Some(Vec::new());
        }
        let free = held.is_none();
        let error = letter.error.clone();
        let parked = OracleParked { failures: 0, due_at: now, error, alone: false };
        cursor.parked.insert(buried.offset, parked);
        Some(self.left_behind(&key, now).into_iter().filter(|_| free).collect())
    }
}

#[async_trait]
impl QueueDeadLetters for MemoryStore {
    async fn dead_letters(
        &self,
        filter: DeadLetterFilter,
        page: Page,
    ) -> Result<DeadLetters, StoreError> {
        Ok(self.state.lock().list(&filter, page))
    }

    async fn purge_dead_letters(&self, filter: DeadLetterFilter) -> Result<u64, StoreError> {
        Ok(self.recorded(|state, _| {
            let letters = &mut state.dead_letters;
            let before = letters.len();
            letters.retain(|buried| !fits(&buried.letter, &filter));
            (before - letters.len()) as u64
        }))
    }

    async fn start_redrive(
        &self,
        redrive: Redrive,
    ) -> Result<(RedriveJob, Vec<Change>), StoreError> {
        let job = self.recorded(|state, now| state.start_redrive(redrive, now));
        Ok((job, vec![Change::of_background(Duration::ZERO)]))
    }

    async fn redrive_job(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError> {
        let state = self.state.lock();
        let found = state.redrives.iter().find(|one| one.job.redrive.id == job);
        Ok(found.map(|one| one.job.clone()))
    }

    async fn cancel_redrive(&self, job: RedriveId) -> Result<Option<RedriveJob>, StoreError> {
        self.recorded(|state, now| {
            let found = state.redrives.iter_mut().find(|one| one.job.redrive.id == job);
            let running = found.filter(|one| one.job.state == RedriveState::Running);
            running.map(|one| {
                one.job.state = RedriveState::Cancelled;
                one.job.updated_at = now;
                true
            })
        });
        self.redrive_job(job).await
    }

    async fn run_queue_background(&self, rows: u32) -> Result<QueueBackgroundReport, StoreError> {
        Ok(self.state.lock().run_background(rows, self.now()))
    }
}
