//! Addresses that must not be called.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use wakeline_core::EndpointOptions;
use wakeline_hook::{EndpointIn, Guard, HookError, HookServiceOptions, NameLookup, SendOptions};

use crate::support::{Answer, Bench, Receiver, loopback, options, schedule};

/// A name lookup that returns a different result each time.
struct Fickle {
    answers: Vec<Vec<IpAddr>>,
    lookups: AtomicUsize,
}

#[async_trait]
impl NameLookup for Fickle {
    async fn lookup(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let turn = self.lookups.fetch_add(1, Ordering::SeqCst);
        Ok(self.answers[turn.min(self.answers.len() - 1)].clone())
    }
}

fn fickle(answers: &[&[&str]]) -> Arc<Fickle> {
    let parse = |list: &&[&str]| list.iter().map(|ip| ip.parse().expect("an address")).collect();
    Arc::new(Fickle { answers: answers.iter().map(parse).collect(), lookups: AtomicUsize::new(0) })
}

fn strict(lookup: Arc<dyn NameLookup>, guard: Guard) -> HookServiceOptions {
    let send = SendOptions { guard, lookup, ..SendOptions::default() };
    HookServiceOptions { send, ..options() }
}

#[tokio::test]
async fn loopback_is_refused_by_default_when_an_endpoint_is_created() {
    let bench = Bench::with(strict(fickle(&[&["127.0.0.1"]]), Guard::default())).await;
    for url in ["http://127.0.0.1:1/", "http://[::1]/", "http://2130706433/", "http://0x7f.1/"] {
        let endpoint = EndpointIn { url: url.to_owned(), ..EndpointIn::default() };
        let refused = bench.service.create_endpoint(&bench.app(), endpoint, None).await;
        assert!(matches!(refused, Err(HookError::Invalid { field: "url", .. })), "{url}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_name_that_resolves_to_an_internal_address_is_never_called() {
    for inside in ["127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "::1", "64:ff9b::7f00:1"] {
        let bench = Bench::with(strict(fickle(&[&[inside]]), Guard::default())).await;
        let mut receiver = Receiver::always(Answer::Status(200)).await;
        let url = format!("http://inside.example:{}/", receiver.address.port());
        bench.endpoint(&url, schedule(&[])).await;
        bench.emit("{}").await;
        let attempt = bench.attempted(1).await.remove(0);
        let error = attempt.error.expect("an error");
        assert!(error.starts_with("the URL leads to an address that is not public"), "{error}");
        assert!(error.contains("--hook-allow") && !error.contains(inside), "{error}");
        assert_eq!(receiver.connections.load(Ordering::SeqCst), 0);
        assert_eq!(receiver.left(), 0);
        bench.stop().await;
    }
}

#[tokio::test]
async fn a_name_that_resolves_differently_later_is_still_refused() {
    // Allowed at first, then internal: the address is checked for every connection.
    let guard = Guard { allow: vec!["127.0.0.2/32".parse().expect("a subnet")], https_only: false };
    let lookup = fickle(&[&["127.0.0.2"], &["127.0.0.1"]]);
    let bench = Bench::with(strict(lookup.clone(), guard)).await;
    let mut receiver = Receiver::always(Answer::Status(200)).await;
    let url = format!("http://fickle.example:{}/", receiver.address.port());
    bench.endpoint(&url, schedule(&[20, 20])).await;
    bench.emit("{}").await;
    let attempts = bench.attempted(3).await;
    // Nothing listens at 127.0.0.2, so the first attempt fails too, but not because of the guard.
    let errors: Vec<_> = attempts.iter().map(|attempt| attempt.error.clone()).collect();
    let refused =
        |error: &Option<String>| error.as_ref().is_some_and(|error| error.contains("not public"));
    assert_eq!(errors.iter().filter(|error| refused(error)).count(), 2, "{errors:?}");
    assert_eq!(receiver.left(), 0);
    assert_eq!(lookup.lookups.load(Ordering::SeqCst), 3);
    bench.stop().await;
}

#[tokio::test]
async fn only_the_allowed_ones_of_several_addresses_are_called() {
    let lookup = fickle(&[&["10.0.0.1", "::1", "127.0.0.1"]]);
    let bench = Bench::with(strict(lookup, loopback())).await;
    let mut receiver = Receiver::always(Answer::Status(200)).await;
    let url = format!("http://many.example:{}/", receiver.address.port());
    bench.endpoint(&url, EndpointOptions::default()).await;
    bench.emit("{}").await;
    assert!(receiver.next().await.header("host").starts_with("many.example:"));
    bench.stop().await;
}

#[tokio::test]
async fn plain_http_is_refused_if_only_https_is_allowed() {
    let guard = Guard { https_only: true, ..loopback() };
    let bench = Bench::with(strict(fickle(&[&["127.0.0.1"]]), guard)).await;
    let endpoint = EndpointIn { url: "http://example.com/".to_owned(), ..EndpointIn::default() };
    let refused = bench.service.create_endpoint(&bench.app(), endpoint, None).await;
    assert!(matches!(refused, Err(HookError::Invalid { field: "url", .. })));
    bench.stop().await;
}
