//! Commits that exceed the statement timeout. SQLite has no such limit.

use std::time::Duration;

use futures_util::future::join_all;
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::flow::{FlowStore as _, TurnItem, TurnOutcome};
use wakeline_store::{StoreAdmin as _, StoreError};
use wakeline_testkit::flow_conformance::{MAIN, capabilities, start, step, turn_line};
use wakeline_testkit::timings::set_up;

use crate::support::TestSchema;

/// A trigger that makes writing the history of one instance too slow.
const SLOW: &str = "
    CREATE FUNCTION wakeline.sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.lane_id = (SELECT lane_id FROM wakeline.flow_lanes WHERE instance = 'slow') THEN
            PERFORM pg_sleep(60);
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER sleep BEFORE INSERT ON wakeline.flow_history
    FOR EACH ROW EXECUTE FUNCTION wakeline.sleep()";

/// Leases turns of instances with these names, in this order, for longer than the test.
async fn turns<const N: usize>(store: &PostgresStore, names: [&str; N]) -> [TurnItem; N] {
    store.enqueue(names.map(start).to_vec(), vec![]).await.expect("started");
    let mut line = turn_line(&capabilities(&[MAIN]), N);
    line.requests.iter_mut().for_each(|request| request.lease = Duration::from_secs(3600));
    let turns = store.claim_turns(vec![line]).await.expect("claimed").remove(0).turns;
    let mut turns: Vec<_> = turns.into_iter().flatten().collect();
    turns.sort_by_key(|turn| names.iter().position(|name| *name == turn.instance.as_str()));
    turns.try_into().expect("a turn of each")
}

/// Commits a turn. The error says whether it exceeded the time limit.
async fn commit(store: &PostgresStore, turn: &TurnItem) -> Result<(), bool> {
    match store.commit_turn(step(turn)).await {
        Ok(reply) => {
            assert!(matches!(reply.outcome, TurnOutcome::Committed { .. }), "{:?}", reply.outcome);
            Ok(())
        }
        Err(error @ StoreError::Transient { .. }) => Err(error.exceeded_time_limit()),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_commit_that_is_slow_by_itself_is_distinguished_from_those_that_wait() {
    let schema = TestSchema::new().await;
    let statement_timeout = Duration::from_millis(500);
    let options = PostgresOptions { statement_timeout, ..schema.options() };
    let store = set_up(PostgresStore::connect(options)).await.expect("a store");
    let [slow, locked, other] = turns(&store, ["slow", "locked", "other"]).await;
    let user = schema.client().await;
    user.batch_execute(SLOW).await.expect("made");
    let lock = "BEGIN; SELECT FROM wakeline.flow_lanes WHERE instance = 'locked' FOR UPDATE";
    user.batch_execute(lock).await.expect("locked");
    // It is unknown which commit of a fused call takes so long.
    let first = join_all([&slow, &locked, &other].map(|turn| commit(&store, turn))).await;
    assert!(first[..2].iter().all(|first| *first == Err(false)), "{first:?}");
    assert_eq!(commit(&store, &slow).await, Err(true));
    assert_eq!(commit(&store, &locked).await, Err(false), "it waited for a lock");
    if first[2].is_err() {
        assert_eq!(commit(&store, &other).await, Ok(()), "it shared a call with a slow one");
    }
    user.batch_execute("ROLLBACK; DROP TRIGGER sleep ON wakeline.flow_history").await.expect("ok");
    for turn in [&slow, &locked] {
        assert_eq!(commit(&store, turn).await, Ok(()), "{}", turn.instance);
    }
    store.close().await;
}
