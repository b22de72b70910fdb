//! Rules of turns and work that are leased on insert, to requests that arrive with a write.

use wakeline_store::flow::{
    Completion, CompletionReply, EnqueueReply, Envelope, NewWork, RenewOutcome, TurnCommit,
    TurnRequest, WorkRequest,
};

use super::{
    FlowBench, LEASE, MAIN, Worker, after, capabilities, dispatcher, earliest_due, event, id,
    in_session, main_line, nothing, secs, start, start_of, step, tagged, texts, work,
};

impl FlowBench {
    async fn enqueue_for(
        &self,
        envelopes: Vec<Envelope>,
        requests: Vec<TurnRequest>,
    ) -> EnqueueReply {
        self.flow.enqueue(envelopes, requests).await.expect("messages are sent")
    }

    async fn complete_for(
        &self,
        completion: Completion,
        requests: Vec<TurnRequest>,
    ) -> CompletionReply {
        self.flow.complete_work(completion, requests).await.expect("work is completed")
    }
}

fn workers(list: &[Worker]) -> Vec<WorkRequest> {
    list.iter().map(Worker::request).collect()
}

/// A turn that an enqueue makes available is leased to a waiting dispatcher.
pub async fn a_start_is_leased_to_a_dispatcher_that_waits(bench: &FlowBench) {
    let request = dispatcher(&[MAIN]);
    let reply = bench.enqueue_for(vec![start("a"), event("a", "x")], vec![request.clone()]).await;
    let (n, turn) = &reply.turns[0];
    assert_eq!((reply.turns.len(), *n), (1, 0));
    assert_eq!((turn.token.key, turn.attempt, turn.lease_for), (request.key, 1, LEASE));
    assert_eq!((turn.instance.clone(), texts(turn)), (id("a"), vec!["start".into(), "x".into()]));
    assert_eq!(turn.execution, 0);
    assert_eq!(bench.no_turn().await, Some(LEASE), "a lease like any other");
    bench.committed(step(turn)).await;
}

/// A lease made on insert expires, and it counts an attempt.
pub async fn a_turn_leased_on_insert_expires_and_counts(bench: &FlowBench) {
    let reply = bench.enqueue_for(vec![start("a")], vec![dispatcher(&[MAIN])]).await;
    bench.advance(30).await;
    assert_eq!(bench.turn().await.attempt, 2);
    bench.stale(step(&reply.turns[0].1)).await;
}

/// A dispatcher gets only turns that it can run.
pub async fn a_dispatcher_that_cannot_run_it_is_left_alone(bench: &FlowBench) {
    let reply = bench.enqueue_for(vec![start("a")], vec![dispatcher(&["other"])]).await;
    assert!(reply.turns.is_empty());
    assert_eq!(earliest_due(&reply.changes, &main_line()), Some(secs(0)), "others are notified");
    assert_eq!(bench.turn().await.attempt, 1);
}

/// Each of several dispatchers gets a turn that it can run.
pub async fn several_dispatchers_get_what_fits_each(bench: &FlowBench) {
    let envelopes = vec![start_of("a", "one"), start_of("b", "two"), start_of("c", "three")];
    let requests = vec![dispatcher(&["two"]), dispatcher(&["none"]), dispatcher(&["one", "two"])];
    let reply = bench.enqueue_for(envelopes, requests).await;
    let mut got: Vec<_> =
        reply.turns.iter().map(|(n, turn)| (*n, turn.instance.to_string())).collect();
    got.sort();
    assert_eq!(got, [(0, "b".to_owned()), (2, "a".to_owned())]);
    assert_eq!(
        earliest_due(&reply.changes, &wakeline_core::FlowLine::Turns(capabilities(&["three"]))),
        Some(secs(0))
    );
}

/// One lane is leased to one dispatcher.
pub async fn one_lane_is_leased_to_one_dispatcher(bench: &FlowBench) {
    let requests = vec![dispatcher(&[MAIN]), dispatcher(&[MAIN])];
    let reply = bench.enqueue_for(vec![start("a"), event("a", "x")], requests).await;
    assert_eq!(reply.turns.len(), 1);
    assert_eq!(reply.turns[0].0, 0, "in order");
}

/// Nothing is leased on insert while older turns wait.
pub async fn a_dispatcher_is_left_alone_while_older_turns_wait(bench: &FlowBench) {
    bench.start("older").await;
    bench.advance(1).await;
    let reply = bench.enqueue_for(vec![start("a")], vec![dispatcher(&[MAIN])]).await;
    assert!(reply.turns.is_empty(), "{reply:?}");
    assert_eq!(earliest_due(&reply.changes, &main_line()), Some(secs(0)));
    assert_eq!(bench.turn().await.instance, id("older"));
    assert_eq!(bench.turn().await.instance, id("a"));
}

/// Older turns of other capabilities do not count.
pub async fn older_turns_of_other_capabilities_do_not_count(bench: &FlowBench) {
    bench.send(vec![start_of("older", "other")]).await;
    bench.advance(1).await;
    let reply = bench.enqueue_for(vec![start("a")], vec![dispatcher(&[MAIN])]).await;
    assert_eq!(reply.turns.len(), 1);
}

/// A lane that is leased, delayed, suspended or unknown has no available turn.
pub async fn an_unavailable_turn_is_not_leased_on_insert(bench: &FlowBench) {
    bench.start("leased").await;
    bench.turn().await;
    let reason = "held".to_owned();
    bench.send(vec![Envelope { visible: after(60), ..start("suspended") }]).await;
    let suspension = wakeline_store::flow::Suspension::Operator { reason };
    assert!(bench.flow.suspend(&id("suspended"), suspension).await.expect("suspended"));
    let envelopes = vec![
        event("leased", "x"),
        event("suspended", "x"),
        event("unknown", "x"),
        Envelope { visible: after(5), ..start("delayed") },
    ];
    let reply = bench.enqueue_for(envelopes, vec![dispatcher(&[MAIN])]).await;
    assert!(reply.turns.is_empty(), "{reply:?}");
    assert_eq!(bench.no_turn().await, Some(secs(5)));
}

/// A refused message is not stored and leases nothing.
pub async fn a_refused_message_leases_nothing(bench: &FlowBench) {
    bench.completed("a").await;
    let reply =
        bench.enqueue_for(vec![start("a"), event("a", "x")], vec![dispatcher(&[MAIN])]).await;
    assert!(reply.turns.is_empty());
}

/// A completion leases the turn of its message.
pub async fn a_completion_leases_the_turn_that_it_makes_available(bench: &FlowBench) {
    bench.running("a").await;
    bench.turned("a", |turn| TurnCommit { work: vec![work("a", 1)], ..step(turn) }).await;
    let item = bench.work(&Worker::plain()).await;
    let completion = Completion { token: item.token, message: Some(event("a", "done")) };
    let reply = bench.complete_for(completion.clone(), vec![dispatcher(&[MAIN])]).await;
    let turn = &reply.turns[0].1;
    assert_eq!((reply.turns[0].0, texts(turn)), (0, vec!["done".to_owned()]));
    assert_eq!((turn.execution, turn.last_event), (1, 2));
    bench.committed(step(turn)).await;
    let stale = bench.complete_for(completion, vec![dispatcher(&[MAIN])]).await;
    assert!(stale.turns.is_empty());
}

/// A commit leases turns of other instances and the next turn of its own.
pub async fn a_commit_leases_the_turns_that_it_makes_available(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let commit = TurnCommit {
        messages: vec![start_of("child", "child"), event("a", "again")],
        turn_requests: vec![dispatcher(&["child"]), dispatcher(&[MAIN]), dispatcher(&[MAIN])],
        ..step(&turn)
    };
    let reply = bench.committed(commit).await;
    let mut got: Vec<_> =
        reply.turns.iter().map(|(n, turn)| (*n, turn.instance.to_string())).collect();
    got.sort();
    assert_eq!(got, [(0, "child".to_owned()), (1, "a".to_owned())]);
    let own = &reply.turns.iter().find(|(n, _)| *n == 1).expect("its own").1;
    assert_eq!((own.last_event, texts(own)), (1, vec!["again".to_owned()]));
    assert_ne!(own.token, turn.token);
    bench.stale(step(&turn)).await;
    bench.committed(step(own)).await;
}

/// Messages that came during the turn become available at its end.
pub async fn a_commit_leases_its_own_lane_again_for_what_came_meanwhile(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.advance(1).await;
    bench.send(vec![event("a", "meanwhile")]).await;
    let commit = TurnCommit { turn_requests: vec![dispatcher(&[MAIN])], ..step(&turn) };
    let reply = bench.committed(commit).await;
    assert_eq!(texts(&reply.turns[0].1), ["meanwhile"]);
}

/// A commit leases nothing on insert while older turns wait.
pub async fn a_commit_leases_nothing_while_older_turns_wait(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.start("older").await;
    bench.advance(1).await;
    let commit = TurnCommit {
        messages: vec![start("b")],
        turn_requests: vec![dispatcher(&[MAIN])],
        ..step(&turn)
    };
    let reply = bench.committed(commit).await;
    assert!(reply.turns.is_empty(), "{reply:?}");
    assert_eq!(bench.turn().await.instance, id("older"));
}

/// A commit leases its work to waiting workers.
pub async fn a_commit_leases_its_work_to_workers_that_wait(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let requests = workers(&[Worker::of(false, &["gpu"]), Worker::plain(), Worker::plain()]);
    let commit = TurnCommit {
        work: vec![work("a", 1), tagged("a", 2, "gpu"), work("a", 3), work("a", 4)],
        work_requests: requests.clone(),
        ..step(&turn)
    };
    let reply = bench.committed(commit).await;
    let mut got: Vec<_> = (reply.work.iter())
        .map(|(n, item)| (*n, item.key.activity, item.attempt, item.token.key))
        .collect();
    got.sort();
    let keys: Vec<_> = requests.iter().map(|request| request.key).collect();
    assert_eq!(got, [(0, 2, 1, keys[0]), (1, 1, 1, keys[1]), (2, 3, 1, keys[2])]);
    assert!(reply.work.iter().all(|(_, item)| item.state.is_some() && item.lease_for == LEASE));
    assert_eq!(bench.all_work(&Worker::any()).await, [4]);
    bench.advance(30).await;
    assert_eq!(bench.all_work(&Worker::any()).await, [1, 2, 3, 4], "they expire");
}

/// A worker gets nothing on insert while older work waits.
pub async fn a_worker_is_left_alone_while_older_work_waits(bench: &FlowBench) {
    bench.add_work(work("b", 9)).await;
    bench.start("a").await;
    let turn = bench.turn().await;
    let commit = TurnCommit {
        work: vec![work("a", 1), tagged("a", 2, "gpu")],
        work_requests: workers(&[Worker::plain(), Worker::of(false, &["gpu"])]),
        ..step(&turn)
    };
    let reply = bench.committed(commit).await;
    let got: Vec<_> = reply.work.iter().map(|(n, item)| (*n, item.key.activity)).collect();
    assert_eq!(got, [(1, 2)], "only where nothing older fits");
    assert_eq!(earliest_due(&reply.changes, &Worker::plain().line()), Some(secs(0)));
    assert_eq!(bench.all_work(&Worker::plain()).await, [9, 1]);
}

/// Delayed, cancelled and cleared work is not available.
pub async fn unavailable_work_is_not_leased_on_insert(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    let commit = TurnCommit {
        work: vec![
            NewWork { visible: after(5), ..work("a", 1) },
            work("a", 2),
            in_session("a", 3, "s"),
        ],
        cancelled_work: vec![wakeline_store::flow::WorkKey { execution: 1, activity: 2 }],
        work_requests: workers(&[Worker::plain()]),
        ..step(&turn)
    };
    let reply = bench.committed(commit).await;
    assert!(reply.work.is_empty(), "{reply:?}");
    assert_eq!(bench.no_work(&Worker::plain()).await, Some(secs(5)));
}

/// Sessions are treated as by a claim.
pub async fn work_of_a_session_is_leased_on_insert_to_its_owner(bench: &FlowBench) {
    bench.add_work(in_session("b", 9, "s")).await;
    let held = bench.work(&Worker::owning("me")).await;
    bench.start("a").await;
    let turn = bench.turn().await;
    let commit = TurnCommit {
        work: vec![in_session("a", 1, "s"), in_session("a", 2, "new")],
        work_requests: workers(&[Worker::owning("you"), Worker::owning("me")]),
        ..step(&turn)
    };
    let reply = bench.committed(commit).await;
    let mut got: Vec<_> = reply.work.iter().map(|(n, item)| (*n, item.key.activity)).collect();
    got.sort_unstable();
    assert_eq!(got, [(0, 2), (1, 1)]);
    bench.add_work(in_session("a", 3, "new")).await;
    assert_eq!(bench.all_work(&Worker::owning("me")).await, Vec::<u64>::new());
    assert_eq!(bench.all_work(&Worker::owning("you")).await, [3], "the session was claimed");
    assert!(matches!(bench.renew(held.token, 1).await, RenewOutcome::Renewed(_)));
}

/// A stale commit leases nothing.
pub async fn a_stale_commit_leases_nothing(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    bench.committed(nothing(&turn)).await;
    let commit = TurnCommit {
        messages: vec![start("b")],
        work: vec![work("a", 1)],
        turn_requests: vec![dispatcher(&[MAIN])],
        work_requests: workers(&[Worker::plain()]),
        ..step(&turn)
    };
    bench.stale(commit).await;
    assert_eq!(bench.no_turn().await, None);
    assert_eq!(bench.no_work(&Worker::plain()).await, None);
}
