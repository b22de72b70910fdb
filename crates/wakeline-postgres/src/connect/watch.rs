//! Statements that are given up before their deadline, unless the server is at work on them: a
//! connection that was lost silently looks like a slow database.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Row;
use wakeline_store::StoreError;

use super::{Link, Params, Sql};
use crate::promptness;
use crate::session::Session;

/// How long the answer may take of a statement that the server is no longer at work on.
const ANSWER_WITHIN: Duration = Duration::from_millis(300);

/// What becomes of a call if it cannot be found out whether the server is at work on it.
#[derive(Debug, Clone, Copy)]
enum Unwatched {
    GiveUp,
    Wait,
}

impl Link {
    /// Runs one statement that is answered promptly as a rule: a connection that gives no answer
    /// for a while is given up sooner than by the deadline, unless the server is at work on the
    /// statement. See [`promptness`]. If the server cannot be asked, it may still execute the
    /// statement and commit it. So this is only for a statement whose repetition finds what the
    /// first one did.
    pub(crate) async fn query_promptly(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let _turn = self.turn.read().await;
        let session = self.session(operation).await?;
        let began = Instant::now();
        let span = self.promptness.span(operation, self.connector.deadline());
        let call = session.query_fresh(sql, params);
        let answer = self.watch((span, Unwatched::GiveUp), &session, call).await;
        // A server that is known to work, or to have nothing to say, says nothing of the span.
        if answer.is_none() || began.elapsed() < span {
            self.promptness.note(operation, began.elapsed(), span);
        }
        self.conclude(operation, &session, answer)
    }

    /// As [`Self::query_promptly`], for a statement whose repetition does not find what the first
    /// one did: it is given up before its deadline only once the server is known not to be at work
    /// on it.
    pub(crate) async fn query_once(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let _turn = self.turn.read().await;
        let session = self.session(operation).await?;
        let call = session.query_fresh(sql, params);
        let answer = self.watch((promptness::SPAN_MIN, Unwatched::Wait), &session, call).await;
        self.conclude(operation, &session, answer)
    }

    /// Waits for an answer until the deadline, and after a while looks every now and then whether
    /// the server is at work on it. `None` if the connection is to be given up.
    async fn watch<T>(
        &self,
        (span, unwatched): (Duration, Unwatched),
        session: &Session,
        call: impl Future<Output = T>,
    ) -> Option<T> {
        let deadline = Instant::now() + self.connector.deadline();
        let mut call = pin!(call);
        let mut wait = span;
        loop {
            let until = deadline.min(Instant::now() + wait);
            if let Ok(answer) = timeout_at(until, &mut call).await {
                return Some(answer);
            }
            let works = match session.process {
                Some(process) if until < deadline => self.connector.works_on(process).await,
                _ => None,
            };
            match (works, unwatched) {
                _ if until >= deadline => return None,
                (Some(true), _) | (None, Unwatched::Wait) => wait = promptness::SPAN_MIN,
                (None, Unwatched::GiveUp) => return None,
                // Its answer may have come meanwhile, or be on its way.
                (Some(false), _) => return timeout(ANSWER_WITHIN, call).await.ok(),
            }
        }
    }
}
