//! Calls endpoints: one request with one deadline, and a response that is read up to a limit.
//!
//! # Invariants
//! * Connecting, TLS, the head and the body of the response share one deadline.
//! * The total number of sockets, in use and idle, is limited. Above the limit none is kept after
//!   its call.
//! * Redirects are treated like any other response; they are not followed.
//! * If a connection broke while it was idle, the request is sent again only if hyper knows that no
//!   part of it was sent; everything else is a failed attempt.

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

use crate::guard::{Guard, GuardError, UrlTarget};
use crate::policy::retry_after;
use connect::{CALLER, ConnectError, Connector};
pub use lookup::{NameLookup, SystemLookup};
pub use options::SendOptions;

/// The longest timeout that an endpoint may have.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// How long a connection may stay idle before it is closed.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// The maximum number of idle connections to one host.
const IDLE_PER_HOST_MAX: usize = 100;

/// One request to an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct EndpointCall {
    /// The application that the endpoint belongs to.
    pub(crate) application: ApplicationId,
    /// The URL to call.
    pub(crate) url: String,
    /// All headers except those that HTTP itself needs.
    pub(crate) headers: HeaderMap,
    /// The body, sent byte for byte.
    pub(crate) body: Bytes,
    /// The maximum duration of the call.
    pub(crate) timeout: Duration,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// The endpoint responded.
    Response {
        /// The response status.
        status: u16,
        /// How long the endpoint requests not to be called.
        retry_after: Option<Duration>,
        /// The beginning of the body.
        body: Bytes,
    },
    /// There was no response in time.
    Timeout,
    /// The guard refused the URL or address.
    Refused(GuardError),
    /// The call failed, with a message for the log of attempts.
    Failed(String),
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FinishedCall {
    /// How the call ended.
    pub(crate) ended: AttemptEnd,
    /// How long the call took.
    pub(crate) took: Duration,
}

/// The result of a test call to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PingReport {
    /// The response status, if the endpoint responded.
    pub status: Option<u16>,
    /// The error, if there was no response.
    pub error: Option<String>,
    /// How long the call took.
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
    /// Creates a sender that keeps at most `open_max` connections, in use and idle.
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

    /// Makes the call. It ends by its deadline, whatever the endpoint does.
    pub(crate) async fn send(&self, call: EndpointCall) -> FinishedCall {
        let began = Instant::now();
        let ended = match self.guard.url_target(&call.url) {
            Ok(target) => {
                let timeout = call.timeout;
                let exchange = Box::pin(self.exchange(target, call));
                tokio::time::timeout(timeout, exchange).await.unwrap_or(AttemptEnd::Timeout)
            }
            Err(error) => AttemptEnd::Refused(error),
        };
        FinishedCall { ended, took: began.elapsed() }
    }

    async fn exchange(&self, target: UrlTarget, call: EndpointCall) -> AttemptEnd {
        let mut request = Request::new(Full::new(call.body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = target.uri;
        *request.headers_mut() = call.headers;
        if let Some(basic) = target.authorization {
            request.headers_mut().entry(AUTHORIZATION).or_insert(basic);
        }
        let at_limit = self.open.load(Ordering::Relaxed) >= self.open_max;
        if at_limit {
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let connection = at_limit.then(|| capture_connection(&mut request));
        match CALLER.scope(call.application, self.client.request(request)).await {
            Ok(response) => {
                // The connection does not return to the pool even if the endpoint ignores the
                // header.
                if let Some(connection) = connection {
                    connection.connection_metadata().iter().for_each(Connected::poison);
                }
                self.read(response).await
            }
            Err(error) => failure(&error),
        }
    }

    /// Reads a response up to the limit. The rest is discarded together with the connection.
    async fn read(&self, response: Response<Incoming>) -> AttemptEnd {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers(), SystemTime::now());
        let mut incoming = response.into_body();
        let mut body = BytesMut::new();
        while body.len() < self.response_len_max {
            match incoming.frame().await {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let capacity = self.response_len_max - body.len();
                    body.extend_from_slice(&data[..data.len().min(capacity)]);
                }
                Some(Err(error)) => {
                    return AttemptEnd::Failed(format!(
                        "the response with status {status} was incomplete: {error}"
                    ));
                }
                None => break,
            }
        }
        AttemptEnd::Response { status, retry_after, body: body.freeze() }
    }
}

/// The end of a call that failed, with the innermost error, which is the most specific one.
fn failure(error: &hyper_util::client::legacy::Error) -> AttemptEnd {
    let mut reason = error.source();
    let mut last = error.to_string();
    while let Some(inner) = reason {
        if let Some(ConnectError::Refused(refused)) = inner.downcast_ref() {
            return AttemptEnd::Refused(refused.clone());
        }
        last = inner.to_string();
        reason = inner.source();
    }
    AttemptEnd::Failed(last)
}

impl From<FinishedCall> for PingReport {
    fn from(sent: FinishedCall) -> Self {
        let (status, error) = match sent.ended {
            AttemptEnd::Response { status, .. } => (Some(status), None),
            other => (None, other.error()),
        };
        Self { status, error, took: sent.took }
    }
}

impl AttemptEnd {
    /// The error, if there was no response.
    pub(crate) fn error(&self) -> Option<String> {
        match self {
            Self::Response { .. } => None,
            Self::Timeout => Some("the endpoint did not respond in time".to_owned()),
            // The address is not included: tenants must not learn how internal names resolve.
            Self::Refused(GuardError::Address(_)) => Some(
                "the URL leads to an address that is not public: the operator of the server can \
                 allow it with --hook-allow"
                    .to_owned(),
            ),
            Self::Refused(error) => Some(format!("the URL {error}")),
            Self::Failed(reason) => Some(reason.clone()),
        }
    }
}
