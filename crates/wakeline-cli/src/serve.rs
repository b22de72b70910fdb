//! `wakeline serve`: opens the store, starts the services and the HTTP server on it, and stops them
//! in order.

use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wakeline_access::Access;
use wakeline_encryption::EncryptionKeys;
use wakeline_flow::provider::{
    HookHints, Provider as _, QueueHints, StoreProvider, StoreProviderOptions,
};
use wakeline_hook::{DispatchOptions, HookService, HookServiceOptions, SendOptions};
use wakeline_http::{Apis, AppState, Certificates, HttpSettings, Server};
use wakeline_queue::{QueueService, QueueServiceOptions};
use wakeline_store::{Backend, FanOut, HintOrigin, StoreInfo};

use crate::config::{HookSettings, Secrets, ServeArgs, Settings, UsageError};
use crate::logs::LogFormat;
use crate::{keys, limits, logs, print_line, store};

/// How long a shutdown waits for claims without waiters to end, and for their leases to be
/// released.
const RELEASE_TIME: Duration = Duration::from_secs(5);

/// Runs the server until SIGTERM or SIGINT.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = args.into_settings(Secrets::from_env())?;
    let _flush = logs::start(settings.log_format)?;
    for note in &settings.notes {
        tracing::info!("{note}");
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let format = settings.log_format;
    let served = runtime.block_on(serve(settings));
    match (served, format) {
        // The log is JSON: a plain text line would break its readers.
        (Err(error), LogFormat::Json) if !error.is::<UsageError>() => {
            tracing::error!(error = format!("{error:#}"), "cannot serve");
            Ok(ExitCode::FAILURE)
        }
        (served, _) => served,
    }
}

async fn serve(settings: Settings) -> anyhow::Result<ExitCode> {
    let certificates = certificates(&settings)?;
    // Handle signals before any slow step. Without a handler a signal would end the process, or be
    // ignored if the process has the id 1, as in a container.
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

    let apis = start_apis(&store, &settings, access).await?;
    let listening = CancellationToken::new();
    tokio::spawn(listen(store.clone(), apis.clone(), listening.clone()));

    let mut server = settings.server.clone();
    server.connections_max = limits::connections_max(settings.hook.connections_max());
    let state = AppState::new(apis.clone(), http_settings(&settings, address.ip()), metrics);
    let tasks = background(&apis, &store, &settings, &shutdown);
    let scheme = if certificates.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    match settings.log_format {
        LogFormat::Text => print_greeting(&store.info(), &url, !apis.access.is_open()),
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
    // Before the store closes: a lease without a consumer would otherwise last its whole time.
    let settled = async { tokio::join!(apis.queue.settled(), apis.hook.settled()) };
    if tokio::time::timeout(RELEASE_TIME, settled).await.is_err() {
        tracing::warn!(
            "a claim did not end in time: its messages become available when their lease expires"
        );
    }
    apis.flow.close().await;
    listening.cancel();
    store.close().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Starts the background tasks, which run until the shutdown. Returns the tasks to wait for, each
/// with a description.
fn background(
    apis: &Apis,
    store: &Arc<dyn Backend>,
    settings: &Settings,
    shutdown: &CancellationToken,
) -> [(JoinHandle<()>, &'static str); 4] {
    let (hook, stop) = (apis.hook.clone(), shutdown.clone());
    let sending = tokio::spawn(async move { hook.run(stop).await });
    let (queue, stop) = (apis.queue.clone(), shutdown.clone());
    tokio::spawn(async move { queue.run(stop).await });
    let (queue, how, stop) = (apis.queue.clone(), settings.housekeeping, shutdown.clone());
    let housekeeping = tokio::spawn(async move { queue.run_housekeeping(how, stop).await });
    let removing = tokio::spawn(settings.retention.run(store.clone(), shutdown.clone()));
    let (queue, stop) = (apis.queue.clone(), shutdown.clone());
    let counting = tokio::spawn(async move { queue.run_statistics(stop).await });
    [
        (sending, "sends webhooks"),
        (housekeeping, "does the housekeeping"),
        (removing, "applies retention"),
        (counting, "counts statistics"),
    ]
}

/// Starts the services of queues, orchestrations and webhooks on one store.
async fn start_apis(
    store: &Arc<dyn Backend>,
    settings: &Settings,
    access: Access,
) -> anyhow::Result<Apis> {
    let keys = keys::load(settings, store.as_ref()).await?.map(Arc::new);
    if let Some(keys) = &keys {
        store.use_keys(Arc::clone(keys));
    }
    let long_poll = settings.long_poll.clone();
    let options = QueueServiceOptions {
        mode: settings.mode,
        long_poll: long_poll.clone(),
        statistics_kept: settings.statistics_kept,
    };
    let queue = QueueService::start(store.clone(), options);
    let hook = hook(store, settings, keys);
    let sink = hook.sink();
    let hook_hints: HookHints =
        Arc::new(move |changes| sink.hook_changed(changes, HintOrigin::InProcess));
    let options = StoreProviderOptions {
        mode: settings.mode,
        long_poll,
        hook_hints: Some(hook_hints),
        ..StoreProviderOptions::default()
    };
    let flow = flow(store, &queue, options);
    Ok(Apis { queue, flow, hook, access })
}

/// Reads the server's TLS certificate, if one is configured.
fn certificates(settings: &Settings) -> anyhow::Result<Option<Certificates>> {
    let Some(files) = settings.access.tls.clone() else { return Ok(None) };
    let mistake = |error: std::io::Error| UsageError(format!("tls: {error}"));
    Ok(Some(Certificates::read(files).map_err(mistake)?))
}

fn hangups() -> anyhow::Result<Signal> {
    signal(SignalKind::hangup()).context("cannot listen for signals")
}

/// Reads the certificate again on SIGHUP. Without a certificate the signal is ignored, because
/// closed terminals and process supervisors send it, too.
async fn reload_on_hangup(mut hangup: Signal, certificates: Option<Certificates>) {
    while hangup.recv().await.is_some() {
        match &certificates {
            Some(certificates) => certificates.reload(),
            None => tracing::info!("SIGHUP: no certificate to read again, nothing was changed"),
        }
    }
}

/// Starts webhooks. Their secrets are encrypted with `keys`.
fn hook(
    store: &Arc<dyn Backend>,
    settings: &Settings,
    keys: Option<Arc<EncryptionKeys>>,
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

/// Creates the provider of orchestrations. What their turns push to queues wakes the queue's
/// waiters.
fn flow(
    store: &Arc<dyn Backend>,
    queue: &QueueService,
    options: StoreProviderOptions,
) -> StoreProvider {
    let sink = queue.sink();
    let queue_hints: QueueHints =
        Arc::new(move |changes| sink.changed(changes, HintOrigin::InProcess));
    let options = StoreProviderOptions { queue_hints: Some(queue_hints), ..options };
    StoreProvider::new(store.clone(), options)
}

/// Receives the hints of other processes for all services. If all of them poll, it does not listen,
/// and only does the store's own maintenance.
async fn listen(store: Arc<dyn Backend>, apis: Apis, shutdown: CancellationToken) {
    let uses_hints = apis.queue.uses_hints() || apis.hook.uses_hints();
    let Apis { queue, flow, hook, .. } = apis;
    let sink = Arc::new(FanOut(vec![queue.sink(), Arc::new(flow), hook.sink()]));
    if uses_hints {
        store.feed(sink, shutdown).await;
    } else {
        store.feed_poll_only(sink, shutdown).await;
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

/// Handles SIGTERM and SIGINT. A signal before the server runs ends the start.
fn stop_on_signals(shutdown: CancellationToken) -> anyhow::Result<()> {
    let terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    tokio::spawn(stop_on_signal(terminate, interrupt, shutdown));
    Ok(())
}

/// The first signal starts a drain; the second ends the process at once.
async fn stop_on_signal(mut terminate: Signal, mut interrupt: Signal, shutdown: CancellationToken) {
    for round in 0.. {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if round > 0 {
            tracing::warn!("second signal: stopping at once, without waiting for requests");
            std::process::exit(1);
        }
        shutdown.cancel();
        tracing::info!(
            "shutting down: parked pops are answered, and requests in flight may finish"
        );
    }
}

/// Logs that the server runs, if the log is JSON.
fn log_start(store: &StoreInfo, url: &str) {
    tracing::info!(store = store.kind, location = store.location, url, "serving");
}

/// Prints the URL of the server and commands to try, if the log is text.
fn print_greeting(store: &StoreInfo, url: &str, keyed: bool) {
    let key = if keyed { " -H \"Authorization: Bearer $WAKELINE_API_KEY\"" } else { "" };
    print_line(&format!("store   {} {}", store.kind, store.location));
    print_line(&format!("url     {url}   (documentation at {url}/docs)"));
    print_line("try     in one shell, wait for a message:");
    print_line(&format!("  curl -s{key} '{url}/api/v1/pop/queue/hello?wait=true&autoAck=true'"));
    print_line("        in another shell, push a message and check the health of the server:");
    print_line(&format!(
        "  curl -s{key} {url}/api/v1/push -H 'content-type: application/json' \
         -d '{{\"items\":[{{\"queue\":\"hello\",\"payload\":{{\"text\":\"hi\"}}}}]}}'"
    ));
    print_line(&format!("  curl -s{key} {url}/health"));
}
