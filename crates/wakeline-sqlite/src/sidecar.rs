//! How processes on one database file tell each other that something changed.
//!
//! Each process has one small file in the folder `<database>.hints`, held under an exclusive
//! lock for as long as it lives. After a commit that made work available it writes what changed
//! there; the others watch the folder and read it. The database itself is not touched.
//!
//! # Where it sits
//! The writer calls [`Sidecar::tell`] after each commit; `listener` feeds what arrives to the
//! faces.
//!
//! # Invariants
//! * What cannot be told precisely is told as "everything": a gap in the numbers, a torn page, a
//!   process that joins.
//! * A commit whose process saw no peer is covered: on noticing one it tells "everything" after it.
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

/// Changes that a page keeps for readers that are behind.
const CHANGES_LEN_MAX: usize = 256;
/// Changes of one commit beyond which it is told as "everything".
const CHANGES_PER_ENTRY_MAX: usize = 64;
const EXTENSION: &str = "hint";

/// What other processes are told of a commit.
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

    /// Without what is said twice.
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

/// What one commit changed; `changes` is `None` for "anything".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    seq: u64,
    changes: Option<Vec<Change>>,
    /// Processes without orchestrations pass over it, and do not write it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    flow: Vec<FlowChange>,
    /// The same for webhooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hook: Vec<HookChange>,
}

impl Entry {
    fn len(&self) -> usize {
        self.changes.as_ref().map_or(1, Vec::len) + self.flow.len() + self.hook.len()
    }
}

/// This process's file and those of the others.
pub(crate) struct Sidecar {
    folder: PathBuf,
    own: PathBuf,
    outbox: Mutex<Outbox>,
    /// Whether anybody else may be reading.
    peers: AtomicBool,
    inbox: Mutex<Inbox>,
}

struct Outbox {
    /// `None` once this process has left.
    file: Option<File>,
    seq: u64,
    entries: VecDeque<Entry>,
}

#[derive(Default)]
struct Inbox {
    peers: HashMap<PathBuf, Peer>,
    sinks: Vec<(u64, Arc<dyn HintSink>)>,
    sinks_made: u64,
}

struct Peer {
    file: File,
    seq: u64,
}

/// What a look at a peer's page says.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Nothing,
    Changes(Hints),
    Everything,
}

impl Sidecar {
    /// Makes this process's file.
    pub(crate) fn join(folder: &Path) -> io::Result<Self> {
        crate::connect::make_private_folder(folder)?;
        // Events name absolute paths, whatever path the watch was given.
        let folder = folder.canonicalize()?;
        let own = folder.join(format!("{}.{EXTENSION}", NodeId::generate()));
        let file = make(&own, &VecDeque::new())?;
        let outbox = Outbox { file: Some(file), seq: 0, entries: VecDeque::new() };
        Ok(Self {
            folder,
            own,
            outbox: Mutex::new(outbox),
            peers: AtomicBool::new(true),
            inbox: Mutex::default(),
        })
    }

    /// Makes this process's file again, which somebody removed, perhaps with the folder.
    pub(crate) fn join_again(&self) -> io::Result<()> {
        crate::connect::make_private_folder(&self.folder)?;
        let mut outbox = self.outbox.lock();
        if outbox.file.is_some() {
            outbox.file = Some(make(&self.own, &outbox.entries)?);
        }
        // Peers that lost their files too have others now, or will have.
        self.inbox.lock().peers.clear();
        self.peers.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Whether this process's file is where the others look for it. True once it has left.
    pub(crate) fn is_there(&self) -> bool {
        let outbox = self.outbox.lock();
        outbox.file.as_ref().is_none_or(|file| is_at(file, &self.own))
    }

    /// A sidecar that tells nobody, for stores that are alone by configuration.
    pub(crate) fn alone() -> Self {
        Self {
            folder: PathBuf::new(),
            own: PathBuf::new(),
            outbox: Mutex::new(Outbox { file: None, seq: 0, entries: VecDeque::new() }),
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

    /// Tells the other processes, if there are any, what a commit changed.
    pub(crate) fn tell(&self, hints: Hints) {
        if (hints.len() == 0 && !hints.everything) || !self.peers.load(Ordering::SeqCst) {
            return;
        }
        let hints = hints.deduped();
        let few = hints.len() <= CHANGES_PER_ENTRY_MAX && !hints.everything;
        self.append(few.then_some(hints));
    }

    /// Writes the page as it is, for the probe whether watching works.
    pub(crate) fn touch(&self) -> io::Result<()> {
        let outbox = self.outbox.lock();
        outbox.file.as_ref().map_or(Ok(()), |file| file.write_all_at(&page(&outbox.entries), 0))
    }

    fn append(&self, hints: Option<Hints>) {
        let mut outbox = self.outbox.lock();
        let Outbox { file: Some(_), .. } = &*outbox else { return };
        outbox.seq += 1;
        let (seq, anything) = (outbox.seq, hints.is_none());
        let Hints { queue, flow, hook, .. } = hints.unwrap_or_default();
        let changes = (!anything).then_some(queue);
        outbox.entries.push_back(Entry { seq, changes, flow, hook });
        while outbox.entries.iter().map(Entry::len).sum::<usize>() > CHANGES_LEN_MAX {
            outbox.entries.pop_front();
        }
        let page = page(&outbox.entries);
        let written = outbox.file.as_ref().map(|file| file.write_all_at(&page, 0));
        if let Some(Err(error)) = written {
            // The others still find the work: their safety sweep reads the database.
            let (path, error) = (self.own.display(), error_chain(&error));
            tracing::warn!(error, %path, "hints could not be written");
        }
    }

    /// Looks who is there: welcomes new processes, forgets and tidies away dead ones.
    pub(crate) fn look_around(&self) {
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
                joined |= inbox.meet(path);
            }
            // Set before "everything" is written: a commit that saw no peer is older than that.
            self.peers.store(!inbox.peers.is_empty(), Ordering::SeqCst);
        }
        if joined {
            self.append(None);
            self.everything();
        }
    }

    /// Reads what a peer wrote, and passes it on.
    pub(crate) fn read(&self, path: &Path) {
        let news = {
            let mut inbox = self.inbox.lock();
            inbox.peers.get_mut(path).map(Peer::news)
        };
        match news {
            None => self.look_around(),
            Some(News::Nothing) => {}
            Some(News::Everything) => self.everything(),
            Some(News::Changes(hints)) => self.pass_on(&hints),
        }
    }

    /// Queues come last: a push is never heard before what its process did earlier.
    fn pass_on(&self, hints: &Hints) {
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

    /// Anything may have changed.
    pub(crate) fn everything(&self) {
        for sink in self.sinks() {
            sink.everything();
        }
    }

    /// Passes hints of other processes on to a sink, until the number is given back.
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

    /// The sinks, to be called without a lock held.
    pub(crate) fn sinks(&self) -> Vec<Arc<dyn HintSink>> {
        self.inbox.lock().sinks.iter().map(|(_, sink)| Arc::clone(sink)).collect()
    }

    /// Leaves: the file goes, and the others notice.
    pub(crate) fn leave(&self) {
        if let Some(file) = self.outbox.lock().file.take() {
            // A file that stays behind is removed by whoever finds its lock free.
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

impl Inbox {
    /// True if a file belongs to a live process that was not known before.
    fn meet(&mut self, path: PathBuf) -> bool {
        if let Some(peer) = self.peers.get(&path) {
            let (same, gone) = (is_at(&peer.file, &path), dead(&peer.file));
            if same && gone {
                self.peers.remove(&path);
                tidy(&path);
            }
            if same {
                return false;
            }
            // Its file was removed, and it has made another under the same name.
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
    fn news(&mut self) -> News {
        let Some(entries) = read_page(&self.file) else { return News::Everything };
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return News::Nothing;
        };
        let (missed, newest) = (first.seq > self.seq + 1, last.seq);
        let fresh = newest > self.seq;
        let known = std::mem::replace(&mut self.seq, newest);
        if !fresh {
            return News::Nothing;
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
                _ => return News::Everything,
            }
        }
        News::Changes(hints)
    }
}

/// Whether the process that made a file is gone: its lock is free.
fn dead(file: &File) -> bool {
    let free = flock(file, FlockOperation::NonBlockingLockShared).is_ok();
    if free {
        // Given back at once. If that fails, closing the file does it.
        let _ = flock(file, FlockOperation::Unlock);
    }
    free
}

fn tidy(path: &Path) {
    // A rival may have been faster.
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakeline_core::{EndpointId, FlowWhat, HookWhat, InstanceId};

    #[test]
    fn pages_of_processes_without_orchestrations_are_understood_and_look_the_same() {
        let old = r#"{"seq":7,"changes":[]}"#;
        let entry: Entry = serde_json::from_str(old).expect("an entry");
        let (changes, flow, hook) = (Some(Vec::new()), Vec::new(), Vec::new());
        assert_eq!(entry, Entry { seq: 7, changes, flow, hook });
        assert_eq!(serde_json::to_string(&entry).expect("names and numbers"), old);
    }

    #[test]
    fn hints_of_orchestrations_come_back_from_a_page() {
        let instance = InstanceId::new("a").expect("valid");
        let flow = vec![FlowChange::now(FlowWhat::Outcome(instance)), {
            FlowChange {
                what: FlowWhat::Work(wakeline_core::ActivityRoute::default()),
                due_in: std::time::Duration::from_millis(5),
            }
        }];
        let entry = Entry { seq: 1, changes: Some(Vec::new()), flow, hook: Vec::new() };
        let text = serde_json::to_string(&entry).expect("names and numbers");
        assert_eq!(serde_json::from_str::<Entry>(&text).expect("an entry"), entry);
    }

    #[test]
    fn hints_of_webhooks_come_back_from_a_page() {
        let endpoint = EndpointId::generate();
        let hook = vec![HookChange::now(HookWhat::Pull(endpoint)), {
            HookChange { what: HookWhat::Push, due_in: std::time::Duration::from_millis(5) }
        }];
        let entry = Entry { seq: 1, changes: Some(Vec::new()), flow: Vec::new(), hook };
        let text = serde_json::to_string(&entry).expect("names and numbers");
        assert_eq!(serde_json::from_str::<Entry>(&text).expect("an entry"), entry);
    }
}
