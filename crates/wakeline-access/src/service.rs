//! Says who a request is from.

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
use crate::jwt::{Jwt, JwtMistake, JwtOptions};
use crate::key::{self, MintedKey};
use lookups::{Look, Remembered};

/// How long a node goes by what it read of a key.
pub const REMEMBERED: Duration = Duration::from_secs(5);

/// How long it goes on with that while the store cannot be reached.
const REMEMBERED_WITHOUT_STORE: Duration = Duration::from_secs(60);
/// A key's use is noted once in so long.
const NOTED: Duration = Duration::from_secs(60);
/// Most keys, and most partitions, that are remembered; beyond it all are forgotten. What is not
/// a key is remembered apart: who makes keys up has no real one forgotten.
const REMEMBERED_MAX: usize = 10_000;
/// Longest wait for a look at the store.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most looks at once for what may be made up: it cannot keep the store busy.
const UNKNOWN_LOOKS_MAX: usize = 4;
/// Most looks at once for keys that were valid when they were last read. They never wait for the
/// others.
const KNOWN_LOOKS_MAX: usize = 4;
/// The audit is looked through for old entries once in so long, when something is added to it.
const PRUNED: Duration = Duration::from_secs(3600);
/// So many old entries go at a time.
const PRUNE_LEN: u32 = 1000;

/// How callers are told apart.
#[derive(Debug, Clone, Default)]
pub struct AccessOptions {
    /// A key that allows everything.
    pub api_key: Option<String>,
    /// Tokens; `None` takes none.
    pub jwt: Option<JwtOptions>,
    /// How long audit entries are kept; `None` for ever.
    pub audit_retention: Option<Duration>,
}

/// Why a request is from nobody.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// It bears nothing, and this server asks for something.
    #[error("the request has no credentials")]
    Nothing,
    /// What it bears is not valid. The reason may be told to the caller: it says nothing of what
    /// others have.
    #[error("{0}")]
    Invalid(&'static str),
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A key to make.
#[derive(Debug, Clone)]
pub struct KeyRequest {
    /// What people call it.
    pub name: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// How long it is valid; `None` for ever.
    pub valid_for: Option<Duration>,
}

/// Says who requests are from. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn AccessStore>,
    api_key: Option<String>,
    jwt: Option<Jwt>,
    audit_retention: Option<Duration>,
    /// Whether nobody has to say who they are.
    open: AtomicBool,
    anyone: Caller,
    settings: Caller,
    known: Mutex<Remembered>,
    known_looks: Semaphore,
    unknown_looks: Semaphore,
    /// One look at a time for each key, whoever waits for it.
    looking: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    noted: Mutex<HashMap<String, Instant>>,
    queues: Mutex<HashMap<PartitionId, QueueName>>,
    groups: Mutex<HashMap<GroupId, GroupName>>,
    pruned: Mutex<Option<Instant>>,
}

/// What was read of a key; nothing, if there is none.
#[derive(Clone)]
struct Known {
    key: Option<Arc<KnownKey>>,
    read: Instant,
}

struct KnownKey {
    caller: Caller,
    digest: SecretDigest,
    /// The former secret, and how long after the reading it is valid.
    former: Option<(SecretDigest, Duration)>,
    /// How long after the reading the key is valid.
    valid_for: Option<Duration>,
}

impl Access {
    /// Begins. Without a key in the settings, without tokens, and as long as the store has had no
    /// key, everybody may do everything.
    pub async fn start(
        store: Arc<dyn AccessStore>,
        options: AccessOptions,
    ) -> Result<Self, StoreError> {
        let jwt = options.jwt.map(Jwt::new);
        let closed = options.api_key.is_some() || jwt.is_some() || !store.keys().await?.is_empty();
        Ok(Self {
            inner: Arc::new(Inner {
                store,
                api_key: options.api_key,
                jwt,
                audit_retention: options.audit_retention,
                open: AtomicBool::new(!closed),
                anyone: Caller::anyone(),
                settings: Caller::of_settings(),
                known: Mutex::default(),
                known_looks: Semaphore::new(KNOWN_LOOKS_MAX),
                unknown_looks: Semaphore::new(UNKNOWN_LOOKS_MAX),
                looking: Mutex::default(),
                noted: Mutex::default(),
                queues: Mutex::default(),
                groups: Mutex::default(),
                pruned: Mutex::default(),
            }),
        })
    }

    /// Whether nobody has to say who they are.
    pub fn is_open(&self) -> bool {
        self.inner.open.load(Ordering::Relaxed)
    }

    /// The store, for reading.
    pub fn store(&self) -> &Arc<dyn AccessStore> {
        &self.inner.store
    }

    /// Who bears these credentials.
    pub async fn authenticate(&self, bearer: Option<&[u8]>) -> Result<Caller, Denied> {
        let inner = &self.inner;
        let open = self.is_open();
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
                jwt.verify(bearer).await.map_err(|JwtMistake(why)| Denied::Invalid(why))
            }
            // Who is let in without credentials is let in with any.
            _ if open => Ok(inner.anyone.clone()),
            _ => {
                Err(Denied::Invalid("the credentials are neither a key of this server nor a token"))
            }
        }
    }

    async fn by_key(&self, id: &str, digest: &SecretDigest) -> Result<Caller, Denied> {
        let known = self.known(id).await?;
        let unknown = Denied::Invalid("the key is unknown or revoked");
        let Some(key) = &known.key else { return Err(unknown) };
        let since = known.read.elapsed();
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
        // There are keys after all.
        self.inner.open.store(false, Ordering::Relaxed);
        self.note(id);
        Ok(key.caller.clone())
    }

    async fn known(&self, id: &str) -> Result<Known, Denied> {
        let fresh = |known: &Known| known.read.elapsed() < REMEMBERED;
        let remembered = || self.inner.known.lock().get(id).cloned();
        if let Some(known) = remembered().filter(fresh) {
            return Ok(known);
        }
        let inner = &*self.inner;
        let existed = remembered().is_some_and(|known| known.key.is_some());
        let looks = if existed { &inner.known_looks } else { &inner.unknown_looks };
        let read = async {
            let look = Look::begin(inner, id);
            let _alone = look.turn.lock().await;
            // Whoever went before may have read it.
            if let Some(known) = remembered().filter(fresh) {
                return Ok(known);
            }
            let _look = looks.acquire().await.expect("never closed");
            self.look(id).await
        };
        let busy = || StoreError::Unavailable { operation: "key", source: "too many asked".into() };
        let read = timeout(PATIENCE, read).await.unwrap_or_else(|_| Err(busy()));
        match (read, remembered()) {
            (Err(_), Some(old)) if old.read.elapsed() < REMEMBERED_WITHOUT_STORE => Ok(old),
            (read, _) => Ok(read?),
        }
    }

    async fn look(&self, id: &str) -> Result<Known, StoreError> {
        let read = Instant::now();
        let key = self.inner.store.key(id).await?;
        let key = key.filter(|key| key.revoked_at.is_none()).map(|key| Arc::new(known(key)));
        let known = Known { key, read };
        self.inner.known.lock().insert(id, known.clone());
        Ok(known)
    }

    /// Has the use of a key noted, off the way of the request.
    fn note(&self, id: &str) {
        let now = Instant::now();
        let mut noted = self.inner.noted.lock();
        if noted.get(id).is_some_and(|last| now.duration_since(*last) < NOTED) {
            return;
        }
        if noted.len() >= REMEMBERED_MAX {
            noted.clear();
        }
        noted.insert(id.to_owned(), now);
        let (store, id) = (Arc::clone(&self.inner.store), id.to_owned());
        tokio::spawn(async move {
            if let Err(error) = store.touch_keys(vec![id]).await {
                tracing::debug!(error = error_chain(&error), "a key's last use was not written");
            }
        });
    }

    /// Makes a key. `None` if a live one has its name.
    pub async fn create_key(&self, request: KeyRequest) -> Result<Option<MintedKey>, StoreError> {
        let minted = create_key(self.inner.store.as_ref(), request).await?;
        if minted.is_some() {
            self.inner.open.store(false, Ordering::Relaxed);
        }
        Ok(minted)
    }

    /// Ends a key. False if there is none to end.
    pub async fn revoke_key(&self, id: &str) -> Result<bool, StoreError> {
        let revoked = self.inner.store.revoke_key(id).await;
        // Also after an error: it may have happened.
        self.inner.known.lock().forget(id);
        revoked
    }

    /// Gives a key another secret. `None` if there is none, or it is revoked.
    pub async fn rotate_key(
        &self,
        id: &str,
        overlap: Duration,
    ) -> Result<Option<MintedKey>, StoreError> {
        let minted = rotate_key(self.inner.store.as_ref(), id, overlap).await;
        self.inner.known.lock().forget(id);
        minted
    }

    /// The queues of partitions, in order. A partition never changes its queue, so what was read
    /// once stands.
    pub async fn queues_of(
        &self,
        partitions: &[PartitionId],
    ) -> Result<Vec<Option<QueueName>>, StoreError> {
        let read = |wanted| self.inner.store.queues_of(wanted);
        remembered(&self.inner.queues, partitions, read).await
    }

    /// The names of groups, in order. A group never changes its name, so what was read once stands.
    pub async fn groups_of(
        &self,
        groups: &[GroupId],
    ) -> Result<Vec<Option<GroupName>>, StoreError> {
        let read = |wanted| self.inner.store.groups_of(wanted);
        remembered(&self.inner.groups, groups, read).await
    }

    /// Removes old entries of the audit once in a while. Meant to be called when one was added.
    pub fn prune_audit(&self) {
        let Some(retention) = self.inner.audit_retention else { return };
        let mut pruned = self.inner.pruned.lock();
        if pruned.is_some_and(|last| last.elapsed() < PRUNED) {
            return;
        }
        *pruned = Some(Instant::now());
        let store = Arc::clone(&self.inner.store);
        tokio::spawn(async move {
            let most = u64::from(PRUNE_LEN);
            while store.prune_audit(retention, PRUNE_LEN).await.is_ok_and(|gone| gone == most) {}
        });
    }
}

/// What is known of some things, in their order; what is not is read.
async fn remembered<K, V, F>(
    known: &Mutex<HashMap<K, V>>,
    things: &[K],
    read: impl FnOnce(Vec<K>) -> F,
) -> Result<Vec<Option<V>>, StoreError>
where
    K: Copy + Ord + Hash,
    V: Clone,
    F: Future<Output = Result<Vec<Option<V>>, StoreError>>,
{
    let mut wanted: Vec<K> = {
        let known = known.lock();
        things.iter().filter(|one| !known.contains_key(one)).copied().collect()
    };
    wanted.sort_unstable();
    wanted.dedup();
    let found = match wanted.is_empty() {
        true => Vec::new(),
        false => read(wanted.clone()).await?,
    };
    let mut known = known.lock();
    if known.len() + found.len() > REMEMBERED_MAX {
        // What is asked for now must still be there below.
        known.retain(|one, _| things.contains(one));
    }
    let pairs = wanted.into_iter().zip(found);
    known.extend(pairs.filter_map(|(one, name)| Some((one, name?))));
    Ok(things.iter().map(|one| known.get(one).cloned()).collect())
}

/// Makes a key in a store. `None` if a live one has its name.
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

fn known(key: ApiKey) -> KnownKey {
    let left = |until: Timestamp| {
        Duration::from_micros(u64::try_from(until.0 - key.read_at.0).unwrap_or(0))
    };
    let actor = format!("key:{}", key.name);
    KnownKey {
        digest: key.digest,
        former: key.former.map(|(digest, until)| (digest, left(until))),
        valid_for: key.expires_at.map(left),
        caller: Caller::new(actor.clone(), Some(actor), Scopes::new(key.scopes)),
    }
}

#[cfg(test)]
mod tests;
