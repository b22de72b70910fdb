//! Tests random programs on whole runtimes, while processes are killed and databases become
//! unavailable. Every start, event and signal that was accepted must have exactly the effect that
//! the model predicts.

mod mutants;
mod program;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use wakeline::FailureKind;
use wakeline::core::QueueName;
use wakeline_store::flow::{FlowReader, ListMailboxes};
use wakeline_store::{Backend, StoreError};
use wakeline_testkit::conformance::ClaimSpec;
use wakeline_testkit::oracle::MemoryStore;

use crate::support::{Store, long};
use program::{Dice, Expected, Program, counted};
use world::{Disturbance, REASON, World};

/// The time by which everything has ended, if it ends at all.
const WAIT_MAX: Duration = Duration::from_secs(120);

type WorldResult<T> = Result<T, String>;

/// The messages that must be in the queue, and those that may be.
#[derive(Default)]
struct Pushes {
    must: Vec<String>,
    may: Vec<String>,
    instances: u64,
}

impl Pushes {
    /// Adds the pushes of an instance that runs to its end.
    fn complete(&mut self, expected: Expected) {
        self.must.extend(expected.pushes);
        self.may.extend(expected.may);
    }

    /// Adds the possible pushes of an instance that may have been ended early.
    fn partial(&mut self, expected: Expected) {
        self.may.extend(expected.pushes);
        self.may.extend(expected.may);
    }
}

/// Runs one program, perhaps several times under the same instance id.
async fn drive(world: Arc<World>, id: String, mut dice: Dice) -> WorldResult<Pushes> {
    let mut pushes = Pushes::default();
    let steps = Program::random(&mut dice, 2);
    for life in 0.. {
        let mut program = Program::new(format!("{id}.{life}"), steps.clone());
        let cancelled = dice.one_in(5);
        if cancelled {
            program.steps.extend(Program::random_wait_for_cancel(&mut dice));
        }
        let expected: Expected = program.clone().expected();
        pushes.instances += expected.instances;
        let all_early = expected.events > 2_000 || dice.one_in(2);
        let early = if all_early { u64::MAX } else { dice.below(3) };
        let failed = |error: String| format!("{id}, life {life}: {error}; {:?}", program.steps);
        world.start(&id, &program, early).await.map_err(failed)?;
        if cancelled {
            sleep(Duration::from_millis(dice.below(200))).await;
            world.cancel(&id).await.map_err(failed)?;
        } else if dice.one_in(8) {
            world.terminate(&id).await.map_err(failed)?;
            pushes.partial(expected);
            return Ok(pushes);
        } else if dice.one_in(6) {
            // Deleted while it runs or afterwards: nothing of the tree is left.
            sleep(Duration::from_millis(dice.below(200))).await;
            world.delete(&id, true).await.map_err(failed)?;
            pushes.partial(expected);
            if dice.one_in(2) {
                return Ok(pushes);
            }
            continue;
        }
        match world.end(&id).await.map_err(failed)? {
            Ok(sum) if sum == expected.sum && !program.waits_forever() => pushes.complete(expected),
            Err(error)
                if cancelled
                    && !program.cleans_up()
                    && (error.kind, error.message.as_str()) == (FailureKind::Cancelled, REASON) =>
            {
                pushes.partial(expected);
            }
            end => return Err(failed(format!("{end:?} instead of {}", expected.sum))),
        }
        if dice.one_in(2) {
            return Ok(pushes);
        }
        world.delete(&id, false).await.map_err(failed)?;
    }
    unreachable!("a life is the last one now and then")
}

/// Takes all messages from the queue.
async fn pushed(store: &dyn Backend) -> Vec<String> {
    let queue = QueueName::new("out").expect("valid");
    let all = ClaimSpec::queue(&queue).batch(1_000).partitions(100).auto_ack();
    let mut texts = Vec::new();
    loop {
        let mut claimed = store.claim(vec![all.line_claim(1)]).await.expect("claimed");
        let Some(batch) = claimed.remove(0).results.remove(0) else { return texts };
        let messages = batch.partitions.iter().flat_map(|partition| &partition.messages);
        let text = |payload: &[u8]| serde_json::from_slice(payload).expect("a text");
        texts.extend(messages.map(|message| text(&message.payload)));
    }
}

/// Runs programs concurrently and disturbs them. Returns the number of instances that ran, or what
/// is wrong.
async fn episode(world: Arc<World>, seed: u64, programs: u64) -> WorldResult<u64> {
    let disturbance = tokio::spawn(Arc::clone(&world).disturb_sometimes(Dice(seed)));
    let mut running = JoinSet::new();
    for n in 0..programs {
        let own = Dice(seed.wrapping_mul(1_000_003).wrapping_add(n));
        running.spawn(drive(Arc::clone(&world), format!("{seed}-{n}"), own));
    }
    let located = |error: String| format!("seed {seed}: {error}");
    let mut all = Pushes::default();
    while let Some(ended) = running.join_next().await {
        let pushes = ended.expect("no panic").map_err(located)?;
        all.must.extend(pushes.must);
        all.may.extend(pushes.may);
        all.instances += pushes.instances;
    }
    disturbance.await.expect("no panic");
    settle(&world, &all).await.map_err(located)?;
    Ok(all.instances)
}

/// Describes the messages, activities and leases that are left and the instances that have not
/// ended; `None` if there are none.
async fn left(store: &dyn Backend) -> Result<Option<String>, StoreError> {
    let depths = FlowReader::depths(store).await?;
    // A detached child may have sent its signal to a parent that has been deleted.
    let list = ListMailboxes { limit: u32::MAX, ..ListMailboxes::default() };
    let early: u64 = store.early_mailboxes(list).await?.iter().map(|one| one.messages).sum();
    let [pending, running, ..] = depths.instances;
    let waiting = depths.messages > early;
    let leased = depths.leased_turns + depths.leased_work;
    let nothing = !waiting && depths.work + leased + pending + running == 0;
    Ok((!nothing).then(|| format!("{early} early messages are left, and {depths:?}")))
}

/// Waits until all children have ended as well, and compares the pushed messages.
async fn settle(world: &World, pushes: &Pushes) -> WorldResult<()> {
    let must = counted(pushes.must.iter().cloned());
    let mut found: BTreeMap<String, u32> = BTreeMap::new();
    let began = Instant::now();
    loop {
        for (text, count) in counted(pushed(&*world.store).await) {
            *found.entry(text).or_default() += count;
        }
        // The rest of an interrupted deletion is removed a minute later by a runtime that starts
        // then.
        let cleared = world.store.clear_deleted().await;
        cleared.map_err(|error| error.to_string())?;
        let left = left(&*world.store).await.map_err(|error| error.to_string())?;
        let missing: Vec<_> = must.keys().filter(|text| !found.contains_key(*text)).collect();
        if left.is_none() && missing.is_empty() {
            break;
        }
        if began.elapsed() > world.patience {
            let left = left.as_deref().unwrap_or("nothing is left");
            return Err(format!("{left}; {missing:?} were not pushed"));
        }
        sleep(Duration::from_millis(50)).await;
    }
    let twice: Vec<_> = found.iter().filter(|(_, count)| **count > 1).collect();
    let may = counted(pushes.may.iter().cloned());
    let invented = |text: &&String| !must.contains_key(*text) && !may.contains_key(*text);
    let invented: Vec<_> = found.keys().filter(invented).collect();
    if !twice.is_empty() || !invented.is_empty() {
        return Err(format!("pushed twice: {twice:?}; not expected: {invented:?}"));
    }
    let again = world.runs.lock().values().filter(|runs| **runs > 1).count();
    match world.disturbance {
        Disturbance::Outages if again > 0 => Err(format!("{again} activities ran more than once")),
        _ => Ok(()),
    }
}

/// The number of concurrent programs in an episode.
const PROGRAMS: u64 = 24;
/// The number in the long run: an episode lasts as long as its outages, however many programs run.
const PROGRAMS_LONG: u64 = 240;

async fn episodes(store: Arc<dyn Backend>, seeds: std::ops::Range<u64>, programs: u64) -> u64 {
    let mut instances = 0;
    for seed in seeds {
        let disturbance = match seed % 3 {
            0 => Disturbance::Outages,
            1 => Disturbance::Kills,
            _ => Disturbance::LongOutages,
        };
        let world = World::new(Arc::clone(&store), disturbance).await;
        match episode(world, seed, programs).await {
            Ok(ran) => instances += ran,
            Err(error) => panic!("{error}"),
        }
    }
    instances
}

#[tokio::test(start_paused = true)]
async fn random_programs_match_the_model_in_memory() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let instances = episodes(store, 0..6, PROGRAMS).await;
    assert!(instances > 200, "{instances} are too few to show something");
}

/// Runs episodes until the number of orchestrations of the long run is reached.
async fn many(store: Store) {
    let (wanted, programs) = if long() { (100_000, PROGRAMS_LONG) } else { (200, PROGRAMS) };
    let (mut instances, mut seed, inner) = (0, 1_000, store.open().await);
    while instances < wanted {
        instances += episodes(Arc::clone(&inner), seed..seed + 3, programs).await;
        seed += 3;
    }
    eprintln!("{instances} orchestrations on {}, {} episodes", store.name(), seed - 1_000);
}

#[tokio::test]
async fn random_programs_match_the_model_on_sqlite() {
    many(Store::sqlite()).await;
}

#[tokio::test]
async fn random_programs_match_the_model_on_postgres() {
    many(Store::postgres().await).await;
}
