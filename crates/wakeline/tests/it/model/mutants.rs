//! Mutations that the random programs must find. Each was once a defect of the product.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use wakeline::core::{FlowToken, InstanceId, TransactionId};
use wakeline_store::Backend;
use wakeline_store::flow::Envelope;
use wakeline_testkit::faults::{FlowMutation, FlowWrite};
use wakeline_testkit::oracle::MemoryStore;

use super::world::{Disturbance, World};
use super::{PROGRAMS, WAIT_MAX, episode};
use crate::support::{Store, long};

/// How long the world of a mutation waits on a real store, whose clock is not paused, for something
/// that never happens. Without the mutation it happens earlier: outages last for up to 27 s.
const fn short_patience(disturbance: Disturbance) -> Duration {
    Duration::from_secs(if matches!(disturbance, Disturbance::Kills) { 20 } else { 45 })
}
/// The number of episodes within which a mutation must be found.
const EPISODES: u64 = 20;

/// The ids of children contain neither the execution nor the identity of their parent.
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

/// Only the first thousand events before a start arrive, because a turn takes no more and the start
/// follows them.
fn early_events_of_a_thousand() -> FlowMutation {
    // The number of events by instance, until it is started.
    let early: Mutex<HashMap<InstanceId, Option<u32>>> = Mutex::default();
    Box::new(move |write| {
        let FlowWrite::Enqueue(envelopes) = write else { return };
        for envelope in envelopes.iter_mut() {
            let mut early = early.lock();
            let count = early.entry(envelope.instance.clone()).or_insert(Some(0));
            match count {
                _ if envelope.starts.is_some() => *count = None,
                Some(count) if *count < 1_000 => *count += 1,
                Some(_) => envelope.instance = InstanceId::new("unknown").expect("valid"),
                None => {}
            }
        }
    })
}

/// The transaction ids of pushes do not contain the identity of their instance.
fn pushes_without_identity() -> FlowMutation {
    Box::new(|write| {
        let FlowWrite::Commit(commit) = write else { return };
        for push in &mut commit.pushes {
            let id = push.transaction_id.as_str().to_owned();
            let (decision, _) = id.rsplit_once('/').expect("an identity");
            push.transaction_id = TransactionId::new(decision).expect("valid");
        }
    })
}

/// The result of an activity is discarded after six attempts to store it.
fn six_attempts() -> FlowMutation {
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

/// An instance that ends does not close its children.
fn children_that_stay_open() -> FlowMutation {
    Box::new(|write| {
        let FlowWrite::Commit(commit) = write else { return };
        let closes = |payload: &[u8]| payload.starts_with(b"{\"close_children\"");
        commit.messages.retain(|envelope| !closes(&envelope.payload));
    })
}

/// A mutation, and the disturbances under which it is found.
#[derive(Clone, Copy)]
struct MutationCase {
    mutation: fn() -> FlowMutation,
    disturbance: Disturbance,
}

const fn case(mutation: fn() -> FlowMutation, disturbance: Disturbance) -> MutationCase {
    MutationCase { mutation, disturbance }
}

const CHILDREN_WITHOUT_EXECUTION: MutationCase =
    case(children_without_execution, Disturbance::Kills);
/// Processes are not killed, because the mutation counts events in memory.
const EARLY_EVENTS_OF_A_THOUSAND: MutationCase =
    case(early_events_of_a_thousand, Disturbance::Outages);
const PUSHES_WITHOUT_IDENTITY: MutationCase = case(pushes_without_identity, Disturbance::Kills);
const SIX_ATTEMPTS: MutationCase = case(six_attempts, Disturbance::Outages);
const CHILDREN_THAT_STAY_OPEN: MutationCase = case(children_that_stay_open, Disturbance::Outages);

/// Whether an episode with a mutation finds it.
async fn shows(case: MutationCase, seed: u64, store: Arc<dyn Backend>, patience: Duration) -> bool {
    let world = World::with_mutation(store, case.disturbance, case.mutation, patience).await;
    let ended = episode(world, seed, PROGRAMS).await;
    ended.inspect_err(|error| eprintln!("{error}")).is_err()
}

async fn is_found_in_memory(case: MutationCase) {
    for seed in 0..EPISODES {
        let store = Arc::new(MemoryStore::with_tokio_clock());
        if shows(case, seed, store, WAIT_MAX).await {
            return;
        }
    }
    panic!("not found in {EPISODES} episodes");
}

/// Runs on SQLite, and in the long run on PostgreSQL too.
async fn is_found_in_stores(case: MutationCase) {
    let stores: &[bool] = if long() { &[false, true] } else { &[false] };
    for postgres in stores {
        let mut found = None;
        let began = std::time::Instant::now();
        for seed in 0..EPISODES {
            // Each episode has a new store, without what the mutation left behind.
            let store = if *postgres { Store::postgres().await } else { Store::sqlite() };
            let patience = short_patience(case.disturbance);
            if shows(case, seed, store.open().await, patience).await {
                found = Some((store.name(), seed));
                break;
            }
        }
        let (name, seed) = found.expect("found in one of the episodes");
        eprintln!("found on {name} with seed {seed} after {:?}", began.elapsed());
    }
}

macro_rules! mutations {
    ($($name:ident: $case:expr,)*) => {
        mod in_memory {
            use super::*;

            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                is_found_in_memory($case).await;
            })*
        }

        mod in_stores {
            use super::*;

            $(#[tokio::test]
            async fn $name() {
                is_found_in_stores($case).await;
            })*
        }
    };
}

mutations! {
    reused_child_ids_are_found: CHILDREN_WITHOUT_EXECUTION,
    lost_early_events_beyond_a_thousand_are_found: EARLY_EVENTS_OF_A_THOUSAND,
    lost_pushes_of_an_instance_with_a_reused_id_are_found: PUSHES_WITHOUT_IDENTITY,
    discarded_results_are_found: SIX_ATTEMPTS,
    children_left_open_are_found: CHILDREN_THAT_STAY_OPEN,
}
