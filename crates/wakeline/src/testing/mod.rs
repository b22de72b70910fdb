//! Helpers for tests of orchestrations: a clock that skips, mocked activities, crashes at every
//! step, and replays of saved histories with the current code. Needs the feature `testing`.
//!
//! ```
//! use std::time::Duration;
//! use wakeline::testing::TestEnv;
//! use wakeline::{ActivityContext, FlowError, OrchestrationContext, Registry};
//!
//! async fn charge(_: ActivityContext, order: u32) -> Result<String, FlowError> {
//!     Err(FlowError::application(format!("no card reader for {order} in a test")))
//! }
//!
//! async fn subscription(ctx: OrchestrationContext, order: u32) -> Result<String, FlowError> {
//!     ctx.sleep(Duration::from_secs(30 * 24 * 3600)).await;
//!     ctx.call(charge, order).await
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Registry::builder()
//!     .orchestration("subscription", subscription)
//!     .activity("charge", charge)
//!     .build()?;
//! let env = TestEnv::builder(registry)
//!     .mock("charge", |order: u32| Ok(format!("receipt for {order}")))
//!     .start()
//!     .await;
//! let began = env.now();
//! // Thirty days pass at once.
//! assert_eq!(env.run::<String>("subscription", &7).await?, "receipt for 7");
//! assert!(began.until(env.now()) >= Duration::from_secs(30 * 24 * 3600));
//! assert_eq!(env.calls::<u32>("charge"), [7]);
//! # Ok(())
//! # }
//! ```
//!
//! # Where it sits
//! It uses the same runtime, provider and SQLite store as the product; only the clock is different.
//! Every turn replays its history, so that nondeterministic code fails its tests.
//!
//! # Invariants
//! * The clock stands still while anything runs, and skips only while a test waits for an outcome.
//! * A wait that can never end is an error that describes what the instance waits for.

mod activity;
mod call_tracker;
mod crash;
mod env;
mod history;
mod idle;
mod transitions;
mod waits;

pub use activity::ActivityEnv;
pub use crash::{Crashes, crash_everywhere};
pub use env::{TestEnv, TestEnvBuilder, TestError};
pub use history::{ReplayFolderError, export, replay_folder, save};
pub use transitions::{
    CrashDecision, Transition, TransitionObserver, TransitionPhase, Transitions,
};
