//! A scenario, killed at every step.

use std::fmt::Debug;

use super::env::{TestEnv, TestEnvBuilder};
use super::transitions::Moment;

/// What a run of [`crash_everywhere`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crashes<T> {
    /// What the scenario gave every time.
    pub result: T,
    /// How often it was killed and restarted.
    pub kills: u64,
}

/// Runs a scenario undisturbed, then again and again: killed right after its first persisted
/// transition, after its second, and so on, and then right before each. After every kill another
/// runtime goes on with the same file once the leases are over, and the scenario begins anew, as a
/// program does that was started again: it must come to the same result.
///
/// Within a scenario [`TestEnv::run`] finds its instances again. What it does besides should bear
/// being done twice, like what activities do.
///
/// ```
/// use wakeline::testing::{TestEnv, crash_everywhere};
/// use wakeline::{FlowError, OrchestrationContext, Registry};
///
/// async fn checkout(ctx: OrchestrationContext, order: u32) -> Result<String, FlowError> {
///     let seat: String = ctx.activity("reserve", order).await?;
///     ctx.activity("charge", seat).await
/// }
///
/// # #[tokio::main]
/// # async fn main() {
/// let crashes = crash_everywhere(
///     || {
///         let registry = Registry::builder().orchestration("checkout", checkout).build();
///         TestEnv::builder(registry.expect("no name twice"))
///             .mock("reserve", |order: u32| Ok(format!("seat {order}")))
///             .mock("charge", |seat: String| Ok(format!("{seat}, paid")))
///     },
///     async |env: &TestEnv| env.run::<String>("checkout", &7).await.expect("completed"),
/// )
/// .await;
/// assert_eq!(crashes.result, "seat 7, paid");
/// assert!(crashes.kills >= 10);
/// # }
/// ```
///
/// # Panics
/// If a result differs from the first one.
pub async fn crash_everywhere<T: PartialEq + Debug>(
    make: impl Fn() -> TestEnvBuilder,
    scenario: impl AsyncFn(&TestEnv) -> T,
) -> Crashes<T> {
    let expected = scenario(&make().start().await).await;
    let mut kills = 0;
    for moment in [Moment::After, Moment::Before] {
        for nth in 1.. {
            let env = make().start().await;
            env.crash_at(moment, nth);
            let survived = tokio::select! {
                biased;
                () = env.died() => None,
                result = scenario(&env) => Some(result),
            };
            let (killed, result) = match survived {
                Some(result) => (false, result),
                None => (true, scenario(&env.restart(make()).await).await),
            };
            assert!(
                result == expected,
                "killed {moment:?} transition {nth}: {result:?}, but undisturbed: {expected:?}"
            );
            if !killed {
                break;
            }
            kills += 1;
        }
    }
    Crashes { result: expected, kills }
}
