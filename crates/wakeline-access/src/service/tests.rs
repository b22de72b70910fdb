//! The cache of keys on a node.

use wakeline_core::{Realm, Verb};
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::oracle::MemoryStore;

use super::*;

fn request(name: &str) -> KeyRequest {
    let scopes = vec!["queue:push:orders.*".parse().expect("a scope")];
    KeyRequest { name: name.to_owned(), scopes, valid_for: None }
}

async fn start(store: Arc<dyn AccessStore>) -> Access {
    let options = AccessOptions { api_key: Some("root".into()), ..AccessOptions::default() };
    Access::start(store, options).await.expect("the oracle answers")
}

async fn who(access: &Access, bearer: &str) -> Option<String> {
    let caller = access.authenticate(Some(bearer.as_bytes())).await;
    caller.ok().map(|caller| caller.actor().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_key_identifies_its_bearer_and_permissions() {
    let access = start(Arc::new(MemoryStore::with_tokio_clock())).await;
    let minted = access.create_key(request("ci")).await.expect("answered").expect("made");
    let caller = access.authenticate(Some(minted.text.as_bytes())).await.expect("known");
    assert_eq!((caller.actor(), caller.producer()), ("key:ci", Some("key:ci")));
    assert!(caller.scopes().allow(Realm::Queue, Verb::Push, "orders.new"));
    assert!(!caller.scopes().allow(Realm::Queue, Verb::Pop, "orders.new"));
    assert_eq!(who(&access, "root").await.as_deref(), Some("api_key"));
    let other = MintedKey::with_id(minted.id.clone());
    for wrong in [other.text.as_str(), "wk_", "roo", "root2", "", "a.b.c"] {
        assert_eq!(who(&access, wrong).await, None, "{wrong}");
    }
    assert!(matches!(access.authenticate(None).await, Err(Denied::Nothing)));
    assert!(access.create_key(request("ci")).await.expect("answered").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_revoked_elsewhere_ends_within_seconds_and_here_at_once() {
    let store: Arc<dyn AccessStore> = Arc::new(MemoryStore::with_tokio_clock());
    let (here, there) = (start(store.clone()).await, start(store).await);
    let minted = here.create_key(request("ci")).await.expect("answered").expect("made");
    assert!(who(&here, &minted.text).await.is_some() && who(&there, &minted.text).await.is_some());
    assert!(here.revoke_key(&minted.id).await.expect("revoked"));
    assert_eq!(who(&here, &minted.text).await, None);
    tokio::time::advance(KEY_CACHE_TTL).await;
    assert_eq!(who(&there, &minted.text).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_read_once_in_a_while_however_often_it_is_used() {
    let store = Arc::new(FaultingStore::new(Arc::new(MemoryStore::with_tokio_clock())));
    let access = start(store.clone()).await;
    let minted = access.create_key(request("ci")).await.expect("answered").expect("made");
    let reads = |store: &FaultingStore| {
        store.calls().iter().filter(|operation| **operation == "key").count()
    };
    for _ in 0..100 {
        assert!(who(&access, &minted.text).await.is_some());
    }
    assert_eq!(reads(&store), 1);
    // Made-up keys are not looked up repeatedly either.
    let unknown = MintedKey::new();
    for _ in 0..100 {
        assert_eq!(who(&access, &unknown.text).await, None);
    }
    assert_eq!(reads(&store), 2);
    tokio::time::advance(KEY_CACHE_TTL).await;
    tokio::task::yield_now().await;
    assert_eq!(reads(&store), 2, "without requests the store is not read");
    let many = (0..50).map(|_| {
        let (access, text) = (access.clone(), minted.text.clone());
        tokio::spawn(async move { who(&access, &text).await })
    });
    for one in many.collect::<Vec<_>>() {
        assert!(one.await.expect("no panic").is_some());
    }
    assert_eq!(reads(&store), 3);
    let touches = store.calls().iter().filter(|operation| **operation == "touch_keys").count();
    assert_eq!(touches, 1, "use is recorded once a minute");
}

#[tokio::test(start_paused = true)]
async fn secrets_and_keys_end_when_they_should() {
    let access = start(Arc::new(MemoryStore::with_tokio_clock())).await;
    let valid_for = Some(Duration::from_secs(100));
    let brief = KeyRequest { valid_for, ..request("brief") };
    let first = access.create_key(brief).await.expect("answered").expect("made");
    let overlap = Duration::from_secs(50);
    let second = access.rotate_key(&first.id, overlap).await.expect("answered").expect("rotated");
    let both = async || (who(&access, &first.text).await, who(&access, &second.text).await);
    let is = |known: &(Option<String>, Option<String>)| (known.0.is_some(), known.1.is_some());
    assert_eq!(is(&both().await), (true, true));
    // A key expires whether or not it is cached.
    tokio::time::advance(Duration::from_secs(47)).await;
    assert_eq!(is(&both().await), (true, true));
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(is(&both().await), (false, true));
    tokio::time::advance(Duration::from_secs(50)).await;
    assert_eq!(is(&both().await), (false, false));
}

#[tokio::test(start_paused = true)]
async fn cached_keys_work_for_a_while_when_the_store_is_unavailable() {
    let store = Arc::new(FaultingStore::new(Arc::new(MemoryStore::with_tokio_clock())));
    let access = start(store.clone()).await;
    let minted = access.create_key(request("ci")).await.expect("answered").expect("made");
    assert!(who(&access, &minted.text).await.is_some());
    for (fault, secs, known) in [(Fault::Before, 5, true), (Fault::HangBefore, 5, true)] {
        tokio::time::advance(Duration::from_secs(secs)).await;
        store.fail_operation("key", 1, fault);
        assert_eq!(who(&access, &minted.text).await.is_some(), known, "{fault:?}");
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    store.fail_operation("key", 1, Fault::Before);
    let result = access.authenticate(Some(minted.text.as_bytes())).await;
    assert!(
        matches!(result, Err(Denied::Store(_))),
        "the request is neither authenticated nor refused"
    );
    assert!(who(&access, &minted.text).await.is_some());
}

#[tokio::test]
async fn a_server_is_open_until_there_is_a_key() {
    let store: Arc<dyn AccessStore> = Arc::new(MemoryStore::new());
    let start =
        |store: &Arc<dyn AccessStore>| Access::start(Arc::clone(store), AccessOptions::default());
    let (one, two) = (start(&store).await.expect("open"), start(&store).await.expect("open"));
    let open = async |access: &Access| access.authenticate(None).await.is_ok();
    assert!(open(&one).await && open(&two).await && who(&one, "anything").await.is_some());
    let minted = one.create_key(request("ci")).await.expect("answered").expect("made");
    assert!(!open(&one).await);
    // Another node learns about it when the key is first used there, or when it starts.
    assert!(who(&two, &minted.text).await.is_some());
    assert!(!open(&two).await);
    one.revoke_key(&minted.id).await.expect("revoked");
    let later = start(&store).await.expect("started");
    assert!(!open(&later).await, "a store that has had keys is never open again");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_keys_neither_delays_a_known_one_nor_prolongs_its_life() {
    let store = Arc::new(FaultingStore::new(Arc::new(MemoryStore::with_tokio_clock())));
    let (access, elsewhere) = (start(store.clone()).await, start(store.clone()).await);
    let valid = access.create_key(request("valid")).await.expect("answered").expect("made");
    let revoked = access.create_key(request("revoked")).await.expect("answered").expect("made");
    assert!(who(&access, &valid.text).await.is_some());
    assert!(who(&access, &revoked.text).await.is_some());
    elsewhere.revoke_key(&revoked.id).await.expect("revoked");
    tokio::time::advance(KEY_CACHE_TTL).await;
    // Every lookup of a made-up key hangs: they use all the permits for such lookups.
    for n in 1..=UNKNOWN_LOOKUPS_MAX {
        store.fail_operation("key", n as u64, Fault::HangBefore);
    }
    let flood: Vec<_> = (0..100)
        .map(|_| {
            let (access, made_up) = (access.clone(), MintedKey::new());
            tokio::spawn(async move { who(&access, &made_up.text).await })
        })
        .collect();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    assert!(who(&access, &valid.text).await.is_some());
    assert_eq!(who(&access, &revoked.text).await, None, "its time is over, flood or not");
    assert_eq!(began.elapsed(), Duration::ZERO, "they do not wait");
    for one in flood {
        assert_eq!(one.await.expect("no panic"), None);
    }
    assert!(access.inner.lookups_in_flight.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn made_up_keys_do_not_evict_real_ones() {
    let access = start(Arc::new(MemoryStore::with_tokio_clock())).await;
    let valid = access.create_key(request("valid")).await.expect("answered").expect("made");
    assert!(who(&access, &valid.text).await.is_some());
    for _ in 0..CACHE_LEN_MAX + 10 {
        assert_eq!(who(&access, &MintedKey::new().text).await, None);
    }
    let cached = access.inner.keys.lock();
    assert!(cached.keys.contains_key(&valid.id) && cached.absent.len() < 100);
}
