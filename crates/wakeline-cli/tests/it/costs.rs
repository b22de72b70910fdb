//! The cost of a message in a store that has run for a while with the query plans of its first
//! minute.

use crate::support::{Server, Store};

#[tokio::test]
async fn popping_and_acking_do_not_scan_consumed_messages() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let server = Server::start(&store, &[]).await;
    let round = async |number: usize| {
        server.client.push("q", &[("p", &number.to_string())]).await;
        let popped = server.client.get("/api/v1/pop/queue/q").await;
        let acked = server.client.ack(&popped, None).await;
        assert_eq!(acked.json()[0]["success"], true, "{acked:?}");
    };
    for number in 0..300 {
        round(number).await;
    }
    // A snapshot of autovacuum or of a waiting statement keeps dead row versions for a while. A
    // scan of the log would show in every window.
    let words = [".claim(", ".settle(", ".push_slots("];
    let mut least = [i64::MAX; 3];
    for window in 0..5 {
        database.reset_statements().await;
        for number in 0..20 {
            round(300 + 20 * window + number).await;
        }
        for (word, least) in words.iter().zip(&mut least) {
            let (calls, buffers) = database.buffers(word).await;
            assert!(calls >= 20, "{word}: {calls} calls");
            *least = (*least).min(buffers / calls);
        }
    }
    for (word, each) in words.iter().zip(least) {
        assert!(each < 150, "{word} touches {each} buffers for one message behind 300");
    }
}

#[tokio::test]
async fn popping_a_backlog_does_not_scan_rows_that_an_old_snapshot_keeps() {
    let store = Store::postgres().await;
    let Store::Postgres(database) = &store else { unreachable!("made above") };
    let server = Server::start(&store, &[]).await;
    for round in 0..3 {
        let ids: Vec<_> = (0..1000).map(|n| (format!("p{n}"), format!("{round}-{n}"))).collect();
        let messages: Vec<_> = ids.iter().map(|(p, id)| (p.as_str(), id.as_str())).collect();
        server.client.push("q", &messages).await;
    }
    let old = database.client().await;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.expect("a snapshot");
    let round = async || {
        let popped = server.client.get("/api/v1/pop/queue/q").await;
        let acked = server.client.ack(&popped, None).await;
        assert_eq!(acked.json()[0]["success"], true, "{acked:?}");
    };
    for _ in 0..1500 {
        round().await;
    }
    database.reset_statements().await;
    for _ in 0..100 {
        round().await;
    }
    let (calls, buffers) = database.buffers(".claim(").await;
    assert!(calls >= 100, "{calls} calls");
    let each = buffers / calls;
    eprintln!("{each} buffers for a claim behind 1500 others and an old snapshot");
    assert!(each < 60, "{each} buffers");
    old.batch_execute("COMMIT").await.expect("ended");
}
