//! Hint files: how processes on one database file notify each other of changes.
//!
//! Each process has one small file in the folder `<database>.hints` and holds an exclusive lock on
//! it for as long as it runs. After a commit that made work available, it writes the changes to
//! this file; the other processes watch the folder and read it. The database is not involved.
//!
//! # Where it sits
//! The writer calls [`Sidecar::announce`] after each commit; `listener` passes received hints to
//! the sinks.
//!
//! # Invariants
//! * If the exact changes are not known (a gap in the sequence numbers, a torn page, a new
//!   process), the hint is "everything may have changed".
//! * Commits that were not announced because no peer was known are not lost: when the process
//!   discovers a peer, it announces "everything".
//! * A file whose lock is free belongs to a dead process, and is removed.

mod page;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use wakeline_core::{Change, FlowChange, HookChange, NodeId, error_chain};
use wakeline_store::{HintOrigin, HintSink};

use self::page::{is_at, make, page, read_page};

/// The maximum number of changes that a page keeps for readers that are behind.
const CHANGES_LEN_MAX: usize = 256;
/// A commit with more changes than this is announced as "everything".
const CHANGES_PER_ENTRY_MAX: usize = 64;
const EXTENSION: &str = "hint";

/// The hints about one commit for other processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Hints {
    pub(crate) queue: Vec<Change>,
    pub(crate) flow: Vec<FlowChange>,
    pub(crate) hook: Vec<HookChange>,
    /// Anything may have changed.
    pub(crate) everything: bool,
}

impl Hints {
    pub(crate) fn extend(&mut self, more: Self) {
        self.queue.extend(more.queue);
        self.flow.extend(more.flow);
        self.hook.extend(more.hook);
        self.everything |= more.everything;
    }

    fn len(&self) -> usize {
        self.queue.len() + self.flow.len() + self.hook.len()
    }

    /// Removes duplicate changes.
    fn deduped(mut self) -> Self {
        let mut seen = HashSet::new();
        self.queue.retain(|change| seen.insert(change.clone()));
        let mut seen = HashSet::new();
        self.flow.retain(|change| seen.insert(change.clone()));
        let mut seen = HashSet::new();
        self.hook.retain(|change| seen.insert(change.clone()));
        self
    }
}

/// The changes of one commit. If `changes` is `None`, everything may have changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HintEntry {
    seq: u64,
    changes: Option<Vec<Change>>,
    /// Releases without orchestrations ignore this field and do not write it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    flow: Vec<FlowChange>,
    /// Releases without webhooks ignore this field and do not write it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hook: Vec<HookChange>,
}

impl HintEntry {
    fn len(&self) -> usize {
        self.changes.as_ref().map_or(1, Vec::len) + self.flow.len() + self.hook.len()
    }
}

/// This process's hint file and those of its peers.
pub(crate) struct Sidecar {
    folder: PathBuf,
    own: PathBuf,
    outbox: Mutex<HintFileOutbox>,
    /// Whether other processes may be reading the file.
    peers: AtomicBool,
    inbox: Mutex<HintFileInbox>,
}

struct HintFileOutbox {
    /// `None` after [`Sidecar::leave`].
    file: Option<File>,
    seq: u64,
    entries: VecDeque<HintEntry>,
}

#[derive(Default)]
struct HintFileInbox {
    peers: HashMap<PathBuf, Peer>,
    sinks: Vec<(u64, Arc<dyn HintSink>)>,
    sinks_made: u64,
}

struct Peer {
    file: File,
    seq: u64,
}

/// What is new in a peer's file since it was last read.
#[derive(Debug, PartialEq, Eq)]
enum NewHints {
    Nothing,
    Changes(Hints),
    Everything,
}

impl Sidecar {
    /// Creates this process's hint file.
    pub(crate) fn join(folder: &Path) -> io::Result<Self> {
        crate::connect::make_private_folder(folder)?;
        // Events always name absolute paths, even if the watched path is relative.
        let folder = folder.canonicalize()?;
        let own = folder.join(format!("{}.{EXTENSION}", NodeId::generate()));
        let file = make(&own, &VecDeque::new())?;
        let outbox = HintFileOutbox { file: Some(file), seq: 0, entries: VecDeque::new() };
        Ok(Self {
            folder,
            own,
            outbox: Mutex::new(outbox),
            peers: AtomicBool::new(true),
            inbox: Mutex::default(),
        })
    }

    /// Creates this process's hint file again after it, or the whole folder, was removed.
    pub(crate) fn join_again(&self) -> io::Result<()> {
        crate::connect::make_private_folder(&self.folder)?;
        let mut outbox = self.outbox.lock();
        if outbox.file.is_some() {
            outbox.file = Some(make(&self.own, &outbox.entries)?);
        }
        // Peers whose files were removed too create new ones.
        self.inbox.lock().peers.clear();
        self.peers.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Whether this process's file still exists at its path. Also true after [`Sidecar::leave`].
    pub(crate) fn exists(&self) -> bool {
        let outbox = self.outbox.lock();
        outbox.file.as_ref().is_none_or(|file| is_at(file, &self.own))
    }

    /// A sidecar that sends no hints, for stores with hints switched off.
    pub(crate) fn disabled() -> Self {
        Self {
            folder: PathBuf::new(),
            own: PathBuf::new(),
            outbox: Mutex::new(HintFileOutbox { file: None, seq: 0, entries: VecDeque::new() }),
            peers: AtomicBool::new(false),
            inbox: Mutex::default(),
        }
    }

    pub(crate) fn own(&self) -> &Path {
        &self.own
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a path is the file of another process.
    pub(crate) fn is_peer(&self, path: &Path) -> bool {
        path != self.own && path.extension().is_some_and(|extension| extension == EXTENSION)
    }

    /// Notifies the other processes, if there are any, of what a commit changed.
    pub(crate) fn announce(&self, hints: Hints) {
        if (hints.len() == 0 && !hints.everything) || !self.peers.load(Ordering::SeqCst) {
            return;
        }
        let hints = hints.deduped();
        let few = hints.len() <= CHANGES_PER_ENTRY_MAX && !hints.everything;
        self.append(few.then_some(hints));
    }

    /// Writes the unchanged page, to test whether watching works.
    pub(crate) fn touch(&self) -> io::Result<()> {
        let outbox = self.outbox.lock();
        outbox.file.as_ref().map_or(Ok(()), |file| file.write_all_at(&page(&outbox.entries), 0))
    }

    fn append(&self, hints: Option<Hints>) {
        let mut outbox = self.outbox.lock();
        let HintFileOutbox { file: Some(_), .. } = &*outbox else { return };
        outbox.seq += 1;
        let (seq, anything) = (outbox.seq, hints.is_none());
        let Hints { queue, flow, hook, .. } = hints.unwrap_or_default();
        let changes = (!anything).then_some(queue);
        outbox.entries.push_back(HintEntry { seq, changes, flow, hook });
        while outbox.entries.iter().map(HintEntry::len).sum::<usize>() > CHANGES_LEN_MAX {
            outbox.entries.pop_front();
        }
        let page = page(&outbox.entries);
        let written = outbox.file.as_ref().map(|file| file.write_all_at(&page, 0));
        if let Some(Err(error)) = written {
            // The peers still find the work, because their safety sweep reads the database.
            let (path, error) = (self.own.display(), error_chain(&error));
            tracing::warn!(error, %path, "the hint file could not be written");
        }
    }

    /// Scans the folder: registers new peers, and removes dead ones with their files.
    pub(crate) fn scan(&self) {
        let mut joined = false;
        {
            let mut inbox = self.inbox.lock();
            let Ok(listing) = fs::read_dir(&self.folder) else { return };
            let paths: Vec<_> = (listing.filter_map(Result::ok))
                .map(|file| file.path())
                .filter(|path| self.is_peer(path))
                .collect();
            inbox.peers.retain(|path, _| paths.contains(path));
            for path in paths {
                joined |= inbox.register(path);
            }
            // Set before "everything" is written, so that it covers all commits that saw no peer.
            self.peers.store(!inbox.peers.is_empty(), Ordering::SeqCst);
        }
        if joined {
            self.append(None);
            self.everything();
        }
    }

    /// Reads a peer's file, and passes new hints to the sinks.
    pub(crate) fn read(&self, path: &Path) {
        let news = {
            let mut inbox = self.inbox.lock();
            inbox.peers.get_mut(path).map(Peer::news)
        };
        match news {
            None => self.scan(),
            Some(NewHints::Nothing) => {}
            Some(NewHints::Everything) => self.everything(),
            Some(NewHints::Changes(hints)) => self.forward(&hints),
        }
    }

    /// Passes hints to the sinks. Queue hints come last, so that a push is never received before
    /// what its process did earlier.
    fn forward(&self, hints: &Hints) {
        for sink in self.sinks() {
            if !hints.hook.is_empty() {
                sink.hook_changed(&hints.hook, HintOrigin::Notify);
            }
            if !hints.flow.is_empty() {
                sink.flow_changed(&hints.flow, HintOrigin::Notify);
            }
            if !hints.queue.is_empty() {
                sink.changed(&hints.queue, HintOrigin::Notify);
            }
        }
    }

    /// Notifies all sinks that anything may have changed.
    pub(crate) fn everything(&self) {
        for sink in self.sinks() {
            sink.everything();
        }
    }

    /// Registers a sink for hints of other processes. The returned number removes it again.
    pub(crate) fn add_sink(&self, sink: Arc<dyn HintSink>) -> u64 {
        let mut inbox = self.inbox.lock();
        inbox.sinks_made += 1;
        let number = inbox.sinks_made;
        inbox.sinks.push((number, sink));
        number
    }

    pub(crate) fn remove_sink(&self, number: u64) {
        self.inbox.lock().sinks.retain(|(other, _)| *other != number);
    }

    /// A copy of the list of sinks, so that they are called without holding the lock.
    pub(crate) fn sinks(&self) -> Vec<Arc<dyn HintSink>> {
        self.inbox.lock().sinks.iter().map(|(_, sink)| Arc::clone(sink)).collect()
    }

    /// Removes this process's hint file, which the peers notice.
    pub(crate) fn leave(&self) {
        if let Some(file) = self.outbox.lock().file.take() {
            // If this fails, a peer removes the file once its lock is free.
            let _ = fs::remove_file(&self.own);
            drop(file);
        }
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.leave();
    }
}

impl HintFileInbox {
    /// Registers the process of a hint file. Returns whether it is alive and was not known before.
    fn register(&mut self, path: PathBuf) -> bool {
        if let Some(peer) = self.peers.get(&path) {
            let (same, is_dead) = (is_at(&peer.file, &path), dead(&peer.file));
            if same && is_dead {
                self.peers.remove(&path);
                tidy(&path);
            }
            if same {
                return false;
            }
            // Its file was removed, and it has created another with the same name.
            self.peers.remove(&path);
        }
        let Ok(file) = File::open(&path) else { return false };
        if dead(&file) {
            drop(file);
            tidy(&path);
            return false;
        }
        let seq = read_page(&file).and_then(|entries| entries.last().map(|entry| entry.seq));
        self.peers.insert(path, Peer { file, seq: seq.unwrap_or(0) });
        true
    }
}

impl Peer {
    fn news(&mut self) -> NewHints {
        let Some(entries) = read_page(&self.file) else { return NewHints::Everything };
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return NewHints::Nothing;
        };
        let (missed, newest) = (first.seq > self.seq + 1, last.seq);
        let fresh = newest > self.seq;
        let known = std::mem::replace(&mut self.seq, newest);
        if !fresh {
            return NewHints::Nothing;
        }
        let mut hints = Hints::default();
        for entry in entries.into_iter().filter(|entry| entry.seq > known) {
            match entry.changes {
                Some(queue) if !missed => {
                    hints.extend(Hints {
                        queue,
                        flow: entry.flow,
                        hook: entry.hook,
                        ..Hints::default()
                    });
                }
                _ => return NewHints::Everything,
            }
        }
        NewHints::Changes(hints)
    }
}

/// Whether the process that created a file has ended, which frees its lock.
fn dead(file: &File) -> bool {
    let free = flock(file, FlockOperation::NonBlockingLockShared).is_ok();
    if free {
        // Release the lock at once. If that fails, closing the file releases it.
        let _ = flock(file, FlockOperation::Unlock);
    }
    free
}

fn tidy(path: &Path) {
    // Another process may have removed it already.
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakeline_core::{EndpointId, FlowChangeKind, HookChangeKind, InstanceId};

    #[test]
    fn pages_without_orchestrations_and_webhooks_keep_their_format() {
        let old = r#"{"seq":7,"changes":[]}"#;
        let entry: HintEntry = serde_json::from_str(old).expect("an entry");
        let (changes, flow, hook) = (Some(Vec::new()), Vec::new(), Vec::new());
        assert_eq!(entry, HintEntry { seq: 7, changes, flow, hook });
        assert_eq!(serde_json::to_string(&entry).expect("names and numbers"), old);
    }

    #[test]
    fn orchestration_hints_survive_a_round_trip_through_a_page() {
        let instance = InstanceId::new("a").expect("valid");
        let flow = vec![FlowChange::now(FlowChangeKind::Outcome(instance)), {
            FlowChange {
                what: FlowChangeKind::Work(wakeline_core::ActivityRoute::default()),
                due_in: std::time::Duration::from_millis(5),
            }
        }];
        let entry = HintEntry { seq: 1, changes: Some(Vec::new()), flow, hook: Vec::new() };
        let text = serde_json::to_string(&entry).expect("names and numbers");
        assert_eq!(serde_json::from_str::<HintEntry>(&text).expect("an entry"), entry);
    }

    #[test]
    fn webhook_hints_survive_a_round_trip_through_a_page() {
        let endpoint = EndpointId::generate();
        let hook = vec![HookChange::now(HookChangeKind::Pull(endpoint)), {
            HookChange { what: HookChangeKind::Push, due_in: std::time::Duration::from_millis(5) }
        }];
        let entry = HintEntry { seq: 1, changes: Some(Vec::new()), flow: Vec::new(), hook };
        let text = serde_json::to_string(&entry).expect("names and numbers");
        assert_eq!(serde_json::from_str::<HintEntry>(&text).expect("an entry"), entry);
    }
}
