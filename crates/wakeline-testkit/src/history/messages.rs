//! The fate of each message: lost, unexpected, stored twice, completed twice, out of order.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use wakeline_core::Verdict;

use super::{CallOutcome, ClientHistory, Report, Span, Violation};

/// A partition and a message in it.
type MessageName<'a> = (&'a str, &'a str);

/// What is known of a message from its pushes.
struct Pushed {
    first: Span,
    acknowledged: Option<Duration>,
    refused_only: bool,
}

pub(super) fn check(history: &ClientHistory, report: &mut Report) {
    let pushed = pushed(history);
    report.acknowledged = pushed.values().filter(|push| push.acknowledged.is_some()).count();
    let offsets = offsets(history, &pushed, report);
    report.recovered = (pushed.iter())
        .filter(|(key, push)| push.acknowledged.is_none() && offsets.contains_key(*key))
        .count();
    push_order(&pushed, &offsets, report);
    let answers = |answer| history.settles.iter().filter(|s| s.answer == answer).count();
    (report.settled, report.refused) = (answers(CallOutcome::Ok), answers(CallOutcome::Refused));
    let done = completed(history, report);
    again_after_completion(history, &done, report);
    lost(history, &pushed, &done, report);
}

fn pushed(history: &ClientHistory) -> BTreeMap<MessageName<'_>, Pushed> {
    let mut pushed = BTreeMap::new();
    for push in &history.pushes {
        let entry = pushed.entry((&*push.partition, &*push.message)).or_insert(Pushed {
            first: push.span,
            acknowledged: None,
            refused_only: true,
        });
        entry.first.from = entry.first.from.min(push.span.from);
        entry.refused_only &= push.answer == CallOutcome::Refused;
        if push.answer == CallOutcome::Ok {
            let first =
                entry.acknowledged.map_or(push.span.to, |to: Duration| to.min(push.span.to));
            entry.acknowledged = Some(first);
        }
    }
    pushed
}

/// Collects the offset of each message. Finds messages that were never pushed and messages that
/// were stored twice.
fn offsets<'a>(
    history: &'a ClientHistory,
    pushed: &BTreeMap<MessageName<'a>, Pushed>,
    report: &mut Report,
) -> HashMap<MessageName<'a>, i64> {
    let mut offsets: HashMap<MessageName<'_>, i64> = HashMap::new();
    let mut holders: HashMap<(&str, i64), &str> = HashMap::new();
    for delivery in &history.deliveries {
        let partition = &*delivery.partition;
        for seen in &delivery.messages {
            let key = (partition, &*seen.message);
            if pushed.get(&key).is_none_or(|push| push.refused_only) {
                let (partition, message) = (partition.to_owned(), seen.message.clone());
                report.violations.push(Violation::Unexpected { partition, message });
            }
            let elsewhere = *offsets.entry(key).or_insert(seen.offset) != seen.offset;
            let shared = *holders.entry((partition, seen.offset)).or_insert(key.1) != key.1;
            if elsewhere || shared {
                let (partition, message) = (partition.to_owned(), seen.message.clone());
                report.violations.push(Violation::StoredTwice { partition, message });
            }
        }
    }
    offsets
}

/// Checks that a push made after another one was acknowledged has a higher offset.
fn push_order(
    pushed: &BTreeMap<MessageName<'_>, Pushed>,
    offsets: &HashMap<MessageName<'_>, i64>,
    report: &mut Report,
) {
    enum Step {
        Acknowledged,
        Made,
    }
    let mut steps = Vec::new();
    for (key, push) in pushed {
        let Some(offset) = offsets.get(key) else { continue };
        steps.push((push.first.from, 1, Step::Made, key, *offset));
        if let Some(acknowledged) = push.acknowledged {
            steps.push((acknowledged, 0, Step::Acknowledged, key, *offset));
        }
    }
    steps.sort_by_key(|(at, rank, ..)| (*at, *rank));
    let mut highest: HashMap<&str, i64> = HashMap::new();
    for (_, _, step, (partition, message), offset) in steps {
        let highest = highest.entry(partition).or_insert(-1);
        match step {
            Step::Acknowledged => *highest = (*highest).max(offset),
            Step::Made if offset < *highest => report.violations.push(Violation::OutOfOrder {
                partition: (*partition).to_owned(),
                message: (*message).to_owned(),
            }),
            Step::Made => {}
        }
    }
}

/// Collects when each message was completed, by group. Finds messages that were completed twice.
fn completed<'a>(
    history: &'a ClientHistory,
    report: &mut Report,
) -> HashMap<(&'a str, MessageName<'a>), (Duration, CallOutcome)> {
    let mut done: HashMap<(&str, MessageName<'_>), (Duration, CallOutcome)> = HashMap::new();
    let mut finish = |group: &'a str, key: MessageName<'a>, at, answer| {
        let (ok, before) = (answer == CallOutcome::Ok, done.get(&(group, key)).copied());
        let done_before = matches!(before, Some((_, CallOutcome::Ok)));
        if before.is_none() || (ok && !done_before) {
            done.insert((group, key), (at, answer));
        }
        if ok && done_before {
            let (group, message) = (group.to_owned(), key.1.to_owned());
            report.violations.push(Violation::DuplicateEffect { group, message });
        }
    };
    for delivery in history.deliveries.iter().filter(|delivery| delivery.lease.is_none()) {
        for seen in &delivery.messages {
            let key = (&*delivery.partition, &*seen.message);
            finish(&delivery.group, key, delivery.span.to, CallOutcome::Ok);
        }
    }
    for settle in &history.settles {
        let Some((message, Verdict::Completed)) = &settle.what else { continue };
        if settle.answer == CallOutcome::Refused {
            continue;
        }
        let key = (&*settle.partition, &**message);
        finish(&settle.group, key, settle.span.to, settle.answer);
    }
    done
}

fn again_after_completion(
    history: &ClientHistory,
    done: &HashMap<(&str, MessageName<'_>), (Duration, CallOutcome)>,
    report: &mut Report,
) {
    let mut before = HashSet::new();
    for delivery in &history.deliveries {
        for seen in &delivery.messages {
            let key = (&*delivery.group, (&*delivery.partition, &*seen.message));
            report.delivered += 1;
            report.redelivered += usize::from(!before.insert(key));
            let over = done.get(&key).is_some_and(|(at, answer)| {
                *answer == CallOutcome::Ok && delivery.span.from >= *at
            });
            if over {
                let (group, message) = (delivery.group.clone(), seen.message.clone());
                report.violations.push(Violation::DuplicateEffect { group, message });
            }
        }
    }
}

fn lost(
    history: &ClientHistory,
    pushed: &BTreeMap<MessageName<'_>, Pushed>,
    done: &HashMap<(&str, MessageName<'_>), (Duration, CallOutcome)>,
    report: &mut Report,
) {
    let dead: HashSet<(&str, MessageName<'_>)> = (history.dead_letters.iter())
        .map(|(group, partition, message)| (&**group, (&**partition, &**message)))
        .collect();
    for group in &history.drained_by {
        for (key, push) in pushed {
            let ended = (&**group, *key);
            if push.acknowledged.is_some() && !done.contains_key(&ended) && !dead.contains(&ended) {
                report.violations.push(Violation::Lost {
                    group: group.clone(),
                    partition: key.0.to_owned(),
                    message: key.1.to_owned(),
                });
            }
        }
    }
}
