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

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use bytes::Bytes;
use clap::Args;
use hyper::Method;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::client::{Ask, Client, Reply};
use crate::config::ConfigMistake;
use crate::say;

/// How long the server may hold a pop.
const WAIT: Duration = Duration::from_secs(30);
/// Most events of one pop.
const BATCH: u32 = 10;
/// Time for everything else.
const TIMEOUT: Duration = Duration::from_secs(15);
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
    /// Your own id of the endpoint to pull from. It is made if it is not there, and kept
    #[arg(long, value_name = "UID")]
    endpoint: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Named {
    id: String,
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
    let mistake = |error: anyhow::Error| ConfigMistake(format!("{error:#}"));
    let key = std::env::var("WAKELINE_API_KEY").ok().filter(|key| !key.is_empty());
    let server = Client::new(&args.server, key).map_err(mistake)?;
    let local = Client::new(&args.forward, None).map_err(mistake)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = Listener::open(server, local, &args).await?;
        say(&format!("events of {} go to {}; ctrl-c ends it", args.app, args.forward));
        tokio::select! {
            () = listener.forward_all() => {}
            stopped = stop() => stopped?,
        }
        listener.close().await?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn stop() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        stopped = tokio::signal::ctrl_c() => stopped?,
        _ = terminate.recv() => {}
    }
    Ok(())
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
        let types = (!args.event_types.is_empty()).then_some(&args.event_types);
        let body = json!({
            "description": format!("wakeline hook listen --forward {}", args.forward),
            "eventTypes": types,
            "delivery": { "pull": true },
        });
        let endpoints = format!("{application}/endpoint");
        let made = match &args.endpoint {
            Some(uid) => {
                ask(&server, Method::PUT, &format!("{endpoints}/{uid}"), Some(body)).await?
            }
            None => ask(&server, Method::POST, &endpoints, Some(body)).await?,
        };
        good(&made, "make the endpoint")?;
        let made: Named = serde_json::from_slice(&made.body)?;
        let base = format!("{endpoints}/{}", made.id);
        Ok(Self { server, local, base, keep: args.endpoint.is_some() })
    }

    async fn forward_all(&self) {
        loop {
            match self.pop().await {
                Ok(messages) => {
                    for message in messages {
                        self.forward(message).await;
                    }
                }
                Err(error) => {
                    say(&format!("cannot fetch events, trying again: {error:#}"));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn pop(&self) -> anyhow::Result<Vec<Message>> {
        let wait = WAIT.as_millis();
        let path = format!("{}/pull?wait=true&signed=true&timeout={wait}&batch={BATCH}", self.base);
        let ask = Ask { path, timeout: WAIT + TIMEOUT, ..Ask::default() };
        let reply = self.server.send(ask).await?;
        if reply.status == 204 {
            return Ok(Vec::new());
        }
        good(&reply, "fetch events")?;
        Ok(serde_json::from_slice::<Pulled>(&reply.body)?.messages)
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
        let path = format!("{}/pull/{verb}", self.base);
        let settled = ask(&self.server, Method::POST, &path, Some(body)).await;
        let settled = settled.and_then(|reply| good(&reply, verb));
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

    async fn close(&self) -> anyhow::Result<()> {
        if self.keep {
            return Ok(());
        }
        let removed = ask(&self.server, Method::DELETE, &self.base, None).await?;
        good(&removed, "remove the endpoint")
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
    let body = String::from_utf8_lossy(&reply.body);
    bail!("cannot {what}: the server answered {} {body}", reply.status.as_u16())
}
