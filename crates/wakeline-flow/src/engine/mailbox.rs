//! Events from outside, by name: first come, first served, each taken once.

use std::collections::{HashMap, VecDeque};

use crate::event::Raised;
use crate::json::Json;

#[derive(Default)]
struct Mailbox {
    /// Open waits, oldest first.
    waits: VecDeque<u64>,
    /// Events that nobody has taken, with their places in the order of arrival.
    kept: VecDeque<(u64, Json)>,
}

/// All mailboxes of an execution.
#[derive(Default)]
pub(crate) struct Mailboxes {
    by_name: HashMap<String, Mailbox>,
    arrivals: u64,
}

impl Mailboxes {
    /// A wait begins: it is given the oldest kept event, or stands in line.
    pub(crate) fn wait(&mut self, name: &str, wait: u64) -> Option<(u64, Json)> {
        let mailbox = self.mailbox(name);
        let given = mailbox.kept.pop_front();
        if given.is_none() {
            mailbox.waits.push_back(wait);
        }
        given
    }

    /// The oldest kept event, taken out.
    pub(crate) fn take(&mut self, name: &str) -> Option<Json> {
        self.by_name.get_mut(name)?.kept.pop_front().map(|(_, data)| data)
    }

    /// An event arrives: for the oldest wait (with its place in the order of arrival), or kept.
    pub(crate) fn raise(&mut self, name: &str, data: Json) -> Option<(u64, u64, Json)> {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let (wait, data) = self.put_back(name, arrival, data)?;
        Some((arrival, wait, data))
    }

    /// An event that was given to nobody, or not looked at: for the oldest wait, or kept in its
    /// place.
    pub(crate) fn put_back(&mut self, name: &str, arrival: u64, data: Json) -> Option<(u64, Json)> {
        let mailbox = self.mailbox(name);
        if let Some(wait) = mailbox.waits.pop_front() {
            return Some((wait, data));
        }
        let place = mailbox.kept.partition_point(|(kept, _)| *kept < arrival);
        mailbox.kept.insert(place, (arrival, data));
        None
    }

    /// A wait leaves the line.
    pub(crate) fn forgo(&mut self, name: &str, wait: u64) {
        if let Some(mailbox) = self.by_name.get_mut(name)
            && let Ok(place) = mailbox.waits.binary_search(&wait)
        {
            mailbox.waits.remove(place);
        }
    }

    /// All waits of all names leave the line.
    pub(crate) fn forgo_all(&mut self) {
        self.by_name.values_mut().for_each(|mailbox| mailbox.waits.clear());
    }

    /// Everything that nobody has taken, in order of arrival.
    pub(crate) fn drain(&mut self) -> Vec<Raised> {
        let mut all: Vec<(u64, Raised)> = Vec::new();
        for (name, mailbox) in self.by_name.drain() {
            let raised = |data| Raised { name: name.clone(), data };
            all.extend(mailbox.kept.into_iter().map(|(arrival, data)| (arrival, raised(data))));
        }
        all.sort_unstable_by_key(|(arrival, _)| *arrival);
        all.into_iter().map(|(_, raised)| raised).collect()
    }

    fn mailbox(&mut self, name: &str) -> &mut Mailbox {
        if !self.by_name.contains_key(name) {
            self.by_name.insert(name.to_owned(), Mailbox::default());
        }
        self.by_name.get_mut(name).expect("inserted just now if it was missing")
    }
}
