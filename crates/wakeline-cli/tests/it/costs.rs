//! What a message costs a store that has run for a while with the plans of its first minute.

use crate::support::{Server, Store};

#[tokio::test]
async fn popping_and_acking_do_not_walk_the_log_behind_them() {
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
    database.reset_statements().await;
    for number in 300..320 {
        round(number).await;
    }
    for word in [".claim(", ".settle(", ".push_slots("] {
        let (calls, buffers) = database.buffers(word).await;
        assert!(calls >= 20, "{word}: {calls} calls");
        let each = buffers / calls;
        assert!(each < 150, "{word} touches {each} buffers for one message behind 300");
    }
}
