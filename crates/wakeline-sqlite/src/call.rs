//! A command on its way through the writer: what to run, and whom to answer.

use std::sync::Arc;

use tokio::sync::oneshot;
use wakeline_store::{Consequence, Deed, StoreError};

use crate::access;
use crate::error::{Fault, Res, shared};
use crate::session::Session;

type Run<T> = Box<dyn FnMut(&mut Session<'_>) -> Res<T> + Send>;
type Peek<T> = Box<dyn FnMut(&mut Session<'_>) -> Res<Option<T>> + Send>;

/// What a command does. It may run more than once, each time from the beginning: a transaction
/// that met a full disk is undone and tried again.
pub(crate) struct Work<T> {
    pub(crate) operation: &'static str,
    bytes: usize,
    grows: bool,
    run: Run<T>,
    peek: Option<Peek<T>>,
}

impl<T> Work<T> {
    /// A command that changes what is there.
    pub(crate) fn new(
        operation: &'static str,
        run: impl FnMut(&mut Session<'_>) -> Res<T> + Send + 'static,
    ) -> Self {
        Self { operation, bytes: 0, grows: false, run: Box::new(run), peek: None }
    }

    /// It is an administrative act: the deed that the caller runs under is recorded with it,
    /// unless it was refused or nothing changed.
    pub(crate) fn recorded(mut self) -> Self
    where
        T: Consequence + 'static,
    {
        let Some(deed) = Deed::current() else { return self };
        let mut run = self.run;
        self.run = Box::new(move |session| {
            let answer = run(session)?;
            if answer.changed() && !session.undo {
                access::record(session, &deed)?;
            }
            Ok(answer)
        });
        self
    }

    /// It asks for space: refused while the disk is full.
    pub(crate) fn growing(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self.grows = true;
        self
    }

    /// It may turn out, from a snapshot, that there is nothing to write.
    pub(crate) fn peeking(
        mut self,
        peek: impl FnMut(&mut Session<'_>) -> Res<Option<T>> + Send + 'static,
    ) -> Self {
        self.peek = Some(Box::new(peek));
        self
    }
}

/// How a command left the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    /// Its writes belong to the commit.
    Kept,
    /// Its writes are to be undone.
    Undone,
    /// The disk is full: nothing of this transaction can be kept.
    Full,
}

/// A command, whatever it answers.
pub(crate) trait Command: Send {
    fn bytes(&self) -> usize;
    fn grows(&self) -> bool;
    fn can_peek(&self) -> bool;
    /// Tries to answer from a snapshot; false if it has to run.
    fn peek(&mut self, session: &mut Session<'_>) -> bool;
    fn run(&mut self, session: &mut Session<'_>) -> Ran;
    /// Replaces the answer: the command failed alone.
    fn set_fault(&mut self, fault: Fault);
    /// Replaces the answer: the whole transaction failed.
    fn fail(&mut self, error: &Arc<rusqlite::Error>);
    /// Sends the answer. Nobody may be waiting for it any more.
    fn answer(self: Box<Self>);
}

/// [`Work`] and whom to answer.
pub(crate) struct Call<T> {
    work: Work<T>,
    outcome: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T> Call<T> {
    pub(crate) fn new(work: Work<T>, reply: oneshot::Sender<Result<T, StoreError>>) -> Self {
        Self { work, outcome: None, reply }
    }
}

impl<T: Send> Command for Call<T> {
    fn bytes(&self) -> usize {
        self.work.bytes
    }

    fn grows(&self) -> bool {
        self.work.grows
    }

    fn can_peek(&self) -> bool {
        self.work.peek.is_some()
    }

    fn peek(&mut self, session: &mut Session<'_>) -> bool {
        let Some(peek) = &mut self.work.peek else { return false };
        match peek(session) {
            Ok(Some(answer)) => {
                self.outcome = Some(Ok(answer));
                true
            }
            // An error shows again, with its name, when the command runs.
            Ok(None) | Err(_) => false,
        }
    }

    fn run(&mut self, session: &mut Session<'_>) -> Ran {
        match (self.work.run)(session) {
            Ok(answer) => {
                self.outcome = Some(Ok(answer));
                if session.undo { Ran::Undone } else { Ran::Kept }
            }
            Err(fault) => {
                let full = fault.is_full();
                self.set_fault(fault);
                if full { Ran::Full } else { Ran::Undone }
            }
        }
    }

    fn set_fault(&mut self, fault: Fault) {
        self.outcome = Some(Err(fault.named(self.work.operation)));
    }

    fn fail(&mut self, error: &Arc<rusqlite::Error>) {
        self.outcome = Some(Err(shared(self.work.operation, Arc::clone(error))));
    }

    fn answer(self: Box<Self>) {
        if let Some(outcome) = self.outcome {
            // The caller may have gone away; what it asked for is done all the same.
            let _ = self.reply.send(outcome);
        }
    }
}
