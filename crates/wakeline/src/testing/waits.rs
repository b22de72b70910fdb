//! Describes what an instance waits for.

use std::collections::{BTreeMap, VecDeque};

use wakeline_flow::{Client, Event, EventKind, Instance, Status};

use super::env::TestError;

/// The number of levels of children that are described.
const DEPTH_MAX: usize = 5;

/// Describes what an instance that has not ended waits for.
pub(super) async fn describe(
    client: &Client,
    instance: &str,
    status: Status,
) -> Result<String, TestError> {
    let mut description = Vec::new();
    let mut open = vec![(instance.to_owned(), status, 0)];
    while let Some((id, status, depth)) = open.pop() {
        let found = match status {
            Status::Missing => Waits::because("it was never started"),
            Status::Pending(instance) if instance.suspended.is_none() => {
                Waits::because("it waits for its first turn, and no code for it is registered")
            }
            Status::Ended(_) => continue,
            Status::Pending(instance) | Status::Running(instance) => {
                waits(client, &instance).await?
            }
        };
        description.push(match depth {
            0 => found.description,
            _ => format!("{id}: {}", found.description),
        });
        if depth < DEPTH_MAX {
            for child in found.children {
                let status = client.status(&child).await?;
                open.push((child, status, depth + 1));
            }
        }
    }
    Ok(description.join("; "))
}

/// The description of what an instance waits for, and the children among it.
struct Waits {
    description: String,
    children: Vec<String>,
}

impl Waits {
    fn because(description: &str) -> Self {
        Self { description: description.to_owned(), children: Vec::new() }
    }
}

async fn waits(client: &Client, instance: &Instance) -> Result<Waits, TestError> {
    if let Some(reason) = &instance.suspended {
        return Ok(Waits::because(&format!("it is suspended\n{reason}")));
    }
    let history = client.history(instance.instance.as_str(), None).await?;
    let open = open_operations(&history);
    let children = open.iter().filter_map(|(_, child)| child.clone()).collect();
    if open.is_empty() {
        return Ok(Waits::because("it waits for nothing that is in its history"));
    }
    let description: Vec<_> = open.into_iter().map(|(description, _)| description).collect();
    Ok(Waits { description: format!("it waits for {}", description.join(", ")), children })
}

/// Describes the operations that have begun and not ended, each with the instance if it is a child.
fn open_operations(history: &[Event]) -> Vec<(String, Option<String>)> {
    use EventKind as E;
    let mut open = BTreeMap::new();
    let mut waits: BTreeMap<&str, VecDeque<u64>> = BTreeMap::new();
    let mut kept: BTreeMap<&str, u32> = BTreeMap::new();
    for event in history {
        let at = event.at.as_ref().map_or_else(String::new, |at| format!(" ({at})"));
        match &event.kind {
            E::ActivityScheduled { name, tag, .. } => {
                let tag = tag.as_ref().map_or_else(String::new, |tag| format!(" of tag {tag}"));
                let description =
                    format!("activity {name}{tag}, for which no code is registered here{at}");
                open.insert(event.id, (description, None));
            }
            E::ChildStarted { instance, name, attached: true, .. } => {
                let description = format!("child {instance} of {name}{at}");
                open.insert(event.id, (description, Some(instance.to_string())));
            }
            E::TimerCreated { fire_at } => {
                open.insert(event.id, (format!("a timer for {fire_at} µs{at}"), None));
            }
            E::EventAwaited { name } => {
                let early = kept.entry(name).or_default();
                if *early > 0 {
                    *early -= 1;
                } else {
                    waits.entry(name).or_default().push_back(event.id);
                    open.insert(event.id, (format!("event {name:?}{at}"), None));
                }
            }
            E::EventRaised { name, .. } => {
                match waits.entry(name).or_default().pop_front() {
                    Some(of) => drop(open.remove(&of)),
                    None => *kept.entry(name).or_default() += 1,
                };
            }
            E::EventForgone { of } => {
                waits.values_mut().for_each(|queue| queue.retain(|id| id != of));
                open.remove(of);
            }
            E::ActivityCompleted { of, .. }
            | E::ActivityFailed { of, .. }
            | E::ActivityCancelled { of }
            | E::TimerFired { of }
            | E::TimerCancelled { of }
            | E::ChildCompleted { of, .. }
            | E::ChildFailed { of, .. }
            | E::ChildCancelled { of } => drop(open.remove(of)),
            _ => {}
        }
    }
    open.into_values().collect()
}
