//! Runs the server in each wake mode, and counts in the database what a mode costs.

use serde_json::json;

use crate::support::{Hook, Parked, Server, Store, eventually};

const MODES: [&str; 4] = ["fused", "compete", "broadcast", "poll"];

#[tokio::test]
async fn in_every_mode_a_parked_pop_is_answered_on_both_stores() {
    for mode in MODES {
        for store in Store::both().await {
            let server = Server::start(&store, &["--wake-mode", mode]).await;
            assert_eq!(server.wake().await["mode"], mode);
            let mut parked = Vec::new();
            for _ in 0..5 {
                parked.push(server.client.park("/api/v1/pop/queue/q?wait=true").await);
            }
            server.parked(5).await;
            let messages = [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5")];
            server.client.push("q", &messages).await;
            let mut ids = Vec::new();
            for poll in parked {
                ids.extend(poll.answer().await.expect("an answer").ids());
            }
            ids.sort();
            assert_eq!(ids, ["1", "2", "3", "4", "5"], "{mode} on {}", store.name());
        }
    }
}

/// Parks 100 pops on a queue with 100 partitions, pushes a message to each partition in one
/// request, and returns the number of claims.
async fn claims_of_a_burst(flags: &[&str]) -> i64 {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let server = Server::start(&store, &[&["--wake-mode"], flags].concat()).await;
    let push = |round: usize| {
        let item = |n: usize| {
            json!({"queue": "q", "partition": format!("p{n}"), "payload": n,
                                     "transactionId": format!("{round}-{n}")})
        };
        json!({"items": (0..100).map(item).collect::<Vec<_>>()})
    };
    assert_eq!(server.client.post("/api/v1/push", push(0)).await.status, 201);
    let drain = "/api/v1/pop/queue/q?autoAck=true&batch=1000&partitions=100";
    assert_eq!(server.client.get(drain).await.ids().len(), 100);

    let mut parked: Vec<Parked> = Vec::new();
    for _ in 0..100 {
        parked.push(server.client.park("/api/v1/pop/queue/q?wait=true").await);
    }
    server.parked(100).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    database.reset_statements().await;
    assert_eq!(server.client.post("/api/v1/push", push(1)).await.status, 201);
    let mut ids = std::collections::BTreeSet::new();
    for poll in parked {
        let answer = poll.answer().await.expect("an answer");
        assert_eq!(answer.ids().len(), 1, "{flags:?}: {answer:?}");
        ids.extend(answer.ids());
    }
    assert_eq!(ids.len(), 100);
    let claims = database.calls("claim").await;
    eprintln!(
        "{flags:?}: 100 parked pops, one push of 100 messages in 100 partitions: {claims} claims"
    );
    claims
}

#[tokio::test]
async fn one_claim_serves_a_hundred_fused_waiters() {
    assert!((1..=2).contains(&claims_of_a_burst(&["fused"]).await));
}

#[tokio::test]
async fn a_hundred_broadcast_waiters_claim_a_hundred_times() {
    assert_eq!(claims_of_a_burst(&["broadcast"]).await, 100);
}

#[tokio::test]
async fn competing_waiters_claim_one_after_the_other() {
    let claims = claims_of_a_burst(&["compete"]).await;
    assert!((100..=102).contains(&claims), "{claims}");
}

/// The design promises one query per work item ("Query count per work item: 1 query"). This tests
/// it for messages.
#[tokio::test]
async fn a_message_costs_a_competing_node_one_claim() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    // With a long timeout, a claim that is slow on a busy machine does not wake the other waiters.
    let flags = ["--wake-mode", "compete", "--notify-delivery-timeout-ms", "30000"];
    let server = Server::start(&store, &flags).await;
    let pop = "/api/v1/pop/queue/q?autoAck=true";
    server.client.push("q", &[("p", "first")]).await;
    assert_eq!(server.client.get(pop).await.ids(), ["first"]);
    let mut parked = Vec::new();
    for count in 1..=6 {
        parked.push(server.client.park(&format!("{pop}&wait=true")).await);
        server.parked(count).await;
    }
    // The claims that the pops made when they arrived are not counted.
    database.reset_statements().await;
    for n in 0..5 {
        server.client.push("q", &[("p", &n.to_string())]).await;
        // A second claim for this message would be counted before the next message is received.
        assert_eq!(parked.remove(0).answer().await.expect("an answer").ids(), [n.to_string()]);
    }
    assert_eq!(database.calls("claim").await, 5);
}

/// The same for deliveries that are pulled.
#[tokio::test]
async fn a_delivery_costs_a_competing_node_one_claim() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let flags = ["--wake-mode", "compete", "--notify-delivery-timeout-ms", "30000"];
    let server = Hook::serve(&store.url(), &flags).await;
    let hook = Hook::open(&server).await;
    hook.post("/api/v1/app/a/endpoint", json!({"uid": "p", "delivery": {"pull": true}})).await;
    let pull = "/api/v1/app/a/endpoint/p/pull?wait=true&timeout=60000";
    let waiters = || server.metric("wakeline_wake_waiters{api=\"hook\"}");
    let mut parked = Vec::new();
    for _ in 0..6 {
        let before = waiters().await;
        parked.push(server.client.park(pull).await);
        eventually("the pull waits", || async { waiters().await == before + 1 }).await;
    }
    let looks = || server.metric("wakeline_wake_claims_in_flight{api=\"hook\"}");
    eventually("the first claims have ended", || async { looks().await == 0 }).await;
    database.reset_statements().await;
    for n in 0..5 {
        hook.send(&n.to_string()).await;
        // A second claim for this delivery would be counted before the next delivery is pulled.
        let pulled = parked.remove(0).answer().await.expect("an answer").json();
        assert_eq!(pulled["messages"][0]["eventId"], n.to_string());
    }
    assert_eq!(database.calls("hook_claim(").await, 5);
}

/// Counts of all nodes until now: waiters woken by notifications, claims, repeated claims, and
/// claims in flight or queued.
async fn counts_until_now(nodes: &[Server]) -> [u64; 4] {
    let mut sums = [0; 4];
    for node in nodes {
        let text = node.client.get("/metrics").await.body;
        for line in text.lines().filter(|line| line.contains("{api=\"queue\"")) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let place = match series {
                "wakeline_wake_wakes_total{api=\"queue\",reason=\"notify\"}" => 0,
                _ if series.starts_with("wakeline_wake_claims_total{") => 1,
                "wakeline_wake_wakes_total{api=\"queue\",reason=\"timer\"}" => 2,
                "wakeline_wake_claims_in_flight{api=\"queue\"}" => 3,
                "wakeline_wake_claims_queued{api=\"queue\"}" => 3,
                _ => continue,
            };
            sums[place] += value.parse::<u64>().expect("a whole number");
        }
    }
    sums
}

/// The same for messages that another node pushes.
#[tokio::test]
async fn a_message_of_another_node_costs_each_competing_node_one_claim() {
    let flags = [
        ["--wake-mode", "compete"],
        ["--fallback-poll-interval-ms", "3600000"],
        ["--notify-delivery-timeout-ms", "30000"],
        ["--default-timeout-ms", "120000"],
        // A claim that found a row locked is repeated after the other claim has finished.
        ["--timer-grace-period-ms", "500"],
    ]
    .concat();
    let pop = "/api/v1/pop/queue/q?autoAck=true&wait=true&timeout=120000";
    for count in [1, 3] {
        let store = Store::postgres().await;
        let Store::Postgres(database) = &store else { unreachable!("made above") };
        let sender = Server::start(&store, &flags).await;
        let (mut nodes, mut answers) = (Vec::new(), tokio::task::JoinSet::new());
        for _ in 0..count {
            let node = Server::start(&store, &flags).await;
            eventually("the node listens", || async { node.wake().await["link"] == "up" }).await;
            for parked in 1..=6 {
                answers.spawn(node.client.park(pop).await.answer());
                node.parked(parked).await;
            }
            nodes.push(node);
        }
        let settle = std::time::Duration::from_secs(1);
        let mut begin = [0; 4];
        for n in 0..=5 {
            sender.client.push("q", &[("p", &n.to_string())]).await;
            let answer = answers.join_next().await.expect("some wait").expect("no panic");
            assert_eq!(answer.expect("an answer").ids(), [n.to_string()]);
            if n == 0 {
                // Now all nodes know each other and the queue.
                tokio::time::sleep(settle).await;
                begin = counts_until_now(&nodes).await;
                database.reset_statements().await;
                continue;
            }
            eventually("all nodes have claimed", || async {
                let [woken, _, _, open] = counts_until_now(&nodes).await;
                woken >= begin[0] + n * count && open == 0
            })
            .await;
        }
        tokio::time::sleep(settle).await;
        let end = counts_until_now(&nodes).await;
        let [woken, claims, again] = [0, 1, 2].map(|part| end[part] - begin[part]);
        let statements = database.calls(".claim(").await;
        eprintln!(
            "5 messages for {count} other nodes: {claims} claims, of these {again} repeated, \
             {statements} statements"
        );
        assert_eq!(woken, 5 * count);
        // A claim that meets the open transaction of another claim repeats its statement, which
        // waits 50 ms for it, and claims again later if that was not enough. This happens to every
        // node except the one that gets the message, and only once.
        assert!(again <= 5 * (count - 1), "{again} repeated claims");
        assert!((5 * count..=5 * count + again).contains(&claims), "{claims} claims");
        let most = if count == 1 { claims } else { 2 * claims };
        assert!((claims..=most).contains(&(statements as u64)), "{statements} statements");
    }
}

#[tokio::test]
async fn independent_polling_waiters_claim_for_themselves() {
    assert!(claims_of_a_burst(&["poll", "--poll-grouping", "waiter"]).await >= 100);
}

#[tokio::test]
async fn a_polling_line_claims_for_all_its_waiters() {
    // The interval is long, so that only the claims that find the burst are counted.
    let flags = ["poll", "--poll-interval-ms", "5000"];
    let claims = claims_of_a_burst(&flags).await;
    assert!((1..=5).contains(&claims), "{claims}");
}

#[tokio::test]
async fn a_poll_that_names_no_batch_takes_the_batch_of_poll_mode() {
    for (flags, len) in [(&[][..], 10), (&["--poll-batch", "3"], 3)] {
        let store = Store::sqlite();
        let server = Server::start(&store, &[&["--wake-mode", "poll"], flags].concat()).await;
        let ids: Vec<String> = (0..15).map(|n| n.to_string()).collect();
        let messages: Vec<_> = ids.iter().map(|id| ("p", id.as_str())).collect();
        server.client.push("q", &messages).await;
        let pop = "/api/v1/pop/queue/q?wait=true&autoAck=true";
        assert_eq!(server.client.get(pop).await.ids().len(), len, "{flags:?}");
        assert_eq!(server.client.get(&format!("{pop}&batch=2")).await.ids().len(), 2);
    }
}

#[tokio::test]
async fn a_push_from_sql_is_found_by_polling_alone() {
    let no_sweep = ["--fallback-poll-interval-ms", "3600000"];
    for flags in [["--wake-mode", "poll"], ["--notify", "off"]] {
        let store = Store::postgres().await;
        let Store::Postgres(database) = &store else { unreachable!("made above") };
        let server = Server::start(&store, &[flags, no_sweep].concat()).await;
        let parked = server.client.park("/api/v1/pop/queue/orders?wait=true&timeout=20000").await;
        server.parked(1).await;
        let push = "BEGIN; SELECT wakeline.push('orders', '7', p_transaction_id => 'x'); COMMIT";
        database.client().await.batch_execute(push).await.expect("committed");
        assert_eq!(parked.answer().await.expect("an answer").ids(), ["x"], "{flags:?}");
    }
}

/// A polling node is not notified of messages that another node pushed. It measures the pick-up
/// time with its own claims.
#[tokio::test]
async fn a_polling_node_measures_how_late_it_picks_up_what_another_pushes() {
    for store in Store::both().await {
        let pushing = Server::start(&store, &[]).await;
        let polling = Server::start(&store, &["--wake-mode", "poll"]).await;
        let parked = polling.client.park("/api/v1/pop/queue/q?wait=true&timeout=60000").await;
        let empty = "wakeline_wake_claims_total{api=\"queue\",outcome=\"empty\"}";
        let looked = || async { polling.metric(empty).await > 0 };
        eventually("the first claim was empty", looked).await;
        pushing.client.push("q", &[("p", "1")]).await;
        assert_eq!(parked.answer().await.expect("an answer").ids(), ["1"], "{}", store.name());
        let measured = "wakeline_wake_pickup_seconds_count{api=\"queue\"}";
        eventually("the pick-up time is measured", || async {
            polling.metric(measured).await == 1
        })
        .await;
    }
}

#[tokio::test]
async fn a_node_in_poll_mode_without_polls_sends_no_statements() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    // Without `--hook-slots 0`, the senders of webhooks would poll.
    let server = Server::start(&store, &["--wake-mode", "poll", "--hook-slots", "0"]).await;
    for look in ["housekeep", "flow_clear"] {
        let looked = || async { database.calls(look).await > 0 };
        eventually("a node looks once for unfinished work when it starts", looked).await;
    }
    let user = database.client().await;
    user.batch_execute("SELECT wakeline.push('orders', '7')").await.expect("committed");
    database.reset_statements().await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(database.statements().await, []);
    let waiting = "SELECT count(*) FROM wakeline.incoming";
    assert_eq!(user.query_one(waiting, &[]).await.expect("read").get::<_, i64>(0), 1);
    drop(server);
}

/// Number of server connections that listen, which a line of their last statement shows.
async fn listening(user: &tokio_postgres::Client) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND query ~ '(^|\n)LISTEN '";
    user.query_one(sql, &[]).await.expect("read").get(0)
}

#[tokio::test]
async fn in_poll_mode_no_connection_listens() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let user = database.client().await;
    let hinted = Server::start(&store, &[]).await;
    eventually("a node of another mode listens", || async { listening(&user).await == 1 }).await;
    drop(hinted);
    eventually("the connection is closed", || async { listening(&user).await == 0 }).await;
    let server = Server::start(&store, &["--wake-mode", "poll"]).await;
    let parked = server.client.park("/api/v1/pop/queue/q?wait=true").await;
    server.client.push("q", &[("p", "1")]).await;
    assert_eq!(parked.answer().await.expect("an answer").ids(), ["1"]);
    assert_eq!(listening(&user).await, 0);
}
