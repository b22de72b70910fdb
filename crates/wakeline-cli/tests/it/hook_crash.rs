//! kill -9 of the server, crashes of PostgreSQL and receivers that fail in every way while webhooks
//! are sent: every accepted message arrives, every request is in the log, and none is early.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::hook_history::{Accepted, History, Planned, Report, Rules, check};
use crate::support::{
    Behaviour, Client, Dice, Hook, OwnPostgres, Receiver, Server, Store, ended, long, now,
    parse_time,
};

const WRITERS: usize = 3;
/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_millis(500);
/// The lease of a delivery, which follows from the timeout.
const LEASE: Duration = Duration::from_millis(10_500);
/// Flags for a fallback that is too rare to replace a schedule, and for tolerating late hints.
const NO_FALLBACK: [&str; 4] =
    ["--fallback-poll-interval-ms", "3600000", "--notify-delivery-timeout-ms", "30000"];
/// The behaviours of the endpoint with outages, in turn. It works in between, so that no outage
/// uses up a schedule.
const OUTAGES: [Behaviour; 10] = [
    Behaviour::Refuses,
    Behaviour::Holds,
    Behaviour::Resets,
    Behaviour::Answers(200),
    Behaviour::Drips,
    Behaviour::Answers(500),
    Behaviour::Answers(200),
    Behaviour::SendsGarbage,
    Behaviour::BreaksOff,
    Behaviour::Answers(200),
];

/// The waits between attempts: short at first, and so many that no delivery fails permanently.
fn schedule() -> Vec<Duration> {
    let first = [200, 400, 800].map(Duration::from_millis);
    first.into_iter().chain(std::iter::repeat_n(Duration::from_secs(1), 47)).collect()
}

/// The endpoints and their receivers.
struct Endpoints {
    /// Always answers successfully.
    steady: Receiver,
    /// Reacts differently to each request.
    random: Receiver,
    /// Has one kind of outage after the other.
    outage: Receiver,
    /// Gets some of the messages, in their order.
    ordered: Receiver,
    /// The names of the endpoints, by their ids.
    names: BTreeMap<String, String>,
}

impl Endpoints {
    async fn create(hook: Hook) -> Self {
        let mut endpoints = Self {
            steady: Receiver::start("steady", Behaviour::Answers(200)).await,
            random: Receiver::start("random", Behaviour::Random).await,
            outage: Receiver::start("outage", Behaviour::Answers(200)).await,
            ordered: Receiver::start("ordered", Behaviour::SometimesFails).await,
            names: BTreeMap::new(),
        };
        let waits: Vec<f64> = schedule().iter().map(Duration::as_secs_f64).collect();
        let breaker = json!({"failures": 5, "openForSeconds": 0.3, "probes": 2});
        for receiver in
            [&endpoints.steady, &endpoints.random, &endpoints.outage, &endpoints.ordered]
        {
            let ordered = receiver.name == "ordered";
            let delivery = json!({
                "timeoutSeconds": TIMEOUT.as_secs_f64(),
                "scheduleSeconds": waits,
                "fifo": ordered.then(|| json!({})),
                "breaker": (receiver.name == "outage").then(|| breaker.clone()),
            });
            let types = ordered.then_some(["ordered"]);
            let id = hook.endpoint(receiver, json!({"delivery": delivery, "eventTypes": types}));
            endpoints.names.insert(id.await, receiver.name.clone());
        }
        endpoints
    }

    fn all(&mut self) -> [&mut Receiver; 4] {
        [&mut self.steady, &mut self.random, &mut self.outage, &mut self.ordered]
    }

    fn name(&self, delivery: &Value) -> String {
        self.names[delivery["endpointId"].as_str().expect("an id")].clone()
    }
}

/// The state that senders and watchers share.
struct WebhookLoad {
    address: Mutex<SocketAddr>,
    names: BTreeMap<String, String>,
    accepted: Mutex<Vec<Accepted>>,
    refused: Mutex<Vec<String>>,
    planned: Mutex<Vec<Planned>>,
    running: AtomicBool,
}

impl WebhookLoad {
    /// Sends a request to a server that may be killed. Returns `None` if there was no complete
    /// answer.
    async fn call(&self, method: &str, path: &str, key: &str, body: &str) -> Option<(u16, Value)> {
        let client = Client::new(*self.address.lock());
        let header = format!("idempotency-key: {key}\r\n");
        let call = async { client.send_with(method, path, &header, body).await?.answer().await };
        let answer = tokio::time::timeout(Duration::from_secs(20), call).await.ok()?.ok()?;
        let json = serde_json::from_str(&answer.body).unwrap_or_default();
        Some((answer.status, json))
    }

    /// Sends messages one after the other. Repeats each until it is accepted.
    async fn produce(self: Arc<Self>, writer: usize) {
        for number in 0.. {
            if !self.running.load(Ordering::SeqCst) {
                return;
            }
            let mark = format!("w{writer}-{number}");
            let ordered = number % 6 == 0;
            let kind = if ordered { "ordered" } else { "plain" };
            let body = json!({"eventType": kind, "eventId": mark, "payload": {"mark": mark}});
            let body = body.to_string();
            loop {
                match self.call("POST", "/api/v1/app/a/msg", &mark, &body).await {
                    Some((202, made)) => {
                        let message = made["id"].as_str().expect("an id").to_owned();
                        let mut endpoints =
                            ["steady", "random", "outage"].map(str::to_owned).to_vec();
                        endpoints.extend(ordered.then(|| "ordered".to_owned()));
                        self.accepted.lock().push(Accepted { mark, message, endpoints });
                        break;
                    }
                    Some((status @ 400..500, why)) => panic!("{mark}: {status} {why}"),
                    _ => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
            self.send_invalid(writer, number).await;
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Sends an invalid message sometimes.
    async fn send_invalid(&self, writer: usize, number: usize) {
        let mark = format!("x{writer}-{number}");
        let payload = json!({"mark": mark});
        let (path, body) = match number % 10 {
            // The event id is used already.
            1 => (
                "a",
                json!({"eventType": "plain", "eventId": format!("w{writer}-{number}"),
                              "payload": payload}),
            ),
            4 => ("a", json!({"eventType": "not a type", "payload": payload})),
            7 => ("missing", json!({"eventType": "plain", "payload": payload})),
            _ => return,
        };
        let path = format!("/api/v1/app/{path}/msg");
        let answer = self.call("POST", &path, &mark, &body.to_string()).await;
        if let Some((status, why)) = answer {
            assert!(status >= 400, "{mark}: {status} {why}");
        }
        self.refused.lock().push(mark);
    }

    /// Reads deliveries, and records the times of their next attempts.
    async fn watch(self: Arc<Self>, seed: u64) {
        let mut dice = Dice::new(seed);
        while self.running.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let chosen = {
                let accepted = self.accepted.lock();
                let recent = accepted.len().saturating_sub(40);
                let span = accepted.len() - recent;
                (span > 0).then(|| {
                    let place = usize::try_from(dice.below(span as u64)).expect("an index");
                    accepted[recent + place].message.clone()
                })
            };
            let Some(message) = chosen else { continue };
            let path = format!("/api/v1/app/a/msg/{message}/delivery");
            let Some((200, page)) = self.call("GET", &path, &message, "").await else { continue };
            let seen_at = now();
            for delivery in page["data"].as_array().expect("a list") {
                let Some(next_at) = parse_time(&delivery["nextAttempt"]) else { continue };
                let endpoint = self.names[delivery["endpointId"].as_str().expect("an id")].clone();
                let message = message.clone();
                self.planned.lock().push(Planned { endpoint, message, seen_at, next_at });
            }
        }
    }
}

/// Webhooks that are sent to the endpoints while the test provokes failures.
struct CrashRun {
    endpoints: Endpoints,
    load: Arc<WebhookLoad>,
    tasks: tokio::task::JoinSet<()>,
    dice: Dice,
    outages: usize,
}

impl CrashRun {
    async fn begin(server: &Server, seed: u64) -> Self {
        let endpoints = Endpoints::create(Hook::open(server).await).await;
        let load = Arc::new(WebhookLoad {
            address: Mutex::new(server.client.address),
            names: endpoints.names.clone(),
            accepted: Mutex::default(),
            refused: Mutex::default(),
            planned: Mutex::default(),
            running: true.into(),
        });
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            tasks.spawn(Arc::clone(&load).produce(writer));
        }
        tasks.spawn(Arc::clone(&load).watch(seed + 1));
        Self { endpoints, load, tasks, dice: Dice::new(seed), outages: 0 }
    }

    /// Starts the next kind of outage, and waits for less than a second.
    async fn run_for_a_while(&mut self) {
        self.endpoints.outage.set_behaviour(OUTAGES[self.outages % OUTAGES.len()]).await;
        self.outages += 1;
        tokio::time::sleep(Duration::from_millis(200 + self.dice.below(800))).await;
    }

    /// Waits until everything has arrived, and checks the history.
    async fn end(mut self, server: &Server) -> Report {
        self.load.running.store(false, Ordering::SeqCst);
        while self.tasks.join_next().await.transpose().expect("no panic").is_some() {}
        let hook = Hook(server.client);
        for receiver in self.endpoints.all() {
            receiver.set_behaviour(Behaviour::Answers(200)).await;
        }
        let started = Instant::now();
        for receiver in self.endpoints.all() {
            while hook.open_deliveries(&receiver.name).await > 0 {
                let limit = Duration::from_secs(120);
                assert!(started.elapsed() < limit, "{} still waits", receiver.name);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        self.judge(hook).await
    }

    async fn judge(&mut self, hook: Hook) -> Report {
        let mut history = History {
            accepted: std::mem::take(&mut self.load.accepted.lock()),
            refused: std::mem::take(&mut self.load.refused.lock()),
            planned: std::mem::take(&mut self.load.planned.lock()),
            ..History::default()
        };
        for receiver in self.endpoints.all() {
            let (name, ordered) = (receiver.name.clone(), receiver.name == "ordered");
            history.arrivals.extend(receiver.log());
            history.log.extend(hook.attempts(&name).await);
            history.rules.insert(name, Rules { schedule: schedule(), lease: LEASE, ordered });
        }
        for accepted in &history.accepted {
            for delivery in hook.deliveries(&accepted.message).await {
                history.ended.push(ended(&self.endpoints.name(&delivery), &delivery));
            }
        }
        check(&history)
    }
}

fn judge(name: &str, report: &Report) {
    eprintln!("{name}: {report}");
    report.assert_clean();
    assert!(report.accepted > 0 && report.refused > 0, "{report}");
    assert!(report.measured > 0 && report.planned > 0, "{report}");
}

/// Kills and restarts the server under load.
async fn survive(store: &Store, kills: u64) {
    let seed = u64::from(std::process::id()) + 7;
    eprintln!("{}: {kills} kills, seed {seed}", store.name());
    let mut server = Hook::serve(&store.url(), &NO_FALLBACK).await;
    let mut run = CrashRun::begin(&server, seed).await;
    for _ in 0..kills {
        run.run_for_a_while().await;
        server.kill().await;
        server = Hook::serve(&store.url(), &NO_FALLBACK).await;
        *run.load.address.lock() = server.client.address;
    }
    run.run_for_a_while().await;
    let report = run.end(&server).await;
    judge(store.name(), &report);
    assert!(report.unknown > 0, "no delivery was in flight at a kill: {report}");
}

#[tokio::test]
async fn killed_servers_deliver_all_that_they_accepted_and_log_every_request() {
    let kills = if long() { 50 } else { 5 };
    let [sqlite, postgres] = Store::both().await;
    tokio::join!(survive(&sqlite, kills), survive(&postgres, kills));
}

#[tokio::test]
async fn a_database_that_crashes_during_deliveries_loses_none() {
    let crashes = if long() { 10 } else { 2 };
    let postgres = OwnPostgres::start();
    let server = Hook::serve(&postgres.url(), &NO_FALLBACK).await;
    let seed = u64::from(std::process::id()) + 11;
    eprintln!("{crashes} crashes, seed {seed}");
    let mut run = CrashRun::begin(&server, seed).await;
    for _ in 0..crashes {
        run.run_for_a_while().await;
        postgres.stop();
        run.run_for_a_while().await;
        postgres.restart();
    }
    run.run_for_a_while().await;
    crate::support::eventually("it is ready again", || async {
        server.client.get("/readyz").await.status == 200
    })
    .await;
    let report = run.end(&server).await;
    judge("crashes of the database", &report);
}

/// Sends webhooks to receivers that fail in every way.
async fn survive_failing_receivers(store: &Store) {
    let server = Hook::serve(&store.url(), &NO_FALLBACK).await;
    let mut run = CrashRun::begin(&server, u64::from(std::process::id()) + 13).await;
    for _ in OUTAGES {
        run.run_for_a_while().await;
    }
    let report = run.end(&server).await;
    judge(store.name(), &report);
    assert_eq!(report.unknown, 0, "nothing crashed: {report}");
}

#[tokio::test]
async fn receivers_that_fail_in_every_way_get_all_messages() {
    let [sqlite, postgres] = Store::both().await;
    tokio::join!(survive_failing_receivers(&sqlite), survive_failing_receivers(&postgres));
}
