//! Webhook delivery: each operation is one command for the writer, or one read.

mod admin;
mod application;
mod attempt;
mod background_task;
mod cache;
mod catalog;
mod claim;
mod delivery;
mod emit;
mod endpoint;
mod event_type;
mod fan_out;
mod held_leases;
mod job;
mod key;
mod lane;
mod lease;
mod limits;
mod message;
mod page;
mod read;
mod settle;
mod slots;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, DeliveryToken, EndpointId, EndpointRef, HookChange,
    HookLine, HookMessageId, JobId, MessageRef, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    Attempt, AttemptFilter, Delivery, DeliveryClaim, DeliveryClaimed, DeliveryJob, DeliveryRequest,
    EmitOutcome, EmitReply, EndpointStats, ExpireMessages, ExpiredMessages, HookAdmin,
    HookBackgroundReport, HookMessageFilter, HookPage, HookReader, HookStore, JobSpec, NewMessage,
    PageRequest, ResendOutcome, SettleDelivery, SettledDelivery, StoredMessage,
};

pub(crate) use cache::HookCache;
pub(crate) use emit::EmitCheck;
pub(crate) use fan_out::FanOuts;

use crate::SqliteStore;
use crate::command::WriteCommand;
use crate::error::Res;
use crate::session::DbSession;

/// Includes a statement from `sql/queries` whose name begins with `hook_`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/queries/hook_", $name, ".sql"))
    };
}
use sql;

#[async_trait]
impl HookStore for SqliteStore {
    async fn emit(
        &self,
        message: NewMessage,
        requests: Vec<DeliveryRequest>,
    ) -> Result<EmitReply, StoreError> {
        let bytes = message::bytes(&message);
        let work = WriteCommand::new("emit", move |s| emit::emit(s, &message, &requests));
        self.write(work.growing(bytes)).await
    }

    async fn claim_deliveries(
        &self,
        lines: Vec<DeliveryClaim>,
    ) -> Result<Vec<DeliveryClaimed>, StoreError> {
        let lines = Arc::new(lines);
        let same = Arc::clone(&lines);
        let work = WriteCommand::new("claim_deliveries", move |s| claim::claim(s, &lines));
        let found = self.write(work.peeking(move |s| claim::peek(s, &same))).await?;
        match found.corrupt_row {
            Some(fault) => Err(fault.named("claim_deliveries")),
            None => Ok(found.outcomes),
        }
    }

    async fn settle_deliveries(
        &self,
        ends: Vec<SettleDelivery>,
    ) -> Result<Vec<SettledDelivery>, StoreError> {
        self.write(WriteCommand::new("settle_deliveries", move |s| {
            ends.iter().map(|end| settle::settle(s, end)).collect()
        }))
        .await
    }

    async fn release_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
    ) -> Result<Vec<HookChange>, StoreError> {
        self.write(WriteCommand::new("release_deliveries", move |s| settle::release(s, &tokens)))
            .await
    }

    async fn extend_deliveries(
        &self,
        tokens: Vec<DeliveryToken>,
        span: Duration,
    ) -> Result<Vec<bool>, StoreError> {
        let work = move |s: &mut DbSession<'_>| settle::extend(s, &tokens, span);
        self.write(WriteCommand::new("extend_deliveries", work)).await
    }

    async fn sweep_hook(&self, lines: Vec<HookLine>) -> Result<Vec<Option<Duration>>, StoreError> {
        self.tidy();
        self.read("sweep_hook", move |s| sweep(s, &lines)).await
    }
}

#[async_trait]
impl HookReader for SqliteStore {
    async fn message(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        with_content: bool,
    ) -> Result<Option<StoredMessage>, StoreError> {
        let (application, message) = (application.clone(), message.clone());
        let work =
            move |s: &mut DbSession<'_>| read::message(s, &application, &message, with_content);
        self.read("hook_message", work).await
    }

    async fn messages(
        &self,
        application: ApplicationId,
        filter: HookMessageFilter,
        page: PageRequest<HookMessageId>,
    ) -> Result<HookPage<StoredMessage>, StoreError> {
        let work = move |s: &mut DbSession<'_>| read::messages(s, application, &filter, &page);
        self.read("hook_messages", work).await
    }

    async fn deliveries(
        &self,
        application: ApplicationId,
        message: HookMessageId,
        page: PageRequest<EndpointId>,
    ) -> Result<HookPage<Delivery>, StoreError> {
        let work = move |s: &mut DbSession<'_>| read::deliveries(s, application, message, &page);
        self.read("deliveries", work).await
    }

    async fn deliveries_to(
        &self,
        endpoint: EndpointId,
        messages: Vec<HookMessageId>,
    ) -> Result<Vec<Option<Delivery>>, StoreError> {
        self.read("deliveries_to", move |s| read::deliveries_to(s, endpoint, &messages)).await
    }

    async fn attempts(
        &self,
        application: ApplicationId,
        filter: AttemptFilter,
        page: PageRequest<AttemptId>,
    ) -> Result<HookPage<Attempt>, StoreError> {
        let work = move |s: &mut DbSession<'_>| read::attempts(s, application, &filter, &page);
        self.read("attempts", work).await
    }

    async fn attempt(
        &self,
        application: ApplicationId,
        attempt: AttemptId,
    ) -> Result<Option<Attempt>, StoreError> {
        self.read("attempt", move |s| read::attempt(s, application, attempt)).await
    }

    async fn endpoint_stats(
        &self,
        application: ApplicationId,
        endpoint: EndpointId,
        since: Option<Timestamp>,
    ) -> Result<EndpointStats, StoreError> {
        let work = move |s: &mut DbSession<'_>| read::stats(s, application, endpoint, since);
        self.read("endpoint_stats", work).await
    }
}

#[async_trait]
impl HookAdmin for SqliteStore {
    async fn resend(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: &EndpointRef,
    ) -> Result<(ResendOutcome, Vec<HookChange>), StoreError> {
        let (application, message) = (application.clone(), message.clone());
        let endpoint = endpoint.clone();
        self.write(
            WriteCommand::new("resend", move |s| {
                admin::resend(s, &application, &message, &endpoint)
            })
            .recorded(),
        )
        .await
    }

    async fn cancel(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        endpoint: Option<&EndpointRef>,
    ) -> Result<Option<(u64, Vec<HookChange>)>, StoreError> {
        let (application, message) = (application.clone(), message.clone());
        let endpoint = endpoint.cloned();
        self.write(
            WriteCommand::new("cancel", move |s| {
                admin::cancel(s, &application, &message, endpoint.as_ref())
            })
            .recorded(),
        )
        .await
    }

    async fn expunge_payload(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
    ) -> Result<bool, StoreError> {
        let (application, message) = (application.clone(), message.clone());
        self.write(
            WriteCommand::new("expunge_payload", move |s| {
                admin::expunge_payload(s, &application, &message)
            })
            .recorded(),
        )
        .await
    }

    async fn expunge_response(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<bool, StoreError> {
        let (application, message) = (application.clone(), message.clone());
        self.write(
            WriteCommand::new("expunge_response", move |s| {
                admin::expunge_response(s, &application, &message, attempt)
            })
            .recorded(),
        )
        .await
    }

    async fn start_job(
        &self,
        application: &ApplicationRef,
        job: JobSpec,
    ) -> Result<Option<(DeliveryJob, Vec<HookChange>)>, StoreError> {
        let application = application.clone();
        self.write(
            WriteCommand::new("start_job", move |s| job::start(s, &application, &job)).recorded(),
        )
        .await
    }

    async fn job(&self, job: JobId) -> Result<Option<DeliveryJob>, StoreError> {
        self.read("job", move |s| Ok(job::by_id(s, job)?.map(|work| work.job))).await
    }

    async fn run_background(&self, rows: u32) -> Result<HookBackgroundReport, StoreError> {
        self.write(
            WriteCommand::new("run_background", move |s| background_task::work(s, rows))
                .peeking(background_task::peek),
        )
        .await
    }

    async fn expire_messages(
        &self,
        command: ExpireMessages,
    ) -> Result<ExpiredMessages, StoreError> {
        self.write(WriteCommand::new("expire_messages", move |s| {
            background_task::expire(s, &command)
        }))
        .await
    }
}

/// Approximate size of messages on disk.
pub(crate) fn bytes(messages: &[NewMessage]) -> usize {
    messages.iter().map(message::bytes).sum()
}

/// Checks messages against their event types before another command stores them in its commit. The
/// check runs on a blocking thread, so that neither the writer nor a reader waits for it.
pub(crate) async fn check_emits(
    store: &SqliteStore,
    messages: &[NewMessage],
) -> Result<Vec<EmitCheck>, StoreError> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    const OPERATION: &str = "check_emits";
    let messages = messages.to_vec();
    let (messages, schemas) = store
        .read(OPERATION, move |s| {
            let schemas: Res<Vec<_>> = messages.iter().map(|one| emit::enforced(s, one)).collect();
            Ok((messages, schemas?))
        })
        .await?;
    let check = move || -> Vec<EmitCheck> {
        messages.iter().zip(schemas).map(|(one, schemas)| EmitCheck::new(one, schemas)).collect()
    };
    let checked = tokio::task::spawn_blocking(check).await;
    checked.map_err(|error| StoreError::Fatal { operation: OPERATION, source: error.into() })
}

/// Stores messages in the commit of another command, in order.
pub(crate) fn emit_all(
    s: &mut DbSession<'_>,
    messages: &[NewMessage],
) -> Res<(Vec<EmitOutcome>, Vec<HookChange>)> {
    let mut outcomes = Vec::with_capacity(messages.len());
    let mut changes = Vec::new();
    let mut checks = std::mem::take(&mut s.emit_checks).into_iter();
    for message in messages {
        let reply = emit::emit_checked(s, message, checks.next())?;
        outcomes.push(reply.outcome);
        changes.extend(reply.changes);
    }
    Ok((outcomes, lane::merged(changes)))
}

/// When each line has something to claim next. Reads only.
fn sweep(s: &mut DbSession<'_>, lines: &[HookLine]) -> Res<Vec<Option<Duration>>> {
    let mut answers = Vec::with_capacity(lines.len());
    for line in lines {
        let due = match line {
            HookLine::Push | HookLine::PushFresh | HookLine::Pull(_) => claim::line_due(s, line)?,
            HookLine::Background => background_task::due(s)?,
        };
        answers.push(due.map(|due| s.now.until(Timestamp(due))));
    }
    Ok(answers)
}
