//! Commands for the writer thread: what to run, and the channel for the reply.

use std::sync::Arc;

use tokio::sync::oneshot;
use wakeline_store::{AuditAction, Consequence, StoreError};

use crate::access;
use crate::error::{Res, StoreFault, shared};
use crate::session::DbSession;

type RunFn<T> = Box<dyn FnMut(&mut DbSession<'_>) -> Res<T> + Send>;
type PeekFn<T> = Box<dyn FnMut(&mut DbSession<'_>) -> Res<Option<T>> + Send>;

/// What a command does. It may run more than once, each time from the beginning, because a
/// transaction that fails on a full disk is rolled back and tried again.
pub(crate) struct WriteCommand<T> {
    pub(crate) operation: &'static str,
    bytes: usize,
    grows: bool,
    run: RunFn<T>,
    peek: Option<PeekFn<T>>,
}

impl<T> WriteCommand<T> {
    /// A command that writes.
    pub(crate) fn new(
        operation: &'static str,
        run: impl FnMut(&mut DbSession<'_>) -> Res<T> + Send + 'static,
    ) -> Self {
        Self { operation, bytes: 0, grows: false, run: Box::new(run), peek: None }
    }

    /// Records the caller's current audit action in the command's transaction, unless the command
    /// was refused or changed nothing.
    pub(crate) fn recorded(mut self) -> Self
    where
        T: Consequence + 'static,
    {
        let Some(action) = AuditAction::current() else { return self };
        let mut run = self.run;
        self.run = Box::new(move |session| {
            let answer = run(session)?;
            if answer.changed() && !session.undo {
                access::record(session, &action)?;
            }
            Ok(answer)
        });
        self
    }

    /// Marks a command that needs space: it is refused while the disk is full.
    pub(crate) fn growing(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self.grows = true;
        self
    }

    /// Adds a check that tries to answer the command from a snapshot, without writing.
    pub(crate) fn peeking(
        mut self,
        peek: impl FnMut(&mut DbSession<'_>) -> Res<Option<T>> + Send + 'static,
    ) -> Self {
        self.peek = Some(Box::new(peek));
        self
    }
}

/// What the transaction does with the writes of a command that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// They are committed.
    Kept,
    /// They are rolled back to the savepoint.
    Undone,
    /// The disk is full: the whole transaction is rolled back.
    Full,
}

/// A command with its result type erased.
pub(crate) trait QueuedCommand: Send {
    fn bytes(&self) -> usize;
    fn grows(&self) -> bool;
    fn can_peek(&self) -> bool;
    /// Tries to answer from a snapshot. Returns false if the command has to run.
    fn peek(&mut self, session: &mut DbSession<'_>) -> bool;
    fn run(&mut self, session: &mut DbSession<'_>) -> CommandOutcome;
    /// Replaces the result: this command alone failed.
    fn set_fault(&mut self, fault: StoreFault);
    /// Replaces the result: the whole transaction failed.
    fn fail(&mut self, error: &Arc<rusqlite::Error>);
    /// Sends the result. The caller may have stopped waiting for it.
    fn answer(self: Box<Self>);
}

/// A [`WriteCommand`] with the channel for its result.
pub(crate) struct PendingCommand<T> {
    work: WriteCommand<T>,
    outcome: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T> PendingCommand<T> {
    pub(crate) fn new(
        work: WriteCommand<T>,
        reply: oneshot::Sender<Result<T, StoreError>>,
    ) -> Self {
        Self { work, outcome: None, reply }
    }
}

impl<T: Send> QueuedCommand for PendingCommand<T> {
    fn bytes(&self) -> usize {
        self.work.bytes
    }

    fn grows(&self) -> bool {
        self.work.grows
    }

    fn can_peek(&self) -> bool {
        self.work.peek.is_some()
    }

    fn peek(&mut self, session: &mut DbSession<'_>) -> bool {
        let Some(peek) = &mut self.work.peek else { return false };
        match peek(session) {
            Ok(Some(answer)) => {
                self.outcome = Some(Ok(answer));
                true
            }
            // An error occurs again when the command runs, and is reported then.
            Ok(None) | Err(_) => false,
        }
    }

    fn run(&mut self, session: &mut DbSession<'_>) -> CommandOutcome {
        match (self.work.run)(session) {
            Ok(answer) => {
                self.outcome = Some(Ok(answer));
                if session.undo { CommandOutcome::Undone } else { CommandOutcome::Kept }
            }
            Err(fault) => {
                let full = fault.is_full();
                self.set_fault(fault);
                if full { CommandOutcome::Full } else { CommandOutcome::Undone }
            }
        }
    }

    fn set_fault(&mut self, fault: StoreFault) {
        self.outcome = Some(Err(fault.named(self.work.operation)));
    }

    fn fail(&mut self, error: &Arc<rusqlite::Error>) {
        self.outcome = Some(Err(shared(self.work.operation, Arc::clone(error))));
    }

    fn answer(self: Box<Self>) {
        if let Some(outcome) = self.outcome {
            // The caller may have stopped waiting; the command ran anyway.
            let _ = self.reply.send(outcome);
        }
    }
}
