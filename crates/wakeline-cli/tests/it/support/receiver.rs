//! Receivers of webhooks that behave as badly as they are told to, and keep a log.
//!
//! # Invariants
//! * A request is in the log before any of its answer is sent.
//! * Each receiver has an address of its own, so that nobody takes its port while it refuses.

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

/// The key that all endpoints of the tests sign with.
pub(crate) const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// How a receiver behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Answers with a status and the name of the request.
    Answers(u16),
    /// Answers with a status and asks to be left alone for so many milliseconds.
    Asks(u16, u64),
    /// Reads, and breaks the connection.
    Resets,
    /// Reads, and is silent until its mood changes.
    Holds,
    /// Answers a byte at a time, and never to the end.
    Drips,
    /// Answers what is no HTTP.
    Babbles,
    /// Breaks off within a good answer.
    BreaksOff,
    /// Does not listen.
    Refuses,
    /// One of all these but refusing, by chance, and often a good answer.
    Moody,
    /// Fails now and then.
    Unsteady,
}

impl Mood {
    fn settle(self, dice: &mut Dice) -> Self {
        match self {
            Self::Moody => match dice.below(14) {
                0 => Self::Answers(500),
                1 => Self::Asks(503, 700),
                2 => Self::Asks(429, 300),
                3 => Self::Resets,
                4 => Self::Holds,
                5 => Self::Drips,
                6 => Self::Babbles,
                7 => Self::BreaksOff,
                8 => Self::Answers(400),
                _ => Self::Answers(200),
            },
            Self::Unsteady if dice.below(8) == 0 => Self::Answers(500),
            Self::Unsteady => Self::Answers(201),
            other => other,
        }
    }
}

/// An endpoint's other side.
pub(crate) struct Receiver {
    pub(crate) name: String,
    address: SocketAddr,
    desk: Arc<Desk>,
    listening: Option<JoinHandle<()>>,
}

struct Desk {
    name: String,
    mood: watch::Sender<Mood>,
    log: parking_lot::Mutex<Vec<Arrival>>,
    dice: parking_lot::Mutex<Dice>,
    verifier: Webhook,
    held: AtomicUsize,
}

impl Receiver {
    pub(crate) async fn start(name: &str, mood: Mood) -> Self {
        let mut dice = Dice::new(u64::try_from(now()).expect("after 1970"));
        let mut part = || u8::try_from(1 + dice.below(250)).expect("below 251");
        let ip = Ipv4Addr::new(127, part(), part(), part());
        let listener = TcpListener::bind((ip, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let desk = Arc::new(Desk {
            name: name.to_owned(),
            mood: watch::Sender::new(mood),
            log: parking_lot::Mutex::default(),
            dice: parking_lot::Mutex::new(dice),
            verifier: Webhook::new(SECRET).expect("a key"),
            held: AtomicUsize::new(0),
        });
        let listening = tokio::spawn(listen(listener, Arc::clone(&desk)));
        Self { name: name.to_owned(), address, desk, listening: Some(listening) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/{}", self.address, self.name)
    }

    /// From now on it behaves like that; what it holds is answered so.
    pub(crate) async fn becomes(&mut self, mood: Mood) {
        if mood == Mood::Refuses {
            if let Some(listening) = self.listening.take() {
                listening.abort();
                let _ = listening.await;
            }
        } else if self.listening.is_none() {
            let listener = TcpListener::bind(self.address).await.expect("its own address");
            self.listening = Some(tokio::spawn(listen(listener, Arc::clone(&self.desk))));
        }
        self.desk.mood.send_replace(mood);
    }

    /// All requests so far.
    pub(crate) fn log(&self) -> Vec<Arrival> {
        self.desk.log.lock().clone()
    }

    /// How many requests it has got.
    pub(crate) fn count(&self) -> usize {
        self.desk.log.lock().len()
    }

    /// How many requests it holds right now.
    pub(crate) fn held(&self) -> usize {
        self.desk.held.load(Ordering::SeqCst)
    }

    /// Waits until it has got so many.
    pub(crate) async fn got(&self, count: usize) {
        let what = format!("{} got {count} requests", self.name);
        super::eventually(&what, || async { self.count() >= count }).await;
    }
}

async fn listen(listener: TcpListener, desk: Arc<Desk>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, Arc::clone(&desk)));
    }
}

async fn serve(mut stream: TcpStream, desk: Arc<Desk>) {
    let mut mood = desk.mood.subscribe();
    let mut bytes = Vec::new();
    loop {
        let request = tokio::select! {
            request = read(&mut stream, &mut bytes) => request,
            // Refusing ends what was connected before.
            _ = mood.wait_for(|mood| *mood == Mood::Refuses) => None,
        };
        let Some((headers, body)) = request else { return };
        let act = desk.mood.borrow().settle(&mut desk.dice.lock());
        let place = desk.note(&headers, &body);
        if desk.act(act, place, &mut stream).await.is_none() {
            return;
        }
    }
}

impl Desk {
    fn note(&self, headers: &HeaderMap, body: &[u8]) -> usize {
        let at = now();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let body_json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let mut log = self.log.lock();
        let place = log.len();
        log.push(Arrival {
            request: format!("{}:{place}", self.name),
            endpoint: self.name.clone(),
            message: text("webhook-id").unwrap_or_default().to_owned(),
            mark: body_json["mark"].as_str().unwrap_or_default().to_owned(),
            at,
            answer: None,
            retry_after: Duration::ZERO,
            verified: self.verifier.verify(body, headers).is_ok(),
        });
        place
    }

    /// Does what it will do with a request. `None` ends the connection.
    async fn act(&self, mood: Mood, place: usize, stream: &mut TcpStream) -> Option<()> {
        match mood {
            Mood::Answers(status) => self.answer(status, None, place, stream).await,
            Mood::Asks(status, ms) => self.answer(status, Some(ms), place, stream).await,
            Mood::Holds => {
                let held = Held::new(&self.held);
                let mut changes = self.mood.subscribe();
                changes.mark_unchanged();
                let mut rest = [0; 1];
                tokio::select! {
                    _ = changes.changed() => {}
                    _ = stream.read(&mut rest) => return None,
                }
                drop(held);
                let mood = *self.mood.borrow();
                match mood {
                    Mood::Answers(status) => self.answer(status, None, place, stream).await,
                    _ => None,
                }
            }
            Mood::Drips => {
                for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n".iter().cycle() {
                    stream.write_all(&[*byte]).await.ok()?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                None
            }
            Mood::Babbles => {
                stream.write_all(b"\x15\x03no http\r\n\r\n").await.ok()?;
                None
            }
            Mood::BreaksOff => {
                let start = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nbeginning";
                stream.write_all(start).await.ok()?;
                None
            }
            Mood::Resets | Mood::Refuses | Mood::Moody | Mood::Unsteady => {
                stream.set_zero_linger().ok()?;
                None
            }
        }
    }

    async fn answer(
        &self,
        status: u16,
        retry_after_ms: Option<u64>,
        place: usize,
        stream: &mut TcpStream,
    ) -> Option<()> {
        let request = {
            let mut log = self.log.lock();
            let arrival = &mut log[place];
            arrival.answer = Some(status);
            arrival.retry_after = Duration::from_millis(retry_after_ms.unwrap_or_default());
            arrival.request.clone()
        };
        let asked = match retry_after_ms {
            Some(ms) => format!("retry-after: {}.{:03}\r\n", ms / 1000, ms % 1000),
            None => String::new(),
        };
        let length = request.len();
        let answer =
            format!("HTTP/1.1 {status} x\r\n{asked}content-length: {length}\r\n\r\n{request}");
        stream.write_all(answer.as_bytes()).await.ok()
    }
}

/// Counts what is held, whatever ends it.
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

/// Reads one request to its end; what follows it stays in `bytes`. `None` if none came.
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

/// Microseconds by this machine's clock.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_micros()).expect("before the year 294247")
}
