//! A proxy in front of PostgreSQL that knows where statements begin and end on the wire, and takes
//! the database away at one of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The side of a statement on which the database goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// The server never gets it.
    Before,
    /// The server has executed it, and nobody hears the answer.
    Unanswered,
    /// The client has its answer, and finds the database away at the next statement.
    Answered,
}

/// Where the database goes away.
struct Plan {
    /// Statements that still pass.
    passes: u64,
    when: When,
}

struct Shared {
    server: String,
    away: watch::Sender<bool>,
    plan: Mutex<Option<Plan>>,
}

/// Passes connections on, until the database goes away.
pub(crate) struct StatementProxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl StatementProxy {
    pub(crate) async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let away = watch::Sender::new(false);
        let shared = Arc::new(Shared { server, away, plan: Mutex::new(None) });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !*accepting.away.borrow() {
                    tokio::spawn(pass(client, Arc::clone(&accepting)));
                }
            }
        });
        Self { address, shared }
    }

    /// Takes the database away at the k-th statement from now on, counted from 1.
    pub(crate) fn interrupt(&self, nth: u64, when: When) {
        *self.shared.plan.lock() = Some(Plan { passes: nth - 1, when });
    }

    /// Forgets the plan. True if it has come to pass: the database is away.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.shared.plan.lock().take();
        *self.shared.away.borrow()
    }

    /// Lets new connections through again.
    pub(crate) fn heal(&self) {
        self.shared.away.send_replace(false);
    }
}

impl Shared {
    /// Counts a statement that is about to be sent. Says if the database goes away at it.
    fn count(&self) -> Option<When> {
        let mut plan = self.plan.lock();
        let passes = &mut plan.as_mut()?.passes;
        if *passes > 0 {
            *passes -= 1;
            return None;
        }
        plan.take().map(|plan| plan.when)
    }

    /// Ends all connections, and refuses new ones.
    fn leave(&self) {
        self.away.send_replace(true);
    }
}

async fn pass(client: TcpStream, shared: Arc<Shared>) {
    let mut away = shared.away.subscribe();
    let Ok(server) = TcpStream::connect(&shared.server).await else { return };
    let (from_client, mut to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let wire = Wire { shared: &shared, last: Mutex::new(None), farewell: Mutex::default() };
    tokio::select! {
        // The server has to see the end of requests, and closes the connection.
        _ = async { tokio::join!(wire.requests(from_client, to_server),
                                 wire.answers(from_server, &mut to_client)) } => {}
        _ = away.wait_for(|away| *away) => {}
    }
    let farewell = std::mem::take(&mut *wire.farewell.lock());
    if !farewell.is_empty() {
        // The other connections end first, so that the client knows of them.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let _ = to_client.write_all(&farewell).await;
    }
}

/// A message: its kind, and all of its bytes.
async fn message(from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(u8, Vec<u8>)> {
    let kind = from.read_u8().await?;
    let mut bytes = vec![kind];
    let length = from.read_u32().await?;
    bytes.extend(length.to_be_bytes());
    let mut body = vec![0; length as usize - 4];
    from.read_exact(&mut body).await?;
    bytes.extend(body);
    Ok((kind, bytes))
}

/// Whether a text only sets a session up.
fn is_set_up(query: &[u8]) -> bool {
    query[5..].starts_with(b"SET statement_timeout")
}

/// One connection.
struct Wire<'a> {
    shared: &'a Shared,
    /// The number of the last request, and what becomes of its answer.
    last: Mutex<Option<(u64, When)>>,
    /// The answer that is passed on while the database goes away.
    farewell: Mutex<Vec<u8>>,
}

impl Wire<'_> {
    /// Passes requests on, each with all its messages.
    async fn requests(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
    ) -> std::io::Result<()> {
        // The first message has no kind.
        let length = from.read_u32().await?;
        let mut request = vec![0; length as usize - 4];
        from.read_exact(&mut request).await?;
        to.write_all(&length.to_be_bytes()).await?;
        to.write_all(&request).await?;
        let mut number = 1;
        loop {
            let (mut request, mut executes) = (Vec::new(), false);
            let last = loop {
                let (kind, bytes) = message(&mut from).await?;
                executes |= kind == b'E' || (kind == b'Q' && !is_set_up(&bytes));
                request.extend(bytes);
                if matches!(kind, b'S' | b'Q' | b'X') {
                    break kind;
                }
            };
            match if executes { self.shared.count() } else { None } {
                None => {}
                Some(When::Before) => {
                    self.shared.leave();
                    return Ok(());
                }
                Some(when) => *self.last.lock() = Some((number, when)),
            }
            to.write_all(&request).await?;
            number += u64::from(last != b'X');
        }
    }

    /// Passes answers on. Once that of the last request is complete, the database goes away.
    async fn answers(
        &self,
        mut from: OwnedReadHalf,
        to: &mut OwnedWriteHalf,
    ) -> std::io::Result<()> {
        let mut number = 0;
        loop {
            let (kind, bytes) = message(&mut from).await?;
            let last = self.last.lock().filter(|(last, _)| number >= *last);
            match last {
                None => to.write_all(&bytes).await?,
                Some((_, When::Answered)) => self.farewell.lock().extend(bytes),
                Some(_) => {}
            }
            // Ready for the next request.
            if kind == b'Z' {
                number += 1;
                if last.is_some() {
                    self.shared.leave();
                }
            }
        }
    }
}
