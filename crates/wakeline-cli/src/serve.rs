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

/// How long a shutdown waits for claims in flight. Their consumers are gone by then, so that the
/// leases that they get are released.
const CLAIMS_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the server until SIGTERM or SIGINT.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = args.into_settings(Secrets::from_env())?;
    let _flush = logs::start(settings.log_format)?;
    for note in &settings.alias_notes {
        tracing::info!("{note}");
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    let format = settings.log_format;
    let result = runtime.block_on(serve(settings));
    match (result, format) {
        // The log is JSON, so that programs that read it could not parse a line of plain text.
        (Err(error), LogFormat::Json) if !error.is::<UsageError>() => {
            tracing::error!(error = format!("{error:#}"), "cannot serve");
            Ok(ExitCode::FAILURE)
        }
        (result, _) => result,
    }
}

async fn serve(settings: Settings) -> anyhow::Result<ExitCode> {
    let certificates = certificates(&settings)?;
    // Handle signals before any slow step. Without a handler a signal would end the process, or be
    // ignored if the process has the id 1, as in a container.
    tokio::spawn(reload_on_hangup(handle_sighup()?, certificates.clone()));
    let shutdown = CancellationToken::new();
    stop_on_signals(shutdown.clone())?;
    let metrics = wakeline_http::install_metrics();
    let Some(store) = shutdown.run_until_cancelled(store::open(&settings)).await else {
        return Ok(ExitCode::SUCCESS);
    };
    let store = store?;
    let access = Access::start(store.clone(), settings.access.options.clone()).await?;
    settings.check_exposure(access.allows_anonymous())?;
    let listener = Server::bind(settings.listen).map_err(|error| {
        let address = settings.listen;
        anyhow::anyhow!("cannot listen on {address}: {error}; choose another address with --listen")
    })?;
    let address = listener.local_addr().context("cannot read the bound address")?;

    let apis = start_apis(&store, &settings, access).await?;
    let stop_hints = CancellationToken::new();
    tokio::spawn(receive_hints(store.clone(), apis.clone(), stop_hints.clone()));

    let mut server = settings.server.clone();
    server.connections_max = limits::connections_max(settings.hook.connections_max());
    let state = AppState::new(apis.clone(), http_settings(&settings, address.ip()), metrics);
    let tasks = start_background_tasks(&apis, &store, &settings, &shutdown);
    let scheme = if certificates.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    match settings.log_format {
        LogFormat::Text => print_greeting(&store.info(), &url, !apis.access.allows_anonymous()),
        LogFormat::Json => log_start(&store.info(), &url),
    }

    let server = Server::new(listener, state, server).with_tls(certificates);
    let all_finished = server.run(shutdown.clone()).await;
    if !all_finished {
        tracing::warn!("some requests did not finish within drain_timeout_ms and were aborted");
    }
    // The server may have stopped for another reason than a signal.
    shutdown.cancel();
    for (task, purpose) in tasks {
        if task.await.is_err() {
            tracing::error!("the task that {purpose} panicked; this is a defect: report it");
        }
    }
    // Claims in flight may still lease messages to consumers that are gone. These leases are
    // released before the store is closed: otherwise they would last until they expire.
    let claims = async { tokio::join!(apis.queue.wait_for_claims(), apis.hook.wait_for_claims()) };
    if tokio::time::timeout(CLAIMS_TIMEOUT, claims).await.is_err() {
        tracing::warn!(
            "a claim did not end before the shutdown: its messages become available when their \
             lease expires"
        );
    }
    apis.flow.close().await;
    stop_hints.cancel();
    store.close().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Starts the background tasks, which run until the shutdown. Returns those that the shutdown waits
/// for, each with its purpose as in "the task that ...". It does not wait for the redrives, which
/// another node, or the next start, continues.
fn start_background_tasks(
    apis: &Apis,
    store: &Arc<dyn Backend>,
    settings: &Settings,
    shutdown: &CancellationToken,
) -> [(JoinHandle<()>, &'static str); 4] {
    let (hook, stop) = (apis.hook.clone(), shutdown.clone());
    let sender_task = tokio::spawn(async move { hook.run(stop).await });
    let (queue, stop) = (apis.queue.clone(), shutdown.clone());
    tokio::spawn(async move { queue.run(stop).await });
    let (queue, options, stop) = (apis.queue.clone(), settings.housekeeping, shutdown.clone());
    let housekeeping_task =
        tokio::spawn(async move { queue.run_housekeeping(options, stop).await });
    let retention_task = tokio::spawn(settings.retention.run(store.clone(), shutdown.clone()));
    let (queue, stop) = (apis.queue.clone(), shutdown.clone());
    let statistics_task = tokio::spawn(async move { queue.run_statistics(stop).await });
    [
        (sender_task, "sends webhooks"),
        (housekeeping_task, "does the housekeeping"),
        (retention_task, "applies retention"),
        (statistics_task, "writes statistics"),
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
    let hook = start_hook_service(store, settings, keys);
    let sink = hook.sink();
    let hook_hints: HookHints =
        Arc::new(move |changes| sink.hook_changed(changes, HintOrigin::InProcess));
    let options = StoreProviderOptions {
        mode: settings.mode,
        long_poll,
        hook_hints: Some(hook_hints),
        ..StoreProviderOptions::default()
    };
    let flow = flow_provider(store, &queue, options);
    Ok(Apis { queue, flow, hook, access })
}

/// Reads the server's TLS certificate, if one is configured.
fn certificates(settings: &Settings) -> anyhow::Result<Option<Certificates>> {
    let Some(files) = settings.access.tls.clone() else { return Ok(None) };
    let usage_error = |error: std::io::Error| UsageError(format!("tls: {error}"));
    Ok(Some(Certificates::read(files).map_err(usage_error)?))
}

/// Installs the handler of SIGHUP.
fn handle_sighup() -> anyhow::Result<Signal> {
    signal(SignalKind::hangup()).context("cannot listen for signals")
}

/// Reads the certificate again on SIGHUP. Without a certificate the signal is ignored, because
/// closed terminals and process supervisors send it, too.
async fn reload_on_hangup(mut hangup: Signal, certificates: Option<Certificates>) {
    while hangup.recv().await.is_some() {
        match &certificates {
            Some(certificates) => certificates.reload(),
            None => {
                tracing::info!("SIGHUP was ignored: the server has no TLS certificate to reload")
            }
        }
    }
}

/// Starts the webhook service, which encrypts the secrets of endpoints with `keys`.
fn start_hook_service(
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

/// Creates the provider of orchestrations. When a turn pushes messages to a queue, the provider
/// notifies the waiters of that queue.
fn flow_provider(
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

/// Receives the hints of other processes for all services. If no service uses hints, it does not
/// listen for them, and only does the store's own background work.
async fn receive_hints(store: Arc<dyn Backend>, apis: Apis, shutdown: CancellationToken) {
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

/// Installs the handlers of SIGTERM and SIGINT. If a signal arrives while the store is being
/// opened, the process ends without serving.
fn stop_on_signals(shutdown: CancellationToken) -> anyhow::Result<()> {
    let terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    tokio::spawn(stop_on_signal(terminate, interrupt, shutdown));
    Ok(())
}

/// The first signal starts a drain; the second ends the process at once.
async fn stop_on_signal(mut terminate: Signal, mut interrupt: Signal, shutdown: CancellationToken) {
    for earlier_signals in 0.. {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if earlier_signals > 0 {
            tracing::warn!(
                "received a second signal: stopping at once, without waiting for requests"
            );
            std::process::exit(1);
        }
        shutdown.cancel();
        tracing::info!("shutting down: waiting pops return, and requests in flight may finish");
    }
}

/// Logs that the server runs, if the log is JSON.
fn log_start(store: &StoreInfo, url: &str) {
    tracing::info!(store = store.kind, location = store.location, url, "serving");
}

/// Prints the URL of the server and commands to try, if the log is text.
fn print_greeting(store: &StoreInfo, url: &str, needs_key: bool) {
    let key = if needs_key { " -H \"Authorization: Bearer $WAKELINE_API_KEY\"" } else { "" };
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
