//! Names into addresses, so that names that hang do not stop others.
//!
//! # Where it sits
//! The connector asks [`SharedLookup`], which asks the [`NameLookup`] of the options.
//!
//! # Invariants
//! * The system's lookup is a thread that cannot be stopped. So a name has at most one lookup under
//!   way, whoever waits for it or has given up on it, and all names together have a bounded number:
//!   threads are left for others, files among them.
//! * Nothing is kept: whoever asks after a lookup has ended is answered by a new one.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

/// Most lookups under way: well under the 512 threads that a runtime has for what blocks.
const LOOKUPS_MAX: usize = 64;

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
    room: Arc<Semaphore>,
}

impl SharedLookup {
    pub(super) fn new(inner: Arc<dyn NameLookup>) -> Self {
        let room = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { inner, under_way: Arc::default(), room }
    }

    /// The addresses of a name.
    pub(super) async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut answer = self.ask(name);
        let found = match answer.wait_for(Option::is_some).await {
            Ok(found) => found.clone(),
            Err(_) => None,
        };
        match found {
            Some(Ok(addresses)) => Ok(addresses),
            Some(Err((kind, reason))) => Err(io::Error::new(kind, reason)),
            None => Err(io::Error::other("the lookup broke off")),
        }
    }

    /// Joins the lookup of a name, or begins it.
    fn ask(&self, name: &str) -> Answer {
        let mut under_way = self.under_way.lock();
        if let Some(answer) = under_way.get(name) {
            return answer.clone();
        }
        let (tell, answer) = watch::channel(None);
        under_way.insert(name.to_owned(), answer.clone());
        let entry = Entry { lookup: self.clone(), name: name.to_owned(), listed: true };
        tokio::spawn(entry.run(tell));
        answer
    }
}

/// The entry of a lookup under way; it goes with the lookup, however that ends.
struct Entry {
    lookup: SharedLookup,
    name: String,
    listed: bool,
}

impl Entry {
    async fn run(mut self, tell: watch::Sender<Option<Found>>) {
        let Ok(room) = Arc::clone(&self.lookup.room).acquire_owned().await else { return };
        if self.is_given_up(&tell) {
            return;
        }
        let found = self.lookup.inner.lookup(&self.name).await;
        let found = found.map_err(|error| (error.kind(), error.to_string()));
        // Gone before it is answered: who asks from now on begins another.
        drop((self, room));
        tell.send_replace(Some(found));
    }

    /// Takes the entry away if nobody waits for it any more.
    fn is_given_up(&mut self, tell: &watch::Sender<Option<Found>>) -> bool {
        // Under the lock, so that nobody joins in between. The entry itself holds one.
        let mut under_way = self.lookup.under_way.lock();
        let given_up = tell.receiver_count() <= 1;
        if given_up {
            under_way.remove(&self.name);
            self.listed = false;
        }
        given_up
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.listed {
            self.lookup.under_way.lock().remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

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
    async fn give_up(lookup: &SharedLookup, name: &str) {
        let wait = tokio::time::timeout(Duration::from_secs(1), lookup.lookup(name));
        assert!(wait.await.is_err(), "{name} hangs");
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_hangs_has_one_lookup_under_way_whoever_gives_up() {
        let (toy, lookup) = toy();
        for _ in 0..100 {
            give_up(&lookup, "slow").await;
        }
        assert_eq!(toy.begun.load(Ordering::SeqCst), 1);
        lookup.lookup("quick").await.expect("not held up");
        let (one, other) = (lookup.clone(), lookup.clone());
        let both =
            tokio::spawn(async move { tokio::join!(one.lookup("slow"), other.lookup("slow")) });
        tokio::task::yield_now().await;
        toy.go.add_permits(1);
        let (one, other) = both.await.expect("no panic");
        assert_eq!(one.expect("found"), other.expect("found"));
        toy.go.add_permits(1);
        lookup.lookup("slow").await.expect("a new one");
        assert_eq!(toy.begun.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn lookups_are_bounded_and_what_nobody_waits_for_is_not_begun() {
        let (toy, lookup) = toy();
        let names: Vec<String> = (0..500).map(|n| format!("slow{n}")).collect();
        let wait = names.iter().map(|name| give_up(&lookup, name));
        futures_util::future::join_all(wait).await;
        assert_eq!(toy.begun.load(Ordering::SeqCst), LOOKUPS_MAX);
        toy.go.add_permits(LOOKUPS_MAX);
        lookup.lookup("quick").await.expect("there is room again");
        assert_eq!(toy.begun.load(Ordering::SeqCst), LOOKUPS_MAX + 1);
        assert!(lookup.under_way.lock().is_empty());
    }

    #[tokio::test]
    async fn what_is_not_found_is_told_to_all() {
        let (_, lookup) = toy();
        let (one, other) = tokio::join!(lookup.lookup("nobody"), lookup.lookup("nobody"));
        let kinds = [one, other].map(|found| found.expect_err("nobody").kind());
        assert_eq!(kinds, [io::ErrorKind::NotFound; 2]);
    }
}
