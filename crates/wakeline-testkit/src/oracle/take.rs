//! What a claim may take of one cursor, and when: the numbered rules of `docs/reference/queue.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wakeline_core::{MessageOrder, QueueOptions, Timestamp};
use wakeline_store::Losses;

use super::state::{Cursor, Held, Lease, Parked, Partition};

/// The error of a message whose lease ran out.
pub(super) const LEASE_EXPIRED: &str = "lease expired";

/// A message that becomes a dead letter.
pub(super) struct Doomed {
    pub(super) offset: i64,
    pub(super) held: Held,
}

/// How much a request still takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) messages: usize,
    pub(super) bytes: u64,
}

impl Room {
    const ONE: Self = Self { messages: 1, bytes: 1 };

    /// Whether it takes one more, after so much.
    pub(super) fn is_left(self, messages: usize, bytes: u64) -> bool {
        messages < self.messages && (bytes < self.bytes || messages == 0)
    }
}

/// All that decides what can be taken of a partition on behalf of a group.
pub(super) struct Reading<'a> {
    pub(super) options: &'a QueueOptions,
    pub(super) partition: &'a Partition,
    pub(super) now: Timestamp,
}

impl Reading<'_> {
    /// Rule 2. Returns what became a dead letter.
    pub(super) fn end_expired_lease(&self, cursor: &mut Cursor) -> Option<Doomed> {
        let expired = |lease: &mut Lease| lease.until <= self.now;
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

    /// The bytes of what was taken.
    fn bytes(&self, taken: &BTreeMap<i64, Held>) -> u64 {
        taken.keys().map(|offset| self.partition.message(*offset).payload.len() as u64).sum()
    }

    /// Rules 1 and 3 to 5: what can be taken now.
    pub(super) fn take(&self, cursor: &mut Cursor, room: Room) -> BTreeMap<i64, Held> {
        let mut taken = BTreeMap::new();
        if cursor.lease.is_some() {
            return taken;
        }
        let goes_on = self.take_parked(cursor, room, &mut taken);
        if goes_on && self.window_end(cursor).is_some_and(|end| end <= self.now) {
            while room.is_left(taken.len(), self.bytes(&taken))
                && self.readable_at(cursor.next).is_some_and(|at| at <= self.now)
            {
                let held = Held { failures: 0, error: None, alone: false, from_log: true };
                taken.insert(cursor.next, held);
                cursor.next = self.partition.beyond(cursor.next + 1);
            }
        }
        taken
    }

    /// Rule 4. Tells whether the log may follow.
    fn take_parked(
        &self,
        cursor: &mut Cursor,
        room: Room,
        taken: &mut BTreeMap<i64, Held>,
    ) -> bool {
        for (offset, due_at, alone) in self.parked_in_order(cursor) {
            let full = !room.is_left(taken.len(), self.bytes(taken));
            if full || due_at > self.now || (alone && !taken.is_empty()) {
                return false;
            }
            let Parked { failures, error, alone, .. } =
                cursor.parked.remove(&offset).expect("it was just listed");
            taken.insert(offset, Held { failures, error, alone, from_log: false });
            if alone {
                return false;
            }
        }
        true
    }

    fn parked_in_order(&self, cursor: &Cursor) -> Vec<(i64, Timestamp, bool)> {
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

    /// Rule 3: when the log opens; `None` if nothing is left in it.
    fn window_end(&self, cursor: &Cursor) -> Option<Timestamp> {
        let window = Duration::from_secs(self.options.window_secs.into());
        let last = self.partition.last_push_at;
        let oldest = self.message_at(cursor.next)?;
        Some(last.plus(window).min(oldest.plus(window * QueueOptions::WINDOW_AGE_MAX)))
    }

    /// Rule 5: when the delay of a message has passed.
    fn readable_at(&self, offset: i64) -> Option<Timestamp> {
        let delay = Duration::from_secs(self.options.delay_secs.into());
        self.message_at(offset).map(|created_at| created_at.plus(delay))
    }

    fn message_at(&self, offset: i64) -> Option<Timestamp> {
        (offset < self.partition.end()).then(|| self.partition.message(offset).created_at)
    }

    /// The limits of time: passes over what the group is not to get any more.
    pub(super) fn pass_over(&self, cursor: &mut Cursor) -> Losses {
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

    /// Since when, or from when on, something can be taken if nothing else happens.
    pub(super) fn due_at(&self, cursor: &Cursor) -> Option<Timestamp> {
        let due_at = self.due_without_limits(cursor)?;
        let leased = cursor.lease.as_ref().is_some_and(|lease| lease.until > self.now);
        if leased || self.options.ttl().is_none() && self.options.wait_max().is_none() {
            return Some(due_at);
        }
        let mut cursor = cursor.clone();
        self.end_expired_lease(&mut cursor);
        for at in self.moments(&cursor) {
            let mut cursor = cursor.clone();
            let then = Reading { now: at, ..*self };
            then.pass_over(&mut cursor);
            if !then.take(&mut cursor, Room::ONE).is_empty() {
                return Some(if at == self.now { due_at.min(at) } else { at });
            }
        }
        None
    }

    /// All moments, from now on, at which something may become available.
    fn moments(&self, cursor: &Cursor) -> BTreeSet<Timestamp> {
        let mut moments = BTreeSet::from([self.now]);
        let ttl = self.options.ttl();
        for (offset, parked) in &cursor.parked {
            let created_at = self.partition.message(*offset).created_at;
            moments.insert(parked.due_at);
            moments.extend(ttl.map(|ttl| created_at.plus(ttl)));
        }
        for offset in cursor.next..self.partition.end() {
            let next = offset;
            moments.extend(self.readable_at(offset));
            moments.extend(self.window_end(&Cursor::at(next, self.now)));
        }
        moments.into_iter().filter(|moment| *moment >= self.now).collect()
    }

    /// The same if nothing were ever past its time.
    fn due_without_limits(&self, cursor: &Cursor) -> Option<Timestamp> {
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
