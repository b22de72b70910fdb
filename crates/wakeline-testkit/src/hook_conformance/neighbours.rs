//! Rules of calls with one invalid command among nine valid ones: the valid ones succeed.

use std::time::Duration;

use futures_util::future::join_all;
use wakeline_core::{ApplicationId, ApplicationRef};
use wakeline_store::StoreError;
use wakeline_store::hook::{EmitOutcome, NewApplication, NewMessage, SettledState};

use super::{HookBench, application, plain, success};

/// The number of commands in a call, and the index of the invalid one.
const CALLS: usize = 10;
const WRONG: usize = 5;

/// Counts the successful answers; only the invalid command may fail, with a permanent error.
fn unharmed<T>(
    answers: Vec<Result<Result<T, StoreError>, tokio::task::JoinError>>,
    good: impl Fn(&T) -> bool,
) -> usize {
    let mut unharmed = 0;
    for (n, answer) in answers.into_iter().enumerate() {
        match answer.expect("no command panics") {
            Ok(reply) => unharmed += usize::from(n != WRONG && good(&reply)),
            Err(error) => assert_eq!((n, error.is_transient()), (WRONG, false), "{error}"),
        }
    }
    unharmed
}

/// The invalid message belongs to an application that does not exist.
pub async fn a_wrong_message_leaves_its_neighbours_untouched(bench: &HookBench) {
    bench.with(plain()).await;
    let emits = (0..CALLS).map(|n| {
        let name = NewApplication { name: "a\0b".to_owned(), ..application(Some("new")) };
        let wrong = NewMessage {
            application: ApplicationRef::Id(ApplicationId::generate()),
            create_application: Some(name),
            retention: Duration::MAX,
            ..bench.message()
        };
        let new = if n == WRONG { wrong } else { bench.message() };
        let hook = bench.hook.clone();
        tokio::spawn(async move { hook.emit(new, Vec::new()).await })
    });
    let emitted = join_all(emits).await;
    let good =
        |reply: &wakeline_store::hook::EmitReply| matches!(reply.outcome, EmitOutcome::Stored(..));
    assert_eq!(unharmed(emitted, good), CALLS - 1);
    assert!(bench.taken(2 * CALLS).await.len() >= CALLS - 1);
}

/// The invalid attempt began before the earliest time that can be stored.
pub async fn a_wrong_end_leaves_its_neighbours_untouched(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(CALLS).await;
    let items = bench.take(CALLS).await;
    let ends = items.iter().enumerate().map(|(n, item)| {
        let mut end = success(item.token);
        if n == WRONG {
            (end.record.began_ago, end.record.url) = (Duration::MAX, "a\0b".to_owned());
        }
        let hook = bench.hook.clone();
        tokio::spawn(async move { hook.settle_deliveries(vec![end]).await })
    });
    let good = |settled: &Vec<wakeline_store::hook::SettledDelivery>| {
        settled[0].state == SettledState::Delivered
    };
    assert_eq!(unharmed(join_all(ends).await, good), CALLS - 1);
}
