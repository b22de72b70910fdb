//! A loop that could run for years, because every round begins with an empty history. This one ends
//! after four rounds, so that the example ends.

mod common;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wakeline::{ActivityContext, FlowError, OrchestrationContext, Registry};

/// The state that one round passes to the next.
#[derive(Serialize, Deserialize)]
struct Watch {
    round: u32,
    highest: u32,
}

async fn measure(ctx: ActivityContext, round: u32) -> Result<u32, common::BoxError> {
    common::log_attempt(&ctx)?;
    Ok([17, 21, 19, 20][round as usize % 4])
}

async fn thermometer(ctx: OrchestrationContext, watch: Watch) -> Result<u32, FlowError> {
    let highest = ctx.call(measure, watch.round).await?.max(watch.highest);
    if watch.round == 3 {
        return Ok(highest);
    }
    ctx.sleep(Duration::from_millis(50)).await;
    ctx.continue_as_new(Watch { round: watch.round + 1, highest }).await
}

#[tokio::main]
async fn main() -> Result<(), common::BoxError> {
    let registry = Registry::builder()
        .orchestration("thermometer", thermometer)
        .activity("measure", measure)
        .build()?;
    let program = common::start(registry).await?;
    let watch = Watch { round: 0, highest: 0 };
    program.client.start(&program.instance, "thermometer", &watch).await?;
    program.finish().await
}
