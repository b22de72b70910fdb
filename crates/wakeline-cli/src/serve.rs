//! `wakeline serve`

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use wakeline_flow::provider::{Provider as _, QueueHints, StoreProvider, StoreProviderOptions};
use wakeline_http::{AppState, Server};
use wakeline_queue::{QueueService, QueueServiceOptions};
use wakeline_store::{FanOut, HintOrigin, StoreInfo, WholeStore};

use crate::config::{ServeArgs, Settings};
use crate::{limits, logs, say, store};

/// Time for claims whose waiters have gone to end and be released on shutdown.
const RELEASE_TIME: Duration = Duration::from_secs(5);

/// Runs the server until SIGTERM or SIGINT.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = args.settle(std::env::var("WAKELINE_API_KEY").ok())?;
    logs::start(settings.log_format);
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: Settings) -> anyhow::Result<ExitCode> {
    let metrics = wakeline_http::install_metrics();
    let store = store::open(&settings).await?;
    let listener = Server::bind(settings.listen)
        .with_context(|| format!("cannot listen on {}", settings.listen))?;
    let address = listener.local_addr().context("cannot read the bound address")?;

    let long_poll = settings.long_poll.clone();
    let options = QueueServiceOptions { mode: settings.mode, long_poll: long_poll.clone() };
    let queue = QueueService::start(store.clone(), options);
    let flow = flow(
        &store,
        &queue,
        StoreProviderOptions { mode: settings.mode, long_poll, queue_hints: None },
    );
    let listening = CancellationToken::new();
    tokio::spawn(listen(store.clone(), queue.clone(), flow.clone(), listening.clone()));

    let mut server = settings.server.clone();
    server.connections_max = limits::connections_max();
    let state = AppState::new(queue.clone(), flow.clone(), settings.http.clone(), metrics);
    let shutdown = CancellationToken::new();
    tokio::spawn(stop_on_signal(shutdown.clone()));
    greet(&store.info(), address, settings.http.api_key.is_some());

    let clean = Server::new(listener, state, server).run(shutdown).await;
    if !clean {
        tracing::warn!("some requests did not finish in the drain time");
    }
    // Before the store closes: a lease that nobody heard of would last its whole time.
    if tokio::time::timeout(RELEASE_TIME, queue.settled()).await.is_err() {
        tracing::warn!("a claim did not end; what it took is available when its lease ends");
    }
    flow.close().await;
    listening.cancel();
    store.close().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Orchestrations over the same store; what their turns push to queues is told to the queue.
fn flow(
    store: &Arc<dyn WholeStore>,
    queue: &QueueService,
    options: StoreProviderOptions,
) -> StoreProvider {
    let sink = queue.sink();
    let tell: QueueHints = Arc::new(move |changes| sink.changed(changes, HintOrigin::InProcess));
    let options = StoreProviderOptions { queue_hints: Some(tell), ..options };
    StoreProvider::new(store.clone(), options)
}

/// Hears of other processes, on behalf of both faces. In poll mode nobody listens, and the store is
/// only tended.
async fn listen(
    store: Arc<dyn WholeStore>,
    queue: QueueService,
    flow: StoreProvider,
    shutdown: CancellationToken,
) {
    let uses_hints = queue.uses_hints();
    let sink = Arc::new(FanOut(vec![queue.sink(), Arc::new(flow)]));
    match uses_hints {
        true => store.feed(sink, shutdown).await,
        false => store.tend(sink, shutdown).await,
    }
}

/// The first signal drains; a second one ends the process at once.
async fn stop_on_signal(shutdown: CancellationToken) {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("cannot listen for signals");
        return;
    };
    for round in 0.. {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if round > 0 {
            tracing::warn!("second signal: stopping without a drain");
            std::process::exit(1);
        }
        tracing::info!("draining: parked pops are answered, requests in flight finish");
        shutdown.cancel();
    }
}

fn greet(store: &StoreInfo, address: SocketAddr, keyed: bool) {
    let url = format!("http://{address}");
    let key = if keyed { " -H \"Authorization: Bearer $WAKELINE_API_KEY\"" } else { "" };
    say(&format!("store   {} {}", store.kind, store.location));
    say(&format!("url     {url}   (documentation at {url}/docs)"));
    say("try     in one shell, wait for a message:");
    say(&format!("  curl -s{key} '{url}/api/v1/pop/queue/hello?wait=true&autoAck=true'"));
    say("        in another, push one, and see how the server is:");
    say(&format!(
        "  curl -s{key} {url}/api/v1/push -H 'content-type: application/json' \
         -d '{{\"items\":[{{\"queue\":\"hello\",\"payload\":{{\"text\":\"hi\"}}}}]}}'"
    ));
    say(&format!("  curl -s{key} {url}/health"));
}
