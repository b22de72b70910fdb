//! Resolution of host names, in which a name that hangs does not block others.
//!
//! # Where it sits
//! The connector calls [`SharedLookup`], which calls the [`NameLookup`] of the options.
//!
//! # Invariants
//! * The system's lookup occupies a thread and cannot be aborted. So there is at most one lookup in
//!   progress for a name, whether callers wait for it or have given up, and the total number of
//!   lookups is limited, which leaves threads for other blocking work, such as file access.
//! * A lookup counts for the application that began it, and no application has more lookups than
//!   its share, so that hanging names of one application do not delay another. A caller whose
//!   application exceeds its share waits without a lookup, so that another application may begin
//!   one for the same name.
//! * Results are not cached: a call after the end of a lookup begins a new one.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use wakeline_core::ApplicationId;

use crate::shares::{Share, Shares};

/// The maximum number of lookups in progress: well below the 512 threads that a runtime has for
/// blocking work.
const LOOKUPS_MAX: u32 = 128;
/// How many lookups an application may have for each free one: a single application gets half of
/// them.
const LOOKUPS_PER_FREE: u32 = 1;

/// Resolves host names to addresses.
#[async_trait]
pub trait NameLookup: Send + Sync {
    /// The addresses of a name, in the order in which they are to be tried.
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Resolves names with the operating system's resolver.
#[derive(Debug, Clone, Copy)]
pub struct SystemLookup;

#[async_trait]
impl NameLookup for SystemLookup {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// The result of a lookup, for all callers that wait for it.
type LookupResult = Result<Vec<IpAddr>, (io::ErrorKind, String)>;
type PendingLookup = watch::Receiver<Option<LookupResult>>;

/// Shares lookups in progress among callers, and limits their number. Clones share the same state.
#[derive(Clone)]
pub(super) struct SharedLookup {
    inner: Arc<dyn NameLookup>,
    in_progress: Arc<Mutex<HashMap<String, PendingLookup>>>,
    shares: Arc<Shares>,
}

impl SharedLookup {
    pub(super) fn new(inner: Arc<dyn NameLookup>) -> Self {
        let shares = Arc::new(Shares::new(LOOKUPS_MAX, LOOKUPS_PER_FREE));
        Self { inner, in_progress: Arc::default(), shares }
    }

    /// The addresses of a name, for a call of an application.
    pub(super) async fn lookup(
        &self,
        name: &str,
        application: ApplicationId,
    ) -> io::Result<Vec<IpAddr>> {
        let mut pending = self.begin(name, application).await;
        let found = match pending.wait_for(Option::is_some).await {
            Ok(found) => found.clone(),
            Err(_) => None,
        };
        match found {
            Some(Ok(addresses)) => Ok(addresses),
            Some(Err((kind, reason))) => Err(io::Error::new(kind, reason)),
            None => Err(io::Error::other("the lookup was aborted")),
        }
    }

    /// Joins the lookup of a name, or begins it as soon as the application's share allows.
    async fn begin(&self, name: &str, application: ApplicationId) -> PendingLookup {
        loop {
            // Registered before the check, so that a lookup freed in between is not missed.
            let mut freed = std::pin::pin!(self.shares.freed());
            freed.as_mut().enable();
            if let Some(pending) = self.join_or_begin(name, application) {
                return pending;
            }
            freed.await;
        }
    }

    fn join_or_begin(&self, name: &str, application: ApplicationId) -> Option<PendingLookup> {
        let mut in_progress = self.in_progress.lock();
        if let Some(pending) = in_progress.get(name) {
            return Some(pending.clone());
        }
        let share = Shares::take(&self.shares, application)?;
        let (sender, pending) = watch::channel(None);
        in_progress.insert(name.to_owned(), pending.clone());
        let entry = LookupEntry { lookup: self.clone(), name: name.to_owned() };
        tokio::spawn(entry.run(share, sender));
        Some(pending)
    }
}

/// The entry of a lookup in progress. It is removed when the lookup ends, however that happens.
struct LookupEntry {
    lookup: SharedLookup,
    name: String,
}

impl LookupEntry {
    async fn run(self, share: Share, sender: watch::Sender<Option<LookupResult>>) {
        let found = self.lookup.inner.lookup(&self.name).await;
        let found = found.map_err(|error| (error.kind(), error.to_string()));
        // The entry is removed before the result is sent, so that later calls begin a new lookup.
        drop(self);
        drop(share);
        sender.send_replace(Some(found));
    }
}

impl Drop for LookupEntry {
    fn drop(&mut self) {
        self.lookup.in_progress.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::sync::Semaphore;

    /// The number of lookups that a single application may have.
    const ALONE: usize = 64;

    /// A lookup in which names that begin with "slow" hang until they are released.
    struct TestLookup {
        begun: AtomicUsize,
        go: Semaphore,
    }

    #[async_trait]
    impl NameLookup for TestLookup {
        async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            self.begun.fetch_add(1, Ordering::SeqCst);
            if name.starts_with("slow") {
                self.go.acquire().await.expect("not closed").forget();
            }
            match name {
                "unknown" => Err(io::ErrorKind::NotFound.into()),
                _ => Ok(vec![IpAddr::from([127, 0, 0, 1])]),
            }
        }
    }

    fn test_lookup() -> (Arc<TestLookup>, SharedLookup) {
        let test_lookup =
            Arc::new(TestLookup { begun: AtomicUsize::new(0), go: Semaphore::new(0) });
        (Arc::clone(&test_lookup), SharedLookup::new(test_lookup))
    }

    /// Waits for the addresses of a name for a while, and gives up.
    async fn give_up(lookup: &SharedLookup, name: &str, application: ApplicationId) {
        let found = lookup.lookup(name, application);
        assert!(tokio::time::timeout(Duration::from_secs(1), found).await.is_err(), "{name} hangs");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_name_has_one_lookup_even_if_callers_give_up() {
        let (test_lookup, lookup) = test_lookup();
        let application = ApplicationId::generate();
        for _ in 0..100 {
            give_up(&lookup, "slow", application).await;
        }
        assert_eq!(test_lookup.begun.load(Ordering::SeqCst), 1);
        lookup.lookup("quick", application).await.expect("not held up");
        let (one, other) = (lookup.clone(), lookup.clone());
        let both = tokio::spawn(async move {
            tokio::join!(one.lookup("slow", application), other.lookup("slow", application))
        });
        tokio::task::yield_now().await;
        test_lookup.go.add_permits(1);
        let (one, other) = both.await.expect("no panic");
        assert_eq!(one.expect("found"), other.expect("found"));
        test_lookup.go.add_permits(1);
        lookup.lookup("slow", application).await.expect("a new one");
        assert_eq!(test_lookup.begun.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn lookups_are_limited_and_abandoned_ones_are_not_begun() {
        let (test_lookup, lookup) = test_lookup();
        let application = ApplicationId::generate();
        let names: Vec<String> = (0..500).map(|n| format!("slow{n}")).collect();
        let wait = names.iter().map(|name| give_up(&lookup, name, application));
        futures_util::future::join_all(wait).await;
        assert_eq!(test_lookup.begun.load(Ordering::SeqCst), ALONE);
        test_lookup.go.add_permits(ALONE);
        lookup.lookup("quick", application).await.expect("there is capacity again");
        assert_eq!(test_lookup.begun.load(Ordering::SeqCst), ALONE + 1);
        assert!(lookup.in_progress.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_names_of_one_application_do_not_delay_another() {
        let (test_lookup, lookup) = test_lookup();
        let [abuser, quiet] = [(); 2].map(|()| ApplicationId::generate());
        let names: Vec<String> = (0..500).map(|n| format!("slow{n}")).collect();
        let mut waiting: Vec<_> =
            names.iter().map(|name| Box::pin(lookup.lookup(name, abuser))).collect();
        for wait in &mut waiting {
            assert!(futures_util::poll!(wait).is_pending());
        }
        // One more name of the abuser, which waits for its share.
        let mut over = std::pin::pin!(lookup.lookup("quick", abuser));
        assert!(futures_util::poll!(&mut over).is_pending());
        tokio::time::timeout(Duration::from_secs(1), lookup.lookup("quick", quiet))
            .await
            .expect("no wait behind the abuser, not even for the same name")
            .expect("found");
        test_lookup.go.add_permits(names.len());
        over.await.expect("found in the end");
    }

    #[tokio::test]
    async fn all_waiters_learn_that_a_name_was_not_found() {
        let (_, lookup) = test_lookup();
        let application = ApplicationId::generate();
        let (one, other) = tokio::join!(
            lookup.lookup("unknown", application),
            lookup.lookup("unknown", application)
        );
        let kinds = [one, other].map(|found| found.expect_err("not found").kind());
        assert_eq!(kinds, [io::ErrorKind::NotFound; 2]);
    }
}
