//! Lost answers: the node does not know whether a call was executed.

use std::time::Duration;

use wakeline_core::HookLine;
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::StoreAdmin as _;
use wakeline_store::hook::{EmitOutcome, HookStore as _};
use wakeline_testkit::database::connect;
use wakeline_testkit::hook_conformance::{
    capped, earliest_due, fifo, items, message, messages_of, plain, pulled, push, request,
};

use super::stage::Stage;
use crate::support::Proxy;

#[tokio::test]
async fn an_emit_whose_answer_was_lost_reports_its_changes_and_its_leases_are_found() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    // The endpoint is ordered, so that the second attempt waits for the first.
    bench.with(fifo(1)).await;
    let fetched = bench.with(pulled()).await;
    let proxy = Proxy::start().await;
    let options = PostgresOptions { url: proxy.url(&stage.options.url), ..stage.options.clone() };
    let store = PostgresStore::connect(options).await.expect("a store");
    let new = message(bench.app);
    let (id, request) = (new.id, request(1));
    // Another message with the same id makes the first attempt wait while it holds all its locks.
    stage
        .run(&format!(
            "BEGIN; INSERT INTO hook_messages (application_id, message_id, event_type, created_at, \
             expires_at) VALUES ('{}', '{}', 'a', now(), now())",
            bench.app.0, id.0
        ))
        .await;
    let (of, requests) = (store.clone(), vec![request.clone()]);
    let emit = stage.held_up(async move { of.emit(new, requests).await }).await;
    proxy.cut();
    stage.run("ROLLBACK").await;
    let reply = emit.await.expect("no panic").expect("the second try is answered");
    assert!(matches!(&reply.outcome, EmitOutcome::Repeated(same) if same.id == id), "{reply:?}");
    for line in [HookLine::Push, HookLine::Pull(fetched)] {
        assert_eq!(earliest_due(&reply.changes, &line), Some(Duration::ZERO), "{reply:?}");
    }
    let claimed = store.claim_deliveries(vec![push(vec![request.clone()])]).await.expect("claimed");
    let got = items(&claimed[0].groups[0]);
    assert_eq!(messages_of(&got), [id], "what the first try leased");
    assert_eq!((got[0].token.attempt, got[0].attempt_no), (request.attempts[0], 1));
    store.close().await;
    stage.close().await;
}

#[tokio::test]
async fn a_claim_that_fails_while_it_waits_for_locks_returns_what_it_has_leased() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    bench.with(capped(1)).await;
    let busy = bench.with(plain()).await;
    bench.emit_many(50).await;
    stage
        .run(&format!("BEGIN; SELECT FROM hook_states WHERE endpoint_id = '{}' FOR UPDATE", busy.0))
        .await;
    // Closes the connection that waits for the other transaction.
    let (killer, pid) = (connect(&stage.options.url).await, stage.pid().await);
    let kill = format!(
        "DO $$ BEGIN LOOP
             PERFORM pg_terminate_backend(a.pid) FROM pg_stat_activity a
             WHERE a.wait_event_type = 'Lock' AND {pid} = ANY (pg_blocking_pids(a.pid));
             EXIT WHEN FOUND;
             PERFORM pg_stat_clear_snapshot(), pg_sleep(0.002);
         END LOOP; END $$"
    );
    let killing = tokio::spawn(async move { killer.batch_execute(&kill).await });
    for _ in 0..50 {
        let claimed = bench.claim(push(vec![request(5)])).await;
        let got = items(&claimed.groups[0]);
        assert_eq!(got.len(), 1, "the other endpoint's");
        assert!(claimed.next_due.is_some(), "there is more");
        bench.deliver(&got[0]).await;
        if killing.is_finished() {
            break;
        }
    }
    assert!(killing.is_finished(), "a connection was ended while it waited");
    killing.await.expect("no panic").expect("it found one");
    stage.run("COMMIT").await;
    stage.close().await;
}
