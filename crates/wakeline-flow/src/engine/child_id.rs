//! The instance ids of children for which the code gave none.
//!
//! # Invariants
//! * An id is used only once. Event numbers begin again at 1 in every execution, and an instance id
//!   can be used again after its instance was deleted, so a child's id contains the execution and
//!   the identity.
//! * A replay repeats the recorded id, even one that an earlier program made in another way.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use wakeline_core::{InstanceId, NAME_BYTES_MAX};

use super::state::ExecutionFacts;
use crate::event::{Event, EventKind};

/// The number of hexadecimal digits of the identity in an id. The parent, the execution and the
/// event are in it as well, so it only has to distinguish instances that had the same id.
const IDENTITY_LEN: usize = 8;

/// The id of the child that an event starts: `parent::2.7.9f86d081` for event 7 of execution 2, or
/// a hash if that would be too long.
pub(crate) fn child_id(parent: &ExecutionFacts, event: u64) -> InstanceId {
    let identity = parent.identity();
    let (instance, execution) = (&parent.instance, parent.execution);
    named(format!("{instance}::{execution}.{event}.{}", &identity[..IDENTITY_LEN]))
}

/// Returns, by event, the ids in this history that consist only of the parent and the number of the
/// event, as earlier programs made them.
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
    InstanceId::new(text)
        .expect("a text that begins with a valid id and is short enough is a valid id")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
