//! The earliest due times of busy lines, as seen by their last claims.
//!
//! # Where it sits
//! A claim scans the index of due times from its beginning. While an old snapshot is open (for
//! example of a dump or of an idle transaction), the rows that were claimed and settled since then
//! leave dead index entries that cannot be removed, and each claim would step over all of them. A
//! claim with a floor begins there instead.
//!
//! # Invariants
//! * A floor is only a hint. A transaction that read the clock earlier and committed later may add
//!   a due time below it. Therefore the SQL function `claim` looks below the floor before a request
//!   gets nothing, and a line is claimed without a floor every [`LOOK_BELOW_EVERY`].
//! * Only lines whose last claim served every request have a floor: other claims look below anyway.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use wakeline_core::{QueueLine, Selector};

/// The interval at which a busy line is claimed without a floor.
const LOOK_BELOW_EVERY: Duration = Duration::from_secs(1);

/// The maximum number of floors. All are forgotten when it is reached, which only makes claims
/// slower.
const FLOORS_MAX: usize = 10_000;

/// The earliest due time of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Floor {
    /// The group's number. A group that is deleted and created again has another number, and its
    /// floor does not apply any more.
    pub(super) group: i32,
    pub(super) due_at: SystemTime,
}

#[derive(Debug, Clone, Copy)]
struct KnownFloor {
    floor: Floor,
    /// The time of the last claim without a floor.
    looked: Instant,
}

/// The floors of lines that are claimed often.
#[derive(Default)]
pub(crate) struct Floors {
    known: Mutex<HashMap<QueueLine, KnownFloor>>,
}

impl Floors {
    /// Returns the floor for a claim that begins now; `None` if it has to scan from the beginning.
    pub(super) fn of(&self, line: &QueueLine) -> Option<Floor> {
        let known = *self.known.lock().get(line)?;
        (known.looked.elapsed() < LOOK_BELOW_EVERY).then_some(known.floor)
    }

    /// Records the earliest due time that a claim with the floor `under` has seen. `seen` is `None`
    /// if a request got nothing.
    pub(super) fn note(&self, line: &QueueLine, under: Option<Floor>, seen: Option<Floor>) {
        let mut known = self.known.lock();
        let Some(floor) = seen.filter(|_| matches!(line.selector, Selector::Queue(_))) else {
            known.remove(line);
            return;
        };
        let looked = match (known.get(line), under) {
            (Some(before), Some(under)) if under.group == floor.group => before.looked,
            _ => Instant::now(),
        };
        if known.len() >= FLOORS_MAX {
            known.clear();
        }
        known.insert(line.clone(), KnownFloor { floor, looked });
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use wakeline_core::{GroupName, QueueName};

    use super::*;

    fn line() -> QueueLine {
        let selector = Selector::Queue(QueueName::new("q").expect("valid"));
        QueueLine { selector, group: GroupName::queue_mode() }
    }

    #[test]
    fn a_line_has_a_floor_for_a_limited_time_while_its_claims_serve_all_requests() {
        let floors = Floors::default();
        let floor = Floor { group: 1, due_at: UNIX_EPOCH };
        assert_eq!(floors.of(&line()), None);
        floors.note(&line(), None, Some(floor));
        assert_eq!(floors.of(&line()), Some(floor));
        let looked = floors.known.lock()[&line()].looked;
        floors.note(&line(), Some(floor), Some(floor));
        assert_eq!(floors.known.lock()[&line()].looked, looked, "no claim looked below");
        if let Some(known) = floors.known.lock().get_mut(&line()) {
            known.looked = looked.checked_sub(LOOK_BELOW_EVERY).expect("the machine runs longer");
        }
        assert_eq!(floors.of(&line()), None, "it is time to look below");
        floors.note(&line(), None, Some(floor));
        assert_eq!(floors.of(&line()), Some(floor));
        floors.note(&line(), Some(floor), None);
        assert_eq!(floors.of(&line()), None);
    }
}
