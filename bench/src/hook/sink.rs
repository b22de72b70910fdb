//! The receiver of the hook benchmark: a bare hyper server in a separate process.
//!
//! # Where it sits
//! `wakeline-bench hook-sink`. Endpoints of both stores, the bare loop and the driver all post to
//! it, so that all of them have the same receiver.
//!
//! # Invariants
//! * A request is counted when its body is complete, before it is answered.
//! * Times are those of the clock of the machine, which the sender writes into the body. The sender
//!   and the receiver run on the same machine.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::time::Interval;

use crate::table::print_line;

/// The pause between two bytes of a slow answer.
const DRIP: Duration = Duration::from_millis(50);

/// Microseconds since 1970, by the clock of the machine.
pub(crate) fn machine_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Returns a payload with the current time and some data.
pub(crate) fn payload() -> String {
    format!(r#"{{"at":{},"order":123456,"customer":"a name","note":"{:0>100}"}}"#, machine_us(), 7)
}

/// Serves requests until the process is killed.
pub(crate) fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        print_line(&format!("url     http://{}", listener.local_addr()?));
        let seen = Arc::new(Mutex::new(Seen::default()));
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let service = service_fn(|request| answer(Arc::clone(&seen), request));
                // A client that closes its connection needs no answer.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
            });
        }
    })
}

/// The received requests.
#[derive(Default)]
struct Seen {
    received: u64,
    /// Latencies of requests by kind, in microseconds.
    latencies: HashMap<String, Vec<u64>>,
}

/// The time in a payload.
#[derive(Deserialize)]
struct SinkStamp {
    at: u64,
}

async fn answer(
    seen: Arc<Mutex<Seen>>,
    request: Request<Incoming>,
) -> Result<Response<Content>, Infallible> {
    let path = request.uri().path().to_owned();
    let mut parts = path.split('/').skip(1);
    let (verb, kind) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let get = request.method() == Method::GET;
    let content = match verb {
        "count" if get => {
            let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            Content::whole(seen.received.to_string())
        }
        "take" if get => {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let mut taken = seen.latencies.remove(kind).unwrap_or_default();
            taken.sort_unstable();
            Content::whole(serde_json::to_string(&taken).unwrap_or_default())
        }
        "fast" => {
            receive(&seen, kind, request).await;
            Content::whole(String::new())
        }
        "well" => Content::whole(String::new()),
        "drip" => Content::Drip(tokio::time::interval(DRIP)),
        "hang" => std::future::pending().await,
        _ => {
            let mut response = Response::new(Content::whole("broken".to_owned()));
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            return Ok(response);
        }
    };
    Ok(Response::new(content))
}

async fn receive(seen: &Mutex<Seen>, kind: &str, request: Request<Incoming>) {
    let Ok(body) = request.into_body().collect().await else { return };
    let now = machine_us();
    let stamp = serde_json::from_slice::<SinkStamp>(&body.to_bytes()).ok();
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.received += 1;
    if let (Some(stamp), false) = (stamp, kind.is_empty()) {
        let taken = now.saturating_sub(stamp.at);
        if let Some(latencies) = seen.latencies.get_mut(kind) {
            latencies.push(taken);
        } else {
            seen.latencies.insert(kind.to_owned(), vec![taken]);
        }
    }
}

/// The body of an answer.
enum Content {
    /// A complete body.
    Whole(Option<Bytes>),
    /// One byte after each pause, without an end.
    Drip(Interval),
}

impl Content {
    fn whole(text: String) -> Self {
        Self::Whole((!text.is_empty()).then(|| text.into()))
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Drip(interval) => {
                let byte = Bytes::from_static(b".");
                interval.poll_tick(context).map(|_| Some(Ok(Frame::data(byte))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(bytes) => {
                hyper::body::SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            Self::Drip(_) => hyper::body::SizeHint::default(),
        }
    }
}
