//! Rules of calls with one invalid command among nine valid ones: the valid ones succeed.

use futures_util::future::join_all;
use uuid::Uuid;
use wakeline_core::{FlowToken, Timestamp};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    Completion, EnqueueOutcome, Envelope, RenewOutcome, StatusChange, TurnCommit, TurnOutcome,
    Visible, WorkOutcome,
};

use super::{FlowBench, MAIN, Worker, capabilities, event, id, start, step, turn_line, work};

/// The number of commands in a call, and the index of the invalid one.
const CALLS: usize = 10;
const WRONG: usize = 5;

/// A time that is later than some stores can represent.
const NEVER: Visible = Visible::At(Timestamp(i64::MAX));

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

/// The invalid message cannot be stored.
pub async fn a_wrong_message_leaves_its_neighbours_untouched(bench: &FlowBench) {
    let sends = (0..CALLS).map(|n| {
        let envelope = match n {
            WRONG => Envelope { visible: NEVER, ..event("i", "never") },
            _ => event(&format!("i{n}"), "e"),
        };
        let flow = bench.flow.clone();
        tokio::spawn(async move { flow.enqueue(vec![envelope], Vec::new()).await })
    });
    let sent = join_all(sends).await;
    assert_eq!(unharmed(sent, |reply| reply.outcomes == [EnqueueOutcome::Queued]), CALLS - 1);
}

/// The invalid turn has a status that cannot be stored.
pub async fn a_wrong_commit_leaves_its_neighbours_untouched(bench: &FlowBench) {
    bench.send((0..CALLS).map(|n| start(&format!("i{n}"))).collect()).await;
    let line = turn_line(&capabilities(&[MAIN]), CALLS);
    let turns = bench.claim_turns(vec![line]).await.remove(0).turns;
    let commits = turns.into_iter().flatten().map(|turn| {
        let wrong = turn.instance == id(&format!("i{WRONG}"));
        let text = if wrong { "a\0b" } else { "fine" }.to_owned();
        let commit = TurnCommit { status: vec![StatusChange::Set(text)], ..step(&turn) };
        let flow = bench.flow.clone();
        tokio::spawn(async move { flow.commit_turn(commit).await })
    });
    let good = |reply: &wakeline_store::flow::TurnReply| {
        matches!(reply.outcome, TurnOutcome::Committed { .. })
    };
    assert_eq!(unharmed(join_all(commits).await, good), CALLS - 1);
}

/// The message of the invalid completion cannot be stored.
pub async fn a_wrong_completion_leaves_its_neighbours_untouched(bench: &FlowBench) {
    bench.running("a").await;
    let all: Vec<_> = (0..CALLS as u64).map(|n| work("a", n)).collect();
    bench.turned("a", |turn| TurnCommit { work: all, ..step(turn) }).await;
    let items = bench.claim_work(vec![Worker::plain().claim(CALLS)]).await.remove(0).work;
    let completions = items.into_iter().flatten().enumerate().map(|(n, item)| {
        let visible = if n == WRONG { NEVER } else { Visible::Now };
        let message = Some(Envelope { visible, ..event("a", "done") });
        let completion = Completion { token: item.token, message };
        let flow = bench.flow.clone();
        tokio::spawn(async move { flow.complete_work(completion, Vec::new()).await })
    });
    let done = join_all(completions).await;
    let good = WorkOutcome::Completed(Some(EnqueueOutcome::Queued));
    assert_eq!(unharmed(done, |reply| reply.outcome == good), CALLS - 1);
}

/// The invalid renewal concerns a lease that never existed, for longer than can be represented.
pub async fn a_wrong_renewal_leaves_its_neighbours_untouched(bench: &FlowBench) {
    bench.send((0..CALLS).map(|n| start(&format!("i{n}"))).collect()).await;
    let line = turn_line(&capabilities(&[MAIN]), CALLS);
    let turns = bench.claim_turns(vec![line]).await.remove(0).turns;
    let renewals = turns.into_iter().flatten().enumerate().map(|(n, turn)| {
        let stray = FlowToken { lane: i64::MIN, work: None, key: Uuid::new_v4() };
        let (token, span) = match n {
            WRONG => (stray, std::time::Duration::MAX),
            _ => (turn.token, super::LEASE),
        };
        let flow = bench.flow.clone();
        tokio::spawn(async move { flow.renew(vec![token], span).await })
    });
    let good = |outcomes: &Vec<RenewOutcome>| matches!(outcomes[..], [RenewOutcome::Renewed(_)]);
    assert_eq!(unharmed(join_all(renewals).await, good), CALLS - 1);
}
