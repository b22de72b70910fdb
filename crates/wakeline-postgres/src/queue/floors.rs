//! Where the due times of busy lines begin, as their last claims saw it.
//!
//! # Where it sits
//! A claim walks the index of due times from its beginning. While somebody holds an old snapshot
//! open (a dump, a forgotten transaction), what was claimed and settled since then leaves dead
//! entries there that nobody may remove, and each claim would step over all of them. A claim that
//! is told a floor begins there instead.
//!
//! # Invariants
//! * A floor is a hint. A due time below it may come to light, from a transaction that read the
//!   clock earlier and committed later: the function `claim` looks below before a request goes
//!   without, and a line is claimed from without a floor every [`LOOK_BELOW_EVERY`].
//! * Only lines whose last claim served everybody have one: the others look below anyway.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use wakeline_core::{QueueLine, Selector};

/// How often a busy line is claimed from without a floor.
const LOOK_BELOW_EVERY: Duration = Duration::from_secs(1);

/// More floors than this are forgotten, which only costs the walk.
const FLOORS_MAX: usize = 10_000;

/// Where the live due times of a group begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Floor {
    /// The group's number: another one of the same name begins anew.
    pub(super) group: i32,
    pub(super) due_at: SystemTime,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    floor: Floor,
    /// When somebody looked below last.
    looked: Instant,
}

/// The floors of lines that are claimed from often.
#[derive(Default)]
pub(crate) struct Floors {
    known: Mutex<HashMap<QueueLine, Known>>,
}

impl Floors {
    /// The floor for a claim that begins now; `None` if it has to look everywhere.
    pub(super) fn of(&self, line: &QueueLine) -> Option<Floor> {
        let known = *self.known.lock().get(line)?;
        (known.looked.elapsed() < LOOK_BELOW_EVERY).then_some(known.floor)
    }

    /// Notes what a claim saw that was told `under`. `seen` is `None` if it left a request without.
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
        known.insert(line.clone(), Known { floor, looked });
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
    fn a_line_has_a_floor_while_its_claims_serve_everybody_and_for_a_while() {
        let floors = Floors::default();
        let floor = Floor { group: 1, due_at: UNIX_EPOCH };
        assert_eq!(floors.of(&line()), None);
        floors.note(&line(), None, Some(floor));
        assert_eq!(floors.of(&line()), Some(floor));
        let looked = floors.known.lock()[&line()].looked;
        floors.note(&line(), Some(floor), Some(floor));
        assert_eq!(floors.known.lock()[&line()].looked, looked, "nobody looked below");
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
