//! Random programs on whole runtimes, with processes that are killed and databases that go away:
//! every start, event and signal that was accepted has its effect, exactly as the model says.

mod mutants;
mod program;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use wakeline::core::QueueName;
use wakeline::provider::{StoreProvider, StoreProviderOptions};
use wakeline::{Client, ClientError, Runtime, RuntimeOptions};
use wakeline_store::flow::{FlowReader, ListMailboxes};
use wakeline_store::{StoreError, WholeStore};
use wakeline_testkit::conformance::Ask;
use wakeline_testkit::faults::{Fault, FaultingStore, FlowMutation};
use wakeline_testkit::oracle::MemoryStore;

use crate::support::{Store, long};
use program::{Dice, Expected, Program, Runs, counted, registry};

/// How a world is disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chaos {
    /// The database goes away for less time than a lease lasts: everything runs once.
    Outages,
    /// It goes away for longer than a lease: activities may run again, and nothing is given up.
    LongOutages,
    /// Processes are killed, and single calls fail.
    Kills,
}

/// Everything has ended by then, or never will.
const PATIENCE: Duration = Duration::from_secs(120);

/// What runs programs: it can be killed.
struct Process {
    store: Arc<FaultingStore>,
    client: Client,
    _runtime: Runtime,
}

/// A store, and the process that is alive.
struct World {
    store: Arc<dyn WholeStore>,
    chaos: Chaos,
    runs: Runs,
    alive: Mutex<Arc<Process>>,
    mutation: Option<fn() -> FlowMutation>,
}

impl World {
    async fn new(
        store: Arc<dyn WholeStore>,
        chaos: Chaos,
        mutation: Option<fn() -> FlowMutation>,
    ) -> Arc<Self> {
        let runs = Runs::default();
        let alive = Self::process(&store, chaos, &runs).await;
        mutation.into_iter().for_each(|mutation| alive.store.mutate(mutation()));
        let alive = Mutex::new(Arc::new(alive));
        Arc::new(Self { store, chaos, runs, alive, mutation })
    }

    async fn process(store: &Arc<dyn WholeStore>, chaos: Chaos, runs: &Runs) -> Process {
        let faulting = Arc::new(FaultingStore::new(Arc::clone(store)));
        let backend: Arc<dyn wakeline_store::flow::FlowBackend> = faulting.clone();
        let provider = Arc::new(StoreProvider::new(backend, StoreProviderOptions::default()));
        let lease = match chaos {
            Chaos::Outages => Duration::from_secs(30),
            Chaos::LongOutages | Chaos::Kills => Duration::from_secs(1),
        };
        let options = RuntimeOptions {
            orchestrator_lock_timeout: lease,
            worker_lock_timeout: lease,
            session_lock_timeout: lease,
            // A killed process costs an attempt. An outage costs none, but a slow machine may.
            attempts_max: if chaos == Chaos::Kills { 1_000 } else { 20 },
            ..RuntimeOptions::default()
        };
        let runtime = Runtime::start_with_options(provider.clone(), registry(runs), options);
        let runtime = runtime.await.expect("started");
        Process { store: faulting, client: Client::new(provider), _runtime: runtime }
    }

    fn alive(&self) -> Arc<Process> {
        Arc::clone(&self.alive.lock())
    }

    /// Ends the process in one of its next calls, and starts another one.
    async fn kill(&self, dice: &mut Dice) {
        let victim = self.alive();
        let fault = if dice.one_in(2) { Fault::Before } else { Fault::After };
        victim.store.fail_from(1 + dice.below(8), fault);
        sleep(Duration::from_millis(10)).await;
        let next = Self::process(&self.store, self.chaos, &self.runs).await;
        self.mutation.iter().for_each(|mutation| next.store.mutate(mutation()));
        *self.alive.lock() = Arc::new(next);
    }

    async fn disturb(&self, dice: &mut Dice) {
        let process = self.alive();
        match self.chaos {
            Chaos::Outages | Chaos::LongOutages => {
                let ms = match self.chaos {
                    Chaos::LongOutages => 1_100 + dice.below(1_000),
                    // The long ones outlast any small number of tries.
                    _ if dice.one_in(2) => 6_000,
                    _ => dice.below(1_000),
                };
                process.store.fail_from(1, Fault::Before);
                sleep(Duration::from_millis(ms)).await;
                process.store.end_outage();
            }
            Chaos::Kills if dice.one_in(2) => self.kill(dice).await,
            Chaos::Kills => {
                for _ in 0..4 {
                    let fault = if dice.one_in(2) { Fault::Before } else { Fault::After };
                    process.store.fail(1 + dice.below(60), fault);
                }
            }
        }
    }

    /// Disturbs what runs a few times.
    async fn disturb_sometimes(self: Arc<Self>, mut dice: Dice) {
        for _ in 0..4 {
            sleep(Duration::from_millis(50 + dice.below(500))).await;
            self.disturb(&mut dice).await;
        }
    }

    /// Repeats a call, with whatever process is alive, until it is answered.
    async fn repeat<T, F>(&self, call: impl Fn(Client) -> F) -> Answered<T>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let began = Instant::now();
        loop {
            let process = self.alive();
            match timeout(Duration::from_secs(2), call(process.client.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(ClientError::Provider(_))) => sleep(Duration::from_millis(20)).await,
                Ok(Err(ClientError::TimedOut { .. })) | Err(_) => {}
                Ok(Err(error)) => return Err(error.to_string()),
            }
            if began.elapsed() > PATIENCE {
                return Err("no answer".to_owned());
            }
        }
    }

    /// Sends all events that a program takes, some of them before it is started.
    async fn start(&self, id: &str, program: &Program, early: u64) -> Answered<()> {
        let events = program.clone().expected().events;
        let raise = |n: u64| {
            self.repeat(move |client| async move { client.raise_event_early(id, "n", &n).await })
        };
        for n in 0..early.min(events) {
            raise(n).await?;
        }
        self.repeat(|client| async move { client.start(id, "program", program).await }).await?;
        for n in early.min(events)..events {
            raise(n).await?;
        }
        Ok(())
    }

    async fn output(&self, id: &str) -> Answered<u64> {
        let second = Duration::from_secs(1);
        self.repeat(|client| async move { client.wait(id, second).await }).await
    }

    /// Deletes a tree. Without force as soon as all children have ended.
    async fn delete(&self, id: &str, force: bool) -> Answered<()> {
        let began = Instant::now();
        loop {
            let deleted = self.repeat(|client| async move {
                match client.delete(id, force).await {
                    // It was deleted by a call that was not answered.
                    Err(ClientError::NotFound(_)) => Ok(Vec::new()),
                    other => other.map(|report| report.running),
                }
            });
            let running = deleted.await?;
            if running.is_empty() {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("{running:?} never ended"));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn terminate(&self, id: &str) -> Answered<()> {
        self.repeat(|client| async move { client.terminate(id, "as planned").await })
            .await
            .map(drop)
    }
}

type Answered<T> = Result<T, String>;

/// What must be in the queue, and what may be there.
#[derive(Default)]
struct Pushes {
    must: Vec<String>,
    may: Vec<String>,
    instances: u64,
}

/// Runs one program, perhaps in several lives of its instance.
async fn drive(world: Arc<World>, id: String, mut dice: Dice) -> Answered<Pushes> {
    let mut pushes = Pushes::default();
    let steps = Program::random(&mut dice, 2);
    for life in 0.. {
        let program = Program::new(format!("{id}.{life}"), steps.clone());
        let expected: Expected = program.clone().expected();
        pushes.instances += expected.instances;
        let early = if dice.one_in(2) { u64::MAX } else { dice.below(3) };
        let failed = |error: String| format!("{id}, life {life}: {error}; {:?}", program.steps);
        world.start(&id, &program, early).await.map_err(failed)?;
        if dice.one_in(8) {
            world.terminate(&id).await.map_err(failed)?;
            pushes.may.extend(expected.pushes);
            pushes.may.extend(expected.may);
            return Ok(pushes);
        }
        if dice.one_in(6) {
            // While it runs, or after it: nothing of the tree is left.
            sleep(Duration::from_millis(dice.below(200))).await;
            world.delete(&id, true).await.map_err(failed)?;
            pushes.may.extend(expected.pushes);
            pushes.may.extend(expected.may);
            if dice.one_in(2) {
                return Ok(pushes);
            }
            continue;
        }
        let sum = world.output(&id).await.map_err(failed)?;
        if sum != expected.sum {
            return Err(failed(format!("{sum} instead of {}", expected.sum)));
        }
        pushes.must.extend(expected.pushes);
        pushes.may.extend(expected.may);
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
        let left = left(&*world.store).await.map_err(|error| error.to_string())?;
        let missing: Vec<_> = must.keys().filter(|text| !found.contains_key(*text)).collect();
        if left.is_none() && missing.is_empty() {
            break;
        }
        if began.elapsed() > PATIENCE {
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
        let world = World::new(Arc::clone(&store), chaos, None).await;
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
