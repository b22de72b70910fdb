//! Calls endpoints: one request, one deadline over all of it, an answer read up to a limit.
//!
//! # Invariants
//! * Connecting, TLS, the answer's head and its body share one deadline.
//! * Sockets in use and idle are bounded in sum: above the bound none is kept after its call.
//! * Redirects are answers like any other: they are not followed.
//! * A connection that died while it was idle is replaced only if hyper knows that none of the
//!   request was sent; everything else is a failed attempt.

mod connect;
mod lookup;
mod options;
pub(crate) mod request;

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;
use wakeline_core::ApplicationId;

use crate::guard::{Guard, GuardError, Place};
use crate::policy::retry_after;
use connect::{CALLER, ConnectError, Connector};
pub use lookup::{NameLookup, SystemLookup};
pub use options::SendOptions;

/// The longest timeout that an endpoint may have.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// How long a connection may stay idle before it is closed.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Most idle connections that are kept for one host.
const IDLE_PER_HOST_MAX: usize = 100;

/// One request to an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Whose it is.
    pub(crate) application: ApplicationId,
    /// Where it goes.
    pub(crate) url: String,
    /// All headers but those that HTTP itself needs.
    pub(crate) headers: HeaderMap,
    /// The exact bytes that are sent.
    pub(crate) body: Bytes,
    /// Most time for all of it.
    pub(crate) timeout: Duration,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With an answer.
    Answer {
        /// Its status.
        status: u16,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
        /// The beginning of its body.
        body: Bytes,
    },
    /// With none in time.
    Timeout,
    /// The guard did not let it through.
    Refused(GuardError),
    /// With an error, in words for the log of attempts.
    Failed(String),
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    /// How.
    pub(crate) ended: Ended,
    /// How long it took.
    pub(crate) took: Duration,
}

/// What a verification call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PingReport {
    /// What the endpoint answered, if it did.
    pub status: Option<u16>,
    /// What went wrong, if no answer came.
    pub error: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// Calls endpoints over pooled connections.
pub(crate) struct Sender {
    client: Client<Connector, Full<Bytes>>,
    guard: Arc<Guard>,
    response_len_max: usize,
    open: Arc<AtomicUsize>,
    open_max: usize,
}

impl Sender {
    /// Keeps no connection beyond so many, in use and idle.
    pub(crate) fn new(options: &SendOptions, open_max: usize) -> Self {
        let guard = Arc::new(options.guard.clone());
        let connector = Connector::new(Arc::clone(&guard), options);
        let open = connector.open();
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .build(connector);
        Self { client, guard, response_len_max: options.response_len_max, open, open_max }
    }

    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Makes the call. It ends by its deadline, whatever the other side does.
    pub(crate) async fn send(&self, call: Call) -> Sent {
        let began = Instant::now();
        let ended = match self.guard.place(&call.url) {
            Ok(place) => {
                let timeout = call.timeout;
                let exchange = Box::pin(self.exchange(place, call));
                tokio::time::timeout(timeout, exchange).await.unwrap_or(Ended::Timeout)
            }
            Err(error) => Ended::Refused(error),
        };
        Sent { ended, took: began.elapsed() }
    }

    async fn exchange(&self, place: Place, call: Call) -> Ended {
        let mut request = Request::new(Full::new(call.body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = place.uri;
        *request.headers_mut() = call.headers;
        if let Some(basic) = place.authorization {
            request.headers_mut().entry(AUTHORIZATION).or_insert(basic);
        }
        let crowded = self.open.load(Ordering::Relaxed) >= self.open_max;
        if crowded {
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let connection = crowded.then(|| capture_connection(&mut request));
        match CALLER.scope(call.application, self.client.request(request)).await {
            Ok(response) => {
                // Whatever the other side makes of the header, the pool does not take it back.
                if let Some(connection) = connection {
                    connection.connection_metadata().iter().for_each(Connected::poison);
                }
                self.read(response).await
            }
            Err(error) => failure(&error),
        }
    }

    /// Reads an answer up to the limit; what is left of it is dropped with its connection.
    async fn read(&self, response: Response<Incoming>) -> Ended {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers(), SystemTime::now());
        let mut incoming = response.into_body();
        let mut body = BytesMut::new();
        while body.len() < self.response_len_max {
            match incoming.frame().await {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let room = self.response_len_max - body.len();
                    body.extend_from_slice(&data[..data.len().min(room)]);
                }
                Some(Err(error)) => {
                    return Ended::Failed(format!(
                        "the answer with status {status} was cut off: {error}"
                    ));
                }
                None => break,
            }
        }
        Ended::Answer { status, retry_after, body: body.freeze() }
    }
}

/// The innermost reason, which says most.
fn failure(error: &hyper_util::client::legacy::Error) -> Ended {
    let mut reason = error.source();
    let mut last = error.to_string();
    while let Some(inner) = reason {
        if let Some(ConnectError::Refused(refused)) = inner.downcast_ref() {
            return Ended::Refused(refused.clone());
        }
        last = inner.to_string();
        reason = inner.source();
    }
    Ended::Failed(last)
}

impl From<Sent> for PingReport {
    fn from(sent: Sent) -> Self {
        let (status, error) = match sent.ended {
            Ended::Answer { status, .. } => (Some(status), None),
            other => (None, other.error()),
        };
        Self { status, error, took: sent.took }
    }
}

impl Ended {
    /// What went wrong, if no answer came.
    pub(crate) fn error(&self) -> Option<String> {
        match self {
            Self::Answer { .. } => None,
            Self::Timeout => Some("the endpoint did not answer in time".to_owned()),
            // Which address it is stays with us: a tenant need not learn what names mean inside.
            Self::Refused(GuardError::Address(_)) => Some(
                "the URL leads to an address that is not public: --hook-allow allows further \
                      addresses"
                    .to_owned(),
            ),
            Self::Refused(error) => Some(format!("the URL {error}")),
            Self::Failed(reason) => Some(reason.clone()),
        }
    }
}
