//! Random programs on whole runtimes, with processes that are killed and databases that go away:
//! every start, event and signal that was accepted has its effect, exactly as the model says.

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
use wakeline_store::{StoreError, WholeStore};
use wakeline_testkit::conformance::Ask;
use wakeline_testkit::oracle::MemoryStore;

use crate::support::{Store, long};
use program::{Dice, Expected, Program, counted};
use world::{Chaos, REASON, World};

/// Everything has ended by then, or never will.
const PATIENCE: Duration = Duration::from_secs(120);

type Answered<T> = Result<T, String>;

/// What must be in the queue, and what may be there.
#[derive(Default)]
struct Pushes {
    must: Vec<String>,
    may: Vec<String>,
    instances: u64,
}

impl Pushes {
    /// Notes what a life pushes that runs to its end.
    fn whole(&mut self, expected: Expected) {
        self.must.extend(expected.pushes);
        self.may.extend(expected.may);
    }

    /// The same of one that may have been ended before.
    fn partial(&mut self, expected: Expected) {
        self.may.extend(expected.pushes);
        self.may.extend(expected.may);
    }
}

/// Runs one program, perhaps in several lives of its instance.
async fn drive(world: Arc<World>, id: String, mut dice: Dice) -> Answered<Pushes> {
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
            // While it runs, or after it: nothing of the tree is left.
            sleep(Duration::from_millis(dice.below(200))).await;
            world.delete(&id, true).await.map_err(failed)?;
            pushes.partial(expected);
            if dice.one_in(2) {
                return Ok(pushes);
            }
            continue;
        }
        match world.end(&id).await.map_err(failed)? {
            Ok(sum) if sum == expected.sum && !program.waits_for_ever() => pushes.whole(expected),
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

/// Takes what is in the queue.
async fn pushed(store: &dyn WholeStore) -> Vec<String> {
    let queue = QueueName::new("out").expect("valid");
    let all = Ask::queue(&queue).batch(1_000).partitions(100).auto_ack();
    let mut texts = Vec::new();
    loop {
        let mut claimed = store.claim(vec![all.line_claim(1)]).await.expect("claimed");
        let Some(grant) = claimed.remove(0).grants.remove(0) else { return texts };
        let messages = grant.partitions.iter().flat_map(|partition| &partition.messages);
        let text = |payload: &[u8]| serde_json::from_slice(payload).expect("a text");
        texts.extend(messages.map(|message| text(&message.payload)));
    }
}

/// Runs programs at once and disturbs them. Returns how many instances ran, or what is wrong.
async fn episode(world: Arc<World>, seed: u64, programs: u64) -> Answered<u64> {
    let chaos = tokio::spawn(Arc::clone(&world).disturb_sometimes(Dice(seed)));
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
    chaos.await.expect("no panic");
    settle(&world, &all).await.map_err(located)?;
    Ok(all.instances)
}

/// Messages, activities and leases that are left, and instances that have not ended; `None` if
/// nothing is.
async fn left(store: &dyn WholeStore) -> Result<Option<String>, StoreError> {
    let depths = FlowReader::depths(store).await?;
    // A detached child may have sent its signal to a parent that was deleted.
    let list = ListMailboxes { limit: u32::MAX, ..ListMailboxes::default() };
    let early: u64 = store.early_mailboxes(list).await?.iter().map(|one| one.messages).sum();
    let [pending, running, ..] = depths.instances;
    let waiting = depths.messages > early;
    let leased = depths.leased_turns + depths.leased_work;
    let nothing = !waiting && depths.work + leased + pending + running == 0;
    Ok((!nothing).then(|| format!("{early} early messages are left, and {depths:?}")))
}

/// Waits until children have ended, too, and compares what was pushed.
async fn settle(world: &World, pushes: &Pushes) -> Answered<()> {
    let must = counted(pushes.must.iter().cloned());
    let mut found: BTreeMap<String, u32> = BTreeMap::new();
    let began = Instant::now();
    loop {
        for (text, count) in counted(pushed(&*world.store).await) {
            *found.entry(text).or_default() += count;
        }
        // What an interrupted deletion has left goes a minute later, by a runtime that starts then.
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
        return Err(format!("pushed twice: {twice:?}; pushed by nobody: {invented:?}"));
    }
    let again = world.runs.lock().values().filter(|runs| **runs > 1).count();
    match world.chaos {
        Chaos::Outages if again > 0 => Err(format!("{again} activities ran more than once")),
        _ => Ok(()),
    }
}

/// Programs at once in an episode.
const PROGRAMS: u64 = 24;
/// The same in the long run: an episode lasts as long as its outages, whatever runs meanwhile.
const PROGRAMS_LONG: u64 = 240;

async fn episodes(store: Arc<dyn WholeStore>, seeds: std::ops::Range<u64>, programs: u64) -> u64 {
    let mut instances = 0;
    for seed in seeds {
        let chaos = match seed % 3 {
            0 => Chaos::Outages,
            1 => Chaos::Kills,
            _ => Chaos::LongOutages,
        };
        let world = World::new(Arc::clone(&store), chaos).await;
        match episode(world, seed, programs).await {
            Ok(ran) => instances += ran,
            Err(error) => panic!("{error}"),
        }
    }
    instances
}

#[tokio::test(start_paused = true)]
async fn programs_do_what_the_model_says_in_memory() {
    let store = Arc::new(MemoryStore::with_tokio_clock());
    let instances = episodes(store, 0..6, PROGRAMS).await;
    assert!(instances > 200, "{instances} are too few to show something");
}

/// Runs episodes until as many orchestrations ran as the long run asks for.
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
async fn programs_do_what_the_model_says_on_sqlite() {
    many(Store::sqlite()).await;
}

#[tokio::test]
async fn programs_do_what_the_model_says_on_postgres() {
    many(Store::postgres().await).await;
}
