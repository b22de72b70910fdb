//! Two concurrent transactions of webhooks, one of which is kept open at the critical moment.

use wakeline_core::{EndpointId, EndpointRef, HookLine};
use wakeline_store::hook::{DeliveryFilter, EndpointUpdate, JobKind, UpdateOutcome};
use wakeline_testkit::hook_conformance::{application, fifo, plain, uid};

use super::stage::Stage;

fn in_order() -> EndpointUpdate {
    EndpointUpdate { options: Some(fifo(1)), ..EndpointUpdate::default() }
}

fn to(endpoint: EndpointId) -> DeliveryFilter {
    DeliveryFilter { endpoint: Some(endpoint), ..DeliveryFilter::default() }
}

#[tokio::test]
async fn cancelling_does_not_deactivate_an_endpoint_that_a_concurrent_emit_needs() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    bench.with(plain()).await;
    let waits = bench.emit().await;
    let under_way = stage.begin_emit().await;
    assert_eq!(bench.cancel(waits).await, Some(1));
    stage.run("COMMIT").await;
    assert!(bench.sweep(HookLine::Push).await.is_some(), "a sweep finds it");
    assert_eq!(bench.taken(9).await, [under_way]);
    stage.close().await;
}

#[tokio::test]
async fn cancelling_in_bulk_does_not_deactivate_an_endpoint_that_a_concurrent_emit_needs() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    let id = bench.with(fifo(1)).await;
    bench.emit_many(3).await;
    let head = bench.one().await;
    bench.retry(&head, 1_000).await;
    let under_way = stage.begin_emit().await;
    assert_eq!(bench.done(JobKind::Cancel, to(id)).await.changed, 3);
    stage.run("COMMIT").await;
    assert!(bench.sweep(HookLine::Push).await.is_some(), "a sweep finds it");
    assert_eq!(bench.taken(9).await, [under_way]);
    stage.close().await;
}

#[tokio::test]
async fn what_is_resent_while_its_endpoint_becomes_ordered_is_delivered() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    let id = bench.with(plain()).await;
    let failed = bench.failed().await;
    let resend = format!(
        "BEGIN; SELECT hook_resend('{}', NULL, '{}', NULL, '{}', NULL)",
        bench.app.0, failed.0, id.0
    );
    stage.run(&resend).await;
    let (hook, of) = (bench.hook.clone(), bench.of_app());
    let update = async move {
        let endpoint = EndpointRef::Id(id);
        hook.update_endpoint(&of, &endpoint, in_order()).await.map(|_| ())
    };
    let update = stage.held_up(update).await;
    stage.run("COMMIT").await;
    update.await.expect("no panic").expect("updated");
    assert_eq!(bench.taken(9).await, [failed]);
    stage.close().await;
}

#[tokio::test]
async fn what_is_recovered_while_its_endpoint_becomes_ordered_is_delivered() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    let id = bench.with(plain()).await;
    let failed = bench.failed().await;
    bench.start(JobKind::Recover, to(id)).await;
    stage.run("BEGIN; SELECT hook_background(10)").await;
    let (hook, of) = (bench.hook.clone(), bench.of_app());
    let update = async move {
        let endpoint = EndpointRef::Id(id);
        hook.update_endpoint(&of, &endpoint, in_order()).await.map(|_| ())
    };
    let update = stage.held_up(update).await;
    stage.run("COMMIT").await;
    update.await.expect("no panic").expect("updated");
    assert_eq!(bench.taken(9).await, [failed]);
    stage.close().await;
}

#[tokio::test]
async fn an_endpoint_created_while_its_application_is_deleted_is_deleted_too() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    stage
        .run(&format!(
            "BEGIN; SELECT hook_endpoint_create('{}', NULL, gen_random_uuid(), NULL, 'url', '', \
             '{{}}', '{{}}', NULL, '', '', '', '{{}}', false, \
             ARRAY[NULL, NULL, 100, 5, 30000000, 3, NULL, 10, 25000000]::bigint[], NULL, NULL)",
            bench.app.0
        ))
        .await;
    bench.hook.delete_application(&bench.of_app()).await.expect("deleted");
    stage.run("COMMIT").await;
    bench.background(10).await;
    for table in ["hook_applications", "hook_endpoints", "hook_states", "hook_filters"] {
        let count = format!("SELECT count(*) FROM {table}");
        let left: i64 = stage.rival.query_one(&count, &[]).await.expect("counted").get(0);
        assert_eq!(left, 0, "{table}");
    }
    stage.close().await;
}

#[tokio::test]
async fn an_own_id_that_another_endpoint_takes_concurrently_is_taken() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    let (mine, other) = (bench.with(plain()).await, bench.with(plain()).await);
    let rename = "BEGIN; UPDATE hook_endpoints SET uid = 'wanted' WHERE endpoint_id =";
    stage.run(&format!("{rename} '{}'", other.0)).await;
    let (hook, of) = (bench.hook.clone(), bench.of_app());
    let update = EndpointUpdate { uid: Some(Some(uid("wanted"))), ..EndpointUpdate::default() };
    let update = async move { hook.update_endpoint(&of, &EndpointRef::Id(mine), update).await };
    let update = stage.held_up(update).await;
    stage.run("COMMIT").await;
    let (outcome, _) = update.await.expect("no panic").expect("it is answered");
    assert!(matches!(outcome, UpdateOutcome::Taken), "{outcome:?}");
    stage.close().await;
}

#[tokio::test]
async fn an_own_id_that_another_application_takes_concurrently_is_taken() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    let other = bench.application(application(Some("other"))).await;
    let rename = "BEGIN; UPDATE hook_applications SET uid = 'wanted' WHERE application_id =";
    stage.run(&format!("{rename} '{}'", other.0)).await;
    let (hook, of) = (bench.hook.clone(), bench.of_app());
    let wanted = application(Some("wanted"));
    let update = async move { hook.update_application(&of, wanted, None).await };
    let update = stage.held_up(update).await;
    stage.run("COMMIT").await;
    let outcome = update.await.expect("no panic").expect("it is answered");
    assert!(matches!(outcome, UpdateOutcome::Taken), "{outcome:?}");
    stage.close().await;
}
