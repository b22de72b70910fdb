//! The instance ids of children that were given none.
//!
//! # Invariants
//! * An id is used once: numbers of events begin again at 1 in every execution, and an instance id
//!   can be used again after its instance was deleted, so an id names both.
//! * A replay repeats the id that was recorded, also if an earlier program made it.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use wakeline_core::{InstanceId, NAME_BYTES_MAX};

use super::state::About;
use crate::event::{Event, EventKind};

/// Hexadecimal digits of the identity in an id. The parent, the execution and the event are in it
/// as well, so only lives of the same instance have to differ.
const IDENTITY_LEN: usize = 8;

/// The id of the child that an event starts: `parent::2.7.9f86d081` for event 7 of execution 2,
/// or a hash where that is too long.
pub(crate) fn child_id(parent: &About, event: u64) -> InstanceId {
    let identity = parent.identity();
    let (instance, execution) = (&parent.instance, parent.execution);
    named(format!("{instance}::{execution}.{event}.{}", &identity[..IDENTITY_LEN]))
}

/// Ids in this history that consist of the parent and the number of the event only, by the events
/// that recorded them: earlier programs made them so.
pub(super) fn recorded(parent: &InstanceId, events: &[Event]) -> HashMap<u64, InstanceId> {
    let of = |event: &Event| match &event.kind {
        EventKind::ChildStarted { instance, .. } => {
            let earlier = named(format!("{parent}::{}", event.id));
            (earlier == *instance).then_some((event.id, earlier))
        }
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

fn named(text: String) -> InstanceId {
    let text = if text.len() <= NAME_BYTES_MAX { text } else { hex(&Sha256::digest(text)) };
    InstanceId::new(text).expect("made of a valid id and within the limit")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
