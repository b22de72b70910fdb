//! Names into addresses, so that names that hang do not stop others.
//!
//! # Where it sits
//! The connector asks [`SharedLookup`], which asks the [`NameLookup`] of the options.
//!
//! # Invariants
//! * The system's lookup is a thread that cannot be stopped. So a name has at most one lookup under
//!   way, whoever waits for it or has given up on it, and all names together have a bounded number:
//!   threads are left for others, files among them.
//! * A lookup counts for the application that began it, and no application has more of them than
//!   its share: names of one that hang do not keep another waiting. Who is over its share waits
//!   without a lookup, so that another may begin one for the same name.
//! * Nothing is kept: whoever asks after a lookup has ended is answered by a new one.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use wakeline_core::ApplicationId;

use crate::shares::{Share, Shares};

/// Most lookups under way: well under the 512 threads that a runtime has for what blocks.
const LOOKUPS_MAX: u32 = 128;
/// How many of them an application may have for each one that is free: one alone has half of them.
const LOOKUPS_PER_FREE: u32 = 1;

/// Turns names into addresses.
#[async_trait]
pub trait NameLookup: Send + Sync {
    /// The addresses of a name, in the order in which they are tried.
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the system.
#[derive(Debug, Clone, Copy)]
pub struct SystemLookup;

#[async_trait]
impl NameLookup for SystemLookup {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// What a lookup came to, for all who wait for it.
type Found = Result<Vec<IpAddr>, (io::ErrorKind, String)>;
type Answer = watch::Receiver<Option<Found>>;

/// Shares lookups under way, and bounds them. Clones share them too.
#[derive(Clone)]
pub(super) struct SharedLookup {
    inner: Arc<dyn NameLookup>,
    under_way: Arc<Mutex<HashMap<String, Answer>>>,
    shares: Arc<Shares>,
}

impl SharedLookup {
    pub(super) fn new(inner: Arc<dyn NameLookup>) -> Self {
        let shares = Arc::new(Shares::new(LOOKUPS_MAX, LOOKUPS_PER_FREE));
        Self { inner, under_way: Arc::default(), shares }
    }

    /// The addresses of a name, for a call of an application.
    pub(super) async fn lookup(
        &self,
        name: &str,
        application: ApplicationId,
    ) -> io::Result<Vec<IpAddr>> {
        let mut answer = self.ask(name, application).await;
        let found = match answer.wait_for(Option::is_some).await {
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
    async fn ask(&self, name: &str, application: ApplicationId) -> Answer {
        loop {
            // Registered before looking, so that what is freed in between is not missed.
            let mut freed = std::pin::pin!(self.shares.freed());
            freed.as_mut().enable();
            if let Some(answer) = self.join_or_begin(name, application) {
                return answer;
            }
            freed.await;
        }
    }

    fn join_or_begin(&self, name: &str, application: ApplicationId) -> Option<Answer> {
        let mut under_way = self.under_way.lock();
        if let Some(answer) = under_way.get(name) {
            return Some(answer.clone());
        }
        let share = Shares::take(&self.shares, application)?;
        let (tell, answer) = watch::channel(None);
        under_way.insert(name.to_owned(), answer.clone());
        let entry = Entry { lookup: self.clone(), name: name.to_owned() };
        tokio::spawn(entry.run(share, tell));
        Some(answer)
    }
}

/// The entry of a lookup under way; it goes with the lookup, however that ends.
struct Entry {
    lookup: SharedLookup,
    name: String,
}

impl Entry {
    async fn run(self, share: Share, tell: watch::Sender<Option<Found>>) {
        let found = self.lookup.inner.lookup(&self.name).await;
        let found = found.map_err(|error| (error.kind(), error.to_string()));
        // Gone before it is answered: who asks from now on begins another.
        drop(self);
        drop(share);
        tell.send_replace(Some(found));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.lookup.under_way.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::sync::Semaphore;

    /// How many lookups one application alone may have.
    const ALONE: usize = 64;

    /// Names that begin with "slow" hang until they may go on.
    struct Toy {
        begun: AtomicUsize,
        go: Semaphore,
    }

    #[async_trait]
    impl NameLookup for Toy {
        async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            self.begun.fetch_add(1, Ordering::SeqCst);
            if name.starts_with("slow") {
                self.go.acquire().await.expect("not closed").forget();
            }
            match name {
                "nobody" => Err(io::ErrorKind::NotFound.into()),
                _ => Ok(vec![IpAddr::from([127, 0, 0, 1])]),
            }
        }
    }

    fn toy() -> (Arc<Toy>, SharedLookup) {
        let toy = Arc::new(Toy { begun: AtomicUsize::new(0), go: Semaphore::new(0) });
        (Arc::clone(&toy), SharedLookup::new(toy))
    }

    /// Waits for a name for a while, and gives up.
    async fn give_up(lookup: &SharedLookup, name: &str, application: ApplicationId) {
        let found = lookup.lookup(name, application);
        assert!(tokio::time::timeout(Duration::from_secs(1), found).await.is_err(), "{name} hangs");
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_hangs_has_one_lookup_under_way_whoever_gives_up() {
        let (toy, lookup) = toy();
        let application = ApplicationId::generate();
        for _ in 0..100 {
            give_up(&lookup, "slow", application).await;
        }
        assert_eq!(toy.begun.load(Ordering::SeqCst), 1);
        lookup.lookup("quick", application).await.expect("not held up");
        let (one, other) = (lookup.clone(), lookup.clone());
        let both = tokio::spawn(async move {
            tokio::join!(one.lookup("slow", application), other.lookup("slow", application))
        });
        tokio::task::yield_now().await;
        toy.go.add_permits(1);
        let (one, other) = both.await.expect("no panic");
        assert_eq!(one.expect("found"), other.expect("found"));
        toy.go.add_permits(1);
        lookup.lookup("slow", application).await.expect("a new one");
        assert_eq!(toy.begun.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn lookups_are_bounded_and_what_nobody_waits_for_is_not_begun() {
        let (toy, lookup) = toy();
        let application = ApplicationId::generate();
        let names: Vec<String> = (0..500).map(|n| format!("slow{n}")).collect();
        let wait = names.iter().map(|name| give_up(&lookup, name, application));
        futures_util::future::join_all(wait).await;
        assert_eq!(toy.begun.load(Ordering::SeqCst), ALONE);
        toy.go.add_permits(ALONE);
        lookup.lookup("quick", application).await.expect("there is room again");
        assert_eq!(toy.begun.load(Ordering::SeqCst), ALONE + 1);
        assert!(lookup.under_way.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn names_of_one_application_that_hang_do_not_keep_another_waiting() {
        let (toy, lookup) = toy();
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
        toy.go.add_permits(names.len());
        over.await.expect("found in the end");
    }

    #[tokio::test]
    async fn what_is_not_found_is_told_to_all() {
        let (_, lookup) = toy();
        let application = ApplicationId::generate();
        let (one, other) = tokio::join!(
            lookup.lookup("nobody", application),
            lookup.lookup("nobody", application)
        );
        let kinds = [one, other].map(|found| found.expect_err("nobody").kind());
        assert_eq!(kinds, [io::ErrorKind::NotFound; 2]);
    }
}
