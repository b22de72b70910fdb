//! `wakeline serve`

use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wakeline_access::Access;
use wakeline_flow::provider::{
    HookHints, Provider as _, QueueHints, StoreProvider, StoreProviderOptions,
};
use wakeline_hook::{DispatchOptions, HookService, HookServiceOptions, SendOptions};
use wakeline_http::{AppState, Certificates, Faces, HttpSettings, Server};
use wakeline_queue::{QueueService, QueueServiceOptions};
use wakeline_seal::KeyRing;
use wakeline_store::{FanOut, HintOrigin, StoreInfo, WholeStore};

use crate::config::{ConfigMistake, HookSettings, Secrets, ServeArgs, Settings};
use crate::logs::LogFormat;
use crate::{keys, limits, logs, say, store};

/// Time for claims whose waiters have gone to end and be released on shutdown.
const RELEASE_TIME: Duration = Duration::from_secs(5);

/// Runs the server until SIGTERM or SIGINT.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = args.settle(Secrets::from_env())?;
    let _flush = logs::start(settings.log_format)?;
    for note in &settings.notes {
        tracing::info!("{note}");
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let format = settings.log_format;
    let served = runtime.block_on(serve(settings));
    match (served, format) {
        // Whoever reads JSON cannot read anything else.
        (Err(error), LogFormat::Json) if !error.is::<ConfigMistake>() => {
            tracing::error!(error = format!("{error:#}"), "cannot serve");
            Ok(ExitCode::FAILURE)
        }
        (served, _) => served,
    }
}

async fn serve(settings: Settings) -> anyhow::Result<ExitCode> {
    let certificates = certificates(&settings)?;
    // Before anything can take long: without a handler a signal would end the process, or, if it is
    // the first one of a container, be ignored.
    tokio::spawn(reload_on_hangup(hangups()?, certificates.clone()));
    let shutdown = CancellationToken::new();
    stop_on_signals(shutdown.clone())?;
    let metrics = wakeline_http::install_metrics();
    let Some(store) = shutdown.run_until_cancelled(store::open(&settings)).await else {
        return Ok(ExitCode::SUCCESS);
    };
    let store = store?;
    let access = Access::start(store.clone(), settings.access.options.clone()).await?;
    settings.refuse_if_open(access.is_open())?;
    let listener = Server::bind(settings.listen).map_err(|error| {
        let address = settings.listen;
        anyhow::anyhow!("cannot listen on {address}: {error}; choose another one with --listen")
    })?;
    let address = listener.local_addr().context("cannot read the bound address")?;

    let faces = faces(&store, &settings, access).await?;
    let listening = CancellationToken::new();
    tokio::spawn(listen(store.clone(), faces.clone(), listening.clone()));

    let mut server = settings.server.clone();
    server.connections_max = limits::connections_max(settings.hook.connections_max());
    let state = AppState::new(faces.clone(), http_settings(&settings, address.ip()), metrics);
    let tasks = background(&faces, &store, &settings, &shutdown);
    let scheme = if certificates.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    match settings.log_format {
        LogFormat::Text => greet(&store.info(), &url, !faces.access.is_open()),
        LogFormat::Json => log_start(&store.info(), &url),
    }

    let server = Server::new(listener, state, server).with_tls(certificates);
    let clean = server.run(shutdown.clone()).await;
    if !clean {
        tracing::warn!("some requests did not finish within drain_timeout_ms");
    }
    // The server may have stopped for another reason than a signal.
    shutdown.cancel();
    for (task, what) in tasks {
        if task.await.is_err() {
            tracing::error!("the task that {what} panicked; this is a defect: report it");
        }
    }
    // Before the store closes: a lease that nobody heard of would last its whole time.
    let settled = async { tokio::join!(faces.queue.settled(), faces.hook.settled()) };
    if tokio::time::timeout(RELEASE_TIME, settled).await.is_err() {
        tracing::warn!("a claim did not end; what it took is available when its lease ends");
    }
    faces.flow.close().await;
    listening.cancel();
    store.close().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Starts what is done beside requests until the shutdown. Returns the tasks to wait for, and what
/// each does.
fn background(
    faces: &Faces,
    store: &Arc<dyn WholeStore>,
    settings: &Settings,
    shutdown: &CancellationToken,
) -> [(JoinHandle<()>, &'static str); 4] {
    let (hook, stop) = (faces.hook.clone(), shutdown.clone());
    let sending = tokio::spawn(async move { hook.run(stop).await });
    let (queue, stop) = (faces.queue.clone(), shutdown.clone());
    tokio::spawn(async move { queue.run(stop).await });
    let (queue, how, stop) = (faces.queue.clone(), settings.housekeeping, shutdown.clone());
    let keeping = tokio::spawn(async move { queue.keep_house(how, stop).await });
    let removing = tokio::spawn(settings.retention.run(store.clone(), shutdown.clone()));
    let (queue, stop) = (faces.queue.clone(), shutdown.clone());
    let counting = tokio::spawn(async move { queue.keep_figures(stop).await });
    [
        (sending, "sends webhooks"),
        (keeping, "does the housekeeping"),
        (removing, "applies retention"),
        (counting, "counts statistics"),
    ]
}

/// Queues, orchestrations and webhooks over one store.
async fn faces(
    store: &Arc<dyn WholeStore>,
    settings: &Settings,
    access: Access,
) -> anyhow::Result<Faces> {
    let keys = keys::ring(settings, store.as_ref()).await?.map(Arc::new);
    if let Some(keys) = &keys {
        store.use_keys(Arc::clone(keys));
    }
    let long_poll = settings.long_poll.clone();
    let options = QueueServiceOptions {
        mode: settings.mode,
        long_poll: long_poll.clone(),
        figures_kept: settings.figures_kept,
    };
    let queue = QueueService::start(store.clone(), options);
    let hook = hook(store, settings, keys);
    let tell = hook.sink();
    let tell: HookHints =
        Arc::new(move |changes| tell.hook_changed(changes, HintOrigin::InProcess));
    let options = StoreProviderOptions {
        mode: settings.mode,
        long_poll,
        hook_hints: Some(tell),
        ..StoreProviderOptions::default()
    };
    let flow = flow(store, &queue, options);
    Ok(Faces { queue, flow, hook, access })
}

/// The server's certificate.
fn certificates(settings: &Settings) -> anyhow::Result<Option<Certificates>> {
    let Some(files) = settings.access.tls.clone() else { return Ok(None) };
    let mistake = |error: std::io::Error| ConfigMistake(format!("tls: {error}"));
    Ok(Some(Certificates::read(files).map_err(mistake)?))
}

fn hangups() -> anyhow::Result<Signal> {
    signal(SignalKind::hangup()).context("cannot listen for signals")
}

/// SIGHUP reads the certificate again. Where there is none it changes nothing: terminals that are
/// closed and process supervisors send it.
async fn reload_on_hangup(mut hangup: Signal, certificates: Option<Certificates>) {
    while hangup.recv().await.is_some() {
        match &certificates {
            Some(certificates) => certificates.reload(),
            None => tracing::info!("SIGHUP: no certificate to read again, nothing was changed"),
        }
    }
}

/// Webhooks over the same store, with keys for what must not be stored in the clear.
fn hook(
    store: &Arc<dyn WholeStore>,
    settings: &Settings,
    keys: Option<Arc<KeyRing>>,
) -> HookService {
    let HookSettings { guard, mode, poll_workers, slots, payload_bytes_max } =
        settings.hook.clone();
    let options = HookServiceOptions {
        mode,
        long_poll: settings.long_poll.clone(),
        dispatch: DispatchOptions {
            poll_senders: poll_workers,
            grace: settings.server.drain_timeout,
            ..DispatchOptions::with_slots(slots)
        },
        send: SendOptions { guard, ..SendOptions::default() },
        keys,
        payload_bytes_max,
    };
    HookService::start(store.clone(), options)
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

/// Hears of other processes, on behalf of all faces. Where all of them poll nobody listens, and the
/// store is only tended.
async fn listen(store: Arc<dyn WholeStore>, faces: Faces, shutdown: CancellationToken) {
    let uses_hints = faces.queue.uses_hints() || faces.hook.uses_hints();
    let Faces { queue, flow, hook, .. } = faces;
    let sink = Arc::new(FanOut(vec![queue.sink(), Arc::new(flow), hook.sink()]));
    match uses_hints {
        true => store.feed(sink, shutdown).await,
        false => store.tend(sink, shutdown).await,
    }
}

fn http_settings(settings: &Settings, listen: IpAddr) -> HttpSettings {
    HttpSettings {
        cors_origins: settings.access.cors_origins.clone(),
        allowed_hosts: settings.access.allowed_hosts.clone(),
        listen: Some(listen),
        ..settings.http.clone()
    }
}

/// Registers what happens on SIGTERM and SIGINT. One that comes before the server runs ends the
/// start.
fn stop_on_signals(shutdown: CancellationToken) -> anyhow::Result<()> {
    let terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    tokio::spawn(stop_on_signal(terminate, interrupt, shutdown));
    Ok(())
}

/// The first signal drains; a second one ends the process at once.
async fn stop_on_signal(mut terminate: Signal, mut interrupt: Signal, shutdown: CancellationToken) {
    for round in 0.. {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if round > 0 {
            tracing::warn!("second signal: stopping without a drain");
            std::process::exit(1);
        }
        shutdown.cancel();
        tracing::info!("draining: parked pops are answered, requests in flight finish");
    }
}

/// The greeting for machines.
fn log_start(store: &StoreInfo, url: &str) {
    tracing::info!(store = store.kind, location = store.location, url, "serving");
}

fn greet(store: &StoreInfo, url: &str, keyed: bool) {
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
