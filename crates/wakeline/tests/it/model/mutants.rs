//! Defects that the random programs must find: each was in the product once.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use wakeline::core::{FlowToken, InstanceId, TransactionId};
use wakeline_store::flow::Envelope;
use wakeline_testkit::faults::{FlowMutation, FlowWrite};
use wakeline_testkit::oracle::MemoryStore;

use super::world::{Chaos, World};
use super::{PROGRAMS, episode};

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

/// Whether episodes with a defect find it.
async fn is_found(mutation: fn() -> FlowMutation, chaos: Chaos) -> bool {
    for seed in 0..20 {
        let store = Arc::new(MemoryStore::with_tokio_clock());
        let world = World::new(store, chaos, Some(mutation)).await;
        if let Err(error) = episode(world, seed, PROGRAMS).await {
            eprintln!("{error}");
            return true;
        }
    }
    false
}

#[tokio::test(start_paused = true)]
async fn children_that_take_the_ids_of_earlier_ones_are_found() {
    assert!(is_found(children_without_execution, Chaos::Kills).await);
}

#[tokio::test(start_paused = true)]
async fn early_events_beyond_a_thousand_that_are_lost_are_found() {
    // Whoever counts them is not killed.
    assert!(is_found(early_events_of_a_thousand, Chaos::Outages).await);
}

#[tokio::test(start_paused = true)]
async fn pushes_of_another_life_that_are_lost_are_found() {
    assert!(is_found(pushes_without_life, Chaos::Kills).await);
}

#[tokio::test(start_paused = true)]
async fn results_that_are_discarded_are_found() {
    assert!(is_found(six_tries, Chaos::Outages).await);
}

#[tokio::test(start_paused = true)]
async fn children_that_are_not_closed_are_found() {
    assert!(is_found(children_that_stay_open, Chaos::Outages).await);
}
