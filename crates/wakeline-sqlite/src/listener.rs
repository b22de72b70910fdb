//! Watches the hints of other processes on the same file, and feeds them to the faces.
//!
//! # Where it sits
//! [`HintFeed`] of the store. The watching itself starts with the store, so that a process
//! without waiters still knows whether anybody is there to be told.
//!
//! # Invariants
//! * Who leaves may have written since it was last read: then, too, anything may have changed.
//! * Files that somebody removes while the process runs are made again, and watched again: at once
//!   if the removal was seen, else with the next safety sweep. Until then the link is down.
//! * Watching is believed only after this process saw a touch of its own file: in some container
//!   mounts no event ever comes. Then the link is off, and polling takes over.

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

/// How long the first event of our own may take.
const PROBE_MAX: Duration = Duration::from_secs(2);

/// The watch over the folder of hints.
pub(crate) struct Listener {
    sidecar: Arc<Sidecar>,
    watching: Watching,
    state: LinkState,
}

/// The watcher, which is replaced when what it watches was removed.
type Watching = Arc<Mutex<Option<RecommendedWatcher>>>;

impl Listener {
    /// Joins the other processes and begins to watch. Never fails: what cannot be had is told by
    /// the state of the link.
    pub(crate) fn start(options: &SqliteOptions) -> Self {
        if !options.hints {
            return Self::off(Sidecar::alone(), "hints between processes are switched off");
        }
        let sidecar = match Sidecar::join(&options.beside(".hints")) {
            Ok(sidecar) => Arc::new(sidecar),
            Err(error) => {
                let reason = format!("the folder of hint files cannot be used: {error}");
                return Self::off(Sidecar::alone(), reason);
            }
        };
        let watching = Watching::default();
        match watch(&sidecar, &watching) {
            Ok(watcher) => {
                *watching.lock() = Some(watcher);
                sidecar.look_around();
                Self { sidecar, watching, state: LinkState::Up }
            }
            Err(reason) => {
                tracing::warn!(reason, "changes of other processes are found by polling only");
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

    /// Makes again what was removed, and removes what dead processes left behind.
    pub(crate) fn tidy(&self) {
        if self.watching.lock().is_some() {
            restore(&self.sidecar, &self.watching);
            self.sidecar.look_around();
        }
    }

    /// Ends the watch and leaves.
    pub(crate) fn close(&self) {
        drop(self.watching.lock().take());
        self.sidecar.leave();
    }
}

/// Whether an event about our own file was seen.
#[derive(Default)]
struct Probe {
    seen: Mutex<bool>,
    changed: Condvar,
}

/// Makes this process's file again if somebody removed it, and watches again.
fn restore(sidecar: &Arc<Sidecar>, watching: &Watching) {
    let mut watcher = watching.lock();
    if watcher.is_none() || sidecar.is_there() {
        return;
    }
    let folder = sidecar.folder().display();
    tracing::warn!(%folder, "the files of hints were removed; they are made again");
    let link = |state: LinkState| {
        for sink in sidecar.sinks() {
            sink.link(state.clone());
        }
    };
    link(LinkState::Down { reason: "the files of hints were removed".into() });
    let joined = sidecar.join_again().map_err(|error| format!("they cannot be made: {error}"));
    match joined.and_then(|()| watch(sidecar, watching)) {
        Ok(again) => {
            *watcher = Some(again);
            drop(watcher);
            sidecar.look_around();
            link(LinkState::Up);
            sidecar.everything();
        }
        // The next safety sweep tries it again.
        Err(reason) => tracing::warn!(reason, "no hints of other processes are received"),
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
            if removed && !sidecar.is_there() {
                // Not here: the watcher whose thread this is will be replaced.
                let watching = watching.clone();
                std::thread::spawn(move || {
                    if let Some(watching) = watching.upgrade() {
                        restore(&sidecar, &watching);
                    }
                });
            }
        }
    };
    let failed = |error| format!("the folder for hints cannot be watched: {error}");
    let mut watcher = notify::recommended_watcher(handler).map_err(failed)?;
    watcher.watch(sidecar.folder(), RecursiveMode::NonRecursive).map_err(failed)?;
    sidecar.touch().map_err(|error| format!("hints cannot be written: {error}"))?;
    let mut seen = probe.seen.lock();
    if !*seen {
        probe.changed.wait_for(&mut seen, PROBE_MAX);
    }
    match *seen {
        true => Ok(watcher),
        false => Err("no event came for a file that was changed in the folder of hints".into()),
    }
}

fn handle(sidecar: &Sidecar, probe: &Probe, event: notify::Result<Event>) {
    let event = match event {
        Ok(event) if !event.need_rescan() => event,
        // Events were lost: anything may have happened.
        _ => {
            sidecar.look_around();
            sidecar.everything();
            return;
        }
    };
    match event.kind {
        // Our own reading makes these; looking again would never end.
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)) => {}
        EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_)) => sidecar.look_around(),
        EventKind::Remove(_) => {
            sidecar.look_around();
            // A process that is soon done, as a command is, may leave before it is heard.
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

/// Takes a sink away again, also if the feed is dropped before its shutdown.
struct Feeding {
    sidecar: Arc<Sidecar>,
    number: u64,
}

impl Drop for Feeding {
    fn drop(&mut self) {
        self.sidecar.remove_sink(self.number);
    }
}
