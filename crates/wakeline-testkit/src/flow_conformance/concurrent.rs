//! Rules that must hold for concurrent calls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use wakeline_core::InstanceId;
use wakeline_store::flow::{
    Completion, EnqueueOutcome, TurnCommit, TurnItem, TurnOutcome, WorkItem, WorkOutcome,
};

use super::{
    Flow, FlowBench, MAIN, Worker, capabilities, event, id, in_session, start, step, texts,
    turn_line, work,
};

/// Claims until it gets a turn. A claim that lost a race reports a short wait.
async fn turn_in_a_race(flow: Arc<dyn Flow>) -> TurnItem {
    let line = capabilities(&[MAIN]);
    for _ in 0..1_000 {
        let mut answer = flow.claim_turns(vec![turn_line(&line, 1)]).await.expect("it is answered");
        let mut answer = answer.remove(0);
        if let Some(turn) = answer.turns.remove(0) {
            return turn;
        }
        let wait = answer.next_due;
        assert!(wait.is_some_and(|wait| wait < Duration::from_secs(25)), "none left: {wait:?}");
        tokio::task::yield_now().await;
    }
    panic!("a thousand claims lost every race");
}

/// Claims until it gets work.
async fn work_in_a_race(flow: Arc<dyn Flow>) -> WorkItem {
    for _ in 0..1_000 {
        let mut answer =
            flow.claim_work(vec![Worker::plain().claim(1)]).await.expect("it is answered");
        let mut answer = answer.remove(0);
        if let Some(work) = answer.work.remove(0) {
            return work;
        }
        let wait = answer.next_due;
        assert!(wait.is_some_and(|wait| wait < Duration::from_secs(25)), "none left: {wait:?}");
        tokio::task::yield_now().await;
    }
    panic!("a thousand claims lost every race");
}

/// Ten claims for ten lanes get one each, in several rounds.
pub async fn racing_claims_share_the_turns(bench: &FlowBench) {
    for round in 0..10 {
        let names: Vec<_> = (0..10).map(|n| format!("{round}-{n}")).collect();
        bench.send(names.iter().map(|name| start(name)).collect()).await;
        let claims = (0..10).map(|_| tokio::spawn(turn_in_a_race(bench.flow.clone())));
        let turns: Vec<TurnItem> =
            join_all(claims).await.into_iter().map(|turn| turn.expect("no claim panics")).collect();
        let got: BTreeSet<InstanceId> = turns.iter().map(|turn| turn.instance.clone()).collect();
        assert_eq!(got, names.iter().map(|name| id(name)).collect(), "none twice, none left");
        assert!(turns.iter().all(|turn| turn.attempt == 1), "round {round}");
        let commits = turns.into_iter().map(|turn| {
            let flow = bench.flow.clone();
            tokio::spawn(async move { flow.commit_turn(step(&turn)).await })
        });
        for reply in join_all(commits).await {
            let reply = reply.expect("no commit panics").expect("it is answered");
            assert!(matches!(reply.outcome, TurnOutcome::Committed { .. }), "{reply:?}");
        }
    }
}

/// Of many claims for one lane, one gets it.
pub async fn a_lane_has_one_holder_in_a_race(bench: &FlowBench) {
    bench.start("a").await;
    let claims = (0..8).map(|_| {
        let flow = bench.flow.clone();
        tokio::spawn(
            async move { flow.claim_turns(vec![turn_line(&capabilities(&[MAIN]), 1)]).await },
        )
    });
    let mut holders = 0;
    for answer in join_all(claims).await {
        let answer = answer.expect("no claim panics").expect("it is answered");
        holders += answer[0].turns.iter().flatten().count();
    }
    assert_eq!(holders, 1);
}

/// Ten claims for ten activities get one each.
pub async fn racing_claims_share_the_work(bench: &FlowBench) {
    for round in 0..10_u64 {
        for n in 0..10 {
            bench.add_work(work("a", round * 10 + n)).await;
        }
        let claims = (0..10).map(|_| tokio::spawn(work_in_a_race(bench.flow.clone())));
        let mut got = BTreeSet::new();
        for item in join_all(claims).await {
            let item = item.expect("no claim panics");
            assert!(got.insert(item.key.activity), "twice in round {round}");
            assert!(bench.completes(item.token).await);
        }
        assert_eq!(got.len(), 10);
    }
}

/// Of many commits with one token, one counts.
pub async fn racing_commits_of_one_turn_count_once(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let commits = (0..8).map(|n| {
        let (flow, turn) = (bench.flow.clone(), turn.clone());
        tokio::spawn(async move {
            let messages = vec![event("b", &n.to_string())];
            flow.commit_turn(TurnCommit { messages, ..step(&turn) }).await
        })
    });
    let mut committed = 0;
    for reply in join_all(commits).await {
        match reply.expect("no commit panics").expect("it is answered").outcome {
            TurnOutcome::Committed { .. } => committed += 1,
            outcome => assert_eq!(outcome, TurnOutcome::Stale),
        }
    }
    assert_eq!(committed, 1);
    bench.start("b").await;
    assert_eq!(bench.turn().await.messages.len(), 2, "one message, and the start");
}

/// Of many completions with one token, one counts.
pub async fn racing_completions_count_once(bench: &FlowBench) {
    bench.running("a").await;
    bench.add_work(work("a", 1)).await;
    let item = bench.work(&Worker::plain()).await;
    let completions = (0..8).map(|_| {
        let flow = bench.flow.clone();
        let completion = Completion { token: item.token, message: Some(event("a", "done")) };
        tokio::spawn(async move { flow.complete_work(completion, Vec::new()).await })
    });
    let mut completed = 0;
    for reply in join_all(completions).await {
        let reply = reply.expect("no completion panics").expect("it is answered");
        completed += usize::from(reply.outcome != WorkOutcome::Stale);
    }
    assert_eq!(completed, 1);
    assert_eq!(texts(&bench.turn().await), ["done"]);
}

/// Of many starts of one id, one counts.
pub async fn racing_starts_of_one_instance_count_once(bench: &FlowBench) {
    for round in 0..5 {
        let name = format!("i{round}");
        let starts = (0..8).map(|_| {
            let (flow, envelope) = (bench.flow.clone(), start(&name));
            tokio::spawn(async move { flow.enqueue(vec![envelope], Vec::new()).await })
        });
        let mut queued = 0;
        for reply in join_all(starts).await {
            let reply = reply.expect("no start panics").expect("it is answered");
            queued += usize::from(reply.outcomes == [EnqueueOutcome::Queued]);
        }
        assert_eq!(queued, 1);
        assert_eq!(bench.turn().await.messages.len(), 1);
    }
}

/// Concurrent completions for one instance lose no message.
pub async fn racing_completions_into_one_lane_lose_nothing(bench: &FlowBench) {
    bench.running("a").await;
    let all: Vec<_> = (0..40).map(|n| work("a", n)).collect();
    bench.turned("a", |turn| TurnCommit { work: all, ..step(turn) }).await;
    let answer = bench.claim_work(vec![Worker::plain().claim(40)]).await.remove(0);
    let completions = answer.work.into_iter().flatten().map(|item| {
        let flow = bench.flow.clone();
        let message = Some(event("a", &item.key.activity.to_string()));
        let completion = Completion { token: item.token, message };
        tokio::spawn(async move { flow.complete_work(completion, Vec::new()).await })
    });
    for reply in join_all(completions).await {
        let reply = reply.expect("no completion panics").expect("it is answered");
        assert_eq!(reply.outcome, WorkOutcome::Completed(Some(EnqueueOutcome::Queued)));
    }
    let turn = bench.turn().await;
    let got: BTreeSet<_> = texts(&turn).into_iter().collect();
    assert_eq!((turn.messages.len(), got.len()), (40, 40));
}

/// Messages that race with the end of a turn are delivered.
pub async fn a_message_that_races_with_a_commit_is_not_forgotten(bench: &FlowBench) {
    bench.start("a").await;
    let mut turn = bench.turn().await;
    for round in 0..20 {
        let (flow, text) = (bench.flow.clone(), round.to_string());
        let send = tokio::spawn(async move {
            flow.enqueue(vec![event("a", &text)], Vec::new()).await.map(|_| ())
        });
        let (flow, commit) = (bench.flow.clone(), step(&turn));
        let commit = tokio::spawn(async move { flow.commit_turn(commit).await.map(|_| ()) });
        for done in join_all([send, commit]).await {
            done.expect("no call panics").expect("it is answered");
        }
        turn = turn_in_a_race(bench.flow.clone()).await;
        assert_eq!(texts(&turn), [round.to_string()]);
    }
}

/// Of several owners that claim a session at once, one gets it.
pub async fn a_session_has_one_owner_in_a_race(bench: &FlowBench) {
    for round in 0..5_u64 {
        let session = format!("s{round}");
        for n in 0..8 {
            bench.add_work(in_session("a", round * 8 + n, &session)).await;
        }
        let claims = (0..8).map(|n| {
            let (flow, worker) = (bench.flow.clone(), Worker::owning(&format!("owner {n}")));
            tokio::spawn(async move { (n, flow.claim_work(vec![worker.claim(1)]).await) })
        });
        let mut owners = BTreeSet::new();
        for claim in join_all(claims).await {
            let (n, answer) = claim.expect("no claim panics");
            if answer.expect("it is answered")[0].work[0].is_some() {
                owners.insert(n);
            }
        }
        assert_eq!(owners.len(), 1, "round {round}");
        bench.advance(100).await;
        let mut taken = 0;
        while taken < 8 {
            let item = bench.work(&Worker::owning("tidy")).await;
            assert!(bench.completes(item.token).await);
            taken += 1;
        }
        bench.advance(100).await;
    }
}

/// Turns that send to each other at once do not deadlock.
pub async fn turns_that_send_crosswise_do_not_block_each_other(bench: &FlowBench) {
    let names: Vec<_> = (0..4).map(|n| format!("i{n}")).collect();
    bench.send(names.iter().map(|name| start(name)).collect()).await;
    for _ in 0..10 {
        let line = capabilities(&[MAIN]);
        let answer = bench.claim_turns(vec![turn_line(&line, 4)]).await.remove(0);
        let commits = answer.turns.into_iter().flatten().map(|turn| {
            let (flow, messages) = (bench.flow.clone(), names.iter().rev());
            let messages = messages.map(|name| event(name, turn.instance.as_str())).collect();
            let commit = TurnCommit { messages, ..step(&turn) };
            tokio::spawn(async move { flow.commit_turn(commit).await })
        });
        for reply in join_all(commits).await {
            let reply = reply.expect("no commit panics").expect("it is answered");
            assert!(matches!(reply.outcome, TurnOutcome::Committed { .. }), "{reply:?}");
        }
    }
    let answer = bench.claim_turns(vec![turn_line(&capabilities(&[MAIN]), 4)]).await.remove(0);
    for turn in answer.turns.iter().flatten() {
        assert_eq!(turn.messages.len(), 4, "one of each in the last round");
    }
}
