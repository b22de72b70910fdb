//! Tells other nodes what this one committed, off the write path.

use wakeline_core::Change;

/// Tells other nodes what this one committed.
pub(crate) struct Notifier {}

impl Notifier {
    /// These may have become available. Never blocks. Call it after the commit.
    pub(crate) fn tell(&self, changes: &[Change]) {
        let _ = changes;
    }

    /// Leases were granted; `due_in` is their end. At most one hint per topic and half lease
    /// (MODELS A19), so it may be called for every claim.
    pub(crate) fn tell_leases(&self, changes: &[Change]) {
        let _ = changes;
    }

    /// Looks for dead nodes if that is due. Never blocks; called by the sweep.
    pub(crate) fn sweep(&self) {}
}
