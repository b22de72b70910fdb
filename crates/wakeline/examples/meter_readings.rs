//! A meter whose instance runs for longer than any process. More readings than a turn takes arrive
//! before the start; they are billed in two executions, in a session, and every bill has a page
//! that another orchestration opens. An alarm runs beside it: the one of an earlier run is
//! terminated and deleted, and another one is started under its id.

mod common;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wakeline::{
    ActivityContext, Client, ClientError, FlowError, Json, OrchestrationContext, Registry,
};

/// The number of readings that arrive before the start.
const READINGS: u32 = 1_200;
/// The number of readings of one bill.
const BILLED: u32 = READINGS / 2;

/// The state that one execution passes to the next.
#[derive(Serialize, Deserialize)]
struct Meter {
    read: u32,
    billed: u32,
}

async fn bill(ctx: ActivityContext, sum: u32) -> Result<u32, common::BoxError> {
    common::log_attempt(&ctx)?;
    Ok(sum)
}

async fn meter(ctx: OrchestrationContext, meter: Meter) -> Result<u32, FlowError> {
    let Meter { mut read, billed } = meter;
    ctx.child::<_, ()>("page", ctx.instance().to_string()).detached()?;
    let (mut sum, end) = (0, read + BILLED);
    while read < end {
        let reading: u32 = ctx.event("reading").await?;
        if reading > read {
            return Err(FlowError::application(format!("reading {read} is missing")));
        }
        // A program that was killed sends its readings again.
        if reading == read {
            sum += read;
            read += 1;
        }
    }
    let billed = billed + ctx.call(bill, sum).session(ctx.instance().as_str()).await?;
    ctx.event::<()>("page opened").await?;
    if read == READINGS {
        return Ok(billed);
    }
    ctx.continue_as_new(Meter { read, billed }).await
}

async fn page(ctx: OrchestrationContext, meter: String) -> Result<(), FlowError> {
    ctx.signal(&meter, "page opened", ())
}

async fn alarm(ctx: OrchestrationContext, rings: bool) -> Result<(), FlowError> {
    if rings { Ok(()) } else { ctx.event("never").await }
}

/// Replaces the alarm of an earlier process, in whatever state it is, with one that rings.
async fn ring(client: &Client, id: &str) -> Result<(), ClientError> {
    client.start(id, "alarm", &false).await?;
    client.terminate(id, "it belongs to an earlier run").await?;
    client.delete(id, true).await?;
    client.start(id, "alarm", &true).await?;
    client.wait(id, Duration::from_secs(60)).await
}

#[tokio::main]
async fn main() -> Result<(), common::BoxError> {
    let registry = Registry::builder()
        .orchestration("meter", meter)
        .orchestration("page", page)
        .orchestration("alarm", alarm)
        .activity("bill", bill)
        .build()?;
    let program = common::start(registry).await?;
    let id = &program.instance;
    let reading = |n| {
        let data = Json::of(&n).expect("a number is JSON");
        Client::event_envelope(id, "reading", data)
    };
    let readings = (0..READINGS).map(reading).collect::<Result<_, ClientError>>()?;
    program.store.enqueue(readings, Vec::new()).await?;
    program.client.start(id, "meter", &Meter { read: 0, billed: 0 }).await?;
    ring(&program.client, &format!("{id}-alarm")).await?;
    program.finish().await
}
