//! An order that is checked, waits for a person, is paid and is shipped, on either store. Any
//! number of processes serve orders, and any process places and approves them. A waiting process is
//! woken by the commit of another one; both print the time in microseconds.
//!
//! ```text
//! cargo run --example order -- serve --store postgres://localhost/app
//! cargo run --example order -- place order-7 --store postgres://localhost/app
//! cargo run --example order -- approve order-7 --store postgres://localhost/app
//! cargo run --example order -- wait order-7 --store postgres://localhost/app
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime};
use duroxide::{ActivityContext, Client, Either2, OrchestrationContext, OrchestrationRegistry};
use wakeline_duroxide::{DuroxideProvider, DuroxideStore, PostgresProvider, SqliteProvider};

const USAGE: &str =
    "usage: order serve|place ID|approve ID|wait ID --store sqlite:PATH|postgres://...";

/// The order of a customer: items and their prices, as JSON.
const ITEMS: &str = r#"[["tea", 4], ["cup", 11]]"#;

type BoxError = Box<dyn Error + Send + Sync>;

async fn reserve(_: ActivityContext, item: String) -> Result<String, String> {
    Ok(format!("{item} reserved"))
}

async fn charge(ctx: ActivityContext, amount: String) -> Result<String, String> {
    Ok(format!("{amount} charged to {}", ctx.instance_id()))
}

async fn book_parcel(_: ActivityContext, items: String) -> Result<String, String> {
    Ok(format!("parcel with {items} items"))
}

/// The orchestration: concurrent activities, a person who decides within an hour, and a child.
async fn order(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let items: Vec<(String, u32)> =
        serde_json::from_str(&input).map_err(|error| error.to_string())?;
    let reserving = items.iter().map(|(item, _)| ctx.schedule_activity("reserve", item.clone()));
    let reserved = ctx.join(reserving.collect()).await;
    reserved.into_iter().collect::<Result<Vec<_>, _>>()?;
    ctx.set_custom_status("waits for approval");
    let approval = ctx.schedule_wait("approval");
    let deadline = ctx.schedule_timer(Duration::from_secs(3600));
    let name = match ctx.select2(approval, deadline).await {
        Either2::First(name) => {
            if !ctx.is_replaying() {
                print(&format!("{} continues at {}", ctx.instance_id(), micros()));
            }
            name
        }
        Either2::Second(()) => return Err("the order was not approved in time".to_owned()),
    };
    let total: u32 = items.iter().map(|(_, price)| price).sum();
    let receipt = ctx.schedule_activity("charge", total.to_string()).await?;
    let shipped = ctx.schedule_sub_orchestration("ship", items.len().to_string()).await?;
    Ok(format!("{receipt}, approved by {name}; {shipped}"))
}

/// The child, which waits for a moment before it orders the parcel.
async fn ship(ctx: OrchestrationContext, items: String) -> Result<String, String> {
    ctx.schedule_timer(Duration::from_millis(200)).await;
    ctx.schedule_activity("book_parcel", items).await
}

/// Runs orders until the process is interrupted.
async fn serve(provider: Arc<dyn Provider>) -> Result<(), BoxError> {
    let activities = ActivityRegistry::builder()
        .register("reserve", reserve)
        .register("charge", charge)
        .register("book_parcel", book_parcel)
        .build();
    let orchestrations =
        OrchestrationRegistry::builder().register("order", order).register("ship", ship).build();
    let runtime = Runtime::start_with_store(provider, activities, orchestrations).await;
    print("serving");
    tokio::signal::ctrl_c().await?;
    runtime.shutdown(None).await;
    Ok(())
}

#[allow(clippy::print_stdout, reason = "the result of an example goes to standard output")]
fn print(line: &str) {
    println!("{line}");
}

/// The time by this machine's clock in microseconds since 1970.
fn micros() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
}

async fn act(what: &str, id: &str, client: &Client) -> Result<(), BoxError> {
    match what {
        "place" => client.start_orchestration(id, "order", ITEMS).await?,
        "approve" => {
            client.raise_event(id, "approval", "Ann").await?;
            print(&format!("{id} was approved at {}", micros()));
        }
        _ => {
            let ended = client.wait_for_orchestration(id, Duration::from_secs(60)).await?;
            match ended {
                OrchestrationStatus::Completed { output, .. } => print(&output),
                other => return Err(format!("{id} did not complete: {other:?}").into()),
            }
        }
    }
    Ok(())
}

async fn run<S: DuroxideStore + 'static>(
    provider: DuroxideProvider<S>,
    words: &[&str],
) -> Result<(), BoxError> {
    let shared: Arc<dyn Provider> = Arc::new(provider.clone());
    match words {
        ["serve"] => serve(shared).await?,
        [what @ ("place" | "approve" | "wait"), id] => act(what, id, &Client::new(shared)).await?,
        _ => return Err(USAGE.into()),
    }
    // Closing makes sure that other processes are notified of the writes of this one.
    provider.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [words @ .., "--store", store] = words.as_slice() else { return Err(USAGE.into()) };
    match store.strip_prefix("sqlite:") {
        Some(path) => run(SqliteProvider::new(path).await?, words).await,
        None => run(PostgresProvider::new(store).await?, words).await,
    }
}
