//! Running rules: what the tests of all suites share.

use std::future::Future;
use std::pin::Pin;

/// The future of a running rule.
pub type RuleFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs a test to its end, on a runtime with several threads.
///
/// # Panics
/// If the test does.
pub fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(test);
}
