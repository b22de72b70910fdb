//! How the rules of one module become tests.

/// Makes tests of the rules of one module.
#[doc(hidden)]
#[macro_export]
macro_rules! hook_conformance_module {
    ($fixture:expr; $module:ident; $($rule:ident),* $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "a fixture may be named by its full path")]
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $rule() {
                    let fixture = $fixture;
                    let rule = $crate::hook_conformance::$module::$rule;
                    $crate::hook_conformance::hold_to(fixture, rule).await;
                }
            )*
        }
    };
}
