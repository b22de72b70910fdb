//! Receivers of webhooks with configurable behaviour, which log all requests.
//!
//! # Invariants
//! * A request is in the log before any of its answer is sent.
//! * Each receiver has an address of its own, so that no other process takes its port while it
//!   refuses connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use standardwebhooks::Webhook;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Dice;
use crate::hook_history::Arrival;

/// The signing secret of all endpoints in the tests.
pub(crate) const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// How a receiver behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Answers with a status and the name of the request.
    Answers(u16),
    /// Answers with a status and a `Retry-After` header of this many milliseconds.
    RetryAfter(u16, u64),
    /// Reads the request, and resets the connection.
    Resets,
    /// Reads the request, and does not answer until the behaviour changes.
    Holds,
    /// Answers one byte at a time, without an end.
    Drips,
    /// Answers with bytes that are not HTTP.
    SendsGarbage,
    /// Closes the connection within a successful answer.
    BreaksOff,
    /// Refuses connections.
    Refuses,
    /// Behaves randomly like one of the above except refusing, and often answers successfully.
    Random,
    /// Answers with a failure sometimes.
    SometimesFails,
}

impl Behaviour {
    fn choose(self, dice: &mut Dice) -> Self {
        match self {
            Self::Random => match dice.below(14) {
                0 => Self::Answers(500),
                1 => Self::RetryAfter(503, 700),
                2 => Self::RetryAfter(429, 300),
                3 => Self::Resets,
                4 => Self::Holds,
                5 => Self::Drips,
                6 => Self::SendsGarbage,
                7 => Self::BreaksOff,
                8 => Self::Answers(400),
                _ => Self::Answers(200),
            },
            Self::SometimesFails if dice.below(8) == 0 => Self::Answers(500),
            Self::SometimesFails => Self::Answers(201),
            other => other,
        }
    }
}

/// The receiver of an endpoint.
pub(crate) struct Receiver {
    pub(crate) name: String,
    address: SocketAddr,
    state: Arc<ReceiverState>,
    listening: Option<JoinHandle<()>>,
}

/// What a receiver shares with its connections.
struct ReceiverState {
    name: String,
    behaviour: watch::Sender<Behaviour>,
    log: parking_lot::Mutex<Vec<Arrival>>,
    dice: parking_lot::Mutex<Dice>,
    verifier: Webhook,
    held: AtomicUsize,
}

impl Receiver {
    pub(crate) async fn start(name: &str, behaviour: Behaviour) -> Self {
        let mut dice = Dice::new(u64::try_from(now()).expect("after 1970"));
        let mut part = || u8::try_from(1 + dice.below(250)).expect("below 251");
        let ip = Ipv4Addr::new(127, part(), part(), part());
        let listener = TcpListener::bind((ip, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let state = Arc::new(ReceiverState {
            name: name.to_owned(),
            behaviour: watch::Sender::new(behaviour),
            log: parking_lot::Mutex::default(),
            dice: parking_lot::Mutex::new(dice),
            verifier: Webhook::new(SECRET).expect("a key"),
            held: AtomicUsize::new(0),
        });
        let listening = tokio::spawn(listen(listener, Arc::clone(&state)));
        Self { name: name.to_owned(), address, state, listening: Some(listening) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/{}", self.address, self.name)
    }

    /// Changes the behaviour. Held requests are answered by the new behaviour.
    pub(crate) async fn set_behaviour(&mut self, behaviour: Behaviour) {
        if behaviour == Behaviour::Refuses {
            if let Some(listening) = self.listening.take() {
                listening.abort();
                let _ = listening.await;
            }
        } else if self.listening.is_none() {
            let listener = TcpListener::bind(self.address).await.expect("its own address");
            self.listening = Some(tokio::spawn(listen(listener, Arc::clone(&self.state))));
        }
        self.state.behaviour.send_replace(behaviour);
    }

    /// Returns all requests so far.
    pub(crate) fn log(&self) -> Vec<Arrival> {
        self.state.log.lock().clone()
    }

    /// Number of requests received so far.
    pub(crate) fn count(&self) -> usize {
        self.state.log.lock().len()
    }

    /// Number of requests that are held now.
    pub(crate) fn held(&self) -> usize {
        self.state.held.load(Ordering::SeqCst)
    }

    /// Waits until this many requests were received.
    pub(crate) async fn got(&self, count: usize) {
        let what = format!("{} got {count} requests", self.name);
        super::eventually(&what, || async { self.count() >= count }).await;
    }
}

async fn listen(listener: TcpListener, state: Arc<ReceiverState>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&state)));
    }
}

async fn serve(mut stream: TcpStream, state: Arc<ReceiverState>) {
    let mut behaviour = state.behaviour.subscribe();
    let mut bytes = Vec::new();
    loop {
        let request = tokio::select! {
            request = read(&mut stream, &mut bytes) => request,
            // A receiver that refuses connections also ends the open ones.
            _ = behaviour.wait_for(|behaviour| *behaviour == Behaviour::Refuses) => None,
        };
        let Some((headers, body)) = request else { return };
        let chosen = state.behaviour.borrow().choose(&mut state.dice.lock());
        let index = state.record(&headers, &body);
        if state.react(chosen, index, &mut stream).await.is_none() {
            return;
        }
    }
}

impl ReceiverState {
    fn record(&self, headers: &HeaderMap, body: &[u8]) -> usize {
        let at = now();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let body_json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let mut log = self.log.lock();
        let index = log.len();
        log.push(Arrival {
            request: format!("{}:{index}", self.name),
            endpoint: self.name.clone(),
            message: text("webhook-id").unwrap_or_default().to_owned(),
            mark: body_json["mark"].as_str().unwrap_or_default().to_owned(),
            at,
            answer: None,
            retry_after: Duration::ZERO,
            verified: self.verifier.verify(body, headers).is_ok(),
        });
        index
    }

    /// Reacts to the request with this index in the log. `None` ends the connection.
    async fn react(
        &self,
        behaviour: Behaviour,
        index: usize,
        stream: &mut TcpStream,
    ) -> Option<()> {
        match behaviour {
            Behaviour::Answers(status) => self.answer(status, None, index, stream).await,
            Behaviour::RetryAfter(status, ms) => self.answer(status, Some(ms), index, stream).await,
            Behaviour::Holds => {
                let held = Held::new(&self.held);
                let mut changes = self.behaviour.subscribe();
                changes.mark_unchanged();
                let mut rest = [0; 1];
                tokio::select! {
                    _ = changes.changed() => {}
                    _ = stream.read(&mut rest) => return None,
                }
                drop(held);
                let behaviour = *self.behaviour.borrow();
                match behaviour {
                    Behaviour::Answers(status) => self.answer(status, None, index, stream).await,
                    _ => None,
                }
            }
            Behaviour::Drips => {
                for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n".iter().cycle() {
                    stream.write_all(&[*byte]).await.ok()?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                None
            }
            Behaviour::SendsGarbage => {
                stream.write_all(b"\x15\x03no http\r\n\r\n").await.ok()?;
                None
            }
            Behaviour::BreaksOff => {
                let start = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nbeginning";
                stream.write_all(start).await.ok()?;
                None
            }
            Behaviour::Resets
            | Behaviour::Refuses
            | Behaviour::Random
            | Behaviour::SometimesFails => {
                stream.set_zero_linger().ok()?;
                None
            }
        }
    }

    async fn answer(
        &self,
        status: u16,
        retry_after_ms: Option<u64>,
        index: usize,
        stream: &mut TcpStream,
    ) -> Option<()> {
        let request = {
            let mut log = self.log.lock();
            let arrival = &mut log[index];
            arrival.answer = Some(status);
            arrival.retry_after = Duration::from_millis(retry_after_ms.unwrap_or_default());
            arrival.request.clone()
        };
        let retry_after = match retry_after_ms {
            Some(ms) => format!("retry-after: {}.{:03}\r\n", ms / 1000, ms % 1000),
            None => String::new(),
        };
        let length = request.len();
        let answer = format!(
            "HTTP/1.1 {status} x\r\n{retry_after}content-length: {length}\r\n\r\n{request}"
        );
        stream.write_all(answer.as_bytes()).await.ok()
    }
}

/// Counts a held request until it is dropped.
struct Held<'a>(&'a AtomicUsize);

impl<'a> Held<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Reads one whole request. Bytes after it stay in `bytes`. Returns `None` if the connection ends.
async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(HeaderMap, Vec<u8>)> {
    loop {
        if let Some((request, len)) = parse(bytes) {
            bytes.drain(..len);
            return Some(request);
        }
        if stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
}

fn parse(bytes: &[u8]) -> Option<((HeaderMap, Vec<u8>), usize)> {
    let head_len = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..head_len]).ok()?;
    let mut headers = HeaderMap::new();
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(':')?;
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.insert(name, HeaderValue::from_str(value.trim()).ok()?);
    }
    let length: usize = headers.get("content-length")?.to_str().ok()?.parse().ok()?;
    let body = bytes.get(head_len + 4..head_len + 4 + length)?.to_vec();
    Some(((headers, body), head_len + 4 + length))
}

/// The current time in microseconds, by the clock of this machine.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_micros()).expect("before the year 294247")
}
