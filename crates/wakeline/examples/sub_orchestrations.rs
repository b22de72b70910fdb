//! An orchestration that starts children and waits for them: an order is shipped by several
//! warehouses.

mod common;

use wakeline::{
    ActivityContext, FlowError, Orchestration, OrchestrationContext, Registry, try_join_all,
};

const SHIPMENT: Orchestration<String, String> = Orchestration::named("shipment");

async fn pack(ctx: ActivityContext, warehouse: String) -> Result<String, common::BoxError> {
    common::log_attempt(&ctx)?;
    Ok(format!("parcel from {warehouse}"))
}

async fn shipment(ctx: OrchestrationContext, warehouse: String) -> Result<String, FlowError> {
    let parcel = ctx.call(pack, warehouse).await?;
    Ok(format!("{parcel}, shipped"))
}

async fn order(
    ctx: OrchestrationContext,
    warehouses: Vec<String>,
) -> Result<Vec<String>, FlowError> {
    try_join_all(warehouses.into_iter().map(|warehouse| ctx.child(SHIPMENT, warehouse))).await
}

#[tokio::main]
async fn main() -> Result<(), common::BoxError> {
    let registry = Registry::builder()
        .orchestration("order", order)
        .orchestration(SHIPMENT, shipment)
        .activity("pack", pack)
        .build()?;
    let program = common::start(registry).await?;
    program.client.start(&program.instance, "order", &["north", "south"]).await?;
    program.finish().await
}
