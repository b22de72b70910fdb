//! Authenticates requests.

mod lookups;

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use wakeline_core::{
    GroupId, GroupName, PartitionId, QueueName, Scope, Scopes, Timestamp, error_chain,
};
use wakeline_store::{AccessStore, ApiKey, NewKey, SecretDigest, StoreError};

use crate::caller::Caller;
use crate::jwt::{Jwt, JwtError, JwtOptions};
use crate::key::{self, MintedKey};
use lookups::{KeyCache, KeyLookup};

/// How long a node uses the cached state of a key.
pub const KEY_CACHE_TTL: Duration = Duration::from_secs(5);

/// How long it uses the cached state while the store cannot be reached.
const KEY_CACHE_TTL_WITHOUT_STORE: Duration = Duration::from_secs(60);
/// The use of a key is recorded once in this time.
const USE_RECORDED_EVERY: Duration = Duration::from_secs(60);
/// The maximum number of cached keys, and of cached partitions; when it is exceeded, the cache is
/// cleared. Ids that are not keys are cached separately, so that requests with made-up keys cannot
/// evict real ones.
const CACHE_LEN_MAX: usize = 10_000;
/// The maximum time of a lookup in the store.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of concurrent lookups of ids that may be made up, so that they cannot keep
/// the store busy.
const UNKNOWN_LOOKUPS_MAX: usize = 4;
/// The maximum number of concurrent lookups of keys that were valid when they were last read. They
/// never wait for the other lookups.
const KNOWN_LOOKUPS_MAX: usize = 4;
/// Old audit events are removed once in this time, when an event is added.
const AUDIT_PRUNED_EVERY: Duration = Duration::from_secs(3600);
/// The number of audit events that are removed at a time.
const AUDIT_PRUNE_LEN: u32 = 1000;

/// How callers are authenticated.
#[derive(Debug, Clone, Default)]
pub struct AccessOptions {
    /// A key that allows everything.
    pub api_key: Option<String>,
    /// The settings of tokens; with `None` no tokens are accepted.
    pub jwt: Option<JwtOptions>,
    /// How long audit events are kept; with `None` they are never removed.
    pub audit_retention: Option<Duration>,
}

/// The reason why a request was not authenticated.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// The request has no credentials, and this server requires some.
    #[error("the request has no credentials")]
    Nothing,
    /// The credentials are not valid. The reason may be returned to the caller, because it reveals
    /// nothing about others.
    #[error("{0}")]
    Invalid(&'static str),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The parameters of a new key.
#[derive(Debug, Clone)]
pub struct KeyRequest {
    /// A name for people.
    pub name: String,
    /// What the key allows.
    pub scopes: Vec<Scope>,
    /// How long the key is valid; with `None` it does not expire.
    pub valid_for: Option<Duration>,
}

/// Authenticates requests. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    inner: Arc<AccessInner>,
}

struct AccessInner {
    store: Arc<dyn AccessStore>,
    api_key: Option<String>,
    jwt: Option<Jwt>,
    audit_retention: Option<Duration>,
    /// Whether requests without credentials are accepted.
    open: AtomicBool,
    anyone: Caller,
    settings: Caller,
    keys: Mutex<KeyCache>,
    known_lookups: Semaphore,
    unknown_lookups: Semaphore,
    /// Only one lookup at a time runs for each key, however many requests wait for it.
    lookups_in_flight: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    use_recorded_at: Mutex<HashMap<String, Instant>>,
    queues: Mutex<HashMap<PartitionId, QueueName>>,
    groups: Mutex<HashMap<GroupId, GroupName>>,
    audit_pruned_at: Mutex<Option<Instant>>,
}

/// What was read about a key id; `key` is `None` if there is no such key.
#[derive(Clone)]
struct CachedLookup {
    key: Option<Arc<CachedKey>>,
    read: Instant,
}

struct CachedKey {
    caller: Caller,
    digest: SecretDigest,
    /// The former secret, and how long after the lookup it is valid.
    former: Option<(SecretDigest, Duration)>,
    /// How long after the lookup the key is valid.
    valid_for: Option<Duration>,
}

impl Access {
    /// Starts the service. If there is no key in the settings, tokens are not accepted, and the
    /// store has never had a key, all callers may do everything.
    pub async fn start(
        store: Arc<dyn AccessStore>,
        options: AccessOptions,
    ) -> Result<Self, StoreError> {
        let jwt = options.jwt.map(Jwt::new);
        let closed = options.api_key.is_some() || jwt.is_some() || !store.keys().await?.is_empty();
        Ok(Self {
            inner: Arc::new(AccessInner {
                store,
                api_key: options.api_key,
                jwt,
                audit_retention: options.audit_retention,
                open: AtomicBool::new(!closed),
                anyone: Caller::anyone(),
                settings: Caller::of_settings(),
                keys: Mutex::default(),
                known_lookups: Semaphore::new(KNOWN_LOOKUPS_MAX),
                unknown_lookups: Semaphore::new(UNKNOWN_LOOKUPS_MAX),
                lookups_in_flight: Mutex::default(),
                use_recorded_at: Mutex::default(),
                queues: Mutex::default(),
                groups: Mutex::default(),
                audit_pruned_at: Mutex::default(),
            }),
        })
    }

    /// Returns whether requests without credentials are accepted.
    pub fn allows_anonymous(&self) -> bool {
        self.inner.open.load(Ordering::Relaxed)
    }

    /// Returns the store, for reading.
    pub fn store(&self) -> &Arc<dyn AccessStore> {
        &self.inner.store
    }

    /// Returns the caller that bears these credentials.
    pub async fn authenticate(&self, bearer: Option<&[u8]>) -> Result<Caller, Denied> {
        let inner = &self.inner;
        let open = self.allows_anonymous();
        let Some(bearer) = bearer else {
            return if open { Ok(inner.anyone.clone()) } else { Err(Denied::Nothing) };
        };
        if let Some(own) = &inner.api_key
            && bool::from(bearer.ct_eq(own.as_bytes()))
        {
            return Ok(inner.settings.clone());
        }
        let bearer = std::str::from_utf8(bearer)
            .map_err(|_| Denied::Invalid("the credentials are not text"))?;
        if let Some((id, digest)) = key::parse(bearer) {
            return self.by_key(id, &digest).await;
        }
        match &inner.jwt {
            Some(jwt) if bearer.contains('.') => {
                jwt.verify(bearer).await.map_err(|JwtError(why)| Denied::Invalid(why))
            }
            // If requests without credentials are accepted, so are those with any credentials.
            _ if open => Ok(inner.anyone.clone()),
            _ => {
                Err(Denied::Invalid("the credentials are neither a key of this server nor a token"))
            }
        }
    }

    async fn by_key(&self, id: &str, digest: &SecretDigest) -> Result<Caller, Denied> {
        let lookup = self.lookup(id).await?;
        let unknown = Denied::Invalid("the key is unknown or revoked");
        let Some(key) = &lookup.key else { return Err(unknown) };
        let since = lookup.read.elapsed();
        let now = bool::from(key.digest.ct_eq(digest));
        let then = key.former.as_ref().is_some_and(|(former, valid_for)| {
            bool::from(former.ct_eq(digest)) && since < *valid_for
        });
        if !now && !then {
            return Err(unknown);
        }
        if key.valid_for.is_some_and(|valid_for| since >= valid_for) {
            return Err(Denied::Invalid("the key has expired"));
        }
        // The store has a key, which may have been created on another node.
        self.inner.open.store(false, Ordering::Relaxed);
        self.record_use(id);
        Ok(key.caller.clone())
    }

    async fn lookup(&self, id: &str) -> Result<CachedLookup, Denied> {
        let fresh = |lookup: &CachedLookup| lookup.read.elapsed() < KEY_CACHE_TTL;
        let cached = || self.inner.keys.lock().get(id).cloned();
        if let Some(lookup) = cached().filter(fresh) {
            return Ok(lookup);
        }
        let inner = &*self.inner;
        let existed = cached().is_some_and(|lookup| lookup.key.is_some());
        let lookups = if existed { &inner.known_lookups } else { &inner.unknown_lookups };
        let read = async {
            let lookup = KeyLookup::begin(inner, id);
            let _alone = lookup.lock.lock().await;
            // An earlier lookup may have read it.
            if let Some(lookup) = cached().filter(fresh) {
                return Ok(lookup);
            }
            let _permit = lookups.acquire().await.expect("never closed");
            self.read_key(id).await
        };
        let busy = || StoreError::Unavailable {
            operation: "key",
            source: "too many lookups of API keys are in progress".into(),
        };
        let read = timeout(LOOKUP_TIMEOUT, read).await.unwrap_or_else(|_| Err(busy()));
        match (read, cached()) {
            (Err(_), Some(old)) if old.read.elapsed() < KEY_CACHE_TTL_WITHOUT_STORE => Ok(old),
            (read, _) => Ok(read?),
        }
    }

    async fn read_key(&self, id: &str) -> Result<CachedLookup, StoreError> {
        let read = Instant::now();
        let key = self.inner.store.key(id).await?;
        let key = key.filter(|key| key.revoked_at.is_none()).map(|key| Arc::new(cached_key(key)));
        let lookup = CachedLookup { key, read };
        self.inner.keys.lock().insert(id, lookup.clone());
        Ok(lookup)
    }

    /// Records the use of a key in the background, without delaying the request.
    fn record_use(&self, id: &str) {
        let now = Instant::now();
        let mut use_recorded_at = self.inner.use_recorded_at.lock();
        if use_recorded_at
            .get(id)
            .is_some_and(|last| now.duration_since(*last) < USE_RECORDED_EVERY)
        {
            return;
        }
        if use_recorded_at.len() >= CACHE_LEN_MAX {
            use_recorded_at.clear();
        }
        use_recorded_at.insert(id.to_owned(), now);
        let (store, id) = (Arc::clone(&self.inner.store), id.to_owned());
        tokio::spawn(async move {
            if let Err(error) = store.touch_keys(vec![id]).await {
                tracing::debug!(
                    error = error_chain(&error),
                    "the time of a key's last use could not be stored"
                );
            }
        });
    }

    /// Creates a key. Returns `None` if a live key has the same name.
    pub async fn create_key(&self, request: KeyRequest) -> Result<Option<MintedKey>, StoreError> {
        let minted = create_key(self.inner.store.as_ref(), request).await?;
        if minted.is_some() {
            self.inner.open.store(false, Ordering::Relaxed);
        }
        Ok(minted)
    }

    /// Revokes a key. Returns false if there is no such key.
    pub async fn revoke_key(&self, id: &str) -> Result<bool, StoreError> {
        let revoked = self.inner.store.revoke_key(id).await;
        // The entry is removed also after an error, because the key may have been revoked.
        self.inner.keys.lock().forget(id);
        revoked
    }

    /// Gives a key a new secret. Returns `None` if there is no such key, or it is revoked.
    pub async fn rotate_key(
        &self,
        id: &str,
        overlap: Duration,
    ) -> Result<Option<MintedKey>, StoreError> {
        let minted = rotate_key(self.inner.store.as_ref(), id, overlap).await;
        self.inner.keys.lock().forget(id);
        minted
    }

    /// Returns the queues of partitions, in order. A partition never changes its queue, so cached
    /// values stay valid.
    pub async fn queues_of(
        &self,
        partitions: &[PartitionId],
    ) -> Result<Vec<Option<QueueName>>, StoreError> {
        let read = |wanted| self.inner.store.queues_of(wanted);
        cached(&self.inner.queues, partitions, read).await
    }

    /// Returns the names of groups, in order. A group never changes its name, so cached values stay
    /// valid.
    pub async fn groups_of(
        &self,
        groups: &[GroupId],
    ) -> Result<Vec<Option<GroupName>>, StoreError> {
        let read = |wanted| self.inner.store.groups_of(wanted);
        cached(&self.inner.groups, groups, read).await
    }

    /// Removes old audit events at intervals. It is meant to be called when an event was added.
    pub fn prune_audit(&self) {
        let Some(retention) = self.inner.audit_retention else { return };
        let mut audit_pruned_at = self.inner.audit_pruned_at.lock();
        if audit_pruned_at.is_some_and(|last| last.elapsed() < AUDIT_PRUNED_EVERY) {
            return;
        }
        *audit_pruned_at = Some(Instant::now());
        let store = Arc::clone(&self.inner.store);
        tokio::spawn(async move {
            let most = u64::from(AUDIT_PRUNE_LEN);
            while store.prune_audit(retention, AUDIT_PRUNE_LEN).await.is_ok_and(|gone| gone == most)
            {
            }
        });
    }
}

/// Returns the values of some ids, in order. Those that are not cached are read.
async fn cached<K, V, F>(
    cache: &Mutex<HashMap<K, V>>,
    ids: &[K],
    read: impl FnOnce(Vec<K>) -> F,
) -> Result<Vec<Option<V>>, StoreError>
where
    K: Copy + Ord + Hash,
    V: Clone,
    F: Future<Output = Result<Vec<Option<V>>, StoreError>>,
{
    let mut wanted: Vec<K> = {
        let cache = cache.lock();
        ids.iter().filter(|one| !cache.contains_key(one)).copied().collect()
    };
    wanted.sort_unstable();
    wanted.dedup();
    let found = if wanted.is_empty() { Vec::new() } else { read(wanted.clone()).await? };
    let mut cache = cache.lock();
    if cache.len() + found.len() > CACHE_LEN_MAX {
        // The values that are returned below must stay.
        cache.retain(|one, _| ids.contains(one));
    }
    let pairs = wanted.into_iter().zip(found);
    cache.extend(pairs.filter_map(|(one, name)| Some((one, name?))));
    Ok(ids.iter().map(|one| cache.get(one).cloned()).collect())
}

/// Creates a key in a store. Returns `None` if a live key has the same name.
pub(crate) async fn create_key(
    store: &dyn AccessStore,
    request: KeyRequest,
) -> Result<Option<MintedKey>, StoreError> {
    let KeyRequest { name, scopes, valid_for } = request;
    let minted = MintedKey::new();
    let (id, digest) = (minted.id.clone(), minted.digest);
    let made = store.create_key(NewKey { id, name, scopes, digest, valid_for }).await?;
    Ok(made.then_some(minted))
}

async fn rotate_key(
    store: &dyn AccessStore,
    id: &str,
    overlap: Duration,
) -> Result<Option<MintedKey>, StoreError> {
    let minted = MintedKey::with_id(id.to_owned());
    let rotated = store.rotate_key(id, minted.digest, overlap).await?;
    Ok(rotated.then_some(minted))
}

fn cached_key(key: ApiKey) -> CachedKey {
    let left = |until: Timestamp| {
        Duration::from_micros(u64::try_from(until.0 - key.read_at.0).unwrap_or(0))
    };
    let actor = format!("key:{}", key.name);
    CachedKey {
        digest: key.digest,
        former: key.former.map(|(digest, until)| (digest, left(until))),
        valid_for: key.expires_at.map(left),
        caller: Caller::new(actor.clone(), Some(actor), Scopes::new(key.scopes)),
    }
}

#[cfg(test)]
mod tests;
