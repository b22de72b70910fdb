//! Which consumer held each partition at which time: two holders, zombies, and the order of first
//! deliveries.
//!
//! The events of a group in a partition are processed in order of time. A lease is certainly held
//! from its answer until the earliest time at which it can have ended: its duration counted from
//! the request, or the request that may have settled or released the last of its messages. It has
//! certainly ended when its duration counted from the answer has passed, or when another consumer
//! was given the partition after it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::{CallOutcome, ClientHistory, Extend, Report, SeenDelivery, Settle, Violation};

/// A group and a partition.
type CursorName<'a> = (&'a str, &'a str);

#[derive(Clone, Copy)]
enum CursorEvent<'a> {
    Answered(usize, &'a SeenDelivery),
    SettleMade(&'a Settle),
    ExtendMade(&'a Extend),
    ExtendAnswered(&'a Extend),
    Requested(usize),
}

struct LeaseHistory<'a> {
    answered: Duration,
    /// The earliest end of the lease, by its duration.
    held_until: Duration,
    /// The latest end of the lease, by its duration.
    over_at: Duration,
    /// Messages without a settlement.
    untouched: HashSet<&'a str>,
    delivered: HashSet<&'a str>,
    /// When the last message may have been settled or released.
    may_end_at: Option<Duration>,
}

#[derive(Default)]
struct CursorWalk<'a> {
    leases: HashMap<&'a str, LeaseHistory<'a>>,
    /// Of the leases with an answer, the one that was requested last, and when it was requested.
    latest: Option<(Duration, &'a str)>,
    /// The highest offset whose first delivery has an answer.
    highest: i64,
    first: HashSet<i64>,
    /// By delivery, the highest offset at its request, and the lease that was known to be the
    /// newest.
    requested: HashMap<usize, (i64, Option<&'a str>)>,
}

pub(super) fn check(history: &ClientHistory, report: &mut Report) {
    let mut cursors: HashMap<CursorName<'_>, Vec<(Duration, u8, CursorEvent<'_>)>> = HashMap::new();
    let mut group_of: HashMap<(&str, &str), &str> = HashMap::new();
    for (n, delivery) in history.deliveries.iter().enumerate() {
        let events = cursors.entry((&delivery.group, &delivery.partition)).or_default();
        events.push((delivery.span.to, 0, CursorEvent::Answered(n, delivery)));
        events.push((delivery.span.from, 4, CursorEvent::Requested(n)));
        if let Some(lease) = &delivery.lease {
            group_of.insert((lease, &delivery.partition), &delivery.group);
        }
    }
    for settle in &history.settles {
        let events = cursors.entry((&settle.group, &settle.partition)).or_default();
        events.push((settle.span.from, 2, CursorEvent::SettleMade(settle)));
    }
    for extend in &history.extends {
        let Some(group) = group_of.get(&(&*extend.lease, &*extend.partition)) else { continue };
        let events = cursors.entry((*group, &*extend.partition)).or_default();
        events.push((extend.span.from, 1, CursorEvent::ExtendMade(extend)));
        events.push((extend.span.to, 3, CursorEvent::ExtendAnswered(extend)));
    }
    for events in cursors.values_mut() {
        events.sort_by_key(|(at, rank, _)| (*at, *rank));
        let mut walk = CursorWalk { highest: -1, ..CursorWalk::default() };
        for (_, _, event) in events {
            walk.step(*event, report);
        }
    }
}

impl<'a> CursorWalk<'a> {
    fn step(&mut self, event: CursorEvent<'a>, report: &mut Report) {
        match event {
            CursorEvent::Requested(n) => {
                let holder = self.latest.map(|(_, lease)| lease);
                self.requested.insert(n, (self.highest, holder));
            }
            CursorEvent::Answered(n, delivery) => self.answered(n, delivery, report),
            CursorEvent::SettleMade(settle) => self.settle(settle, report),
            CursorEvent::ExtendMade(extend) => {
                // From now on the lease may last longer.
                if let Some(lease) = self.lease(&extend.lease)
                    && extend.answer != CallOutcome::Refused
                {
                    lease.over_at = lease.over_at.max(extend.span.to + extend.lease_for);
                    if extend.answer == CallOutcome::Unknown {
                        lease.over_at = Duration::MAX;
                    }
                }
            }
            CursorEvent::ExtendAnswered(extend) => {
                if let Some(lease) = self.lease(&extend.lease)
                    && extend.answer == CallOutcome::Ok
                {
                    let until = extend.span.from + extend.lease_for;
                    lease.held_until = lease.held_until.max(until);
                }
            }
        }
    }

    fn lease(&mut self, lease: &str) -> Option<&mut LeaseHistory<'a>> {
        self.leases.get_mut(lease)
    }

    fn answered(&mut self, n: usize, delivery: &'a SeenDelivery, report: &mut Report) {
        let (highest, holder) = self.requested.remove(&n).unwrap_or((-1, None));
        if let Some(holder) = holder
            && delivery.lease.as_deref() != Some(holder)
            && self
                .leases
                .get(holder)
                .is_some_and(|lease| lease.certainly_held_at(delivery.span.to))
        {
            report.violations.push(Violation::TwoHolders {
                partition: delivery.partition.clone(),
                first: holder.to_owned(),
                second: delivery.lease.clone().unwrap_or_else(|| "autoAck".to_owned()),
            });
        }
        for seen in &delivery.messages {
            let first = self.first.insert(seen.offset);
            if first && seen.offset < highest {
                report.violations.push(Violation::OutOfOrder {
                    partition: delivery.partition.clone(),
                    message: seen.message.clone(),
                });
            }
            self.highest = self.highest.max(seen.offset);
        }
        let Some(name) = delivery.lease.as_deref() else { return };
        if self.latest.is_none_or(|(requested, _)| requested <= delivery.span.from) {
            self.latest = Some((delivery.span.from, name));
        }
        let messages: HashSet<_> = delivery.messages.iter().map(|seen| &*seen.message).collect();
        self.leases.insert(
            name,
            LeaseHistory {
                answered: delivery.span.to,
                held_until: delivery.span.from + delivery.lease_for,
                over_at: delivery.span.to + delivery.lease_for,
                untouched: messages.clone(),
                delivered: messages,
                may_end_at: None,
            },
        );
    }

    fn settle(&mut self, settle: &'a Settle, report: &mut Report) {
        let latest = self.latest;
        let at = settle.span.from;
        let zombie = match self.lease(&settle.lease) {
            None => true,
            Some(lease) => {
                let succeeded = latest.is_some_and(|(requested, name)| {
                    name != settle.lease && requested >= lease.answered
                });
                let not_delivered = (settle.what.as_ref())
                    .is_some_and(|(message, _)| !lease.delivered.contains(&**message));
                if settle.answer != CallOutcome::Refused {
                    lease.touch(settle.what.as_ref().map(|(message, _)| &**message), at);
                }
                succeeded || not_delivered || at >= lease.over_at
            }
        };
        // A release has the same answer whether it found its lease or not.
        if zombie && settle.answer == CallOutcome::Ok && settle.what.is_some() {
            report.violations.push(Violation::ZombieSettle {
                lease: settle.lease.clone(),
                partition: settle.partition.clone(),
            });
        }
    }
}

impl LeaseHistory<'_> {
    fn certainly_held_at(&self, moment: Duration) -> bool {
        moment < self.held_until && self.may_end_at.is_none_or(|end| moment < end)
    }

    /// Records a settlement that may have counted; `None` releases all messages.
    fn touch(&mut self, message: Option<&str>, at: Duration) {
        match message {
            Some(message) => drop(self.untouched.remove(message)),
            None => self.untouched.clear(),
        }
        if self.untouched.is_empty() && self.may_end_at.is_none() {
            self.may_end_at = Some(at);
        }
    }
}
