//! `wakeline hook listen --forward URL` brings events to a developer's machine without a tunnel.
//!
//! # Where it sits
//! It is a client of a running server: it creates a pull endpoint, pops events from it by long
//! polling, and posts them to a local URL, with the headers that a receiver verifies.
//!
//! # Invariants
//! * An event is acked only after the local receiver answered 2xx. Otherwise it is nacked and
//!   delivered again by the endpoint's retry schedule.
//! * An endpoint that was created for this run is removed at the end. A named endpoint stays, and
//!   events that arrive between two runs wait for the next one.
//! * An existing named endpoint is used unchanged, and only if it is a pull endpoint, because other
//!   programs may depend on it.
//! * The lease of an event is long enough to forward and settle it.

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

use super::client::{HttpClient, HttpRequest, HttpResponse};
use crate::config::UsageError;
use crate::print_line;

/// How long a pop waits on the server.
const WAIT: Duration = Duration::from_secs(30);
/// Timeout of every other request.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The lease of an event: time to forward and to settle it. Events are fetched one at a time, so
/// that the lease does not run while another event is forwarded.
const LEASE: Duration = Duration::from_secs(3 * TIMEOUT.as_secs());
/// Pause before the next try, if the server could not be reached.
const PAUSE: Duration = Duration::from_secs(1);

/// Settings of `wakeline hook listen`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ListenArgs {
    /// URL to post events to, like http://localhost:3000/hooks
    #[arg(long, value_name = "URL")]
    forward: String,
    /// URL of the Wakeline server
    #[arg(
        long,
        env = "WAKELINE_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7632"
    )]
    server: String,
    /// The application, by its id or uid; created if it does not exist
    #[arg(long, value_name = "APP", default_value = "default")]
    app: String,
    /// Only events of these types, like invoice.paid or invoice.*
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    event_types: Vec<String>,
    /// Uid of the endpoint to pull from. It is created if it does not exist, and not removed at the
    /// end. If it exists, --event-types replaces its event types, and nothing else is changed.
    /// Without this flag, a new endpoint is created, and removed at the end
    #[arg(long, value_name = "UID")]
    endpoint: Option<String>,
}

#[derive(Debug, Deserialize)]
struct FoundEndpoint {
    id: String,
    delivery: EndpointDelivery,
}

#[derive(Debug, Deserialize)]
struct EndpointDelivery {
    pull: bool,
}

/// The body of an error response, in either of the server's two formats.
#[derive(Debug, Default, Deserialize)]
struct ErrorBody {
    error: Option<String>,
    detail: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Secret {
    key: String,
}

#[derive(Debug, Deserialize)]
struct SettleResponse {
    results: Vec<SettleResult>,
}

#[derive(Debug, Deserialize)]
struct SettleResult {
    success: bool,
    state: String,
}

#[derive(Debug, Deserialize)]
struct PullResponse {
    messages: Vec<PulledEvent>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PulledEvent {
    token: String,
    id: String,
    event_type: String,
    attempt: u32,
    headers: BTreeMap<String, String>,
    payload: Box<RawValue>,
}

/// Runs `wakeline hook listen` until ctrl-c.
pub(crate) fn run(args: ListenArgs) -> anyhow::Result<ExitCode> {
    let mistake = |flag| move |error: anyhow::Error| UsageError(format!("{flag}: {error:#}"));
    let key = std::env::var("WAKELINE_API_KEY").ok().filter(|key| !key.is_empty());
    let server = HttpClient::new(&args.server, key).map_err(mistake("--server"))?;
    let local = HttpClient::new(&args.forward, None).map_err(mistake("--forward"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Register the signals before the endpoint is created: from then on a signal must remove
        // it.
        let mut stop = StopSignals::new()?;
        let listener = EventForwarder::open(server, local, &args).await?;
        print_line(&format!(
            "forwarding the events of application {} to {}; stop with ctrl-c",
            args.app, args.forward
        ));
        print_line(&listener.signing().await);
        tokio::select! {
            () = listener.forward_all() => {}
            () = stop.received() => {}
        }
        listener.close().await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// The signals that stop the command: SIGINT (ctrl-c), SIGTERM and SIGHUP (a closed terminal).
struct StopSignals([Signal; 3]);

impl StopSignals {
    fn new() -> std::io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    async fn received(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

struct EventForwarder {
    server: HttpClient,
    local: HttpClient,
    /// The path of the endpoint.
    base: String,
    keep: bool,
}

impl EventForwarder {
    async fn open(
        server: HttpClient,
        local: HttpClient,
        args: &ListenArgs,
    ) -> anyhow::Result<Self> {
        let application = format!("/api/v1/app/{}", args.app);
        let found = send(&server, Method::GET, &application, None).await?;
        if found.status == 404 {
            let body = json!({ "name": args.app, "uid": args.app });
            let made = send(&server, Method::POST, "/api/v1/app?get_if_exists=true", Some(body));
            require_success(&made.await?, "create the application")?;
        } else {
            require_success(&found, "find the application")?;
        }
        let endpoints = format!("{application}/endpoint");
        let found = match &args.endpoint {
            Some(uid) => find_endpoint(&server, &format!("{endpoints}/{uid}"), args).await?,
            None => None,
        };
        let endpoint = match found {
            Some(found) => found,
            None => create_endpoint(&server, &endpoints, args).await?,
        };
        let base = format!("{endpoints}/{}", endpoint.id);
        Ok(Self { server, local, base, keep: args.endpoint.is_some() })
    }

    /// A line about the secret that the receiver verifies events with. An API key that may only
    /// consume cannot read the secret.
    async fn signing(&self) -> String {
        let path = format!("{}/secret", self.base);
        let read = async {
            let reply = send(&self.server, Method::GET, &path, None).await?;
            require_success(&reply, "read the signing secret")?;
            anyhow::Ok(serde_json::from_slice::<Secret>(&reply.body)?.key)
        };
        match read.await {
            Ok(secret) => format!("the events are signed with the secret {secret}"),
            Err(error) => format!("the events are signed, but the secret is not known: {error:#}"),
        }
    }

    async fn forward_all(&self) {
        loop {
            match self.pop().await {
                Ok(Some(message)) => self.forward(message).await,
                Ok(None) => {}
                Err(error) => {
                    print_line(&format!("cannot fetch events, trying again: {error:#}"));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn pop(&self) -> anyhow::Result<Option<PulledEvent>> {
        let (wait, lease) = (WAIT.as_millis(), LEASE.as_secs());
        let query = format!("wait=true&signed=true&timeout={wait}&batch=1&lease={lease}");
        let path = format!("{}/pull?{query}", self.base);
        let request = HttpRequest { path, timeout: WAIT + TIMEOUT, ..HttpRequest::default() };
        let reply = self.server.send(request).await?;
        if reply.status == 204 {
            return Ok(None);
        }
        require_success(&reply, "fetch events")?;
        Ok(serde_json::from_slice::<PullResponse>(&reply.body)?.messages.into_iter().next())
    }

    /// Posts one event, acks or nacks it, and prints a line about the result.
    async fn forward(&self, message: PulledEvent) {
        let began = Instant::now();
        let sent = self.local.send(HttpRequest {
            method: Method::POST,
            headers: message.headers.into_iter().collect(),
            body: Bytes::from(Box::<str>::from(message.payload).into_string()),
            timeout: TIMEOUT,
            ..HttpRequest::default()
        });
        let (accepted, outcome) = match sent.await {
            Ok(reply) => (reply.status.is_success(), reply.status.as_u16().to_string()),
            Err(error) => (false, format!("{error:#}")),
        };
        let token = message.token;
        let (verb, body) = if accepted {
            ("ack", json!({ "tokens": [token] }))
        } else {
            let item = json!({ "token": token, "error": outcome });
            ("nack", json!({ "items": [item] }))
        };
        let settled = self.settle(verb, body).await;
        let again = if message.attempt > 1 {
            format!(" (attempt {})", message.attempt)
        } else {
            String::new()
        };
        let (id, kind, took) = (message.id, message.event_type, began.elapsed().as_millis());
        print_line(&format!("{id} {kind}{again} -> {outcome} in {took} ms"));
        if let Err(error) = settled {
            print_line(&format!("{id} will be delivered again: {error:#}"));
        }
    }

    /// Acks or nacks an event.
    async fn settle(&self, verb: &str, body: serde_json::Value) -> anyhow::Result<()> {
        let path = format!("{}/pull/{verb}", self.base);
        let reply = send(&self.server, Method::POST, &path, Some(body)).await?;
        require_success(&reply, verb)?;
        require_settled(verb, &reply.body)
    }

    async fn close(&self) -> anyhow::Result<()> {
        if self.keep {
            return Ok(());
        }
        let removed = send(&self.server, Method::DELETE, &self.base, None).await?;
        require_success(&removed, "remove the endpoint")
    }
}

/// Returns the named endpoint if it exists, after setting its event types if some are given.
async fn find_endpoint(
    server: &HttpClient,
    path: &str,
    args: &ListenArgs,
) -> anyhow::Result<Option<FoundEndpoint>> {
    let reply = send(server, Method::GET, path, None).await?;
    if reply.status == 404 {
        return Ok(None);
    }
    require_success(&reply, "find the endpoint")?;
    let found: FoundEndpoint = serde_json::from_slice(&reply.body)?;
    if !found.delivery.pull {
        let name = args.endpoint.as_deref().unwrap_or(&found.id);
        let text = format!(
            "--endpoint: {name} exists and is not a pull endpoint: it was not changed; use another \
             name"
        );
        return Err(UsageError(text).into());
    }
    if !args.event_types.is_empty() {
        let body = json!({ "eventTypes": args.event_types });
        require_success(
            &send(server, Method::PATCH, path, Some(body)).await?,
            "set the event types",
        )?;
    }
    Ok(Some(found))
}

async fn create_endpoint(
    server: &HttpClient,
    endpoints: &str,
    args: &ListenArgs,
) -> anyhow::Result<FoundEndpoint> {
    let types = (!args.event_types.is_empty()).then_some(&args.event_types);
    let body = json!({
        "description": "wakeline hook listen",
        "uid": args.endpoint,
        "eventTypes": types,
        "delivery": { "pull": true },
    });
    let made = send(server, Method::POST, endpoints, Some(body)).await?;
    require_success(&made, "create the endpoint")?;
    Ok(serde_json::from_slice(&made.body)?)
}

/// Checks that an ack or nack was effective. It is not if its token was stale: then the event is,
/// or will be, leased to another consumer.
fn require_settled(verb: &str, body: &[u8]) -> anyhow::Result<()> {
    let settled: SettleResponse = serde_json::from_slice(body)?;
    match settled.results.first() {
        Some(one) if one.success => Ok(()),
        Some(one) => bail!(
            "the {verb} had no effect, because the lease of the event has ended ({})",
            one.state
        ),
        None => bail!("the server did not return a result of the {verb}"),
    }
}

async fn send(
    server: &HttpClient,
    method: Method,
    path: &str,
    body: Option<serde_json::Value>,
) -> anyhow::Result<HttpResponse> {
    let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let path = path.to_owned();
    server.send(HttpRequest { method, path, body, timeout: TIMEOUT, headers: Vec::new() }).await
}

fn require_success(reply: &HttpResponse, what: &str) -> anyhow::Result<()> {
    if reply.status.is_success() {
        return Ok(());
    }
    let problem: ErrorBody = serde_json::from_slice(&reply.body).unwrap_or_default();
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
    fn a_late_ack_is_an_error() {
        let answer = |success: bool, state: &str| {
            json!({ "results": [{ "success": success, "state": state }] }).to_string()
        };
        assert!(require_settled("ack", answer(true, "delivered").as_bytes()).is_ok());
        let late = require_settled("ack", answer(false, "stale").as_bytes()).expect_err("too late");
        assert!(late.to_string().contains("stale"), "{late}");
        assert!(require_settled("ack", br#"{"results":[]}"#).is_err());
    }
}
