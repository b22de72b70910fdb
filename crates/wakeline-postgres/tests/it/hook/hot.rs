//! All operations run concurrently on two nodes and few endpoints: no call fails, and no rows are
//! left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinHandle;
use wakeline_core::{
    ApplicationId, ApplicationRef, EndpointId, EndpointRef, HookMessageId, JobId, MessageRef,
};
use wakeline_postgres::PostgresStore;
use wakeline_store::StoreAdmin as _;
use wakeline_store::hook::{
    DeliveryFilter, EndpointUpdate, HookAdmin as _, HookEndpoints as _, HookStore as _, JobKind,
    JobSpec,
};
use wakeline_testkit::hook_conformance::{
    capped, failure, fifo, items, message, plain, push, request, success,
};

use super::stage::Stage;

const ROUNDS: usize = 60;

/// One node, and the state that its tasks share.
#[derive(Clone)]
struct Actor {
    store: PostgresStore,
    app: ApplicationId,
    endpoints: Vec<EndpointId>,
    messages: Arc<parking_lot::Mutex<Vec<HookMessageId>>>,
    done: Arc<AtomicBool>,
}

impl Actor {
    fn of_app(&self) -> ApplicationRef {
        ApplicationRef::Id(self.app)
    }

    /// Selects one of the earlier messages, evenly distributed.
    fn some(&self, round: usize) -> Option<HookMessageId> {
        let messages = self.messages.lock();
        messages.get(round * 7 % messages.len().max(1)).copied()
    }

    async fn emit(self) {
        for round in 0..ROUNDS {
            let new = message(self.app);
            let id = new.id;
            let requests = if round % 3 == 0 { vec![request(2)] } else { Vec::new() };
            let reply = self.store.emit(new, requests).await.expect("emitted");
            self.messages.lock().push(id);
            let ends = reply.leased.iter().flat_map(|(_, groups)| items(groups));
            let ends = ends.map(|item| success(item.token)).collect();
            self.store.settle_deliveries(ends).await.expect("settled");
        }
    }

    async fn deliver(self) {
        let mut failing = 0;
        while !self.done.load(Ordering::Relaxed) {
            let claim = push(vec![request(3)]);
            let claimed = self.store.claim_deliveries(vec![claim]).await.expect("claimed");
            let ends = items(&claimed[0].groups[0]).into_iter().map(|item| {
                failing += 1;
                if failing % 5 == 0 { failure(item.token) } else { success(item.token) }
            });
            let ends: Vec<_> = ends.collect();
            if ends.is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            self.store.settle_deliveries(ends).await.expect("settled");
        }
    }

    async fn cancel(self) {
        for round in 0..ROUNDS {
            if let Some(id) = self.some(round) {
                let which = MessageRef::Id(id);
                self.store.cancel(&self.of_app(), &which, None).await.expect("cancelled");
            }
            tokio::task::yield_now().await;
        }
    }

    async fn resend(self) {
        for round in 0..ROUNDS {
            if let Some(id) = self.some(round) {
                let to = EndpointRef::Id(self.endpoints[round % self.endpoints.len()]);
                let which = MessageRef::Id(id);
                self.store.resend(&self.of_app(), &which, &to).await.expect("resent");
            }
            tokio::task::yield_now().await;
        }
    }

    async fn update(self) {
        let kinds = [plain(), fifo(2), capped(1), fifo(1)];
        for round in 0..ROUNDS {
            let endpoint = EndpointRef::Id(self.endpoints[round % self.endpoints.len()]);
            let update = EndpointUpdate {
                options: Some(kinds[round % kinds.len()].clone()),
                disabled: Some(round % 9 == 0),
                ..EndpointUpdate::default()
            };
            let updated = self.store.update_endpoint(&self.of_app(), &endpoint, update).await;
            updated.expect("updated");
            tokio::task::yield_now().await;
        }
    }

    async fn jobs(self) {
        for round in 0..ROUNDS / 6 {
            let kind = [JobKind::Resend, JobKind::Cancel, JobKind::Recover][round % 3];
            let id = JobId::generate();
            let spec = JobSpec { id, kind, filter: DeliveryFilter::default() };
            self.store.start_job(&self.of_app(), spec).await.expect("started");
            for _ in 0..3 {
                self.store.run_background(20).await.expect("a piece is done");
            }
        }
    }
}

/// Runs all operations of a node concurrently.
async fn act(actor: &Actor) {
    let tasks: Vec<JoinHandle<()>> = vec![
        tokio::spawn(actor.clone().emit()),
        tokio::spawn(actor.clone().emit()),
        tokio::spawn(actor.clone().cancel()),
        tokio::spawn(actor.clone().resend()),
        tokio::spawn(actor.clone().update()),
        tokio::spawn(actor.clone().jobs()),
    ];
    for task in join_all(tasks).await {
        task.expect("no call fails");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_at_once_on_two_nodes_fails_nothing_and_leaves_nothing_behind() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    let mut endpoints = Vec::new();
    for options in [plain(), fifo(1), capped(2)] {
        endpoints.push(bench.with(options).await);
    }
    let other = PostgresStore::connect(stage.options.clone()).await.expect("another node");
    let one = Actor {
        store: stage.store.clone(),
        app: bench.app,
        endpoints: endpoints.clone(),
        messages: Arc::default(),
        done: Arc::default(),
    };
    let two = Actor { store: other.clone(), ..one.clone() };
    let delivering = [tokio::spawn(one.clone().deliver()), tokio::spawn(two.clone().deliver())];
    tokio::join!(act(&one), act(&two));
    for endpoint in endpoints {
        bench.switch(endpoint, true).await;
    }
    bench.background(1_000).await;
    let left = "SELECT count(*) FROM hook_deliveries WHERE state < 2";
    for round in 0.. {
        let left: i64 = stage.rival.query_one(left, &[]).await.expect("counted").get(0);
        if left == 0 {
            break;
        }
        assert!(round < 1_000, "{left} deliveries are left behind");
        // Otherwise the tests' clock does not advance.
        bench.advance_ms(3).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    one.done.store(true, Ordering::Relaxed);
    for task in join_all(delivering).await {
        task.expect("no call fails");
    }
    other.close().await;
    stage.close().await;
}
