//! Defects that the random programs must find: each was in the product once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use wakeline::core::{FlowToken, InstanceId, TransactionId};
use wakeline_store::WholeStore;
use wakeline_store::flow::Envelope;
use wakeline_testkit::faults::{FlowMutation, FlowWrite};
use wakeline_testkit::oracle::MemoryStore;

use super::world::{Chaos, World};
use super::{PATIENCE, PROGRAMS, episode};
use crate::support::{Store, long};

/// How long the world of a defect waits on a real store, whose time does not fly, for what never
/// comes. Without the defect it comes sooner: its outages last for up to 27 s.
const fn short_patience(chaos: Chaos) -> Duration {
    Duration::from_secs(if matches!(chaos, Chaos::Kills) { 20 } else { 45 })
}
/// Episodes in which a defect must show.
const EPISODES: u64 = 20;

/// The ids of children name neither the execution nor the life of their parent.
fn children_without_execution() -> FlowMutation {
    Box::new(|write| {
        let FlowWrite::Commit(commit) = write else { return };
        for envelope in commit.messages.iter_mut().filter(|envelope| envelope.starts.is_some()) {
            let id = envelope.instance.as_str().to_owned();
            let Some((parent, number)) = id.rsplit_once("::") else { continue };
            let Some(event) = number.split('.').nth(1) else { continue };
            readdress(envelope, &id, &format!("{parent}::{event}"));
        }
    })
}

fn readdress(envelope: &mut Envelope, from: &str, to: &str) {
    let payload = String::from_utf8(envelope.payload.to_vec()).expect("text");
    envelope.payload = Bytes::from(payload.replace(from, to));
    envelope.instance = InstanceId::new(to).expect("valid");
}

/// Of the events before a start only the first thousand arrive: a turn takes no more along, and the
/// start comes behind them.
fn early_events_of_a_thousand() -> FlowMutation {
    // By instance, until it is started.
    let early: Mutex<HashMap<InstanceId, Option<u32>>> = Mutex::default();
    Box::new(move |write| {
        let FlowWrite::Enqueue(envelopes) = write else { return };
        for envelope in envelopes.iter_mut() {
            let mut early = early.lock();
            let count = early.entry(envelope.instance.clone()).or_insert(Some(0));
            match count {
                _ if envelope.starts.is_some() => *count = None,
                Some(count) if *count < 1_000 => *count += 1,
                Some(_) => envelope.instance = InstanceId::new("nobody").expect("valid"),
                None => {}
            }
        }
    })
}

/// The transaction ids of pushes do not name the life of their instance.
fn pushes_without_life() -> FlowMutation {
    Box::new(|write| {
        let FlowWrite::Commit(commit) = write else { return };
        for push in &mut commit.pushes {
            let id = push.transaction_id.as_str().to_owned();
            let (decision, _) = id.rsplit_once('/').expect("an identity");
            push.transaction_id = TransactionId::new(decision).expect("valid");
        }
    })
}

/// The result of an activity is discarded after six tries to store it.
fn six_tries() -> FlowMutation {
    let tries: Mutex<HashMap<FlowToken, u32>> = Mutex::default();
    Box::new(move |write| {
        let FlowWrite::Complete(completion) = write else { return };
        let mut tries = tries.lock();
        let count = tries.entry(completion.token).or_default();
        *count += 1;
        if *count > 6 {
            completion.token.key = uuid::Uuid::nil();
        }
    })
}

/// An instance that ends leaves its children as they are.
fn children_that_stay_open() -> FlowMutation {
    Box::new(|write| {
        let FlowWrite::Commit(commit) = write else { return };
        let closes = |payload: &[u8]| payload.starts_with(b"{\"close_children\"");
        commit.messages.retain(|envelope| !closes(&envelope.payload));
    })
}

type Defect = (fn() -> FlowMutation, Chaos);

const CHILDREN_WITHOUT_EXECUTION: Defect = (children_without_execution, Chaos::Kills);
/// Whoever counts them is not killed.
const EARLY_EVENTS_OF_A_THOUSAND: Defect = (early_events_of_a_thousand, Chaos::Outages);
const PUSHES_WITHOUT_LIFE: Defect = (pushes_without_life, Chaos::Kills);
const SIX_TRIES: Defect = (six_tries, Chaos::Outages);
const CHILDREN_THAT_STAY_OPEN: Defect = (children_that_stay_open, Chaos::Outages);

/// Whether an episode with a defect finds it.
async fn shows(
    (mutation, chaos): Defect,
    seed: u64,
    (store, patience): (Arc<dyn WholeStore>, Duration),
) -> bool {
    let world = World::with_defect(store, chaos, (mutation, patience)).await;
    let ended = episode(world, seed, PROGRAMS).await;
    ended.inspect_err(|error| eprintln!("{error}")).is_err()
}

async fn is_found_in_memory(defect: Defect) {
    for seed in 0..EPISODES {
        let store = Arc::new(MemoryStore::with_tokio_clock());
        if shows(defect, seed, (store, PATIENCE)).await {
            return;
        }
    }
    panic!("not found in {EPISODES} episodes");
}

/// On SQLite; in the long run on PostgreSQL, too.
async fn is_found_in_stores(defect: Defect) {
    let stores: &[bool] = if long() { &[false, true] } else { &[false] };
    for postgres in stores {
        let mut found = None;
        let began = std::time::Instant::now();
        for seed in 0..EPISODES {
            // What a defect left behind is no part of the next episode.
            let store = if *postgres { Store::postgres().await } else { Store::sqlite() };
            if shows(defect, seed, (store.open().await, short_patience(defect.1))).await {
                found = Some((store.name(), seed));
                break;
            }
        }
        let (name, seed) = found.expect("found in one of the episodes");
        eprintln!("found on {name} with seed {seed} after {:?}", began.elapsed());
    }
}

macro_rules! defects {
    ($($name:ident: $defect:expr,)*) => {
        mod in_memory {
            use super::*;

            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                is_found_in_memory($defect).await;
            })*
        }

        mod in_stores {
            use super::*;

            $(#[tokio::test]
            async fn $name() {
                is_found_in_stores($defect).await;
            })*
        }
    };
}

defects! {
    children_that_take_the_ids_of_earlier_ones_are_found: CHILDREN_WITHOUT_EXECUTION,
    early_events_beyond_a_thousand_that_are_lost_are_found: EARLY_EVENTS_OF_A_THOUSAND,
    pushes_of_another_life_that_are_lost_are_found: PUSHES_WITHOUT_LIFE,
    results_that_are_discarded_are_found: SIX_TRIES,
    children_that_are_not_closed_are_found: CHILDREN_THAT_STAY_OPEN,
}
