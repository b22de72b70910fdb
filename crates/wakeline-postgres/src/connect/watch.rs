//! Gives up statements before their deadline if the server does not execute them, because a
//! connection that was lost silently otherwise looks like a slow database.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Row;
use wakeline_store::StoreError;

use super::{Params, PgLink, Sql};
use crate::promptness;
use crate::session::Session;

/// How long to wait for the answer of a statement that the server no longer executes.
const ANSWER_WITHIN: Duration = Duration::from_millis(300);

/// What to do with a call if it is unknown whether the server executes it.
#[derive(Debug, Clone, Copy)]
enum Unwatched {
    GiveUp,
    Wait,
}

impl PgLink {
    /// Runs a statement that is usually answered quickly. If there is no answer for a while, the
    /// connection is given up before the deadline, unless the server executes the statement (see
    /// [`promptness`]). If that cannot be found out, the server may still execute the statement and
    /// commit it. Therefore use this only for statements whose repetition finds the results of the
    /// first execution.
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
        let answer = self.watch(span, Unwatched::GiveUp, &session, call).await;
        // An answer after the span, from a server that was seen to execute the statement, does not
        // show whether the span is adequate.
        if answer.is_none() || began.elapsed() < span {
            self.promptness.note(operation, began.elapsed(), span);
        }
        self.conclude(operation, &session, answer)
    }

    /// As [`Self::query_promptly`], for a statement whose repetition does not find the results of
    /// the first execution. It is given up before its deadline only if the server is known not to
    /// execute it.
    pub(crate) async fn query_once(
        &self,
        operation: &'static str,
        sql: &Sql,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let _turn = self.turn.read().await;
        let session = self.session(operation).await?;
        let call = session.query_fresh(sql, params);
        let answer = self.watch(promptness::SPAN_MIN, Unwatched::Wait, &session, call).await;
        self.conclude(operation, &session, answer)
    }

    /// Waits for an answer until the deadline; after `span` it checks regularly whether the server
    /// executes the statement. Returns `None` if the connection is to be given up.
    async fn watch<T>(
        &self,
        span: Duration,
        unwatched: Unwatched,
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
                // The answer may have arrived since, or may be in transit.
                (Some(false), _) => return timeout(ANSWER_WITHIN, call).await.ok(),
            }
        }
    }
}
