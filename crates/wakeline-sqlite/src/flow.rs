//! Durable orchestrations: each operation is one command for the writer, or one read.

mod commit;
mod delete;
mod instance;
mod kv;
mod lane;
mod lease;
mod message;
mod names;
mod session;
mod turn;
mod work;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{FlowChange, FlowLine, FlowToken, OwnerId, Timestamp};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    AbandonOutcome, Completion, CompletionReply, EnqueueReply, Envelope, FlowStore, NewWork,
    RenewOutcome, TurnClaim, TurnClaimed, TurnCommit, TurnReply, TurnRequest, WorkClaim,
    WorkClaimed,
};

pub(crate) use names::Names;

use crate::SqliteStore;
use crate::call::Work;
use crate::error::Res;
use crate::session::Session;

#[async_trait]
impl FlowStore for SqliteStore {
    async fn enqueue(
        &self,
        envelopes: Vec<Envelope>,
        requests: Vec<TurnRequest>,
    ) -> Result<EnqueueReply, StoreError> {
        let bytes = message::bytes(&envelopes);
        let work = Work::new("enqueue", move |s| enqueue(s, &envelopes, &requests));
        self.write(work.growing(bytes)).await
    }

    async fn claim_turns(&self, lines: Vec<TurnClaim>) -> Result<Vec<TurnClaimed>, StoreError> {
        let lines = Arc::new(lines);
        let same = Arc::clone(&lines);
        let work = Work::new("claim_turns", move |s| turn::claim(s, &lines));
        self.write(work.peeking(move |s| turn::peek(s, &same))).await
    }

    async fn commit_turn(&self, commit: TurnCommit) -> Result<TurnReply, StoreError> {
        let bytes = commit::bytes(&commit);
        let work = Work::new("commit_turn", move |s| commit::commit(s, &commit));
        self.write(work.growing(bytes)).await
    }

    async fn enqueue_work(&self, work: NewWork) -> Result<Vec<FlowChange>, StoreError> {
        let bytes = work.payload.len();
        self.write(Work::new("enqueue_work", move |s| work::enqueue(s, &work)).growing(bytes)).await
    }

    async fn claim_work(&self, lines: Vec<WorkClaim>) -> Result<Vec<WorkClaimed>, StoreError> {
        let lines = Arc::new(lines);
        let same = Arc::clone(&lines);
        let work = Work::new("claim_work", move |s| work::claim(s, &lines));
        self.write(work.peeking(move |s| work::peek(s, &same))).await
    }

    async fn complete_work(
        &self,
        completion: Completion,
        requests: Vec<TurnRequest>,
    ) -> Result<CompletionReply, StoreError> {
        let work = move |s: &mut Session<'_>| work::complete(s, &completion, &requests);
        self.write(Work::new("complete_work", work)).await
    }

    async fn renew(
        &self,
        tokens: Vec<FlowToken>,
        span: Duration,
    ) -> Result<Vec<RenewOutcome>, StoreError> {
        self.write(Work::new("renew", move |s| lease::renew(s, &tokens, span))).await
    }

    async fn abandon(
        &self,
        token: FlowToken,
        delay: Duration,
        uncounted: bool,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError> {
        let how = lease::GiveBack { delay, uncounted };
        self.write(Work::new("abandon", move |s| lease::abandon(s, token, how))).await
    }

    async fn keep_sessions(
        &self,
        owners: Vec<OwnerId>,
        span: Duration,
        idle: Duration,
    ) -> Result<u64, StoreError> {
        self.write(Work::new("keep_sessions", move |s| {
            if owners.is_empty() {
                return session::tidy(s);
            }
            let idle = i64::try_from(idle.as_micros()).unwrap_or(i64::MAX);
            session::keep(s, &owners, s.now.plus(span).0, s.now.0.saturating_sub(idle))
        }))
        .await
    }

    async fn sweep_flow(&self, lines: Vec<FlowLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        self.tidy();
        self.read("sweep_flow", move |s| sweep(s, &lines)).await
    }
}

/// Puts messages into lanes.
fn enqueue(
    s: &mut Session<'_>,
    envelopes: &[Envelope],
    requests: &[TurnRequest],
) -> Res<EnqueueReply> {
    let mut lanes = lane::Lanes::default();
    let mut outcomes = Vec::with_capacity(envelopes.len());
    for envelope in envelopes {
        outcomes.push(message::store(s, &mut lanes, envelope)?);
    }
    let opened = lanes.finish(s)?;
    let (turns, changes) = turn::born(s, opened, requests)?;
    Ok(EnqueueReply { outcomes, turns, changes })
}

/// When the lines have something next. Reads only.
fn sweep(s: &mut Session<'_>, lines: &[FlowLine]) -> Res<Vec<Option<Duration>>> {
    let mut answers = Vec::with_capacity(lines.len());
    for line in lines {
        let due = match line {
            FlowLine::Turns(capabilities) => turn::line_due(s, capabilities)?,
            FlowLine::Work { tags, owner } => work::line_due(s, tags, owner.as_ref())?,
            FlowLine::Outcome(instance) => {
                let state = lane::Lane::named(s, instance)?.and_then(|lane| lane.state);
                state.filter(|state| state.is_ended()).map(|_| s.now.0)
            }
        };
        answers.push(due.map(|due| s.now.until(Timestamp(due))));
    }
    Ok(answers)
}
