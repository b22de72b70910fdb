//! Who held each partition when: two holders, zombies, and the order of first deliveries.
//!
//! The events of a group in a partition are walked in order of time. A lease is certainly held
//! from its answer until the earliest moment at which it can have ended: its time counted from
//! the request, or the request that may have settled or given back the last of it. It is
//! certainly over when its time counted from the answer has passed, or when another consumer was
//! given the partition after it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::{Answer, Delivery, Extend, History, Report, Settle, Violation};

/// A group and a partition.
type Cursor<'a> = (&'a str, &'a str);

#[derive(Clone, Copy)]
enum Event<'a> {
    Answered(usize, &'a Delivery),
    SettleMade(&'a Settle),
    ExtendMade(&'a Extend),
    ExtendAnswered(&'a Extend),
    Asked(usize),
}

struct Lease<'a> {
    answered: Duration,
    /// The earliest end that its time allows.
    held_until: Duration,
    /// The latest end that its time allows.
    over_at: Duration,
    /// Messages that no settlement was made for.
    untouched: HashSet<&'a str>,
    delivered: HashSet<&'a str>,
    /// When the last of it may have been settled or given back.
    may_end_at: Option<Duration>,
}

#[derive(Default)]
struct Walk<'a> {
    leases: HashMap<&'a str, Lease<'a>>,
    /// The lease that was asked for last, of those answered, and when it was asked for.
    latest: Option<(Duration, &'a str)>,
    /// The highest offset whose first delivery is answered.
    highest: i64,
    first: HashSet<i64>,
    /// What was highest when a delivery was asked for, and which lease was known
    /// to be the newest.
    asked: HashMap<usize, (i64, Option<&'a str>)>,
}

pub(super) fn check(history: &History, report: &mut Report) {
    let mut cursors: HashMap<Cursor<'_>, Vec<(Duration, u8, Event<'_>)>> = HashMap::new();
    let mut group_of: HashMap<(&str, &str), &str> = HashMap::new();
    for (n, delivery) in history.deliveries.iter().enumerate() {
        let events = cursors.entry((&delivery.group, &delivery.partition)).or_default();
        events.push((delivery.span.to, 0, Event::Answered(n, delivery)));
        events.push((delivery.span.from, 4, Event::Asked(n)));
        if let Some(lease) = &delivery.lease {
            group_of.insert((lease, &delivery.partition), &delivery.group);
        }
    }
    for settle in &history.settles {
        let events = cursors.entry((&settle.group, &settle.partition)).or_default();
        events.push((settle.span.from, 2, Event::SettleMade(settle)));
    }
    for extend in &history.extends {
        let Some(group) = group_of.get(&(&*extend.lease, &*extend.partition)) else { continue };
        let events = cursors.entry((*group, &*extend.partition)).or_default();
        events.push((extend.span.from, 1, Event::ExtendMade(extend)));
        events.push((extend.span.to, 3, Event::ExtendAnswered(extend)));
    }
    for events in cursors.values_mut() {
        events.sort_by_key(|(at, rank, _)| (*at, *rank));
        let mut walk = Walk { highest: -1, ..Walk::default() };
        for (_, _, event) in events {
            walk.step(*event, report);
        }
    }
}

impl<'a> Walk<'a> {
    fn step(&mut self, event: Event<'a>, report: &mut Report) {
        match event {
            Event::Asked(n) => {
                let holder = self.latest.map(|(_, lease)| lease);
                self.asked.insert(n, (self.highest, holder));
            }
            Event::Answered(n, delivery) => self.answered(n, delivery, report),
            Event::SettleMade(settle) => self.settle(settle, report),
            Event::ExtendMade(extend) => {
                // From here on it may be longer.
                if let Some(lease) = self.lease(&extend.lease)
                    && extend.answer != Answer::Refused
                {
                    lease.over_at = lease.over_at.max(extend.span.to + extend.lease_for);
                    if extend.answer == Answer::Unknown {
                        lease.over_at = Duration::MAX;
                    }
                }
            }
            Event::ExtendAnswered(extend) => {
                if let Some(lease) = self.lease(&extend.lease)
                    && extend.answer == Answer::Ok
                {
                    let until = extend.span.from + extend.lease_for;
                    lease.held_until = lease.held_until.max(until);
                }
            }
        }
    }

    fn lease(&mut self, lease: &str) -> Option<&mut Lease<'a>> {
        self.leases.get_mut(lease)
    }

    fn answered(&mut self, n: usize, delivery: &'a Delivery, report: &mut Report) {
        let (highest, holder) = self.asked.remove(&n).unwrap_or((-1, None));
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
        if self.latest.is_none_or(|(asked, _)| asked <= delivery.span.from) {
            self.latest = Some((delivery.span.from, name));
        }
        let messages: HashSet<_> = delivery.messages.iter().map(|seen| &*seen.message).collect();
        self.leases.insert(
            name,
            Lease {
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
                let succeeded = latest
                    .is_some_and(|(asked, name)| name != settle.lease && asked >= lease.answered);
                let foreign = (settle.what.as_ref())
                    .is_some_and(|(message, _)| !lease.delivered.contains(&**message));
                if settle.answer != Answer::Refused {
                    lease.touch(settle.what.as_ref().map(|(message, _)| &**message), at);
                }
                succeeded || foreign || at >= lease.over_at
            }
        };
        // A release is answered whether it found its lease or not.
        if zombie && settle.answer == Answer::Ok && settle.what.is_some() {
            report.violations.push(Violation::ZombieSettle {
                lease: settle.lease.clone(),
                partition: settle.partition.clone(),
            });
        }
    }
}

impl Lease<'_> {
    fn certainly_held_at(&self, moment: Duration) -> bool {
        moment < self.held_until && self.may_end_at.is_none_or(|end| moment < end)
    }

    /// Notes a settlement that may have counted; `None` gives back all.
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
