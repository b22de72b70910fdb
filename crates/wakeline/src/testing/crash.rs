//! Runs a scenario with a crash at every step.

use std::fmt::Debug;

use super::env::{TestEnv, TestEnvBuilder};
use super::transitions::TransitionPhase;

/// The result of [`crash_everywhere`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crashes<T> {
    /// The result that the scenario returned every time.
    pub result: T,
    /// The number of times that it was killed and restarted.
    pub kills: u64,
}

/// Runs a scenario undisturbed, and then repeatedly with a crash: right after its first persisted
/// transition, after its second, and so on, and then right before each. After every crash another
/// runtime continues with the same file once the leases have ended, and the scenario is run again,
/// like a program that is restarted: it must return the same result.
///
/// [`TestEnv::run`] finds the instances of the previous run of the scenario. Everything else in the
/// scenario should be idempotent, as activities are.
///
/// ```
/// use wakeline::testing::{TestEnv, crash_everywhere};
/// use wakeline::{FlowError, OrchestrationContext, Registry};
///
/// async fn checkout(ctx: OrchestrationContext, order: u32) -> Result<String, FlowError> {
///     let ticket: String = ctx.activity("reserve", order).await?;
///     ctx.activity("charge", ticket).await
/// }
///
/// # #[tokio::main]
/// # async fn main() {
/// let crashes = crash_everywhere(
///     || {
///         let registry = Registry::builder().orchestration("checkout", checkout).build();
///         TestEnv::builder(registry.expect("no duplicate names"))
///             .mock("reserve", |order: u32| Ok(format!("ticket {order}")))
///             .mock("charge", |ticket: String| Ok(format!("{ticket}, paid")))
///     },
///     async |env: &TestEnv| env.run::<String>("checkout", &7).await.expect("completed"),
/// )
/// .await;
/// assert_eq!(crashes.result, "ticket 7, paid");
/// assert!(crashes.kills >= 10);
/// # }
/// ```
///
/// # Panics
/// Panics if a result differs from the first one.
pub async fn crash_everywhere<T: PartialEq + Debug>(
    make: impl Fn() -> TestEnvBuilder,
    scenario: impl AsyncFn(&TestEnv) -> T,
) -> Crashes<T> {
    let expected = scenario(&make().start().await).await;
    let mut kills = 0;
    for phase in [TransitionPhase::After, TransitionPhase::Before] {
        for nth in 1.. {
            let env = make().start().await;
            env.crash_at(phase, nth);
            let survived = tokio::select! {
                biased;
                () = env.crashed() => None,
                result = scenario(&env) => Some(result),
            };
            let (killed, result) = match survived {
                Some(result) => (false, result),
                None => (true, scenario(&env.restart(make()).await).await),
            };
            assert!(
                result == expected,
                "killed {phase:?} transition {nth}: {result:?}, but undisturbed: {expected:?}"
            );
            if !killed {
                break;
            }
            kills += 1;
        }
    }
    Crashes { result: expected, kills }
}
