//! A bare hyper handler on the same store, which the server is compared with.
//!
//! # Where it sits
//! `wakeline-bench bare`, which the queue benchmark starts as a process of its own. It parses the
//! same bodies and calls the same group-committing store as the server. It omits everything else:
//! routing, other validation, parked pops, hints, metrics and limits. The difference between the
//! server and this handler is the cost of those.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use wakeline_core::{
    GroupName, LeaseId, LeaseToken, MessageId, PartitionName, QueueLine, QueueName, Selector,
    Subscription, TransactionId, Verdict,
};
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::{
    ClaimRequest, LineClaim, PushItem, QueueClaimResult, SettleItem, SettleOutcome, Store,
};

use crate::table::print_line;

/// Settings of the bare handler.
#[derive(Args)]
pub(crate) struct BareArgs {
    /// sqlite:PATH or postgres://USER@HOST/DATABASE
    #[arg(long)]
    store: String,
    /// Schema on PostgreSQL
    #[arg(long, default_value = "wakeline_bare")]
    schema: String,
}

/// Serves requests until the process is killed.
pub(crate) fn run(args: &BareArgs) -> Result<()> {
    // The same runtime as that of the server, with its defaults.
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let store = open(args).await?;
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        print_line(&format!("url     http://{}", listener.local_addr()?));
        serve(listener, store).await
    })
}

async fn open(args: &BareArgs) -> Result<Arc<dyn Store>> {
    if let Some(path) = args.store.strip_prefix("sqlite:") {
        return Ok(Arc::new(SqliteStore::open(SqliteOptions::new(path)).await?));
    }
    let mut options = PostgresOptions::new(&args.store);
    options.schema.clone_from(&args.schema);
    Ok(Arc::new(PostgresStore::connect(options).await?))
}

async fn serve(listener: TcpListener, store: Arc<dyn Store>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let store = Arc::clone(&store);
                async move { Ok::<_, Infallible>(answer(store, request).await) }
            });
            // An error of a connection is not an error of the handler.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(store: Arc<dyn Store>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, body) = match handle(store, request).await {
        Ok(done) => done,
        Err(error) => (500, format!("{error:#}").into_bytes()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = hyper::StatusCode::from_u16(status).expect("all of ours are valid");
    response
}

async fn handle(store: Arc<dyn Store>, request: Request<Incoming>) -> Result<(u16, Vec<u8>)> {
    let path = request.uri().path();
    if request.method() == Method::GET {
        let queue = path.strip_prefix("/api/v1/pop/queue/").context("no such route")?;
        let batch = request.uri().query().and_then(|query| query.strip_prefix("batch="));
        let batch = batch.context("batch is missing")?.parse()?;
        return pop(store, QueueName::new(queue)?, batch).await;
    }
    match path {
        "/api/v1/push" => push(store, body_of(request).await?).await,
        "/api/v1/ack" => ack_one(store, body_of(request).await?).await,
        "/api/v1/ack/batch" => ack_batch(store, body_of(request).await?).await,
        _ => bail!("no such route"),
    }
}

async fn body_of(request: Request<Incoming>) -> Result<Bytes> {
    Ok(request.into_body().collect().await?.to_bytes())
}

#[derive(Deserialize)]
struct BarePushBody<'a> {
    #[serde(borrow)]
    items: Vec<BarePushItemBody<'a>>,
}

#[derive(Deserialize)]
struct BarePushItemBody<'a> {
    queue: &'a str,
    partition: &'a str,
    #[serde(borrow)]
    payload: &'a RawValue,
}

async fn push(store: Arc<dyn Store>, body: Bytes) -> Result<(u16, Vec<u8>)> {
    let parsed: BarePushBody<'_> = serde_json::from_slice(&body)?;
    let mut items = Vec::with_capacity(parsed.items.len());
    for item in parsed.items {
        items.push(PushItem {
            queue: QueueName::new(item.queue)?,
            partition: PartitionName::new(item.partition)?,
            id: MessageId::generate(),
            transaction_id: TransactionId::generate(),
            trace_id: None,
            payload: body.slice_ref(item.payload.get().as_bytes()),
            producer: None,
        });
    }
    let reply = store.push(items).await?;
    let ids = reply.outcomes.iter().map(|outcome| outcome.id().0);
    Ok((201, serde_json::to_vec(&ids.collect::<Vec<_>>())?))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BarePopAnswer<'a> {
    lease_id: String,
    partition_id: String,
    messages: Vec<BarePoppedMessage<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BarePoppedMessage<'a> {
    transaction_id: &'a str,
    data: &'a RawValue,
}

async fn pop(store: Arc<dyn Store>, queue: QueueName, batch: u32) -> Result<(u16, Vec<u8>)> {
    let request = ClaimRequest {
        token: LeaseToken::generate(),
        batch_len_max: batch,
        bytes_max: u64::MAX,
        partitions_len_max: 1,
        auto_ack: false,
        worker: None,
    };
    let line = QueueLine { selector: Selector::Queue(queue), group: GroupName::queue_mode() };
    let (subscription, requests) = (Subscription::All, vec![request]);
    let claim = LineClaim { line, subscription, requests, further: false };
    let outcomes = store.claim(vec![claim]).await?;
    match outcomes.first().and_then(|outcome| outcome.results.first()) {
        Some(Some(result)) => Ok((200, render(result)?)),
        _ => Ok((204, Vec::new())),
    }
}

fn render(result: &QueueClaimResult) -> Result<Vec<u8>> {
    let partition = result.partitions.first().context("a claim result without a partition")?;
    let lease = result.lease.as_ref().context("a claim result without a lease")?;
    let mut messages = Vec::with_capacity(partition.messages.len());
    for message in &partition.messages {
        messages.push(BarePoppedMessage {
            transaction_id: message.transaction_id.as_str(),
            data: serde_json::from_slice(&message.payload)?,
        });
    }
    let answer = BarePopAnswer {
        lease_id: lease.to_string(),
        partition_id: partition.partition_id.to_string(),
        messages,
    };
    Ok(serde_json::to_vec(&answer)?)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BareAckBody<'a> {
    transaction_id: &'a str,
    partition_id: &'a str,
    lease_id: &'a str,
}

#[derive(Deserialize)]
struct BareAckBatchBody<'a> {
    #[serde(borrow)]
    acknowledgments: Vec<BareAckBody<'a>>,
}

async fn ack_one(store: Arc<dyn Store>, body: Bytes) -> Result<(u16, Vec<u8>)> {
    settle(store, vec![serde_json::from_slice(&body)?]).await
}

async fn ack_batch(store: Arc<dyn Store>, body: Bytes) -> Result<(u16, Vec<u8>)> {
    let parsed: BareAckBatchBody<'_> = serde_json::from_slice(&body)?;
    settle(store, parsed.acknowledgments).await
}

async fn settle(store: Arc<dyn Store>, acks: Vec<BareAckBody<'_>>) -> Result<(u16, Vec<u8>)> {
    let mut items = Vec::with_capacity(acks.len());
    for ack in acks {
        items.push(SettleItem {
            partition: ack.partition_id.parse()?,
            group: GroupName::queue_mode(),
            token: Some(ack.lease_id.parse::<LeaseId>()?.token),
            transaction_id: TransactionId::new(ack.transaction_id)?,
            verdict: Verdict::Completed,
            error: None,
        });
    }
    let reply = store.settle(items).await?;
    let settled = |outcome: &SettleOutcome| matches!(outcome, SettleOutcome::Settled { .. });
    ensure!(reply.outcomes.iter().all(settled), "an ack was refused");
    Ok((200, b"[]".to_vec()))
}
