//! Waits for the decision of a person, and for that of another one if the first does not answer in
//! time.

mod common;

use std::time::Duration;

use wakeline::{
    ActivityContext, Client, ClientError, FlowError, OrchestrationContext, Registry, Status,
};

/// The time for an answer. In a real program this would be a day.
const TEAM_LEAD_TIMEOUT: Duration = Duration::from_millis(300);

async fn pay_out(
    ctx: ActivityContext,
    approved: (u32, String),
) -> Result<String, common::BoxError> {
    common::log_attempt(&ctx)?;
    let (euros, by) = approved;
    Ok(format!("{euros} euros, approved by {by}"))
}

async fn expenses(ctx: OrchestrationContext, euros: u32) -> Result<String, FlowError> {
    ctx.set_status("waiting for the team lead");
    let by = match ctx.timeout(TEAM_LEAD_TIMEOUT, ctx.event::<String>("team lead")).await {
        Some(name) => name?,
        None => {
            ctx.set_status("waiting for the director");
            ctx.event::<String>("director").await?
        }
    };
    ctx.call(pay_out, (euros, by)).await
}

/// Acts as the director, who sees the status and answers. The team lead is on holiday.
async fn director(client: Client, instance: String) -> Result<(), ClientError> {
    let mut seen = 0;
    loop {
        match client.wait_for_status(&instance, seen, Duration::from_secs(3600)).await? {
            Status::Running(now) if now.status.as_deref() == Some("waiting for the director") => {
                return client.raise_event(&instance, "director", "the director").await;
            }
            Status::Running(now) => seen = now.status_version,
            _ => return Ok(()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), common::BoxError> {
    let registry = Registry::builder()
        .orchestration("expenses", expenses)
        .activity("pay_out", pay_out)
        .build()?;
    let program = common::start(registry).await?;
    program.client.start(&program.instance, "expenses", &120).await?;
    tokio::spawn(director(program.client.clone(), program.instance.clone()));
    program.finish().await
}
