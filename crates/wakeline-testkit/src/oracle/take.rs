//! What a claim may take from one cursor, and when: the numbered rules of
//! `docs/reference/queue.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wakeline_core::{MessageOrder, QueueOptions, Timestamp};
use wakeline_store::Losses;

use super::state::{OracleCursor, OracleHeld, OracleLease, OracleParked, OraclePartition};

/// The error of a message whose lease expired.
pub(super) const LEASE_EXPIRED: &str = "lease expired";

/// A message that becomes a dead letter.
pub(super) struct Doomed {
    pub(super) offset: i64,
    pub(super) held: OracleHeld,
}

/// How much a request can still take.
#[derive(Debug, Clone, Copy)]
pub(super) struct OracleBatchCapacity {
    pub(super) messages: usize,
    pub(super) bytes: u64,
}

impl OracleBatchCapacity {
    const ONE: Self = Self { messages: 1, bytes: 1 };

    /// Returns whether one more message may follow the given number of messages and bytes.
    pub(super) fn is_left(self, messages: usize, bytes: u64) -> bool {
        messages < self.messages && (bytes < self.bytes || messages == 0)
    }
}

/// Everything that decides what a group can take from a partition.
pub(super) struct OracleReading<'a> {
    pub(super) options: &'a QueueOptions,
    pub(super) partition: &'a OraclePartition,
    pub(super) now: Timestamp,
}

impl OracleReading<'_> {
    /// Applies rule 2. Returns the message that became a dead letter.
    pub(super) fn end_expired_lease(&self, cursor: &mut OracleCursor) -> Option<Doomed> {
        let expired = |lease: &mut OracleLease| lease.until <= self.now;
        let lease = cursor.lease.take_if(expired)?;
        cursor.freed_at = lease.until;
        let several = lease.unsettled.len() > 1;
        let mut buried = None;
        for (offset, mut held) in lease.unsettled {
            held.failures += 1;
            held.error = Some(LEASE_EXPIRED.to_owned());
            held.alone |= several;
            if !several && self.options.is_spent(held.failures) {
                buried = Some(Doomed { offset, held });
            } else {
                cursor.parked.insert(offset, held.parked(self.now));
            }
        }
        buried
    }

    /// Returns the size of the taken messages.
    fn bytes(&self, taken: &BTreeMap<i64, OracleHeld>) -> u64 {
        taken.keys().map(|offset| self.partition.message(*offset).payload.len() as u64).sum()
    }

    /// Applies rules 1 and 3 to 5: takes what can be taken now.
    pub(super) fn take(
        &self,
        cursor: &mut OracleCursor,
        capacity: OracleBatchCapacity,
    ) -> BTreeMap<i64, OracleHeld> {
        let mut taken = BTreeMap::new();
        if cursor.lease.is_some() {
            return taken;
        }
        let goes_on = self.take_parked(cursor, capacity, &mut taken);
        if goes_on && self.window_end(cursor).is_some_and(|end| end <= self.now) {
            while capacity.is_left(taken.len(), self.bytes(&taken))
                && self.readable_at(cursor.next).is_some_and(|at| at <= self.now)
            {
                let held = OracleHeld { failures: 0, error: None, alone: false, from_log: true };
                taken.insert(cursor.next, held);
                cursor.next = self.partition.beyond(cursor.next + 1);
            }
        }
        taken
    }

    /// Applies rule 4. Returns whether messages of the log may follow.
    fn take_parked(
        &self,
        cursor: &mut OracleCursor,
        capacity: OracleBatchCapacity,
        taken: &mut BTreeMap<i64, OracleHeld>,
    ) -> bool {
        for (offset, due_at, alone) in self.parked_in_order(cursor) {
            let full = !capacity.is_left(taken.len(), self.bytes(taken));
            if full || due_at > self.now || (alone && !taken.is_empty()) {
                return false;
            }
            let OracleParked { failures, error, alone, .. } =
                cursor.parked.remove(&offset).expect("it was just listed");
            taken.insert(offset, OracleHeld { failures, error, alone, from_log: false });
            if alone {
                return false;
            }
        }
        true
    }

    fn parked_in_order(&self, cursor: &OracleCursor) -> Vec<(i64, Timestamp, bool)> {
        let mut parked: Vec<_> = (cursor.parked.iter())
            .map(|(offset, parked)| (*offset, parked.due_at, parked.alone))
            .collect();
        match self.options.ordering {
            MessageOrder::Strict => parked.sort_by_key(|(offset, ..)| *offset),
            MessageOrder::Relaxed => {
                parked.retain(|(_, due_at, _)| *due_at <= self.now);
                parked.sort_by_key(|(offset, due_at, _)| (*due_at, *offset));
            }
        }
        parked
    }

    /// Applies rule 3: returns when the window ends; `None` if the log has nothing left.
    fn window_end(&self, cursor: &OracleCursor) -> Option<Timestamp> {
        let window = Duration::from_secs(self.options.window_secs.into());
        let last = self.partition.last_push_at;
        let oldest = self.message_at(cursor.next)?;
        Some(last.plus(window).min(oldest.plus(window * QueueOptions::WINDOW_AGE_MAX)))
    }

    /// Applies rule 5: returns when the delay of a message has passed.
    fn readable_at(&self, offset: i64) -> Option<Timestamp> {
        let delay = Duration::from_secs(self.options.delay_secs.into());
        self.message_at(offset).map(|created_at| created_at.plus(delay))
    }

    fn message_at(&self, offset: i64) -> Option<Timestamp> {
        (offset < self.partition.end()).then(|| self.partition.message(offset).created_at)
    }

    /// Applies the time limits: skips messages that the group may no longer receive.
    pub(super) fn pass_over(&self, cursor: &mut OracleCursor) -> Losses {
        let mut lost = Losses::default();
        if cursor.lease.is_some() {
            return lost;
        }
        cursor.parked.retain(|offset, parked| {
            let created_at = self.partition.message(*offset).created_at;
            let loss = self.options.loss(created_at, parked.due_at, self.now);
            lost.count(loss);
            loss.is_none()
        });
        while let Some(created_at) = self.message_at(cursor.next) {
            let available_at = self.readable_at(cursor.next).expect("it is stored");
            let loss = self.options.loss(created_at, available_at, self.now);
            if loss.is_none() {
                break;
            }
            lost.count(loss);
            cursor.next = self.partition.beyond(cursor.next + 1);
        }
        lost
    }

    /// Returns since when, or from when on, a message can be taken if nothing else happens.
    pub(super) fn due_at(&self, cursor: &OracleCursor) -> Option<Timestamp> {
        let due_at = self.due_without_limits(cursor)?;
        let leased = cursor.lease.as_ref().is_some_and(|lease| lease.until > self.now);
        if leased || self.options.ttl().is_none() && self.options.wait_max().is_none() {
            return Some(due_at);
        }
        let mut cursor = cursor.clone();
        self.end_expired_lease(&mut cursor);
        for at in self.moments(&cursor) {
            let mut cursor = cursor.clone();
            let then = OracleReading { now: at, ..*self };
            then.pass_over(&mut cursor);
            if !then.take(&mut cursor, OracleBatchCapacity::ONE).is_empty() {
                return Some(if at == self.now { due_at.min(at) } else { at });
            }
        }
        None
    }

    /// Returns all times, from now on, at which a message may become available.
    fn moments(&self, cursor: &OracleCursor) -> BTreeSet<Timestamp> {
        let mut times = BTreeSet::from([self.now]);
        let ttl = self.options.ttl();
        for (offset, parked) in &cursor.parked {
            let created_at = self.partition.message(*offset).created_at;
            times.insert(parked.due_at);
            times.extend(ttl.map(|ttl| created_at.plus(ttl)));
        }
        for offset in cursor.next..self.partition.end() {
            let next = offset;
            times.extend(self.readable_at(offset));
            times.extend(self.window_end(&OracleCursor::at(next, self.now)));
        }
        times.into_iter().filter(|time| *time >= self.now).collect()
    }

    /// Returns the due time if there were no time limits.
    fn due_without_limits(&self, cursor: &OracleCursor) -> Option<Timestamp> {
        match &cursor.lease {
            Some(lease) if lease.until > self.now => return Some(lease.until),
            Some(_) => {
                let mut cursor = cursor.clone();
                self.end_expired_lease(&mut cursor);
                let due_at = self.due_without_limits(&cursor)?;
                return Some(if due_at <= self.now { cursor.freed_at } else { due_at });
            }
            None => {}
        }
        let log = self.readable_at(cursor.next).max(self.window_end(cursor));
        let due_at = match self.options.ordering {
            MessageOrder::Strict => match cursor.parked.values().next() {
                Some(first) => Some(first.due_at),
                None => log,
            },
            MessageOrder::Relaxed => {
                let parked = cursor.parked.values().map(|parked| parked.due_at);
                parked.chain(log).min()
            }
        };
        due_at.map(|due_at| due_at.max(cursor.freed_at))
    }
}
