//! Thread schedules, explored by shuttle: the core behind a lock, with waiters, a thread that hints
//! and threads that claim, all racing. The store is a number of items per line behind a lock of its
//! own, so that a claim's read and its report are two steps with possible interruptions between
//! them.

use std::collections::BTreeMap;

use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;

use super::*;

const ITERATIONS: usize = 1_000;

struct World {
    core: Mutex<Shared>,
    /// Notified when there is a claim to make, a waiter was answered, or the scene ends.
    bell: Condvar,
    store: Mutex<BTreeMap<ToyLine, usize>>,
}

struct Shared {
    core: WakeCore<Toy>,
    claims: VecDeque<(CallId, Vec<Claim<ToyLine, usize>>)>,
    ended: HashMap<WaiterId, Ended>,
    released: Vec<(LineId, ToyLine)>,
    keys: HashMap<LineId, ToyLine>,
    stop: bool,
}

impl Shared {
    fn pump(&mut self) {
        for action in self.core.take_actions() {
            match action {
                Action::Claim { call, claims } => self.claims.push_back((call, claims)),
                Action::Finish { waiter, end, .. } => {
                    let end = match end {
                        WaiterEnd::Claimed(items) => Ended::Claimed(items),
                        WaiterEnd::Empty => Ended::Empty,
                        WaiterEnd::Drained => Ended::Drained,
                        WaiterEnd::Failed(error) => Ended::Failed(error),
                    };
                    self.ended.insert(waiter, end);
                }
                Action::Release { line, .. } => self.released.push((line, self.keys[&line])),
                _ => {}
            }
        }
    }
}

impl World {
    fn new(mode: WakeMode, claims_in_flight_max: usize) -> Arc<Self> {
        let config = LongPollConfig { claims_in_flight_max, ..LongPollConfig::default() };
        let shared = Shared {
            core: WakeCore::new(mode, config),
            claims: VecDeque::new(),
            ended: HashMap::new(),
            released: Vec::new(),
            keys: HashMap::new(),
            stop: false,
        };
        Arc::new(Self {
            core: Mutex::new(shared),
            bell: Condvar::new(),
            store: Mutex::new(BTreeMap::new()),
        })
    }

    fn input<R>(&self, input: impl FnOnce(&mut Shared) -> R) -> R {
        let mut shared = self.core.lock().expect("no thread panicked");
        let output = input(&mut shared);
        shared.pump();
        self.bell.notify_all();
        output
    }

    fn park(&self, line: ToyLine) -> WaiterId {
        self.input(|shared| {
            let ParkOutcome::Parked(id, key) = shared.core.park(line, 1, LONG) else {
                panic!("the poll was accepted");
            };
            shared.keys.insert(key, line);
            id
        })
    }

    /// Commits an item, then hints: two steps.
    fn push(&self, line: ToyLine) {
        *self.store.lock().expect("no thread panicked").entry(line).or_default() += 1;
        let hint = ToyHint { group: Some(line.1), ..hint(line.0) };
        self.input(|shared| shared.core.hint(&[hint], HintSource::InProcess));
    }

    /// Blocks until the waiter is answered. Time does not pass here, so a lost wake is a deadlock,
    /// which shuttle reports.
    fn wait(&self, id: WaiterId) -> Ended {
        let mut shared = self.core.lock().expect("no thread panicked");
        loop {
            if let Some(end) = shared.ended.get(&id) {
                return end.clone();
            }
            shared = self.bell.wait(shared).expect("no thread panicked");
        }
    }

    /// Makes claims and releases until it is stopped.
    fn serve(&self) {
        loop {
            let mut shared = self.core.lock().expect("no thread panicked");
            while shared.claims.is_empty() && shared.released.is_empty() && !shared.stop {
                shared = self.bell.wait(shared).expect("no thread panicked");
            }
            let claim = shared.claims.pop_front();
            let released = std::mem::take(&mut shared.released);
            let stop = shared.stop;
            drop(shared);
            for (line, key) in &released {
                *self.store.lock().expect("no thread panicked").entry(*key).or_default() += 1;
                self.input(|shared| shared.core.released(&[*line]));
            }
            match claim {
                Some((call, claims)) => self.claim(call, &claims),
                None if stop && released.is_empty() => return,
                None => {}
            }
        }
    }

    fn claim(&self, call: CallId, claims: &[Claim<ToyLine, usize>]) {
        let mut store = self.store.lock().expect("no thread panicked");
        let outcomes = claims.iter().map(|claim| {
            let items = store.entry(claim.line).or_default();
            let results = claim.requests.iter().map(|_| {
                let one = (*items > 0).then_some(1);
                *items -= one.unwrap_or(0);
                one
            });
            let results = results.collect();
            let more = (*items > 0).then_some(Duration::ZERO);
            ClaimOutcome { further: claim.further, ..ClaimOutcome::new(results, more) }
        });
        let outcomes = outcomes.collect();
        drop(store);
        self.input(|shared| shared.core.claimed(call, outcomes));
    }

    /// Blocks until no claim is in flight or waits for a slot.
    fn quiet(&self) {
        let mut shared = self.core.lock().expect("no thread panicked");
        while !shared.core.calls.is_empty() {
            shared = self.bell.wait(shared).expect("no thread panicked");
        }
    }

    fn stop(&self) {
        self.input(|shared| shared.stop = true);
    }

    fn left(&self) -> usize {
        self.store.lock().expect("no thread panicked").values().sum()
    }
}

/// Runs a scene under many schedules in each hint mode.
fn explore(claims_in_flight_max: usize, scene: fn(&Arc<World>)) {
    for mode in [WakeMode::Fused, WakeMode::Compete, WakeMode::Broadcast] {
        shuttle::check_random(
            move || {
                let world = World::new(mode, claims_in_flight_max);
                let claimers: Vec<_> = (0..claims_in_flight_max)
                    .map(|_| {
                        let world = Arc::clone(&world);
                        thread::spawn(move || world.serve())
                    })
                    .collect();
                scene(&world);
                world.stop();
                for claimer in claimers {
                    claimer.join().expect("a claimer ends");
                }
                let shared = world.core.lock().expect("no thread panicked");
                assert_eq!(shared.core.waiters(), 0, "a waiter leaked");
                assert_eq!(shared.core.calls.len(), 0);
            },
            ITERATIONS,
        );
    }
}

fn spawn<R: Send + 'static>(
    world: &Arc<World>,
    act: impl FnOnce(&World) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let world = Arc::clone(world);
    thread::spawn(move || act(&world))
}

#[test]
fn no_wake_is_lost_between_an_empty_claim_and_the_wait() {
    explore(2, |world| {
        let waiters: Vec<_> =
            (0..2).map(|_| spawn(world, |world| world.wait(world.park((1, 0))))).collect();
        let pusher = spawn(world, |world| {
            world.push((1, 0));
            world.push((1, 0));
        });
        pusher.join().expect("pushed");
        for waiter in waiters {
            assert_eq!(waiter.join().expect("answered"), Ended::Claimed(1));
        }
        assert_eq!(world.left(), 0);
    });
}

#[test]
fn no_waiter_leaks_after_a_drop_and_nothing_claimed_is_lost() {
    explore(2, |world| {
        let quitter = spawn(world, |world| {
            let id = world.park((1, 0));
            thread::yield_now();
            world.input(|shared| {
                shared.core.cancel(id);
                shared.ended.contains_key(&id)
            })
        });
        let pusher = spawn(world, |world| world.push((1, 0)));
        pusher.join().expect("pushed");
        let served = quitter.join().expect("left");
        // Whatever was claimed for the waiter that left is available to the next one.
        if !served {
            assert_eq!(world.wait(world.park((1, 0))), Ended::Claimed(1));
        }
        assert_eq!(world.left(), 0);
    });
}

#[test]
fn dropped_woken_waiter_passes_its_wake_on() {
    // With one slot, taken by another line, a woken waiter has to queue and can leave before its
    // claim begins.
    explore(1, |world| {
        let first = world.park((1, 0));
        let second = world.park((1, 0));
        world.quiet();
        let other = spawn(world, |world| world.park((9, 9)));
        let pusher = spawn(world, |world| world.push((1, 0)));
        let quitter = spawn(world, move |world| {
            world.input(|shared| {
                shared.core.cancel(first);
                shared.ended.contains_key(&first)
            })
        });
        let other = other.join().expect("parked");
        pusher.join().expect("pushed");
        if quitter.join().expect("left") {
            world.input(|shared| shared.core.cancel(second));
        } else {
            assert_eq!(world.wait(second), Ended::Claimed(1));
        }
        world.input(|shared| shared.core.cancel(other));
    });
}

#[test]
fn wake_one_respects_filters() {
    explore(2, |world| {
        let other = world.park((1, 0));
        let right = spawn(world, |world| world.wait(world.park((1, 1))));
        let pusher = spawn(world, |world| world.push((1, 1)));
        pusher.join().expect("pushed");
        assert_eq!(right.join().expect("answered"), Ended::Claimed(1));
        world.input(|shared| {
            assert!(!shared.ended.contains_key(&other));
            shared.core.cancel(other);
        });
    });
}
