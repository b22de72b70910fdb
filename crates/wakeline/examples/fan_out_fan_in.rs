//! Runs many activities at the same time, and combines their results.

mod common;

use wakeline::{ActivityContext, FlowError, OrchestrationContext, Registry, try_join_all};

async fn count_words(ctx: ActivityContext, page: String) -> Result<usize, common::BoxError> {
    common::log_attempt(&ctx)?;
    Ok(page.split_whitespace().count())
}

async fn count_all(ctx: OrchestrationContext, pages: Vec<String>) -> Result<usize, FlowError> {
    let counts = try_join_all(pages.into_iter().map(|page| ctx.call(count_words, page))).await?;
    Ok(counts.into_iter().sum())
}

#[tokio::main]
async fn main() -> Result<(), common::BoxError> {
    let registry = Registry::builder()
        .orchestration("count_all", count_all)
        .activity("count_words", count_words)
        .build()?;
    let program = common::start(registry).await?;
    let pages = ["call me Ishmael", "some years ago", "never mind how long precisely"];
    program.client.start(&program.instance, "count_all", &pages).await?;
    program.finish().await
}
