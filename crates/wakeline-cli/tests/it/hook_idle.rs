//! The statements that webhooks send: none while no delivery is due, and in poll mode as many as
//! are configured.

use std::time::Duration;

use serde_json::json;

use crate::support::{Behaviour, Hook, Receiver, Store, eventually, long};

const HOUR: u64 = 3600;

#[tokio::test]
async fn webhooks_that_wait_make_no_statements_but_the_sweep() {
    let (fallback, warm, watch) = if long() {
        ("60000", Duration::from_secs(70), Duration::from_secs(300))
    } else {
        ("2000", Duration::from_secs(3), Duration::from_secs(7))
    };
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let flags = ["--fallback-poll-interval-ms", fallback, "--notify-delivery-timeout-ms", "30000"];
    let server = Hook::serve(&store.url(), &flags).await;
    let hook = Hook::open(&server).await;
    let fine = Receiver::start("fine", Behaviour::Answers(200)).await;
    let failing = Receiver::start("failing", Behaviour::Answers(500)).await;
    let off = Receiver::start("off", Behaviour::Answers(200)).await;
    // Failed deliveries and deliveries that the breaker holds back wait for an hour.
    let breaker = json!({"failures": 5, "openForSeconds": HOUR, "probes": 1});
    let delivery = json!({"scheduleSeconds": [HOUR, HOUR], "breaker": breaker});
    hook.endpoint(&fine, json!({})).await;
    hook.endpoint(&failing, json!({"delivery": delivery})).await;
    hook.endpoint(&off, json!({"disabled": true})).await;
    let pulled = json!({"uid": "pulled", "delivery": {"pull": true}});
    hook.post("/api/v1/app/a/endpoint", pulled).await;
    for number in 0..10 {
        hook.send(&format!("w-{number}")).await;
    }
    eventually("the breaker opens", || async { hook.attempts("failing").await.len() >= 5 }).await;
    for number in 10..20 {
        hook.send(&format!("w-{number}")).await;
    }
    server.client.push("q", &[("p", "seen")]).await;
    fine.got(20).await;
    eventually("all results are recorded", || async {
        let logged = hook.attempts("failing").await.len();
        logged == failing.count() && hook.open_deliveries("fine").await == 0
    })
    .await;
    tokio::time::sleep(warm).await;
    database.reset_statements().await;
    tokio::time::sleep(watch).await;
    let statements = database.statements().await;
    let (sweeps, others): (Vec<_>, Vec<_>) =
        statements.into_iter().partition(|(sql, _)| sql.contains("sweep"));
    assert!(others.is_empty(), "statements while nothing is due: {others:#?}");
    let calls: i64 = sweeps.iter().map(|(_, calls)| calls).sum();
    eprintln!("webhooks idle for {watch:?}: {calls} statements, all of them sweeps");
    // One sweep is that of webhooks, the other that of the background work of queues.
    assert!(sweeps.iter().all(|(_, calls)| (1..=6).contains(calls)), "{sweeps:?}");
    assert_eq!(sweeps.len(), 2, "{sweeps:?}");
    assert_eq!((fine.count(), off.count()), (20, 0));
    assert!(failing.count() < 20, "the breaker held some deliveries back");
    assert_eq!(hook.open_deliveries("failing").await, 20, "all of them still wait");
}

#[tokio::test]
async fn ten_polling_senders_claim_a_hundred_times_a_second_and_look_for_background_work_once() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let flags = [
        ["--hook-wake-mode", "poll"],
        ["--hook-poll-grouping", "waiter"],
        ["--hook-poll-workers", "10"],
        ["--hook-poll-interval-ms", "100"],
        ["--hook-poll-batch", "10"],
    ]
    .concat();
    let server = Hook::serve(&store.url(), &flags).await;
    let hook = Hook::open(&server).await;
    let fine = Receiver::start("fine", Behaviour::Answers(200)).await;
    hook.endpoint(&fine, json!({})).await;
    for number in 0..50 {
        hook.send(&format!("w-{number}")).await;
    }
    fine.got(50).await;
    eventually("all results are recorded", || async { hook.open_deliveries("fine").await == 0 })
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let per_claim = async |part: &str| {
        server.metric(&format!("wakeline_hook_deliveries_per_claim_{part}")).await
    };
    assert_eq!(per_claim("sum").await, 50);
    let counted = per_claim("count").await;
    database.reset_statements().await;
    let watched = std::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let statements = database.statements().await;
    let watched = watched.elapsed().as_secs_f64();
    let (claims, others): (Vec<_>, Vec<_>) =
        statements.into_iter().partition(|(sql, _)| sql.contains("hook_claim"));
    let background = ["hook_fan_out(", "hook_background("];
    let allowed = watched.ceil() as i64 + 1;
    let is_background = |sql: &str| background.iter().any(|one| sql.contains(one));
    let surplus: Vec<_> =
        others.iter().filter(|(sql, calls)| !is_background(sql) || *calls > allowed).collect();
    assert!(surplus.is_empty(), "statements other than claims and background work: {surplus:#?}");
    let claims: i64 = claims.iter().map(|(_, calls)| calls).sum();
    let counted = per_claim("count").await - counted;
    // Each of the ten senders may not have counted the answer of its last claim yet.
    assert!(counted + 10 >= claims as u64, "{claims} claims found nothing, {counted} are counted");
    assert_eq!(per_claim("sum").await, 50, "empty claims count as claims of nothing");
    let rate = claims as f64 / watched;
    eprintln!("10 polling senders, 100 ms: {rate:.1} claims/s");
    // There are never more claims than the interval allows. There are fewer on a busy machine,
    // whose timers are late; a single sender would make 10.
    assert!((50.0..=110.0).contains(&rate), "{rate} claims/s");
}
