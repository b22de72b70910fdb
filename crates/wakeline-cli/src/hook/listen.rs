//! `wakeline hook listen --forward URL`: events come to a developer's machine without a tunnel.
//!
//! # Where it sits
//! It is a client of a running server: it makes a pull endpoint, pops from it by long polling, and
//! posts what it gets to a local URL, with the headers that a receiver checks.
//!
//! # Invariants
//! * An event is acked only after the local receiver took it (2xx); else it is given back and comes
//!   again by the endpoint's schedule.
//! * An endpoint that was made for this run is removed with it; a named one stays, and what
//!   happens meanwhile waits for the next run.
//! * A named endpoint that is there is used as it is, and only if it is one to pull from: the name
//!   may be that of an endpoint which others depend on.
//! * What is fetched can be forwarded and settled within its lease.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use bytes::Bytes;
use clap::Args;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::client::{Ask, Client, Reply};
use crate::config::ConfigMistake;
use crate::say;

/// How long the server may hold a pop.
const WAIT: Duration = Duration::from_secs(30);
/// Time for everything else.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long an event is ours: it is forwarded and settled, each in its time. One is fetched at a
/// time, so that none waits for another.
const LEASE: Duration = Duration::from_secs(3 * TIMEOUT.as_secs());
/// Pause after the server could not be reached.
const PAUSE: Duration = Duration::from_secs(1);

/// Settings of `wakeline hook listen`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ListenArgs {
    /// Where to post events: http://localhost:3000/hooks
    #[arg(long, value_name = "URL")]
    forward: String,
    /// The server
    #[arg(
        long,
        env = "WAKELINE_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7632"
    )]
    server: String,
    /// The application, by its id or your own; made if it is not there
    #[arg(long, value_name = "APP", default_value = "default")]
    app: String,
    /// Only events of these types: whole ones or invoice.*
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    event_types: Vec<String>,
    /// Your own id of the endpoint to pull from. It is made if it is not there, else used as it is
    /// (but for --event-types), and kept
    #[arg(long, value_name = "UID")]
    endpoint: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Found {
    id: String,
    delivery: Delivery,
}

#[derive(Debug, Deserialize)]
struct Delivery {
    pull: bool,
}

/// What the server says of a refusal, in either of its shapes.
#[derive(Debug, Default, Deserialize)]
struct Problem {
    error: Option<String>,
    detail: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Secret {
    key: String,
}

#[derive(Debug, Deserialize)]
struct Settled {
    results: Vec<SettledOne>,
}

#[derive(Debug, Deserialize)]
struct SettledOne {
    success: bool,
    state: String,
}

#[derive(Debug, Deserialize)]
struct Pulled {
    messages: Vec<Message>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    token: String,
    id: String,
    event_type: String,
    attempt: u32,
    headers: BTreeMap<String, String>,
    payload: Box<RawValue>,
}

/// Listens until ctrl-c.
pub(crate) fn run(args: ListenArgs) -> anyhow::Result<ExitCode> {
    let mistake = |flag| move |error: anyhow::Error| ConfigMistake(format!("{flag}: {error:#}"));
    let key = std::env::var("WAKELINE_API_KEY").ok().filter(|key| !key.is_empty());
    let server = Client::new(&args.server, key).map_err(mistake("--server"))?;
    let local = Client::new(&args.forward, None).map_err(mistake("--forward"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before the endpoint is made: from then on it has to go with us.
        let mut stop = Stop::new()?;
        let listener = Listener::open(server, local, &args).await?;
        say(&format!("events of {} go to {}; ctrl-c ends it", args.app, args.forward));
        say(&listener.signing().await);
        tokio::select! {
            () = listener.forward_all() => {}
            () = stop.asked() => {}
        }
        listener.close().await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// What ends it: ctrl-c, a polite kill, a terminal that is closed.
struct Stop([Signal; 3]);

impl Stop {
    fn new() -> std::io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    async fn asked(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

struct Listener {
    server: Client,
    local: Client,
    /// The path of the endpoint.
    base: String,
    keep: bool,
}

impl Listener {
    async fn open(server: Client, local: Client, args: &ListenArgs) -> anyhow::Result<Self> {
        let application = format!("/api/v1/app/{}", args.app);
        let found = ask(&server, Method::GET, &application, None).await?;
        if found.status == 404 {
            let body = json!({ "name": args.app, "uid": args.app });
            let made = ask(&server, Method::POST, "/api/v1/app?get_if_exists=true", Some(body));
            good(&made.await?, "make the application")?;
        } else {
            good(&found, "find the application")?;
        }
        let endpoints = format!("{application}/endpoint");
        let found = match &args.endpoint {
            Some(uid) => find(&server, &format!("{endpoints}/{uid}"), args).await?,
            None => None,
        };
        let endpoint = match found {
            Some(found) => found,
            None => make(&server, &endpoints, args).await?,
        };
        let base = format!("{endpoints}/{}", endpoint.id);
        Ok(Self { server, local, base, keep: args.endpoint.is_some() })
    }

    /// Says with what the receiver verifies events. A key that may only consume does not see it.
    async fn signing(&self) -> String {
        let path = format!("{}/secret", self.base);
        let read = async {
            let reply = ask(&self.server, Method::GET, &path, None).await?;
            good(&reply, "read the signing secret")?;
            anyhow::Ok(serde_json::from_slice::<Secret>(&reply.body)?.key)
        };
        match read.await {
            Ok(secret) => format!("they are signed with the secret {secret}"),
            Err(error) => format!("they are signed; {error:#}"),
        }
    }

    async fn forward_all(&self) {
        loop {
            match self.pop().await {
                Ok(Some(message)) => self.forward(message).await,
                Ok(None) => {}
                Err(error) => {
                    say(&format!("cannot fetch events, trying again: {error:#}"));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn pop(&self) -> anyhow::Result<Option<Message>> {
        let (wait, lease) = (WAIT.as_millis(), LEASE.as_secs());
        let query = format!("wait=true&signed=true&timeout={wait}&batch=1&lease={lease}");
        let path = format!("{}/pull?{query}", self.base);
        let ask = Ask { path, timeout: WAIT + TIMEOUT, ..Ask::default() };
        let reply = self.server.send(ask).await?;
        if reply.status == 204 {
            return Ok(None);
        }
        good(&reply, "fetch events")?;
        Ok(serde_json::from_slice::<Pulled>(&reply.body)?.messages.into_iter().next())
    }

    /// Posts one event, tells the server how that went, and says so in a line.
    async fn forward(&self, message: Message) {
        let began = Instant::now();
        let sent = self.local.send(Ask {
            method: Method::POST,
            headers: message.headers.into_iter().collect(),
            body: Bytes::from(Box::<str>::from(message.payload).into_string()),
            timeout: TIMEOUT,
            ..Ask::default()
        });
        let (taken, outcome) = match sent.await {
            Ok(reply) => (reply.status.is_success(), reply.status.as_u16().to_string()),
            Err(error) => (false, format!("{error:#}")),
        };
        let token = message.token;
        let (verb, body) = match taken {
            true => ("ack", json!({ "tokens": [token] })),
            false => {
                let item = json!({ "token": token, "error": outcome });
                ("nack", json!({ "items": [item] }))
            }
        };
        let settled = self.settle(verb, body).await;
        let again = if message.attempt > 1 {
            format!(" (attempt {})", message.attempt)
        } else {
            String::new()
        };
        let (id, kind, took) = (message.id, message.event_type, began.elapsed().as_millis());
        say(&format!("{id} {kind}{again} -> {outcome} in {took} ms"));
        if let Err(error) = settled {
            say(&format!("{id} comes again: {error:#}"));
        }
    }

    /// Tells how an event went.
    async fn settle(&self, verb: &str, body: serde_json::Value) -> anyhow::Result<()> {
        let path = format!("{}/pull/{verb}", self.base);
        let reply = ask(&self.server, Method::POST, &path, Some(body)).await?;
        good(&reply, verb)?;
        counted(verb, &reply.body)
    }

    async fn close(&self) -> anyhow::Result<()> {
        if self.keep {
            return Ok(());
        }
        let removed = ask(&self.server, Method::DELETE, &self.base, None).await?;
        good(&removed, "remove the endpoint")
    }
}

/// The endpoint that was named, if it is there.
async fn find(server: &Client, path: &str, args: &ListenArgs) -> anyhow::Result<Option<Found>> {
    let reply = ask(server, Method::GET, path, None).await?;
    if reply.status == 404 {
        return Ok(None);
    }
    good(&reply, "find the endpoint")?;
    let found: Found = serde_json::from_slice(&reply.body)?;
    if !found.delivery.pull {
        let name = args.endpoint.as_deref().unwrap_or(&found.id);
        let text = format!(
            "--endpoint: {name} exists and is not a pull endpoint: it was not changed; use another \
             name"
        );
        return Err(ConfigMistake(text).into());
    }
    if !args.event_types.is_empty() {
        let body = json!({ "eventTypes": args.event_types });
        good(&ask(server, Method::PATCH, path, Some(body)).await?, "set the event types")?;
    }
    Ok(Some(found))
}

async fn make(server: &Client, endpoints: &str, args: &ListenArgs) -> anyhow::Result<Found> {
    let types = (!args.event_types.is_empty()).then_some(&args.event_types);
    let body = json!({
        "description": "wakeline hook listen",
        "uid": args.endpoint,
        "eventTypes": types,
        "delivery": { "pull": true },
    });
    let made = ask(server, Method::POST, endpoints, Some(body)).await?;
    good(&made, "make the endpoint")?;
    Ok(serde_json::from_slice(&made.body)?)
}

/// Whether a settling counted. It did not if its token had become stale: then somebody else may
/// have the event, or get it.
fn counted(verb: &str, body: &[u8]) -> anyhow::Result<()> {
    let settled: Settled = serde_json::from_slice(body)?;
    match settled.results.first() {
        Some(one) if one.success => Ok(()),
        Some(one) => bail!("the {verb} came too late: the lease was {}", one.state),
        None => bail!("the server did not return a result of the {verb}"),
    }
}

async fn ask(
    server: &Client,
    method: Method,
    path: &str,
    body: Option<serde_json::Value>,
) -> anyhow::Result<Reply> {
    let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let path = path.to_owned();
    server.send(Ask { method, path, body, timeout: TIMEOUT, headers: Vec::new() }).await
}

fn good(reply: &Reply, what: &str) -> anyhow::Result<()> {
    if reply.status.is_success() {
        return Ok(());
    }
    let problem: Problem = serde_json::from_slice(&reply.body).unwrap_or_default();
    let body = || String::from_utf8_lossy(&reply.body).into_owned();
    let text = problem.error.or(problem.detail).unwrap_or_else(body);
    let hint = match reply.status {
        StatusCode::UNAUTHORIZED => "; set WAKELINE_API_KEY to a key of the server",
        _ => "",
    };
    bail!("cannot {what}: the server answered {}: {text}{hint}", reply.status.as_u16())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settling_that_comes_too_late_is_told() {
        let answer = |success: bool, state: &str| {
            json!({ "results": [{ "success": success, "state": state }] }).to_string()
        };
        assert!(counted("ack", answer(true, "delivered").as_bytes()).is_ok());
        let late = counted("ack", answer(false, "stale").as_bytes()).expect_err("too late");
        assert!(late.to_string().contains("stale"), "{late}");
        assert!(counted("ack", br#"{"results":[]}"#).is_err());
    }
}
