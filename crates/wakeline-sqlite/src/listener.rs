//! Watches the hints of other processes on the same file, and passes them to the hint sinks.
//!
//! # Where it sits
//! Implements [`HintFeed`] for the store. Watching starts when the store is opened, so that a
//! process without waiters also learns whether other processes need its hints.
//!
//! # Invariants
//! * A process that leaves may have written since its file was last read, so its departure is
//!   treated as "anything may have changed".
//! * Hint files that are removed while the process runs are created and watched again: at once if
//!   the removal was seen, otherwise with the next safety sweep. Until then the link is down.
//! * Watching counts as working only after this process saw an event for its own file, because some
//!   container mounts never deliver events. Without the event the link is off, and the store polls.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use notify::event::ModifyKind;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::{Condvar, Mutex};
use tokio_util::sync::CancellationToken;
use wakeline_store::{HintFeed, HintSink, LinkState};

use crate::SqliteStore;
use crate::options::SqliteOptions;
use crate::sidecar::Sidecar;

/// Longest wait for the event about this process's own file.
const PROBE_MAX: Duration = Duration::from_secs(2);

/// Watches the folder of hint files.
pub(crate) struct HintFileListener {
    sidecar: Arc<Sidecar>,
    watching: Watching,
    state: LinkState,
}

/// The current watcher. It is replaced when the watched folder was removed.
type Watching = Arc<Mutex<Option<RecommendedWatcher>>>;

impl HintFileListener {
    /// Creates this process's hint file and starts to watch. It never fails: problems are reported
    /// as the state of the link.
    pub(crate) fn start(options: &SqliteOptions) -> Self {
        if !options.hints {
            return Self::off(Sidecar::disabled(), "hints between processes are switched off");
        }
        let sidecar = match Sidecar::join(&options.beside(".hints")) {
            Ok(sidecar) => Arc::new(sidecar),
            Err(error) => {
                let reason = format!("the folder of hint files cannot be used: {error}");
                return Self::off(Sidecar::disabled(), reason);
            }
        };
        let watching = Watching::default();
        match watch(&sidecar, &watching) {
            Ok(watcher) => {
                *watching.lock() = Some(watcher);
                sidecar.scan();
                Self { sidecar, watching, state: LinkState::Up }
            }
            Err(reason) => {
                tracing::warn!(
                    reason,
                    "cannot watch the hint files: changes by other processes are found by polling \
                     only"
                );
                let state = LinkState::Off { reason };
                Self { sidecar, watching, state }
            }
        }
    }

    fn off(sidecar: Sidecar, reason: impl Into<String>) -> Self {
        let state = LinkState::Off { reason: reason.into() };
        Self { sidecar: Arc::new(sidecar), watching: Watching::default(), state }
    }

    pub(crate) fn sidecar(&self) -> Arc<Sidecar> {
        Arc::clone(&self.sidecar)
    }

    /// Creates removed hint files again, and deletes the files of dead processes.
    pub(crate) fn tidy(&self) {
        if self.watching.lock().is_some() {
            restore(&self.sidecar, &self.watching);
            self.sidecar.scan();
        }
    }

    /// Stops watching and removes this process's hint file.
    pub(crate) fn close(&self) {
        drop(self.watching.lock().take());
        self.sidecar.leave();
    }
}

/// Whether an event about this process's own file was seen.
#[derive(Default)]
struct Probe {
    seen: Mutex<bool>,
    changed: Condvar,
}

/// Creates this process's hint file again if it was removed, and starts a new watcher.
fn restore(sidecar: &Arc<Sidecar>, watching: &Watching) {
    let mut watcher = watching.lock();
    if watcher.is_none() || sidecar.exists() {
        return;
    }
    let folder = sidecar.folder().display();
    tracing::warn!(%folder, "the hint files were removed; creating them again");
    let link = |state: LinkState| {
        for sink in sidecar.sinks() {
            sink.link(state.clone());
        }
    };
    link(LinkState::Down { reason: "the hint files were removed".into() });
    let joined =
        sidecar.join_again().map_err(|error| format!("the hint files cannot be created: {error}"));
    match joined.and_then(|()| watch(sidecar, watching)) {
        Ok(again) => {
            *watcher = Some(again);
            drop(watcher);
            sidecar.scan();
            link(LinkState::Up);
            sidecar.everything();
        }
        // The next safety sweep tries again.
        Err(reason) => tracing::warn!(
            reason,
            "no notifications of other processes are received: polling instead"
        ),
    }
}

fn watch(sidecar: &Arc<Sidecar>, watching: &Watching) -> Result<RecommendedWatcher, String> {
    let probe = Arc::new(Probe::default());
    let handler = {
        let (sidecar, probe) = (Arc::downgrade(sidecar), Arc::clone(&probe));
        let watching = Arc::downgrade(watching);
        move |event: notify::Result<Event>| {
            let Some(sidecar) = sidecar.upgrade() else { return };
            let removed = |kind: &EventKind| {
                matches!(kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)))
            };
            let removed = event.as_ref().is_ok_and(|event| removed(&event.kind));
            handle(&sidecar, &probe, event);
            if removed && !sidecar.exists() {
                // Not on this thread: it belongs to the watcher that `restore` replaces.
                let watching = watching.clone();
                std::thread::spawn(move || {
                    if let Some(watching) = watching.upgrade() {
                        restore(&sidecar, &watching);
                    }
                });
            }
        }
    };
    let failed = |error| format!("the folder of hint files cannot be watched: {error}");
    let mut watcher = notify::recommended_watcher(handler).map_err(failed)?;
    watcher.watch(sidecar.folder(), RecursiveMode::NonRecursive).map_err(failed)?;
    sidecar.touch().map_err(|error| format!("the hint file cannot be written: {error}"))?;
    let mut seen = probe.seen.lock();
    if !*seen {
        probe.changed.wait_for(&mut seen, PROBE_MAX);
    }
    if *seen {
        Ok(watcher)
    } else {
        Err("a file changed in the folder of hint files, but no event was received".into())
    }
}

fn handle(sidecar: &Sidecar, probe: &Probe, event: notify::Result<Event>) {
    let event = match event {
        Ok(event) if !event.need_rescan() => event,
        // Events were lost: anything may have happened.
        _ => {
            sidecar.scan();
            sidecar.everything();
            return;
        }
    };
    match event.kind {
        // Reading the files causes these events, so reading again would loop forever.
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => {}
        EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)) => sidecar.scan(),
        EventKind::Remove(_) => {
            sidecar.scan();
            // A short-lived process, such as a CLI command, may leave before its hints are read.
            if event.paths.iter().any(|path| sidecar.is_peer(path)) {
                sidecar.everything();
            }
        }
        _ => event.paths.iter().for_each(|path| touched(sidecar, probe, path)),
    }
}

fn touched(sidecar: &Sidecar, probe: &Probe, path: &Path) {
    if path == sidecar.own() {
        *probe.seen.lock() = true;
        probe.changed.notify_all();
    } else if sidecar.is_peer(path) {
        sidecar.read(path);
    }
}

#[async_trait]
impl HintFeed for SqliteStore {
    async fn feed(&self, sink: Arc<dyn HintSink>, shutdown: CancellationToken) {
        let listener = self.listener();
        if let LinkState::Off { .. } = &listener.state {
            sink.link(listener.state.clone());
            shutdown.cancelled().await;
            return;
        }
        let number = listener.sidecar.add_sink(Arc::clone(&sink));
        let _feeding = Feeding { sidecar: listener.sidecar(), number };
        sink.link(LinkState::Up);
        sink.everything();
        shutdown.cancelled().await;
    }
}

/// Removes a sink on drop, also if the feed is dropped before its shutdown.
struct Feeding {
    sidecar: Arc<Sidecar>,
    number: u64,
}

impl Drop for Feeding {
    fn drop(&mut self) {
        self.sidecar.remove_sink(self.number);
    }
}
