//! Buffers for events from outside, one per name: first come, first served, each taken once.

use std::collections::{HashMap, VecDeque};

use crate::event::Raised;
use crate::json::Json;

#[derive(Default)]
struct EventBuffer {
    /// Open waits, oldest first.
    waits: VecDeque<u64>,
    /// Events that were not taken yet, with their positions in the order of arrival.
    kept: VecDeque<(u64, Json)>,
}

/// All event buffers of an execution.
#[derive(Default)]
pub(crate) struct EventBuffers {
    by_name: HashMap<String, EventBuffer>,
    arrivals: u64,
}

impl EventBuffers {
    /// A wait begins: it gets the oldest buffered event, or joins the queue of waits.
    pub(crate) fn wait(&mut self, name: &str, wait: u64) -> Option<(u64, Json)> {
        let event_buffer = self.event_buffer(name);
        let event = event_buffer.kept.pop_front();
        if event.is_none() {
            event_buffer.waits.push_back(wait);
        }
        event
    }

    /// Removes and returns the oldest buffered event.
    pub(crate) fn take(&mut self, name: &str) -> Option<Json> {
        self.by_name.get_mut(name)?.kept.pop_front().map(|(_, data)| data)
    }

    /// An event arrives: it goes to the oldest wait (returned with the order of arrival), or is
    /// buffered.
    pub(crate) fn raise(&mut self, name: &str, data: Json) -> Option<(u64, u64, Json)> {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let (wait, data) = self.put_back(name, arrival, data)?;
        Some((arrival, wait, data))
    }

    /// An event whose wait was dropped before the code read it goes to the oldest wait, or back to
    /// its place in the buffer.
    pub(crate) fn put_back(&mut self, name: &str, arrival: u64, data: Json) -> Option<(u64, Json)> {
        let event_buffer = self.event_buffer(name);
        if let Some(wait) = event_buffer.waits.pop_front() {
            return Some((wait, data));
        }
        let place = event_buffer.kept.partition_point(|(kept, _)| *kept < arrival);
        event_buffer.kept.insert(place, (arrival, data));
        None
    }

    /// Removes a wait from the queue.
    pub(crate) fn forgo(&mut self, name: &str, wait: u64) {
        if let Some(event_buffer) = self.by_name.get_mut(name)
            && let Ok(place) = event_buffer.waits.binary_search(&wait)
        {
            event_buffer.waits.remove(place);
        }
    }

    /// Removes all waits of all names.
    pub(crate) fn forgo_all(&mut self) {
        self.by_name.values_mut().for_each(|event_buffer| event_buffer.waits.clear());
    }

    /// Removes and returns all buffered events, in order of arrival.
    pub(crate) fn drain(&mut self) -> Vec<Raised> {
        let mut all: Vec<(u64, Raised)> = Vec::new();
        for (name, event_buffer) in self.by_name.drain() {
            let raised = |data| Raised { name: name.clone(), data };
            all.extend(
                event_buffer.kept.into_iter().map(|(arrival, data)| (arrival, raised(data))),
            );
        }
        all.sort_unstable_by_key(|(arrival, _)| *arrival);
        all.into_iter().map(|(_, raised)| raised).collect()
    }

    fn event_buffer(&mut self, name: &str) -> &mut EventBuffer {
        if !self.by_name.contains_key(name) {
            self.by_name.insert(name.to_owned(), EventBuffer::default());
        }
        self.by_name.get_mut(name).expect("inserted just now if it was missing")
    }
}
