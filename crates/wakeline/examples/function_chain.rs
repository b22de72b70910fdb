//! Runs one activity after the other, passing the result of each to the next.

mod common;

use wakeline::{ActivityContext, FlowError, OrchestrationContext, Registry};

async fn reserve(ctx: ActivityContext, order: u32) -> Result<String, common::BoxError> {
    common::log_attempt(&ctx)?;
    Ok(format!("ticket {order}"))
}

async fn charge(ctx: ActivityContext, ticket: String) -> Result<String, common::BoxError> {
    common::log_attempt(&ctx)?;
    Ok(format!("{ticket}, paid"))
}

async fn confirm(ctx: ActivityContext, receipt: String) -> Result<String, common::BoxError> {
    common::log_attempt(&ctx)?;
    Ok(format!("{receipt}, confirmed"))
}

async fn checkout(ctx: OrchestrationContext, order: u32) -> Result<String, FlowError> {
    let ticket = ctx.call(reserve, order).await?;
    let receipt = ctx.call(charge, ticket).attempts(3).await?;
    ctx.call(confirm, receipt).await
}

#[tokio::main]
async fn main() -> Result<(), common::BoxError> {
    let registry = Registry::builder()
        .orchestration("checkout", checkout)
        .activity("reserve", reserve)
        .activity("charge", charge)
        .activity("confirm", confirm)
        .build()?;
    let program = common::start(registry).await?;
    program.client.start(&program.instance, "checkout", &7).await?;
    program.finish().await
}
