//! All-or-nothing behaviour across systems without a common transaction: completed steps are undone
//! in reverse order if a later one fails.

mod common;

use wakeline::{ActivityContext, FlowError, OrchestrationContext, Registry};

async fn book(ctx: ActivityContext, what: String) -> Result<String, FlowError> {
    common::log_attempt(&ctx).map_err(|error| FlowError::application(error.to_string()))?;
    match what.as_str() {
        "car" => Err(FlowError::permanent("no car is left")),
        _ => Ok(format!("{what} booked")),
    }
}

async fn cancel(ctx: ActivityContext, what: String) -> Result<String, common::BoxError> {
    common::log_attempt(&ctx)?;
    Ok(format!("{what} cancelled"))
}

async fn trip(ctx: OrchestrationContext, parts: Vec<String>) -> Result<Vec<String>, FlowError> {
    let mut report = Vec::new();
    let mut booked = Vec::new();
    for part in parts {
        match ctx.call(book, part.clone()).await {
            Ok(done) => {
                report.push(done);
                booked.push(part);
            }
            Err(error) => {
                report.push(error.message);
                for part in booked.into_iter().rev() {
                    report.push(ctx.call(cancel, part).attempts(100).await?);
                }
                break;
            }
        }
    }
    Ok(report)
}

#[tokio::main]
async fn main() -> Result<(), common::BoxError> {
    let registry = Registry::builder()
        .orchestration("trip", trip)
        .activity("book", book)
        .activity("cancel", cancel)
        .build()?;
    let program = common::start(registry).await?;
    program.client.start(&program.instance, "trip", &["flight", "hotel", "car"]).await?;
    program.finish().await
}
