//! A person decides. If the first one does not answer in time, another is asked.

mod common;

use std::time::Duration;

use wakeline::{
    ActivityContext, Client, ClientError, FlowError, OrchestrationContext, Registry, Status,
};

/// A day, outside of an example.
const TEAM_LEAD_HAS: Duration = Duration::from_millis(300);

async fn pay_out(
    ctx: ActivityContext,
    (euros, by): (u32, String),
) -> Result<String, common::BoxError> {
    common::note(&ctx)?;
    Ok(format!("{euros} euros, approved by {by}"))
}

async fn expenses(ctx: OrchestrationContext, euros: u32) -> Result<String, FlowError> {
    ctx.set_status("the team lead is asked");
    let by = match ctx.timeout(TEAM_LEAD_HAS, ctx.event::<String>("team lead")).await {
        Some(name) => name?,
        None => {
            ctx.set_status("the director is asked");
            ctx.event::<String>("director").await?
        }
    };
    ctx.call(pay_out, (euros, by)).await
}

/// The team lead is on holiday. The director sees the status, and answers.
async fn director(client: Client, instance: String) -> Result<(), ClientError> {
    let mut seen = 0;
    loop {
        match client.wait_for_status(&instance, seen, Duration::from_secs(3600)).await? {
            Status::Running(now) if now.status.as_deref() == Some("the director is asked") => {
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
