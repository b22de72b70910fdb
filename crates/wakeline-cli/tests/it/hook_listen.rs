//! `wakeline hook listen`: what the developer's own receiver says decides.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{Hook, Mood, Receiver, Store, eventually, wakeline};

#[tokio::test]
async fn what_the_local_receiver_refuses_comes_again() {
    for store in Store::both().await {
        let server = Hook::serve(&store.url(), &[]).await;
        let hook = Hook::open(&server).await;
        let mut receiver = Receiver::start("local", Mood::Answers(500)).await;
        // Events that happen before anybody listens wait in a named endpoint.
        let delivery = json!({"pull": true, "scheduleSeconds": [0.5, 0.5, 0.5, 0.5, 0.5]});
        hook.post("/api/v1/app/a/endpoint", json!({"uid": "local", "delivery": delivery})).await;
        hook.send("w-0").await;

        let mut command = wakeline();
        let url = format!("http://{}", server.client.address);
        command.args(["hook", "listen", "--server", &url, "--forward", &receiver.url()]);
        command.args(["--app", "a", "--endpoint", "local"]).stdout(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        receiver.got(1).await;
        eventually("the refusal is in the log", || async {
            !hook.attempts("local").await.is_empty()
        })
        .await;
        receiver.becomes(Mood::Answers(200)).await;
        eventually("it arrives", || async {
            hook.deliveries("w-0").await[0]["state"] == "delivered"
        })
        .await;
        let log = hook.attempts("local").await;
        assert_eq!(log.len(), receiver.count(), "{}", store.name());
        assert!(log.len() >= 2, "it came again");

        let pid = i32::try_from(child.id().expect("it runs")).expect("a pid");
        kill_process(Pid::from_raw(pid).expect("not zero"), Signal::INT).expect("signalled");
        assert_eq!(child.wait().await.expect("waited").code(), Some(0));
        hook.get("/api/v1/app/a/endpoint/local").await;
    }
}
